"""One SOAP envelope as a value: what the codec reads and writes, and the only form the engine knows."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.errors import ProtocolFault
from mercury.statemachine.faults import Fault
from mercury.statemachine.messages import (
    AckRequested,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    MakeConnection,
    SequenceAcknowledgement,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion


@dataclass(frozen=True, slots=True)
class Payload:
    """The application's part of the Body: at most one element, standing by itself.

    ``xml`` is UTF-8 without an XML declaration, with every namespace declaration it needs; empty for an empty Body.
    """

    xml: bytes
    #: The element's name in Clark notation, empty for an empty Body.
    name: str = ""
    #: The element is a SOAP Fault that travels as a message of a sequence: an application fault.
    is_fault: bool = False


#: What the Body holds. ``Fault`` is a protocol fault: one that is not itself a message of a sequence.
Body = (
    Payload
    | Fault
    | CreateSequence
    | CreateSequenceResponse
    | CloseSequence
    | CloseSequenceResponse
    | TerminateSequence
    | TerminateSequenceResponse
    | MakeConnection
)

EMPTY = Payload(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A SOAP message with its WS-Addressing properties and WS-RM header blocks, in any version.

    Addresses are already neutral: `ANONYMOUS` and `NONE` stand for either version's URI. An absent ``reply_to``
    is ``None`` here; what it defaults to is the reader's business (WSA-01).
    """

    soap: SoapVersion
    addressing: AddressingVersion | None
    #: ``None`` when nothing in the envelope belongs to WS-RM.
    rm: RmVersion | None
    action: str
    to: EndpointReference | None = None
    message_id: str | None = None
    relates_to: str | None = None
    reply_to: EndpointReference | None = None
    fault_to: EndpointReference | None = None
    from_: EndpointReference | None = None
    sequence: SequenceHeader | None = None
    acknowledgements: tuple[SequenceAcknowledgement, ...] = ()
    ack_requests: tuple[AckRequested, ...] = ()
    #: WS-MakeConnection: whether more waits for the sender (MC-04); ``None`` = not said.
    message_pending: bool | None = None
    #: Header blocks that are none of the above, each standalone XML. Written as they are.
    headers: tuple[bytes, ...] = ()
    #: Read only: what is wrong with a header block that rides along; the message itself is still good (RM-ACK-09).
    problems: tuple[Fault, ...] = ()
    #: Read only: the element that a ``Fault`` in ``body`` was read from, for the application whose request it answers.
    fault: Payload | None = field(default=None, compare=False)
    body: Body = EMPTY


class Undecodable(ProtocolFault):
    """What arrived is not an envelope that can be acted upon; has what a reply needs as far as it was read."""

    def __init__(
        self,
        fault: Fault,
        *,
        soap: SoapVersion = SoapVersion.SOAP11,
        addressing: AddressingVersion | None = None,
        rm: RmVersion | None = None,
        message_id: str | None = None,
    ) -> None:
        super().__init__(fault)
        self.soap = soap
        self.addressing = addressing
        self.rm = rm
        self.message_id = message_id


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """One side of an HTTP exchange: what is posted, or what comes back."""

    body: bytes
    content_type: str
    #: SOAP 1.1 only: the SOAPAction header with its quotes.
    soap_action: str | None = None
    #: Replies only.
    status: int = 200
