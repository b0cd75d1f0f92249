"""Passes each header block and the body of an arrival to the module that handles it."""

from __future__ import annotations

from functools import partial
from typing import assert_never

from mercury.engine.context import EngineContext
from mercury.engine.destination import (
    batched,
    creation,
    ends,
    inbound_faults,
    make_connection,
    messages,
    ordinary_replies,
)
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.inbound_exchange import InboundExchange, unknown_sequence
from mercury.statemachine import events
from mercury.statemachine.faults import Fault
from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    MakeConnection,
    SequenceAcknowledgement,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.storage.records import RmsRecord
from mercury.wire.envelope import MessageBatch, Payload


def handle(batch: Batch, exchange: InboundExchange) -> None:
    """Handle one arrival: header blocks first, then the body, then the requested acknowledgements."""
    envelope = exchange.envelope
    if not exchange.taken:
        exchange.fault_to = _fault_to(batch.context, exchange)
    standalone = isinstance(envelope.body, Payload) and not envelope.body.xml and envelope.sequence is None
    problems = list(envelope.problems)
    for acknowledgement in envelope.acknowledgements:
        problems += _acknowledged(batch, exchange, acknowledgement)
    make_connection.fetched(batch, exchange)
    match envelope.body:
        case _ if exchange.taken:
            pass
        case CreateSequence():
            creation.create(batch, exchange, envelope.body)
        case CreateSequenceResponse():
            creation.created(batch, exchange, envelope.body)
        case CloseSequence() | TerminateSequence():
            ends.end(batch, exchange, envelope.body)
        case CloseSequenceResponse() | TerminateSequenceResponse():
            ends.ended(batch, exchange, envelope.body)
        case MakeConnection():
            make_connection.fetch(batch, exchange, envelope.body)
        case Fault():
            if not ordinary_replies.take_fault(batch, exchange, envelope.body):
                inbound_faults.faulted(batch, exchange, envelope.body)
        case MessageBatch() if envelope.sequence is not None:
            batched.received(batch, exchange, envelope.sequence, envelope.body)
        case MessageBatch():
            raise AssertionError("a batch outside any sequence is refused when it is decoded")
        case Payload():
            if envelope.sequence is not None:
                messages.sequenced(batch, exchange, envelope.sequence, envelope.body)
            elif ordinary_replies.take_reply(batch, exchange, envelope.body):
                pass
            elif not standalone or not (envelope.acknowledgements or envelope.ack_requests or problems):
                messages.bare(exchange, envelope.body)
        case _:
            assert_never(envelope.body)
    for requested in envelope.ack_requests:
        problems += _ack_wanted(batch, exchange, requested.identifier, standalone=standalone)
    if exchange.fault is None and exchange.reply is None and standalone and problems:
        exchange.fault = problems[0]  # RM-ACK-09: a faulty piggybacked block must not abort its message


def is_message(exchange: InboundExchange) -> bool:
    """Whether an arrival is a message of a sequence, or a batch of them, for a service, with all its content."""
    envelope, arrival = exchange.envelope, exchange.arrival
    is_request = arrival.request is None and arrival.service is not None
    return is_request and envelope.sequence is not None and isinstance(envelope.body, (Payload, MessageBatch))


def take(batch: Batch, exchange: InboundExchange) -> None:
    """Take the messages of an arrival (`is_message`) before the rest of it, for which `handle` follows."""
    exchange.fault_to, exchange.taken = _fault_to(batch.context, exchange), True
    header, body = exchange.envelope.sequence, exchange.envelope.body
    assert header is not None
    if isinstance(body, MessageBatch):
        batched.received(batch, exchange, header, body)
    elif isinstance(body, Payload):
        messages.sequenced(batch, exchange, header, body)


def _acknowledged(batch: Batch, exchange: InboundExchange, acknowledgement: SequenceAcknowledgement) -> list[Fault]:
    record = batch.rms(exchange, acknowledgement.identifier)
    if record is None:
        return [unknown_sequence(acknowledgement.identifier)]  # RM-ACK-13
    event: events.RmsInput = events.Acknowledged(acknowledgement.ranges, acknowledgement.buffer_remaining)
    if acknowledgement.final:
        event = events.Finished(acknowledgement.ranges)
    problems = batch.raise_rms(record, event)
    if acknowledgement.nacks:
        # RM-ACK-05: resend at once, but only once: a destination may repeat its Nacks. Then the usual pauses apply.
        batch.tx.rms.resend(record, acknowledgement.nacks, batch.now, most_attempts=1)
        record.due = batch.now
    _take_along(batch, record)
    return problems


def _take_along(batch: Batch, record: RmsRecord) -> None:
    """Send what was appended to a key meanwhile in the transaction of the acknowledgement, if that was the last one or
    has waited for it."""
    appended, key, all_arrived = batch.context.appended, record.channel.key, not record.machine.in_flight
    if (all_arrived or appended.pause) and appended.has(key):
        record.due = batch.now
    elif all_arrived:
        batch.tx.after_commit(partial(appended.acknowledged, key))


def _ack_wanted(batch: Batch, exchange: InboundExchange, identifier: str, *, standalone: bool) -> list[Fault]:
    record = batch.rmd(exchange, identifier)
    if record is None:
        return [unknown_sequence(identifier)]
    batch.raise_rmd(record, events.AckWanted())
    if standalone and not record.source_is_mercury:
        exchange.fetches_acknowledgement = exchange.reply_to.polled
    batch.acknowledge(exchange, record)
    return []


def _fault_to(context: EngineContext, exchange: InboundExchange) -> EndpointReference:
    """The endpoint for faults about this arrival: only an allowed address, else the back-channel."""
    for endpoint in (exchange.envelope.fault_to, exchange.envelope.reply_to):
        if endpoint is not None and endpoint.addressable and context.settings.addresses.allows(endpoint.address):
            return endpoint
    return ANONYMOUS_ENDPOINT
