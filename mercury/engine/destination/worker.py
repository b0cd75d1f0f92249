"""The RMDSequenceWorker: acknowledgements to addresses, expiry, and the end of tombstones (figure 3-14)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mercury.engine import envelopes
from mercury.engine.channels import fetched_key
from mercury.engine.context import EngineContext
from mercury.engine.destination import trials
from mercury.engine.destination.backlog import Backlog
from mercury.engine.destination.own_ends import send_own_end
from mercury.engine.destination.trials import Recipient, Trials
from mercury.engine.exchange import Outgoing, Purpose, Step
from mercury.engine.remaining_room import count_room
from mercury.engine.rmd_records import handle_rmd, marker_rows, save_rmd
from mercury.engine.source.apply_effects import handle_rms
from mercury.statemachine import effects, events
from mercury.statemachine.acknowledging import is_posted
from mercury.statemachine.retransmission import Backoff, is_due
from mercury.storage.api import Topic, Transaction
from mercury.storage.claims import WorkFilter
from mercury.storage.records import RmdRecord

log = logging.getLogger("mercury.engine.destination")

#: Pauses before a refused acknowledgement is posted again.
ACK_RETRY = Backoff(base=2.0, cap=60.0, jitter=0.0)
#: The longest time for which an acknowledgement is deferred.
LONGEST = max(ACK_RETRY.cap, trials.LONGEST)


class DestinationWorker:
    """Works on destination sequences."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._trials = Trials()

    def run_once(self, now: float) -> Step:
        """Do the due work. Returns the acknowledgements to post; the state that they report is committed."""
        step = Step()
        due = self._context.store.due_rmd(now, self._context.settings.sequence_batch, self._work_filter)
        if not due:
            return step
        with self._context.own_locks.note(due), self._context.store.transaction() as tx:
            locked = tx.rmd.lock(due)
            rooms = Rooms(self._context, tx, locked.values(), now)
            ended = [record for record in locked.values() if self._work(tx, record, rooms, step, now)]
            wake_response_channels(tx, self._context, ended, now)
        return step

    def next_due(self) -> float | None:
        """When the next work is due without a new event."""
        return self._context.store.next_due(Topic.RMD, self._work_filter)

    @property
    def _work_filter(self) -> WorkFilter:
        """Another process may host other services on this store; only that one has their policies (DA-06)."""
        return WorkFilter(self._context.claims.owner, self._context.application.services())

    def acknowledgement_failed(self, outgoing: Outgoing, identifier: str, now: float) -> None:
        """An acknowledgement could not be posted: it is due again, after growing pauses.

        A source that repeats its messages does not need this. A source that fetches responses over a back-channel
        does, because a response is sent only when it requests it.

        :param identifier: the sequence's.
        """
        due = self._trials.failed(Recipient.of_post(outgoing), identifier, now)
        with self._context.store.transaction() as tx:
            for record in tx.rmd.lock([identifier]).values():
                if not record.machine.tombstone:
                    record.ack_failures += 1
                    record.machine.acknowledge_at(due)
                self._save(tx, record)

    def acknowledgement_taken(self, outgoing: Outgoing, now: float) -> None:
        """An acknowledgement was accepted: the deferred ones to the same recipient are due now."""
        if self._trials.all_work:
            return
        put_off = self._trials.worked(Recipient.of_post(outgoing))
        for begin in range(0, len(put_off), self._context.settings.sequence_batch):
            with self._context.store.transaction() as tx:
                for record in tx.rmd.lock(put_off[begin : begin + self._context.settings.sequence_batch]).values():
                    if not record.machine.tombstone:
                        record.machine.acknowledge_at(now)
                    self._save(tx, record)

    def _work(self, tx: Transaction, record: RmdRecord, rooms: Rooms, step: Step, now: float) -> bool:
        """Returns whether the sequence has just ended."""
        policy = self._context.application.policy(record.service)
        machine = record.machine
        alive = not machine.tombstone
        step.posts += send_own_end(self._context, tx, record, now)
        if machine.ended_at is not None:
            if machine.ended_at + policy.tombstone <= now:
                self._forget(tx, record)
            else:
                step.posts += self._acknowledge_in_time(record, rooms, now)
                self._save(tx, record)
            return alive
        if machine.is_silent(now, policy) and _awaits_responses(tx, record):
            machine.heard_at(now)
        requested = handle_rmd(tx, self._context, record, events.Tick(), now)
        if effects.Forget() in requested:
            tx.invoker.delete(record.identifier)
            tx.rmd.delete(record.identifier)
            self._count_expired(tx, record, now)
            return True
        if machine.tombstone:
            tx.invoker.add(marker_rows(record, requested))
        step.posts += self._acknowledge_in_time(record, rooms, now)
        step.progress += 1
        self._save(tx, record)
        return machine.tombstone

    def _count_expired(self, tx: Transaction, record: RmdRecord, now: float) -> None:
        """Count an expired, unused sequence of a peer for `engine.remember_ended`, because it leaves no tombstone."""
        young = record.created_at > now - self._context.settings.remember_ended
        if young and record.create_message_id is not None and not record.given_up:
            tx.after_commit(lambda: self._context.expired.add(record.owner, now))

    def _acknowledge_in_time(self, record: RmdRecord, rooms: Rooms, now: float) -> list[Outgoing]:
        """Post an acknowledgement if one is due: of an ended sequence too, if its source has requested it (ST-D05)."""
        machine, policy = record.machine, self._context.application.policy(record.service)
        longest = max(LONGEST, policy.acknowledgement_interval)
        posted = is_posted(record.acks_to)
        if not posted or machine.ack_due is None or not is_due(machine.ack_due, now, longest):
            return []
        rooms.count(record)
        return self._acknowledge(record, now)

    def _acknowledge(self, record: RmdRecord, now: float) -> list[Outgoing]:
        policy = self._context.application.policy(record.service)
        machine, url = record.machine, record.acks_to.url
        acknowledgements = envelopes.expressible(record.protocol, (machine.acknowledgement(policy),))
        if acknowledgements and not self._trials.all_work:
            later = self._trials.wait(Recipient.of(record), record.identifier, now, machine.last_heard)
            if later is not None:
                machine.acknowledge_at(later)
                return []
        machine.handle(events.AckSent(), now, policy)
        if not acknowledgements:
            return []
        envelope = envelopes.acknowledgement_alone(
            record.protocol, record.acks_to, self._context.ids.new(), acknowledgements
        )
        purpose, owner = Purpose.ACKNOWLEDGEMENT, record.owner
        return [Outgoing(url=url, envelope=envelope, purpose=purpose, rmd=record.identifier, owner=owner)]

    def _save(self, tx: Transaction, record: RmdRecord) -> None:
        save_rmd(tx, self._context, record)

    def _forget(self, tx: Transaction, record: RmdRecord) -> None:
        buffer = tx.invoker.read(record.identifier)
        if buffer is not None and buffer.machine.finished:
            tx.invoker.delete(record.identifier)
        tx.rmd.delete(record.identifier)


