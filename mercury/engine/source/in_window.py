"""The messages of a sequence that may be in flight now."""

from __future__ import annotations

from mercury.engine.context import EngineContext
from mercury.statemachine import flow_control
from mercury.storage.api import Transaction
from mercury.storage.records import OutboundMessage, RmsRecord

#: The bytes of the bodies of one sequence that are in flight, if they are of more than one message; also of those that
#: one transaction reads. A message in flight takes several times its bytes of memory on both sides.
WINDOW_BYTES = 8 * 1024 * 1024


def rows_in_window(
    tx: Transaction, context: EngineContext, record: RmsRecord, now: float, *, one: bool
) -> list[OutboundMessage]:
    """The rows that may be sent when they are due: those in the window, or fewer while the destination is silent.

    :param one: only one message is sent, so only one body is read.
    """
    machine, policy = record.machine, record.channel.policy
    rows = _unsettled(tx, record, now, one)
    polled = record.channel.polled  # a peer that fetches is reachable
    reached = not polled and context.endpoint_errors.get(record.channel.endpoint) is None
    least = flow_control.beside(_attempts(rows)) if reached and machine.flow.size is not None else 1
    if least > 1:
        rows = _unsettled(tx, record, now, one, least)
    if any(row.due > now and policy.retransmission.is_due(row.due, now) for row in rows):
        rows = _unsettled(tx, record, None, one, least)  # the clock was set back: all bodies are needed
    if polled:
        return rows
    sent = [(row.number or 0, row.attempts) for row in rows]
    probes = flow_control.probes(machine, policy, sent, now, reached=reached)
    return [row for row in rows if row.number in probes]


def _attempts(rows: list[OutboundMessage]) -> int:
    """Transmissions of the lowest number that is not acknowledged."""
    return next((row.attempts for row in rows if not row.acknowledged), 0)


def _unsettled(
    tx: Transaction, record: RmsRecord, now: float | None, one: bool, least: int = 1
) -> list[OutboundMessage]:
    """The rows in the window: unacknowledged, or acknowledged requests that are repeated until they are answered.

    :param least: how many numbers the window has at least.
    """
    machine, policy = record.machine, record.channel.policy
    many = machine.most_in_flight(policy, least)
    if not record.channel.reply_to.anonymous:
        return tx.rms.unsettled(record, many, now, one=one, most_bytes=WINDOW_BYTES) if many else []
    last = machine.window_end(policy, least)
    rows = tx.rms.unsettled(record, many + machine.unanswered, now, one=one, most_bytes=WINDOW_BYTES)
    return [row for row in rows if row.acknowledged or (row.number or 0) <= last]
