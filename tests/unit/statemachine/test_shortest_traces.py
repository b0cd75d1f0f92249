"""The shortest traces on which a literal reading of the tables fails, and their correct results."""

from __future__ import annotations

import pytest

from mercury.statemachine import effects, events
from mercury.statemachine.effects import RmsEffect
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.policy import DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.rms_counters import RmsWork
from mercury.statemachine.tables import InvokerState, RmdState, RmsState

RM10, RM11 = RmVersion.RM10, RmVersion.RM11
#: CloseSequence never goes first.
SOURCE = SourcePolicy(close_unacknowledged_after=None)
DESTINATION = DestinationPolicy(inactivity_timeout=60.0)


def source(rm: RmVersion, *happened: events.RmsInput) -> RMSSequence:
    machine = RMSSequence.start(rm, 0.0)
    at_source(machine, *happened)
    return machine


def at_source(machine: RMSSequence, *happened: events.RmsInput) -> list[RmsEffect]:
    return [effect for event in happened for effect in machine.handle(event, 0.0, SOURCE)]


def test_1_an_empty_last_message_takes_a_number_instead_of_flagging_an_old_one() -> None:
    rms = source(RM10, events.Number(), events.Created(identifier="urn:s"), events.Transmitted(1))
    at_source(rms, events.Acknowledged(((1, 1),)))
    assert at_source(rms, events.Number(last=True)) == [effects.Numbered(2)]
    assert rms.state is RmsState.SENDING_LAST, "it has to be acknowledged"
    rmd = RMDSequence("urn:s", RM10, 0.0)
    rmd.handle(events.MessageReceived(number=1), 0.0, DESTINATION)
    rmd.handle(events.MessageReceived(number=2, last=True), 0.0, DESTINATION)
    at_source(rms, events.Transmitted(2), events.Acknowledged(rmd.received.as_tuples()))
    assert rms.work(SOURCE) is RmsWork.TERMINATE
    rmd.handle(events.TerminateReceived(), 0.0, DESTINATION)
    assert (rmd.last_number, rmd.state) == (2, RmdState.ENDED_COMPLETE)


def test_2_close_sequence_does_not_leave_before_everything_is_acknowledged() -> None:
    rms = source(RM11, events.Number(last=True), events.Created(identifier="urn:s"), events.Transmitted(1))
    assert rms.work(SOURCE) is RmsWork.TRANSMIT
    at_source(rms, events.Acknowledged(((1, 1),)))
    assert rms.work(SOURCE) is RmsWork.CLOSE


def test_3_a_message_behind_a_gap_is_in_the_buffer_and_yet_nothing_is_releasable() -> None:
    buffer = InvokerBuffer.for_policy(DESTINATION)
    buffer.handle(events.MessageBuffered(number=1))
    buffer.handle(events.MessageBuffered(number=3))
    buffer.handle(events.Delivered((1,)))
    assert buffer.buffered.as_tuples() == ((3, 3),)
    assert (buffer.state, list(buffer.releasable())) == (InvokerState.EMPTY, [])


def test_4_an_end_that_becomes_known_after_everything_was_delivered_is_complete_at_once() -> None:
    buffer = InvokerBuffer.for_policy(DESTINATION)
    buffer.handle(events.MessageBuffered(number=1))
    buffer.handle(events.Delivered((1,)))
    rmd = RMDSequence("urn:s", RM11, 0.0)
    rmd.handle(events.MessageReceived(number=1), 0.0, DESTINATION)
    assert rmd.handle(events.CloseReceived(1), 0.0, DESTINATION) == (effects.EndKnown(1),)
    buffer.handle(events.LastKnown(1))
    assert buffer.state is InvokerState.DONE


