"""Application messages: of a sequence, and outside any sequence."""

from __future__ import annotations

import logging

from mercury.engine.attachments import store_parts
from mercury.engine.channels import TOO_MANY_ADDRESSES, exceeds_addresses
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import InboundExchange, answers_with_mtom, unknown_sequence
from mercury.engine.destination.ordinary_replies import answers, take_response_above_gap
from mercury.engine.emission import emit_duplicate
from mercury.engine.exchange import PendingResponse
from mercury.statemachine import effects, events
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, SequenceHeader
from mercury.statemachine.protocol import RmVersion
from mercury.storage.records import InboundMessage, OutboundMessage, RmdRecord
from mercury.storage.sizes import stored_size
from mercury.wire import ns
from mercury.wire.envelope import Payload
from mercury.wire.ns import RmMessage

log = logging.getLogger("mercury.engine.reception")

#: Actions of messages that are ignored if they have neither the header block nor a body. CXF posts the first before it
#: has recorded a response whose acknowledgement is requested, the other when it shuts down (LIVE-02).
_EMPTY_MESSAGE_ACTIONS = frozenset(
    {
        *(ns.rm_action(rm, RmMessage.SEQUENCE_ACKNOWLEDGEMENT) for rm in RmVersion),
        ns.rm_action(RmVersion.RM10, RmMessage.LAST_MESSAGE),
    }
)


def sequenced(batch: Batch, exchange: InboundExchange, header: SequenceHeader, body: Payload) -> None:
    """A message with a Sequence header block."""
    record = batch.rmd(exchange, header.identifier)
    if record is None:
        exchange.fault = unknown_sequence(header.identifier)
        return
    duplicate = header.message_number in record.machine.received
    refusal = None if duplicate or record.machine.final else _refusal(batch, exchange, record, header, body)
    if refusal is not None:
        exchange.fault = refusal
        return
    if record.service is None and record.identity is None and not record.machine.received:
        record.identity = exchange.arrival.identity  # the sender of the first response owns the offered sequence
    requested = batch.raise_rmd(record, events.MessageReceived(number=header.message_number, last=header.last))
    for effect in requested:
        match effect:
            case effects.Accept(number=number, last=last):
                _accept(batch, exchange, record, body, number, last)
            case effects.Duplicate():
                about = (header.message_number, exchange.envelope.message_id, exchange.envelope.action)
                emit_duplicate(batch.tx, batch.context.observers, record, *about, batch.now)
            case effects.RaiseFault(fault=fault):
                exchange.fault = fault
            case _:
                pass
    if record.service is None or exchange.fault is not None:
        batch.acknowledge(exchange, record)
        return
    # Only an operation with a response has one to wait for.
    operation = batch.context.application.operation(record.service, exchange.envelope.action)
    answers_it = operation is not None and operation.response_action is not None
    exchange.fetches_acknowledgement = answers_it and exchange.reply_to.polled and not record.source_is_mercury
    batch.acknowledge(exchange, record)
    message_id = exchange.envelope.message_id
    if answers_it and message_id is not None and exchange.reply_to.anonymous:
        waiting = PendingResponse(
            message_id=message_id,
            sequence=record.identifier,
            number=header.message_number,
            repeated=duplicate,
            fetches=record.source_is_mercury or record.acks_to.polled,
            mtom=answers_with_mtom(batch.context, exchange),
        )
        exchange.waiting = (waiting,)


