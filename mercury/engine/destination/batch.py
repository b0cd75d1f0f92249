"""Handles several arrivals in one transaction.

A batch locks the rows that its arrivals need, in the order RMD then RMS. Then it handles the arrivals one after the
other in memory, and saves what has changed at the end. The answers are only recorded in the exchanges.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from mercury.engine.batches import related_names
from mercury.engine.channels import fetched_key
from mercury.engine.context import EngineContext
from mercury.engine.destination.backlog import Backlog
from mercury.engine.destination.free_sequences import lock_free
from mercury.engine.destination.given_identifiers import GivenIdentifiers
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.made_sequences import MadeSequences
from mercury.engine.destination.named_sequences import named_sequences
from mercury.engine.destination.ownership import owns_destination, owns_source
from mercury.engine.destination.quota import IN_USE, UNUSED
from mercury.engine.destination.source_due import due_after_arrival
from mercury.engine.destination.source_keys import SourceKeys
from mercury.engine.destination.sources_by_name import SourcesByName
from mercury.engine.destination.tombstone_quota import TombstoneQuota
from mercury.engine.emission import emit_accepted, emit_destination_created, emit_source_created
from mercury.engine.exchange import Outgoing, PendingResponse, Response
from mercury.engine.remaining_room import count_room
from mercury.engine.rmd_records import all_received, handle_rmd, marker_rows, save_rmd
from mercury.engine.source.apply_effects import apply_rms_effects, save_rms
from mercury.engine.source.back_channel import stored_responses
from mercury.engine.source.response_acknowledgements import acknowledgement_requests
from mercury.statemachine import effects, events
from mercury.statemachine.acknowledging import leaves_on_reply
from mercury.statemachine.faults import Fault
from mercury.statemachine.flow_control import is_heard_again
from mercury.statemachine.messages import ANONYMOUS, CreateSequence, SequenceAcknowledgement
from mercury.storage.api import Transaction
from mercury.storage.records import InboundMessage, InvokerRecord, OutboundMessage, RmdRecord, RmsRecord, SequenceKey

log = logging.getLogger("mercury.engine.reception")


class Batch:
    """The rows of one transaction, and the handling of arrivals on them."""

    def __init__(self, context: EngineContext, tx: Transaction, now: float) -> None:
        self.context = context
        self.tx = tx
        self.now = now
        self.rmds: dict[str, RmdRecord] = {}
        self.tombstone_quota = TombstoneQuota(context, tx, now)
        self.backlog = Backlog(context, tx, now)
        self._keys: dict[SequenceKey, list[RmsRecord]] = {}
        self._sources = SourcesByName()
        self._buffers: dict[str, InvokerRecord | None] = {}
        #: The messages of this side that the arrivals relate to, by MessageID.
        self._related: dict[str, OutboundMessage] = {}
        self.rows: list[InboundMessage] = []  #: Put into buffers by this batch.
        self._new_rmds: list[RmdRecord] = []
        self.made = MadeSequences()
        self._new_buffers: list[InvokerRecord] = []
        self._new_rms: list[RmsRecord] = []
        self._changed_rmds: dict[str, None] = {}
        #: Sequences that are acknowledged on the replies to the arrivals.
        self._acknowledged: dict[str, RmdRecord] = {}
        self._changed_rms: dict[str, RmsRecord] = {}
        self._ended: list[RmdRecord] = []
        self._responses: dict[str, Response] = {}
        #: Requests whose stored responses were not read, because they are too large for one transaction.
        self._unread: frozenset[str] = frozenset()
        self._given = GivenIdentifiers()
        #: The number of open sequences in the store, by owner.
        self._open: dict[str | None, int] = {}
        self._crowding: dict[str, int] | None = None

    # --- locking ---------------------------------------------------------------------------------------------------

    def lock_destinations(self, exchanges: Sequence[InboundExchange], delivered: Collection[str] = ()) -> None:
        """Lock the destination sequences that these arrivals may change, and read their buffers.

        :param delivered: sequences whose buffers the caller locks next.
        :raises HeldElsewhere: there are other processes, and a transaction has locked one of the sequences.
        """
        envelopes = [exchange.envelope for exchange in exchanges]
        creates = sum([isinstance(envelope.body, CreateSequence) for envelope in envelopes])
        made_by = [exchange.create_key for exchange in exchanges if exchange.create_key is not None] if creates else []
        created = self.tx.rmd.find_created(*made_by) if made_by else {}
        every = [[*filter(None, named_sequences(self, each, created, creates))] for each in exchanges]
        named = [name for names in every for name in names]
        addressed = {envelope.sequence.identifier for envelope in envelopes if envelope.sequence is not None}
        addressed.difference_update(delivered)
        more = self.tombstone_quota.excluding(named)
        arrivals = [*zip(exchanges, every, strict=True)]
        self.rmds = lock_free(self.context, self.tx, arrivals, more, addressed, delivered)
        self.tombstone_quota.take(self.rmds)
        if creates:
            self.made.read(self.rmds.values())
        read = [name for name in self.rmds if name in addressed]
        self._buffers |= dict.fromkeys(read) | self.tx.invoker.read_many(read)

    def lock_sources(self, exchanges: Sequence[InboundExchange], more: Iterable[SequenceKey] = ()) -> None:
        """Lock the source sequences that these arrivals may change; nothing but them is locked afterwards.

        :param more: keys that the caller changes.
        """
        keys = SourceKeys(self.tx, self.rmds, self.now).of(exchanges)
        self._lock_keys(keys | dict.fromkeys(self.tombstone_quota.keys()) | dict.fromkeys(more))
        envelopes = [exchange.envelope for exchange in exchanges]
        self._given.read(self.tx, envelopes, self.rmds)
        relates = {name for exchange in exchanges for name in related_names(exchange.envelope)}
        self._related = self.tx.rms.rows(relates)  # read after the locks: the rows do not change any more

    def created_with(self, identifier: str) -> RmdRecord | None:
        """The destination sequence that has an identifier which an arrival of the batch offers."""
        return self.rmds.get(identifier) or self._given.destination(identifier)

    def lock_for(self, outgoing: Outgoing) -> None:
        """Lock the rows that may change when a post was accepted."""
        self.rmds = self.tx.rmd.lock([] if outgoing.pair is None else [outgoing.pair])
        self._lock_keys([] if outgoing.key is None else [outgoing.key])

    def _lock_keys(self, keys: Collection[SequenceKey]) -> None:
        self.tx.rms.lock(keys, records=True)
        self._keys = {key: self.tx.rms.records(key) for key in keys}
        self._sources.add(*self.records())

    # --- rows ------------------------------------------------------------------------------------------------------

    def rmd(self, exchange: InboundExchange, identifier: str) -> RmdRecord | None:
        """The destination sequence that an arrival names, if its sender owns the sequence.

        ``None`` = no such sequence, another version of WS-RM than its own (NS-18), or another owner (SEC-01).
        """
        record = self.rmds.get(identifier)
        if record is None:
            return None
        owned = owns_destination(exchange.arrival, record) and self.is_proved(exchange, record.offered_to)
        if record.protocol.rm is exchange.protocol.rm and owned:
            return record
        self.warn(exchange, "a sequence is named by a peer that does not own it", sequence=identifier)
        return None

    def rms(self, exchange: InboundExchange, identifier: str) -> RmsRecord | None:
        """The source sequence that an arrival names, if its sender owns the sequence."""
        return self._if_owned(exchange, self.rms_by_identifier(identifier))

    def rms_by_create(self, exchange: InboundExchange, message_id: str | None) -> RmsRecord | None:
        """The source sequence whose CreateSequence had this MessageID, if the arrival may answer it."""
        return self._if_owned(exchange, self._sources.created_by(message_id))

    def rms_of(self, exchange: InboundExchange, row: OutboundMessage) -> RmsRecord | None:
        """The source sequence of a message, if the arrival may answer it."""
        return self._if_owned(exchange, self.rms_by_id(row.sequence_id or ""))

    def _if_owned(self, exchange: InboundExchange, record: RmsRecord | None) -> RmsRecord | None:
        if record is None:
            return None
        if owns_source(exchange.arrival, record) and self.is_proved(exchange, record.channel.endpoint):
            return record
        self.warn(exchange, "a peer names a sequence that goes to another peer", sequence=record.machine.identifier)
        return None

    def warn(self, exchange: InboundExchange, what: str, **details: str | None) -> None:
        """Log a warning that the sender of an arrival may cause as often as it likes."""
        arrival = exchange.arrival
        if self.context.peer_log.allow(arrival.owner, self.now):
            details |= {"peer": arrival.peer, "identity": arrival.identity}
            log.warning("%s. At most ten such lines a minute are logged for each peer", what, extra=details)

    def is_proved(self, exchange: InboundExchange, endpoint: str) -> bool:
        """Whether an arrival has the WS-Security that the messages of an endpoint must have (SEC-03).

        A reply was checked before it was decoded.
        """
        if exchange.arrival.request is not None:
            return True
        envelope = exchange.envelope
        to = envelope.to.address if envelope.to is not None else ANONYMOUS
        posted_to = to if exchange.arrival.service is None else None
        return self.context.security.accepts(endpoint, envelope.verified, to=posted_to)

    def records(self) -> Iterable[RmsRecord]:
        return (record for records in self._keys.values() for record in records)

    def rms_by_identifier(self, identifier: str) -> RmsRecord | None:
        return self._sources.named(identifier)

    def rms_identifier_taken(self, identifier: str) -> bool:
        """Whether a source sequence has this identifier already."""
        return self._given.taken(identifier) or self.rms_by_identifier(identifier) is not None

    def rms_by_id(self, record_id: str) -> RmsRecord | None:
        return self._sources.with_id(record_id)

    def related(self, message_id: str) -> OutboundMessage | None:
        """The message of this side that an arrival of the batch relates to, as committed, without its body."""
        return self._related.get(message_id)

    def buffer(self, identifier: str) -> InvokerRecord | None:
        """The invoker buffer as committed."""
        if identifier not in self._buffers:
            self._buffers[identifier] = self.tx.invoker.read(identifier)
        return self._buffers[identifier]

    def adopt_buffers(self, buffers: Mapping[str, InvokerRecord]) -> None:
        """Work with these records of buffers, which the caller has locked and saves."""
        self._buffers |= buffers

    def raise_rms(self, record: RmsRecord, event: events.RmsInput) -> list[Fault]:
        """Let a source sequence handle an event and apply the effects; returns the faults to send to the peer."""
        heard = record.machine.last_heard
        requested = record.machine.handle(event, self.now, record.channel.policy)
        if is_heard_again(record.machine, record.channel.policy, heard):
            record.due = self.now
        faults = apply_rms_effects(self.tx, self.context, record, requested, self.now)
        self.change_rms(record)
        pair = self.rmds.get(record.offered or "")
        over = not record.machine.alive and record.channel.reply_to.anonymous
        if over and pair is not None and not pair.machine.tombstone:
            # Without an address for the other side, the offered sequence ends with this one (RM-TRM-05).
            self.raise_rmd(pair, all_received(pair))
        return faults

    def change_rms(self, record: RmsRecord) -> None:
        """Save a record, and call the worker if there may be something to do before the next retransmission."""
        self._changed_rms[record.id] = record
        self._sources.add(record)
        record.due = due_after_arrival(record, self.now)

    def sequences_before(self, record: RmsRecord) -> list[RmsRecord]:
        """The sequences of the same key that are older."""
        records = self._keys[record.channel.key]
        return records[: records.index(record)]

    def save_fetched(self, record: RmsRecord) -> None:
        """Save a source sequence after a message of it was fetched. The worker has work on it only if it has ended."""
        self._changed_rms[record.id] = record
        if not record.machine.alive:
            record.due = self.now

    def change_rmd(self, record: RmdRecord) -> None:
        self._changed_rmds[record.identifier] = None

    def raise_rmd(self, record: RmdRecord, event: events.RmdInput) -> tuple[effects.RmdEffect, ...]:
        """Let a destination sequence handle an event; passes its end on to its buffer and returns the effects."""
        requested = handle_rmd(self.tx, self.context, record, event, self.now)
        self.rows += marker_rows(record, requested)
        if record.machine.tombstone and record not in self._ended:
            self._ended.append(record)
        self.change_rmd(record)
        return requested

    def crowding(self, limit: int = 0) -> dict[str, int]:
        """Sequences that may be ended to make room, with the number of open sequences of their peer; by one query.

        :param limit: the most sequences; 0 = the result of the earlier call.
        """
        if self._crowding is None and limit:
            times = {"unused_before": self.now - UNUSED, "heard_before": self.now - IN_USE}
            self._crowding = dict(self.tx.rmd.crowding(limit, **times))
        return self._crowding or {}

    def open_sequences(self, owner: str | None = None) -> int:
        """The number of open destination sequences, of all or of one owner, including those that this batch has
        created.

        The store is queried once for the whole batch.
        """
        if owner not in self._open:
            self._open[owner] = self.tx.rmd.open_count(owner)
        return self._open[owner] + self.made.count(owner)

    def add_reply(self, row: InboundMessage) -> None:
        """Put a response that arrived outside any sequence into its buffer."""
        self.rows.append(row)
        emit_accepted(self.tx, self.context.observers, None, row, self.now)

    def add_message(self, record: RmdRecord, row: InboundMessage) -> None:
        """Put a message into the buffer of a locked sequence, whose counters include it already."""
        self.backlog.take(record, row.size)
        self.rows.append(row)
        emit_accepted(self.tx, self.context.observers, record.service, row, self.now)

    def add_rmd(self, record: RmdRecord, buffer: InvokerRecord) -> None:
        self.rmds[record.identifier] = record
        self._new_rmds.append(record)
        self.made.add(record)
        self._new_buffers.append(buffer)
        self._buffers[record.identifier] = buffer
        emit_destination_created(self.tx, self.context.observers, record, self.now)

    def add_offered(self, record: RmsRecord, identifier: str) -> None:
        """Add a source sequence that the peer has offered and this side accepts."""
        self._keys.setdefault(record.channel.key, []).append(record)
        self._sources.add(record)
        self._new_rms.append(record)
        emit_source_created(self.tx, self.context.observers, record, identifier, self.now)

    def save(self) -> None:
        """Write everything that changed."""
        for record in self._acknowledged.values():
            buffer = self.buffer(record.identifier)
            left = self.backlog.left(record, buffer) if buffer is not None else None
            if count_room(self.context, record, buffer, self.now, left):
                self.change_rmd(record)
        new = {record.identifier for record in self._new_rmds}
        for record in self._new_rmds:
            record.due = record.machine.next_due(self.context.application.policy(record.service))
        if self._new_rmds:
            self.tx.rmd.insert(*self._new_rmds)
            self.tx.invoker.insert(*self._new_buffers)
        for identifier in self._changed_rmds:
            if identifier not in new:
                save_rmd(self.tx, self.context, self.rmds[identifier])
        if self.rows:
            self.tx.invoker.add(self.rows)
        self.tx.rms.insert(*self._new_rms)
        new_rms = {record.id for record in self._new_rms}
        for rms in self._changed_rms.values():
            if rms.id not in new_rms:
                save_rms(self.tx, rms)
        self.tombstone_quota.save(self._keys)
        for record in self._ended:
            for rms in self._keys.get(fetched_key(record), []):
                if rms.machine.alive:
                    rms.due = self.now
                    save_rms(self.tx, rms)

    def due_keys(self) -> list[SequenceKey]:
        """The keys with a saved source sequence that has work now, and whose messages are posted.

        A window that has shrunk waits for the worker: acknowledgements that arrive meanwhile leave less to repeat.
        """
        saved = self._changed_rms.values()
        due = (
            each for each in saved if each.due is not None and each.due <= self.now and each.machine.flow.size is None
        )
        posted = (each.channel for each in due if not each.channel.back_channel and not each.channel.polled)
        return list(dict.fromkeys(channel.key for channel in posted))

    def next_dues(self) -> dict[SequenceKey, float | None]:
        """When the changed source sequences are due next, by key."""
        keys = {record.channel.key for record in self._changed_rms.values()}
        times = {
            key: [each.due for each in self._keys[key] if each.due is not None] for key in keys & self._keys.keys()
        }
        return {key: min(dues, default=None) for key, dues in times.items()}

    def acknowledge(self, exchange: InboundExchange, record: RmdRecord) -> None:
        """Acknowledge on this exchange if that is where acknowledgements go; otherwise the worker posts them, or the
        client fetches them."""
        if not leaves_on_reply(record.acks_to, has_reply=exchange.arrival.request is None):
            return
        if exchange.fetches_acknowledgement and record.acks_to.polled:
            return
        if record.acks_to.polled:
            self.raise_rmd(record, events.AckSent())  # otherwise it would also wait for MakeConnection
        exchange.acknowledge[record.identifier] = None
        self._acknowledged[record.identifier] = record

    def find_responses(self, exchanges: Collection[InboundExchange]) -> None:
        """Read the stored responses to repeated requests; new requests have no response yet."""
        for exchange in exchanges:
            self._request_acknowledgements(exchange)
            if exchange.waiting:
                buffer = self.buffer(exchange.waiting[0].sequence)  # `waiting` needs it too
                if any(each.repeated for each in exchange.waiting) and buffer is not None:
                    exchange.ack_requests = acknowledgement_requests(self.context, self.tx, buffer)
        repeated = [each for exchange in exchanges for each in exchange.waiting if each.repeated]
        if not repeated:
            return
        found, self._unread = stored_responses(self.tx, self.context, repeated, self.now)
        self._responses = {response.request: response for response in found}

    def _request_acknowledgements(self, exchange: InboundExchange) -> None:
        """Request the acknowledgement of responses with the refusal of a request: they may be why there is no room."""
        header, fault = exchange.envelope.sequence, exchange.fault
        if header is None or fault is None or not fault.busy:
            return
        record, buffer = self.rmds.get(header.identifier), self.buffer(header.identifier)
        if record is not None and record.source_is_mercury and buffer is not None:
            exchange.ack_requests = acknowledgement_requests(self.context, self.tx, buffer)

    # --- after the commit ------------------------------------------------------------------------------------------

    def responses(self, exchange: InboundExchange) -> tuple[Response, ...]:
        """The stored responses to repeated requests."""
        found = (self._responses.get(each.request) for each in exchange.waiting)
        return tuple(each for each in found if each is not None)

    def waiting(self, exchange: InboundExchange) -> tuple[PendingResponse, ...]:
        """The responses that the exchange may be held open for, by the state of its sequence after the whole batch."""
        # One that is stored and was not read: the next repetition gets it.
        waiting = [each for each in exchange.waiting if each.request not in self._unread]
        if not waiting:
            return ()
        first = waiting[0]
        received, buffer = self.rmds[first.sequence].machine.received, self._buffers.get(first.sequence)
        waits = buffer is not None and buffer.machine.waits_for_another(first.number, received)
        return (replace(first, first_missing=received.first_missing(), behind_a_gap=waits), *waiting[1:])

    def acknowledgements(self, exchange: InboundExchange) -> tuple[SequenceAcknowledgement, ...]:
        """The acknowledgements on the back-channel of this arrival, by the state after the whole batch."""
        return tuple(self._acknowledgement(self.rmds[identifier]) for identifier in exchange.acknowledge)

    def final_acknowledgements(self, exchange: InboundExchange, fault: Fault) -> tuple[SequenceAcknowledgement, ...]:
        """RM11-SEQ-10: the final acknowledgement in a fault about an ended or closed sequence; only for its owner."""
        record = self.rmds.get(fault.identifier or "")
        if record is None or not record.machine.final or not owns_destination(exchange.arrival, record):
            return ()
        return (self._acknowledgement(record),)

    def acknowledgement(self, identifier: str) -> tuple[SequenceAcknowledgement, ...]:
        return (self._acknowledgement(self.rmds[identifier]),)

    def _acknowledgement(self, record: RmdRecord) -> SequenceAcknowledgement:
        return record.machine.acknowledgement(self.context.application.policy(record.service))
