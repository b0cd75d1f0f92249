"""How many more messages fit, as acknowledgements state it (docs/protocol.md, section 14)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine import effects, events
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.room import MOST, Backlogged

POLICY = DestinationPolicy(max_backlog=100, max_backlog_bytes=10_000)
KEEP, ENTIRE = IncompleteSequenceBehavior.NO_DISCARD, IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE


def waiting(messages: int, size: int = 0, **more: object) -> Backlogged:
    return Backlogged(**{"messages": messages, "size": size, "behavior": KEEP, **more})  # type: ignore[arg-type]


def room(waits: Backlogged, policy: DestinationPolicy = POLICY, *, is_notified: bool = True) -> int | None:
    return waits.room(policy, None, is_notified=is_notified)


def test_as_many_fit_as_the_limit_leaves() -> None:
    # FC-01
    assert [room(waiting(messages)) for messages in (0, 40, 99, 100, 130)] == [100, 60, 1, 0, 0]


def test_bytes_are_counted_in_messages_of_the_mean_size() -> None:
    assert room(waiting(10, 5000)) == 10
    assert room(waiting(10, 9900)) == 0
    assert room(waiting(10, 20_000)) == 0


def test_nothing_is_stated_while_many_fit_and_something_always_once_it_was() -> None:
    # .NET counts its messages down from the last figure that it read
    large = replace(POLICY, max_backlog=10_000, max_backlog_bytes=10**9)
    assert room(waiting(10_000 - MOST), large) is None
    assert room(waiting(10_000 - MOST + 1), large) == MOST - 1
    assert waiting(0).room(large, 17, is_notified=True) == MOST


def test_nothing_is_stated_if_the_setting_says_so() -> None:
    assert waiting(99).room(replace(POLICY, buffer_remaining=False), 17, is_notified=True) is None


def test_source_that_would_not_hear_of_new_room_is_never_told_that_nothing_fits() -> None:
    assert room(waiting(100), is_notified=False) == 1
    assert room(waiting(10, 20_000), is_notified=False) == 1


def test_sequence_that_is_delivered_at_its_end_only_is_never_told_that_nothing_fits() -> None:
    # It would wait forever: there is no room before its end.
    assert room(waiting(100, behavior=ENTIRE)) == 1


def test_bytes_of_other_sequences_leave_room_for_one_message_at_least() -> None:
    assert room(waiting(10, 100, left_by_others=55)) == 5
    assert room(waiting(10, 100, left_by_others=0)) == 1
    assert room(waiting(100, 100, left_by_others=10**9)) == 0


def test_new_room_is_notified_when_a_quarter_is_free_of_both_limits() -> None:
    # FC-02
    assert not waiting(76).is_free(POLICY)
    assert waiting(75).is_free(POLICY)
    assert not waiting(75, 7501).is_free(POLICY)
    assert waiting(75, 7500).is_free(POLICY)
    assert waiting(0).is_free(replace(POLICY, max_backlog=1))
    assert not waiting(1).is_free(replace(POLICY, max_backlog=1))


# --- in the machines -------------------------------------------------------------------------------------------------


def received(*numbers: int, **changes: object) -> RMDSequence:
    machine = RMDSequence("urn:d", RmVersion.RM11, 0.0, **changes)  # type: ignore[arg-type]
    for number in numbers:
        machine.handle(events.MessageReceived(number=number), 0.0, POLICY)
    machine.handle(events.AckSent(), 0.0, POLICY)
    return machine


def stated(machine: RMDSequence, policy: DestinationPolicy = POLICY) -> int | None:
    return machine.acknowledgement(policy).buffer_remaining


def test_acknowledgement_states_the_room_that_was_counted_last() -> None:
    machine = received(1, 2)
    assert stated(machine) is None
    machine.handle(events.RoomCounted(3), 1.0, POLICY)
    assert stated(machine) == 3


def test_stored_messages_that_it_does_not_list_are_in_flight_and_have_their_place() -> None:
    # FC-02: the source counts them against the figure
    behind_a_gap = received(1, 3, 4, in_order_only=True)
    behind_a_gap.handle(events.RoomCounted(5), 1.0, POLICY)
    assert stated(behind_a_gap) == 7
    at_delivery = replace(POLICY, acknowledge_at=AcknowledgeAt.DELIVERY)
    machine = received(1, 2, 3)
    machine.handle(events.Consumed(((1, 1),)), 1.0, at_delivery)
    machine.handle(events.RoomCounted(5), 1.0, at_delivery)
    assert stated(machine, at_delivery) == 7


@pytest.mark.parametrize("end", [events.CloseReceived(2), events.TerminateReceived(2)], ids=["closed", "ended"])
def test_final_acknowledgement_states_no_room(end: events.RmdInput) -> None:
    machine = received(1, 2)
    machine.handle(events.RoomCounted(3), 1.0, POLICY)
    machine.handle(end, 1.0, POLICY)
    assert stated(machine) is None


def test_new_room_is_acknowledged_at_once_if_the_source_was_told_that_nothing_fits() -> None:
    # FC-02
    machine = received(1, 2)
    machine.handle(events.RoomCounted(3), 1.0, POLICY)
    assert machine.ack_due is None
    machine.handle(events.RoomCounted(0), 2.0, POLICY)
    assert machine.ack_due is None
    machine.handle(events.RoomCounted(1), 3.0, POLICY)
    assert machine.ack_due == 3.0


def test_source_sends_again_at_once_what_was_in_flight_when_it_is_notified_of_new_room() -> None:
    # The destination may have refused it.
    policy, machine = SourcePolicy(window=8), RMSSequence.start(RmVersion.RM11, 0.0)
    for _ in range(6):
        machine.handle(events.Number(), 0.0, policy)
    machine.handle(events.Created(identifier="urn:s"), 0.0, policy)
    machine.handle(events.Transmitted(5), 0.0, policy)
    assert machine.handle(events.Acknowledged(((1, 2),), 0), 1.0, policy) == (effects.Released(((1, 2),)),)
    assert machine.handle(events.Acknowledged(((1, 2),), 0), 2.0, policy) == ()
    assert machine.handle(events.Acknowledged(((1, 2),), 2), 3.0, policy) == (effects.Due(((3, 4),)),)
    assert machine.handle(events.Acknowledged(((1, 2),), 3), 4.0, policy) == ()


def test_room_for_a_whole_window_is_no_limit() -> None:
    policy, machine = SourcePolicy(window=8), RMSSequence.start(RmVersion.RM11, 0.0)
    machine.handle(events.Number(), 0.0, policy)
    machine.handle(events.Created(identifier="urn:s"), 0.0, policy)
    machine.handle(events.Transmitted(1), 0.0, policy)
    machine.handle(events.Acknowledged((), 8), 1.0, policy)
    assert not machine.flow.narrow
    machine.handle(events.Acknowledged((), 7), 2.0, policy)
    assert machine.flow.narrow
