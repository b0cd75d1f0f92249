"""Which of the due messages of a sequence leave together, as a batch (`MessageBatch`).

A batch has what is due in the same transaction. Messages wait for others only if the policy says so
(`SourcePolicy.batch_wait`), before they get their numbers. A message that needs something that a batch does not have
leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from mercury.engine.context import EngineContext
from mercury.engine.emission import emit_transmitted
from mercury.engine.envelopes import reply_to_of
from mercury.statemachine import flow_control
from mercury.storage.api import Transaction
from mercury.storage.records import OutboundKind, OutboundMessage, RmsRecord

#: A batch that is sent again is this many times smaller after each transmission, down to single messages: then one
#: message that the destination does not take holds up no others.
SMALLER = 8


def in_batches(
    record: RmsRecord, due: Sequence[OutboundMessage], most_requests: int | None = None
) -> Iterator[list[OutboundMessage]]:
    """The due messages of a sequence, in order, divided into batches; each has at least one message.

    The messages of a batch have consecutive numbers and as many transmissions so far.

    :param due: ordered by number.
    :param most_requests: the most requests of a batch whose responses come on its connection; ``None`` = no limit.
    """
    together: list[OutboundMessage] = []
    size = 0
    for row in due:
        added = size + len(row.payload)
        full = most_requests is not None and len(together) >= most_requests and answered_there(record, row)
        if together and added <= record.batch_size and not full and _continues(record, together, row):
            together.append(row)
            size = added
            continue
        if together:
            yield together
        together, size = [row], len(row.payload)
    if together:
        yield together


def waits_for_batch(rows: Sequence[OutboundMessage], record: RmsRecord | None, now: float) -> float | None:
    """Until when rows without a number wait for others to fill a batch; ``None`` = they do not wait.

    :param rows: those that wait, in order; the first one has waited longest.
    :param record: the sequence that would take them; ``None`` = a new one, and nothing is known of its destination.
    """
    first = rows[0]
    until = first.created_at + first.channel.policy.batch_wait
    if until <= now or until - now > first.channel.policy.batch_wait or record is None:
        return None  # also if the clock was set back
    if len(rows) >= record.batch_messages or sum(len(row.payload) for row in rows) >= record.batch_size:
        return None  # a batch is full, or the destination takes none
    batched = all(row.kind is OutboundKind.MESSAGE and may_be_batched(record, row) for row in rows)
    return until if batched else None


def count_transmission(
    tx: Transaction,
    context: EngineContext,
    record: RmsRecord,
    rows: Sequence[OutboundMessage],
    now: float,
    *,
    last: bool,
) -> bool:
    """Count a transmission of messages that leave together. Returns whether AckRequested goes with them.

    :param last: no more messages of the sequence are due now.
    """
    machine, policy, request_ack = record.machine, record.channel.policy, False
    for row in rows:
        row.attempts += 1
        row.due = now + flow_control.pause_after(machine, policy, row.attempts, context.ids.chance())
        ends = last and row is rows[-1]
        number = row.number or 0
        request_ack |= flow_control.requests_acknowledgement(machine, policy, number, row.attempts, last=ends)
        emit_transmitted(tx, context.observers, record, row, now)
    if context.measurements is not None:
        endpoint, identifier, again = record.channel.endpoint, machine.identifier or "", rows[0].attempts > 1
        about = (endpoint, identifier, rows[-1].number or 0, len(rows))
        tx.after_commit(partial(context.measurements.transmitted, *about, again=again))
    return request_ack


def _continues(record: RmsRecord, together: Sequence[OutboundMessage], row: OutboundMessage) -> bool:
    """Whether a message may be the next one of a batch."""
    first, before = together[0], together[-1]
    return (
        len(together) < record.batch_messages // SMALLER ** min(row.attempts, SMALLER)
        and row.number == (before.number or 0) + 1
        and row.attempts == first.attempts
        and may_be_batched(record, row)
        and (len(together) > 1 or may_be_batched(record, first))
        and reply_to_of(record, row) == reply_to_of(record, first)
        # One-way messages are acknowledged at once, and the exchange of requests may be held.
        and answered_there(record, row) == answered_there(record, first)
    )


def answered_there(record: RmsRecord, row: OutboundMessage) -> bool:
    """Whether the response to a message comes on its connection."""
    return row.expects_response and record.channel.reply_to.anonymous


def may_be_batched(record: RmsRecord, row: OutboundMessage) -> bool:
    """Whether a batch has all that a message needs."""
    channel = record.channel
    needs_more = row.headers or row.to_parameters or row.attachments is not None or row.last or row.damaged
    return record.batch_messages > 1 and not (needs_more or channel.plain or channel.policy.mtom)
