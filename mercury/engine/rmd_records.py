"""Saving a destination sequence with what follows from it: its next due time, and the markers of its end."""

from __future__ import annotations

from collections.abc import Iterable

from mercury.engine.context import EngineContext
from mercury.engine.emission import emit_destination_ended
from mercury.statemachine import effects, events
from mercury.statemachine.acknowledging import is_posted, waits_to_be_fetched
from mercury.storage.api import Transaction
from mercury.storage.records import InboundKind, InboundMessage, RmdRecord

#: The due time of an acknowledgement that is sent only when a client fetches it (MC-05).
TO_FETCH = 0.0


def handle_rmd(
    tx: Transaction, context: EngineContext, record: RmdRecord, event: events.RmdInput, now: float
) -> tuple[effects.RmdEffect, ...]:
    """Let a locked destination sequence handle an event. Returns the effects; emits an event if the sequence ends."""
    machine = record.machine
    alive = not machine.tombstone
    requested = machine.handle(event, now, context.application.policy(record.service))
    if alive and (machine.tombstone or effects.Forget() in requested):
        expired = isinstance(event, events.Tick)
        emit_destination_ended(tx, context.observers, record, now, expired=expired)
    return requested


def save_rmd(tx: Transaction, context: EngineContext, record: RmdRecord) -> None:
    """Save a locked sequence with the time at which something is due next."""
    machine = record.machine
    waits = waits_to_be_fetched(record.acks_to, machine.ack_due)
    if not is_posted(record.acks_to):
        machine.acknowledge_at(None)
    record.due = machine.next_due(context.application.policy(record.service))
    if waits:
        machine.acknowledge_at(TO_FETCH)
    tx.rmd.save(record)


def marker_rows(record: RmdRecord, requested: Iterable[effects.RmdEffect]) -> list[InboundMessage]:
    """The marker rows that record the end of the sequence in the invoker buffer."""
    rows = []
    for effect in requested:
        match effect:
            case effects.EndKnown(number=number):
                rows.append(InboundMessage(sequence=record.identifier, number=number, kind=InboundKind.END))
            case effects.CutBuffer():
                rows.append(InboundMessage(sequence=record.identifier, number=0, kind=InboundKind.CUT))
            case _:
                pass
    return rows


def all_received(record: RmdRecord) -> events.TerminateReceived:
    """The end of an offered sequence whose source cannot send one: the received messages are all messages."""
    return events.TerminateReceived(record.machine.received.highest or None)


def end_offered(tx: Transaction, context: EngineContext, record: RmdRecord, now: float) -> None:
    """End a locked sequence together with the one that offered it (RM-TRM-05)."""
    if record.machine.tombstone:
        return
    requested = handle_rmd(tx, context, record, all_received(record), now)
    tx.invoker.add(marker_rows(record, requested))
    save_rmd(tx, context, record)
