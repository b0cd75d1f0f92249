"""HTTP messages in transit on the wire of a test, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mercury.engine.exchange import Answer, Arrival, Outgoing, PendingResponse
from mercury.engine.runtime.core import Engine
from mercury.statemachine.faults import Fault
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage, MessageBatch, Payload, Undecodable
from mercury.wire.ns import RM11, WSSE, clark


class Reachable(Protocol):
    """The interface of a process that the wire uses; see `Process`."""

    engine: Engine
    up: bool

    def turn(self) -> bool: ...

    def next_due(self) -> float | None: ...

    def post(self, posts: list[Outgoing]) -> None: ...

    def receive(self, arrivals: list[Arrival]) -> list[Answer] | None: ...

    def respond(self, waiting: Sequence[PendingResponse], *, partly: bool = False) -> HttpMessage | None: ...

    def replied(self, http: HttpMessage) -> None: ...

    def answered(self, outgoing: Outgoing, http: HttpMessage) -> None: ...

    def failed(self, outgoing: Outgoing, error: str) -> None: ...


@dataclass(slots=True)
class Exchange:
    """A posted message whose HTTP reply a process waits for. After a crash the process no longer waits."""

    process: Reachable
    engine: Engine
    outgoing: Outgoing
    over: bool = False


@dataclass(slots=True)
class Flight:
    """One HTTP message in transit: a request, or the reply to one."""

    http: HttpMessage
    #: The URL of the request.
    url: str = ""
    #: The exchange that it belongs to; ``None`` = no process waits for the reply.
    exchange: Exchange | None = None
    is_reply: bool = False
    #: Its name, see `name_of`.
    name: str = ""

    @property
    def envelope(self) -> Envelope:
        """The decoded message.

        :raises Undecodable: Mercury cannot decode it.
        """
        return _decoded(self.http)


#: WS-Security is not checked here.
_UNCHECKED = frozenset({clark(WSSE, "Security"), clark(RM11, "UsesSequenceSTR")})


def _decoded(http: HttpMessage) -> Envelope:
    return decode(http.body, http.content_type, http.soap_action, understands=_UNCHECKED)


def name_of(http: HttpMessage) -> str:
    """A name for an HTTP message by its content.

    ``message 3`` and ``response 3`` have the number in their sequence, ``batch 3-7`` the first and the last. Other
    messages are named after their body (``CreateSequence``, ``TerminateSequenceResponse``), ``acknowledgement``,
    ``AckRequested`` when they travel alone, ``fault UnknownSequence``, ``accepted`` (2xx without a body), ``status
    503``; ``bare message`` is one outside any sequence.
    """
    if not http.body:
        return "accepted" if http.status < 300 else f"status {http.status}"
    try:
        envelope = _decoded(http)
    except Undecodable:
        return "undecodable"
    match envelope.body:
        case Fault(code=code):
            return f"fault {code.value}"
        case MessageBatch(messages=messages) if envelope.sequence is not None:
            first = envelope.sequence.message_number
            return f"batch {first}-{first + len(messages) - 1}"
        case Payload():
            if envelope.sequence is None:
                if envelope.acknowledgements and not envelope.body.xml:
                    return "acknowledgement"
                return "AckRequested" if envelope.ack_requests and not envelope.body.xml else "bare message"
            if not envelope.body.xml and envelope.action.endswith("/LastMessage"):
                return "LastMessage"
            kind = "message" if envelope.relates_to is None else "response"
            return f"{kind} {envelope.sequence.message_number}"
        case other:
            return type(other).__name__
