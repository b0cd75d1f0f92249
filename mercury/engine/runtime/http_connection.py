"""One HTTP connection to a peer, driven by what its socket is ready for: it never waits."""

from __future__ import annotations

import errno
import http.client
import math
import os
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from mercury.engine.runtime.http_exchange import HttpExchange, Origin
from mercury.engine.runtime.http_reply import KnownHeads, Reply
from mercury.engine.runtime.resolver import Addresses
from mercury.wire.envelope import HttpMessage

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
#: The most bytes of one read, and of one write: other connections have their turn in between.
PIECE = 64 * 1024
WRITE_PIECE = 256 * 1024
#: The most seconds that an address of a host may be silent while the host has further addresses: a packet that is lost
#: twice is sent again after 3.
LONGEST_CONNECT = 4.0
_BEGUN = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN)


class Driver(Protocol):
    """The loop that a connection runs in."""

    def watch(self, connection: HttpConnection, fd: int, before: int, events: int) -> None:
        """Call ``connection.ready`` when its socket is ready for these events; 0 = not at all."""

    def fetch(self, connection: HttpConnection, pieces: Iterator[bytes]) -> None:
        """Take the next piece in another thread, and pass it to ``connection.send_piece``; ``None`` at the end."""

    def replied(self, connection: HttpConnection, reply: HttpMessage, *, closes: bool) -> None:
        """The exchange is complete.

        :param closes: the connection cannot be used again.
        """


