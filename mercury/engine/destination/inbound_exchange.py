"""One arrival, and what is to be answered to it once everything is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mercury.engine.exchange import Arrival, PendingResponse
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, AckRequested, CreateSequence, EndpointReference
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion
from mercury.storage.callers import create_key
from mercury.wire.envelope import Envelope


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a MakeConnection gets."""

    #: ``None`` = no message is due.
    envelope: Envelope | None
    #: Whether there is more to fetch at once (MC-04).
    pending: bool


#: Writes a reply, given where it goes and its MessageID.
Reply = Callable[[EndpointReference, str], Envelope]


class InboundExchange:
    """One arrival and what is to be answered."""

    def __init__(self, arrival: Arrival, envelope: Envelope) -> None:
        self.arrival = arrival
        self.envelope = envelope
        self.protocol = _protocol_of(arrival, envelope)
        #: Where a reply goes (WSA-01): absent means the back-channel.
        self.reply_to = envelope.reply_to or ANONYMOUS_ENDPOINT
        #: Where a fault goes; the back-channel unless the address is allowed.
        self.fault_to = ANONYMOUS_ENDPOINT
        self.fault: Fault | None = None
        self.reply: Reply | None = None
        self.waiting: PendingResponse | None = None
        #: Destination sequences to acknowledge on the back-channel.
        self.acknowledge: dict[str, None] = {}
        #: Of a MakeConnection: what it gets, besides acknowledgements.
        self.fetched: Fetched | None = None
        #: Sequences of responses whose acknowledgement is asked for on the back-channel.
        self.ask: tuple[AckRequested, ...] = ()

    @property
    def create_key(self) -> str | None:
        """Of a CreateSequence: what its repetitions have in common with it."""
        body, message_id, arrival = self.envelope.body, self.envelope.message_id, self.arrival
        if not isinstance(body, CreateSequence) or message_id is None:
            return None
        offered = body.offer.identifier if body.offer is not None else None
        return create_key(message_id, body.acks_to.address, arrival.service, offered, arrival.sender)

    @property
    def polls(self) -> bool:
        """Whether addresses that it names may be those of clients that fetch: MakeConnection goes with WS-RM 1.1."""
        return self.protocol.rm is RmVersion.RM11

    def answer_to_sender_only(self) -> None:
        """It names a sequence of another owner: answers about that go to no address that it gives.

        The owner would take a fault from here, under this side's name, for a word about its sequence.
        """
        self.fault_to = ANONYMOUS_ENDPOINT

    def anew(self) -> InboundExchange:
        """The same arrival with nothing decided."""
        return InboundExchange(self.arrival, self.envelope)


def unknown_sequence(identifier: str) -> Fault:
    """FLT-02"""
    return Fault(
        code=FaultCode.UNKNOWN_SEQUENCE,
        reason="The identifier names no sequence that is known here.",
        identifier=identifier,
    )


def _protocol_of(arrival: Arrival, envelope: Envelope) -> Protocol:
    """The versions to answer in: the envelope's own, completed by what its request was written in."""
    requested = arrival.request.envelope if arrival.request is not None else None
    addressing = envelope.addressing or (requested.addressing if requested else None) or AddressingVersion.WSA10
    rm = envelope.rm or (requested.rm if requested else None)
    if rm is None:
        rm = RmVersion.RM10 if addressing is AddressingVersion.WSA200408 else RmVersion.RM11
    return Protocol(envelope.soap, addressing, rm)
