"""One arrival, and the answer that is sent after the commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mercury.engine.context import EngineContext
from mercury.engine.exchange import Arrival, PendingResponse
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, AckRequested, CreateSequence, EndpointReference
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion
from mercury.statemachine.trace import Trace
from mercury.storage.callers import create_key
from mercury.storage.records import InboundMessage
from mercury.wire.envelope import Envelope, Payload


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a MakeConnection."""

    #: ``None`` = no message is due.
    envelope: Envelope | None
    #: Whether more messages can be fetched at once (MC-04).
    pending: bool


#: Makes a reply from its endpoint and its MessageID.
Reply = Callable[[EndpointReference, str], Envelope]


class InboundExchange:
    """One arrival and its answer."""

    def __init__(self, arrival: Arrival, envelope: Envelope) -> None:
        self.arrival = arrival
        self.envelope = envelope
        self.protocol = _protocol_of(arrival, envelope)
        #: The endpoint for a reply (WSA-01): by default the back-channel.
        self.reply_to = envelope.reply_to or ANONYMOUS_ENDPOINT
        #: The endpoint for a fault: the back-channel unless the address is allowed.
        self.fault_to = ANONYMOUS_ENDPOINT
        self.fault: Fault | None = None
        #: Its messages were taken before the rest of it is handled.
        self.taken = False
        #: The messages of its batch with their numbers, once they are needed.
        self.singles: list[tuple[int, InboundExchange]] | None = None
        #: The row that it is expected to get as a response; ``None`` = nothing is expected.
        self.expected: InboundMessage | None = None
        #: Some messages of a batch are accepted and the others refused: the fault carries the acknowledgement.
        self.accepted_in_part = False
        self.reply: Reply | None = None
        #: The responses that may still be sent on it: one, or those to the requests of a batch.
        self.waiting: tuple[PendingResponse, ...] = ()
        #: Destination sequences to acknowledge on the back-channel.
        self.acknowledge: dict[str, None] = {}
        #: Its acknowledgement is fetched by MakeConnection, and its reply is an empty 202: a request whose response is
        #: fetched, or a bare AckRequested. A Metro client leaves an acknowledgement in their replies (IOP-METRO-07).
        self.fetches_acknowledgement = False
        #: The answer to a MakeConnection, without acknowledgements.
        self.fetched: Fetched | None = None
        #: AckRequested for sequences of responses, on the back-channel.
        self.ack_requests: tuple[AckRequested, ...] = ()
        #: The span of the HTTP request, which is that of its message; ``None`` = it has none, or has a batch.
        self.http_trace = arrival.http.trace

    @property
    def create_key(self) -> str | None:
        """The key by which a repeated CreateSequence is recognised; ``None`` for other messages."""
        body, message_id, arrival = self.envelope.body, self.envelope.message_id, self.arrival
        if not isinstance(body, CreateSequence) or message_id is None:
            return None
        offered = body.offer.identifier if body.offer is not None else None
        return create_key(message_id, body.acks_to.address, arrival.service, offered, arrival.sender)

    @property
    def trace(self) -> Trace | None:
        """The span that its message was sent in; ``None`` = it names none. Mercury's header block is from the sender
        itself, and the HTTP header may be from a proxy."""
        origin = self.envelope.origin
        return self.http_trace if origin is None or origin.trace is None else origin.trace

    @property
    def sent_at(self) -> float | None:
        """When its message was sent, by the sender's clock; ``None`` = it does not say."""
        return None if self.envelope.origin is None else self.envelope.origin.at

    @property
    def only_acknowledges(self) -> bool:
        """Whether it only acknowledges messages, which ends no source sequence."""
        envelope, body = self.envelope, self.envelope.body
        empty = isinstance(body, Payload) and not body.xml and envelope.sequence is None
        return empty and bool(envelope.acknowledgements) and not any(each.final for each in envelope.acknowledgements)

    @property
    def polls(self) -> bool:
        """Whether its addresses may be anonymous URIs of MakeConnection, which exists only for WS-RM 1.1."""
        return self.protocol.rm is RmVersion.RM11

    def undecided(self) -> InboundExchange:
        """The same arrival without an answer, to handle it again."""
        return InboundExchange(self.arrival, self.envelope)


def answers_with_mtom(context: EngineContext, exchange: InboundExchange) -> bool:
    """Whether a response on the connection of this arrival is an MTOM message."""
    return exchange.envelope.mtom and context.application.policy(exchange.arrival.service).mtom


def unknown_sequence(identifier: str) -> Fault:
    """FLT-02"""
    return Fault(
        code=FaultCode.UNKNOWN_SEQUENCE,
        reason="The identifier names no sequence that is known here.",
        identifier=identifier,
    )


def _protocol_of(arrival: Arrival, envelope: Envelope) -> Protocol:
    """The versions of the answer: those of the envelope; a version that it does not show is that of its request."""
    requested = arrival.request.envelope if arrival.request is not None else None
    addressing = envelope.addressing or (requested.addressing if requested else None) or AddressingVersion.WSA10
    rm = envelope.rm or (requested.rm if requested else None)
    if rm is None:
        rm = RmVersion.RM10 if addressing is AddressingVersion.WSA200408 else RmVersion.RM11
    return Protocol(envelope.soap, addressing, rm)
