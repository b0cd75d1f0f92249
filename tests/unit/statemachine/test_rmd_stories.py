"""RMDSequence: the life of a sequence at its destination, in stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine import effects, events
from mercury.statemachine.effects import RmdEffect
from mercury.statemachine.faults import FaultCode
from mercury.statemachine.policy import AcknowledgeAt, DestinationPolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.rmd import RMDSequence, accepted_ranges
from mercury.statemachine.tables import RmdState

RM10, RM11 = RmVersion.RM10, RmVersion.RM11
POLICY = DestinationPolicy()

Message = events.MessageReceived
Close = events.CloseReceived
Terminate = events.TerminateReceived


def drive(
    machine: RMDSequence, *happened: events.RmdInput, now: float = 0.0, policy: DestinationPolicy = POLICY
) -> list[RmdEffect]:
    """Let it happen; every state has to equal its predicate."""
    asked: list[RmdEffect] = []
    for event in happened:
        asked += machine.handle(event, now, policy)
        assert machine.state.value == machine.predicate()
    return asked


def created(rm: RmVersion = RM11, *numbers: int) -> RMDSequence:
    machine = RMDSequence("urn:d", rm, 0.0)
    drive(machine, *(Message(number=number) for number in numbers))
    return machine


def fault_code(asked: list[RmdEffect]) -> FaultCode:
    (effect,) = asked
    assert isinstance(effect, effects.RaiseFault)
    assert effect.fault.identifier == "urn:d"
    return effect.fault.code


# --- WS-RM 1.0: the last message -----------------------------------------------------------------------------------


def test_a_last_message_in_order_completes_the_sequence() -> None:
    machine = created(RM10, 1)
    assert drive(machine, Message(number=2, last=True)) == [effects.Accept(number=2, last=True)]
    assert (machine.state, machine.last_number) == (RmdState.COMPLETE, 2)
    assert drive(machine, Terminate()) == []
    assert machine.state is RmdState.ENDED_COMPLETE


def test_a_last_message_before_the_others_waits_for_them() -> None:
    machine = created(RM10)
    drive(machine, Message(number=3, last=True))
    assert machine.state is RmdState.LAST_KNOWN
    drive(machine, Message(number=1))
    assert machine.state is RmdState.LAST_KNOWN
    drive(machine, Message(number=2))
    assert machine.state is RmdState.COMPLETE


def test_a_number_above_the_last_exceeds_it() -> None:
    machine = created(RM10, 1)
    drive(machine, Message(number=3, last=True))
    assert fault_code(drive(machine, Message(number=4))) is FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED
    assert machine.state is RmdState.LAST_KNOWN


def test_a_last_message_below_a_received_number_is_a_fault_and_is_not_taken() -> None:
    machine = created(RM10, 5)
    assert fault_code(drive(machine, Message(number=3, last=True))) is FaultCode.SENDER
    assert (machine.state, 3 in machine.received) == (RmdState.RECEIVING, False)


def test_another_last_message_below_the_known_last_is_a_fault() -> None:
    machine = created(RM10)
    drive(machine, Message(number=5, last=True))
    assert fault_code(drive(machine, Message(number=3, last=True))) is FaultCode.SENDER
    assert machine.last_number == 5


def test_a_repetition_that_says_for_the_first_time_that_it_is_the_last_is_believed() -> None:
    machine = created(RM10, 1, 2)
    assert drive(machine, Message(number=2, last=True)) == [effects.Duplicate(2), effects.EndKnown(2)]
    assert machine.state is RmdState.COMPLETE
    assert drive(machine, Message(number=2, last=True)) == [effects.Duplicate(2)]


@pytest.mark.parametrize("number", [1, 2])
def test_a_repetition_never_draws_a_fault_even_when_it_wrongly_says_last(number: int) -> None:
    machine = created(RM10, 1, 2, 3)
    assert drive(machine, Message(number=number, last=True)) == [effects.Duplicate(number)]
    assert machine.state is RmdState.RECEIVING


def test_an_end_without_a_last_message_cuts_because_nobody_knows_whether_it_is_complete() -> None:
    machine = created(RM10, 1, 2)
    assert drive(machine, Terminate()) == [effects.CutBuffer()]
    assert machine.state is RmdState.ENDED_OPEN


def test_terminate_for_a_sequence_that_carried_nothing() -> None:
    machine = created(RM10)
    assert drive(machine, Terminate()) == [effects.CutBuffer()]
    assert machine.state is RmdState.ENDED_OPEN


# --- WS-RM 1.1: close and terminate --------------------------------------------------------------------------------


def test_close_makes_the_ranges_final_and_takes_only_repetitions() -> None:
    # ST-D03, ST-D06, RM11-CLS-01
    machine = created(RM11, 1, 2)
    assert drive(machine, Close(3)) == [effects.EndKnown(3)]
    assert (machine.state, machine.closed) == (RmdState.LAST_KNOWN, True)
    assert machine.acknowledgement(POLICY).final
    assert fault_code(drive(machine, Message(number=3))) is FaultCode.SEQUENCE_CLOSED
    assert drive(machine, Message(number=2)) == [effects.Duplicate(2)]
    assert machine.acknowledgement(POLICY).ranges == ((1, 2),)


def test_close_repeated_says_nothing_new() -> None:
    machine = created(RM11, 1)
    drive(machine, Close(1))
    assert drive(machine, Close(1)) == []
    assert machine.state is RmdState.COMPLETE


def test_close_and_terminate_of_a_complete_sequence() -> None:
    machine = created(RM11, 1)
    assert drive(machine, Close(1), Terminate(1)) == [effects.EndKnown(1)]
    assert machine.state is RmdState.ENDED_COMPLETE


def test_terminate_alone_is_the_last_number_and_the_end_in_one_step() -> None:
    # RM11-TRM-01
    machine = created(RM11, 1)
    assert drive(machine, Terminate(2)) == [effects.EndKnown(2), effects.CutBuffer()]
    assert machine.state is RmdState.ENDED_INCOMPLETE


@pytest.mark.parametrize("close", [(), (Close(),)])
def test_without_a_last_number_and_without_messages_nothing_was_sent(close: tuple[events.RmdInput, ...]) -> None:
    # RM11-CLS-01
    machine = created(RM11)
    assert drive(machine, *close, Terminate()) == [effects.EndKnown(0)]
    assert (machine.state, machine.last_number) == (RmdState.ENDED_COMPLETE, 0)


def test_a_message_after_a_close_that_said_nothing_was_sent_is_refused() -> None:
    machine = created(RM11)
    drive(machine, Close())
    assert fault_code(drive(machine, Message(number=1))) is FaultCode.SEQUENCE_CLOSED
    assert machine.state is RmdState.COMPLETE


def test_terminate_that_leaves_the_last_number_out_although_messages_came_cuts() -> None:
    machine = created(RM11, 1, 2)
    assert drive(machine, Close(), Terminate()) == [effects.CutBuffer()]
    assert (machine.state, machine.closed) == (RmdState.ENDED_OPEN, True)


def test_terminate_may_leave_the_last_number_out_after_close_has_told_it() -> None:
    machine = created(RM11, 1)
    assert drive(machine, Close(1), Terminate()) == [effects.EndKnown(1)]
    assert machine.state is RmdState.ENDED_COMPLETE


def test_a_last_number_that_close_has_told_stands_although_nothing_came() -> None:
    machine = created(RM11)
    assert drive(machine, Close(3), Close(), Terminate()) == [effects.EndKnown(3), effects.CutBuffer()]
    assert (machine.state, machine.last_number) == (RmdState.ENDED_INCOMPLETE, 3)


@pytest.mark.parametrize("last_number", [1, 3, 0, -1])
def test_terminate_that_contradicts_close_is_a_fault_and_ends_nothing(last_number: int) -> None:
    machine = created(RM11, 1, 2)
    drive(machine, Close(2))
    assert fault_code(drive(machine, Terminate(last_number))) is FaultCode.SENDER
    assert machine.state is RmdState.COMPLETE


@pytest.mark.parametrize("end", [Close, Terminate])
@pytest.mark.parametrize("last_number", [1, 0, -5, MAX_MESSAGE_NUMBER + 1])
def test_a_last_number_that_cannot_be_is_a_fault_and_closes_nothing(
    end: type[Close] | type[Terminate], last_number: int
) -> None:
    machine = created(RM11, 2)
    assert fault_code(drive(machine, end(last_number))) is FaultCode.SENDER
    assert (machine.state, machine.closed) == (RmdState.RECEIVING, False)


def test_an_identifier_that_only_close_has_used_is_used() -> None:
    machine = created(RM11)
    drive(machine, Close(3))
    assert (machine.state, machine.used) == (RmdState.LAST_KNOWN, True)


# --- messages ------------------------------------------------------------------------------------------------------


def test_a_repetition_is_acknowledged_again_at_once_and_never_accepted_again() -> None:
    machine = created(RM11, 1)
    drive(machine, events.AckSent())
    assert drive(machine, Message(number=1), now=5.0) == [effects.Duplicate(1)]
    assert (machine.ack_due, machine.last_heard) == (5.0, 5.0)


@pytest.mark.parametrize("number", [0, -1, -(10**30)])
def test_a_number_below_one_is_the_sender_s_mistake(number: int) -> None:
    machine = created(RM11, 1)
    assert fault_code(drive(machine, Message(number=number))) is FaultCode.SENDER
    assert accepted_ranges(machine) == ((1, 1),)


def test_the_highest_number_is_taken_and_one_above_it_is_rollover() -> None:
    # ST-D04
    machine = created(RM11, MAX_MESSAGE_NUMBER)
    asked = drive(machine, Message(number=MAX_MESSAGE_NUMBER + 1))
    assert fault_code(asked) is FaultCode.MESSAGE_NUMBER_ROLLOVER
    (effect,) = asked
    assert isinstance(effect, effects.RaiseFault)
    assert effect.fault.max_message_number == MAX_MESSAGE_NUMBER
    assert accepted_ranges(machine) == ((MAX_MESSAGE_NUMBER, MAX_MESSAGE_NUMBER),)


def test_with_too_many_gaps_new_ones_are_refused_for_now_and_filling_them_goes_on() -> None:
    policy = replace(POLICY, max_ranges=3)
    machine = created()
    drive(machine, *(Message(number=number) for number in (4, 6, 8)), policy=policy)
    (effect,) = drive(machine, Message(number=11), policy=policy)
    assert isinstance(effect, effects.RaiseFault)
    assert (effect.fault.code, effect.fault.busy, effect.fault.sender) == (FaultCode.RECEIVER, True, False)
    assert 11 not in machine.received
    assert drive(machine, Message(number=9), policy=policy) == [effects.Accept(number=9)]
    assert drive(machine, Message(number=7), policy=policy) == [effects.Accept(number=7)]
    assert drive(machine, Message(number=11), policy=policy) == [effects.Accept(number=11)]


def test_the_lowest_missing_number_is_taken_however_many_gaps_there_are() -> None:
    """A source that sends only its lowest numbers would wait forever otherwise."""
    policy = replace(POLICY, max_ranges=2)
    machine = created()
    drive(machine, Message(number=10), Message(number=20), policy=policy)
    for number in range(1, 10):
        assert drive(machine, Message(number=number), policy=policy) == [effects.Accept(number=number)]
    assert accepted_ranges(machine) == ((1, 10), (20, 20))


# --- acknowledgements ----------------------------------------------------------------------------------------------


def test_nothing_is_acknowledged_unasked_before_the_identifier_was_used() -> None:
    machine = created()
    assert machine.ack_due is None
    drive(machine, events.AckWanted(), now=2.0)
    assert machine.ack_due == 2.0
    drive(machine, events.AckSent())
    assert machine.ack_due is None


def test_an_acknowledgement_waits_for_company_as_long_as_the_interval() -> None:
    # ST-D15
    policy = replace(POLICY, acknowledgement_interval=0.5)
    machine = created()
    drive(machine, Message(number=1), now=10.0, policy=policy)
    assert machine.ack_due == machine.next_due(policy) == 10.5
    drive(machine, Message(number=2), now=10.4, policy=policy)
    assert machine.ack_due == 10.5, "later messages do not put it off"


def test_an_acknowledgement_is_due_at_once_when_enough_messages_wait() -> None:
    policy = replace(POLICY, acknowledge_every=3)
    machine = created()
    drive(machine, Message(number=1), Message(number=2), now=1.0, policy=policy)
    assert machine.ack_due == pytest.approx(1.1)
    drive(machine, Message(number=3), now=1.05, policy=policy)
    assert machine.ack_due == 1.05
    drive(machine, events.AckSent(), Message(number=4), now=2.0, policy=policy)
    assert machine.ack_due == pytest.approx(2.1), "it counts anew"


@pytest.mark.parametrize("numbers", [(2,), (1, 3)])
def test_an_acknowledgement_is_due_at_once_on_a_gap(numbers: tuple[int, ...]) -> None:
    machine = created()
    drive(machine, *(Message(number=number) for number in numbers), now=3.0)
    assert machine.ack_due == 3.0


def test_an_acknowledgement_is_due_at_once_when_the_sequence_is_complete() -> None:
    machine = created(RM10)
    drive(machine, Message(number=1, last=True), now=3.0)
    assert machine.ack_due == 3.0


def test_acknowledging_at_delivery_vouches_only_for_what_was_consumed() -> None:
    policy = replace(POLICY, acknowledge_at=AcknowledgeAt.DELIVERY)
    machine = created()
    drive(machine, Message(number=1), Message(number=2), policy=policy)
    assert machine.ack_due is None
    assert machine.acknowledgement(policy).ranges == ()
    drive(machine, events.Consumed(((1, 1),)), now=4.0, policy=policy)
    assert machine.ack_due == pytest.approx(4.1)
    assert machine.acknowledgement(policy).ranges == ((1, 1),)


def test_acknowledging_at_delivery_vouches_for_everything_received_once_final() -> None:
    policy = replace(POLICY, acknowledge_at=AcknowledgeAt.DELIVERY)
    machine = created()
    drive(machine, Message(number=1), Message(number=2), events.Consumed(((1, 1),)), Close(2), policy=policy)
    acknowledgement = machine.acknowledgement(policy)
    assert (acknowledgement.ranges, acknowledgement.final) == (((1, 2),), True)


@pytest.mark.parametrize("again", [(), ((1, 1),)])
def test_consuming_nothing_new_owes_no_acknowledgement(again: tuple[tuple[int, int], ...]) -> None:
    policy = replace(POLICY, acknowledge_at=AcknowledgeAt.DELIVERY)
    machine = created(RM11, 1)
    drive(machine, events.Consumed(((1, 1),)), events.AckSent(), events.Consumed(again), policy=policy)
    assert machine.ack_due is None


def test_consumption_after_the_end_owes_no_acknowledgement() -> None:
    policy = replace(POLICY, acknowledge_at=AcknowledgeAt.DELIVERY)
    machine = created(RM11, 1)
    drive(machine, Terminate(1), events.Consumed(((1, 1),)), policy=policy)
    assert machine.ack_due is None


def test_consumption_owes_no_acknowledgement_when_acceptance_is_acknowledged() -> None:
    machine = created(RM11, 1)
    drive(machine, events.AckSent(), events.Consumed(((1, 1),)))
    assert machine.ack_due is None


@pytest.mark.parametrize("end", [Close(1), Terminate(1)])
def test_an_acknowledgement_after_the_end_is_final(end: events.RmdInput) -> None:
    machine = created(RM11, 1)
    assert not machine.acknowledgement(POLICY).final
    drive(machine, end)
    assert machine.acknowledgement(POLICY).final


def test_the_older_generation_knows_no_final() -> None:
    machine = created(RM10, 1)
    drive(machine, Terminate())
    assert not machine.acknowledgement(POLICY).final


# --- time ----------------------------------------------------------------------------------------------------------


def test_a_sequence_that_nobody_used_is_forgotten_without_a_tombstone() -> None:
    # ST-D14
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = created()
    assert machine.next_due(policy) == 60.0
    assert drive(machine, events.Tick(), now=59.0, policy=policy) == []
    assert drive(machine, events.Tick(), now=60.0, policy=policy) == [effects.Forget()]
    assert not machine.tombstone


def test_a_sequence_expires_although_something_was_heard() -> None:
    machine = created()
    machine.expires_at = 10.0
    drive(machine, Message(number=1), events.Tick(), now=9.0)
    assert not machine.tombstone
    assert drive(machine, events.Tick(), now=10.0) == [effects.CutBuffer()]
    assert (machine.state, machine.ended_at, machine.ack_due) == (RmdState.ENDED_OPEN, 10.0, None)


@pytest.mark.parametrize("heard", [Message(number=1), Message(number=2), events.AckWanted(), Close(3)])
def test_silence_counts_from_the_last_thing_that_was_heard(heard: events.RmdInput) -> None:
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = created(RM11, 1)
    drive(machine, heard, now=50.0, policy=policy)
    assert drive(machine, events.Tick(), now=109.0, policy=policy) == []
    assert drive(machine, events.Tick(), now=110.0, policy=policy) == [effects.CutBuffer()]
    assert machine.ended_at == 110.0


@pytest.mark.parametrize("happened", [events.AckSent(), events.Consumed(((1, 1),))])
def test_own_activity_does_not_count_as_heard(happened: events.RmdInput) -> None:
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = created(RM11, 1)
    drive(machine, happened, now=50.0, policy=policy)
    assert drive(machine, events.Tick(), now=60.0, policy=policy) == [effects.CutBuffer()]


def test_a_complete_sequence_that_goes_silent_ends_complete_and_cuts_nothing() -> None:
    policy = replace(POLICY, inactivity_timeout=60.0)
    machine = created(RM10)
    drive(machine, Message(number=1, last=True), policy=policy)
    assert drive(machine, events.Tick(), now=60.0, policy=policy) == []
    assert machine.state is RmdState.ENDED_COMPLETE


def test_without_limits_nothing_ends_by_itself() -> None:
    policy = replace(POLICY, inactivity_timeout=None)
    machine = created(RM11, 1)
    drive(machine, events.AckSent(), events.Tick(), now=1e12, policy=policy)
    assert (machine.state, machine.next_due(policy)) == (RmdState.RECEIVING, None)


# --- messages that are refused although they were acknowledged elsewhere -------------------------------------------


def test_a_refused_message_that_is_counted_as_lost_is_a_duplicate_afterwards() -> None:
    machine = created(RM11, 1)
    drive(machine, events.EndSent(events.DestinationEnd.CLOSE, None))
    assert fault_code(drive(machine, Message(number=2))) is FaultCode.SEQUENCE_CLOSED
    machine.lose(2)
    assert drive(machine, Message(number=2)) == [effects.Duplicate(2)]


def test_a_lost_message_may_be_the_last_one_that_an_ended_sequence_misses() -> None:
    machine = created(RM10, 1)
    drive(machine, Message(number=3, last=True), Terminate())
    assert machine.state is RmdState.ENDED_INCOMPLETE
    machine.lose(2)
    assert (machine.state.value, machine.state) == (machine.predicate(), RmdState.ENDED_COMPLETE)
