"""Applying the effects of an RMSSequence in the transaction that raised the event."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import ABANDONED, NO_RESPONSE, UNFETCHED, dead_letter
from mercury.engine.emission import emit_acknowledged, emit_source_ended
from mercury.engine.events import SequenceFailed
from mercury.statemachine import effects, events
from mercury.statemachine.effects import Certainty, RmsEffect
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.flow_control import holds_successor_back
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.ranges import as_text
from mercury.storage.api import Transaction
from mercury.storage.records import OutboundKind, OutboundMessage, RmsRecord

log = logging.getLogger("mercury.engine")

#: The error of a sequence whose destination knows more numbers than this store.
FORGOTTEN = (
    "the destination acknowledges message numbers that this store has not sent. After a restore from a back-up it "
    "takes new messages for copies of those, and they are lost: restart the sequence (mercury sequences restart)"
)

#: The error of a sequence whose destination has lost what it had acknowledged.
LOST_BY_DESTINATION = (
    "the destination no longer has messages that it acknowledged. After a restore from a back-up it waits for these "
    "messages, and handles none behind them: find out what it lacks (mercury reconcile), restart the sequence (mercury "
    "sequences restart), and send those messages again"
)


def apply_rms_effects(
    tx: Transaction, context: EngineContext, record: RmsRecord, requested: Iterable[RmsEffect], now: float
) -> list[Fault]:
    """Apply effects to the store; returns the faults to send to the peer.

    The key of ``record`` is locked; the caller saves the record afterwards.
    """
    faults: list[Fault] = []
    for effect in requested:
        match effect:
            case effects.Released(ranges=ranges):
                tx.rms.acknowledge(record, ranges)
                release_acknowledged(tx, record, ranges)
                emit_acknowledged(tx, context.observers, record, ranges, now)
            case effects.Forgotten(ranges=ranges):
                _note_lost_by_destination(record, ranges)
            case effects.Due(ranges=ranges):
                tx.rms.resend(record, [n for low, high in ranges for n in range(low, high + 1)], now)
            case effects.Moved(ranges=ranges) if record.machine.abandoned:
                dead_letter(tx, context, tx.rms.take(record, ranges), ABANDONED, Certainty.NOT_DELIVERED, now)
            case effects.Moved(ranges=ranges):
                moved = tx.rms.unnumber(record, ranges)
                record.rows_wait_until = None
                # The successor waits for their responses now.
                unanswered = sum(row.expects_response and not row.answered for row in moved)
                record.machine.handle(events.ResponseStored(unanswered), now, record.channel.policy)
                log.info("%d messages move to a successor sequence", len(moved), extra=_about(record))
            case effects.Failed():
                _dead_letter_failed(tx, context, record, effect, now)
                record.ended_at = now
                _end_waiting(tx, context, record, now)
            case effects.Replaced():
                record.ended_at = now
                if record.machine.last_message is not None and record.machine.rm is RmVersion.RM11:
                    # The application has ended the key, and no moved row repeats that.
                    end = OutboundMessage(
                        message_id=context.ids.new(), channel=record.channel, kind=OutboundKind.END, created_at=now
                    )
                    tx.rms.append(end)
                log.info(
                    "CreateSequence is sent anew: its repetition was refused, or its identifier was not unique",
                    extra=_about(record),
                )
            case effects.WithoutOffer():
                log.info(
                    "CreateSequence is sent again without an offer, because it was refused: %r",
                    record.last_error,
                    extra=_about(record),
                )
                record.create_message_id, record.offered, record.last_error = context.ids.new(), None, None
            case effects.Ended():
                record.ended_at = now
                release_acknowledged(tx, record)
                emit_source_ended(tx, context.observers, record, now)
                _end_waiting(tx, context, record, now)
            case effects.RaiseFault(fault=fault):
                faults.append(fault)
                _note_forgotten(record, fault)
            case effects.Numbered() | effects.NumberRefused():
                pass
    return faults


def handle_rms(
    tx: Transaction, context: EngineContext, record: RmsRecord, event: events.RmsInput, now: float
) -> tuple[RmsEffect, ...]:
    """Let a source sequence handle an event, and apply its effects to the store."""
    requested = record.machine.handle(event, now, record.channel.policy)
    apply_rms_effects(tx, context, record, requested, now)
    return requested


def release_acknowledged(tx: Transaction, record: RmsRecord, new: Ranges | None = None) -> None:
    """Delete rows that neither a transmission nor a successor sequence can still need.

    :param new: newly acknowledged numbers; ``None`` = what was acknowledged before counts too. A peer can acknowledge
        thousands of messages one by one, so each acknowledgement costs only what is new in it.
    """
    machine = record.machine
    if not machine.alive or machine.incomplete_behavior is IncompleteSequenceBehavior.NO_DISCARD:
        everything = ((1, machine.acknowledged.highest),) if machine.acknowledged else ()
        tx.rms.release(record, everything if new is None else new)
    elif not machine.retains(1):
        upto = machine.acknowledged.first_missing() - 1
        if machine.incomplete_behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
            upto = machine.last_number
        tx.rms.release(record, ((1, upto),) if upto else ())


def save_rms(tx: Transaction, record: RmsRecord) -> None:
    """Save a sequence of a locked key; rows wait for it no longer once none of its messages can arrive late."""
    if not holds_back(record):
        record.window_full = record.holds_successor = False
    if not record.machine.alive:
        record.rows_wait_until = None
    tx.rms.save(record)


def _note_forgotten(record: RmsRecord, fault: Fault) -> None:
    """Tell operators of an acknowledgement of numbers that this store does not know: they are given to other messages,
    which the destination takes for copies."""
    unknown = [high for _, high in fault.ranges if high > record.machine.highest_sent]
    if fault.code is not FaultCode.INVALID_ACKNOWLEDGEMENT or not unknown or record.last_error == FORGOTTEN:
        return
    record.last_error = FORGOTTEN
    log.error("%s", FORGOTTEN, extra=_about(record))


def _note_lost_by_destination(record: RmsRecord, ranges: Ranges) -> None:
    """Tell operators of messages that the destination has acknowledged and lost.

    Only of a destination that is Mercury: what others omit from an acknowledgement they may still have.
    """
    if record.batch_messages and record.last_error != LOST_BY_DESTINATION:
        record.last_error = LOST_BY_DESTINATION
        log.error("%s (numbers %s)", LOST_BY_DESTINATION, as_text(ranges), extra=_about(record))


def holds_back(record: RmsRecord) -> bool:
    """Whether a successor sequence waits for this one."""
    return holds_successor_back(record.machine, fetches=record.channel.reply_to.anonymous)


def _dead_letter_failed(
    tx: Transaction, context: EngineContext, record: RmsRecord, failed: effects.Failed, now: float
) -> None:
    letters = []
    why = context.endpoint_errors.get(record.channel.endpoint) or record.last_error or ""
    for ranges, certainty in ((failed.not_delivered, Certainty.NOT_DELIVERED), (failed.unknown, Certainty.UNKNOWN)):
        alike: dict[str, list[OutboundMessage]] = {}
        for row in tx.rms.take(record, ranges):
            row.channel = record.channel  # the row's channel may be damaged
            reason = UNFETCHED if _unfetched(record, failed) else _reason(record, failed.reason, row, why)
            alike.setdefault(reason, []).append(row)
        for reason, rows in alike.items():
            letters += dead_letter(tx, context, rows, reason, certainty, now)
    event = SequenceFailed(
        at=now,
        sequence=record.machine.identifier,
        endpoint=record.channel.endpoint,
        key=record.channel.key.name,
        failure=failed.reason,
        reason=failed.reason.value + (f": {why}" if why else ""),
        dead_letters=len(letters),
        unfetched=_unfetched(record, failed),
    )
    context.observers.emit(tx, event)


def _unfetched(record: RmsRecord, failed: effects.Failed) -> bool:
    """Whether a client without an address did not fetch its responses."""
    fetched = record.channel.back_channel or record.channel.polled
    return fetched and failed.reason is events.FailureReason.EXPIRED


def _reason(record: RmsRecord, failed: events.FailureReason, row: OutboundMessage, why: str) -> str:
    """The reason of a dead letter of a failed sequence, for people.

    :param why: the last error or answer of the endpoint; empty = none is known.
    """
    if failed is not events.FailureReason.GIVEN_UP:
        return f"the sequence failed: {failed.value}" + (f": {why}" if why else "")
    if row.attempts:
        text = f"given up after {row.attempts} transmission{'s'[: row.attempts != 1]}"
        why = why or "no acknowledgement came"
    elif record.machine.identifier is None:
        tries = record.machine.control_attempts
        text = f"given up, never sent: no sequence was made in {tries} attempt{'s'[: tries != 1]}"
        why = why or "no answer came"
    else:
        text = "given up, never sent: a message before it was given up"
    return text + (f": {why}" if why else "")


def _end_waiting(tx: Transaction, context: EngineContext, record: RmsRecord, now: float) -> None:
    """End the sequence of responses: without an address it ends with this one (RM-TRM-05)."""
    if record.machine.unanswered and record.channel.reply_to.anonymous:
        dead_letter_unanswered(tx, context, record, now)


def dead_letter_unanswered(tx: Transaction, context: EngineContext, record: RmsRecord, now: float) -> None:
    """Make the unanswered requests of a sequence dead letters: no response can come any more.

    Whether they were handled is unknown. Requests whose response is stored are not affected.
    """
    rows = tx.rms.unanswered(record)
    tx.rms.discard(rows)
    dead_letter(tx, context, rows, NO_RESPONSE, Certainty.UNKNOWN, now)


def dead_letter_requests(
    tx: Transaction, context: EngineContext, record: RmsRecord, rows: Sequence[OutboundMessage], reason: str, now: float
) -> None:
    """Make some requests of a locked sequence dead letters: no response to them can come. The others continue."""
    if not rows:
        return
    tx.rms.discard(rows)
    record.machine.handle(events.ResponseStored(len(rows)), now, record.channel.policy)
    record.due = now
    save_rms(tx, record)
    dead_letter(tx, context, rows, reason, Certainty.UNKNOWN, now)


def _about(record: RmsRecord) -> dict[str, object]:
    return {"sequence": record.machine.identifier, "endpoint": record.channel.endpoint, "key": record.channel.key.name}
