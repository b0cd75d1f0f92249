"""Counts how many more messages of a destination sequence fit, for its acknowledgements (FC-01).

This is the only place that does so. A locked record remembers the number, and `RMDSequence.acknowledgement` states it:
also in acknowledgements beside responses, whose record is not locked.
"""

from __future__ import annotations

from mercury.engine.context import EngineContext
from mercury.statemachine import events
from mercury.statemachine.acknowledging import is_posted
from mercury.statemachine.room import Backlogged
from mercury.storage.records import InvokerRecord, RmdRecord


def count_room(
    context: EngineContext,
    record: RmdRecord,
    buffer: InvokerRecord | None,
    now: float,
    left_by_others: int | None = None,
) -> bool:
    """Count the room of a locked sequence: its next acknowledgement states it. Returns whether the room is another.

    :param buffer: its buffer, as committed after the sequence was locked; ``None`` = it was deleted.
    :param left_by_others: bytes that the limits on the peer and on all peers leave; see `Backlogged`.
    """
    if buffer is None:
        return False
    policy = context.application.policy(record.service)
    notified = is_posted(record.acks_to) or record.acks_to.polled or record.source_is_mercury
    room = _waiting(record, buffer, left_by_others).room(policy, record.machine.room, is_notified=notified)
    if room == record.machine.room:
        return False
    record.machine.handle(events.RoomCounted(room), now, policy)
    return True


def has_room_again(context: EngineContext, record: RmdRecord, buffer: InvokerRecord) -> bool:
    """Whether the newest acknowledgement stated that nothing fits, and another is due: there is room (FC-02)."""
    full = record.machine.room == 0 and not record.machine.final
    return full and _waiting(record, buffer, None).is_free(context.application.policy(record.service))


def _waiting(record: RmdRecord, buffer: InvokerRecord, left_by_others: int | None) -> Backlogged:
    return Backlogged(
        messages=max(0, record.machine.received.count - buffer.machine.passed.count),
        size=max(0, record.received_bytes - buffer.consumed_bytes),
        behavior=buffer.machine.behavior,
        left_by_others=left_by_others,
    )