@pytest.mark.parametrize(
    ("last_number", "state"), [(2, RmdState.ENDED_INCOMPLETE), (None, RmdState.ENDED_OPEN)], ids=["known", "unknown"]
)
def test_5_terminating_an_incomplete_sequence_does_not_make_it_complete(
    last_number: int | None, state: RmdState
) -> None:
    rmd = RMDSequence("urn:s", RM11, 0.0)
    rmd.handle(events.MessageReceived(number=1), 0.0, DESTINATION)
    asked = rmd.handle(events.TerminateReceived(last_number), 0.0, DESTINATION)
    assert effects.CutBuffer() in asked
    assert (rmd.state, rmd.complete, rmd.predicate()[2]) == (state, False, "0")


def test_6_a_lost_terminate_sequence_of_the_older_generation_ends_the_destination_by_silence() -> None:
    rms = source(RM10, events.Number(last=True), events.Created(identifier="urn:s"), events.Transmitted(1))
    rmd = RMDSequence("urn:s", RM10, 0.0)
    rmd.handle(events.MessageReceived(number=1, last=True), 0.0, DESTINATION)
    at_source(rms, events.Acknowledged(((1, 1),)))
    assert at_source(rms, events.Settled()) == [effects.Ended()], "the transport took it; it gets no answer"
    assert rms.work(SOURCE) is None
    assert rmd.next_due(DESTINATION) == 0.0, "an acknowledgement first"
    rmd.handle(events.AckSent(), 0.0, DESTINATION)
    assert rmd.next_due(DESTINATION) == 60.0
    rmd.handle(events.Tick(), 60.0, DESTINATION)
    assert rmd.state is RmdState.ENDED_COMPLETE


def test_7_what_was_received_but_not_acknowledged_is_in_doubt_and_not_simply_sent_again() -> None:
    rms = source(RM11, events.Number(), events.Number(), events.Created(identifier="urn:s"), events.Transmitted(1))
    (failed,) = at_source(rms, events.GaveUp())
    assert failed == effects.Failed(FailureReason.GIVEN_UP, not_delivered=((2, 2),), unknown=((1, 1),))


def test_8_a_lost_create_sequence_response_kills_nobody() -> None:
    # ST-S06
    rmd = RMDSequence("urn:s", RM11, 0.0)
    assert rmd.ack_due is None, "nothing is acknowledged unasked while the source may not know the identifier"
    assert rmd.next_due(DESTINATION) == 60.0
    rms = source(RM11, events.Number())
    assert at_source(rms, events.Acknowledged(())) == [], "not answered with a fault"
    assert (rms.state, rms.work(SOURCE)) == (RmsState.CREATING, RmsWork.CREATE)


@pytest.mark.parametrize("code", [FaultCode.SEQUENCE_TERMINATED, FaultCode.UNKNOWN_SEQUENCE])
@pytest.mark.parametrize("ranges", [None, ((1, 1),)], ids=["without-ranges", "with-ranges"])
def test_9_a_fault_on_a_late_duplicate_does_not_turn_success_into_failure(
    code: FaultCode, ranges: tuple[tuple[int, int], ...] | None
) -> None:
    rmd = RMDSequence("urn:s", RM11, 0.0)
    rmd.handle(events.MessageReceived(number=1), 0.0, DESTINATION)
    rmd.handle(events.TerminateReceived(1), 0.0, DESTINATION)
    duplicate, fault = rmd.handle(events.MessageReceived(number=1), 0.0, DESTINATION)
    assert duplicate == effects.Duplicate(1)
    assert isinstance(fault, effects.RaiseFault)
    assert fault.fault.code is FaultCode.SEQUENCE_TERMINATED
    rms = source(RM11, events.Number(last=True), events.Created(identifier="urn:s"), events.Transmitted(1))
    at_source(rms, events.Acknowledged(((1, 1),)), events.ControlSent(1.0))
    asked = at_source(rms, events.FaultReceived(Fault(code=code, reason=""), ranges))
    assert asked == [effects.Ended()]
    assert (rms.state, rms.failure) == (RmsState.ENDED, None)
