"""Receiving: everything that waits is decoded, handled in one transaction, and answered after its commit.

The committer calls `Reception.receive` with all arrivals that wait together, so that many messages share a commit
(decision 1). Nothing that a peer could take for an acknowledgement leaves `receive` before the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mercury.engine import envelopes
from mercury.engine.back_channel import in_reply, stored_responses
from mercury.engine.batch import Batch
from mercury.engine.drafts import Draft
from mercury.engine.exchange import ACCEPTED, Answer, Arrival, Outgoing, Purpose, Response, Waiting
from mercury.engine.handling import handle
from mercury.engine.parts import Parts
from mercury.engine.refusal import refuse_undecodable, with_status
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
    code=FaultCode.RECEIVER, reason="The store can not be used now; send it again later.", sender=False, busy=True
)
UNSTORABLE = Fault(code=FaultCode.SENDER, reason="The store refuses what the message says; it would again.")
BROKEN = Fault(code=FaultCode.RECEIVER, reason="The message could not be processed.", sender=False)


class Reception:
    """Turns arrivals into answers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def receive(self, arrivals: Sequence[Arrival], now: float) -> list[Answer]:
        """Handle all arrivals in one transaction; returns one answer each, in their order.

        Never raises for what a peer sent. If the transaction fails, each arrival is tried in one of its own, and
        what still fails is answered with a fault that makes the peer send it again.
        """
        answers: list[Answer | None] = [None] * len(arrivals)
        drafts: list[tuple[int, Draft]] = []
        for index, arrival in enumerate(arrivals):
            envelope = arrival.envelope or self.decode(arrival.http, arrival.service)
            if isinstance(envelope, Undecodable):
                answers[index] = self._undecodable(arrival, envelope)
            else:
                drafts.append((index, Draft(arrival, envelope)))
        if drafts:
            for (index, _), answer in zip(drafts, self._commit([draft for _, draft in drafts], now), strict=True):
                answers[index] = answer
        return [answer for answer in answers if answer is not None]

    def responses(self, waiting: Sequence[Waiting], now: float) -> tuple[list[Response], frozenset[str]]:
        """Of the responses that exchanges wait for those that are there by now (HTTP-05); see `stored_responses`."""
        with self._parts.store.transaction() as tx:
            return stored_responses(tx, self._parts, waiting, now)

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
            with self._parts.store.transaction() as tx:
                batch = Batch(self._parts, tx, now)
                batch.lock_for(outgoing)
                record = batch.rms_by_id(outgoing.record_id)
                if record is not None:
                    batch.raise_rms(record, event)
                    batch.save()
        except Conflict as error:
            log.info("what was accepted is said again: %r", str(error), extra={"endpoint": outgoing.url})
        except StorageError as error:
            self._parts.outages.failed(error, f"what was accepted by {outgoing.url}")

    # --- the transaction -------------------------------------------------------------------------------------------

    def _commit(self, drafts: list[Draft], now: float) -> list[Answer]:
        try:
            batch = self._handle(drafts, now)
        except Exception as error:
            if len(drafts) > 1:
                return [answer for draft in drafts for answer in self._commit([draft.anew()], now)]
            return [self._failed(drafts[0], error)]
        _share_acknowledgements(drafts)
        return [self._answer_or_fault(draft, batch) for draft in drafts]

    def _handle(self, drafts: list[Draft], now: float) -> Batch:
        with self._parts.store.transaction() as tx:
            batch = Batch(self._parts, tx, now)
            batch.lock(drafts)
            for draft in drafts:
                handle(batch, draft)
            batch.save()
            batch.look_for_responses(drafts)
        return batch

    def _failed(self, draft: Draft, error: Exception) -> Answer:
        about = {"message_id": draft.envelope.message_id}
        if isinstance(error, StorageError):
            if isinstance(error, Conflict):
                log.info("an arrival is not taken now: %s", error, extra=about)
                return self._faulted(draft, BUSY)
            self._parts.outages.failed(error, "what arrives")
            if isinstance(error, DataError):
                return self._faulted(draft, UNSTORABLE)
            return self._faulted(draft, AWAY)
        log.exception("an arrival could not be handled", extra=about)
        return self._faulted(draft, BROKEN)

    # --- answers ---------------------------------------------------------------------------------------------------

    def _answer_or_fault(self, draft: Draft, batch: Batch) -> Answer:
        try:
            return self._answer(draft, batch)
        except Exception:
            # It is committed: the peer says it again, and is answered as to a repetition.
            log.exception("an answer could not be written", extra={"message_id": draft.envelope.message_id})
            return Answer(http=HttpMessage(b"", "", None, 500))

    def _answer(self, draft: Draft, batch: Batch) -> Answer:
        """What was decided, put into envelopes. The transaction is over."""
        if draft.fault is not None:
            return self._faulted(draft, draft.fault, batch)
        if draft.arrival.request is not None:
            return Answer(http=ACCEPTED, posts=self._replies_by_post(draft))
        if draft.reply is not None:
            return self._replied(draft)
        stored = batch.response(draft)
        if stored is not None and draft.waiting is not None:
            return Answer(http=in_reply(stored, draft.waiting))
        acknowledgements = envelopes.sayable(draft.protocol, batch.acknowledgements(draft))
        waiting = batch.waiting(draft)
        if not acknowledgements:
            return Answer(http=ACCEPTED, waiting=waiting)
        alone = envelopes.acknowledgement_alone(
            draft.protocol, ANONYMOUS_ENDPOINT, self._parts.ids.new(), acknowledgements, draft.ask
        )
        return Answer(http=encode(alone), waiting=waiting)

    def _replied(self, draft: Draft) -> Answer:
        posts = self._replies_by_post(draft)
        if posts:
            return Answer(http=ACCEPTED, posts=posts)
        assert draft.reply is not None
        return Answer(http=encode(draft.reply(ANONYMOUS_ENDPOINT, self._parts.ids.new())))

    def _replies_by_post(self, draft: Draft) -> tuple[Outgoing, ...]:
        """A reply whose ReplyTo is an address is posted there, once: the request's repetition brings it again."""
        to = draft.reply_to
        if draft.reply is None or to is None or not to.addressable:
            return ()
        envelope = draft.reply(to, self._parts.ids.new())
        return (_answer_to(to, envelope, draft),)

    def _faulted(self, draft: Draft, fault: Fault, batch: Batch | None = None) -> Answer:
        about = {"message_id": draft.envelope.message_id, "sequence": fault.identifier}
        log.info("answered with fault %s: %r", fault.code.value, fault.reason, extra=about)
        if draft.arrival.request is not None:
            return Answer(http=ACCEPTED)  # a fault about a reply has nowhere to go; the peer's repetition shows it
        acknowledgements = batch.final_acknowledgements(draft, fault) if batch is not None else ()
        to = draft.fault_to if batch is not None and draft.fault_to.addressable else ANONYMOUS_ENDPOINT
        envelope = envelopes.fault(
            draft.protocol,
            fault,
            to=to,
            message_id=self._parts.ids.new(),
            relates_to=draft.envelope.message_id,
            acknowledgements=acknowledgements,
        )
        if to.addressable and not fault.busy:
            return Answer(http=ACCEPTED, posts=(_answer_to(to, envelope, draft),))
        return Answer(http=with_status(encode(envelope), fault_status(fault, draft.protocol.soap)))

    def _undecodable(self, arrival: Arrival, error: Undecodable) -> Answer:
        log.info("not an envelope to act upon: %r", str(error), extra={"message_id": error.message_id})
        if arrival.request is not None:
            return Answer(http=ACCEPTED)
        return Answer(http=refuse_undecodable(error, self._parts.ids))

    def decode(self, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        """What an HTTP message says; it may be called in any thread."""
        try:
            return decode(
                http.body,
                http.content_type,
                http.soap_action,
                limits=self._parts.settings.limits,
                understands=self._parts.application.understands(service),
                replies=service is None,
            )
        except Undecodable as error:
            return error


def _answer_to(to: EndpointReference, envelope: Envelope, draft: Draft) -> Outgoing:
    return Outgoing(url=to.address, envelope=envelope, purpose=Purpose.ANSWER, owner=draft.arrival.owner)


def _share_acknowledgements(drafts: list[Draft]) -> None:
    """Of arrivals that came together those that ask for an acknowledgement get it (RM-ACK-06), for all of them.

    If none asks, the last one gets it (RM-ACK-11): whatever is stored is acknowledged without delay.
    """
    asked = {request.identifier for draft in drafts for request in draft.envelope.ack_requests}
    at_once = [draft for draft in drafts if draft.fault is None and draft.reply is None]
    at_once.sort(key=lambda draft: draft.waiting is None)  # an exchange that is held open is answered later
    last = {each: draft for draft in at_once for each in draft.acknowledge}
    for draft in drafts:
        mine = {request.identifier for request in draft.envelope.ack_requests}
        draft.acknowledge = {
            each: None for each in draft.acknowledge if each in mine or (each not in asked and last.get(each) is draft)
        }
