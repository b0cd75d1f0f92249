"""RMSSequence: every fault code that a peer can send, in the states where it matters."""

from __future__ import annotations

import pytest

from mercury.statemachine import effects, events
from mercury.statemachine.effects import RmsEffect
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.rms_counters import RmsWork
from mercury.statemachine.tables import RmsState

RM10, RM11 = RmVersion.RM10, RmVersion.RM11
POLICY = SourcePolicy(idle_timeout=None)

UNRECOVERABLE = {
    FaultCode.UNKNOWN_SEQUENCE: FailureReason.UNKNOWN,
    FaultCode.SEQUENCE_TERMINATED: FailureReason.TERMINATED,
    FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED: FailureReason.TERMINATED,
}
REFUSALS = (FaultCode.CREATE_SEQUENCE_REFUSED, FaultCode.WSRM_REQUIRED)
#: These say nothing about the state of a sequence that exists.
WITHOUT_MEANING = set(FaultCode) - set(UNRECOVERABLE) - {FaultCode.MESSAGE_NUMBER_ROLLOVER}


def drive(machine: RMSSequence, *happened: events.RmsInput, now: float = 0.0) -> list[RmsEffect]:
    asked = [effect for event in happened for effect in machine.handle(event, now, POLICY)]
    assert machine.failure is not None or machine.state.value == machine.predicate()
    return asked


def sending(count: int, acknowledged: Ranges = (), *, sent: int | None = None, rm: RmVersion = RM11) -> RMSSequence:
    machine = RMSSequence.start(rm, 0.0)
    drive(machine, *[events.Number()] * count, events.Created(identifier="urn:s"))
    drive(machine, events.Transmitted(count if sent is None else sent), events.Acknowledged(acknowledged))
    return machine


def creating() -> RMSSequence:
    machine = RMSSequence.start(RM11, 0.0)
    drive(machine, events.Number(), events.Number())
    return machine


def received(
    code: FaultCode,
    ranges: Ranges | None = None,
    *,
    sender: bool = True,
    busy: bool = False,
    maximum: int | None = None,
    offered: bool = False,
) -> events.FaultReceived:
    fault = Fault(code=code, reason="", sender=sender, busy=busy, max_message_number=maximum)
    return events.FaultReceived(fault, ranges, offered)


# --- the sequence is lost at the destination -----------------------------------------------------------------------


@pytest.mark.parametrize("code", list(UNRECOVERABLE))
def test_a_lost_sequence_fails_and_what_was_sent_is_in_doubt(code: FaultCode) -> None:
    machine = sending(4, ((1, 1),), sent=3)
    assert drive(machine, received(code)) == [
        effects.Failed(UNRECOVERABLE[code], not_delivered=((4, 4),), unknown=((2, 3),))
    ]
    assert machine.state is RmsState.SENDING


@pytest.mark.parametrize("code", list(UNRECOVERABLE))
def test_a_lost_sequence_with_final_ranges_is_the_final_word_and_then_the_end(code: FaultCode) -> None:
    machine = sending(4, ((1, 1),))
    assert drive(machine, received(code, ((1, 2),)), now=5.0) == [
        effects.Moved(((3, 4),)),
        effects.Released(((2, 2),)),
        effects.Ended(),
    ]
    assert (machine.state, machine.closed, machine.settled_at) == (RmsState.ENDED, True, 5.0)


@pytest.mark.parametrize("code", list(UNRECOVERABLE))
@pytest.mark.parametrize("end", [(), (events.End(),)])
def test_a_lost_sequence_with_everything_acknowledged_is_success(
    code: FaultCode, end: tuple[events.RmsInput, ...]
) -> None:
    machine = sending(2, ((1, 2),))
    assert drive(machine, *end, received(code)) == [effects.Ended()]
    assert machine.failure is None


