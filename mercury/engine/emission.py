"""Makes events of the records that a transaction changes, and passes them to the observers after its commit.

An event that occurs once for each message is built only if an observer is subscribed to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mercury.engine.events import (
    Accepted,
    Acknowledged,
    DeadLettered,
    DuplicateDropped,
    Retransmitted,
    SequenceCreated,
    SequenceEnded,
    Side,
    Transmitted,
)
from mercury.statemachine.effects import Certainty
from mercury.statemachine.faults import Ranges
from mercury.storage.api import Transaction
from mercury.storage.letters import DeadLetter
from mercury.storage.records import InboundMessage, OutboundMessage, RmdRecord, RmsRecord

if TYPE_CHECKING:
    from mercury.engine.observers import Observers


# --- messages ------------------------------------------------------------------------------------------------------


def emit_accepted(tx: Transaction, observers: Observers, service: str | None, row: InboundMessage, now: float) -> None:
    """A message was put into its buffer. A message without an action is not for the application: no event."""
    if not row.action or not observers.wants(Accepted):
        return
    event = Accepted(
        at=now,
        sequence=row.sequence,
        number=row.number,
        message_id=row.message_id,
        service=service,
        action=row.action,
        size=len(row.payload),
    )
    observers.emit(tx, event)


def emit_duplicate(
    tx: Transaction,
    observers: Observers,
    record: RmdRecord,
    number: int,
    message_id: str | None,
    action: str,
    now: float,
) -> None:
    """A number arrived that was received before."""
    if not observers.wants(DuplicateDropped):
        return
    event = DuplicateDropped(
        at=now,
        sequence=record.identifier,
        number=number,
        message_id=message_id,
        service=record.service,
        action=action,
    )
    observers.emit(tx, event)


def emit_transmitted(
    tx: Transaction, observers: Observers, record: RmsRecord, row: OutboundMessage, now: float
) -> None:
    """A message is about to be posted; ``row.attempts`` includes this transmission."""
    if row.attempts == 1 and observers.wants(Transmitted):
        transmitted = Transmitted(
            at=now,
            sequence=record.machine.identifier or "",
            number=row.number or 0,
            message_id=row.message_id,
            endpoint=record.channel.endpoint,
            key=record.channel.key.name,
            action=row.action,
            size=len(row.payload),
            created_at=row.created_at,
        )
        observers.emit(tx, transmitted)
    elif row.attempts > 1 and observers.wants(Retransmitted):
        again = Retransmitted(
            at=now,
            sequence=record.machine.identifier or "",
            number=row.number or 0,
            message_id=row.message_id,
            endpoint=record.channel.endpoint,
            key=record.channel.key.name,
            action=row.action,
            attempt=row.attempts,
        )
        observers.emit(tx, again)


def emit_acknowledged(tx: Transaction, observers: Observers, record: RmsRecord, ranges: Ranges, now: float) -> None:
    """Numbers are acknowledged for the first time. No event for fetched replies outside any sequence."""
    channel = record.channel
    if not observers.wants(Acknowledged) or (channel.plain and channel.back_channel):
        return
    event = Acknowledged(
        at=now,
        sequence=record.machine.identifier or "",
        endpoint=channel.endpoint,
        key=channel.key.name,
        ranges=ranges,
    )
    observers.emit(tx, event)


def emit_dead_lettered(tx: Transaction, observers: Observers, letters: Iterable[DeadLetter], now: float) -> None:
    """Dead letters were stored: one event for all letters with the same sequence and reason."""
    alike: dict[tuple[str | None, str, Certainty], list[DeadLetter]] = {}
    for letter in letters:
        alike.setdefault((letter.sequence, letter.reason, letter.certainty), []).append(letter)
    for (_, reason, certainty), group in alike.items():
        event = DeadLettered(
            at=now,
            direction=group[0].direction,
            endpoint=group[0].endpoint,
            key=group[0].key,
            reason=reason,
            certainty=certainty,
            letters=tuple(group),
        )
        observers.emit(tx, event)


# --- sequences -----------------------------------------------------------------------------------------------------


def emit_source_created(tx: Transaction, observers: Observers, record: RmsRecord, identifier: str, now: float) -> None:
    """The identifier of a source sequence is known."""
    event = SequenceCreated(
        at=now,
        side=Side.SOURCE,
        sequence=identifier,
        endpoint=record.channel.endpoint,
        key=record.channel.key.name,
    )
    observers.emit(tx, event)


def emit_source_ended(tx: Transaction, observers: Observers, record: RmsRecord, now: float) -> None:
    """The end of a source sequence is settled. No event for ordinary replies: the peer knows no sequence of them."""
    machine, channel = record.machine, record.channel
    if channel.plain:
        return
    event = SequenceEnded(
        at=now,
        side=Side.SOURCE,
        sequence=machine.identifier or "",
        endpoint=channel.endpoint,
        key=channel.key.name,
        messages=machine.acknowledged.count,
        complete=machine.acknowledged.covers(1, machine.last_number),
    )
    observers.emit(tx, event)


def emit_destination_created(tx: Transaction, observers: Observers, record: RmdRecord, now: float) -> None:
    """A destination sequence is made."""
    event = SequenceCreated(at=now, side=Side.DESTINATION, sequence=record.identifier, service=record.service)
    observers.emit(tx, event)


def emit_destination_ended(
    tx: Transaction, observers: Observers, record: RmdRecord, now: float, *, expired: bool
) -> None:
    """A destination sequence takes no more messages."""
    machine = record.machine
    event = SequenceEnded(
        at=now,
        side=Side.DESTINATION,
        sequence=record.identifier,
        service=record.service,
        messages=machine.received.count,
        complete=machine.complete,
        expired=expired,
    )
    observers.emit(tx, event)
