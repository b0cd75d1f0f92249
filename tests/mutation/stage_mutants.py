"""The guards of stages and relays, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

STAGE = "tests/storage/test_stage.py"
ALTERED = f"{STAGE}::test_a_message_that_was_altered_in_the_stage_becomes_one_dead_letter_and_the_others_are_handled"
GAPS = f"{STAGE}::test_gaps_of_a_sequence_that_was_closed_in_the_store_are_no_damage_and_are_settled_by_its_behavior"

ENDS = f"{STAGE}::test_an_end_that_was_altered_in_the_stage_ends_its_sequence_and_holds_up_no_other"

STAGES = (
    Mutant(
        "damaged end in a stage",
        (Change("mercury.engine.stage.damage:what_they_say", "if not marker.damaged:", "if True:"),),
        test=ENDS,
    ),
    Mutant(
        "end in a stage whose row has lost its sequence",
        (Change("mercury.engine.stage.mover:StageMover._restore_ends", "if stuck:", "if False:"),),
        test=ENDS,
    ),
    Mutant(
        "end in a stage whose row looks like a message",
        (Change("mercury.engine.stage.moving:read", " or without_a_place(tx, name)", ""),),
        test=ENDS,
    ),
    Mutant(
        "stage acknowledged before its commit",
        (
            Change(
                "mercury.engine.destination.reception:Reception._handle",
                "with self._context.store.transaction() as tx:",
                'with __import__("contextlib").suppress(Exception), self._context.store.transaction() as tx:',
            ),
        ),
        test=f"{STAGE}::test_nothing_is_acknowledged_before_the_stage_has_committed_it",
    ),
    Mutant(
        "numbers that the store has of a stage's sequence",
        (
            Change(
                "mercury.engine.stage.moving:_take",
                "if message.number in record.machine.received:",
                "if False:",
            ),
        ),
        test=f"{STAGE}"
        "::test_a_batch_that_was_moved_before_a_crash_adds_nothing_when_it_is_moved_again_after_its_delivery",
    ),
    Mutant(
        "stage emptied before the store has committed",
        (
            Change(
                "mercury.engine.stage.mover:StageMover.run_once",
                "        try:\n            self._write(moves, now)",
                "        for move in moves:\n            move.moved = move.messages\n"
                "        with stage.transaction() as tx:\n            remove(tx, moves, now)\n"
                "        try:\n            self._write(moves, now)",
            ),
        ),
        test=f"{STAGE}::test_while_the_store_is_away_messages_are_taken_and_acknowledged_and_sequences_created",
    ),
    Mutant(
        "sequences without room in the store are put off at the stage",
        (
            Change(
                "mercury.engine.stage.moving:remove",
                "move.buffer.retry_at = retry_at if move.rest else None",
                "pass",
            ),
        ),
        test=f"{STAGE}::test_a_sequence_without_room_in_the_store_is_read_again_after_a_pause_only",
    ),
    Mutant(
        "each sequence has a share of what a stage moves",
        (
            Change(
                "mercury.engine.stage.moving:read",
                "max(1, most // others), max(1, size // others)",
                "most, size",
            ),
        ),
        test=f"{STAGE}::test_a_sequence_without_room_in_the_store_does_not_hold_back_the_others",
    ),
    Mutant(
        "sequences of a stage that the store refuses are moved alone",
        (
            Change(
                "mercury.engine.stage.mover:StageMover._write",
                "except DataError as error:",
                "except DataError as error:\n            raise",
            ),
        ),
        test=f"{STAGE}::test_a_sequence_that_the_store_refuses_stays_in_the_stage_and_the_others_are_moved",
    ),
    Mutant(
        "what a sequence closed in the store refuses becomes dead letters",
        (
            Change(
                "mercury.engine.stage.moving:_take",
                "if fault is not None:",
                "assert fault is None\n        if fault is not None:",
            ),
        ),
        test=f"{STAGE}::test_an_operator_ends_a_sequence_in_the_store_and_neither_it_nor_others_wait_in_the_stage",
    ),
    Mutant(
        "numbers of a stage's dead letters count as received in the store",
        (Change("mercury.engine.stage.moving:_take", "record.machine.lose(message.number)", "pass"),),
        test=f"{STAGE}::test_a_crash_after_dead_letters_of_an_ended_sequence_were_committed_makes_no_second_ones",
    ),
    Mutant(
        "what the store had before the end of a sequence becomes no dead letter of the stage",
        (
            Change(
                "mercury.engine.stage.moving:_take",
                "if message.number in record.machine.received:",
                "if message.number in record.machine.received and not record.machine.tombstone:",
            ),
        ),
        test=f"{STAGE}"
        "::test_messages_that_were_delivered_before_a_crash_and_the_end_of_their_sequence_get_no_dead_letter",
    ),
    Mutant(
        "dead letters of a stage need no room in a buffer of the store",
        (Change("mercury.engine.stage.moving:_take", "not record.machine.final ", "True "),),
        test=f"{STAGE}::test_messages_of_a_closed_sequence_become_dead_letters_although_its_buffer_has_no_room",
    ),
    Mutant(
        "dead letters of a sequence closed in the store cut its buffer",
        (Change("mercury.engine.stage.moving:_take", "if CLOSED_IN_STORE in letters and", "if False and"),),
        test=GAPS,
    ),
    Mutant(
        "stage searches for damaged rows that have lost their place",
        (
            Change(
                "mercury.engine.stage.damage:misplaced",
                "if request is None or not _may_miss(buffer, request, part):",
                "if True:",
            ),
        ),
        test=ALTERED,
    ),
    Mutant(
        "row of a stage with the number of another message",
        (
            Change(
                "mercury.engine.stage.damage:_may_miss",
                "if any(row.damaged for row in part.markers):",
                "if False:",
            ),
        ),
        test=ALTERED,
    ),
    Mutant(
        "gap among the messages of a stage whose numbers have come",
        (
            Change(
                "mercury.engine.stage.damage:_may_miss",
                "return any(True for",
                "return False and any(True for",
            ),
        ),
        test=ALTERED,
    ),
    Mutant(
        "misplaced rows leave the stage with their messages",
        (
            Change(
                "mercury.engine.stage.moving:remove",
                "(row for number, row in move.misplaced.items() if number in numbers)",
                "()",
            ),
        ),
        test=ALTERED,
    ),
    Mutant(
        "misplaced rows of a stage that name their sequence come first",
        (
            Change(
                "mercury.engine.stage.damage:misplaced",
                "key=lambda row: row.sequence != buffer.sequence",
                "key=lambda row: 0",
            ),
        ),
        test=f"{STAGE}::test_rows_of_two_sequences_that_were_altered_in_the_stage_are_not_confused",
    ),
    Mutant(
        "what a finished buffer has discarded does not wait",
        (Change("mercury.statemachine.invoker:InvokerBuffer.waiting", "0 if self.finished else ", ""),),
        test=GAPS,
    ),
    Mutant(
        "state of a sequence follows from its lost messages",
        (Change("mercury.statemachine.rmd:RMDSequence.lose", "self.state = RmdState(self.predicate())", "pass"),),
        test="tests/unit/statemachine/test_rmd_stories.py"
        "::test_a_lost_message_may_be_the_last_one_that_an_ended_sequence_misses",
    ),
    Mutant(
        "messages that have left a large stage are not counted",
        (
            Change(
                "mercury.engine.stage.mover:StageMover._waiting",
                "return sum(",
                "return gauges.uncounted.get(Direction.INBOUND, 0) + sum(",
            ),
            Change(
                "mercury.engine.stage.mover:StageMover._waiting",
                "            gauges = self._context.store.gauges(now, ALL_ROWS)\n",
                "",
            ),
        ),
        test=f"{STAGE}::test_messages_that_left_a_large_stage_are_not_counted_and_new_ones_are_not_refused",
    ),
    Mutant(
        "a large stage is counted seldom",
        (
            Change(
                "mercury.engine.stage.mover:StageMover.run_once",
                "(not due and is_due(self._count_at, now, COUNT_INTERVAL))",
                "not due",
            ),
        ),
        test=f"{STAGE}::test_a_large_stage_is_counted_at_the_start_and_once_in_an_interval",
    ),
    Mutant(
        "first count of a stage that changes meanwhile",
        (Change("mercury.engine.stage_room:StageRoom.recount", "elif not self.is_counted:", "elif False:"),),
        test="tests/unit/engine/test_stage_room.py::test_first_count_has_what_arrived_while_it_was_read",
    ),
    Mutant(
        "relay's two halves in two transactions",
        (Change("mercury.relaying:relay_service", "            tx=context.transaction,\n", ""),),
        test="tests/scenario/test_relay.py::test_a_relay_that_crashes_at_every_second_commit_loses_and_repeats_nothing",
    ),
    Mutant(
        "relay makes a dead letter of what it can never send on",
        (
            Change(
                "mercury.relaying:relay_service",
                'raise ApplicationFault(f"it cannot be sent on: {error}") from error',
                "raise",
            ),
        ),
        test="tests/scenario/test_relay.py"
        "::test_a_message_that_a_relay_takes_but_could_never_send_on_becomes_a_dead_letter_and_holds_up_no_other",
    ),
    Mutant(
        "relay sends on an empty body",
        (Change("mercury.relaying:relay_service", "body or None,", "body,"),),
        test="tests/scenario/test_relay.py"
        "::test_messages_pass_two_relays_in_order_with_action_header_blocks_and_time_to_live",
    ),
    Mutant(
        "relay sends on every action that a peer may send",
        (Change("mercury.client.sender:Sender._row", "not collapse(action)", "not action.strip()"),),
        test="tests/scenario/test_relay.py::test_action_that_is_a_blank_of_unicode_but_not_of_xml_is_sent_on",
    ),
)
