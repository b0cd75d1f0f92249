"""One HTTP message on its way, with a name for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mercury.engine.exchange import Answer, Arrival, Outgoing, PendingResponse
from mercury.engine.runtime.core import Engine
from mercury.statemachine.faults import Fault
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage, Payload, Undecodable


class Reachable(Protocol):
    """A process as the wire sees it; see `Process`."""

    engine: Engine
    up: bool

    def turn(self) -> bool: ...

    def next_due(self) -> float | None: ...

    def post(self, posts: list[Outgoing]) -> None: ...

    def receive(self, arrivals: list[Arrival]) -> list[Answer] | None: ...

    def respond(self, waiting: PendingResponse) -> HttpMessage | None: ...

    def replied(self, http: HttpMessage) -> None: ...

    def answered(self, outgoing: Outgoing, http: HttpMessage) -> None: ...

    def failed(self, outgoing: Outgoing, error: str) -> None: ...


@dataclass(slots=True)
class Exchange:
    """A post whose answer a process waits for. A crash of the process leaves nobody who waits."""

    process: Reachable
    engine: Engine
    outgoing: Outgoing
    over: bool = False


@dataclass(slots=True)
class Flight:
    """One HTTP message on its way: a request, or the reply to one."""

    http: HttpMessage
    #: Where the request goes, or what the reply answers.
    url: str = ""
    #: ``None`` = nobody waits for the reply.
    exchange: Exchange | None = None
    is_reply: bool = False
    #: See `name_of`.
    name: str = ""

    @property
    def envelope(self) -> Envelope:
        """What it says.

        :raises Undecodable: nothing that Mercury understands.
        """
        return decode(self.http.body, self.http.content_type, self.http.soap_action)


def name_of(http: HttpMessage) -> str:
    """What is in an HTTP message, for people.

    ``message 3`` and ``response 3`` have the number in their sequence; others are named after their body
    (``CreateSequence``, ``TerminateSequenceResponse``), ``acknowledgement``, ``fault UnknownSequence``, ``accepted``
    (2xx without a body), ``status 503``; ``bare message`` is one outside any sequence.
    """
    if not http.body:
        return "accepted" if http.status < 300 else f"status {http.status}"
    try:
        envelope = decode(http.body, http.content_type, http.soap_action)
    except Undecodable:
        return "undecodable"
    match envelope.body:
        case Fault(code=code):
            return f"fault {code.value}"
        case Payload():
            if envelope.sequence is None:
                return "acknowledgement" if envelope.acknowledgements else "bare message"
            if not envelope.body.xml and envelope.action.endswith("/LastMessage"):
                return "LastMessage"
            kind = "message" if envelope.relates_to is None else "response"
            return f"{kind} {envelope.sequence.message_number}"
        case other:
            return type(other).__name__
