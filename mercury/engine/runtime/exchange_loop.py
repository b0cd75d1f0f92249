"""One thread that keeps any number of HTTP exchanges in flight, on kept connections."""

from __future__ import annotations

import http.client
import logging
import math
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.http_connection import PIECE, HttpConnection
from mercury.engine.runtime.http_exchange import HttpExchange, OnPosted, Posted
from mercury.engine.runtime.http_reply import KnownHeads
from mercury.engine.runtime.kept_connections import KeptConnections
from mercury.engine.runtime.resolver import Addresses, Resolver
from mercury.wire.envelope import HttpMessage

log = logging.getLogger("mercury.runtime")


class ExchangeLoop:
    """Runs HTTP exchanges in one thread. `begin`, `run` and `close` are thread-safe; the rest is for this thread.

    Exchanges are handed over in lists, and end in lists: one wake-up for a list, none while the thread is busy. Host
    names, TLS settings and pieces of a body that are read from the store take other threads.

    :param timeout: the limit in seconds on a whole exchange, from `begin`.
    :param max_reply: the most bytes of the body of a reply.
    :param failure: the error of a failed exchange for its caller.
    """

    def __init__(
        self,
        timeout: float,
        max_reply: int,
        kept: KeptConnections[HttpConnection],
        helpers: HelperThreads,
        failure: Callable[[str, Exception], Exception],
    ) -> None:
        self._timeout = timeout
        self._max_reply = max_reply
        self._failure = failure
        self.kept = kept
        self._helpers = helpers
        self._names = Resolver()
        self._heads = KnownHeads()
        self._mutex = threading.Lock()
        self.thread: threading.Thread | None = None
        self._calls: deque[Callable[[], None]] = deque()
        #: Whether the thread waits, or is about to, so that a call has to wake it.
        self._waits = False
        #: How often the thread was woken for calls.
        self.wake_ups = 0
        self._closing = False
        #: All open exchanges with their connections, the one with the earliest deadline first.
        self._open: dict[HttpExchange, HttpConnection | None] = {}
        #: Connections to hosts that have further addresses; also some that have connected since.
        self._connecting: set[HttpConnection] = set()
        #: The ends of exchanges since their callers were called last.
        self._ended: dict[OnPosted, list[Posted]] = {}

    # --- called by other threads -----------------------------------------------------------------------------------

    def begin(self, exchanges: Sequence[HttpExchange]) -> None:
        """Begin exchanges. ``on_end`` of each is called in the loop's thread, in any case."""
        deadline = time.monotonic() + self._timeout
        for exchange in exchanges:
            exchange.deadline = deadline
        self.run(partial(self._begin_all, exchanges))

    def run(self, call: Callable[[], None]) -> None:
        """Run a call in the loop's thread. It must not wait for anything."""
        self._calls.append(call)
        if self.thread is None:
            self._start()
        if self._waits:  # also a thread that another call has just started
            self._wake()

    def close(self) -> None:
        """End all exchanges and close all connections. The next exchange starts the thread again."""
        thread = self.thread
        if thread is None:
            return
        self.run(self._close)
        if thread is not threading.current_thread():
            thread.join()

    def _start(self) -> None:
        with self._mutex:
            if self.thread is None:
                self._closing = False
                self._selector = selectors.DefaultSelector()
                self._wakes, self._woken = socket.socketpair()
                self._wakes.setblocking(False)
                self._woken.setblocking(False)
                self._selector.register(self._woken, selectors.EVENT_READ)
                thread = threading.Thread(target=self._run, name="mercury-exchanges", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the process may have no more threads: the next exchange tries again
                    self._close_wakes()
                    raise
                self.thread = thread

    def _wake(self) -> None:
        with self._mutex:
            if self._waits:
                self._waits = False
                self.wake_ups += 1
                self._wakes.send(b"x")

    # --- the loop --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        finally:
            # Also after an error that nothing expects: then the exchanges fail, and the next one starts a new thread.
            self._end_all()
            with self._mutex:
                self._close_wakes()
                self._waits = False
                self.thread = None
            if self._calls:
                self._start()

    def _close_wakes(self) -> None:
        self._selector.close()
        self._wakes.close()
        self._woken.close()

    def _turn(self) -> None:
        self._waits = True
        timeout = 0.0 if self._calls else self._expire()
        for key, _ in self._selector.select(timeout):
            connection: HttpConnection | None = key.data
            if connection is None:
                self._woken.recv(PIECE)
            else:
                self._do(connection, connection.ready)
        self._waits = False
        self._finish()

    def _finish(self) -> None:
        """Do what is asked for, and pass on what has ended, until there is nothing of either."""
        while (self._calls or self._ended) and not self._closing:
            for _ in range(len(self._calls)):
                try:
                    self._calls.popleft()()
                except Exception:
                    log.exception("an unexpected error in the thread of the exchanges")
            self._pass_on()

    def _pass_on(self) -> None:
        ended, self._ended = self._ended, {}
        for on_end, posted in ended.items():
            try:
                on_end(posted)
            except Exception:
                log.exception("%d exchanges could not be passed on", len(posted))

    def _expire(self) -> float | None:
        """End what is over; returns the seconds until the next deadline, ``None`` = there is none."""
        left = self.kept.close_idle()
        now = time.monotonic()
        if self._connecting and (until := self._next_addresses(now)) is not None:
            left = until if left is None else min(left, until)
        while (first := next(iter(self._open), None)) is not None and first.deadline <= now:
            self._fail(first, TimeoutError("timed out"))
        if self._ended:
            return 0.0
        if first is None:
            return left
        return first.deadline - now if left is None else min(left, first.deadline - now)

    def _next_addresses(self, now: float) -> float | None:
        """Give up addresses that were silent for too long; returns the seconds until the next one is, ``None`` = there
        is none."""
        for connection in [*self._connecting]:
            if connection.connect_by <= now:
                self._do(connection, connection.give_up_address)
        self._connecting = {each for each in self._connecting if each.connect_by < math.inf}
        return min((each.connect_by - now for each in self._connecting), default=None)

    def _close(self) -> None:
        self._closing = True

    def _end_all(self) -> None:
        for exchange in [*self._open]:
            self._fail(exchange, OSError("the connection was closed by this side"))
        self.kept.close()
        self._pass_on()

    # --- one exchange ----------------------------------------------------------------------------------------------

    def _begin_all(self, exchanges: Sequence[HttpExchange]) -> None:
        for exchange in exchanges:
            try:
                self._begin(exchange)
            except Exception as error:  # the others must begin, and each must end: what is not over counts as in flight
                log.exception("an exchange could not begin")
                if exchange in self._open:
                    self._fail(exchange, error)
                else:
                    self._end(exchange, self._failure(exchange.target.url, error))

    def _begin(self, exchange: HttpExchange) -> None:
        kept = self._open[exchange] = self.kept.take(exchange.target.origin)
        if kept is None:
            self._connect(exchange)
        else:
            self._do(kept, partial(kept.begin, exchange))

    def _connect(self, exchange: HttpExchange) -> None:
        """Begin an exchange on a new connection."""
        origin = exchange.target.origin
        connection = self._open[exchange] = HttpConnection(origin, self, self._max_reply, self._heads)
        connection.exchange = exchange
        self.kept.add(connection)
        if origin.scheme == "https":
            # Files are read: the authorities of the system at first, and those of the peer when they have changed.
            self._helpers.run(partial(self._prepare_tls, exchange, connection))
        else:
            self._look_up(exchange, connection, None)

    def _prepare_tls(self, exchange: HttpExchange, connection: HttpConnection) -> None:
        """Called in a helper thread."""
        try:
            context = exchange.target.settings.context()
        except Exception as error:
            self.run(partial(self._broke, connection, error))
        else:
            self.run(partial(self._look_up, exchange, connection, context))

    def _look_up(self, exchange: HttpExchange, connection: HttpConnection, context: ssl.SSLContext | None) -> None:
        found = self._names.addresses(exchange.target.origin.host, exchange.target.origin.port)
        if found.done():
            self._connect_to(exchange, connection, context, found)
        else:
            found.add_done_callback(
                lambda found: self.run(partial(self._connect_to, exchange, connection, context, found))
            )

    def _connect_to(
        self,
        exchange: HttpExchange,
        connection: HttpConnection,
        context: ssl.SSLContext | None,
        found: Future[Addresses],
    ) -> None:
        if self._open.get(exchange) is connection:
            self._do(connection, lambda: connection.connect(found.result(), context))
            if connection.connect_by < math.inf:
                self._connecting.add(connection)

    def _do(self, connection: HttpConnection, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            self._broke(connection, error)

    def _broke(self, connection: HttpConnection, error: Exception) -> None:
        """A connection cannot be used any more."""
        exchange, is_kept = connection.exchange, connection.is_kept
        connection.exchange = None
        self.kept.drop(connection)
        if exchange is None or exchange not in self._open:
            return
        if is_kept and isinstance(error, ConnectionError | http.client.RemoteDisconnected | ssl.SSLEOFError):
            # The other side may close an idle connection at any time: this is not a failure of the peer.
            self._connect(exchange)
        else:
            self._fail(exchange, error)

    def _fail(self, exchange: HttpExchange, error: Exception) -> None:
        connection = self._open.pop(exchange)
        if connection is not None:
            connection.exchange = None
            self.kept.drop(connection)
        self._end(exchange, self._failure(exchange.target.url, error))

    def _end(self, exchange: HttpExchange, result: HttpMessage | Exception) -> None:
        self._ended.setdefault(exchange.on_end, []).append(Posted(exchange.about, result))

    # --- called by connections -------------------------------------------------------------------------------------

    def watch(self, connection: HttpConnection, fd: int, before: int, events: int) -> None:
        if not before:
            self._selector.register(fd, events, connection)
        elif not events:
            self._selector.unregister(fd)
        else:
            self._selector.modify(fd, events, connection)

    def fetch(self, connection: HttpConnection, pieces: Iterator[bytes]) -> None:
        exchange = connection.exchange

        def next_piece() -> None:
            """Called in a helper thread."""
            try:
                piece = next(pieces, None)
            except Exception as error:
                self.run(partial(go_on, partial(self._broke, connection, error)))
            else:
                self.run(partial(go_on, partial(self._do, connection, partial(connection.send_piece, piece))))

        def go_on(step: Callable[[], None]) -> None:
            if exchange is not None and self._open.get(exchange) is connection:
                step()

        self._helpers.run(next_piece)

    def replied(self, connection: HttpConnection, reply: HttpMessage, *, closes: bool) -> None:
        exchange = connection.exchange
        assert exchange is not None
        del self._open[exchange]
        connection.rest()
        if closes:
            self.kept.drop(connection)
        else:
            self.kept.keep(connection)
        self._end(exchange, reply)
