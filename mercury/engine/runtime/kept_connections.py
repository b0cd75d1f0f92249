"""A pool of open connections: keeps them for later requests, with limits on their number and idle time."""

from __future__ import annotations

import select
import socket
import ssl
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

#: The limit on used and idle connections together; lower if the process may open few files. It is needed because peers
#: name the servers to post to. `RESERVED_DESCRIPTORS` of the service includes them.
MOST = 128
#: The part of the process's file descriptors that connections may use.
PART = 4
#: The longest idle time, and the interval of `close_idle`, in seconds.
IDLE_TIMEOUT, CHECK_INTERVAL = 30.0, 5.0


class Origin(NamedTuple):
    """The target of a connection, in normalized form."""

    scheme: str
    host: str
    port: int
    #: Identifies the `PeerConnection`, and so the certificates in use.
    settings_id: int


class Keepable(Protocol):
    """The methods that a connection must have."""

    @property
    def sock(self) -> socket.socket | None:
        """Its socket; ``None`` = the connection is not open."""

    def close(self) -> None:
        """Close the connection, in any state."""


C = TypeVar("C", bound=Keepable)


class KeptConnections(Generic[C]):
    """The connections of all threads to all servers. Thread-safe. Times are seconds.

    Used and idle connections together are at most ``most``: above it, the connection idle for longest is closed. Used
    connections alone may exceed it: each posting thread has one. An idle connection is closed after `IDLE_TIMEOUT`,
    when the other side has closed it, or when it has received unsolicited bytes.

    :param most: see `descriptors_for`.
    :param clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        most: int | None = None,
        *,
        kept_for: float = IDLE_TIMEOUT,
        look_interval: float = CHECK_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most = descriptors_for() if most is None else most
        self._kept_for = kept_for
        self._look_interval = look_interval
        self._clock = clock
        self._mutex = threading.Lock()
        self._used: set[C] = set()
        #: Idle connections with the begin of their idle time and their target; the one idle for longest comes first.
        self._unused: OrderedDict[C, tuple[float, Origin]] = OrderedDict()
        self._by_origin: dict[Origin, list[C]] = {}
        self._checker: threading.Thread | None = None
        self._over = threading.Event()

    def __len__(self) -> int:
        with self._mutex:
            return len(self._used) + len(self._unused)

    def take(self, origin: Origin) -> C | None:
        """Take the idle connection to a server that was used last; ``None`` = there is no idle one."""
        while True:
            with self._mutex:
                kept = self._by_origin.get(origin)
                if not kept:
                    return None
                since, _ = self._unused[connection := kept[-1]]
                self._remove(connection)
                usable = self._clock() < since + self._kept_for and not has_input(connection.sock)
                if usable:
                    self._used.add(connection)
            if usable:
                return connection
            connection.close()

    def add(self, connection: C) -> None:
        """Count a new connection as used, before it is connected."""
        with self._mutex:
            self._used.add(connection)
            surplus = self._surplus()
        _close(surplus)

    def keep(self, origin: Origin, connection: C) -> None:
        """Return a connection whose last exchange was complete; it is idle now."""
        with self._mutex:
            if connection.sock is None or connection not in self._used:
                self._used.discard(connection)
                surplus = [connection]
            else:
                self._used.remove(connection)
                self._unused[connection] = self._clock(), origin
                self._by_origin.setdefault(origin, []).append(connection)
                surplus = self._surplus()
                if self._checker is None:
                    self._checker = threading.Thread(
                        target=self._check_idle, args=(self._over,), name="mercury-connections", daemon=True
                    )
                    self._checker.start()
        _close(surplus)

    def drop(self, connection: C) -> None:
        """Close a connection instead of returning it."""
        with self._mutex:
            self._used.discard(connection)
        connection.close()

    def close_idle(self) -> None:
        """Close connections that were idle for too long, and those that cannot be used again."""
        with self._mutex:
            until = self._clock() - self._kept_for
            idle = [each for each, (since, _) in self._unused.items() if since <= until or has_input(each.sock)]
            for connection in idle:
                self._remove(connection)
        _close(idle)

    def close(self) -> None:
        """Close all connections, also the used ones."""
        with self._mutex:
            self._over.set()
            self._over, self._checker = threading.Event(), None
            connections = [*self._used, *self._unused]
            self._used.clear()
            self._unused.clear()
            self._by_origin.clear()
        _close(connections)

    def _check_idle(self, over: threading.Event) -> None:
        while not over.wait(self._look_interval):
            self.close_idle()
            with self._mutex:
                if not self._unused and over is self._over:
                    self._checker = None
                    return

    def _surplus(self) -> list[C]:
        found = []
        while self._unused and len(self._used) + len(self._unused) > self.most:
            found.append(connection := next(iter(self._unused)))
            self._remove(connection)
        return found

    def _remove(self, connection: C) -> None:
        _, origin = self._unused.pop(connection)
        kept = self._by_origin[origin]
        kept.remove(connection)
        if not kept:
            del self._by_origin[origin]


def _close(connections: list[C]) -> None:
    for connection in connections:
        connection.close()


def descriptors_for() -> int:
    """The limit on connections: `MOST`, or less if the process may open few files."""
    if sys.platform == "win32":
        return MOST
    import resource  # noqa: PLC0415 - Unix only

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft // PART))


def has_input(sock: socket.socket | None) -> bool:
    """Whether a socket has unread bytes or was closed by the other side: unsolicited bytes are not a reply."""
    if sock is None:
        return False
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    if sys.platform == "win32":
        return bool(select.select([sock], [], [], 0)[0])
    waiting = select.poll()  # unlike select(), takes descriptors above 1023
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(0))