@pytest.mark.parametrize("code", list(UNRECOVERABLE))
def test_a_lost_sequence_with_ranges_that_are_invalid_fails_in_doubt_and_says_so(code: FaultCode) -> None:
    machine = sending(4, ((1, 1),), sent=3)
    invalid, failed = drive(machine, received(code, ((1, 4),)))
    assert isinstance(invalid, effects.RaiseFault)
    assert invalid.fault.code is FaultCode.INVALID_ACKNOWLEDGEMENT
    assert failed == effects.Failed(UNRECOVERABLE[code], not_delivered=((4, 4),), unknown=((2, 3),))
    assert machine.acknowledged.as_tuples() == ((1, 1),)


@pytest.mark.parametrize("code", list(UNRECOVERABLE))
def test_a_lost_sequence_before_it_was_created_leaves_everything_to_be_sent_again(code: FaultCode) -> None:
    machine = creating()
    assert drive(machine, received(code, ((1, 2),))) == [effects.Failed(UNRECOVERABLE[code], ((1, 2),), ())]


# --- the sequence is closed ----------------------------------------------------------------------------------------


def test_a_closed_sequence_with_final_ranges_moves_the_rest_and_terminates() -> None:
    machine = sending(3, ((1, 1),))
    assert drive(machine, received(FaultCode.SEQUENCE_CLOSED, ((1, 1),))) == [effects.Moved(((2, 3),))]
    assert machine.work(POLICY) is RmsWork.TERMINATE


def test_a_closed_sequence_without_ranges_goes_on_until_they_come() -> None:
    machine = sending(3, ((1, 1),))
    assert drive(machine, received(FaultCode.SEQUENCE_CLOSED), now=2.0) == []
    assert (machine.state, machine.work(POLICY), machine.last_heard) == (RmsState.SENDING, RmsWork.TRANSMIT, 2.0)


# --- rollover ------------------------------------------------------------------------------------------------------


def test_a_rollover_with_a_maximum_moves_what_is_above_and_ends_with_what_is_not() -> None:
    machine = sending(6, ((1, 2),))
    assert drive(machine, received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=4)) == [effects.Moved(((5, 6),))]
    assert (machine.state, machine.last_message) == (RmsState.SENDING_LAST, 4)
    assert drive(machine, events.Number()) == [effects.NumberRefused()]
    drive(machine, events.Acknowledged(((1, 4),)))
    assert machine.state is RmsState.ENDING


def test_a_rollover_that_moves_all_that_was_left_goes_straight_to_the_end() -> None:
    machine = sending(3, ((1, 2),))
    drive(machine, received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=2))
    assert (machine.state, machine.last_message) == (RmsState.ENDING, 2)


def test_a_rollover_without_a_maximum_takes_no_more_messages_and_goes_on_retransmitting() -> None:
    machine = sending(3, ((1, 1),))
    assert drive(machine, received(FaultCode.MESSAGE_NUMBER_ROLLOVER)) == []
    assert (machine.state, machine.work(POLICY)) == (RmsState.SENDING_LAST, RmsWork.TRANSMIT)
    assert not machine.takes_messages


@pytest.mark.parametrize("maximum", [0, -7])
def test_a_rollover_with_a_maximum_that_is_no_number_moves_everything(maximum: int) -> None:
    machine = sending(3)
    assert drive(machine, received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=maximum)) == [effects.Moved(((1, 3),))]
    assert (machine.state, machine.last_message) == (RmsState.ENDING, 0)


def test_a_rollover_below_what_is_acknowledged_does_not_contradict_that() -> None:
    machine = sending(4, ((3, 3),))
    assert drive(machine, received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=1)) == [effects.Moved(((2, 2), (4, 4)))]
    assert (machine.state, machine.last_message) == (RmsState.SENDING_LAST, 3)


@pytest.mark.parametrize("maximum", [3, 99])
def test_a_rollover_above_the_last_number_moves_nothing(maximum: int) -> None:
    machine = sending(3)
    assert drive(machine, received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=maximum)) == []
    assert (machine.state, machine.last_message) == (RmsState.SENDING_LAST, 3)


