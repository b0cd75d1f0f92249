"""When the worker has to work on a source sequence after an arrival for it."""

from __future__ import annotations

from mercury.statemachine.flow_control import has_more_to_do, has_nothing_to_do
from mercury.storage.records import RmsRecord


def due_after_arrival(record: RmsRecord, now: float) -> float | None:
    """When a source sequence that has handled an arrival is due: now if there may be something to do before the next
    retransmission; ``None`` = by another event only."""
    machine, policy = record.machine, record.channel.policy
    if record.channel.back_channel and not record.channel.plain:
        # Its messages are never posted, and responses are numbered when they are stored.
        if record.holds_rows or not machine.takes_messages:
            return now
        return machine.next_due(policy, posts=False) if record.due is None else record.due
    polls = record.channel.polled or record.poll_due is not None
    rests = has_nothing_to_do(machine, polls=polls, waiting=record.holds_rows)
    if rests and record.last_error is None:  # the worker notes that an error is over
        return machine.next_due(policy)  # not at the next retransmission: nothing is left to be sent again
    if record.due is None or has_more_to_do(machine, policy, waiting=record.holds_rows):
        return now
    return record.due
