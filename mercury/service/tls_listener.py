"""Accepts TLS connections and counts each against the connection limits from the start of its handshake.

asyncio's own server reports a connection only after the handshake. A peer that never finishes its handshake would
hold a connection that no limit counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.service.connections import Activity, Connections
from mercury.storage.callers import network_of

log = logging.getLogger("mercury.tls")

#: Length of the kernel's queue of connections that are not accepted yet.
BACKLOG = 2048
#: Seconds without accepting after the process has reached its limit of open files.
PAUSE = 1.0

#: Makes the HTTP protocol of a connection after its handshake. The `Handshake` counted for the connection until then.
ProtocolFactory = Callable[["Handshake"], asyncio.Protocol]


class UnreadableCertificateError(ssl.SSLError):
    """The peer's certificate is valid, and has a name that is not text."""


class TlsObject(ssl.SSLObject):
    """The TLS of a connection. asyncio logs a traceback for a certificate that Python cannot decode."""

    def getpeercert(self, binary_form: bool = False) -> Any:
        try:
            return super().getpeercert(binary_form)
        except ValueError as error:
            raise UnreadableCertificateError(f"a name in the certificate is not text: {error}") from error


class Handshake:
    """A connection whose handshake is not done."""

    def __init__(self, connection: socket.socket, host: str, deadline: float) -> None:
        self.connection = connection
        #: The peer's IP address.
        self.host = host
        self.deadline = self.since = deadline
        self.activity = Activity.BEGINNING

    def expire(self, now: float) -> None:
        del now
        self.abort()

    def make_room(self) -> None:
        self.abort()

    def abort(self) -> None:
        with contextlib.suppress(OSError):  # the connection has ended already
            self.connection.shutdown(socket.SHUT_RDWR)


class TlsListener:
    """Replaces `asyncio.Server` in uvicorn's list of servers. It accepts connections as soon as it is constructed.

    :param sock: a bound socket; this class makes it listen.
    :param context: gives the TLS context of a new connection.
    :param make_protocol: makes the HTTP protocol of a connection after its handshake.
    """

    def __init__(
        self,
        sock: socket.socket,
        context: Callable[[], ssl.SSLContext],
        connections: Connections,
        make_protocol: ProtocolFactory,
    ) -> None:
        self._sock = sock
        self._context = context
        self._connections = connections
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], Handshake] = {}
        self._closed = False
        self._log_limiter = LogLimiter(1, LOG_INTERVAL)
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._listen()

    def close(self) -> None:
        """Accept no more connections, and abort the handshakes that are not finished."""
        self._closed = True
        self._loop.remove_reader(self._sock)
        for handshake in self._handshakes.values():
            handshake.abort()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(BACKLOG):
            try:
                connection, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # the process has reached its limit of open files
                self._loop.remove_reader(self._sock)
                self._loop.call_later(PAUSE, self._listen)
                return
            connection.setblocking(False)
            timeout = self._connections.settings.first_byte_timeout
            handshake = Handshake(connection, address[0], self._loop.time() + timeout)
            if self._connections.admit(handshake, address[0]) is not None:
                connection.close()  # an HTTP answer is impossible before the handshake
                continue
            task = self._loop.create_task(self._finish(handshake))
            self._handshakes[task] = handshake
            task.add_done_callback(self._handshakes.pop)

    async def _finish(self, handshake: Handshake) -> None:
        try:
            # No timeout here: `Connections` aborts a handshake that passes its deadline.
            context = self._context()
            context.sslobject_class = TlsObject
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(handshake), handshake.connection, ssl=context
            )
        except UnreadableCertificateError as error:
            handshake.connection.close()
            network = network_of(handshake.host)
            if self._log_limiter.allow(network, self._loop.time()):
                log.warning("connections from %s are closed: %s", network, error.args[0])
        except OSError:  # the peer does not speak TLS, has no accepted certificate, or was aborted
            handshake.connection.close()
        finally:
            self._connections.remove(handshake)


if TYPE_CHECKING:
    from mercury.service.connections import Connection

    def _is_connection(handshake: Handshake) -> Connection:
        return handshake
