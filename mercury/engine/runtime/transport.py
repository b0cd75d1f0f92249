"""Posts envelopes over HTTP, on persistent connections, with any number of exchanges in flight.

Mercury's client is small: it follows no redirect, uses no proxy and keeps no cookie. Larger clients take several times
as long for each request (docs/architecture.md has the figures). Replies are parsed by httptools.
"""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, runtime_checkable

from mercury.engine.addresses import split_url
from mercury.engine.members import MOST_BYTES
from mercury.engine.runtime.exchange_loop import ExchangeLoop
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.http_connection import HttpConnection
from mercury.engine.runtime.http_exchange import HttpExchange, OnPosted, Post, Posted, Target, target_of
from mercury.engine.runtime.kept_connections import KeptConnections
from mercury.engine.runtime.peers import Peers
from mercury.errors import ConfigurationError, StorageError, TransportError
from mercury.wire.envelope import HttpMessage

#: The most seconds that each step of fetching a document takes.
LONGEST_GET = 5.0
#: The most prepared request heads; above it, all are made again.
MOST_TARGETS = 1024


class Transport(Protocol):
    """One HTTP exchange at a time and thread."""

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        """Post an envelope and read the reply, whatever its status.

        :raises TransportError: there was no complete reply; whether the request arrived is unknown.
        """

    def close(self) -> None:
        """Close all connections."""


@runtime_checkable
class ConcurrentTransport(Protocol):
    """Any number of HTTP exchanges at once."""

    def begin(self, posts: Sequence[Post], on_end: OnPosted) -> None:
        """Begin exchanges. Each ends in a call of ``on_end``, with a `TransportError` if there was no complete reply:
        whether the request arrived is unknown then."""

    def close(self) -> None:
        """End all exchanges and close all connections."""


@dataclass(slots=True)
class HttpTransport:
    """`ConcurrentTransport` in one thread, and `Transport`. Thread-safe."""

    #: The limit in seconds on a whole exchange: resolving the host name, connecting, sending, and reading the reply.
    timeout: float = 30.0
    #: The most bytes of a reply.
    max_reply: int = 8 * 1024 * 1024
    #: Certificates and headers by URL.
    peers: Peers = field(default_factory=lambda: Peers(None))
    #: The connections, which only the loop's thread may change.
    kept: KeptConnections[HttpConnection] = field(default_factory=lambda: KeptConnections())
    loop: ExchangeLoop = field(init=False)
    _targets: dict[tuple[str, str, str | None], Target] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise ConfigurationError(f"http.timeout: {self.timeout} is not above 0")
        self.loop = ExchangeLoop(
            self.timeout, self.max_reply, self.kept, HelperThreads("mercury-transport"), self._error
        )

    def begin(self, posts: Sequence[Post], on_end: OnPosted) -> None:
        exchanges, failed = [], []
        for post in posts:
            try:
                target = self._target(post.url, post.message)
            except ValueError as error:  # an action with characters that HTTP cannot carry
                failed.append(Posted(post.about, self._error(post.url, error)))
            else:
                exchanges.append(HttpExchange(target, post.message, on_end, post.about))
        if failed:
            self.loop.run(partial(on_end, failed))
        if exchanges:
            self.loop.begin(exchanges)

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        """See `Transport`. Not for the transport's own thread."""
        result: Future[HttpMessage | Exception] = Future()
        self.begin([Post(url, message)], lambda ended: result.set_result(ended[0].result))
        reply = result.result()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def get(self, url: str) -> bytes:
        """A document at a URL, in the calling thread. No redirect is followed.

        :raises TransportError: it cannot be fetched, or is too long.
        """
        settings = self.peers.find(url)
        try:
            parts = split_url(url)
            host, port = parts.hostname or "", parts.port
            limit = min(self.timeout, LONGEST_GET)
            connection = (
                http.client.HTTPSConnection(host, port, timeout=limit, context=settings.context())
                if parts.scheme == "https"
                else http.client.HTTPConnection(host, port, timeout=limit)
            )
            try:
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("GET", path, headers=dict(settings.headers))
                reply = connection.getresponse()
                body = reply.read(MOST_BYTES + 1)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, ValueError, ConfigurationError) as error:
            raise TransportError(f"{url}: {plain(error)}") from error
        if reply.status != 200:
            raise TransportError(f"{url}: HTTP status {reply.status}")
        return body

    def alike(self, url: str, other: str) -> bool:
        """Whether the same settings of peers apply to two URLs."""
        return self.peers.find(url).peer == self.peers.find(other).peer

    def close(self) -> None:
        self.loop.close()

    def _target(self, url: str, message: HttpMessage) -> Target:
        key = (url, message.content_type, message.soap_action)
        found = self._targets.get(key)
        if found is None:
            found = target_of(url, self.peers.find(url), message.content_type, message.soap_action)
            if len(self._targets) >= MOST_TARGETS:
                self._targets.clear()
            self._targets[key] = found
        return found

    def _error(self, url: str, error: Exception) -> Exception:
        match error:
            case TimeoutError():
                text = f"timed out: no whole answer within {self.timeout:g} s (http.timeout)"
            case StorageError():
                text = f"the message cannot be read from the store: {error}"
            case OSError() | http.client.HTTPException() | ValueError():
                text = plain(error)
            case _:
                return error
        failure = TransportError(f"{url}: {text}")
        failure.__cause__ = error
        return failure


def plain(error: Exception) -> str:
    """The text of an error without its number; some errors of the standard library have no text."""
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error) or type(error).__name__
