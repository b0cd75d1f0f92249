"""Describes what a source waits for, as text for operators. Pure."""

from __future__ import annotations

from mercury.statemachine.flow_control import probe_after
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.rms_counters import RmsCounters
from mercury.statemachine.rms_table import RmsState


def waits_for(machine: RmsCounters, policy: SourcePolicy, now: float) -> str | None:
    """What a living sequence has been waiting for longer than two transmissions take; ``None`` = nothing."""
    if not machine.alive:
        return None
    if machine.state in (RmsState.CREATING, RmsState.CREATING_LAST) and machine.control_attempts > 1:
        return f"CreateSequence was sent {machine.control_attempts} times and is not answered"
    if machine.state is RmsState.ENDING and machine.control_attempts > 1:
        return f"the end was sent {machine.control_attempts} times and is not answered"
    if machine.starved and machine.control_attempts:
        return "the destination says that it has no room for messages (BufferRemaining 0); AckRequested is repeated"
    if machine.outstanding and machine.acknowledged and machine.flow.size == 1:
        lowest = machine.lowest_outstanding()
        return f"the destination takes only the next message: one at a time is sent, number {lowest} is next"
    silent = now - machine.last_heard
    if machine.in_flight and silent > probe_after(machine, policy):
        said = f"{machine.in_flight} messages are sent and not acknowledged; nothing was heard for {silent:.0f} s"
        if machine.acknowledged:
            return said
        said += "; the destination may acknowledge only at the end"
        if machine.last_number > machine.highest_sent:
            said += f", and no more is sent before: source.window ({policy.window}) must take the whole sequence"
        return said
    if machine.crowded(policy):
        return f"{machine.unanswered} requests wait for their responses, as many as source.max_unanswered allows"
    return None
