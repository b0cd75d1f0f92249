"""The guards of flow control between a destination and its sources, and of the ends that a destination begins."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

UNIT = "tests/unit/statemachine/test_room.py"
STORY = "tests/scenario/test_buffer_remaining.py"
ENDS = "tests/scenario/test_ends_by_the_destination.py"
POOL = "tests/unit/engine/runtime/test_sender_pool.py"

SHARED = "tests/storage/test_shared_keys.py"
OF_OTHERS = "tests/storage/test_keys_of_others.py"
LIMIT = "tests/unit/engine/runtime/test_exchange_limit.py"


def exchanges(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A rule of how many exchanges a server gets that is removed."""
    change = Change(f"mercury.engine.runtime.exchange_limit:{symbol}", before, after)
    return Mutant(f"exchanges with a server: {name}", (change,), test=f"{LIMIT}::{test}")


EXCHANGES = (
    exchanges(
        "more only if they bring more",
        "ExchangeLimit._judge",
        "rate >= self._rate * (GAIN if trial is Trial.MORE else LOSS)",
        "True",
        "test_a_server_with_a_dozen_threads_gets_about_a_dozen[0.0]",
    ),
    exchanges(
        "fewer when they bring as much",
        "ExchangeLimit._judge",
        "Trial.FEWER if trial is Trial.MORE else Trial.MORE",
        "Trial.MORE",
        "test_a_server_with_a_dozen_threads_gets_about_a_dozen[0.0]",
    ),
    exchanges(
        "not fewer where arrivals share transactions",
        "ExchangeLimit._try",
        "self._settled if self._together else ",
        "",
        "test_no_fewer_are_tried_with_a_destination_of_mercury[0.3]",
    ),
    exchanges(
        "fewer at once when it has become slow",
        "ExchangeLimit._judge",
        "if rate < SLOWED * self._rate:",
        "if False:",
        "test_when_a_server_becomes_one_that_more_exchanges_only_delay_it_gets_fewer",
    ),
    exchanges(
        "more only while posts wait",
        "ExchangeLimit.ended",
        "if full:",
        "if True:",
        "test_it_does_not_grow_while_no_post_waits",
    ),
    exchanges(
        "fewer after a failure",
        "ExchangeLimit.failed",
        "min(self.limit, self._settled) // 2",
        "min(self.limit, self._settled)",
        "test_a_failure_halves_it_once_for_all_that_were_open_and_not_below_the_least",
    ),
    exchanges(
        "one failure of a server for all that were open",
        "ExchangeLimit.failed",
        "if began < self._cut_at:",
        "if False:",
        "test_a_failure_halves_it_once_for_all_that_were_open_and_not_below_the_least",
    ),
    exchanges(
        "care after a failure",
        "ExchangeLimit.failed",
        "self._rounds = self._pause = CAREFUL",
        "self._rounds = self._pause = PAUSE",
        "test_after_a_failure_it_grows_again_but_not_at_once",
    ),
    exchanges(
        "what was found out long ago",
        "ExchangeLimit.used",
        "if now - self._ended_at >= FORGOTTEN_AFTER:",
        "if False:",
        "test_a_large_limit_is_forgotten_when_the_server_was_not_used_for_long",
    ),
    exchanges(
        "servers that are remembered",
        "ExchangeLimits.__init__",
        "BoundedDict(MOST_SERVERS)",
        "BoundedDict(MOST_SERVERS**9)",
        "test_servers_that_peers_name_are_remembered_up_to_a_limit",
    ),
    Mutant(
        "exchanges with a server: its limit",
        (
            Change(
                "mercury.engine.runtime.server_queues:Lane.has_room",
                "if self.open < self.limit.limit:",
                "if True:",
            ),
        ),
        test=f"{POOL}::test_server_of_which_nothing_is_known_gets_few_and_more_while_that_helps",
    ),
    Mutant(
        "exchanges with a server: a stored reply ends only the exchange that has brought it",
        (
            Change(
                "mercury.engine.runtime.sender_pools:SenderPools.stored",
                "pool.stored(own)",
                "self._messages.stored(own), self._others.stored(own)",
            ),
        ),
        test="tests/unit/engine/runtime/test_sender_pools.py::"
        "test_stored_reply_does_not_let_a_repetition_that_is_on_its_way_be_posted_again",
    ),
    Mutant(
        "exchanges with a server: held ones have a limit of their own",
        (
            Change(
                "mercury.engine.runtime.sender_pool:SenderPool._lane",
                "server.held if held else server.answered",
                "server.answered",
            ),
        ),
        test=f"{POOL}::test_a_request_begins_while_the_posts_of_its_server_wait_for_an_end",
    ),
    Mutant(
        "exchanges with a server: a refusal as busy",
        (Change("mercury.engine.runtime.posting:_is_overloaded", "result.status in OVERLOADED", "False"),),
        test="tests/unit/engine/runtime/test_posting.py::test_exchange_that_fails_or_is_refused_as_busy_costs_its_server_exchanges[503]",
    ),
)

