"""The RMDSequenceWorker: acknowledgements to addresses, expiry, and the end of tombstones (figure 3-14)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mercury.engine import envelopes, trials
from mercury.engine.channels import fetched_channel
from mercury.engine.emission import emit_destination_ended
from mercury.engine.exchange import Outgoing, Purpose, Step
from mercury.engine.parts import Parts
from mercury.engine.trials import Trials
from mercury.statemachine import effects, events
from mercury.statemachine.retransmission import is_due
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import Topic, Transaction
from mercury.storage.records import InboundKind, InboundMessage, RmdRecord

log = logging.getLogger("mercury.engine.destination")

#: Seconds before an acknowledgement that was refused is tried again: at first, and at most.
ACK_RETRY, ACK_RETRY_CAP = 1.0, 60.0
#: The longest pause before an acknowledgement, whatever its reason.
LONGEST = max(ACK_RETRY_CAP, trials.LONGEST)


class DestinationWorker:
    """Works on the sequences that are received here."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._trials = Trials()

    def run_once(self, now: float) -> Step:
        """Do what is due. Returns the acknowledgements to post, now that what they say is committed."""
        step = Step()
        due = self._parts.store.due_rmd(now, self._parts.settings.sequence_batch)
        if not due:
            return step
        with self._parts.store.transaction() as tx:
            ended = [record for record in tx.rmd.lock(due).values() if self._work(tx, record, step, now)]
            wake_response_channels(tx, ended, now)
        return step

    def next_due(self) -> float | None:
        """When `run_once` has something to do at the latest, if nothing new happens."""
        return self._parts.store.next_due(Topic.RMD)

    def acknowledgement_failed(self, address: str, identifier: str, now: float) -> None:
        """An acknowledgement could not be delivered: it is due again, later each time.

        To a source that repeats its messages this is not needed; to one that fetches responses over a back-channel
        it is, because such a response is never sent unasked.

        :param address: it was posted there.
        """
        due = self._trials.failed(address, identifier, now)
        with self._parts.store.transaction() as tx:
            for record in tx.rmd.lock([identifier]).values():
                if not record.machine.tombstone:
                    record.ack_failures += 1
                    record.machine.ack_due = due
                self._save(tx, record)

    def acknowledgement_taken(self, address: str, now: float) -> None:
        """An address took an acknowledgement: those that were put off are due now."""
        put_off = self._trials.worked(address)
        for begin in range(0, len(put_off), self._parts.settings.sequence_batch):
            with self._parts.store.transaction() as tx:
                for record in tx.rmd.lock(put_off[begin : begin + self._parts.settings.sequence_batch]).values():
                    if not record.machine.tombstone:
                        record.machine.ack_due = now
                    self._save(tx, record)

    def _work(self, tx: Transaction, record: RmdRecord, step: Step, now: float) -> bool:
        """Returns whether the sequence has just ended."""
        policy = self._parts.application.policy(record.service)
        machine = record.machine
        if machine.ended_at is not None:
            if machine.ended_at + policy.tombstone <= now:
                self._forget(tx, record)
            else:
                self._save(tx, record)
            return False
        asked = handle_rmd(tx, self._parts, record, events.Tick(), now)
        if effects.Forget() in asked:
            tx.invoker.delete(record.identifier)
            tx.rmd.delete(record.identifier)
            self._count_expired(tx, record, now)
            return True
        if machine.tombstone:
            tx.invoker.add(rows_for(record, asked))
        longest = max(LONGEST, policy.acknowledgement_interval)
        if machine.ack_due is not None and is_due(machine.ack_due, now, longest):
            step.posts += self._acknowledge(record, now)
        step.progress += 1
        self._save(tx, record)
        return machine.tombstone

    def _count_expired(self, tx: Transaction, record: RmdRecord, now: float) -> None:
        """Nothing is left of a sequence that was never used; if it lived for a moment only, it counts for a while."""
        young = record.created_at > now - self._parts.settings.remember_ended
        if young and record.create_message_id is not None and not record.given_up:
            tx.after_commit(lambda: self._parts.expired.add(record.owner, now))

    def _acknowledge(self, record: RmdRecord, now: float) -> list[Outgoing]:
        policy = self._parts.application.policy(record.service)
        machine, url = record.machine, record.acks_to.address
        acknowledgements = envelopes.sayable(record.protocol, (machine.acknowledgement(policy),))
        if acknowledgements:
            later = self._trials.wait(url, record.identifier, now, machine.last_heard)
            if later is not None:
                machine.ack_due = later
                return []
        machine.handle(events.AckSent(), now, policy)
        if not acknowledgements:
            return []
        envelope = envelopes.acknowledgement_alone(
            record.protocol, record.acks_to, self._parts.ids.new(), acknowledgements
        )
        purpose, owner = Purpose.ACKNOWLEDGEMENT, record.owner
        return [Outgoing(url=url, envelope=envelope, purpose=purpose, rmd=record.identifier, owner=owner)]

    def _save(self, tx: Transaction, record: RmdRecord) -> None:
        save_rmd(tx, self._parts, record)

    def _forget(self, tx: Transaction, record: RmdRecord) -> None:
        buffer = tx.invoker.read(record.identifier)
        if buffer is not None and buffer.machine.state is InvokerState.DONE and not buffer.machine.in_progress:
            tx.invoker.delete(record.identifier)
        tx.rmd.delete(record.identifier)


