"""Ordinary replies: responses outside any sequence, because no sequence was offered or accepted (LIVE-06).

An inbound reply has no number to order it by: it is the only message of a separate invoker buffer. An outbound reply is
a row of a source sequence that the peer does not know; see `Role.REPLY`.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from mercury.bounded import BoundedDict
from mercury.engine.addresses import server_of
from mercury.engine.application import FUTURE
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.destination.ownership import may_answer
from mercury.statemachine import events
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.storage.records import InboundMessage, InvokerRecord, OutboundMessage, RmdRecord, RmsRecord, Role
from mercury.wire import ns
from mercury.wire.envelope import Payload

log = logging.getLogger("mercury.engine.reception")

#: The prefix of the names of buffers for single replies.
REPLY = "reply:"
#: The number of CreateSequence messages for responses that a peer accepts without an answer before this side gives up.
MAX_UNANSWERED = 4
#: The most sequences that are counted; above it, the count of the oldest starts again.
REMEMBERED = 10_000
#: Faults that do not show whether the endpoint supports WS-ReliableMessaging.
_AWAY = frozenset({FaultCode.DESTINATION_UNREACHABLE, FaultCode.ENDPOINT_UNAVAILABLE})


class UnansweredCreations:
    """Counts, by source sequence, CreateSequence messages that HTTP accepted and that are not answered."""

    def __init__(self) -> None:
        self._counts: BoundedDict[str, int] = BoundedDict(REMEMBERED)

    def limit_reached(self, record_id: str) -> bool:
        """Count another one. Returns whether the limit is reached: then no answer is expected any more."""
        count = self._counts.pop(record_id, 0) + 1
        if count >= MAX_UNANSWERED:
            return True
        self._counts[record_id] = count
        return False


def take_reply(batch: Batch, exchange: InboundExchange, body: Payload) -> bool:
    """Store a message outside any sequence if it is the response to a request of this side. Returns whether it is."""
    row = _request(batch, exchange)
    if row is None or exchange.envelope.action.startswith(tuple(ns.RM_VERSION)) or _has_no_response(exchange, body):
        return False
    _store(batch, exchange, body)
    return True


def take_response_above_gap(batch: Batch, exchange: InboundExchange, request: OutboundMessage, body: Payload) -> bool:
    """Store a response above a gap at once if its request has a future. Returns whether it has.

    A future needs only its own response, not the ones before it, and the gap may never be filled.
    """
    if not request.expects_response or not (request.callback or "").startswith(FUTURE):
        return False
    _store(batch, exchange, body)
    return True


def take_fault(batch: Batch, exchange: InboundExchange, fault: Fault) -> bool:
    """Store a fault if the peer's application answers a request of this side with it. Returns whether it does.

    It does if the request is acknowledged and there is no sequence for responses. Otherwise the fault is about the
    transmission of the request, which is repeated.
    """
    raw, row = exchange.envelope.fault, _request(batch, exchange)
    generic = fault.code in (FaultCode.SENDER, FaultCode.RECEIVER) and fault.identifier is None and not fault.busy
    if raw is None or row is None or not generic or exchange.arrival.http.status == 503:
        return False
    request = batch.rms_by_id(row.sequence_id or "")
    if request is None or request.offer_accepted or (row.number or 0) not in request.machine.acknowledged:
        return False
    _store(batch, exchange, raw)
    return True


def post_plainly_after_refusal(batch: Batch, record: RmsRecord, fault: Fault) -> bool:
    """After a fault that refuses a sequence for responses, post the responses outside any sequence. Returns whether the
    fault is one."""
    if not _is_requested(record) or fault.busy or not fault.sender or fault.code in _AWAY:
        return False
    _post_plainly(batch, record)
    return True


def post_plainly_after_silence(batch: Batch, record: RmsRecord) -> None:
    """After too many unanswered CreateSequence messages for responses, post the responses outside any sequence.

    A CXF client that has an address and offers no sequence does not recognise CreateSequence there. A Mercury client
    does: its answers were lost, and without a sequence its responses would lose their order (DA-04).
    """
    if not _is_requested(record):
        return
    request = batch.tx.rmd.read(record.channel.pair) if record.channel.pair is not None else None
    if request is not None and request.source_is_mercury:
        return
    _post_plainly(batch, record)


def _is_requested(record: RmsRecord) -> bool:
    """Whether a sequence for responses is requested, and not created yet."""
    return record.channel.role is Role.RESPONSE and record.machine.alive and record.machine.identifier is None


def _post_plainly(batch: Batch, record: RmsRecord) -> None:
    batch.tx.rms.delete(record)
    record.channel = replace(record.channel, role=Role.REPLY)
    record.due = batch.now
    identifier, no_discard = batch.context.ids.new(), IncompleteSequenceBehavior.NO_DISCARD
    created = events.Created(identifier=identifier, expires_at=None, incomplete_behavior=no_discard)
    record.machine.handle(created, batch.now, record.channel.policy)
    batch.tx.rms.insert(record)
    log.info("responses are posted outside any sequence", extra={"endpoint": record.channel.endpoint})


def answers(batch: Batch, exchange: InboundExchange, row: OutboundMessage, sequence: RmdRecord | None) -> bool:
    """Whether an arrival may answer this request of this side; if not, it is logged."""
    source = batch.rms_by_id(row.sequence_id or "")
    if may_answer(exchange.arrival, row, source, sequence) and batch.is_proved(exchange, row.channel.endpoint):
        return True
    batch.warn(exchange, "a response is ignored: its request went to another peer", message_id=row.message_id)
    return False


def _request(batch: Batch, exchange: InboundExchange) -> OutboundMessage | None:
    """The request of this side that an arrival may answer and that still waits for its response."""
    relates_to = exchange.envelope.relates_to
    if relates_to is None or exchange.envelope.sequence is not None or exchange.arrival.service is not None:
        return None
    row = batch.related(relates_to)
    if row is None or not row.expects_response:
        return None
    return row if answers(batch, exchange, row, None) else None


def _has_no_response(exchange: InboundExchange, body: Payload) -> bool:
    """Whether an empty Body only carries acknowledgements: with HTTP status 202, or a ReplyTo that is none. Otherwise
    an empty Body is a response."""
    reply_to = exchange.envelope.reply_to
    return not body.xml and (exchange.arrival.http.status == 202 or (reply_to is not None and reply_to.none))


def _store(batch: Batch, exchange: InboundExchange, body: Payload) -> None:
    """Store the first response, for its callback; later ones are duplicates."""
    envelope = exchange.envelope
    row = batch.tx.rms.answered(envelope.relates_to or "")
    if row is None or row.answered:
        return
    policy = batch.context.application.policy(None)
    machine = InvokerBuffer(in_order=True, assurance=policy.assurance, behavior=IncompleteSequenceBehavior.NO_DISCARD)
    identifier = f"{REPLY}{batch.context.ids.new()}"
    channel = row.channel
    owner = channel.identity or server_of(channel.endpoint)
    batch.tx.invoker.insert(InvokerRecord(sequence=identifier, machine=machine, owner=owner))
    batch.add_reply(
        InboundMessage(
            sequence=identifier,
            number=1,
            last=True,
            message_id=envelope.message_id,
            action=envelope.action,
            payload=body.xml,
            element=body.name,
            is_fault=body.is_fault,
            headers=envelope.headers,
            relates_to=envelope.relates_to,
            received_at=batch.now,
            correlation=row.correlation,
            trace=exchange.trace,
            sent_at=exchange.sent_at,
        )
    )
    request = batch.rms_by_id(row.sequence_id or "")
    if request is not None:
        batch.raise_rms(request, events.ResponseStored())