class HttpConnection:
    """A connection with one exchange at a time. All methods are called in the loop's thread.

    Methods that read or write raise `OSError`, `http.client.HTTPException`, or what the pieces of a body raise; then
    the caller closes the connection.

    :param limit: the most bytes of the body of a reply.
    :param heads: of replies with this limit.
    """

    def __init__(self, origin: Origin, driver: Driver, limit: int, heads: KnownHeads) -> None:
        self.origin = origin
        #: Its socket; ``None`` = the connection is not open.
        self.sock: socket.socket | None = None
        #: The exchange that it carries; ``None`` = it is idle.
        self.exchange: HttpExchange | None = None
        #: An exchange was complete before the present one: the other side may have closed the connection since.
        self.is_kept = False
        self._driver = driver
        self._limit = limit
        self._heads = heads
        #: When the next address is tried, by the monotonic clock: the present one may be silent.
        self.connect_by = math.inf
        self._watched = 0
        #: Of the host: those that were not tried yet.
        self._addresses: deque[tuple[int, int, int, str, Any]] = deque()
        self._context: ssl.SSLContext | None = None
        self._error = OSError("the name of the host has no address")
        self._on_ready: Callable[[], None] = self._receive
        self._unsent = memoryview(b"")
        self._pieces: Iterator[bytes] | None = None
        self._reply: Reply | None = None
        #: Why the request could not be sent completely; the server may have replied before.
        self._cut: OSError | None = None

    def ready(self) -> None:
        """The socket is ready for what it waits for."""
        self._on_ready()

    def close(self) -> None:
        """Close the connection, in any state."""
        sock, self.sock = self.sock, None
        self.connect_by = math.inf
        self._pieces, self._unsent, self._reply = None, memoryview(b""), None
        if sock is not None:
            self._watch_of(sock, 0)
            sock.close()

    def _watch(self, events: int) -> None:
        if events != self._watched:
            self._watch_of(self._open, events)

    def _watch_of(self, sock: socket.socket, events: int) -> None:
        before, self._watched = self._watched, events
        if before != events:
            self._driver.watch(self, sock.fileno(), before, events)

    @property
    def _open(self) -> socket.socket:
        if self.sock is None:
            raise OSError("the connection is closed")
        return self.sock

    # --- connecting ------------------------------------------------------------------------------------------------

    def connect(self, addresses: Addresses, context: ssl.SSLContext | None) -> None:
        """Connect to the first of these addresses that accepts, and then begin the exchange.

        While there are further addresses, each has a part of the time until the deadline of the exchange; the caller
        looks at `connect_by`. A packet that is dropped on the way is no error for the system before two minutes.

        :param context: for TLS; ``None`` = without TLS.
        """
        self._addresses, self._context = deque(addresses), context
        self._connect_to_next()

    def give_up_address(self) -> None:
        """The present address was silent until `connect_by`: connect to the next one."""
        self._refused(errno.ETIMEDOUT)
        self._connect_to_next()

    def _connect_to_next(self) -> None:
        while self._addresses:
            family, kind, protocol, _, address = self._addresses.popleft()
            try:
                self.sock = made = socket.socket(family, kind, protocol)
                made.setblocking(False)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                code = made.connect_ex(address)
            except OSError as error:  # for example of IPv6 where it is off
                code = error.errno or errno.EADDRNOTAVAIL
            if code == 0:
                self._connected()
                return
            if code in _BEGUN:
                self._limit_connect()
                self._on_ready = self._connect_ready
                self._watch(WRITE)
                return
            self._refused(code)
        raise self._error

    def _limit_connect(self) -> None:
        if self._addresses:
            assert self.exchange is not None
            now = time.monotonic()
            part = (self.exchange.deadline - now) / (len(self._addresses) + 1)
            self.connect_by = now + min(LONGEST_CONNECT, part)

    def _connect_ready(self) -> None:
        code = self._open.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == 0:
            self._connected()
        else:
            self._refused(code)
            self._connect_to_next()

    def _refused(self, code: int) -> None:
        self._error = OSError(code, os.strerror(code))
        self.close()

    def _connected(self) -> None:
        self.connect_by = math.inf
        if self._context is None:
            self._begin()
            return
        self._watch(0)
        self.sock = self._context.wrap_socket(
            self._open, server_hostname=self.origin.host, do_handshake_on_connect=False
        )
        self._on_ready = self._shake_hands
        self._shake_hands()

    def _shake_hands(self) -> None:
        assert isinstance(self.sock, ssl.SSLSocket)
        try:
            self.sock.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(READ)
        except ssl.SSLWantWriteError:
            self._watch(WRITE)
        else:
            self._begin()

    # --- sending ---------------------------------------------------------------------------------------------------

    def begin(self, exchange: HttpExchange) -> None:
        """Begin an exchange on an open, idle connection."""
        self.exchange, self.is_kept = exchange, True
        self._begin()

    def _begin(self) -> None:
        assert self.exchange is not None
        self._reply = self._cut = None
        self._pieces = self.exchange.rest()
        self._on_ready = self._send
        self.send_piece(self.exchange.start())

    def send_piece(self, piece: bytes | None) -> None:
        """Send a piece of the request, and what follows it; ``None`` = nothing follows."""
        while piece is not None:
            self._unsent = memoryview(piece)
            if not self._flush():
                return
            if self._pieces is None:
                break
            assert self.exchange is not None
            if not self.exchange.in_memory:
                self._watch(0)
                self._driver.fetch(self, self._pieces)
                return
            piece = next(self._pieces, None)
        self._on_ready = self._receive
        self._watch(READ)

    def _send(self) -> None:
        """Continue a piece of which the socket had no room for all."""
        if self._flush():
            self.send_piece(b"")

    def _flush(self) -> bool:
        """Send what is unsent; returns whether it was all."""
        sock = self._open
        try:
            while self._unsent:
                sent = sock.send(self._unsent[:WRITE_PIECE])
                self._unsent = self._unsent[sent:]
        except (BlockingIOError, ssl.SSLWantWriteError):
            self._watch(WRITE)
            return False
        except ssl.SSLWantReadError:
            self._watch(READ)
            return False
        except (ConnectionError, ssl.SSLEOFError) as cut:
            # A server that does not read the whole request may have replied (RFC 9112, 9.3): usually a refusal.
            self._cut, self._pieces, self._unsent = cut, None, memoryview(b"")
            self._on_ready = self._receive
            self._watch(READ)
            return False
        return True

    # --- receiving -------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        sock = self._open
        try:
            data = sock.recv(PIECE)
            if self._reply is None:
                known = self._heads.read(data)
                if known is not None:
                    self._replied(known, closes=False)
                    return
                self._reply = reply = Reply(self._limit)
                reply.feed(data)
                if reply.complete:
                    self._heads.learn(data, reply)
            else:
                reply = self._reply
                reply.feed(data)
            while not reply.complete and isinstance(sock, ssl.SSLSocket) and sock.pending():
                reply.feed(sock.recv(PIECE))
        except (BlockingIOError, ssl.SSLWantReadError):
            self._watch(READ)
            return
        except ssl.SSLWantWriteError:
            self._watch(WRITE)
            return
        except (OSError, http.client.HTTPException):
            if self._cut is not None:
                raise self._cut from None
            raise
        self._watch(READ)
        if reply.complete:
            self._replied(reply.message(), closes=reply.will_close)

    def _replied(self, reply: HttpMessage, *, closes: bool) -> None:
        self._reply = None
        self._watch(READ)
        self._driver.replied(self, reply, closes=closes or self._cut is not None)

    # --- between exchanges -----------------------------------------------------------------------------------------

    def rest(self) -> None:
        """The exchange is over, and none follows now."""
        self.exchange = None
        self._on_ready = self._interrupted
        self._watch(READ)

    def _interrupted(self) -> None:
        raise ConnectionAbortedError("an idle connection was closed, or has received unsolicited bytes")