def repeat_acknowledgement(record: RmdRecord, now: float) -> None:
    """An acknowledgement was refused: the next one is due later each time."""
    if record.machine.tombstone:
        return
    record.ack_failures += 1
    record.machine.ack_due = now + min(ACK_RETRY * 2 ** min(record.ack_failures, 16), ACK_RETRY_CAP)


def handle_rmd(
    tx: Transaction, parts: Parts, record: RmdRecord, event: events.RmdInput, now: float
) -> tuple[effects.RmdEffect, ...]:
    """Let a locked destination sequence handle an event; returns what it asks. Its end is an event."""
    machine = record.machine
    alive = not machine.tombstone
    asked = machine.handle(event, now, parts.application.policy(record.service))
    if alive and (machine.tombstone or effects.Forget() in asked):
        expired = isinstance(event, events.Tick)
        emit_destination_ended(tx, parts.observers, record, now, expired=expired)
    return asked


def save_rmd(tx: Transaction, parts: Parts, record: RmdRecord) -> None:
    """Save a locked sequence with the time at which something is due next."""
    if not record.acks_to.addressable:
        record.machine.ack_due = None  # RM-ACK-10: only ever on the back-channel of the sequence's own messages
    record.due = record.machine.next_due(parts.application.policy(record.service))
    tx.rmd.save(record)


def rows_for(record: RmdRecord, asked: Iterable[effects.RmdEffect]) -> list[InboundMessage]:
    """What the invoker buffer is to be told of the sequence's end."""
    rows = []
    for effect in asked:
        match effect:
            case effects.EndKnown(number=number):
                rows.append(InboundMessage(sequence=record.identifier, number=number, kind=InboundKind.END))
            case effects.CutBuffer():
                rows.append(InboundMessage(sequence=record.identifier, number=0, kind=InboundKind.CUT))
            case _:
                pass
    return rows


def all_received(record: RmdRecord) -> events.TerminateReceived:
    """The end of an offered sequence whose other side can not tell it: what is here is all there is."""
    return events.TerminateReceived(record.machine.received.highest or None)


def end_offered(tx: Transaction, parts: Parts, record: RmdRecord, now: float) -> None:
    """End a locked sequence together with the one that offered it (RM-TRM-05)."""
    if record.machine.tombstone:
        return
    asked = handle_rmd(tx, parts, record, all_received(record), now)
    tx.invoker.add(rows_for(record, asked))
    save_rmd(tx, parts, record)


def wake_response_channels(tx: Transaction, ended: Iterable[RmdRecord], now: float) -> None:
    """Request sequences ended: what can only be fetched ends with them (RM-TRM-05)."""
    keys = [fetched_channel(record).key for record in ended if record.service is not None]
    tx.rms.lock(keys)
    for key in keys:
        for response in tx.rms.records(key):
            if response.machine.alive:
                response.due = now
                tx.rms.save(response)
