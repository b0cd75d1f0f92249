"""The messages of a batch (`MessageBatch`): each is handled as if it had arrived alone, all in one transaction."""

from __future__ import annotations

from dataclasses import replace

from mercury.engine.destination import messages
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import InboundExchange, unknown_sequence
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import SequenceHeader
from mercury.wire.envelope import MessageBatch, Payload


def received(batch: Batch, exchange: InboundExchange, header: SequenceHeader, body: MessageBatch) -> None:
    """Handle the messages of a batch in their order, with one acknowledgement for all.

    If one is refused as busy, so are those after it, and the fault carries the acknowledgement of the others. After any
    other refusal the rest is handled; the answer is then the acknowledgement, or the fault if nothing was accepted. The
    source sends again what is not acknowledged.

    :param header: with the number of the first message.
    """
    record = batch.rmd(exchange, header.identifier)
    if record is None:
        exchange.fault = unknown_sequence(header.identifier)
        return
    if not record.takes_batches:
        exchange.fault = _not_agreed(header.identifier)
        return
    accepted = False
    for number, single in singles(exchange, header, body):
        single.fault_to = exchange.fault_to
        messages.sequenced(batch, single, SequenceHeader(header.identifier, number), payload_of(single))
        exchange.acknowledge |= single.acknowledge
        exchange.waiting += single.waiting
        accepted = accepted or single.fault is None
        if single.fault is not None and (exchange.fault is None or single.fault.busy):
            exchange.fault, exchange.fault_to = single.fault, single.fault_to
        if single.fault is not None and single.fault.busy:
            break
    if accepted and exchange.fault is not None:
        exchange.accepted_in_part = exchange.fault.busy
        exchange.fault = exchange.fault if exchange.fault.busy else None


def singles(exchange: InboundExchange, header: SequenceHeader, body: MessageBatch) -> list[tuple[int, InboundExchange]]:
    """The messages of a batch as arrivals of their own, each with its number. They are made once for each arrival."""
    if exchange.singles is None:
        exchange.singles = []
        for number, message in enumerate(body.messages, header.message_number):
            envelope = replace(
                exchange.envelope,
                action=message.action,
                message_id=message.message_id,
                relates_to=message.relates_to,
                expires_in=message.expires_in,
                origin=message.origin,
                body=message.payload,
            )
            single = InboundExchange(exchange.arrival, envelope)
            single.http_trace = None
            exchange.singles.append((number, single))
    return exchange.singles


def payload_of(single: InboundExchange) -> Payload:
    """The body of a message of a batch."""
    assert isinstance(single.envelope.body, Payload)
    return single.envelope.body


def _not_agreed(identifier: str) -> Fault:
    return Fault(
        code=FaultCode.SENDER,
        reason="This sequence takes no batches: they were not offered for it when it was created.",
        identifier=identifier,
    )
