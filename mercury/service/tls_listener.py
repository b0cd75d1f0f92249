"""Takes connections where TLS is spoken, so that a handshake counts as a connection before it is done.

A server of asyncio's tells nobody of a connection until then, and a silent peer never finishes its handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from mercury.service.connections import Activity, Connections

#: Connections that the system keeps until they are taken.
BACKLOG = 2048
#: Seconds until connections are taken again when the process may have no more open files.
PAUSE = 1.0

#: Makes what speaks HTTP once a handshake is done. It is given what counts for the connection until then.
Speaker = Callable[["Handshake"], asyncio.Protocol]


class Handshake:
    """A connection whose handshake is not done."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self.connection = connection
        self.deadline = self.since = deadline
        self.activity = Activity.BEGINNING

    def expire(self, now: float) -> None:
        del now
        self.abort()

    def make_room(self) -> None:
        self.abort()

    def abort(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self.connection.shutdown(socket.SHUT_RDWR)


class TlsListener:
    """What uvicorn takes for one of its servers: it takes connections from the moment it is made.

    :param sock: bound.
    :param speaker: makes the protocol of a connection.
    """

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, connections: Connections, speaker: Speaker
    ) -> None:
        self._sock = sock
        self._context = context
        self._connections = connections
        self._speaker = speaker
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], Handshake] = {}
        self._closed = False
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._listen()

    def close(self) -> None:
        """Take no more connections, and end the handshakes."""
        self._closed = True
        self._loop.remove_reader(self._sock)
        for handshake in self._handshakes.values():
            handshake.abort()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._sock, self._take)

    def _take(self) -> None:
        for _ in range(BACKLOG):
            try:
                connection, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no more open files
                self._loop.remove_reader(self._sock)
                self._loop.call_later(PAUSE, self._listen)
                return
            connection.setblocking(False)
            timeout = self._connections.settings.first_byte_timeout
            handshake = Handshake(connection, self._loop.time() + timeout)
            if self._connections.admit(handshake, address[0]) is not None:
                connection.close()  # without TLS nothing can be said
                continue
            task = self._loop.create_task(self._shake(handshake))
            self._handshakes[task] = handshake
            task.add_done_callback(self._handshakes.pop)

    async def _shake(self, handshake: Handshake) -> None:
        try:
            # `Connections` has the deadline.
            await self._loop.connect_accepted_socket(
                lambda: self._speaker(handshake), handshake.connection, ssl=self._context
            )
        except OSError:  # a peer without TLS, or without the certificate that is asked for, or it is cut off
            handshake.connection.close()
        finally:
            self._connections.remove(handshake)


if TYPE_CHECKING:
    from mercury.service.connections import Connection

    def _is_connection(handshake: Handshake) -> Connection:
        return handshake
