"""Storing the responses of a run, in the transaction that consumes their requests.

A response that its client fetches is numbered here and can leave after the commit. A response that is posted waits for
the worker of its sequence, like every message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mercury.engine.context import EngineContext
from mercury.engine.exchange import Response
from mercury.engine.source import back_channel
from mercury.engine.source.apply_effects import handle_rms, save_rms
from mercury.statemachine import effects, events
from mercury.storage.api import Transaction
from mercury.storage.records import OutboundMessage, RmdRecord, RmsRecord, SequenceKey

#: Called with responses that can leave now.
Answer = Callable[[list[Response]], None]


def store_responses(
    context: EngineContext,
    tx: Transaction,
    rows: Sequence[OutboundMessage],
    request: RmdRecord | None,
    now: float,
    answer: Answer,
) -> None:
    """Store responses in order. It locks RMS keys: the caller must not lock RMD sequences or buffers afterwards.

    :param request: the sequence of their requests, as read for this run.
    :param answer: called after the commit with the responses that have a number.
    """
    fetched = {row.channel.key: None for row in rows if row.channel.back_channel and not row.channel.plain}
    tx.rms.lock(fetched)
    records = {key: record for key in fetched if (record := _current(tx, key)) is not None}
    numbered = [row for row in rows if row.channel.key in records and _number(context, tx, records, row, now)]
    for row in rows:
        tx.rms.append(row)
    for record in records.values():
        # From now on the exchange of any request may carry them.
        handle_rms(tx, context, record, events.Transmitted(record.machine.last_number), now)
        times = (record.due, record.machine.next_due(record.channel.policy, posts=False))
        record.due = min((at for at in times if at is not None), default=None)
        record.planned_at = now
        save_rms(tx, record)
    if numbered:
        ready = [back_channel.response(context, records[row.channel.key], row, request) for row in numbered]
        tx.after_commit(lambda: answer(ready))


def _current(tx: Transaction, key: SequenceKey) -> RmsRecord | None:
    """The sequence for the next response; ``None`` = the worker of the key decides."""
    records = tx.rms.records(key)
    current = records[-1] if records else None
    if current is None or not current.channel.back_channel or not current.machine.takes_messages:
        return None
    return None if tx.rms.unnumbered(key, 1) else current  # waiting rows come first


def _number(
    context: EngineContext, tx: Transaction, records: dict[SequenceKey, RmsRecord], row: OutboundMessage, now: float
) -> bool:
    record = records[row.channel.key]
    for effect in handle_rms(tx, context, record, events.Number(), now):
        if isinstance(effect, effects.Numbered):
            row.sequence_id, row.number, row.due = record.id, effect.number, now
            return True
    return False
