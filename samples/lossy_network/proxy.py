"""A faulty network: an HTTP proxy that loses, repeats, delays and cuts requests and replies.

Every exchange (a request and its reply) has one outcome from a seeded random generator. Mercury does not know of the
proxy; it observes timeouts, broken connections and repeated messages.
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
class NetworkFaults:
    """The share of exchanges with each outcome, and the longest delay in seconds."""

    loss: float = 0.2
    duplicate: float = 0.1
    reset: float = 0.1
    delay: float = 0.02


class Outcome(enum.Enum):
    """The outcome of one exchange."""

    PASSED = "passed"
    #: It is never answered: the client times out.
    DROPPED = "dropped"
    #: The request is delivered twice.
    REPEATED = "repeated"
    #: The connection is reset.
    CUT = "cut"


@dataclass
class Proxy:
    """Listens on a free port of this machine and forwards to ``target``, with faults."""

    faults: NetworkFaults
    chance: random.Random
    #: ``http://host:port``; may be set later. Empty = there is no target yet, and connections are closed.
    target: str = ""
    counts: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    _stopping: bool = False

    async def start(self) -> str:
        """Start to listen; returns the URL."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening, and close every connection before this returns."""
        self._stopping = True
        self._server.close()
        while self._connections:
            for connection in self._connections:
                connection.cancel()
            await asyncio.wait(self._connections)
        await self._server.wait_closed()
        await asyncio.sleep(0)  # the event loop calls `connection_lost` of closed connections in its next round

    def on_request(self, request: bytes) -> None:
        """Called with every request, before its outcome."""

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stopping:  # the connection was accepted just before `stop`
            writer.close()
            return
        connection = asyncio.get_running_loop().create_task(self._connection(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: exchange after exchange, until one of them ends the connection."""
        try:
            while request := await read_message(reader):
                self.on_request(request)
                outcome, delay, before = self._draw()
                self.counts[outcome] += 1
                await asyncio.sleep(delay)
                # Dropped or cut before forwarding, the request is lost; afterwards, the reply.
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
            pass  # a side has closed its connection, which the other sees as a network fault; or the proxy stops
        finally:
            writer.close()

    def _draw(self) -> tuple[Outcome, float, bool]:
        """The outcome of the next exchange, its delay, and whether the fault occurs before the request is forwarded."""
        faults = self.faults
        rest = 1 - faults.loss - faults.duplicate - faults.reset
        shares = (rest, faults.loss, faults.duplicate, faults.reset)
        (outcome,) = self.chance.choices(tuple(Outcome), shares)
        return outcome, self.chance.uniform(0, faults.delay), self.chance.random() < 0.5

    async def _forward(self, request: bytes, times: int) -> bytes:
        """Deliver a request, perhaps more than once; returns the first copy's reply."""
        # Wait for all copies, so that none is in transit after the connection's task has ended.
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
    """A whole HTTP message, its body with a Content-Length or in chunks, or ``b""`` at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    if re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        return head + await _read_chunks(reader)
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return head + (await reader.readexactly(int(length[1])) if length else b"")


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    """A body in chunks as it stands, up to the empty line behind the last one."""
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        body += line + await reader.readexactly(size + 2 if size else 0)
        if size == 0:
            while (trailer := await reader.readuntil(b"\r\n")) != b"\r\n":
                body += trailer
            return body + trailer


def reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection with a TCP reset."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
