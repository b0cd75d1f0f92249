"""Carrying out what an RMSSequence asks for, inside the transaction that raised the event."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from mercury.engine.emission import emit_acknowledged, emit_dead_lettered, emit_source_ended
from mercury.engine.events import SequenceFailed
from mercury.engine.parts import Parts
from mercury.statemachine import effects, events
from mercury.statemachine.effects import Certainty, RmsEffect
from mercury.statemachine.faults import Fault
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.storage.api import Transaction
from mercury.storage.letters import inbound_letter, outbound_letter
from mercury.storage.records import DeadLetter, InboundMessage, OutboundKind, OutboundMessage, RmsRecord

log = logging.getLogger("mercury.engine")

#: Why messages died that the application did not wait for.
ABANDONED = "the application ended the sequence without waiting for it"
#: Why messages died that the store gave back altered.
DAMAGED = "what the store kept of it was damaged"
#: Why requests died whose responses have left a gap in a sequence that ended.
LOST = "its response is lost: the sequence of the responses ended without it"
#: Why responses died that could only be fetched.
UNFETCHED = "its client ended the sequence of the request and has not fetched it"
#: Why requests died that the destination has acknowledged.
NO_RESPONSE = "its sequence ended before a response came"


def apply_rms_effects(
    tx: Transaction, parts: Parts, record: RmsRecord, asked: Iterable[RmsEffect], now: float
) -> list[Fault]:
    """Do in the store what the effects say; returns the faults to tell the peer.

    The key of ``record`` is locked; the caller saves the record afterwards.
    """
    faults: list[Fault] = []
    for effect in asked:
        match effect:
            case effects.Released(ranges=ranges):
                tx.rms.acknowledge(record, ranges)
                release_acknowledged(tx, record)
                emit_acknowledged(tx, parts.observers, record, ranges, now)
            case effects.Due(ranges=ranges):
                tx.rms.resend(record, [n for low, high in ranges for n in range(low, high + 1)], now)
            case effects.Moved(ranges=ranges) if record.machine.abandoned:
                bury(tx, parts, tx.rms.take(record, ranges), ABANDONED, Certainty.NOT_DELIVERED, now)
            case effects.Moved(ranges=ranges):
                moved = tx.rms.unnumber(record, ranges)
                # Their responses are the successor's business now.
                unanswered = sum(row.expects_response and not row.answered for row in moved)
                record.machine.handle(events.ResponseStored(unanswered), now, record.channel.policy)
                log.info("%d messages move to a successor sequence", len(moved), extra=_about(record))
            case effects.Failed():
                _bury_outbound(tx, parts, record, effect, now)
                record.ended_at = now
                _end_waiting(tx, parts, record, now)
            case effects.Replaced():
                record.ended_at = now
                if record.machine.last_message is not None and record.machine.rm is RmVersion.RM11:
                    # The application has said it, and nothing that moved says it again.
                    end = OutboundMessage(
                        message_id=parts.ids.new(), channel=record.channel, kind=OutboundKind.END, created_at=now
                    )
                    tx.rms.append(end)
                log.info(
                    "CreateSequence is sent anew: its repetition was refused, or its identifier was not unique",
                    extra=_about(record),
                )
            case effects.Ended():
                record.ended_at = now
                release_acknowledged(tx, record)
                emit_source_ended(tx, parts.observers, record, now)
                _end_waiting(tx, parts, record, now)
            case effects.RaiseFault(fault=fault):
                faults.append(fault)
            case effects.Numbered() | effects.Refused():
                pass
    return faults


def handle_rms(
    tx: Transaction, parts: Parts, record: RmsRecord, event: events.RmsInput, now: float
) -> tuple[RmsEffect, ...]:
    """Let a source sequence handle an event, and do in the store what it asks."""
    asked = record.machine.handle(event, now, record.channel.policy)
    apply_rms_effects(tx, parts, record, asked, now)
    return asked


def release_acknowledged(tx: Transaction, record: RmsRecord) -> None:
    """Let go of the rows that neither the wire nor a successor sequence can still need."""
    machine = record.machine
    if not machine.alive or machine.incomplete_behavior is IncompleteSequenceBehavior.NO_DISCARD:
        tx.rms.release(record, machine.acknowledged.as_tuples())
    elif not machine.kept(1):
        upto = machine.acknowledged.first_missing() - 1
        if machine.incomplete_behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
            upto = machine.last_number
        tx.rms.release(record, ((1, upto),) if upto else ())


def save_rms(tx: Transaction, record: RmsRecord) -> None:
    """Save a sequence of a locked key; rows it held back for a successor are free once nothing can come late."""
    record.holds = record.holds and holds_back(record)
    tx.rms.save(record)


def silence(policy: SourcePolicy) -> float:
    """Seconds without a word after which a source with something to send just finds out whether anybody is there."""
    return 2 * policy.retransmission.base


def holds_back(record: RmsRecord) -> bool:
    """Whether a successor sequence would overtake something of this one.

    A response that has to be fetched counts: the server takes a successor for the end of this sequence.
    """
    machine = record.machine
    to_fetch = machine.unanswered > 0 and record.channel.reply_to.anonymous and not machine.abandoned
    return machine.alive and (machine.outstanding or to_fetch)


def _bury_outbound(tx: Transaction, parts: Parts, record: RmsRecord, failed: effects.Failed, now: float) -> None:
    letters = []
    why = parts.troubles.get(record.channel.endpoint) or record.last_error or ""
    for ranges, certainty in ((failed.not_delivered, Certainty.NOT_DELIVERED), (failed.unknown, Certainty.UNKNOWN)):
        alike: dict[str, list[OutboundMessage]] = {}
        for row in tx.rms.take(record, ranges):
            row.channel = record.channel  # its own may be unreadable
            reason = UNFETCHED if _unfetched(record, failed) else _reason(record, failed.reason, row, why)
            alike.setdefault(reason, []).append(row)
        for reason, rows in alike.items():
            letters += bury(tx, parts, rows, reason, certainty, now)
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
    parts.observers.emit(tx, event)


def _unfetched(record: RmsRecord, failed: effects.Failed) -> bool:
    """Whether a client that has no address left its responses where they were."""
    return record.channel.back_channel and failed.reason is events.FailureReason.EXPIRED


def _reason(record: RmsRecord, failed: events.FailureReason, row: OutboundMessage, why: str) -> str:
    """Why a message died with its sequence, for people.

    :param why: what is known of the endpoint's last answer; empty = nothing.
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


