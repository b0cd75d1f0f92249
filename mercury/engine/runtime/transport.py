"""Posting envelopes over HTTP with the standard library's client: one kept connection a host and thread.

The standard library's client costs a fraction of the fuller ones on the hot path (docs/architecture.md has the
figures), and nothing more is needed: no redirect is followed, no proxy asked, no cookie kept. Replies are read by
httptools, which takes a quarter of the time of the standard library's reader.
"""

from __future__ import annotations

import http.client
import math
import select
import socket
import ssl
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from mercury.engine.addresses import split_url
from mercury.engine.runtime.http_reply import Reply, left
from mercury.engine.runtime.peers import PeerConnection, Peers
from mercury.engine.runtime.resolver import Resolver
from mercury.errors import ConfigurationError, TransportError
from mercury.wire.envelope import HttpMessage

#: Scheme, host with port, and which certificates are in use.
Origin = tuple[str, str, int]


class Transport(Protocol):
    """One HTTP exchange."""

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        """Post an envelope and read the reply, whatever its status.

        :raises TransportError: there was no complete reply; whether the request arrived is unknown.
        """

    def close(self) -> None:
        """Close what is open."""


@dataclass(slots=True)
class HttpTransport:
    """`Transport` over http.client. Safe to be used by many threads."""

    #: Seconds that an exchange may take in all: to find the host's address, to connect, to send, and to read the
    #: whole reply.
    timeout: float = 30.0
    #: A reply is not read beyond this many bytes.
    max_reply: int = 8 * 1024 * 1024
    #: Certificates and headers by URL.
    peers: Peers = field(default_factory=lambda: Peers(None))
    _names: Resolver = field(default_factory=Resolver)
    _local: threading.local = field(default_factory=threading.local)
    _open: set[_Connection] = field(default_factory=set)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise ConfigurationError(f"http.timeout: {self.timeout} is not above 0")

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        parts = split_url(url)
        manner = self.peers.find(url)
        origin = (parts.scheme, parts.netloc, id(manner))
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        reused = self._is_reusable(origin)
        deadline = time.monotonic() + self.timeout
        try:
            try:
                return self._exchange(origin, manner, target, message, deadline)
            except (ConnectionError, http.client.RemoteDisconnected):
                # A kept connection that the other side closed meanwhile says nothing about the other side.
                if not reused:
                    raise
                return self._exchange(origin, manner, target, message, deadline)
        except TimeoutError as error:
            text = f"{url}: timed out: no whole answer within {self.timeout:g} s (http.timeout)"
            raise TransportError(text) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: a URL or an action with letters that HTTP cannot carry.
            raise TransportError(f"{url}: {plain(error)}") from error

    def close(self) -> None:
        with self._mutex:
            connections, self._open = self._open, set()
        for connection in connections:
            connection.close()

    def _exchange(
        self, origin: Origin, manner: PeerConnection, target: str, message: HttpMessage, deadline: float
    ) -> HttpMessage:
        connection = self._connection(origin, manner)
        headers = {**manner.peer.headers, "Content-Type": message.content_type}
        if message.soap_action is not None:
            headers["SOAPAction"] = message.soap_action
        try:
            if connection.sock is None:
                connection.deadline = deadline
                connection.connect()
            # The time that is left is set before whatever may wait: one piece of it is sent, or read, within that.
            connection.sock.settimeout(left(deadline))
            connection.response_class = partial(Reply, self.max_reply, deadline)  # type: ignore[assignment]
            try:
                connection.request("POST", target, message.body, headers)
            except (ConnectionError, ssl.SSLEOFError) as cut:
                reply = _early_reply(connection, cut)
                self._drop(origin, connection)
            else:
                reply = _reply(connection)
        except BaseException:
            self._drop(origin, connection)
            raise
        return HttpMessage(reply.body, reply.content_type, None, reply.status)

    def _is_reusable(self, origin: Origin) -> bool:
        """Whether there is a connection to use again. One on which anything waits, or that has ended, is dropped."""
        connection = self._connections().get(origin)
        if connection is None:
            return False
        if _has_input(connection.sock):
            self._drop(origin, connection)
            return False
        return True

    def _connections(self) -> dict[Origin, _Connection]:
        connections: dict[Origin, _Connection] | None = getattr(self._local, "connections", None)
        if connections is None:
            connections = self._local.connections = {}
        return connections

    def _connection(self, origin: Origin, manner: PeerConnection) -> _Connection:
        connections = self._connections()
        connection = connections.get(origin)
        if connection is None:
            scheme, netloc, _ = origin
            if scheme == "https":
                connection = _TlsConnection(netloc, self._names, manner.context())
            else:
                connection = _Connection(netloc, self._names)
            connections[origin] = connection
            with self._mutex:
                self._open.add(connection)
        return connection

    def _drop(self, origin: Origin, connection: _Connection) -> None:
        connection.close()
        self._connections().pop(origin, None)
        with self._mutex:
            self._open.discard(connection)


class _Connection(http.client.HTTPConnection):
    """A connection that is made, whatever addresses a name has, before a deadline of the monotonic clock."""

    deadline = math.inf

    def __init__(self, netloc: str, names: Resolver) -> None:
        super().__init__(netloc)
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

    def __init__(self, netloc: str, names: Resolver, context: ssl.SSLContext) -> None:
        super().__init__(netloc, names)
        self._context = context

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(left(self.deadline))
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)


def _reply(connection: _Connection) -> Reply:
    reply: object = connection.getresponse()
    assert isinstance(reply, Reply)
    return reply


def _early_reply(connection: _Connection, cut: OSError) -> Reply:
    """What a server has said that would not read the rest of a request (RFC 9112, 9.3): a refusal, most often.

    :raises OSError: ``cut``; it has said nothing.
    """
    try:
        return _reply(connection)
    except (OSError, http.client.HTTPException, ValueError):
        raise cut from None


def _has_input(sock: socket.socket | None) -> bool:
    """Whether something can be read at once, or the end has come: what nobody asked for is no reply to a request."""
    if sock is None:
        return False
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    if sys.platform == "win32":
        return bool(select.select([sock], [], [], 0)[0])
    waiting = select.poll()  # takes descriptors above 1023 too
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(0))


def plain(error: Exception) -> str:
    """An error's text for people: some of the standard library's have none, some begin with a number."""
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
