"""Sequences whose messages are fetched, by MakeConnection or on the connections of requests: when they end."""

from __future__ import annotations

from mercury.engine.channels import REPLIES_POLL_INTERVAL, unfetchable_at
from mercury.engine.context import EngineContext
from mercury.engine.source.apply_effects import handle_rms
from mercury.statemachine import events
from mercury.statemachine.rms_counters import RmsWork
from mercury.storage.api import Transaction
from mercury.storage.records import RmdRecord, RmsRecord


def needs_control(record: RmsRecord) -> bool:
    """Whether the state of a sequence needs CreateSequence, AckRequested, CloseSequence or TerminateSequence.

    A sequence of messages outside any sequence needs none: no peer knows of it.
    """
    work = record.machine.work(record.channel.policy)
    return not record.channel.plain and work not in (None, RmsWork.TRANSMIT)


def plan_fetches(
    tx: Transaction, context: EngineContext, record: RmsRecord, request: RmdRecord | None, now: float
) -> float | None:
    """For a polled channel: messages leave when the client sends MakeConnection (MC-05), which it may never do.

    :param request: the sequence of the requests; ``None`` = it is forgotten.
    :returns: when to check again.
    """
    machine = record.machine
    if record.channel.plain:
        handle_rms(tx, context, record, events.Settled(), now)  # no peer knows of this sequence
        if not machine.alive:
            return None
    if machine.outstanding or needs_control(record):
        record.fetch_due = now
    if request is not None and not request.machine.tombstone:
        return now + REPLIES_POLL_INTERVAL
    machine.end_by(now + context.settings.response_grace)
    return None


def count_as_fetched(tx: Transaction, context: EngineContext, record: RmsRecord, now: float) -> None:
    """When a polled channel ends, its messages outside any sequence that were sent count as fetched.

    Nothing acknowledges such a message. One that was never sent becomes a dead letter.
    """
    machine, channel = record.machine, record.channel
    if not channel.plain or not channel.polled or not machine.highest_sent:
        return
    if machine.expires_at is not None and machine.expires_at <= now:
        handle_rms(tx, context, record, events.Acknowledged(((1, machine.highest_sent),)), now)


def settle_back_channel(
    tx: Transaction, context: EngineContext, record: RmsRecord, request: RmdRecord | None, now: float
) -> float | None:
    """For a back-channel: no end can be sent, so the end of the request sequence ends this one (RM-TRM-05).

    :param request: the sequence of the requests; ``None`` = it is forgotten.
    :returns: when to check again.
    """
    grace = context.settings.back_channel_grace
    if record.channel.plain:
        over_at = unfetchable_at(request, grace)
        if over_at is None or over_at > now:
            return now + REPLIES_POLL_INTERVAL if over_at is None else over_at
        last = record.machine.last_number
        handle_rms(tx, context, record, events.Acknowledged(((1, last),) if last else ()), now)
        handle_rms(tx, context, record, events.End(), now)
        handle_rms(tx, context, record, events.Settled(), now)
        return None
    if request is None or request.machine.tombstone:
        handle_rms(tx, context, record, events.End(), now)
        handle_rms(tx, context, record, events.Settled(), now)
        record.machine.end_by(now + grace)
    return None