def _end_waiting(tx: Transaction, parts: Parts, record: RmsRecord, now: float) -> None:
    """Without an address the sequence of the responses has ended with this one (RM-TRM-05)."""
    if record.machine.unanswered and record.channel.reply_to.anonymous:
        bury_unanswered(tx, parts, record, now)


def bury_unanswered(tx: Transaction, parts: Parts, record: RmsRecord, now: float) -> None:
    """No response can come any more to the requests of this sequence: whoever waits for one waits in vain.

    Whether they were handled is unknown. Those whose response is stored here are left to be consumed.
    """
    rows = tx.rms.unanswered(record)
    tx.rms.discard(rows)
    bury(tx, parts, rows, NO_RESPONSE, Certainty.UNKNOWN, now)


def bury_requests(
    tx: Transaction, parts: Parts, record: RmsRecord, rows: Sequence[OutboundMessage], reason: str, now: float
) -> None:
    """No response can come any more to some requests of a locked sequence; the rest goes on."""
    if not rows:
        return
    tx.rms.discard(rows)
    record.machine.handle(events.ResponseStored(len(rows)), now, record.channel.policy)
    record.due = now
    save_rms(tx, record)
    bury(tx, parts, rows, reason, Certainty.UNKNOWN, now)


def bury(
    tx: Transaction,
    parts: Parts,
    rows: Sequence[OutboundMessage],
    reason: str,
    certainty: Certainty,
    now: float,
) -> list[DeadLetter]:
    """Make dead letters of rows that were taken from the buffer. Ends of a sequence leave none, unless damaged."""
    gone = [row for row in rows if row.action or row.damaged]
    letters = [outbound_letter(row, parts.ids.new(), reason, certainty, now) for row in gone]
    _store_letters(tx, parts, letters, now)
    return letters


def bury_inbound(
    tx: Transaction,
    parts: Parts,
    service: str | None,
    messages: Iterable[InboundMessage],
    reason: str,
    now: float,
    *,
    disowned: bool = False,
    certainty: Certainty = Certainty.NOT_DELIVERED,
    owner: str | None = None,
) -> int:
    """Make dead letters of messages that are never given to the application.

    :param disowned: the peer is told so, and may send the same again as another message.
    :param certainty: whether a handler may have done its work.
    :param owner: the peer that has caused it (`RmdRecord.owner`).
    :returns: the bytes of the dead letters.
    """
    letters = [
        inbound_letter(message, service, parts.ids.new(), reason, certainty, now, disowned=disowned, owner=owner)
        for message in messages
    ]
    _store_letters(tx, parts, letters, now)
    return sum(letter.size for letter in letters)


def _store_letters(tx: Transaction, parts: Parts, letters: list[DeadLetter], now: float) -> None:
    if letters:
        tx.dead_letters.add(letters)
        emit_dead_lettered(tx, parts.observers, letters, now)


def _about(record: RmsRecord) -> dict[str, object]:
    return {"sequence": record.machine.identifier, "endpoint": record.channel.endpoint, "key": record.channel.key.name}
