"""The guards of Mercury, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.access_mutants import ACCESS
from tests.mutation.address_mutants import ADDRESSES
from tests.mutation.arrival_mutants import ARRIVALS
from tests.mutation.batch_mutants import BATCHES
from tests.mutation.console_mutants import CONSOLE
from tests.mutation.direct_mutants import DIRECT
from tests.mutation.flow_mutants import FLOW
from tests.mutation.later_mutants import STATEMENTS
from tests.mutation.life_mutants import LIFE
from tests.mutation.lone_mutants import LONE_MESSAGES
from tests.mutation.member_mutants import MEMBERS
from tests.mutation.mutant import Change, Mutant
from tests.mutation.offer_mutants import OFFERS
from tests.mutation.operations_mutants import OPERATIONS
from tests.mutation.reconcile_mutants import RECONCILES
from tests.mutation.search_mutants import SEARCHES
from tests.mutation.security_mutants import SECURITY
from tests.mutation.session_mutants import SESSIONS
from tests.mutation.several_processes_mutants import SEVERAL_PROCESSES
from tests.mutation.silence_mutants import SILENCES
from tests.mutation.stage_mutants import STAGES
from tests.mutation.storage_mutants import STORAGE
from tests.mutation.telemetry_mutants import TELEMETRIES
from tests.mutation.upgrade_mutants import UPGRADES
from tests.mutation.wire_mutants import WIRE
from tests.mutation.wsdl_mutants import WSDL

NETWORK = "tests/acceptance/test_network_and_transactions.py"
BREACH = "tests/conformance/test_locking.py::test_a_breach_of_the_lock_order_is_refused"
WAITING = "tests/scenario/test_backlog_bytes.py"
UNEXPECTED = "tests/unit/engine/runtime/test_unexpected_errors.py"
VANISHED = "tests/scenario/test_clients_that_vanish.py"
ACKNOWLEDGEMENTS = "tests/scenario/test_acknowledgements.py"

IGNORE_FAILURES = '__import__("contextlib").suppress(Exception), self._context.store.transaction() as tx:'

#: What the simulation catches.
SIMULATED = (
    Mutant(
        "list under AtMostOnce",
        (
            Change(
                "mercury.engine.delivery.calls:_together",
                " or run.at_most_once",
                "",
            ),
        ),
        test="tests/storage/test_handlers_in_sets.py::test_under_at_most_once_no_message_is_handled_twice_although_one_fails",
    ),
    Mutant(
        "list whose first message has failed before",
        (
            Change(
                "mercury.engine.delivery.planned_calls:PlannedCalls.__init__",
                "[1 if run.record.attempts else 0 for",
                "[0 for",
            ),
        ),
        test="tests/storage/test_handlers_in_sets.py::test_one_of_a_hundred_that_fails_is_tried_again_alone_and_the_others_stay",
    ),
    Mutant(
        "shared savepoints under AtMostOnce",
        (
            Change(
                "mercury.engine.delivery.planned_calls:PlannedCalls.can_share",
                "not self._runs or any(run.at_most_once for run in self._runs)",
                "not self._runs",
            ),
        ),
        test="tests/storage/test_shared_savepoints.py::test_under_at_most_once_no_message_is_handled_twice_although_one_fails",
    ),
    Mutant(
        "shared savepoint",
        (
            Change(
                "mercury.engine.delivery.shared:call_shared",
                "with tx.savepoint(), running",
                "with running",
            ),
        ),
        test="tests/storage/test_shared_savepoints.py::test_only_the_message_that_fails_is_undone_and_tried_again",
    ),
    Mutant(
        "shared savepoint of handlers that use no database",
        (
            Change(
                "mercury.engine.delivery.calls:call_all",
                "if calls.shares_next and tx.in_database:",
                "if calls.shares_next:",
            ),
        ),
        test="tests/storage/test_shared_savepoints.py::test_handler_that_uses_no_database_is_called_once_for_each_attempt",
    ),
    Mutant(
        "runs with separate savepoints after a failure",
        (
            Change(
                "mercury.engine.delivery.calls:call_all",
                "                savepoints.failed(failed.run.record.service)\n",
                "",
            ),
        ),
        test="tests/storage/test_shared_savepoints.py::test_runs_after_a_failure_repeat_no_call_for_another",
    ),
    Mutant(
        "limit of a shared savepoint in time",
        (Change("mercury.engine.delivery.shared:call_shared", "if late or calls.enough()", "if calls.enough()"),),
        test="tests/storage/test_shared_savepoints.py::test_slow_handler_is_not_called_again_for_another_message",
    ),
    Mutant(
        "only call of a shared savepoint",
        (
            Change("mercury.engine.delivery.calls:_undone", "if not failed.before:", "if False:"),
            Change(
                "mercury.engine.delivery.calls:call_all",
                "                elif not failed.before:\n                    calls.settled()\n",
                "",
            ),
        ),
        test="tests/storage/test_shared_savepoints.py::test_the_first_call_in_a_savepoint_is_not_made_again_because_it_fails",
    ),
    Mutant(
        "end of a call in a shared savepoint",
        (Change("mercury.engine.delivery.shared:call_shared", "                tx.end_work()\n", ""),),
        test="tests/storage/test_shared_savepoints.py::test_session_of_a_handler_ends_with_its_call",
    ),
    Mutant(
        "savepoint of a list",
        (
            Change(
                "mercury.engine.delivery.calls:_call_handler",
                "with tx.savepoint(), running, spanned",
                "with running, spanned",
            ),
        ),
        test="tests/storage/test_handlers_in_sets.py::test_one_of_a_hundred_that_fails_is_tried_again_alone_and_the_others_stay",
    ),
    Mutant(
        "application's fault that cannot be written",
        (
            Change(
                "mercury.engine.delivery.handler_call:HandlerCall._refused",
                "except Exception as error:",
                "except PayloadError as error:",
            ),
        ),
        test="tests/scenario/test_delivery_assurances.py"
        "::test_handler_that_refuses_with_a_fault_that_cannot_be_written_has_failed",
    ),
    Mutant(
        "reason of a refusal that no store can keep",
        (
            Change(
                "mercury.engine.delivery.handler_call:HandlerCall._refused",
                '_storable(f"the handler refused it: {fault.reason}")',
                'f"the handler refused it: {fault.reason}"',
            ),
        ),
        test="tests/scenario/test_delivery_assurances.py"
        "::test_reason_of_a_refusal_that_no_store_can_keep_is_in_the_dead_letter_with_replacements",
    ),
    Mutant(
        "text of an application's exception that cannot be read",
        (Change("mercury.errors:text_of", "except Exception:", "except AttributeError:"),),
        test="tests/scenario/test_exceptions_without_text.py"
        "::test_handler_whose_exception_has_no_text_is_called_again_and_its_message_is_skipped_by_the_policy",
    ),
    Mutant(
        "exception without a text in a shared savepoint",
        (Change("mercury.engine.delivery.shared:SharedFailed.__init__", "named(error)", "str(error)"),),
        test="tests/storage/test_shared_savepoints.py"
        "::test_exception_without_a_text_is_a_failed_attempt_of_its_message_only",
    ),
    Mutant(
        "text of an application's exception in the log",
        (Change("mercury.engine.event_log:_handler_failed", "printable(named(event.error))", "named(event.error)"),),
        test="tests/scenario/test_exceptions_without_text.py"
        "::test_repeated_failure_with_line_breaks_and_half_a_character_is_one_line_of_a_file_in_utf8",
    ),
    Mutant(
        "future of a transaction that is rolled back",
        (Change("mercury.client.current:_Block.__exit__", "self._current.ended(self._tx)", "pass"),),
        test="tests/storage/test_futures_of_transactions.py"
        "::test_future_of_a_transaction_that_is_rolled_back_fails_at_once_and_others_stay_open[sqlite]",
    ),
    Mutant(
        "future of a transaction of an event loop that is rolled back",
        (Change("mercury.client.asynchronous:AsyncTransaction._leave", "self._current.ended(self._tx)", "pass"),),
        test="tests/storage/test_futures_of_transactions.py"
        "::test_future_of_an_event_loop_whose_transaction_is_rolled_back_fails_at_once[sqlite]",
    ),
    Mutant(
        "future of a transaction that is committed",
        (
            Change(
                "mercury.client.futures:Futures.transaction_ended",
                "if tx.outcome.ending is not Ending.ROLLED_BACK:",
                "if tx.outcome.ending is Ending.OPEN:",
            ),
        ),
        test="tests/storage/test_futures_of_transactions.py"
        "::test_future_of_a_transaction_that_is_rolled_back_fails_at_once_and_others_stay_open[sqlite]",
    ),
    Mutant(
        "future of another transaction than the one that is rolled back",
        (
            Change(
                "mercury.client.futures:Futures.transaction_ended",
                "each.tx is not None and each.tx() is tx",
                "each.tx is not None",
            ),
        ),
        test="tests/storage/test_futures_of_transactions.py"
        "::test_future_of_a_transaction_that_is_rolled_back_fails_at_once_and_others_stay_open[sqlite]",
    ),
    Mutant(
        "response whose class raises an error",
        (
            Change(
                "mercury.client.futures:Futures._resolve", "except Exception as error:", "except ValueError as error:"
            ),
        ),
        test="tests/unit/client/test_raw_responses.py"
        "::test_response_whose_class_raises_another_error_than_of_a_value_fails_its_future",
    ),
    Mutant(
        "time limit of a contract",
        (Change("mercury.contract:Contract.handle", ", time_limit=self.time_limit", ""),),
        test="tests/unit/service/test_results.py::test_handlers_of_a_contract_have_its_time_limit",
    ),
    Mutant(
        "number of responses of a list",
        (
            Change(
                "mercury.service.definition:_call_together",
                "or len(results) != len(payloads)",
                "",
            ),
        ),
        test="tests/storage/test_handlers_in_sets.py::test_wrong_number_of_responses_is_an_error_of_the_handler",
    ),
    Mutant(
        "operation of each message of a list",
        (
            Change(
                "mercury.engine.delivery.calls:_together",
                " and _operation(context, run, run.messages[end]) is operation",
                "",
            ),
        ),
        test="tests/storage/test_handlers_in_sets.py::test_other_operations_of_the_service_end_a_list",
    ),
    Mutant(
        "duplicate filter",
        (
            Change(
                "mercury.statemachine.rmd:RMDSequence._holds",
                "return number in self.received  # RM-SEQ-06",
                "return False  # RM-SEQ-06",
            ),
        ),
        seeds=range(4, 24),
    ),
    Mutant(
        "acknowledge before commit",
        (
            Change(
                "mercury.engine.destination.reception:Reception._handle",
                "with self._context.store.transaction() as tx:",
                f"with {IGNORE_FAILURES}",
            ),
        ),
        seeds=range(20),
    ),
    Mutant(
        "send before commit",
        (
            Change(
                "mercury.engine.source.worker:SourceWorker._commit",
                "with self._context.store.transaction() as tx:\n            tx.guard(claim)",
                f"with {IGNORE_FAILURES}\n            tx.guard(claim)",
            ),
        ),
        seeds=range(4, 24),
    ),
    Mutant(
        "numbering twice",
        (
            Change(
                "mercury.statemachine.rms:RMSSequence._number",
                "self.last_number += 1",
                "self.last_number += self.last_number != 3",
            ),
        ),
        seeds=range(20),
    ),
    Mutant(
        "skipping a gap",
        (
            Change(
                "mercury.statemachine.deliverable:deliverable",
                "case Release.ANY:\n            yield from waiting.numbers()",
                "case Release.ANY | Release.NEXT:\n            yield from waiting.numbers()",
            ),
        ),
        seeds=range(20),
    ),
    Mutant(
        "dropping on overload",
        (
            Change(
                "mercury.engine.destination.messages:sequenced",
                "    if refusal is not None:\n        exchange.fault = refusal\n        return\n",
                "    if refusal is not None:\n        record.machine.received.add(header.message_number)\n"
                "        batch.raise_rmd(record, events.AckWanted())\n        batch.acknowledge(exchange, record)\n"
                "        return\n",
            ),
        ),
        seeds=range(20, 60),
    ),
    Mutant(
        "forgetting a tombstone",
        (
            Change(
                "mercury.statemachine.rmd:RMDSequence.next_due",
                "self.ended_at + policy.tombstone",
                "self.ended_at",
            ),
            Change(
                "mercury.engine.destination.worker:DestinationWorker._work",
                "if machine.ended_at + policy.tombstone <= now:",
                "if machine.ended_at <= now:",
            ),
        ),
        seeds=range(40, 200),
    ),
    # The next ones show themselves in varied worlds only.
    Mutant(
        "a doubt that counts as certainty",
        (
            Change(
                "mercury.statemachine.rms:RMSSequence._fail",
                "yield effects.Failed(reason, never_sent.as_tuples(), in_doubt.as_tuples())",
                "yield effects.Failed(reason, left, ())",
            ),
        ),
        seeds=range(17, 100, 27),
    ),
    Mutant(
        "at most once that repeats",
        (
            Change(
                "mercury.engine.delivery.invocation:InvocationWorker._run",
                "if assurance is DeliveryAssurance.AT_LEAST_ONCE:",
                "if assurance is not DeliveryAssurance.EXACTLY_ONCE:",
            ),
        ),
        seeds=range(5, 200, 27),
    ),
    Mutant(
        "at most once that loses silently",
        (
            Change(
                "mercury.engine.delivery.invocation:InvocationWorker._run_at_most_once",
                "self._save(tx, run, now)\n            self._respond(tx, run, now)\n        run.begun()",
                "run.consumed = [message.number for message in run.messages]\n"
                "            self._save(tx, run, now)\n            self._respond(tx, run, now)\n        run.begun()",
            ),
        ),
        seeds=range(5, 200, 27),
    ),
    Mutant(
        "at least once that answers twice",
        (
            Change(
                "mercury.engine.delivery.invocation:InvocationWorker._run",
                "self._call_all(run, tx, now)\n            try:",
                "self._call_all(run, tx, now)\n                self._respond(tx, run, now)\n            try:",
            ),
        ),
        seeds=range(2, 200, 27),
    ),
    Mutant(
        "a clock that is set back",
        (
            Change(
                "mercury.statemachine.retransmission:is_due",
                "return due <= now or due > now + longest",
                "return due <= now",
            ),
            Change(
                "mercury.engine.runtime.clock:ClockWorker.run_once",
                "found = self._context.store.advance_overdue(now, self._pauses())",
                "found = 0",
            ),
        ),
        test="tests/storage/test_clock_set_back.py"
        "::test_a_message_that_waits_for_its_repetition_is_sent_although_the_clock_is_set_back",
    ),
    Mutant(
        "bytes that are never free again",
        (
            Change(
                "mercury.engine.delivery.run:DeliveryRun.count_bytes", " + sum(message.size for message in gone)", ""
            ),
        ),
        seeds=range(4),
    ),
)

EVENTS = "tests/scenario/test_events.py"

#: What an observer must not see.
OBSERVED = (
    Mutant(
        "events before the commit",
        (
            Change(
                "mercury.engine.observers:Observers.emit",
                "tx.after_commit(partial(self.emit_now, event))",
                "self.emit_now(event)",
            ),
        ),
        test=f"{EVENTS}::test_transaction_that_is_rolled_back_emits_nothing[server-1]",
    ),
    Mutant(
        "observers that stop each other",
        (
            Change(
                "mercury.engine.observers:_Subscription.notify",
                "        except Exception:\n            if not self.reported:",
                "        except SystemExit:\n            if not self.reported:",
            ),
        ),
        test=f"{EVENTS}::test_observer_that_raises_is_logged_once_with_its_name_and_affects_no_other",
    ),
    Mutant(
        "a branch in doubt at every look",
        (
            Change(
                "mercury.storage.xa.recovery:Recovery.recover",
                "            if branch.gid not in known:",
                "            if True:",
            ),
        ),
        test="tests/xa/test_events.py::test_branch_that_cannot_be_finished_is_an_event_at_the_first_attempt_only",
    ),
)

#: What has a test of its own.
TESTED = (
    *WIRE,
    Mutant(
        "lock order",
        (Change("mercury.storage.memory.locks:HeldLocks._acquire", "if (kind, name) < self._highest:", "if False:"),),
        test=f"{BREACH}[memory-RMS, RMD]",
    ),
    Mutant(
        "a change without its lock",
        (Change("mercury.storage.memory.locks:HeldLocks.require", "if not self.holds(kind, name):", "if False:"),),
        test=f"{BREACH}[memory-an RMS without its lock]",
    ),
    Mutant(
        "network inside a transaction",
        (
            Change(
                "mercury.engine.runtime.posting:Posting._begin",
                "            self._transport.begin(posts, self._ended)",
                "            with self._engine._context.store.transaction():\n"
                "                self._transport.begin(posts, self._ended)",
            ),
        ),
        test=f"{NETWORK}::test_nothing_is_posted_by_a_thread_that_is_in_a_transaction[anonymous]",
    ),
    Mutant(
        "posts that leave before the commit",
        (
            Change(
                "mercury.engine.runtime.threads:Runtime.turn",
                "        step = worker.run_once(self._clock())\n        self.post(step.posts)\n",
                "        with self._engine._context.store.transaction():\n"
                "            step = worker.run_once(self._clock())\n"
                "            self.post(step.posts)\n",
            ),
        ),
        test=f"{NETWORK}::test_nothing_is_posted_by_a_thread_that_is_in_a_transaction[listening]",
    ),
    Mutant(
        "a worker that knows the transport",
        (
            Change(
                "mercury.engine.destination.inbound_faults",
                "from __future__ import annotations\n",
                "from __future__ import annotations\n\nfrom mercury.engine.runtime.transport import HttpTransport\n",
            ),
        ),
        test="tests/architecture/test_imports.py::test_every_import_follows_the_direction_of_the_house",
    ),
    Mutant(
        "stale tables",
        (
            Change(
                "mercury.statemachine.rmd_table:RMD",
                "0000                | TICK    | expired        | =      | Forget",
                "0000                | TICK    | expired        | 1001   | Forget",
            ),
        ),
        test="tests/unit/statemachine/test_tables_as_data.py::test_the_printed_page_is_not_stale",
    ),
    Mutant(
        "a guard that never holds",
        (
            Change(
                "mercury.statemachine.rms_guards:holds",
                "return machine.expires_at is not None and machine.expires_at <= now",
                "return False",
            ),
        ),
        test="tests/unit/statemachine/test_every_row.py"
        "::test_every_row_of_the_source_is_reached_and_every_input_has_one",
    ),
    Mutant(
        "acknowledged requests whose exchanges are open",
        (
            Change(
                "mercury.engine.source.transmission:KeyWork._postpone_in_flight",
                "or 0, row.acknowledged",
                "or 0, False",
            ),
        ),
        test="tests/scenario/test_foreign_destinations.py"
        "::test_acknowledged_request_whose_exchange_is_open_is_not_repeated",
    ),
    Mutant(
        "answers before posts",
        (
            Change(
                "mercury.engine.runtime.threads:Runtime._answer_some",
                "        for _, on_answer, answer in done:\n",
                "        for _, on_answer, answer in done:\n            self.post(list(answer.posts))\n",
            ),
        ),
        test="tests/unit/engine/runtime/test_committed_arrivals.py::"
        "test_an_empty_answer_leaves_before_the_reply_that_is_posted",
    ),
    Mutant(
        "error of the committer",
        (
            Change(
                "mercury.engine.runtime.threads:Runtime._answers",
                "except Exception:",
                "except ZeroDivisionError:",
            ),
        ),
        test=f"{UNEXPECTED}::test_arrivals_after_an_unexpected_error_are_answered",
    ),
    Mutant(
        "response that cannot be written",
        (
            Change(
                "mercury.engine.runtime.held_exchanges:HeldExchanges._written",
                "except Exception:",
                "except ZeroDivisionError:",
            ),
        ),
        test="tests/unit/engine/runtime/test_held_exchanges_released.py"
        "::test_response_that_cannot_be_written_ends_its_own_exchange_only[False]",
    ),
    Mutant(
        "health of threads",
        (Change("mercury.service.host:status_router", "        if ended:\n", "        if False:\n"),),
        test="tests/unit/service/test_health.py::test_thread_that_ended_fails_the_probe_and_is_named",
    ),
    Mutant(
        "escapes in a path",
        (
            Change(
                "mercury.engine.addresses:climbs",
                "while (decoded := unquote(path)) != path:",
                "if (decoded := unquote(path)) != path:",
            ),
        ),
        test="tests/unit/engine/test_addresses.py"
        "::test_address_that_only_resembles_an_entry_is_not_allowed[dots escaped twice]",
    ),
    Mutant(
        "addresses that peers name",
        (Change("mercury.engine.addresses:AddressPolicy.allows", 'entry == "*" or _matches(entry, parts)', "True"),),
        test="tests/scenario/test_addresses_of_peers.py"
        "::test_create_sequence_with_an_address_that_is_not_listed_is_refused",
    ),
    Mutant(
        "limit: bytes that wait behind a gap",
        (
            Change(
                "mercury.engine.backlog_share:sequence_limit",
                "record.received_bytes - buffer.consumed_bytes + size > policy.max_backlog_bytes",
                "False",
            ),
        ),
        test=f"{WAITING}::test_a_message_larger_than_the_limit_is_taken_when_it_is_its_turn",
    ),
    Mutant(
        "limit: bytes that wait for one peer",
        (
            Change(
                "mercury.engine.destination.backlog:Backlog.refusal",
                "own + self._letters(owner) + size > settings.max_backlog_bytes_per_peer",
                "False",
            ),
        ),
        test=f"{WAITING}::test_a_peer_that_holds_too_much_takes_no_room_from_another",
    ),
    Mutant(
        "a filler of a gap that is refused for what waits behind it",
        (
            Change(
                "mercury.engine.backlog_share:unblocks_rest",
                "return number == buffer.machine.next",
                "return False",
            ),
        ),
        test=f"{WAITING}::test_a_message_larger_than_the_limit_is_taken_when_it_is_its_turn",
    ),
    Mutant(
        "no control work for a sequence that no peer knows",
        (
            Change(
                "mercury.engine.source.transmission:KeyWork._advance",
                "posts=posts and not record.channel.plain",
                "posts=posts",
            ),
        ),
        test=f"{VANISHED}::test_plain_reply_that_is_not_accepted_takes_no_work_between_its_posts_after_the_requests_"
        "have_ended",
    ),
    Mutant(
        "an offered sequence goes with the requests that were never sent",
        (
            Change(
                "mercury.engine.destination.worker:wake_response_channels",
                "if key in unused and not response.machine.last_number:",
                "if False:",
            ),
        ),
        test=f"{VANISHED}::test_offered_sequence_goes_with_the_requests_that_were_never_sent",
    ),
    Mutant(
        "responses to a client that is gone end",
        (Change("mercury.engine.channels:gives_up_responses", "return request is None", "return False"),),
        test=f"{VANISHED}::test_responses_to_a_client_that_is_gone_are_dead_letters_after_its_requests_are_forgotten",
    ),
    Mutant(
        "acknowledgements for a service that another process hosts",
        (
            Change(
                "mercury.engine.destination.worker:DestinationWorker.run_once",
                "self._context.settings.sequence_batch, self._work_filter)",
                "self._context.settings.sequence_batch)",
            ),
        ),
        test=f"{ACKNOWLEDGEMENTS}::test_process_that_does_not_host_the_service_acknowledges_nothing_for_it",
    ),
    Mutant(
        "a Mercury client whose answers are lost gets no sequence",
        (
            Change(
                "mercury.engine.destination.ordinary_replies:post_plainly_after_silence",
                "if request is not None and request.source_is_mercury:",
                "if False:",
            ),
        ),
        test="tests/scenario/test_ordinary_replies.py"
        "::test_mercury_gets_its_responses_in_order_however_many_answers_to_create_sequence_are_lost",
    ),
    *ACCESS,
    *ADDRESSES,
    *CONSOLE,
    *OPERATIONS,
    *FLOW,
    *LIFE,
    *SILENCES,
    *OFFERS,
    *STATEMENTS,
    *SEARCHES,
    *MEMBERS,
    *STAGES,
    *DIRECT,
    *SECURITY,
    *SESSIONS,
    *STORAGE,
    *TELEMETRIES,
    *UPGRADES,
    *WSDL,
    *BATCHES,
    *ARRIVALS,
    *LONE_MESSAGES,
    *SEVERAL_PROCESSES,
    *RECONCILES,
)

MUTANTS = (*SIMULATED, *OBSERVED, *TESTED)
