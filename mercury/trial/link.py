"""A link: a proxy for connections of HTTP or of a database, which recognises a step in the bytes, holds it, and cuts.

All methods run in one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TypeAlias

from mercury.trial.steps import Moment, Way

#: ``(host, port)``, or the path of a socket.
Address: TypeAlias = tuple[str, int] | str
#: Where a connection leads now, and the name of the member that has the address; ``None`` = to none.
Route: TypeAlias = Callable[[], tuple[Address, str | None] | None]
#: The most bytes that are read at once, and that are remembered for a pattern that is in two parts.
PIECE, TAIL = 65536, 512


@dataclass
class Trigger:
    """A step that a link waits for, once.

    :param patterns: bytes and their direction, to be seen on one connection, one after the other; empty = the next
        connection.
    :param reached: is called at the moment, and returns when what is held may go on.
    :param seconds: how long the transmission of the rest takes, when the moment is `Moment.DURING`.
    :param size: the bytes that the transmission has.
    """

    patterns: tuple[tuple[bytes, Way], ...]
    moment: Moment
    reached: Callable[[Connection], Coroutine[None, None, None]]
    seconds: float = 0.0
    size: int = 0
    fired: bool = False


@dataclass(eq=False)
class Connection:
    """Two sockets, and how much of the trigger was seen on them."""

    near: socket.socket
    far: socket.socket | None = None
    #: The member that it leads to; ``None`` = a database.
    member: str | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    progress: int = 0
    tails: dict[Way, bytes] = field(default_factory=lambda: dict.fromkeys(Way, b""))
    #: The bytes still to be sent slowly, and the trigger whose fault is set in the middle of them.
    slow: tuple[Trigger, int] | None = None
    #: Set when the first byte of the reply comes: the moment after the step.
    on_reply: Trigger | None = None

    def ends(self) -> tuple[socket.socket, ...]:
        return (self.near,) if self.far is None else (self.near, self.far)


class Link:
    """Listens, and forwards each connection to where ``route`` says at that time.

    :param route: the address, and the name of the member that has it; ``None`` = no member serves, so the connection is
        reset.
    """

    def __init__(self, name: str, route: Route) -> None:
        self.name = name
        self._route = route
        self._trigger: Trigger | None = None
        self._connections: set[Connection] = set()
        self._firing: set[asyncio.Task[None]] = set()
        self._open = {way: _set_event() for way in Way}
        self._refuses = False
        self._accepting: list[asyncio.Task[None]] = []
        self._listening: list[socket.socket] = []

    async def start(self, path: str | None = None, route: Route | None = None) -> str:
        """Listen at a free port of this machine, or at a socket's path; returns ``host:port``, or the path. A link may
        listen at several places.

        :param route: for what connects here; left out, the link's own.
        """
        family = socket.AF_INET if path is None else socket.AF_UNIX
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.bind(("127.0.0.1", 0) if path is None else path)
        listening.listen(128)
        listening.setblocking(False)
        self._listening.append(listening)
        self._accepting.append(asyncio.create_task(self._accept(listening, route or self._route)))
        if path is not None:
            return path
        host, port = listening.getsockname()
        return f"{host}:{port}"

    async def stop(self) -> None:
        """Stop listening, and reset every connection."""
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listening in self._listening:
            listening.close()
        tasks = [task for each in self._connections for task in each.tasks]
        self.reset()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- faults ----------------------------------------------------------------------------------------------------

    def arm(self, trigger: Trigger) -> None:
        """Wait for a step. What was seen of earlier ones is forgotten."""
        self._trigger = trigger
        for connection in self._connections:
            connection.progress = 0
            connection.tails = dict.fromkeys(Way, b"")
        if not trigger.patterns:
            self.reset()  # so that the next exchange needs a new connection

    def disarm(self) -> None:
        self._trigger = None

    def reset(self, member: str | None = None) -> None:
        """Reset all connections, or those to one member."""
        for connection in [each for each in self._connections if member is None or each.member == member]:
            self._close(connection)

    async def cut(self, seconds: float, way: Way | None = None) -> None:
        """Cut for some seconds: in both directions, so that connections are reset and refused; or in one, so that its
        bytes stay where they are. Afterwards all connections are reset."""
        try:
            if way is None:
                self._refuses = True
                self.reset()
            else:
                self._open[way].clear()
            await asyncio.sleep(seconds)
        finally:
            self._refuses = False
            self.reset()
            for event in self._open.values():
                event.set()

    # --- connections -----------------------------------------------------------------------------------------------

    async def _accept(self, listening: socket.socket, route: Route) -> None:
        loop = asyncio.get_running_loop()
        while True:
            near, _ = await loop.sock_accept(listening)
            connection = Connection(near)
            self._connections.add(connection)
            connection.tasks.append(loop.create_task(self._serve(connection, route)))

    async def _serve(self, connection: Connection, route: Route) -> None:
        loop = asyncio.get_running_loop()
        try:
            connecting = self._trigger if self._trigger is not None and not self._trigger.patterns else None
            if connecting is not None and connecting.moment is Moment.BEFORE:
                await self._fire(connecting, connection)
            found = None if self._refuses else route()
            if found is None:
                return
            address, connection.member = found
            family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
            far = socket.socket(family, socket.SOCK_STREAM)
            far.setblocking(False)
            connection.far = far
            await loop.sock_connect(far, address)
            if connecting is not None and connecting.moment is not Moment.BEFORE:
                await self._fire(connecting, connection)
            pumps = [loop.create_task(self._pump(connection, way)) for way in Way]
            connection.tasks += pumps
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # the other side is away: the connection is reset
        finally:
            self._close(connection)

    async def _pump(self, connection: Connection, way: Way) -> None:
        """Forward one direction until it ends."""
        loop = asyncio.get_running_loop()
        assert connection.far is not None
        source, target = connection.near, connection.far
        if way is Way.REPLY:
            source, target = target, source
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(source, PIECE):
                await self._open[way].wait()
                if way is Way.REPLY and connection.on_reply is not None:
                    trigger, connection.on_reply = connection.on_reply, None
                    await self._fire(trigger, connection)
                await self._forward(connection, way, data, source, target)

    async def _forward(
        self, connection: Connection, way: Way, data: bytes, source: socket.socket, target: socket.socket
    ) -> None:
        loop = asyncio.get_running_loop()
        if connection.slow is not None and way is Way.REQUEST:
            await self._send_slowly(connection, data, source, target)
            return
        trigger = self._seen(connection, way, data)
        if trigger is None:
            await loop.sock_sendall(target, data)
        elif trigger.moment is Moment.BEFORE:
            await self._fire(trigger, connection)
            _check(source)
            await loop.sock_sendall(target, data)
        elif trigger.moment is Moment.DURING and trigger.size > len(data):
            trigger.fired = True
            connection.slow = (trigger, trigger.size)
            await self._send_slowly(connection, data, source, target)
        elif trigger.moment is Moment.DURING:
            half = len(data) // 2
            await loop.sock_sendall(target, data[:half])
            await self._fire(trigger, connection)
            _check(source)
            await loop.sock_sendall(target, data[half:])
        elif way is Way.REQUEST:
            trigger.fired, connection.on_reply = True, trigger
            await loop.sock_sendall(target, data)
        else:
            await loop.sock_sendall(target, data)
            await self._fire(trigger, connection)

    async def _send_slowly(
        self, connection: Connection, data: bytes, source: socket.socket, target: socket.socket
    ) -> None:
        """Send a part of a large message at the rate at which the whole takes the trigger's seconds."""
        assert connection.slow is not None
        trigger, left = connection.slow
        before = left > trigger.size / 2
        left -= len(data)
        await asyncio.get_running_loop().sock_sendall(target, data)
        await asyncio.sleep(trigger.seconds * len(data) / trigger.size)
        connection.slow = (trigger, left) if left > 0 else None
        if before and left <= trigger.size / 2:
            await self._fire(trigger, connection)
            _check(source)

    def _seen(self, connection: Connection, way: Way, data: bytes) -> Trigger | None:
        """The trigger, if these bytes complete its patterns on this connection."""
        trigger = self._trigger
        if trigger is None or trigger.fired or not trigger.patterns:
            return None
        rest = connection.tails[way] + data
        while connection.progress < len(trigger.patterns):
            wanted, direction = trigger.patterns[connection.progress]
            if direction is not way or (at := rest.find(wanted)) < 0:
                break
            rest = rest[at + len(wanted) :]
            connection.progress += 1
        connection.tails[way] = rest[-TAIL:]
        return trigger if connection.progress == len(trigger.patterns) else None

    async def _fire(self, trigger: Trigger, connection: Connection) -> None:
        if self._trigger is not trigger:
            return
        self._trigger = None
        trigger.fired = True
        # In a task of its own: the fault may end the connection whose task this is, in the middle of being set.
        firing = asyncio.create_task(trigger.reached(connection))
        self._firing.add(firing)
        firing.add_done_callback(self._firing.discard)
        await asyncio.shield(firing)

    def _close(self, connection: Connection) -> None:
        """Reset both ends."""
        self._connections.discard(connection)
        for pending in (connection.on_reply, connection.slow[0] if connection.slow is not None else None):
            if pending is not None and pending is self._trigger:
                pending.fired = False  # it ended before its moment came: the next attempt has it
        current = asyncio.current_task()
        for task in connection.tasks:
            if task is not current:
                task.cancel()
        loop = asyncio.get_running_loop()
        for end in connection.ends():
            if end.fileno() >= 0:  # now, because the next socket may get the same number at once
                loop.remove_reader(end)
                loop.remove_writer(end)
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()


def _check(source: socket.socket) -> None:
    """
    :raises ConnectionResetError: the sender of what is held is gone: what a dead process has sent last is not sent on.
    """
    try:
        gone = source.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return
    if gone:
        raise ConnectionResetError


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