def bare(exchange: InboundExchange, body: Payload) -> None:
    """A message outside any sequence that is not a reply: it is refused (FLT-08)."""
    action, relates_to = exchange.envelope.action, exchange.envelope.relates_to
    if not body.xml and action in _EMPTY_MESSAGE_ACTIONS:
        return
    if exchange.arrival.service is None and relates_to is not None and body.xml:
        # A repeated reply, whose first answer was lost: it is accepted, or the peer would repeat it forever.
        log.info("a reply is ignored: no request waits for it", extra={"relates_to": relates_to, "action": action})
        return
    if exchange.arrival.request is not None:
        return  # a reply without protocol elements
    if not body.xml or action.startswith(tuple(ns.RM_VERSION)):
        exchange.fault = _not_supported(exchange)  # ACT-12
        return
    exchange.fault = Fault(
        code=FaultCode.WSRM_REQUIRED if exchange.protocol.rm is RmVersion.RM11 else FaultCode.SENDER,
        reason="This endpoint takes messages by WS-ReliableMessaging only.",
    )


def _refusal(
    batch: Batch, exchange: InboundExchange, record: RmdRecord, header: SequenceHeader, body: Payload
) -> Fault | None:
    """The fault that refuses a new message; ``None`` = it is accepted. A refused message is not acknowledged, so its
    source sends it again."""
    if header.last and _is_bare_last(exchange, body):  # a sequence has only one, so no limit on the backlog is needed
        return None
    application, envelope = batch.context.application, exchange.envelope
    if record.service is None:
        # A peer that received no request cannot store a response here, nor become the owner of a sequence. A peer that
        # received one before is not refused, because it would repeat the response forever: a response for which no
        # request waits becomes a dead letter.
        owned_by_it = record.identity is None and exchange.arrival.identity is not None
        stranger = not record.machine.received and (record.create_message_id is not None or owned_by_it)
        row = _request(batch, exchange, record) if stranger else None
        if stranger and (row is None or not answers(batch, exchange, row, record)):
            return _not_supported(exchange, "no request here waits for this response")
    else:
        operation = application.operation(record.service, envelope.action)
        if operation is None:
            return _not_supported(exchange)
        if envelope.parts and not operation.takes_attachments:
            most = batch.context.settings.limits.max_bytes
            return Fault(
                code=FaultCode.SENDER,
                reason=f"The message is larger than {most} bytes, and the operation takes no attachments in pieces.",
                identifier=record.identifier,
            )
        if operation.response_action is not None:
            no_way = _no_way_back(batch, exchange, record)
            if no_way is not None:
                return no_way
    buffer = batch.buffer(record.identifier)
    if buffer is None:
        return None
    names = (envelope.message_id, envelope.action, body.name, envelope.relates_to)
    size = stored_size(body.xml, envelope.headers, (envelope.reply_to, envelope.fault_to), names)
    size += sum(part.size for part in envelope.parts)
    stray = None
    if record.service is None and (buffer.letter_bytes or batch.backlog.full_of_letters(record.owner)):
        stray = _is_stray(batch, exchange, record)
    full = batch.backlog.refusal(record, buffer, header.message_number, size, stray=stray)
    if full is not None and record.service is None and stray is None:
        stray = _is_stray(batch, exchange, record)
        full = batch.backlog.refusal(record, buffer, header.message_number, size, stray=stray)
    if full is None:
        return None
    return Fault(
        code=FaultCode.RECEIVER,
        reason=f"{full}; send it again later.",
        sender=False,
        identifier=record.identifier,
        busy=True,
    )


def _no_way_back(batch: Batch, exchange: InboundExchange, record: RmdRecord) -> Fault | None:
    """The fault for a request whose response could not be sent; ``None`` = it can. The sender still waits for an
    answer now."""
    envelope, reply_to = exchange.envelope, exchange.reply_to
    if envelope.message_id is None:
        return Fault(
            code=FaultCode.ADDRESSING_HEADER_REQUIRED,
            reason="A request that is to be answered needs a MessageID.",
            subject="MessageID",
        )
    why = batch.context.settings.addresses.refusal("ReplyTo", reply_to, polls=exchange.polls)
    if why is None and (reply_to.addressable or reply_to.polled):
        buffer, most = batch.buffer(record.identifier), batch.context.settings.max_response_addresses
        if buffer is not None and exceeds_addresses(buffer, reply_to.address, most):
            why = TOO_MANY_ADDRESSES
            exchange.fault_to = ANONYMOUS_ENDPOINT  # no fault is posted to an address above the limit either
    if why is None:
        return None
    return Fault(code=FaultCode.SENDER, reason=f"The response could not be sent: {why}.", identifier=record.identifier)


