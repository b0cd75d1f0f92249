"""A bad network: an HTTP proxy that loses, repeats, delays and cuts what goes through it.

Every exchange (a request and its reply) has one outcome, drawn from a seeded random source. Mercury does not see the
proxy; it sees timeouts, broken connections and messages that come twice.
"""

from __future__ import annotations

import asyncio
import enum
import random
import re
import socket
import struct
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Weather:
    """How bad the network is: the share of exchanges that have each outcome, and the longest delay in seconds."""

    loss: float = 0.2
    duplicate: float = 0.1
    reset: float = 0.1
    delay: float = 0.02


class Outcome(enum.Enum):
    """What happens to one exchange."""

    PASSED = "passed"
    #: No answer, ever: the client has to time out.
    DROPPED = "dropped"
    #: The request is delivered twice.
    REPEATED = "repeated"
    #: The connection is reset.
    CUT = "cut"


@dataclass
class Proxy:
    """Listens on a free port of this machine and forwards to ``target``, in its own way."""

    weather: Weather
    chance: random.Random
    #: ``http://host:port``; may be set once it is known. Empty: nobody is there.
    target: str = ""
    counts: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    _stopping: bool = False

    async def start(self) -> str:
        """Begin to listen; returns the URL."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def stop(self) -> None:
        """End in order: nobody can connect any more, and every connection is closed when this returns."""
        self._stopping = True
        self._server.close()
        while self._connections:
            for connection in self._connections:
                connection.cancel()
            await asyncio.wait(self._connections)
        await self._server.wait_closed()
        await asyncio.sleep(0)  # what was closed is told so in the loop's next round

    def on_request(self, request: bytes) -> None:
        """Is called with every request that the network is given."""

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stopping:  # it had been accepted when we stopped to listen
            writer.close()
            return
        connection = asyncio.get_running_loop().create_task(self._connection(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client: exchange after exchange, until one of them ends it."""
        try:
            while request := await read_message(reader):
                self.on_request(request)
                outcome, delay, before = self._draw()
                self.counts[outcome] += 1
                await asyncio.sleep(delay)
                # Dropped or cut before it was forwarded, the request is lost; after that, the reply.
                lost = outcome in (Outcome.DROPPED, Outcome.CUT)
                reply = (
                    b"" if lost and before else await self._forward(request, 2 if outcome is Outcome.REPEATED else 1)
                )
                if outcome is Outcome.DROPPED:
                    await reader.read()  # until the client gives up and closes
                if outcome is Outcome.CUT:
                    reset(writer)
                if lost or not reply:
                    return
                writer.write(reply)
                await writer.drain()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # one of the two sides is gone, which the other blames on the network; or all this ends
        finally:
            writer.close()

    def _draw(self) -> tuple[Outcome, float, bool]:
        """The outcome of the next exchange, its delay, and whether it strikes before the request is forwarded."""
        weather = self.weather
        rest = 1 - weather.loss - weather.duplicate - weather.reset
        shares = (rest, weather.loss, weather.duplicate, weather.reset)
        (outcome,) = self.chance.choices(tuple(Outcome), shares)
        return outcome, self.chance.uniform(0, weather.delay), self.chance.random() < 0.5

    async def _forward(self, request: bytes, times: int) -> bytes:
        """Deliver a request, perhaps more than once; returns the first copy's reply."""
        # All copies are waited for: none is still on its way when the connection's task has ended.
        replies = await asyncio.gather(*(self._deliver(request) for _ in range(times)), return_exceptions=True)
        if isinstance(replies[0], BaseException):
            raise replies[0]
        return replies[0]

    async def _deliver(self, request: bytes) -> bytes:
        if not self.target:
            raise ConnectionRefusedError
        return await exchange(self.target, request)


async def exchange(url: str, request: bytes) -> bytes:
    """Post a whole HTTP message on a connection of its own; returns the reply."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(request)
        return await read_message(reader)
    finally:
        writer.close()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """A whole HTTP message with a Content-Length, or ``b""`` at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return head + (await reader.readexactly(int(length[1])) if length else b"")


def reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the other side sees a reset, not an orderly end."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
