"""Decodes arrivals, handles them in one transaction, and answers them after its commit.

The committer calls `Reception.receive` with all waiting arrivals, so that many messages share a commit (decision 1).
`receive` returns no answer before the commit, because a peer could take it for an acknowledgement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from mercury.engine import envelopes
from mercury.engine.context import EngineContext
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.delivering import DeliveryOnArrival, Reserve, deliver, messages_of
from mercury.engine.destination.dispatch import handle
from mercury.engine.destination.inbound_exchange import Fetched, InboundExchange, answers_with_mtom
from mercury.engine.destination.ordinary_replies import UnansweredCreations, post_plainly_after_silence
from mercury.engine.destination.replay import first_copies, holds_up_copies
from mercury.engine.destination.shared_acknowledgements import share_acknowledgements
from mercury.engine.exchange import (
    ACCEPTED,
    Answer,
    Arrival,
    Outgoing,
    PendingResponse,
    Purpose,
    Response,
    Step,
    size_of,
)
from mercury.engine.held_elsewhere import HeldElsewhere
from mercury.engine.refusal import refuse_undecodable, with_status
from mercury.engine.source.back_channel import in_reply, stored_responses
from mercury.errors import Conflict, DataError, StorageError
from mercury.statemachine import events
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference, MakeConnection
from mercury.storage.api import Transaction
from mercury.storage.records import InboundMessage, RmsRecord, SequenceKey
from mercury.wire.decode import decode
from mercury.wire.encode import encode, fault_status
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable
from mercury.wire.shapes import Shapes
from mercury.wire.verified import Verified

log = logging.getLogger("mercury.engine.reception")

BUSY = Fault(code=FaultCode.RECEIVER, reason="The store is busy; send it again later.", sender=False, busy=True)
AWAY = Fault(
    code=FaultCode.RECEIVER, reason="The store cannot be used now; send it again later.", sender=False, busy=True
)
UNSTORABLE = Fault(code=FaultCode.SENDER, reason="The store refuses what the message says; it would again.")
BROKEN = Fault(code=FaultCode.RECEIVER, reason="The message could not be processed.", sender=False)

#: The answer to an arrival that is not handled yet.
POSTPONED = Answer(http=ACCEPTED, postponed=True)
HELD = "another transaction works on its sequence for too long"
#: Bytes of a message whose reply is handled beside a refill of its window: the next messages are as large probably.
MOST_BESIDE = 256 * 1024


class Refilling(Protocol):
    """Works on source sequences in the transaction of the arrivals that made them due; see `SourceWorker`."""

    def refill(self, tx: Transaction, keys: Sequence[SequenceKey], now: float) -> Step: ...

    def not_refilled(self, keys: Sequence[SequenceKey]) -> None: ...

    def planned(self, dues: Mapping[SequenceKey, float | None], now: float) -> None: ...


class Reception:
    """Handles arrivals and makes their answers.

    :param refilling: the worker on source sequences.
    :param reserve: see `ArrivalDelivery.reserved`.
    """

    def __init__(self, context: EngineContext, refilling: Refilling, reserve: Reserve) -> None:
        self._context = context
        self._refilling = refilling
        self._reserve = reserve
        self._unanswered_creations = UnansweredCreations()
        self._shapes = Shapes(context.settings.limits)

    def receive(
        self, arrivals: Sequence[Arrival], now: float, *, delivers: bool = True, postpones: bool = False
    ) -> list[Answer]:
        """Handle all arrivals in one transaction. Returns one answer for each, in their order.

        The content of an arrival never causes an exception here. If the transaction fails, each arrival is handled in
        a separate transaction; if that fails too, the answer is a fault after which the peer sends the message again.

        :param delivers: whether messages may be delivered in the transaction.
        :param postpones: whether an arrival for a sequence that another transaction has locked is postponed
            (`Answer.postponed`); otherwise it is refused as busy.
        """
        answers: list[Answer | None] = [None] * len(arrivals)
        exchanges: list[tuple[int, InboundExchange]] = []
        for index, arrival in enumerate(arrivals):
            envelope = arrival.envelope or self.decode(arrival.http, arrival.service)
            if isinstance(envelope, Undecodable):
                answers[index] = self._undecodable(arrival, envelope)
            else:
                exchanges.append((index, InboundExchange(arrival.proved(envelope.verified), envelope)))
        if exchanges:
            taken = self._commit([exchange for _, exchange in exchanges], now, delivers=delivers)
            for (index, exchange), answer in zip(exchanges, taken, strict=True):
                refused = answer.postponed and not postpones
                answers[index] = self._failed(exchange, Conflict(HELD)) if refused else answer
        return [answer for answer in answers if answer is not None]

    def responses(self, waiting: Sequence[PendingResponse], now: float) -> tuple[list[Response], frozenset[str]]:
        """The responses that held exchanges wait for and that are stored now (HTTP-05); see `stored_responses`."""
        with self._context.store.transaction() as tx:
            return stored_responses(tx, self._context, waiting, now)

    def end_accepted(self, outgoing: Outgoing, now: float) -> None:
        """HTTP accepted a TerminateSequence that gets no other answer."""
        self._accepted(outgoing, lambda batch, record: batch.raise_rms(record, events.Settled()), now)

    def reply_accepted(self, outgoing: Outgoing, now: float) -> None:
        """HTTP accepted a reply outside any sequence, which has no other acknowledgement."""
        number = outgoing.number or 0
        taken = events.Acknowledged(((number, number),))
        self._accepted(outgoing, lambda batch, record: batch.raise_rms(record, taken), now)

    def creation_accepted(self, outgoing: Outgoing, now: float) -> None:
        """HTTP accepted a CreateSequence without an answer; the answer may be posted later."""
        if outgoing.record_id is not None and self._unanswered_creations.limit_reached(outgoing.record_id):
            self._accepted(outgoing, post_plainly_after_silence, now)

    def _accepted(self, outgoing: Outgoing, act: Callable[[Batch, RmsRecord], object], now: float) -> None:
        if outgoing.key is None or outgoing.record_id is None:
            return
        try:
            with self._context.store.transaction() as tx:
                batch = Batch(self._context, tx, now)
                batch.lock_for(outgoing)
                record = batch.rms_by_id(outgoing.record_id)
                if record is not None:
                    act(batch, record)
                    batch.save()
        except Conflict as error:
            log.info("an accepted message will be sent again: %r", str(error), extra={"endpoint": outgoing.url})
        except StorageError as error:
            self._context.outages.failed(error, f"the message that {outgoing.url} has accepted")

    # --- the transaction -------------------------------------------------------------------------------------------

    def _commit(
        self, exchanges: list[InboundExchange], now: float, *, refills: bool = True, delivers: bool = True
    ) -> list[Answer]:
        """Handle arrivals in one transaction; the last answer has the posts of the refilled windows.

        :param refills: whether the windows that acknowledgements open are refilled in the same transaction.
        :param delivers: whether messages may be delivered in it.
        """
        refilled: list[SequenceKey] = []
        messages = messages_of(exchanges) if delivers and not holds_up_copies(self._context, exchanges) else {}
        delivers = bool(messages)
        try:
            with self._reserve(messages, now) as delivery:
                delivers = delivery is not None
                batch, posts = self._handle(exchanges, now, refilled, delivery, refills=refills)
        except HeldElsewhere as held:
            rest = [exchange.undecided() for exchange in exchanges if exchange not in held.exchanges]
            others = iter(self._commit(rest, now, refills=refills, delivers=delivers) if rest else ())
            return [POSTPONED if exchange in held.exchanges else next(others) for exchange in exchanges]
        except Exception as error:
            if refilled or delivers:  # neither the work on a key nor a handler must fail what has arrived
                if refilled:
                    self._refilling.not_refilled(refilled)
                if delivers:
                    log.info("a transaction that delivers has failed, and is repeated without that: %r", error)
                again = [exchange.undecided() for exchange in exchanges]
                return self._commit(again, now, refills=refills and not refilled, delivers=False)
            if len(exchanges) > 1:
                return [
                    answer for each in exchanges for answer in self._commit([each.undecided()], now, delivers=False)
                ]
            return [self._failed(exchanges[0], error)]
        share_acknowledgements(batch, exchanges)
        answers = [self._answer_or_fault(exchange, batch) for exchange in exchanges]
        if posts:
            answers[-1] = replace(answers[-1], posts=(*answers[-1].posts, *posts))
        return answers

    def _handle(
        self,
        exchanges: list[InboundExchange],
        now: float,
        refilled: list[SequenceKey],
        delivery: DeliveryOnArrival | None,
        *,
        refills: bool,
    ) -> tuple[Batch, list[Outgoing]]:
        """The transaction.

        :param refilled: gets the keys whose windows are refilled, also if that fails.
        :param delivery: delivers messages; ``None`` = they are only stored.
        """
        posts: list[Outgoing] = []
        with self._context.store.transaction() as tx:
            exchanges = first_copies(self._context, tx, exchanges, now)
            batch = Batch(self._context, tx, now)
            batch.lock_destinations(exchanges, () if delivery is None else delivery.claims)
            if delivery is not None:
                deliver(batch, exchanges, delivery)
            batch.lock_sources(exchanges, () if delivery is None else delivery.keys)
            for exchange in exchanges:
                handle(batch, exchange)
            if delivery is not None:
                batch.rows = delivery.settle(tx, batch.rows)
            batch.save()
            if delivery is not None:
                delivery.respond(tx)
            accepted = [*batch.rows, *([] if delivery is None else delivery.not_stored)]
            if self._context.measurements is not None and accepted:
                tx.after_commit(partial(self._context.measurements.accepted, _services(batch, accepted)))
            batch.find_responses(exchanges)
            keys = batch.due_keys() if refills and not any(map(_is_of_large, exchanges)) else []
            if keys:
                refilled += keys
                posts = self._refilling.refill(tx, keys, now).posts
        self._refilling.planned({key: due for key, due in batch.next_dues().items() if key not in keys}, now)
        return batch, posts

    def _failed(self, exchange: InboundExchange, error: Exception) -> Answer:
        about = {"message_id": exchange.envelope.message_id}
        if isinstance(error, StorageError):
            if isinstance(error, Conflict):
                log.info("an arrival is refused as busy: %s", error, extra=about)
                return self._faulted(exchange, BUSY)
            self._context.outages.failed(error, "arrivals")
            if isinstance(error, DataError):
                return self._faulted(exchange, UNSTORABLE)
            return self._faulted(exchange, AWAY)
        log.exception("an arrival could not be handled", extra=about)
        return self._faulted(exchange, BROKEN)

    # --- answers ---------------------------------------------------------------------------------------------------

    def _answer_or_fault(self, exchange: InboundExchange, batch: Batch) -> Answer:
        try:
            return self._answer(exchange, batch)
        except Exception:
            # The message is committed: the peer repeats it, and gets the answer to a repetition.
            log.exception("an answer could not be written", extra={"message_id": exchange.envelope.message_id})
            return Answer(http=HttpMessage(b"", "", None, 500))

    def _answer(self, exchange: InboundExchange, batch: Batch) -> Answer:
        """The answer in envelopes. The transaction is committed."""
        if exchange.fault is not None:
            return self._faulted(exchange, exchange.fault, batch)
        if exchange.arrival.request is not None:
            return Answer(http=ACCEPTED, posts=self._replies_by_post(exchange))
        if exchange.reply is not None:
            return self._replied(exchange)
        stored = batch.responses(exchange)
        if stored and len(stored) == len(exchange.waiting):
            return Answer(http=in_reply(stored, exchange.waiting, self._context.ids))
        acknowledgements = envelopes.expressible(exchange.protocol, batch.acknowledgements(exchange))
        if exchange.fetched is not None:
            return self._handed_out(exchange, exchange.fetched, acknowledgements)
        waiting = batch.waiting(exchange)
        if (
            waiting
            and not (exchange.envelope.ack_requests or exchange.ack_requests)
            # Its response comes to the held exchange, also if it was handled in this transaction.
            and all((exchange.taken and not each.repeated) or _is_at_work(batch, each) for each in waiting)
        ):
            # HTTP-05: .NET treats an acknowledgement alone as an empty response; after an empty 202 it repeats the
            # request.
            acknowledgements = ()
        if not acknowledgements:
            return Answer(http=ACCEPTED, waiting=waiting, stored=stored)
        alone = envelopes.acknowledgement_alone(
            exchange.protocol, ANONYMOUS_ENDPOINT, self._context.ids.new(), acknowledgements, exchange.ack_requests
        )
        return Answer(http=self._context.prepared.encode(alone), waiting=waiting, stored=stored)

    def _handed_out(
        self, exchange: InboundExchange, fetched: Fetched, acknowledgements: envelopes.Acknowledgements
    ) -> Answer:
        """The answer to a MakeConnection: the message that is due, or acknowledgements, or nothing (MC-01)."""
        envelope, body = fetched.envelope, exchange.envelope.body
        if envelope is None and not acknowledgements:
            return Answer(http=ACCEPTED)
        if envelope is None:
            address = body.address if isinstance(body, MakeConnection) else None
            to = EndpointReference(address) if address is not None else ANONYMOUS_ENDPOINT
            envelope = envelopes.acknowledgement_alone(exchange.protocol, to, self._context.ids.new(), acknowledgements)
        else:
            acknowledged = {each.identifier for each in envelope.acknowledgements}
            others = tuple(each for each in acknowledgements if each.identifier not in acknowledged)
            envelope = replace(envelope, acknowledgements=envelope.acknowledgements + others)
        mtom = answers_with_mtom(self._context, exchange)
        return Answer(http=encode(replace(envelope, message_pending=fetched.pending, mtom=mtom)))

    def _replied(self, exchange: InboundExchange) -> Answer:
        posts = self._replies_by_post(exchange)
        if posts:
            return Answer(http=ACCEPTED, posts=posts)
        assert exchange.reply is not None
        to = exchange.reply_to if exchange.reply_to.polled else ANONYMOUS_ENDPOINT  # MC-06
        return Answer(http=encode(exchange.reply(to, self._context.ids.new())))

    def _replies_by_post(self, exchange: InboundExchange) -> tuple[Outgoing, ...]:
        """A reply is posted once if ReplyTo is an address; a repeated request causes another post."""
        to = exchange.reply_to
        if exchange.reply is None or to is None or not to.addressable:
            return ()
        envelope = exchange.reply(to, self._context.ids.new())
        return (_answer_to(to, envelope, exchange),)

    def _faulted(self, exchange: InboundExchange, fault: Fault, batch: Batch | None = None) -> Answer:
        about = {"message_id": exchange.envelope.message_id, "sequence": fault.identifier}
        log.info("answered with fault %s: %r", fault.code.value, fault.reason, extra=about)
        if exchange.arrival.request is not None:
            return Answer(http=ACCEPTED)  # a fault about a reply cannot be sent; the peer repeats its message
        acknowledgements = batch.final_acknowledgements(exchange, fault) if batch is not None else ()
        if batch is not None and exchange.accepted_in_part:
            acknowledgements = batch.acknowledgements(exchange)
        # Posted, UnknownSequence could reach the owner of a sequence that the sender only names (SEC-01). The owner
        # believes it: it has the identity of this side, and a process with another store may have the same.
        posted = batch is not None and exchange.fault_to.addressable and fault.code is not FaultCode.UNKNOWN_SEQUENCE
        to = exchange.fault_to if posted else ANONYMOUS_ENDPOINT
        envelope = envelopes.fault(
            exchange.protocol,
            fault,
            to=to,
            message_id=self._context.ids.new(),
            relates_to=exchange.envelope.message_id,
            acknowledgements=acknowledgements,
            ack_requests=exchange.ack_requests if fault.busy else (),
        )
        if to.addressable and not fault.busy:
            return Answer(http=ACCEPTED, posts=(_answer_to(to, envelope, exchange),))
        return Answer(http=with_status(encode(envelope), fault_status(fault, exchange.protocol.soap)))

    def _undecodable(self, arrival: Arrival, error: Undecodable) -> Answer:
        log.info("an arrival cannot be decoded: %r", str(error), extra={"message_id": error.message_id})
        if arrival.request is not None:
            return Answer(http=ACCEPTED)
        return Answer(http=refuse_undecodable(error, self._context.ids))

    def decode(self, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        """Decode an HTTP message to a service, or (``None``) to the address for responses. May be called in any
        thread."""
        try:
            http, verified = self._context.security.opened(http, service, self._context.settings.limits)
            return self._decoded(http, service, verified)
        except Undecodable as error:
            return error

    def decode_reply(self, http: HttpMessage, url: str) -> Envelope | Undecodable:
        """Decode the reply to a post. May be called in any thread."""
        try:
            http, verified = self._context.security.opened_reply(http, url, self._context.settings.limits)
            return self._decoded(http, None, verified)
        except Undecodable as error:
            return error

    def _decoded(self, http: HttpMessage, service: str | None, verified: Verified | None) -> Envelope:
        envelope = decode(
            http.body if http.spool is None else http.spool,
            http.content_type,
            http.soap_action,
            limits=self._context.settings.limits,
            understands=self._context.application.understands(service),
            replies=service is None,
            shapes=self._shapes if verified is None else None,  # a signature differs in each message
        )
        return envelope if verified is None else replace(envelope, verified=verified)


def _answer_to(to: EndpointReference, envelope: Envelope, exchange: InboundExchange) -> Outgoing:
    return Outgoing(url=to.url, envelope=envelope, purpose=Purpose.ANSWER, owner=exchange.arrival.owner)


def _services(batch: Batch, rows: Sequence[InboundMessage]) -> list[str | None]:
    """The service of each of these messages, which a batch has accepted; ``None`` = it is a response."""
    rmds = batch.rmds
    return [rmds[row.sequence].service if row.sequence in rmds else None for row in rows if row.action]


def _is_of_large(exchange: InboundExchange) -> bool:
    """Whether an arrival is the reply to a large message, which is in memory until the transaction has ended."""
    request = exchange.arrival.request
    return request is not None and (size_of(request.envelope) or 0) > MOST_BESIDE


def _is_at_work(batch: Batch, waiting: PendingResponse) -> bool:
    """Whether the application has not consumed a request yet."""
    buffer = batch.buffer(waiting.sequence)
    return buffer is None or waiting.number not in buffer.machine.passed