def _accept(batch: Batch, exchange: InboundExchange, record: RmdRecord, body: Payload, number: int, last: bool) -> None:
    envelope = exchange.envelope
    row = found = _request(batch, exchange, record)
    if row is not None and not answers(batch, exchange, row, record):
        row = None
    if (
        row is not None
        and record.machine.received.first_missing() < number
        and take_response_above_gap(batch, exchange, row, body)
    ):
        batch.add_message(
            record, InboundMessage(sequence=record.identifier, number=number, last=last, received_at=batch.now)
        )
        return
    action = "" if last and _is_bare_last(exchange, body) else envelope.action
    relates_to = envelope.relates_to if row is found else None  # the request of another peer has no response here
    correlation = row.correlation if row is not None else None
    made, depends = exchange.expected, (action, relates_to, correlation, last)
    if made is None or (made.action, made.relates_to, made.correlation, made.last) != depends:
        made = stored_row(batch, exchange, record, body, number, action, relates_to, correlation, last=last)
    batch.add_message(record, made)
    if row is None or envelope.relates_to is None:
        return
    before = batch.tx.rms.answered(envelope.relates_to)
    request = batch.rms_by_id(before.sequence_id or "") if before is not None else None
    if before is not None and not before.answered and request is not None:
        batch.raise_rms(request, events.ResponseStored())


def stored_row(
    batch: Batch,
    exchange: InboundExchange,
    record: RmdRecord,
    body: Payload,
    number: int,
    action: str,
    relates_to: str | None,
    correlation: str | None,
    *,
    last: bool = False,
) -> InboundMessage:
    """The row of a message in its buffer."""
    envelope = exchange.envelope
    return InboundMessage(
        sequence=record.identifier,
        number=number,
        last=last,
        message_id=envelope.message_id,
        action=action,
        payload=body.xml,
        element=body.name,
        is_fault=body.is_fault,
        headers=envelope.headers,
        relates_to=relates_to,
        reply_to=envelope.reply_to,
        fault_to=envelope.fault_to,
        received_at=batch.now,
        expires_at=None if envelope.expires_in is None else batch.now + envelope.expires_in,
        correlation=correlation,
        attachments=store_parts(batch.tx, envelope.parts, batch.context.ids),
        trace=exchange.trace,
        sent_at=exchange.sent_at,
    )


def _request(batch: Batch, exchange: InboundExchange, record: RmdRecord) -> OutboundMessage | None:
    """The request of this side that a message of a response sequence relates to, at any endpoint."""
    relates_to = exchange.envelope.relates_to
    return batch.related(relates_to) if record.service is None and relates_to else None


def _is_stray(batch: Batch, exchange: InboundExchange, record: RmdRecord) -> bool:
    """Whether a message on a sequence of responses answers no request that its peer has from here and that waits."""
    row = _request(batch, exchange, record)
    return row is None or not row.expects_response or not answers(batch, exchange, row, record)


def _is_bare_last(exchange: InboundExchange, body: Payload) -> bool:
    """RM10-SEQ-08: the empty last message must not reach the application."""
    rm = exchange.protocol.rm
    return (
        rm is RmVersion.RM10 and not body.xml and exchange.envelope.action == ns.rm_action(rm, RmMessage.LAST_MESSAGE)
    )


def _not_supported(exchange: InboundExchange, why: str = "no operation of this endpoint has this action") -> Fault:
    action = exchange.envelope.action
    return Fault(
        code=FaultCode.ACTION_NOT_SUPPORTED, reason=f"The action {action!r} is not supported: {why}.", subject=action
    )
