"""Messages of .NET's reliable sessions, written by hand."""

from __future__ import annotations

from dataclasses import replace

from mercury.engine.exchange import Answer, Arrival
from mercury.statemachine.protocol import RmVersion
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage

from .foreign import NETRM, RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, Ranges
from .harness import Node

#: Its bindings: SOAP 1.2 by default, SOAP 1.1 in custom ones; WS-RM 1.0 by default.
DIALECTS = [RM10_SOAP12, RM11_SOAP12, RM10_SOAP11, RM11_SOAP11]
#: Where a client listens, in the bindings that are addressable.
CLIENT = "http://client.example/TempUri/7c1a"


class DotNet(Foreign):
    """A client or a service; that Action and To must be understood is said by both."""

    def envelope(self, action: str, content: str = "", **more: str | None) -> HttpMessage:  # type: ignore[override]
        http = super().envelope(action, content, **more)  # type: ignore[arg-type]
        text = http.body
        for name in (b"To", b"Action"):
            text = text.replace(b"<a:%s>" % name, b'<a:%s s:mustUnderstand="1">' % name, 1)
        return replace(http, body=text)

    def room(self, identifier: str, ranges: Ranges, remaining: int = 8) -> str:
        """An acknowledgement as its service writes it."""
        extra = f'<n:BufferRemaining xmlns:n="{NETRM}">{remaining}</n:BufferRemaining>'
        return self.acknowledgement(identifier, ranges, extra=extra)

    @property
    def is_1_0(self) -> bool:
        return self.protocol.rm is RmVersion.RM10


def read(http: HttpMessage) -> Envelope:
    return decode(http.body, http.content_type, http.soap_action)


def post(node: Node, http: HttpMessage) -> Answer:
    """A client posts this to the service; returns the answer, which may be held open for a response."""
    answers = node.receive([Arrival(http=http, service="orders", url=node.service_url, peer="stranger")])
    assert answers is not None
    node.post(list(answers[0].posts))
    node.world.run()
    return answers[0]


def response_to(node: Node, http: HttpMessage) -> Envelope:
    """A client posts a request; returns the response that comes on the connection."""
    answer = post(node, http)
    reply = answer.http if not answer.waiting else node.respond(answer.waiting)
    assert reply is not None
    return read(reply)
