"""A pool of open connections: keeps them for later requests, with limits on their number and idle time."""

from __future__ import annotations

import select
import socket
import ssl
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from mercury.engine.runtime.http_exchange import Origin

#: The limit on used and idle connections together; lower if the process may open few files. It is needed because peers
#: name the servers to post to. `RESERVED_DESCRIPTORS` of the service includes them.
MOST = 256
#: The part of the process's file descriptors that connections may use.
PART = 4
#: The longest idle time, in seconds.
IDLE_TIMEOUT = 30.0


class Keepable(Protocol):
    """What a connection must have."""

    @property
    def origin(self) -> Origin:
        """The server that it leads to."""

    @property
    def sock(self) -> socket.socket | None:
        """Its socket; ``None`` = the connection is not open."""

    def close(self) -> None:
        """Close the connection, in any state."""


C = TypeVar("C", bound=Keepable)


class KeptConnections(Generic[C]):
    """The connections to all servers. Not thread-safe. Times are seconds.

    Used and idle connections together are at most ``most``: above it, the connection idle for longest is closed. Used
    connections alone may exceed it: each open exchange has one. An idle connection is closed after ``kept_for``, when
    the other side has closed it, or when it has received unsolicited bytes.

    :param most: see `descriptors_for`.
    :param clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        most: int | None = None,
        *,
        kept_for: float = IDLE_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most = descriptors_for() if most is None else most
        self._kept_for = kept_for
        self._clock = clock
        self._used: set[C] = set()
        #: Idle connections with the begin of their idle time; the one idle for longest comes first.
        self._unused: OrderedDict[C, float] = OrderedDict()
        self._by_origin: dict[Origin, list[C]] = {}

    def __len__(self) -> int:
        return len(self._used) + len(self._unused)

    def take(self, origin: Origin) -> C | None:
        """Take the idle connection to a server that was used last; ``None`` = there is no idle one."""
        while kept := self._by_origin.get(origin):
            since = self._unused[connection := kept[-1]]
            self._remove(connection)
            if self._clock() < since + self._kept_for and not has_input(connection.sock):
                self._used.add(connection)
                return connection
            connection.close()
        return None

    def add(self, connection: C) -> None:
        """Count a new connection as used, before it is connected."""
        self._used.add(connection)
        self._close_surplus()

    def keep(self, connection: C) -> None:
        """Return a connection whose last exchange was complete; it is idle now."""
        self._used.remove(connection)
        self._unused[connection] = self._clock()
        self._by_origin.setdefault(connection.origin, []).append(connection)
        self._close_surplus()

    def drop(self, connection: C) -> None:
        """Close a connection, used or idle."""
        self._used.discard(connection)
        if connection in self._unused:
            self._remove(connection)
        connection.close()

    def close_idle(self) -> float | None:
        """Close connections that were idle for too long. Returns the time until the next one; ``None`` = none is idle.

        It takes the same time however many are idle.
        """
        while self._unused:
            connection, since = next(iter(self._unused.items()))
            left = since + self._kept_for - self._clock()
            if left > 0:
                return left
            self.drop(connection)
        return None

    def close(self) -> None:
        """Close all connections, also the used ones."""
        for connection in [*self._used, *self._unused]:
            self.drop(connection)

    def _close_surplus(self) -> None:
        while self._unused and len(self._used) + len(self._unused) > self.most:
            self.drop(next(iter(self._unused)))

    def _remove(self, connection: C) -> None:
        del self._unused[connection]
        kept = self._by_origin[connection.origin]
        kept.remove(connection)
        if not kept:
            del self._by_origin[connection.origin]


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
        return True
    if not isinstance(sock, ssl.SSLSocket) and not sock.gettimeout():
        try:
            sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    if sys.platform == "win32":
        return bool(select.select([sock], [], [], 0)[0])
    waiting = select.poll()  # unlike select(), takes descriptors above 1023
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(0))
