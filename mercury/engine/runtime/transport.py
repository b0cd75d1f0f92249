"""Posts envelopes over HTTP with the standard library's client, on persistent connections.

The standard library's client takes a fraction of the time of larger clients (docs/architecture.md has the figures), and
their features are not needed: Mercury follows no redirect, uses no proxy and keeps no cookie. Replies are read by
httptools, which takes a quarter of the time of the standard library's reader.
"""

from __future__ import annotations

import http.client
import math
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from mercury.engine.addresses import origin_of, split_url
from mercury.engine.runtime.http_reply import Reply, left
from mercury.engine.runtime.kept_connections import KeptConnections, Origin
from mercury.engine.runtime.peers import PeerConnection, Peers
from mercury.engine.runtime.resolver import Resolver
from mercury.errors import ConfigurationError, StorageError, TransportError
from mercury.wire.envelope import HttpMessage, Rest


class Transport(Protocol):
    """One HTTP exchange."""

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        """Post an envelope and read the reply, whatever its status.

        :raises TransportError: there was no complete reply; whether the request arrived is unknown.
        """

    def close(self) -> None:
        """Close all connections."""


@dataclass(slots=True)
class HttpTransport:
    """`Transport` over http.client. Thread-safe."""

    #: The limit in seconds on a whole exchange: resolving the host name, connecting, sending, and reading the reply.
    timeout: float = 30.0
    #: The most bytes of a reply.
    max_reply: int = 8 * 1024 * 1024
    #: Certificates and headers by URL.
    peers: Peers = field(default_factory=lambda: Peers(None))
    _names: Resolver = field(default_factory=Resolver)
    #: The connections of all threads.
    kept: KeptConnections[_Connection] = field(default_factory=lambda: KeptConnections())

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise ConfigurationError(f"http.timeout: {self.timeout} is not above 0")

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        parts = split_url(url)
        settings = self.peers.find(url)
        origin = Origin(*origin_of(parts), id(settings))
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        deadline = time.monotonic() + self.timeout
        try:
            kept = self.kept.take(origin)
            if kept is not None:
                try:
                    return self._exchange(origin, kept, settings, target, message, deadline)
                except (ConnectionError, http.client.RemoteDisconnected):
                    # The other side may close an idle connection at any time: this is not a failure of the peer.
                    pass
            return self._exchange(origin, self._new(origin, settings), settings, target, message, deadline)
        except TimeoutError as error:
            text = f"{url}: timed out: no whole answer within {self.timeout:g} s (http.timeout)"
            raise TransportError(text) from error
        except StorageError as error:
            raise TransportError(f"{url}: the message cannot be read from the store: {error}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: a URL or an action with characters that HTTP cannot carry.
            raise TransportError(f"{url}: {plain(error)}") from error

    def close(self) -> None:
        self.kept.close()

    def _new(self, origin: Origin, settings: PeerConnection) -> _Connection:
        if origin.scheme == "https":
            return _TlsConnection(origin, self._names, settings.context())
        return _Connection(origin, self._names)

    def _exchange(
        self,
        origin: Origin,
        connection: _Connection,
        settings: PeerConnection,
        target: str,
        message: HttpMessage,
        deadline: float,
    ) -> HttpMessage:
        headers = {**settings.headers, "Content-Type": message.content_type}
        if message.soap_action is not None:
            headers["SOAPAction"] = message.soap_action
        try:
            if connection.sock is None:
                self.kept.add(connection)
                connection.deadline = deadline
                connection.connect()
            # The socket's time-out is set to the remaining time before each operation that may wait.
            connection.sock.settimeout(left(deadline))
            connection.response_class = partial(Reply, self.max_reply, deadline)  # type: ignore[assignment]
            try:
                connection.request("POST", target, _body(connection, message, headers, deadline), headers)
            except (ConnectionError, ssl.SSLEOFError) as cut:
                reply = _early_reply(connection, cut)
                self.kept.drop(connection)
            else:
                reply = _reply(connection)
                self.kept.keep(origin, connection)
        except BaseException:
            self.kept.drop(connection)
            raise
        return HttpMessage(reply.body, reply.content_type, None, reply.status)


class _Connection(http.client.HTTPConnection):
    """A connection that tries all addresses of a host within a deadline on the monotonic clock."""

    deadline = math.inf

    def __init__(self, origin: Origin, names: Resolver) -> None:
        super().__init__(origin.host, origin.port)
        self._names = names

    def connect(self) -> None:
        error: OSError = OSError("the name of the host has no address")
        for family, kind, protocol, _, address in self._names.addresses(self.host, self.port, self.deadline):
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(left(self.deadline))
                made.connect(address)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as failed:
                made.close()
                error = failed
            else:
                self.sock = made
                return
        raise error


class _TlsConnection(_Connection):
    default_port = http.client.HTTPS_PORT

    def __init__(self, origin: Origin, names: Resolver, context: ssl.SSLContext) -> None:
        super().__init__(origin, names)
        self._context = context

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(left(self.deadline))
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)


def _body(
    connection: _Connection, message: HttpMessage, headers: dict[str, str], deadline: float
) -> bytes | Iterator[bytes]:
    """The body of a request; the length of one that is not in memory is added to the headers."""
    rest = message.rest
    if rest is None:
        return message.body
    headers["Content-Length"] = str(len(message.body) + rest.size)
    return _in_time(connection, message.body, rest, deadline)


def _in_time(connection: _Connection, start: bytes, rest: Rest, deadline: float) -> Iterator[bytes]:
    """A body in pieces; before each, the socket's time-out is set to the remaining time."""
    yield start
    for piece in rest.pieces():
        connection.sock.settimeout(left(deadline))
        yield piece


def _reply(connection: _Connection) -> Reply:
    reply: object = connection.getresponse()
    assert isinstance(reply, Reply)
    return reply


def _early_reply(connection: _Connection, cut: OSError) -> Reply:
    """The reply of a server that has not read the whole request (RFC 9112, 9.3): usually a refusal.

    :raises OSError: ``cut``; there is no reply.
    """
    try:
        return _reply(connection)
    except (OSError, http.client.HTTPException, ValueError):
        raise cut from None


def plain(error: Exception) -> str:
    """The text of an error without its number; some errors of the standard library have no text."""
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error) or type(error).__name__
