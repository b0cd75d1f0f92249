"""A SOAP envelope as a dataclass. The codec reads and writes it; the engine uses no other form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

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
from mercury.statemachine.trace import Trace
from mercury.wire.attachment import Attachment, LargePart
from mercury.wire.origin import Origin
from mercury.wire.spool import Spool
from mercury.wire.verified import Verified


@dataclass(frozen=True, slots=True)
class Payload:
    """The application's part of the Body: one element or none.

    ``xml`` is UTF-8 without an XML declaration, with all namespace declarations that it uses; empty for an empty Body.
    """

    xml: bytes
    #: The element's name in Clark notation, empty for an empty Body.
    name: str = ""
    #: The element is a SOAP Fault that travels as a message of a sequence: an application fault.
    is_fault: bool = False
    #: The content of the elements that have an ``xop:Include``, by Content-ID.
    attachments: tuple[tuple[str, Attachment], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class BatchedMessage:
    """One message of a batch: what differs from the others."""

    message_id: str
    action: str
    payload: Payload
    relates_to: str | None = None
    expires_in: float | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Several messages of one sequence in one envelope: Mercury's extension.

    Their numbers are consecutive; the Sequence header block has the first. The other header blocks are those of each.
    """

    messages: tuple[BatchedMessage, ...]


#: The content of the Body. ``Fault`` is a protocol fault, which is not a message of a sequence.
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
    | MessageBatch
)

EMPTY = Payload(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A SOAP message with its WS-Addressing properties and WS-RM header blocks, in any version.

    Addresses do not depend on the version: `ANONYMOUS` and `NONE` stand for the URI of either version. An absent
    ``reply_to`` is ``None``; the code that uses the envelope chooses the default (WSA-01).
    """

    soap: SoapVersion
    addressing: AddressingVersion | None
    #: ``None`` if no element of the envelope belongs to WS-RM.
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
    #: WS-MakeConnection: whether more messages wait for the client (MC-04); ``None`` = the header block is absent.
    message_pending: bool | None = None
    #: Seconds after which the message is not to be delivered any more, Mercury's extension; ``None`` = no limit.
    expires_in: float | None = None
    #: When and in which span it was sent, Mercury's extension; ``None`` = the header block is absent.
    origin: Origin | None = None
    #: Of one message: the span that it was sent in, for the headers of its HTTP request. It is not in the envelope.
    trace: Trace | None = field(default=None, compare=False)
    #: All other header blocks, each as XML with all declarations that it uses. They are written unchanged.
    headers: tuple[bytes, ...] = ()
    #: Only set by reading: faults of its piggy-backed header blocks. The message is valid (RM-ACK-09).
    problems: tuple[Fault, ...] = ()
    #: Set only by reading: the element of a ``Fault`` in ``body``, for the application that sent the request.
    fault: Payload | None = field(default=None, compare=False)
    #: Whether the message is written, or was read, as an MTOM message. The content is the same.
    mtom: bool = field(default=False, compare=False)
    #: The parts of an MTOM message whose content is not in ``body``, which has an ``xop:Include`` for each. With parts
    #: the message is always written as an MTOM message.
    parts: tuple[LargePart, ...] = field(default=(), compare=False)
    #: Set only by the engine: what WS-Security proves of the message; ``None`` = nothing was required.
    verified: Verified | None = field(default=None, compare=False)
    body: Body = EMPTY

    @property
    def cut_out(self) -> int:
        """Bytes of the header blocks and reference parameters. Each repeats the declarations that it uses."""
        endpoints = [self.to, self.reply_to, self.fault_to, self.from_]
        match self.body:
            case CreateSequence(acks_to=acks_to, offer=offer):
                endpoints += (acks_to, offer.endpoint if offer is not None else None)
            case CreateSequenceResponse(accept_acks_to=acks_to):
                endpoints.append(acks_to)
            case _:
                pass
        parameters = [each for endpoint in endpoints if endpoint is not None for each in endpoint.parameters]
        return sum(map(len, (*self.headers, *parameters)))


class Undecodable(ProtocolFault):
    """A message cannot be used. The error has the fault, and the versions and MessageID as far as they were read."""

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
class Rest:
    """The part of a body that is sent in pieces, because it is not in memory or too large to be copied."""

    #: Bytes.
    size: int
    #: Returns the bytes in pieces, from the beginning at every call.
    pieces: Callable[[], Iterator[bytes]]
    #: Whether taking a piece needs no store.
    in_memory: bool = False


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """An HTTP request or reply with its body and the headers of SOAP."""

    body: bytes
    content_type: str
    #: The SOAPAction header with its quotes; SOAP 1.1 only.
    soap_action: str | None = None
    #: The HTTP status; replies only.
    status: int = 200
    #: A request that was received: the body, if it is in a file; ``body`` is empty then.
    spool: Spool | None = None
    #: A message that is sent: what comes after ``body``.
    rest: Rest | None = None
    #: Of a request: its HTTP headers ``traceparent`` and ``tracestate``.
    trace: Trace | None = None
    #: Its HTTP header ``Mercury-Store``: the id of the store that answers, or that a request is for; ``None`` = none is
    #: named.
    store: str | None = None
    #: Of a reply: its HTTP header ``Location``.
    location: str | None = None

    def whole(self) -> HttpMessage:
        """The same message with its whole body in memory."""
        if self.rest is None:
            return self
        return replace(self, body=b"".join((self.body, *self.rest.pieces())), rest=None)
