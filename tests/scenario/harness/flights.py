"""One HTTP message on its way, with a name for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mercury.engine.exchange import Outgoing
from mercury.statemachine.faults import Fault
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage, Payload, Undecodable

if TYPE_CHECKING:
    from mercury.engine.core import Engine

    from .node import Node


@dataclass(slots=True)
class Exchange:
    """A post whose answer somebody waits for. A crash of the poster leaves nobody."""

    node: Node
    engine: Engine
    outgoing: Outgoing
    over: bool = False


@dataclass(slots=True)
class Flight:
    """One HTTP message on its way."""

    http: HttpMessage
    #: Where a request goes.
    url: str = ""
    exchange: Exchange | None = None
    is_reply: bool = False
    name: str = ""

    @property
    def envelope(self) -> Envelope:
        return decode(self.http.body, self.http.content_type, self.http.soap_action)


def name_of(http: HttpMessage) -> str:
    """What is in an HTTP message, for people."""
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
