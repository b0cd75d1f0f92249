"""CloseSequence and TerminateSequence, received as destination and as source, and their responses."""

from __future__ import annotations

from dataclasses import replace

from mercury.engine import envelopes
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import InboundExchange, Reply, unknown_sequence
from mercury.statemachine import effects, events
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequenceResponse,
    EndpointReference,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import RmVersion
from mercury.storage.records import RmdRecord, RmsRecord
from mercury.wire.envelope import Envelope
from mercury.wire.ns import RmMessage


def end(batch: Batch, exchange: InboundExchange, body: CloseSequence | TerminateSequence) -> None:
    """CloseSequence or TerminateSequence, from the source or (for our own sequences) from the destination."""
    record, source = batch.rmd(exchange, body.identifier), batch.rms(exchange, body.identifier)
    unsafe = None
    if not _posted_to_already(exchange.reply_to, record, source):
        unsafe = batch.context.settings.addresses.refusal("ReplyTo", exchange.reply_to, polls=exchange.polls)
    if record is None and (source is None or source.machine.rm is not exchange.protocol.rm):
        exchange.fault = unknown_sequence(body.identifier)  # RM11-TRM-03
    elif unsafe is not None:
        reason = f"The answer could not be sent: {unsafe}."
        exchange.fault = Fault(code=FaultCode.SENDER, reason=reason, identifier=body.identifier)
    elif record is not None:
        if exchange.reply_to.address == record.acks_to.address:
            exchange.reply_to = replace(exchange.reply_to, via=record.acks_to.via)
        _end_received(batch, exchange, record, body)
    elif source is not None:
        if exchange.reply_to.address == source.channel.to:
            exchange.reply_to = replace(exchange.reply_to, via=source.channel.wsa_to and source.channel.endpoint)
        _end_by_destination(batch, exchange, source, body)


def _posted_to_already(reply_to: EndpointReference, record: RmdRecord | None, source: RmsRecord | None) -> bool:
    """Whether this side already posts messages or acknowledgements of the same sequence to an address."""
    known = [record.acks_to.address] if record is not None else []
    known += [source.channel.to] if source is not None else []
    return reply_to.address in known


def _end_received(
    batch: Batch, exchange: InboundExchange, record: RmdRecord, body: CloseSequence | TerminateSequence
) -> None:
    closes = isinstance(body, CloseSequence)
    received = events.CloseReceived if closes else events.TerminateReceived
    for effect in batch.raise_rmd(record, received(body.last_message_number)):
        if isinstance(effect, effects.RaiseFault):
            exchange.fault = effect.fault
            return
    if record.machine.rm is RmVersion.RM10:
        return  # RM10-TRM-04: one-way
    answer = CloseSequenceResponse(body.identifier) if closes else TerminateSequenceResponse(body.identifier)
    name = RmMessage.CLOSE_SEQUENCE_RESPONSE if closes else RmMessage.TERMINATE_SEQUENCE_RESPONSE
    exchange.reply = _reply(exchange, name, answer, batch.acknowledgement(record.identifier))  # RM11-ACK-08


def _end_by_destination(
    batch: Batch, exchange: InboundExchange, source: RmsRecord, body: CloseSequence | TerminateSequence
) -> None:
    """RM11-CLS-03, RM11-TRM-02: the destination ends a sequence. `dispatch` has handled its final acknowledgement."""
    if isinstance(body, TerminateSequence):
        # After a final acknowledgement this settles the end; without one the unacknowledged messages fail.
        gone = Fault(code=FaultCode.SEQUENCE_TERMINATED, reason="ended by the destination", identifier=body.identifier)
        batch.raise_rms(source, events.FaultReceived(gone))
    if source.machine.rm is RmVersion.RM10:
        return
    if isinstance(body, CloseSequence):
        exchange.reply = _reply(exchange, RmMessage.CLOSE_SEQUENCE_RESPONSE, CloseSequenceResponse(body.identifier))
    else:
        exchange.reply = _reply(
            exchange, RmMessage.TERMINATE_SEQUENCE_RESPONSE, TerminateSequenceResponse(body.identifier)
        )


def ended(batch: Batch, exchange: InboundExchange, body: CloseSequenceResponse | TerminateSequenceResponse) -> None:
    """CloseSequenceResponse or TerminateSequenceResponse: the destination has ended the sequence, or the source has
    answered the end that this side began as destination (ST-D08, ST-D11)."""
    record = batch.rmd(exchange, body.identifier)
    if record is not None:
        closes = record.machine.own_end is events.DestinationEnd.CLOSE
        if closes or isinstance(body, TerminateSequenceResponse):
            batch.raise_rmd(record, events.EndAnswered())
        return
    source = batch.rms(exchange, body.identifier)
    if source is None:
        return
    if isinstance(body, CloseSequenceResponse):
        batch.raise_rms(source, events.Finished(_final_ranges(exchange, body.identifier)))
        return
    batch.raise_rms(source, events.Settled())


def _final_ranges(exchange: InboundExchange, identifier: str) -> Ranges | None:
    for acknowledgement in exchange.envelope.acknowledgements:
        if acknowledgement.identifier == identifier and acknowledgement.final:
            return acknowledgement.ranges
    return None


def _reply(
    exchange: InboundExchange,
    name: RmMessage,
    body: CreateSequenceResponse | CloseSequenceResponse | TerminateSequenceResponse,
    acknowledgements: envelopes.Acknowledgements = (),
) -> Reply:
    protocol, relates_to = exchange.protocol, exchange.envelope.message_id
    if isinstance(body, CreateSequenceResponse) and body.oneway:
        relates_to = None  # CXF would look for the request in vain

    def write(to: EndpointReference, message_id: str) -> Envelope:
        return envelopes.answer(
            protocol,
            name,
            body,
            to=to,
            message_id=message_id,
            relates_to=relates_to,
            acknowledgements=acknowledgements,
        )

    return write
