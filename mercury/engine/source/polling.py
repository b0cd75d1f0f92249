"""A client without an address sends MakeConnection while it expects messages (MC-07)."""

from __future__ import annotations

from mercury.engine.context import EngineContext
from mercury.statemachine.rms_counters import RmsWork
from mercury.storage.api import Transaction
from mercury.storage.records import RmsRecord, Role


def plan_poll(tx: Transaction, context: EngineContext, record: RmsRecord, now: float, *, sent: bool) -> bool:
    """Whether to send MakeConnection now. Sets in the record when to send the next one; ``None`` = none is expected.

    :param sent: a new message was sent just now, so an answer may be available soon.
    """
    channel, polling = record.channel, record.channel.policy.polling
    if not channel.reply_to.polled or channel.role is not Role.REQUEST:
        return False
    if not _expects(tx, context, record, now):
        record.poll_due, record.polls = None, 0
        return False
    if sent or record.poll_due is None:
        record.polls = 0
        soon = now + polling.delay(1, context.ids.chance())
        record.poll_due = soon if record.poll_due is None else min(record.poll_due, soon)
    if not polling.is_due(record.poll_due, now):
        return False
    record.polls += 1
    record.poll_due = now + polling.delay(record.polls, context.ids.chance())
    return True


def _expects(tx: Transaction, context: EngineContext, record: RmsRecord, now: float) -> bool:
    """Whether the peer may have something for this side: acknowledgements, responses, or the end of their sequence."""
    machine = record.machine
    if machine.alive:
        controls = machine.work(record.channel.policy) not in (None, RmsWork.TRANSMIT)
        return bool(machine.in_flight or machine.unanswered or (controls and machine.control_attempts))
    if record.ended_at is None or machine.failure is not None or not record.offer_accepted:
        return False
    pair = tx.rmd.read(record.offered or "")
    over = now >= record.ended_at + context.settings.back_channel_grace
    return pair is not None and not pair.machine.tombstone and not over