FLOW = (
    *EXCHANGES,
    Mutant(
        "a source that cannot be told of new room is told that nothing fits",
        (
            Change(
                "mercury.engine.remaining_room:count_room",
                "notified = is_posted(record.acks_to) or record.acks_to.polled or record.source_is_mercury",
                "notified = True",
            ),
        ),
        test=f"{STORY}::test_source_that_cannot_be_told_of_new_room_is_never_told_that_nothing_fits",
    ),
    Mutant(
        "no room in a sequence that is delivered at its end only",
        (Change("mercury.statemachine.room:Backlogged.room", "is_notified and not entire", "is_notified"),),
        test=f"{UNIT}::test_sequence_that_is_delivered_at_its_end_only_is_never_told_that_nothing_fits",
    ),
    Mutant(
        "room is stated once and then no more",
        (Change("mercury.statemachine.room:Backlogged.room", "stated is not None or places < MOST", "places < MOST"),),
        test=f"{STORY}::test_figure_that_was_stated_once_is_stated_in_every_later_acknowledgement",
    ),
    Mutant(
        "no room because of other sequences",
        (
            Change(
                "mercury.statemachine.room:Backlogged.room",
                "max(1, self.left_by_others // self._mean)",
                "self.left_by_others // self._mean",
            ),
        ),
        test=f"{UNIT}::test_bytes_of_other_sequences_leave_room_for_one_message_at_least",
    ),
    Mutant(
        "stored messages that are not acknowledged take room twice",
        (
            Change(
                "mercury.statemachine.rmd:RMDSequence.buffer_remaining",
                "self.room + self.received.count - sum(high - low + 1 for low, high in ranges)",
                "self.room",
            ),
        ),
        test=f"{UNIT}::test_stored_messages_that_it_does_not_list_are_in_flight_and_have_their_place",
    ),
    Mutant(
        "new room is not told",
        (Change("mercury.statemachine.rmd:RMDSequence._holds", "return self.room == 0 and room != 0", "return False"),),
        test=f"{STORY}::test_full_destination_tells_of_new_room_by_itself_when_its_application_is_back",
    ),
    Mutant(
        "consumption makes no room",
        (
            Change(
                "mercury.engine.delivery.run:acknowledge_all_consumed",
                "room_again = has_room_again(context, request, run.record)",
                "room_again = False",
            ),
        ),
        test=f"{STORY}::test_full_destination_tells_of_new_room_by_itself_when_its_application_is_back",
    ),
    Mutant(
        "each single place is told",
        (Change("mercury.statemachine.room", "FREE = 1 / 4", "FREE = 0.0"),),
        test=f"{UNIT}::test_new_room_is_notified_when_a_quarter_is_free_of_both_limits",
    ),
    Mutant(
        "refused messages wait for their pauses although there is room",
        (
            Change(
                "mercury.statemachine.rms:RMSSequence._acknowledged", "if full and self.flow.room != 0:", "if False:"
            ),
        ),
        test=f"{UNIT}::test_source_sends_again_at_once_what_was_in_flight_when_it_is_notified_of_new_room",
    ),
    Mutant(
        "an end by the destination is posted once",
        (
            Change(
                "mercury.engine.destination.own_ends:send_own_end",
                "END_RETRY.delay(machine.end_attempts + 1, 0.0) if posts else None",
                "END_RETRY.delay(machine.end_attempts + 1, 0.0) if False else None",
            ),
        ),
        test=f"{ENDS}::test_end_is_posted_again_until_it_is_answered",
    ),
    Mutant(
        "an end by the destination is posted for ever",
        (
            Change(
                "mercury.engine.destination.own_ends:send_own_end",
                "machine.end_attempts >= MOST_ATTEMPTS",
                "False",
            ),
        ),
        test=f"{ENDS}::test_end_is_not_posted_for_ever_if_nothing_answers",
    ),
    Mutant(
        "an end by the destination is handed out for ever",
        (
            Change(
                "mercury.engine.destination.own_ends:is_begun",
                "0 < machine.end_attempts < MOST_ATTEMPTS",
                "0 < machine.end_attempts",
            ),
        ),
        test=f"{ENDS}::test_end_that_is_fetched_and_never_answered_is_handed_out_no_more_than_so_often",
    ),
    Mutant(
        "a termination in WS-RM 1.0 does not wait for what is missing",
        (
            Change(
                "mercury.engine.destination.own_ends:send_own_end",
                "if not machine.end_attempts and _breaks_order(tx, record):",
                "if False:",
            ),
        ),
        test=f"{ENDS}::test_termination_in_ws_rm_1_0_waits_until_no_message_is_missing",
    ),
    Mutant(
        "CloseSequence in WS-RM 1.0",
        (
            Change(
                "mercury.client.inbound_ends:request_end",
                "if machine.rm is RmVersion.RM10:",
                "if False:",
            ),
        ),
        test=f"{ENDS}::test_request_for_an_end_that_is_not_possible_is_refused_and_changes_nothing",
    ),
    Mutant(
        "sequences of responses are ended by their receiver",
        (Change("mercury.client.inbound_ends:_received", "if record.service is None:", "if False:"),),
        test=f"{ENDS}::test_sequence_of_responses_is_not_ended_by_the_side_that_waits_for_them",
    ),
    Mutant(
        "the answer to CloseSequence settles TerminateSequence",
        (
            Change(
                "mercury.engine.destination.ends:ended",
                "closes = record.machine.own_end is events.DestinationEnd.CLOSE",
                "closes = True",
            ),
        ),
        test=f"{ENDS}::test_answer_to_close_sequence_does_not_answer_terminate_sequence",
    ),
    Mutant(
        "an end that the source has begun is begun again",
        (
            Change(
                "mercury.engine.destination.own_ends:_is_settled",
                "return machine.tombstone and not machine.end_attempts",
                "return False",
            ),
        ),
        test=f"{ENDS}::test_end_that_the_source_has_begun_meanwhile_is_not_begun_again",
    ),
    Mutant(
        "a thread forgets that a turn may have postponed something",
        (Change("mercury.engine.runtime.worker_pool:WorkerPool.pause", "if not step.drained:", "if False:"),),
        test="tests/unit/engine/runtime/test_worker_pool.py::"
        "test_store_is_asked_after_a_turn_that_may_have_postponed_something_even_if_the_next_has_left_nothing",
    ),
    Mutant(
        "a run that leaves messages counts as all of them",
        (
            Change(
                "mercury.engine.delivery.run:DeliveryRun.drains",
                "return self.record.machine.next >= self.request.machine.received.first_missing()",
                "return True",
            ),
        ),
        test="tests/storage/test_lone.py::test_a_run_that_cannot_take_all_messages_leaves_the_others_to_the_next_turn",
    ),
    Mutant(
        "a sequence with unacknowledged messages has nothing to do",
        (
            Change(
                "mercury.statemachine.flow_control:has_nothing_to_do",
                "rests and not machine.outstanding and",
                "rests and",
            ),
        ),
        test="tests/storage/test_lone.py::test_a_message_whose_acknowledgement_is_lost_is_due_again",
    ),
    Mutant(
        "a turn that has failed is forgotten",
        (Change("mercury.engine.source.worker:SourceWorker.run_once", "self.appended.search()", "pass"),),
        test="tests/unit/engine/test_appended.py::test_work_that_a_turn_could_not_do_is_found_by_the_next_one",
    ),
    Mutant(
        "other work of a commit that names a key",
        (Change("mercury.storage.sql.new_work:NewWork.of", "Topic.RMS not in topics and ", ""),),
        test="tests/unit/storage/test_new_work.py::test_keys_are_named_only_if_nothing_else_is_due",
    ),
    Mutant(
        "messages gather for as long as nothing is acknowledged",
        (
            Change(
                "mercury.engine.appended:AppendedKeys.take",
                "now < each.until <= now + PAUSES * LONGEST_PAUSE",
                "each.until > 0",
            ),
        ),
        test="tests/unit/engine/test_appended.py::test_messages_do_not_gather_for_long_if_no_acknowledgement_comes",
    ),
    Mutant(
        "requests count as a stream",
        (
            Change(
                "mercury.engine.source.transmission:KeyWork._transmit",
                "any(row.expects_response for row in due)",
                "False",
            ),
        ),
        test="tests/unit/engine/test_appended.py::test_requests_are_no_stream",
    ),
    Mutant(
        "acknowledgements wait although a window is full",
        (Change("mercury.engine.appended:AppendedKeys.forget", "            self._pause = 0.0\n", ""),),
        test="tests/unit/engine/test_appended.py::test_messages_that_a_full_window_holds_back_are_no_stream",
    ),
    Mutant(
        "messages of a stream wait for its last acknowledgement",
        (Change("mercury.engine.destination.dispatch:_take_along", "(all_arrived or appended.pause)", "all_arrived"),),
        test="tests/unit/engine/test_appended.py::test_each_acknowledgement_of_a_stream_takes_along_what_has_gathered",
    ),
    Mutant(
        "PostgreSQL reads all bodies for each of several keys",
        (
            Change(
                "mercury.engine.source.worker:SourceWorker._commit_together",
                "tx.rms.lock(claims, records=True)",
                "tx.rms.lock(claims)",
            ),
            Change("mercury.storage.sql.rms:SqlRms._load", "self._tx.search(", "self._tx.read("),
        ),
        test="tests/storage/test_statistics_of_an_empty_queue.py"
        "::test_a_source_that_works_on_several_keys_together_searches_too",
    ),
    Mutant(
        "one process takes all keys",
        (Change("mercury.engine.source.worker:SourceWorker._turn", "self._context.others and not step.more", "False"),),
        test=f"{SHARED}::test_keys_that_are_due_at_once_are_shared_by_two_processes",
    ),
    Mutant(
        "what a process leaves to others waits",
        (
            Change(
                "mercury.engine.source.worker:SourceWorker._turn",
                "step.more, ready = len(mine) < len(ready), mine",
                "ready = mine",
            ),
        ),
        test=f"{SHARED}::test_process_takes_all_keys_that_the_other_one_leaves",
    ),
    Mutant(
        "a process shares what it has",
        (
            Change(
                "mercury.engine.source.worker:SourceWorker._shared",
                "if claims.current(source_claim(key.digest), now) is None",
                "",
            ),
        ),
        test=f"{SHARED}::test_messages_under_keys_that_a_process_has_leave_in_one_turn",
    ),
    Mutant(
        "all processes prefer the same keys",
        (Change("mercury.engine.source.worker:SourceWorker._shared", "{claims.owner} ", ""),),
        test=f"{SHARED}::test_two_processes_that_look_at_the_same_time_prefer_different_keys",
    ),
    Mutant(
        "keys of other processes are searched for at each notification",
        (
            Change(
                "mercury.engine.appended:AppendedKeys.take",
                "len(known) + len(elsewhere) < len(appended)",
                "len(known) < len(appended)",
            ),
        ),
        test=f"{OF_OTHERS}::test_messages_that_gather_do_not_leave_because_another_process_has_a_stream",
    ),
    Mutant(
        "keys of other processes are not searched for again",
        (Change("mercury.engine.appended:AppendedKeys.take", "gathering | elsewhere", "gathering"),),
        test=f"{OF_OTHERS}::test_turn_of_its_own_follows_for_what_was_not_searched_for",
    ),
    Mutant(
        "a key whose rows are held back counts as a key of others",
        (Change("mercury.engine.appended:AppendedKeys.found", "if not is_mine(digest)", ""),),
        test=f"{OF_OTHERS}::test_key_that_this_process_has_is_searched_for_although_nothing_was_due",
    ),
    Mutant(
        "keys that a search has left out count as keys of others",
        (
            Change(
                "mercury.engine.source.worker:SourceWorker._keys",
                "self._context.others and not step.more",
                "self._context.others",
            ),
        ),
        test=f"{OF_OTHERS}::test_search_that_has_not_found_all_says_nothing_of_other_processes",
    ),
    Mutant(
        "a clock that is set back, and keys of others",
        (
            Change(
                "mercury.engine.appended:AppendedKeys._is_elsewhere",
                " <= now + ELSEWHERE",
                "",
            ),
        ),
        test=f"{OF_OTHERS}::test_after_a_clock_was_set_back_the_keys_of_others_are_searched_for",
    ),
    Mutant(
        "a stream under several keys is none",
        (
            Change(
                "mercury.engine.source.worker:SourceWorker._sent",
                "0 if asks else sum(gathering)",
                "0 if asks else max(gathering, default=0)",
            ),
        ),
        test="tests/unit/engine/test_appended.py::test_acknowledgements_of_several_keys_go_on_with_the_stream",
    ),
    Mutant(
        "a transaction that works on no key ends a stream",
        (Change("mercury.engine.source.worker:SourceWorker._sent", "if works:", "if True:"),),
        test="tests/unit/engine/test_appended.py::test_transaction_that_works_on_no_key_does_not_end_a_stream",
    ),
    Mutant(
        "keys that are due long after their work are kept in memory",
        (Change("mercury.engine.source.due_again:DueAgain.note", " and due <= now + SOON", ""),),
        test="tests/scenario/test_sequence_life_cycles.py"
        "::test_keys_whose_sequences_have_ended_take_no_memory_of_the_worker_until_they_are_forgotten[listening]",
    ),
    Mutant(
        "keys that are due by the time wait while others get messages",
        (Change("mercury.engine.runtime.threads:Runtime._found", "if topic is Topic.RMS:", "if False:"),),
        test="tests/unit/engine/runtime/test_work_scout.py"
        "::test_work_on_sources_that_is_found_is_searched_for_although_commits_name_what_they_have_appended",
    ),
    Mutant(
        "a window is refilled without the claim",
        (Change("mercury.engine.source.worker:SourceWorker.refill", "tx.guard(claim)", "pass"),),
        test="tests/storage/test_refill.py::test_a_claim_that_another_process_has_taken_costs_no_acknowledgement",
    ),
    Mutant(
        "a message that was sent again measures the round trip",
        (
            Change(
                "mercury.statemachine.round_trip:RoundTrip.sent_again",
                "since=None, ",
                "",
            ),
        ),
        test="tests/unit/statemachine/test_round_trip.py::"
        "test_a_message_that_was_sent_again_measures_nothing_and_the_pause_doubles_until_one_is_measured",
    ),
    Mutant(
        "an idle process asks at every turn",
        (
            Change(
                "mercury.engine.runtime.work_scout:WorkScout.run_once",
                "if not self._next_query - self._poll <= now < self._next_query:",
                "if True:",
            ),
        ),
        test="tests/unit/engine/runtime/test_work_scout.py::test_work_that_becomes_due_between_two_queries_is_not_late",
    ),
    Mutant(
        "acknowledgements gather while messages could leave",
        (
            Change(
                "mercury.engine.runtime.group_commit:ArrivalQueue._let_gather",
                "max(until, paused) if self._gathers() else paused",
                "max(until, paused)",
            ),
        ),
        test="tests/unit/engine/runtime/test_group_commit.py"
        "::test_acknowledgements_do_not_gather_while_they_could_let_messages_leave",
    ),
    Mutant(
        "messages gather with acknowledgements",
        (Change("mercury.engine.exchange:Arrival.is_acknowledgement", "and envelope.body is EMPTY", ""),),
        test="tests/unit/engine/test_arrivals.py::test_only_acknowledgements_in_a_reply_can_wait",
    ),
    Mutant(
        "what is remembered has no limit",
        (Change("mercury.bounded:BoundedDict.__setitem__", "while len(self) > self._most:", "while False:"),),
        test="tests/unit/test_bounded.py::test_the_entry_that_was_set_longest_ago_is_dropped",
    ),
    Mutant(
        "what was set again is forgotten first",
        (Change("mercury.bounded:BoundedDict.__setitem__", "self.move_to_end(key)", "pass"),),
        test="tests/unit/test_bounded.py::test_an_entry_that_is_set_again_is_the_newest_and_drops_none",
    ),
    Mutant(
        "a stopped runtime leaves its process frozen",
        (Change("mercury.engine.runtime.collector:Collector.restore", "if self._frozen:", "if False:"),),
        test="tests/unit/engine/runtime/test_collector.py"
        "::test_of_two_runtimes_in_a_process_the_first_changes_and_restores_it",
    ),
    Mutant(
        "a stopped runtime leaves its threshold of garbage",
        (
            Change(
                "mercury.engine.runtime.collector:Collector.restore", "if self._before is not None and", "if False and"
            ),
        ),
        test="tests/unit/engine/runtime/test_collector.py"
        "::test_of_two_runtimes_in_a_process_the_first_changes_and_restores_it",
    ),
    Mutant(
        "the application's threshold of garbage is changed",
        (Change("mercury.engine.runtime.collector:Collector.adapt", "if young in DEFAULTS:", "if True:"),),
        test="tests/unit/engine/runtime/test_collector.py::test_threshold_that_the_application_has_set_stays",
    ),
    Mutant(
        "the application's threshold of garbage is lost",
        (
            Change(
                "mercury.engine.runtime.collector:Collector.restore",
                "if self._before is not None and gc.get_threshold()[0] == YOUNG:",
                "if self._before is not None:",
            ),
        ),
        test="tests/unit/engine/runtime/test_collector.py::test_threshold_that_the_application_sets_meanwhile_stays",
    ),
    Mutant(
        "work on a key costs the acknowledgement",
        (Change("mercury.engine.destination.reception:Reception._commit", "if refilled or delivers:", "if delivers:"),),
        test="tests/storage/test_refill.py::test_work_that_fails_is_left_to_the_worker_and_the_acknowledgement_is_kept",
    ),
    Mutant(
        "next large messages beside the reply to one",
        (
            Change(
                "mercury.engine.destination.reception:Reception._handle",
                " and not any(map(_is_of_large, exchanges))",
                "",
            ),
        ),
        test="tests/storage/test_large_messages.py::test_memory_for_messages_in_flight_does_not_grow_with_their_number",
    ),
)
