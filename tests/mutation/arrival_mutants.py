"""The guards of delivery on arrival, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

TIMES = "tests/unit/engine/delivery/test_call_times.py"
DELIVERED = "tests/scenario/test_delivery_on_arrival.py"
LONG = "tests/scenario/test_long_calls_on_arrival.py"
LEFT = "tests/scenario/test_left_to_the_invoker.py"
STORED = "tests/storage/test_delivery_on_arrival.py"
SPARE = "tests/unit/engine/runtime/test_spare_committer.py"
RESPONSES = "tests/scenario/test_responses_on_arrival.py"
ANSWERED = "tests/storage/test_responses_on_arrival.py"
WAITS = "tests/storage/test_executed_with_the_commit.py"
QUEUE = "tests/unit/engine/runtime/test_group_commit.py"
FIRST = "tests/storage/test_first_calls.py"
DIVIDED = "tests/unit/engine/runtime/test_divided_arrivals.py"


def arrival(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard that is removed."""
    return Mutant(f"delivery on arrival: {name}", (Change(f"mercury.engine.{symbol}", before, after),), test=test)


ARRIVALS = (
    arrival(
        "what is delivered is saved although all that arrived is refused",
        "destination.delivering:deliver",
        "batch.change_rmd(batch.rmds[name])",
        "batch.rmds[name]",
        f"{DELIVERED}::test_message_whose_delivery_a_stranger_sets_off_is_acknowledged_to_its_owner",
    ),
    arrival(
        "what a callback was called for is what was stored",
        "delivery.on_arrival:ArrivalRun.settle",
        "made.get((row.sequence, row.number)) is not row",
        "False",
        f"{RESPONSES}::test_callback_that_was_called_for_what_is_not_stored_is_undone_and_called_for_what_is",
    ),
    arrival(
        "what is stored is what the locked request says",
        "destination.messages:_accept",
        "if made is None or (made.action, made.relates_to, made.correlation, made.last) != depends:",
        "if made is None:",
        f"{RESPONSES}::test_callback_that_was_called_for_what_the_locked_request_does_not_say_is_undone_and_called_for_"
        "what_it_says",
    ),
    arrival(
        "callbacks are called before the requests are locked",
        "destination.reception:Reception._handle",
        "            if delivery is not None:\n"
        "                deliver(batch, exchanges, delivery)\n"
        "            batch.lock_sources(exchanges, () if delivery is None else delivery.keys)\n",
        "            batch.lock_sources(exchanges, () if delivery is None else delivery.keys)\n"
        "            if delivery is not None:\n"
        "                deliver(batch, exchanges, delivery)\n",
        f"{ANSWERED}::test_requests_are_sent_and_other_responses_received_while_a_callback_hangs",
    ),
    arrival(
        "a repeated response is not expected again",
        "destination.expected_responses:expected_responses",
        "if number < following:",
        "if False:",
        f"{ANSWERED}::test_responses_that_are_repeated_in_one_transaction_and_after_it_are_delivered_once",
    ),
    arrival(
        "a callback is not called for what another peer answers",
        "destination.expected_responses:_request",
        " if may_answer(single.arrival, request, None, record) else None",
        "",
        f"{RESPONSES}::test_callback_gets_no_response_of_a_peer_that_its_request_did_not_go_to",
    ),
    arrival(
        "a future is not resolved on arrival",
        "destination.expected_responses:_request",
        " or request.callback.startswith(FUTURE)",
        "",
        f"{RESPONSES}::test_future_is_not_resolved_by_the_thread_that_receives_its_response",
    ),
    arrival(
        "a future that waits is not resolved with what arrives",
        "delivery.on_arrival:ArrivalRun._plan",
        "not _has_future(row, requests)",
        "True",
        f"{RESPONSES}::test_future_is_not_resolved_by_the_thread_that_receives_its_response",
    ),
    arrival(
        "callbacks for several sequences share no transaction of the invoker",
        "delivery.several:SeveralBuffers._load",
        "each.service is not None and ",
        "",
        f"{ANSWERED}::test_responses_that_wait_in_several_buffers_are_consumed_with_their_requests",
    ),
    arrival(
        "what is never stored counts as received",
        "destination.reception:Reception._handle",
        "*([] if delivery is None else delivery.not_stored)",
        "",
        f"{DELIVERED}::test_message_that_is_never_stored_counts_as_received",
    ),
    arrival(
        "the requests of consumed responses go",
        "delivery.on_arrival:ArrivalRun.settle",
        "consume_requests(tx, run)",
        "pass",
        f"{RESPONSES}::test_response_is_consumed_with_its_request_in_the_transaction_that_receives_it",
    ),
    arrival(
        "the invoker ends for arrivals that wait",
        "delivery.invocation:InvocationWorker._call_all",
        "self._turns.is_wanted(run.record.sequence)",
        "False",
        f"{LEFT}::test_invoker_ends_its_transaction_after_a_call_for_arrivals_that_wait_for_the_buffer",
    ),
    arrival(
        "the invoker goes on while arrivals would only be stored",
        "delivery.invocation:InvocationWorker._call_all",
        "arrived - len(run.consumed) > MOST_BEFORE",
        "False",
        f"{LEFT}::test_invoker_goes_on_while_more_is_left_than_arrivals_are_delivered_with",
    ),
    arrival(
        "arrivals wait for no invoker that goes on",
        "delivery.turns:Turns._is_awaited",
        " and each not in self._going_on",
        "",
        f"{LEFT}::test_invoker_goes_on_while_more_is_left_than_arrivals_are_delivered_with",
    ),
    arrival(
        "the next thread is not taken for one that goes on",
        "delivery.turns:Turns.alone",
        "self._going_on.difference_update(mine)",
        "pass",
        "tests/unit/engine/delivery/test_turns_of_buffers.py"
        "::test_thread_that_goes_on_is_not_waited_for_and_the_next_one_is",
    ),
    arrival(
        "arrivals that wait are told that the invoker goes on",
        "delivery.turns:Turns.go_on",
        "self._freed.notify_all()",
        "pass",
        "tests/unit/engine/delivery/test_turns_of_buffers.py"
        "::test_thread_that_goes_on_is_not_waited_for_and_the_next_one_is",
    ),
    arrival(
        "the invoker stores responses together",
        "delivery.invocation:InvocationWorker._call_all",
        "not few and ",
        "",
        f"{LEFT}::test_invoker_stores_its_responses_together_although_arrivals_wait_for_the_buffer",
    ),
    arrival(
        "the invoker ends for arrivals that wait after many responses",
        "delivery.invocation:InvocationWorker._call_all",
        "0 < len(run.responses) < RESPONSES",
        "bool(run.responses)",
        f"{LEFT}::test_invoker_that_has_stored_many_responses_together_ends_for_arrivals_that_wait",
    ),
    arrival(
        "what is above the share is read from the store",
        "delivery.on_arrival:ArrivalRun._plan",
        "is_far_from_limits(self._context, tx, run, self._now)",
        "run.record.response_bytes < 2000",
        f"{LEFT}::test_requests_are_left_once_the_stored_responses_are_near_a_limit_and_not_above_the_share",
    ),
    arrival(
        "requests near the limit on stored responses wait",
        "delivery.response_backlog:is_far_from_limits",
        "return stored <= most",
        "return True",
        f"{LEFT}::test_requests_are_left_once_the_stored_responses_are_near_a_limit_and_not_above_the_share",
    ),
    arrival(
        "the invoker ends for arrivals that wait no longer",
        "delivery.turns:Turns.wait_for",
        "                self._wanted -= Counter(sequences)\n",
        "",
        f"{LEFT}::test_invoker_ends_its_transaction_after_a_call_for_arrivals_that_wait_for_the_buffer",
    ),
    arrival(
        "the claim is checked in the transaction",
        "delivery.on_arrival:ArrivalRun._save",
        "tx.guard(self.claims[run.record.sequence])",
        "pass",
        f"{LEFT}::test_claim_that_is_lost_during_the_calls_undoes_them",
    ),
    arrival(
        "what took long with the commit is measured with the next call",
        "delivery.on_arrival:ArrivalDelivery.ended",
        "self._measures = True",
        "pass",
        f"{WAITS}::test_after_a_commit_that_took_long_the_statement_of_the_next_handler_is_measured_with_its_call",
    ),
    arrival(
        "what handlers of several messages have left is executed at the end of each savepoint",
        "delivery.calls:call_all",
        "waits=waits and calls.is_one",
        "waits=waits",
        f"{WAITS}::test_statement_of_the_last_of_several_messages_is_executed_before_the_commit",
    ),
    arrival(
        "a lost claim is asked for again",
        "delivery.on_arrival:ArrivalDelivery.reserved",
        "self.context.claims.lost(claim)",
        "pass",
        f"{STORED}::test_suspension_during_a_call_undoes_it",
    ),
    arrival(
        "sequences that are suspended",
        "delivery.on_arrival:ArrivalRun.begin",
        " or name in suspended",
        "",
        f"{STORED}::test_no_handler_is_called_for_a_suspended_sequence_that_was_delivered_from",
    ),
    arrival(
        "the claim on a suspended sequence is asked for again",
        "delivery.on_arrival:ArrivalRun.begin",
        "self._context.claims.lost(self.claims[name])",
        "pass",
        f"{STORED}::test_no_handler_is_called_for_a_suspended_sequence_that_was_delivered_from",
    ),
    arrival(
        "a buffer without a claim is left alone",
        "claims:ClaimKeeper.take_all",
        "(claim := found.get(name)) is not None",
        "(claim := found.get(name)) is not self",
        f"{LEFT}::test_messages_of_a_sequence_that_another_process_delivers_from_are_stored_and_those_of_others_handled",
    ),
    arrival(
        "services that are paused",
        "delivery.on_arrival:ArrivalRun.begin",
        "record.service in paused or ",
        "",
        f"{STORED}::test_no_handler_of_a_paused_service_is_called_on_arrival",
    ),
    arrival(
        "what waits in the buffer comes first",
        "delivery.on_arrival:ArrivalRun.begin",
        "if waiting != request.machine.received.first_missing() - record.machine.next or waiting > MOST_BEFORE:",
        "if waiting > MOST_BEFORE:",
        f"{LEFT}::test_message_that_fills_a_gap_is_stored_with_those_behind_it",
    ),
    arrival(
        "only handlers that are known to be quick",
        "delivery.call_times:CallTimes.is_quick",
        "self._of_call.get(service, math.inf) <= longest",
        "True",
        f"{DELIVERED}::test_first_message_of_a_service_is_stored_because_nobody_knows_how_long_its_handler_takes",
    ),
    arrival(
        "first calls may take longer",
        "delivery.call_times:CallTimes.is_quick",
        "QUICK if service in self._begun else SLOW",
        "QUICK",
        f"{TIMES}::test_service_whose_first_calls_open_its_connections_may_be_quick",
    ),
    arrival(
        "not only first calls decide",
        "delivery.call_times:CallTimes.is_quick",
        "QUICK if service in self._begun else SLOW",
        "SLOW",
        f"{TIMES}::test_service_that_is_known_well_is_quick_only_if_its_calls_are",
    ),
    arrival(
        "first calls weigh nothing after a quick one",
        "delivery.call_times:CallTimes.took",
        "before = each",
        "pass",
        f"{TIMES}::test_first_calls_are_forgotten_as_soon_as_one_is_quick",
    ),
    arrival(
        "first calls end although none was quick",
        "delivery.call_times:CallTimes.took",
        " or self._calls[service] >= FIRST_CALLS",
        "",
        f"{TIMES}::test_service_that_is_known_well_is_quick_only_if_its_calls_are",
    ),
    arrival(
        "many calls say more than one",
        "delivery.call_times:CallTimes.took",
        "(each - before) * calls / (calls + 1)",
        "(each - before) / 2",
        f"{TIMES}::test_many_quick_calls_weigh_more_than_one_slow_one",
    ),
    arrival(
        "a thread that delivers from the buffer is not joined",
        "delivery.on_arrival:ArrivalDelivery.reserved",
        "with self.turns.alone(names) as mine:",
        "mine = names\n        if mine:",
        f"{LEFT}::test_messages_of_a_sequence_that_another_thread_delivers_from_are_stored",
    ),
    arrival(
        "handled messages are not stored",
        "delivery.on_arrival:ArrivalRun._save",
        " and (row.sequence, row.number) in gone",
        " and not gone",
        f"{DELIVERED}::test_message_is_handled_in_the_transaction_that_receives_it_and_never_stored",
    ),
    arrival(
        "rows that were handled with it are deleted",
        "delivery.on_arrival:ArrivalRun._save",
        "if with_rows:\n            tx.invoker.save_in_order(with_rows)",
        "if with_rows:\n            tx.invoker.save_locked(with_rows)",
        f"{DELIVERED}::test_messages_that_wait_are_handled_before_those_that_arrive",
    ),
    arrival(
        "attachments that were stored on their way",
        "delivery.on_arrival:ArrivalRun._plan",
        "takewhile(lambda row: _are_whole([row]), (run.rows[number] for number in numbers))",
        "run.rows[number] for number in numbers",
        f"{LEFT}::test_message_whose_attachments_were_stored_on_their_way_is_stored_with_those_behind_it",
    ),
    arrival(
        "a sequence that follows another waits for it",
        "delivery.on_arrival:ArrivalRun._is_simple",
        " or record.follows is not None",
        "",
        f"{LEFT}::test_sequence_that_follows_another_waits_for_it",
    ),
    arrival(
        "calls end after a time",
        "delivery.on_arrival:ArrivalRun.deliver",
        "lambda: monotonic() >= until",
        "lambda: False",
        f"{LONG}::test_calls_end_after_some_time_and_the_rest_is_stored",
    ),
    arrival(
        "a transaction that has failed is repeated without it",
        "destination.reception:Reception._commit",
        "if refilled or delivers:",
        "if refilled:",
        f"{DELIVERED}::test_transaction_that_fails_is_repeated_and_only_stores",
    ),
    arrival(
        "the next transactions only store",
        "delivery.on_arrival:ArrivalDelivery.reserved",
        "            except Exception as error:\n                self._store_only()\n",
        "            except Exception as error:\n",
        f"{DELIVERED}::test_several_transactions_after_a_failed_one_only_store",
    ),
    arrival(
        "one transaction at a time has calls that take long",
        "delivery.on_arrival:ArrivalDelivery.reserved",
        " or self.late(SECONDS)",
        "",
        f"{SPARE}::test_second_thread_calls_no_handler_that_may_hang_like_the_first",
    ),
    arrival(
        "the second thread sets the late sequences apart",
        "runtime.spare_committer:SpareCommitter.help",
        "(others if late.isdisjoint(names_of(each[0], late)) else apart)",
        "others",
        f"{SPARE}::test_arrivals_of_other_sequences_are_handled_together_and_those_of_the_late_one_wait_in_their_order",
    ),
    arrival(
        "all that a late transaction has locked is set apart",
        "delivery.on_arrival:ArrivalDelivery.late",
        "for name in run.locked",
        "for name in run.claims",
        f"{LONG}::test_sequences_without_a_call_that_such_a_transaction_has_locked_are_known_too",
    ),
    arrival(
        "what is put back wakes the committer",
        "runtime.group_commit:ArrivalQueue.put_back",
        "if self._wake_at and arrivals:",
        "if False:",
        f"{QUEUE}::test_taking_thread_is_woken_by_what_is_put_back",
    ),
    arrival(
        "a queue with more than it may have takes nothing",
        "runtime.group_commit:ArrivalQueue.put",
        "max(0, min(len(arrivals), self._most_waiting - len(self._waiting)))",
        "min(len(arrivals), self._most_waiting - len(self._waiting))",
        f"{QUEUE}::test_queue_that_has_more_than_it_may_because_some_were_put_back_takes_no_other",
    ),
    arrival(
        "a transaction takes no more calls than it has time for",
        "runtime.group_commit:ArrivalQueue._fitting",
        "min(fitting, in_time) if seconds <= MOST_DIVIDED else fitting",
        "fitting",
        f"{QUEUE}::test_a_transaction_takes_no_more_calls_than_it_has_time_for",
    ),
    arrival(
        "arrivals are not divided if the last one would wait for too long",
        "runtime.group_commit:ArrivalQueue._fitting",
        "min(fitting, in_time) if seconds <= MOST_DIVIDED else fitting",
        "min(fitting, in_time)",
        f"{QUEUE}::test_arrivals_are_not_divided_if_the_last_one_would_wait_for_too_many_calls",
    ),
    arrival(
        "an arrival with more calls than there is time for is alone",
        "runtime.group_commit:ArrivalQueue._fitting",
        "in_time = min(in_time, max(1, count))",
        "in_time = min(in_time, count)",
        f"{QUEUE}::test_an_arrival_with_more_calls_than_there_is_time_for_is_alone_in_a_transaction",
    ),
    arrival(
        "the queue knows how long the calls of an arrival take",
        "runtime.threads:Runtime.__init__",
        "calls=lambda each: engine.call_seconds(each[0]),",
        "",
        f"{DIVIDED}::test_arrivals_that_need_more_calls_than_there_is_time_for_have_transactions_of_their_own",
    ),
    arrival(
        "slow calls are not made on arrival",
        "delivery.call_times:CallTimes.of_quick",
        "self._of_call[service] if self.is_quick(service) else 0.0",
        "self._of_call.get(service, 0.0)",
        f"{TIMES}::test_seconds_of_a_call_are_known_of_services_with_quick_calls_only",
    ),
    arrival(
        "a process that receives makes its first call itself",
        "delivery.on_arrival:ArrivalDelivery.reserved",
        "self._claim_first(sequences, now)",
        "pass",
        f"{FIRST}::test_no_other_process_takes_the_first_message_of_a_service_that_a_process_receives",
    ),
    arrival(
        "only one buffer is reserved for the first call",
        "delivery.on_arrival:ArrivalDelivery._claim_first",
        "self._first.add(service)",
        "pass",
        f"{FIRST}::test_other_buffers_that_fill_meanwhile_are_free_for_others",
    ),
    arrival(
        "a process does not ask for the claim of another one with each message",
        "delivery.on_arrival:ArrivalDelivery._claim_first",
        "self._first_from = monotonic + FIRST_PAUSE",
        "pass",
        f"{FIRST}::test_process_whose_messages_another_one_delivers_asks_for_the_claim_now_and_then_only",
    ),
    arrival(
        "a process alone reserves nothing for the first call",
        "delivery.on_arrival:ArrivalDelivery.reserved",
        "if self.able and self.context.others:",
        "if self.able:",
        f"{FIRST}::test_process_alone_takes_no_claims_before_it_delivers",
    ),
    arrival(
        "claims are given back although first calls were slow",
        "delivery.on_arrival:ArrivalDelivery.leave",
        "times.may_be_quick(record.service)",
        "times.is_quick(record.service)",
        f"{FIRST}::test_claim_goes_to_the_process_that_receives_although_first_calls_have_taken_long",
    ),
    arrival(
        "a busy refusal asks for the acknowledgement of responses",
        "destination.batch:Batch.find_responses",
        "self._request_acknowledgements(exchange)",
        "pass",
        "tests/scenario/test_responses_that_stay.py::"
        "test_client_of_mercury_is_asked_for_the_acknowledgement_of_responses_when_a_request_is_refused_as_busy",
    ),
)