class Rooms:
    """Counts the room of those locked sequences whose acknowledgements are posted now; reads their buffers together."""

    def __init__(self, context: EngineContext, tx: Transaction, locked: Iterable[RmdRecord], now: float) -> None:
        self._context, self._now = context, now
        self._backlog = Backlog(context, tx, now)
        states = [each for each in locked if context.application.policy(each.service).buffer_remaining]
        posted = [each for each in states if is_posted(each.acks_to) and each.machine.ack_due is not None]
        self._buffers = tx.invoker.read_many([each.identifier for each in posted])

    def count(self, record: RmdRecord) -> None:
        buffer = self._buffers.get(record.identifier)
        left = self._backlog.left(record, buffer) if buffer is not None else None
        count_room(self._context, record, buffer, self._now, left)


def _awaits_responses(tx: Transaction, record: RmdRecord) -> bool:
    """Whether responses may still come on a sequence that this side has offered, however long its source is silent.

    Silence ends it after the sequence that offered it, which ends by itself or fails, and then is forgotten.
    """
    buffer = tx.invoker.read(record.identifier) if record.service is None else None
    keys = {channel.key for channel in buffer.response_channels} if buffer is not None else set()
    sources = [source for key in keys for source in tx.rms.peek(key) if source.offered == record.identifier]
    return any(source.machine.alive or source.machine.unanswered for source in sources)


def repeat_acknowledgement(record: RmdRecord, now: float) -> None:
    """An acknowledgement was refused: the next one is due after a growing pause."""
    if record.machine.tombstone:
        return
    record.ack_failures += 1
    record.machine.acknowledge_at(now + ACK_RETRY.delay(record.ack_failures, 0.0))


def wake_response_channels(tx: Transaction, context: EngineContext, ended: Iterable[RmdRecord], now: float) -> None:
    """Request sequences ended: the response sequences that can only be fetched end with them (RM-TRM-05).

    An unused request sequence has no buffer that could end its offered sequence: the offered sequence is deleted here.
    """
    received = [record for record in ended if record.service is not None]
    unused = {record.response_channel.key for record in received if not record.machine.used and record.response_channel}
    keys = [fetched_key(record) for record in received if record.machine.used]
    tx.rms.lock(unused.union(keys))
    for key in sorted(unused.union(keys), key=str):
        for response in tx.rms.records(key):
            if key in unused and not response.machine.last_number:
                handle_rms(tx, context, response, events.End(), now)
                handle_rms(tx, context, response, events.Settled(), now)
                tx.rms.delete(response)
            elif response.machine.alive:
                response.due = now
                tx.rms.save(response)