@pytest.mark.parametrize("maximum", [None, 0, 1, 9])
def test_a_rollover_before_the_sequence_exists_is_not_about_it(maximum: int | None) -> None:
    machine = creating()
    assert drive(machine, received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=maximum)) == []
    assert (machine.state, machine.takes_messages) == (RmsState.CREATING, True)


@pytest.mark.parametrize("end", [(), (events.End(),)])
def test_a_late_rollover_with_everything_acknowledged_only_ends(end: tuple[events.RmsInput, ...]) -> None:
    machine = sending(3, ((1, 3),))
    assert drive(machine, *end, received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=2)) == []
    assert (machine.state, machine.last_message) == (RmsState.ENDING, 3)


def test_a_rollover_does_not_lower_a_last_number_that_close_sequence_has_told() -> None:
    machine = sending(3)
    drive(machine, events.End(abandon=True), received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=1))
    assert machine.last_message == 3


def test_after_a_rollover_the_final_word_moves_the_rest_and_nothing_twice() -> None:
    machine = RMSSequence.start(RM11, 0.0)
    discarding = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
    drive(machine, *[events.Number()] * 6, events.Created(identifier="urn:s", incomplete_behavior=discarding))
    drive(machine, events.Transmitted(6), received(FaultCode.MESSAGE_NUMBER_ROLLOVER, maximum=4))
    asked = drive(machine, events.Finished(((1, 1), (3, 3))))
    assert asked == [effects.Moved(((2, 4),)), effects.Released(((1, 1),))]


# --- no sequence is made -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_by_the_peer_s_own_decision_fails_and_all_may_be_sent_elsewhere(code: FaultCode) -> None:
    machine = creating()
    assert drive(machine, received(code)) == [effects.Failed(FailureReason.REFUSED, ((1, 2),), ())]


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize(("sender", "busy"), [(False, False), (True, True), (False, True)])
def test_a_refusal_that_may_pass_is_asked_again(code: FaultCode, sender: bool, busy: bool) -> None:
    machine = creating()
    assert drive(machine, received(code, sender=sender, busy=busy)) == []
    assert machine.work(POLICY) is RmsWork.CREATE


@pytest.mark.parametrize("sent", [1, 2])
def test_a_refusal_of_a_repeat_is_not_final_and_its_messages_move(sent: int) -> None:
    # RM-CS-13: the destination refuses it because it knows the offer, and has made a sequence.
    machine = creating()
    drive(machine, *[events.ControlSent(1.0)] * sent)
    asked = drive(machine, received(FaultCode.CREATE_SEQUENCE_REFUSED))
    if sent == 1:
        assert asked == [effects.Failed(FailureReason.REFUSED, ((1, 2),), ())]
    else:
        assert asked == [effects.Moved(((1, 2),)), effects.Replaced()]
        assert machine.failure is FailureReason.REPLACED
    assert drive(machine, events.GaveUp(), events.Tick()) == []


def test_a_refusal_of_the_first_create_sequence_with_an_offer_asks_at_once_without_one() -> None:
    machine = creating()
    drive(machine, events.ControlSent(9.0))
    asked = drive(machine, received(FaultCode.CREATE_SEQUENCE_REFUSED, offered=True), now=2.0)
    assert asked == [effects.WithoutOffer()]
    assert (machine.work(POLICY), machine.next_due(POLICY)) == (RmsWork.CREATE, 2.0)
    drive(machine, events.ControlSent(9.0), now=2.0)
    asked = drive(machine, received(FaultCode.CREATE_SEQUENCE_REFUSED), now=3.0)
    assert asked == [effects.Failed(FailureReason.REFUSED, ((1, 2),), ())], "no answer to a repetition"


