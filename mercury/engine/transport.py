"""Posting envelopes over HTTP with the standard library's client: one kept connection a host and thread.

The standard library's client costs a fraction of the fuller ones on the hot path (docs/architecture.md has the
figures), and nothing more is needed: no redirect is followed, no proxy asked, no cookie kept.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from dataclasses import dataclass, field
from typing import Protocol

from mercury.engine.addresses import split_url
from mercury.errors import ConfigurationError, TransportError
from mercury.wire.envelope import HttpMessage

Connections = dict[tuple[str, str], http.client.HTTPConnection]


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

    #: Seconds to wait for a connection, and then for each piece of the reply.
    timeout: float = 30.0
    #: A reply is not read beyond this many bytes.
    max_reply: int = 8 * 1024 * 1024
    #: For https; ``None`` = the system's certificates.
    tls: ssl.SSLContext | None = None
    _local: threading.local = field(default_factory=threading.local)
    _open: set[http.client.HTTPConnection] = field(default_factory=set)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise ConfigurationError(f"http.timeout: {self.timeout} is not above 0")

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        parts = split_url(url)
        origin = (parts.scheme, parts.netloc)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kept = origin in self._connections()
        try:
            try:
                return self._exchange(origin, target, message)
            except (ConnectionError, http.client.RemoteDisconnected):
                # A kept connection that the other side closed meanwhile says nothing about the other side.
                if not kept:
                    raise
                return self._exchange(origin, target, message)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: a URL or an action with letters that HTTP can not carry.
            raise TransportError(f"{url}: {plain(error)}") from error

    def close(self) -> None:
        with self._mutex:
            connections, self._open = self._open, set()
        for connection in connections:
            connection.close()

    def _exchange(self, origin: tuple[str, str], target: str, message: HttpMessage) -> HttpMessage:
        connection = self._connection(origin)
        headers = {"Content-Type": message.content_type}
        if message.soap_action is not None:
            headers["SOAPAction"] = message.soap_action
        try:
            connection.request("POST", target, message.body, headers)
            response = connection.getresponse()
            data = response.read(self.max_reply + 1)
            if len(data) > self.max_reply:
                raise http.client.HTTPException(f"the reply is longer than {self.max_reply} bytes")
        except BaseException:
            self._drop(origin, connection)
            raise
        return HttpMessage(data, response.headers.get("Content-Type", ""), None, response.status)

    def _connections(self) -> Connections:
        connections: Connections | None = getattr(self._local, "connections", None)
        if connections is None:
            connections = self._local.connections = {}
        return connections

    def _connection(self, origin: tuple[str, str]) -> http.client.HTTPConnection:
        connections = self._connections()
        connection = connections.get(origin)
        if connection is None:
            scheme, netloc = origin
            if scheme == "https":
                connection = http.client.HTTPSConnection(netloc, timeout=self.timeout, context=self.tls)
            else:
                connection = http.client.HTTPConnection(netloc, timeout=self.timeout)
            connections[origin] = connection
            with self._mutex:
                self._open.add(connection)
        return connection

    def _drop(self, origin: tuple[str, str], connection: http.client.HTTPConnection) -> None:
        connection.close()
        self._connections().pop(origin, None)
        with self._mutex:
            self._open.discard(connection)


def plain(error: Exception) -> str:
    """An error's text for people: some of the standard library's have none, some begin with a number."""
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
