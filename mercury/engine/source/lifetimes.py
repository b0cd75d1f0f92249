"""The times of messages that have no number yet: which of them wait, and which have expired.

A number must be sent (RM-SEQ-01), so a message with a time to live gets one only when its sequence exists. Until then
only the first message of a sequence has one, because the sequence is created for it; if that one expires, the sequence
is replaced before anything of it is on the wire.
"""

from __future__ import annotations

from mercury.engine.context import EngineContext
from mercury.engine.source.apply_effects import handle_rms
from mercury.statemachine import events
from mercury.storage.api import Transaction
from mercury.storage.records import OutboundMessage, RmsRecord

#: The reason of a dead letter of a message whose time to live has ended before it had a number.
EXPIRED = "expired: it was not sent within its time to live"
#: The most rows that have expired behind a row that waits, which are read at once.
MOST_EXPIRED = 64


def is_expired(row: OutboundMessage, now: float) -> bool:
    """Whether the time to live of a message has ended."""
    return row.expires_at is not None and row.expires_at <= now


def is_being_created(record: RmsRecord | None) -> bool:
    """Whether CreateSequence is not answered yet, so that nothing of a sequence is on the wire."""
    return record is not None and record.machine.identifier is None and record.machine.last_number > 0


def waits_until(row: OutboundMessage, current: RmsRecord | None, held: float | None, now: float) -> float | None:
    """Until when a row, and those behind it, get no number; ``None`` = it may get one now.

    :param current: the sequence that would take it; ``None`` = a new one.
    :param held: until when rows were to wait before, in the future; ``None`` = they were not.
    """
    if is_being_created(current) and (held is not None or row.expires_at is not None):
        return held if held is not None else row.expires_at
    return row.not_before if row.not_before is not None and row.not_before > now else None


def withdraw_expired(tx: Transaction, context: EngineContext, record: RmsRecord, now: float) -> None:
    """Take back the numbers of a sequence that is not created yet, if its first message has expired."""
    if not is_being_created(record):
        return
    first = tx.rms.unsettled(record, 1)
    if first and is_expired(first[0], now):
        handle_rms(tx, context, record, events.Withdrawn(), now)
