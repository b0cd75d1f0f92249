"""RMSSequence: the life of a sequence at its source, in stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine import effects, events
from mercury.statemachine.effects import RmsEffect
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import FaultCode, Ranges
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.rms import MAX_RANGES, RMSSequence
from mercury.statemachine.rms_counters import RmsWork
from mercury.statemachine.tables import RmsState

RM10, RM11 = RmVersion.RM10, RmVersion.RM11
KEEP = IncompleteSequenceBehavior.NO_DISCARD
UP_TO_THE_GAP = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
ALL_OR_NOTHING = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
POLICY = SourcePolicy(idle_timeout=None)


def drive(
    machine: RMSSequence, *happened: events.RmsInput, now: float = 0.0, policy: SourcePolicy = POLICY
) -> list[RmsEffect]:
    """Let it happen; every state has to equal its predicate."""
    asked: list[RmsEffect] = []
    for event in happened:
        asked += machine.handle(event, now, policy)
        if machine.failure is None:
            assert machine.state.value == machine.predicate()
    return asked


def sending(
    count: int,
    acknowledged: Ranges = (),
    *,
    sent: int | None = None,
    rm: RmVersion = RM11,
    behavior: IncompleteSequenceBehavior = KEEP,
) -> RMSSequence:
    """A created sequence with ``count`` messages, of which ``sent`` may be on the wire."""
    machine = RMSSequence.start(rm, 0.0)
    drive(machine, *[events.Number()] * count, events.Created(identifier="urn:s", incomplete_behavior=behavior))
    drive(machine, events.Transmitted(count if sent is None else sent), events.Acknowledged(acknowledged))
    return machine


def only(asked: list[RmsEffect], kind: type) -> list[RmsEffect]:
    return [effect for effect in asked if isinstance(effect, kind)]


# --- from beginning to end -----------------------------------------------------------------------------------------


def test_three_messages_go_from_create_to_terminate() -> None:
    # ST-S01, ST-S14, ST-S15
    machine = RMSSequence.start(RM11, 0.0)
    assert drive(machine, *[events.Number()] * 3) == [effects.Numbered(1), effects.Numbered(2), effects.Numbered(3)]
    assert machine.work(POLICY) is RmsWork.CREATE
    drive(machine, events.Created(identifier="urn:s"))
    assert machine.work(POLICY) is RmsWork.TRANSMIT
    drive(machine, events.Transmitted(3))
    assert drive(machine, events.Acknowledged(((1, 1), (3, 3)))) == [effects.Released(((1, 1), (3, 3)))]
    assert machine.lowest_outstanding() == 2
    assert drive(machine, events.Acknowledged(((1, 3),))) == [effects.Released(((2, 2),))]
    assert (machine.state, machine.lowest_outstanding()) == (RmsState.IDLE, 4)
    assert machine.work(POLICY) is None
    drive(machine, events.End())
    assert machine.work(POLICY) is RmsWork.CLOSE
    drive(machine, events.Finished(((1, 3),)))
    assert machine.work(POLICY) is RmsWork.TERMINATE
    assert drive(machine, events.Settled(), now=7.0) == [effects.Ended()]
    assert (machine.state, machine.settled_at, machine.last_message) == (RmsState.ENDED, 7.0, 3)


def test_a_source_that_does_not_close_terminates_at_once() -> None:
    machine = sending(1, ((1, 1),))
    drive(machine, events.End())
    assert machine.work(replace(POLICY, close=False)) is RmsWork.TERMINATE


def test_the_older_generation_has_nothing_to_close() -> None:
    machine = sending(1, ((1, 1),), rm=RM10)
    drive(machine, events.End())
    assert machine.work(POLICY) is RmsWork.TERMINATE


def test_an_offered_sequence_that_carried_nothing_ends_with_no_last_message() -> None:
    machine = RMSSequence.offered(RM11, "urn:offered", None, 0.0)
    drive(machine, events.End())
    assert (machine.state, machine.last_message) == (RmsState.ENDING, 0)


def test_a_second_create_sequence_response_with_another_identifier_changes_nothing() -> None:
    machine = sending(1)
    drive(machine, events.Created(identifier="urn:orphan", expires_at=1.0, incomplete_behavior=ALL_OR_NOTHING))
    assert (machine.identifier, machine.expires_at, machine.incomplete_behavior) == ("urn:s", None, KEEP)


def test_a_create_sequence_response_after_giving_up_changes_nothing() -> None:
    machine = RMSSequence.start(RM11, 0.0)
    asked = drive(machine, events.Number(), events.GaveUp(), events.Created(identifier="urn:late"))
    assert only(asked, effects.Failed) == [effects.Failed(FailureReason.GIVEN_UP, ((1, 1),), ())]
    assert machine.identifier is None


# --- acknowledgements ----------------------------------------------------------------------------------------------


def test_an_older_acknowledgement_takes_nothing_back() -> None:
    machine = sending(5, ((1, 4),))
    assert drive(machine, events.Acknowledged(((1, 2),))) == []
    assert machine.acknowledged.as_tuples() == ((1, 4),)


def test_ranges_in_any_order_and_overlapping_release_each_number_once() -> None:
    machine = sending(9)
    asked = drive(machine, events.Acknowledged(((5, 8), (1, 3), (2, 6), (5, 8))))
    assert asked == [effects.Released(((1, 8),))]


def test_acknowledgements_with_gaps_everywhere_keep_a_limited_number_of_ranges() -> None:
    machine = sending(2000)
    every_second = tuple((number, number) for number in range(2, 2001, 2))
    (released,) = drive(machine, events.Acknowledged(every_second))
    assert released == effects.Released(every_second[:MAX_RANGES])
    assert len(machine.acknowledged) == MAX_RANGES
    assert drive(machine, events.Acknowledged(((1500, 1500),))) == []
    # What fills a gap always counts, so that all of them can be acknowledged.
    assert drive(machine, events.Acknowledged(((1, 1), (3, 3)))) == [effects.Released(((1, 1), (3, 3)))]
    drive(machine, events.Acknowledged(((1, 2000),)))
    assert machine.state is RmsState.IDLE


def test_final_acknowledgement_counts_with_all_its_ranges() -> None:
    machine = sending(2000)
    drive(machine, events.End())
    final = tuple((number, number) for number in range(2, 2001, 2))
    (moved,) = only(drive(machine, events.Finished(final)), effects.Moved)
    assert moved == effects.Moved(tuple((number, number) for number in range(1, 2000, 2)))


@pytest.mark.parametrize("ranges", [((1, 4),), ((0, 1),), ((2, 1),), ((1, 2), (9, 9)), ((-3, -1),), ((1, 10**30),)])
def test_an_acknowledgement_of_what_was_never_sent_is_a_fault_and_changes_nothing(ranges: Ranges) -> None:
    # ST-S19
    machine = sending(5, sent=3)
    (asked,) = drive(machine, events.Acknowledged(ranges))
    assert isinstance(asked, effects.RaiseFault)
    assert (asked.fault.code, asked.fault.ranges) == (FaultCode.INVALID_ACKNOWLEDGEMENT, ranges)
    assert not machine.acknowledged


def test_an_invalid_final_word_is_a_fault_and_not_final() -> None:
    machine = sending(5, sent=3)
    (asked,) = drive(machine, events.Finished(((1, 5),)))
    assert isinstance(asked, effects.RaiseFault)
    assert (machine.state, machine.closed) == (RmsState.SENDING, False)


def test_no_more_than_what_has_a_number_counts_as_sent() -> None:
    machine = sending(2)
    drive(machine, events.Transmitted(99))
    assert machine.highest_sent == 2


def test_an_acknowledgement_of_a_moved_number_does_not_release_it_here() -> None:
    machine = sending(3, ((1, 1),))
    drive(machine, events.Finished(((1, 1),)))
    assert drive(machine, events.Acknowledged(((1, 3),))) == []
    assert machine.state is RmsState.ENDING


# --- the final word ------------------------------------------------------------------------------------------------


def test_messages_missing_from_the_final_ranges_move_to_a_successor() -> None:
    machine = sending(5, ((1, 1),))
    asked = drive(machine, events.Finished(((1, 2), (4, 4))))
    assert asked == [effects.Moved(((3, 3), (5, 5))), effects.Released(((2, 2), (4, 4)))]
    assert (machine.state, machine.closed) == (RmsState.ENDING, True)
    assert drive(machine, events.Number()) == [effects.NumberRefused()]


def test_discard_following_first_gap_moves_what_was_acknowledged_behind_the_gap_too() -> None:
    # RM-CS-12, RM11-SEQ-11
    machine = sending(5, ((1, 1), (4, 4)), behavior=UP_TO_THE_GAP)
    assert [machine.retains(number) for number in (1, 2, 4)] == [False, True, True]
    assert drive(machine, events.Finished(((1, 2), (4, 4)))) == [
        effects.Moved(((3, 5),)),
        effects.Released(((2, 2),)),
    ]


def test_moved_messages_are_not_released_when_acknowledged_for_the_first_time() -> None:
    machine = sending(4, behavior=UP_TO_THE_GAP)
    assert drive(machine, events.Finished(((1, 1), (3, 4)))) == [
        effects.Moved(((2, 4),)),
        effects.Released(((1, 1),)),
    ]
    machine = sending(3, behavior=ALL_OR_NOTHING)
    assert drive(machine, events.Finished(((1, 1), (3, 3)))) == [effects.Moved(((1, 3),))]


def test_discard_following_first_gap_keeps_no_body_once_the_gap_is_filled() -> None:
    machine = sending(3, ((1, 1), (3, 3)), behavior=UP_TO_THE_GAP)
    assert machine.retains(3)
    drive(machine, events.Acknowledged(((1, 3),)))
    assert not machine.retains(3)


def test_discard_entire_sequence_keeps_every_body_until_the_end() -> None:
    machine = sending(2, ((1, 2),), behavior=ALL_OR_NOTHING)
    assert machine.retains(1)
    drive(machine, events.End())
    assert not machine.retains(1)


def test_discard_entire_sequence_moves_everything_when_there_is_a_gap() -> None:
    machine = sending(4, ((1, 1),), behavior=ALL_OR_NOTHING)
    assert drive(machine, events.Finished(((1, 1), (3, 3)))) == [effects.Moved(((1, 4),))]


def test_discard_entire_sequence_moves_only_the_rest_when_the_final_ranges_have_no_gap() -> None:
    """The destination sees no gap in 1 to 3 and delivers them: moving them would repeat them."""
    machine = sending(5, behavior=ALL_OR_NOTHING)
    assert drive(machine, events.Finished(((1, 3),))) == [effects.Moved(((4, 5),)), effects.Released(((1, 3),))]


def test_a_second_final_word_moves_nothing_twice() -> None:
    machine = sending(3, behavior=UP_TO_THE_GAP)
    drive(machine, events.Finished(((2, 2),)))
    assert drive(machine, events.Finished(((2, 2),))) == []


def test_a_close_response_without_the_final_acknowledgement_is_asked_for_again() -> None:
    # ST-S11
    machine = sending(2, ((1, 1),))
    drive(machine, events.End(abandon=True))
    assert machine.work(POLICY) is RmsWork.CLOSE
    assert drive(machine, events.Finished(None), now=3.0) == []
    assert (machine.work(POLICY), machine.last_heard) == (RmsWork.CLOSE, 3.0)


def test_a_close_response_without_the_final_acknowledgement_is_enough_when_all_is_acknowledged() -> None:
    machine = sending(2, ((1, 2),))
    drive(machine, events.End(), events.Finished(None))
    assert machine.work(POLICY) is RmsWork.TERMINATE


@pytest.mark.parametrize("acknowledged", [(), ((1, 1),)])
def test_a_stray_close_response_without_ranges_does_not_end_a_sequence_in_use(acknowledged: Ranges) -> None:
    machine = sending(1, acknowledged)
    state = machine.state
    assert drive(machine, events.Finished(None)) == []
    assert (machine.state, machine.takes_messages) == (state, True)


def test_a_stray_terminate_response_does_not_end_a_sequence_in_use() -> None:
    for machine in (sending(1), sending(1, ((1, 1),))):
        assert drive(machine, events.Settled()) == []
        assert machine.alive


# --- giving up the rest --------------------------------------------------------------------------------------------


def test_abandoning_closes_instead_of_transmitting_and_moves_what_was_not_accepted() -> None:
    # ST-S10
    machine = sending(3, ((1, 1),))
    drive(machine, events.End(abandon=True), now=5.0)
    assert (machine.work(POLICY), machine.control_due, machine.last_message) == (RmsWork.CLOSE, 5.0, 3)
    assert drive(machine, events.Finished(((1, 2),)))[0] == effects.Moved(((3, 3),))
    assert machine.work(POLICY) is RmsWork.TERMINATE


def test_abandoning_after_an_ordinary_end_closes_too() -> None:
    machine = sending(2)
    drive(machine, events.End(), events.End(abandon=True))
    assert (machine.state, machine.work(POLICY)) == (RmsState.SENDING_LAST, RmsWork.CLOSE)


def test_abandoning_in_the_older_generation_fails_because_nobody_says_a_final_word() -> None:
    machine = sending(3, ((1, 1),), rm=RM10, sent=2)
    assert drive(machine, events.End(abandon=True)) == [
        effects.Failed(FailureReason.GIVEN_UP, not_delivered=((3, 3),), unknown=((2, 2),))
    ]


@pytest.mark.parametrize("rm", [RM10, RM11])
def test_abandoning_before_the_sequence_exists_leaves_everything_undelivered(rm: RmVersion) -> None:
    machine = RMSSequence.start(rm, 0.0)
    drive(machine, events.Number(), events.Number())
    assert drive(machine, events.End(abandon=True)) == [effects.Failed(FailureReason.GIVEN_UP, ((1, 2),), ())]


@pytest.mark.parametrize("rm", [RM10, RM11])
def test_abandoning_with_nothing_outstanding_is_an_ordinary_end_and_still_terminates(rm: RmVersion) -> None:
    machine = sending(1, ((1, 1),), rm=rm)
    assert drive(machine, events.End(abandon=True)) == []
    assert machine.state is RmsState.ENDING
    assert machine.work(replace(POLICY, close=False)) is RmsWork.TERMINATE


def test_abandoning_stops_the_wait_for_responses() -> None:
    machine = RMSSequence.start(RM11, 0.0)
    drive(machine, events.Number(expects_response=True), events.Created(identifier="urn:s"))
    drive(machine, events.Transmitted(1), events.Acknowledged(((1, 1),)), events.End())
    assert machine.work(POLICY) is None
    drive(machine, events.End(abandon=True))
    assert machine.work(POLICY) is RmsWork.CLOSE


# --- failure -------------------------------------------------------------------------------------------------------


def test_at_a_failure_never_sent_is_not_delivered_and_the_rest_is_in_doubt() -> None:
    machine = sending(6, ((2, 2),), sent=4)
    assert drive(machine, events.GaveUp()) == [
        effects.Failed(FailureReason.GIVEN_UP, not_delivered=((5, 6),), unknown=((1, 1), (3, 4)))
    ]


def test_at_a_failure_acknowledged_bodies_behind_a_gap_are_in_doubt_where_they_may_be_discarded() -> None:
    machine = sending(6, ((1, 1), (3, 3)), sent=4, behavior=UP_TO_THE_GAP)
    (failed,) = drive(machine, events.GaveUp())
    assert failed == effects.Failed(FailureReason.GIVEN_UP, not_delivered=((5, 6),), unknown=((2, 4),))


def test_at_a_failure_everything_sent_is_in_doubt_where_all_may_be_discarded() -> None:
    machine = sending(5, ((1, 3),), sent=4, behavior=ALL_OR_NOTHING)
    (failed,) = drive(machine, events.GaveUp())
    assert failed == effects.Failed(FailureReason.GIVEN_UP, not_delivered=((5, 5),), unknown=((1, 4),))


def test_two_messages_that_are_given_up_at_once_fail_the_sequence_once() -> None:
    machine = sending(2)
    asked = drive(machine, events.GaveUp(), events.GaveUp())
    assert len(asked) == 1


def test_giving_up_a_settled_sequence_changes_nothing() -> None:
    machine = sending(1, ((1, 1),))
    drive(machine, events.End(), events.Settled(), now=5.0)
    assert drive(machine, events.GaveUp(), now=50.0) == []
    assert machine.settled_at == 5.0


@pytest.mark.parametrize("end", [(), (events.End(),)])
def test_giving_up_with_everything_acknowledged_is_a_settled_end(end: tuple[events.RmsInput, ...]) -> None:
    machine = sending(1, ((1, 1),))
    assert drive(machine, *end, events.GaveUp(), now=9.0) == [effects.Ended()]
    assert (machine.state, machine.settled_at, machine.failure) == (RmsState.ENDED, 9.0, None)


# --- rollover ------------------------------------------------------------------------------------------------------


def test_the_highest_number_is_used_and_the_next_message_needs_a_successor() -> None:
    machine = RMSSequence.offered(RM11, "urn:s", None, 0.0)
    machine.last_number = machine.highest_sent = MAX_MESSAGE_NUMBER - 1
    machine.acknowledged.add(1, MAX_MESSAGE_NUMBER - 1)
    assert drive(machine, events.Number()) == [effects.Numbered(MAX_MESSAGE_NUMBER)]
    assert not machine.takes_messages
    assert drive(machine, events.Number()) == [effects.NumberRefused()]
    assert machine.state is RmsState.SENDING_LAST, "what is unacknowledged is still retransmitted"
    assert drive(machine, events.Number()) == [effects.NumberRefused()]
    drive(machine, events.Transmitted(MAX_MESSAGE_NUMBER), events.Acknowledged(((1, MAX_MESSAGE_NUMBER),)))
    assert machine.state is RmsState.ENDING


def test_the_highest_number_may_be_the_last_message() -> None:
    machine = RMSSequence.offered(RM11, "urn:s", None, 0.0)
    machine.last_number = machine.highest_sent = MAX_MESSAGE_NUMBER - 1
    machine.acknowledged.add(1, MAX_MESSAGE_NUMBER - 1)
    assert drive(machine, events.Number(last=True)) == [effects.Numbered(MAX_MESSAGE_NUMBER)]
    assert machine.state is RmsState.SENDING_LAST


# --- responses and time --------------------------------------------------------------------------------------------


def test_the_end_waits_until_every_response_is_stored() -> None:
    machine = RMSSequence.start(RM11, 0.0)
    drive(machine, events.Number(expects_response=True), events.Number(expects_response=True))
    drive(machine, events.Created(identifier="urn:s"), events.Transmitted(2), events.Acknowledged(((1, 2),)))
    drive(machine, events.End())
    assert (machine.state, machine.work(POLICY), machine.next_due(POLICY)) == (RmsState.ENDING, None, None)
    drive(machine, events.ResponseStored())
    assert machine.work(POLICY) is None
    drive(machine, events.ResponseStored(), now=4.0)
    assert (machine.work(POLICY), machine.next_due(POLICY)) == (RmsWork.CLOSE, 4.0)


@pytest.mark.parametrize("close", [True, False])
def test_a_destination_that_withholds_until_the_end_is_told_the_end_before_it_answers(close: bool) -> None:
    policy = replace(POLICY, close=close)
    machine = RMSSequence.start(RM11, 0.0)
    drive(machine, events.Number(expects_response=True))
    drive(machine, events.Created(identifier="urn:s", incomplete_behavior=ALL_OR_NOTHING))
    drive(machine, events.Transmitted(1), events.Acknowledged(((1, 1),)), events.End())
    assert machine.work(policy) is RmsWork.CLOSE
    drive(machine, events.Finished(((1, 1),)))
    assert machine.work(policy) is None
    drive(machine, events.ResponseStored())
    assert machine.work(policy) is RmsWork.TERMINATE


def test_a_response_that_nobody_waits_for_does_not_hasten_the_end() -> None:
    machine = sending(1, ((1, 1),))
    drive(machine, events.End(), events.ControlSent(60.0), events.ResponseStored(), now=5.0)
    assert machine.control_due == 60.0


def test_a_response_does_not_hasten_the_end_while_others_are_waited_for() -> None:
    machine = sending(1, ((1, 1),), behavior=ALL_OR_NOTHING)
    machine.unanswered = 2
    drive(machine, events.End(), events.ControlSent(60.0), events.ResponseStored(), now=5.0)
    assert (machine.work(POLICY), machine.control_due) == (RmsWork.CLOSE, 60.0)


def test_more_responses_than_requests_do_not_count_below_none() -> None:
    machine = sending(1)
    drive(machine, events.ResponseStored(7))
    assert machine.unanswered == 0


def test_the_sequence_expires_when_its_time_is_over() -> None:
    machine = RMSSequence.start(RM11, 0.0)
    drive(machine, events.Number(), events.Created(identifier="urn:s", expires_at=10.0))
    assert machine.next_due(POLICY) == 10.0
    assert drive(machine, events.Tick(), now=9.9) == []
    assert drive(machine, events.Tick(), now=10.0) == [effects.Failed(FailureReason.EXPIRED, ((1, 1),), ())]


def test_silence_fails_a_sequence_with_unacknowledged_messages() -> None:
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = sending(1)
    assert machine.next_due(policy) == 60.0
    drive(machine, events.Tick(), now=59.0, policy=policy)
    assert machine.alive
    assert drive(machine, events.Tick(), now=60.0, policy=policy) == [
        effects.Failed(FailureReason.INACTIVE, (), ((1, 1),))
    ]


def test_silence_counts_from_the_last_thing_that_was_heard() -> None:
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = sending(2)
    drive(machine, events.Acknowledged(((1, 1),)), now=50.0, policy=policy)
    drive(machine, events.Tick(), now=100.0, policy=policy)
    assert machine.alive


def test_silence_counts_anew_from_the_creation() -> None:
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = RMSSequence.start(RM11, 0.0)
    drive(machine, events.Number(), policy=policy)
    assert machine.next_due(policy) == 0.0, "CreateSequence is due"
    drive(machine, events.Created(identifier="urn:s"), now=50.0, policy=policy)
    assert machine.next_due(policy) == 110.0
    assert drive(machine, events.Tick(), now=109.0, policy=policy) == []


def test_a_sequence_that_is_never_created_fails_by_silence_and_all_may_be_sent_again() -> None:
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = RMSSequence.start(RM11, 0.0)
    drive(machine, events.Number(), events.Number(), policy=policy)
    assert drive(machine, events.Tick(), now=60.0, policy=policy) == [
        effects.Failed(FailureReason.INACTIVE, ((1, 2),), ())
    ]


def test_without_a_limit_an_idle_sequence_stays() -> None:
    machine = sending(1, ((1, 1),))
    assert machine.next_due(POLICY) is None
    drive(machine, events.Tick(), now=1e12)
    assert machine.state is RmsState.IDLE


def test_an_idle_sequence_ends_when_its_time_is_over_and_not_before() -> None:
    policy = replace(POLICY, idle_timeout=300.0)
    machine = sending(1, ((1, 1),))
    drive(machine, events.Tick(), now=299.0, policy=policy)
    assert machine.state is RmsState.IDLE
    drive(machine, events.Tick(), now=300.0, policy=policy)
    assert machine.state is RmsState.ENDING


def test_a_sequence_with_unacknowledged_messages_is_not_idle() -> None:
    policy = replace(POLICY, idle_timeout=300.0)
    machine = sending(1)
    drive(machine, events.Tick(), now=1e9, policy=policy)
    assert machine.state is RmsState.SENDING


def test_a_message_after_a_long_idle_time_is_not_a_failure_at_once() -> None:
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = sending(1, ((1, 1),))
    drive(machine, events.Number(), events.Tick(), now=1000.0, policy=policy)
    assert machine.alive
    assert machine.next_due(policy) == 1060.0


def test_an_idle_end_is_told_to_the_destination_however_long_the_silence_was() -> None:
    policy = replace(POLICY, idle_timeout=300.0, inactivity_timeout=60.0)
    machine = sending(1, ((1, 1),))
    assert machine.next_due(policy) == 300.0
    drive(machine, events.Tick(), events.Tick(), now=300.0, policy=policy)
    assert (machine.state, machine.work(policy)) == (RmsState.ENDING, RmsWork.CLOSE)
    drive(machine, events.Tick(), now=500.0, policy=policy)
    assert machine.state is RmsState.ENDING, "nothing is unacknowledged, so silence fails nothing"


def test_a_sequence_that_waits_for_responses_is_not_idle() -> None:
    policy = replace(POLICY, idle_timeout=300.0)
    machine = sending(1, ((1, 1),))
    machine.unanswered = 1
    assert machine.next_due(policy) is None
    drive(machine, events.Tick(), now=1e9, policy=policy)
    assert machine.state is RmsState.IDLE


# --- the schedule of control messages ------------------------------------------------------------------------------


def test_each_control_message_has_a_schedule_of_its_own() -> None:
    machine = sending(1, ((1, 1),))
    drive(machine, events.End(), now=1.0)
    assert (machine.control_attempts, machine.next_due(POLICY)) == (0, 1.0)
    drive(machine, events.ControlSent(3.0), events.ControlSent(7.0))
    assert (machine.control_attempts, machine.next_due(POLICY)) == (2, 7.0)
    drive(machine, events.Finished(((1, 1),)), now=4.0)
    assert (machine.control_attempts, machine.next_due(POLICY)) == (0, 4.0)


def test_a_final_word_that_comes_again_does_not_hasten_terminate_sequence() -> None:
    machine = sending(1, ((1, 1),))
    drive(machine, events.End(), events.Finished(((1, 1),)), events.ControlSent(60.0))
    drive(machine, events.Finished(((1, 1),)), now=5.0)
    assert (machine.control_attempts, machine.control_due) == (1, 60.0)


def test_abandoning_makes_the_end_due_at_once_and_only_the_first_time() -> None:
    machine = sending(2, ((1, 2),))
    drive(machine, events.End(), events.ControlSent(60.0))
    drive(machine, events.End(abandon=True), now=5.0)
    assert machine.control_due == 5.0
    drive(machine, events.ControlSent(65.0), events.End(abandon=True), now=6.0)
    assert machine.control_due == 65.0


@pytest.mark.parametrize("end", [events.End(), events.Number(last=True)])
def test_the_end_does_not_hasten_a_create_sequence_that_waits_for_its_answer(end: events.RmsInput) -> None:
    machine = RMSSequence.start(RM11, 0.0)
    drive(machine, events.Number(), events.ControlSent(8.0), end, now=1.0)
    assert (machine.state, machine.control_attempts) == (RmsState.CREATING_LAST, 1)
    assert machine.next_due(POLICY) == 8.0


def test_the_retransmission_of_messages_is_not_on_the_sequence_s_schedule() -> None:
    assert sending(1).next_due(POLICY) is None


# --- a destination that has lost messages ----------------------------------------------------------------------------


def test_a_later_acknowledgement_without_acknowledged_numbers_tells_that_the_destination_has_lost_them() -> None:
    machine = sending(7, ((1, 6),), sent=6)
    drive(machine, events.Transmitted(7))
    assert only(drive(machine, events.Acknowledged(((1, 3), (7, 7)))), effects.Forgotten) == [
        effects.Forgotten(((4, 6),))
    ]


@pytest.mark.parametrize("late", [((1, 3),), ((5, 5),), ()])
def test_an_acknowledgement_that_arrives_late_tells_nothing(late: Ranges) -> None:
    machine = sending(7, ((1, 6),))
    assert only(drive(machine, events.Acknowledged(late)), effects.Forgotten) == []


def test_acknowledgements_of_too_many_ranges_tell_nothing_because_not_all_of_them_are_kept() -> None:
    count = 2 * MAX_RANGES + 10
    machine = sending(count, tuple((n, n) for n in range(1, count, 2)))
    assert only(drive(machine, events.Acknowledged(((count, count),))), effects.Forgotten) == []
