"""The reason in words why a source waits."""

from __future__ import annotations

from mercury.statemachine import events
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.waiting import waits_for

#: Longer than two transmissions take.
LATER = 100.0


def sequence(policy: SourcePolicy, count: int, sent: int, *, expects_response: bool = False) -> RMSSequence:
    """A sequence with a number of messages, some of them sent."""
    machine = RMSSequence.start(RmVersion.RM11, 0.0)
    for _ in range(count):
        machine.handle(events.Number(expects_response=expects_response), 0.0, policy)
    machine.handle(events.Created(identifier="urn:it"), 0.0, policy)
    machine.handle(events.Transmitted(sent), 0.0, policy)
    return machine


def test_a_destination_that_takes_only_the_next_message_is_named() -> None:
    policy = SourcePolicy(window=4)
    machine = sequence(policy, 4, 4)
    machine.handle(events.Acknowledged(((1, 1),)), 1.0, policy)
    assert waits_for(machine, policy, 1.0) is None
    machine.flow = type(machine.flow)(1)
    said = waits_for(machine, policy, 1.0)
    assert said is not None
    assert "takes only the next message" in said
    assert "number 2" in said


def test_a_destination_that_acknowledges_nothing_may_do_so_at_the_end_only() -> None:
    policy = SourcePolicy(window=4)
    machine = sequence(policy, 3, 3)
    assert waits_for(machine, policy, 0.0) is None
    said = waits_for(machine, policy, LATER)
    assert said is not None
    assert said.startswith("3 messages are sent and not acknowledged; nothing was heard for 100 s")
    assert said.endswith("the destination may acknowledge only at the end")


def test_with_more_messages_than_the_window_the_setting_is_named() -> None:
    policy = SourcePolicy(window=2)
    said = waits_for(sequence(policy, 3, 2), policy, LATER)
    assert said is not None
    assert "source.window (2) must take the whole sequence" in said


def test_silence_after_an_acknowledgement_is_only_silence() -> None:
    policy = SourcePolicy(window=4)
    machine = sequence(policy, 3, 3)
    machine.handle(events.Acknowledged(((1, 1),)), 1.0, policy)
    said = waits_for(machine, policy, LATER)
    assert said is not None
    assert "at the end" not in said


def test_as_many_unanswered_requests_as_may_be_are_named() -> None:
    policy = SourcePolicy(max_unanswered=2)
    machine = sequence(policy, 2, 2, expects_response=True)
    machine.handle(events.Acknowledged(((1, 2),)), LATER, policy)
    said = waits_for(machine, policy, LATER)
    assert said == "2 requests wait for their responses, as many as source.max_unanswered allows"