def test_a_refused_repetition_of_create_sequence_without_an_offer_is_not_final_either() -> None:
    machine = creating()
    drive(machine, events.ControlSent(1.0), received(FaultCode.CREATE_SEQUENCE_REFUSED, offered=True))
    drive(machine, *[events.ControlSent(1.0)] * 2)
    assert drive(machine, received(FaultCode.CREATE_SEQUENCE_REFUSED)) == [
        effects.Moved(((1, 2),)),
        effects.Replaced(),
    ]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (received(FaultCode.CREATE_SEQUENCE_REFUSED, offered=True, busy=True), []),
        (received(FaultCode.CREATE_SEQUENCE_REFUSED, offered=True, sender=False), []),
        (received(FaultCode.WSRM_REQUIRED, offered=True), [effects.Failed(FailureReason.REFUSED, ((1, 2),), ())]),
    ],
    ids=["busy", "its own fault", "WSRMRequired"],
)
def test_other_refusals_of_a_create_sequence_with_an_offer_say_nothing_of_the_offer(
    given: events.FaultReceived, asked: list[RmsEffect]
) -> None:
    machine = creating()
    drive(machine, events.ControlSent(1.0))
    assert drive(machine, given) == asked


def test_a_refused_repetition_of_create_sequence_with_an_offer_is_replaced() -> None:
    machine = creating()
    drive(machine, *[events.ControlSent(1.0)] * 2)
    asked = drive(machine, received(FaultCode.CREATE_SEQUENCE_REFUSED, offered=True))
    assert asked == [effects.Moved(((1, 2),)), effects.Replaced()]


def test_an_identifier_that_another_sequence_has_makes_the_messages_move() -> None:
    machine = creating()
    assert drive(machine, events.IdentifierTaken()) == [effects.Moved(((1, 2),)), effects.Replaced()]
    assert machine.failure is FailureReason.REPLACED


def test_an_identifier_that_is_taken_says_nothing_about_a_sequence_that_has_one() -> None:
    machine = creating()
    assert drive(machine, events.Created(identifier="urn:s"), events.IdentifierTaken()) == []
    assert machine.alive


def test_an_orphan_has_nothing_but_its_end_to_tell() -> None:
    machine = RMSSequence.orphan(RmVersion.RM11, "urn:orphan", 5.0)
    assert (machine.state, machine.predicate()) == (RmsState.ENDING, RmsState.ENDING.value)
    assert machine.work(POLICY) is RmsWork.TERMINATE
    assert machine.next_due(POLICY) == 5.0
    assert not machine.takes_messages
    assert drive(machine, events.Settled()) == [effects.Ended()]


# --- everything else -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(WITHOUT_MEANING, key=str))
@pytest.mark.parametrize("acknowledged", [(), ((1, 1),), ((1, 2),)])
def test_other_faults_change_nothing_about_a_sequence_that_exists(code: FaultCode, acknowledged: Ranges) -> None:
    machine = sending(2, acknowledged)
    state = machine.state
    assert drive(machine, received(code), now=3.0) == []
    assert (machine.state, machine.failure, machine.last_heard) == (state, None, 3.0)


@pytest.mark.parametrize("code", sorted(WITHOUT_MEANING - set(REFUSALS), key=str))
def test_other_faults_do_not_stop_the_creation(code: FaultCode) -> None:
    machine = creating()
    assert drive(machine, received(code)) == []
    assert machine.work(POLICY) is RmsWork.CREATE


@pytest.mark.parametrize("code", list(FaultCode))
@pytest.mark.parametrize("ranges", [None, ((1, 1),), ((1, 9),)])
def test_no_fault_changes_an_ended_sequence(code: FaultCode, ranges: Ranges | None) -> None:
    machine = sending(1, ((1, 1),))
    drive(machine, events.End(), events.Settled(), now=4.0)
    assert drive(machine, received(code, ranges, maximum=0), now=9.0) == []
    assert (machine.state, machine.settled_at) == (RmsState.ENDED, 4.0)
