"""Receiving: everything that waits is decoded, handled in one transaction, and answered after its commit.

The committer calls `Reception.receive` with all arrivals that wait together, so that many messages share a commit
(decision 1). Nothing that a peer could take for an acknowledgement leaves `receive` before the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mercury.engine import envelopes
from mercury.engine.context import EngineContext
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.dispatch import handle
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.exchange import ACCEPTED, Answer, Arrival, Outgoing, PendingResponse, Purpose, Response
from mercury.engine.refusal import refuse_undecodable, with_status
from mercury.engine.source.back_channel import in_reply, stored_responses
from mercury.errors import Conflict, DataError, StorageError
from mercury.statemachine import events
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference
from mercury.wire.decode import decode
from mercury.wire.encode import encode, fault_status
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable

log = logging.getLogger("mercury.engine.reception")

BUSY = Fault(code=FaultCode.RECEIVER, reason="The store is busy; send it again later.", sender=False, busy=True)
AWAY = Fault(
    code=FaultCode.RECEIVER, reason="The store cannot be used now; send it again later.", sender=False, busy=True
)
UNSTORABLE = Fault(code=FaultCode.SENDER, reason="The store refuses what the message says; it would again.")
BROKEN = Fault(code=FaultCode.RECEIVER, reason="The message could not be processed.", sender=False)


class Reception:
    """Turns arrivals into answers."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context

    def receive(self, arrivals: Sequence[Arrival], now: float) -> list[Answer]:
        """Handle all arrivals in one transaction; returns one answer each, in their order.

        Never raises for what a peer sent. If the transaction fails, each arrival is tried in one of its own, and
        what still fails is answered with a fault that makes the peer send it again.
        """
        answers: list[Answer | None] = [None] * len(arrivals)
        exchanges: list[tuple[int, InboundExchange]] = []
        for index, arrival in enumerate(arrivals):
            envelope = arrival.envelope or self.decode(arrival.http, arrival.service)
            if isinstance(envelope, Undecodable):
                answers[index] = self._undecodable(arrival, envelope)
            else:
                exchanges.append((index, InboundExchange(arrival, envelope)))
        if exchanges:
            for (index, _), answer in zip(
                exchanges, self._commit([exchange for _, exchange in exchanges], now), strict=True
            ):
                answers[index] = answer
        return [answer for answer in answers if answer is not None]

    def responses(self, waiting: Sequence[PendingResponse], now: float) -> tuple[list[Response], frozenset[str]]:
        """Of the responses that exchanges wait for those that are there by now (HTTP-05); see `stored_responses`."""
        with self._context.store.transaction() as tx:
            return stored_responses(tx, self._context, waiting, now)

    def end_accepted(self, outgoing: Outgoing, now: float) -> None:
        """The transport took a TerminateSequence that gets no other answer."""
        self._accepted(outgoing, events.Settled(), now)

    def reply_accepted(self, outgoing: Outgoing, now: float) -> None:
        """The transport took a reply outside any sequence: nothing else acknowledges it."""
        number = outgoing.number or 0
        self._accepted(outgoing, events.Acknowledged(((number, number),)), now)

    def _accepted(self, outgoing: Outgoing, event: events.RmsInput, now: float) -> None:
        if outgoing.key is None or outgoing.record_id is None:
            return
        try:
            with self._context.store.transaction() as tx:
                batch = Batch(self._context, tx, now)
                batch.lock_for(outgoing)
                record = batch.rms_by_id(outgoing.record_id)
                if record is not None:
                    batch.raise_rms(record, event)
                    batch.save()
        except Conflict as error:
            log.info("what was accepted is said again: %r", str(error), extra={"endpoint": outgoing.url})
        except StorageError as error:
            self._context.outages.failed(error, f"what was accepted by {outgoing.url}")

    # --- the transaction -------------------------------------------------------------------------------------------

    def _commit(self, exchanges: list[InboundExchange], now: float) -> list[Answer]:
        try:
            batch = self._handle(exchanges, now)
        except Exception as error:
            if len(exchanges) > 1:
                return [answer for exchange in exchanges for answer in self._commit([exchange.anew()], now)]
            return [self._failed(exchanges[0], error)]
        _share_acknowledgements(exchanges)
        return [self._answer_or_fault(exchange, batch) for exchange in exchanges]

    def _handle(self, exchanges: list[InboundExchange], now: float) -> Batch:
        with self._context.store.transaction() as tx:
            batch = Batch(self._context, tx, now)
            batch.lock(exchanges)
            for exchange in exchanges:
                handle(batch, exchange)
            batch.save()
            batch.find_responses(exchanges)
        return batch

    def _failed(self, exchange: InboundExchange, error: Exception) -> Answer:
        about = {"message_id": exchange.envelope.message_id}
        if isinstance(error, StorageError):
            if isinstance(error, Conflict):
                log.info("an arrival is not taken now: %s", error, extra=about)
                return self._faulted(exchange, BUSY)
            self._context.outages.failed(error, "what arrives")
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
            # It is committed: the peer says it again, and is answered as to a repetition.
            log.exception("an answer could not be written", extra={"message_id": exchange.envelope.message_id})
            return Answer(http=HttpMessage(b"", "", None, 500))

    def _answer(self, exchange: InboundExchange, batch: Batch) -> Answer:
        """What was decided, put into envelopes. The transaction is over."""
        if exchange.fault is not None:
            return self._faulted(exchange, exchange.fault, batch)
        if exchange.arrival.request is not None:
            return Answer(http=ACCEPTED, posts=self._replies_by_post(exchange))
        if exchange.reply is not None:
            return self._replied(exchange)
        stored = batch.response(exchange)
        if stored is not None and exchange.waiting is not None:
            return Answer(http=in_reply(stored, exchange.waiting))
        acknowledgements = envelopes.sayable(exchange.protocol, batch.acknowledgements(exchange))
        waiting = batch.waiting(exchange)
        if not acknowledgements:
            return Answer(http=ACCEPTED, waiting=waiting)
        alone = envelopes.acknowledgement_alone(
            exchange.protocol, ANONYMOUS_ENDPOINT, self._context.ids.new(), acknowledgements, exchange.ask
        )
        return Answer(http=encode(alone), waiting=waiting)

    def _replied(self, exchange: InboundExchange) -> Answer:
        posts = self._replies_by_post(exchange)
        if posts:
            return Answer(http=ACCEPTED, posts=posts)
        assert exchange.reply is not None
        return Answer(http=encode(exchange.reply(ANONYMOUS_ENDPOINT, self._context.ids.new())))

    def _replies_by_post(self, exchange: InboundExchange) -> tuple[Outgoing, ...]:
        """A reply whose ReplyTo is an address is posted there, once: the request's repetition brings it again."""
        to = exchange.reply_to
        if exchange.reply is None or to is None or not to.addressable:
            return ()
        envelope = exchange.reply(to, self._context.ids.new())
        return (_answer_to(to, envelope, exchange),)

    def _faulted(self, exchange: InboundExchange, fault: Fault, batch: Batch | None = None) -> Answer:
        about = {"message_id": exchange.envelope.message_id, "sequence": fault.identifier}
        log.info("answered with fault %s: %r", fault.code.value, fault.reason, extra=about)
        if exchange.arrival.request is not None:
            return Answer(http=ACCEPTED)  # a fault about a reply has nowhere to go; the peer's repetition shows it
        acknowledgements = batch.final_acknowledgements(exchange, fault) if batch is not None else ()
        to = exchange.fault_to if batch is not None and exchange.fault_to.addressable else ANONYMOUS_ENDPOINT
        envelope = envelopes.fault(
            exchange.protocol,
            fault,
            to=to,
            message_id=self._context.ids.new(),
            relates_to=exchange.envelope.message_id,
            acknowledgements=acknowledgements,
        )
        if to.addressable and not fault.busy:
            return Answer(http=ACCEPTED, posts=(_answer_to(to, envelope, exchange),))
        return Answer(http=with_status(encode(envelope), fault_status(fault, exchange.protocol.soap)))

    def _undecodable(self, arrival: Arrival, error: Undecodable) -> Answer:
        log.info("not an envelope to act upon: %r", str(error), extra={"message_id": error.message_id})
        if arrival.request is not None:
            return Answer(http=ACCEPTED)
        return Answer(http=refuse_undecodable(error, self._context.ids))

    def decode(self, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        """What an HTTP message says; it may be called in any thread."""
        try:
            return decode(
                http.body,
                http.content_type,
                http.soap_action,
                limits=self._context.settings.limits,
                understands=self._context.application.understands(service),
                replies=service is None,
            )
        except Undecodable as error:
            return error


def _answer_to(to: EndpointReference, envelope: Envelope, exchange: InboundExchange) -> Outgoing:
    return Outgoing(url=to.address, envelope=envelope, purpose=Purpose.ANSWER, owner=exchange.arrival.owner)


def _share_acknowledgements(exchanges: list[InboundExchange]) -> None:
    """Of arrivals that came together those that ask for an acknowledgement get it (RM-ACK-06), for all of them.

    If none asks, the last one gets it (RM-ACK-11): whatever is stored is acknowledged without delay.
    """
    requested = {request.identifier for exchange in exchanges for request in exchange.envelope.ack_requests}
    at_once = [exchange for exchange in exchanges if exchange.fault is None and exchange.reply is None]
    at_once.sort(key=lambda exchange: exchange.waiting is None)  # an exchange that is held open is answered later
    last = {each: exchange for exchange in at_once for each in exchange.acknowledge}
    for exchange in exchanges:
        mine = {request.identifier for request in exchange.envelope.ack_requests}
        exchange.acknowledge = {
            each: None
            for each in exchange.acknowledge
            if each in mine or (each not in requested and last.get(each) is exchange)
        }
