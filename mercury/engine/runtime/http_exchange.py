"""One HTTP exchange: what is sent, and what came back."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mercury.engine.addresses import origin_of, split_url
from mercury.engine.runtime.peers import PeerConnection
from mercury.statemachine.trace import Trace
from mercury.wire.envelope import HttpMessage

#: A body of at most so many bytes is sent together with its header, in one piece.
SMALL_BODY = 64 * 1024
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: What may not stand in the value of a header: control characters, except a tab.
_UNSENDABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


class Origin(NamedTuple):
    """The target of a connection, in normalized form."""

    scheme: str
    host: str
    port: int
    #: Identifies the `PeerConnection`, and so the certificates in use.
    settings_id: int


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The part of a request that is the same for all messages of a kind to one URL."""

    url: str
    origin: Origin
    settings: PeerConnection
    #: The request line and the headers, as far as the value of Content-Length.
    head: bytes


def target_of(url: str, settings: PeerConnection, content_type: str, soap_action: str | None) -> Target:
    """Prepare requests to a URL.

    :raises ConfigurationError: it is no URL to send to.
    :raises ValueError: a header has characters that HTTP cannot carry.
    """
    parts = split_url(url)
    scheme, host, port = origin_of(parts)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {
        "Host": _host(scheme, host, port),
        "Accept-Encoding": "identity",
        **settings.headers,
        "Content-Type": content_type,
    }
    if soap_action is not None:
        headers["SOAPAction"] = soap_action
    for name, value in headers.items():
        if _UNSENDABLE.search(value):
            raise ValueError(f"the header {name} has characters that HTTP cannot carry")
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "Content-Length: "]
    return Target(url, Origin(scheme, host, port, id(settings)), settings, "\r\n".join(lines).encode("latin-1"))


def _trace(trace: Trace) -> bytes:
    """The headers for a trace. `read_trace` has checked that nothing in them ends a header."""
    written = f"traceparent: {trace.parent}\r\n"
    if trace.state:
        written += f"tracestate: {trace.state}\r\n"
    return written.encode("ascii")


def _host(scheme: str, host: str, port: int) -> str:
    name = host if host.isascii() else host.encode("idna").decode()
    if ":" in name:
        name = f"[{name}]"
    return name if port == _DEFAULT_PORTS[scheme] else f"{name}:{port}"


@dataclass(frozen=True, slots=True)
class Post:
    """A message to post."""

    url: str
    message: HttpMessage
    #: What the caller knows the post by.
    about: object = None


@dataclass(frozen=True, slots=True)
class Posted:
    """The end of an exchange."""

    #: What the caller knows it by.
    about: object
    #: The complete reply, whatever its status, or why there is none.
    result: HttpMessage | Exception


#: Called with exchanges that have ended, in the transport's thread. It must not wait for anything.
OnPosted = Callable[[Sequence[Posted]], None]


@dataclass(slots=True, eq=False)
class HttpExchange:
    """One request, and its reply or the error that took its place."""

    target: Target
    message: HttpMessage
    on_end: OnPosted
    about: object = None
    #: The time, by the monotonic clock, when the whole reply must have arrived.
    deadline: float = field(default=0.0, init=False)

    def start(self) -> bytes:
        """The beginning of the request: all of it, if it is small and in memory."""
        message, head = self.message, self.target.head
        size = len(message.body) + (message.rest.size if message.rest is not None else 0)
        more = b"" if message.trace is None else _trace(message.trace)
        if message.store is not None:
            more += f"Mercury-Store: {message.store}\r\n".encode("ascii")
        start = b"%b%d\r\n%b\r\n" % (head, size, more)
        return start + message.body if len(message.body) <= SMALL_BODY else start

    def rest(self) -> Iterator[bytes] | None:
        """What follows `start`, in pieces; ``None`` = nothing."""
        body, rest = self.message.body, self.message.rest
        if len(body) <= SMALL_BODY:
            return rest.pieces() if rest is not None else None
        return iter((body,)) if rest is None else itertools.chain((body,), rest.pieces())

    @property
    def in_memory(self) -> bool:
        """Whether taking a piece of the request needs no store."""
        return self.message.rest is None or self.message.rest.in_memory
