"""The connections of one HTTP server: how many there may be, and how long each may keep it waiting."""

from __future__ import annotations

import asyncio
import enum
import logging
import sys
from typing import Protocol

from mercury.service.authorities import Authorities
from mercury.settings import HttpSettings
from mercury.storage.callers import network_of

log = logging.getLogger("mercury.http")

#: Seconds between two checks of the deadlines at most; shorter when a time limit is.
CHECK_INTERVAL = 1.0
#: Seconds that a connection without a place is given to send its last answer before it is cut.
LINGER = 1.0
#: How many such connections there may be at most; with few places, a quarter of these.
MAX_LEAVING = 64
#: File descriptors that are left for everything but connections: databases, logs, connections to peers.
RESERVED_DESCRIPTORS = 256


class Activity(enum.IntEnum):
    """What goes on at a connection. When places are scarce, the first of these lose theirs first."""

    #: It has been refused, or is being closed.
    ENDING = 0
    #: No request is being received or answered.
    IDLE = 1
    #: What comes before a request is not all there, its header or the handshake of TLS; or the rest of a request that
    #: has been answered.
    BEGINNING = 2
    #: The body of a request is not all there, or its answer is not being read.
    TRANSFER = 3
    #: A request is being processed.
    BUSY = 4


class Connection(Protocol):
    """What is asked of one connection. Times are the event loop's."""

    @property
    def deadline(self) -> float:
        """When it is to be ended or refused, unless something happens before."""

    def expire(self, now: float) -> None:
        """The deadline has passed."""

    @property
    def activity(self) -> Activity:
        """What goes on at it."""

    def make_room(self) -> None:
        """Close the connection, which is not busy, for another one."""

    def abort(self) -> None:
        """Cut the connection at once, whatever has not been sent."""


class Connections:
    """Every connection of one server. Used in the event loop's thread only.

    A check of all deadlines once in `CHECK_INTERVAL` replaces two timers for each request.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        #: Who vouches for the certificates of its peers.
        self.authorities = Authorities()
        self._limit = min(settings.max_connections, _descriptors())
        #: In the order in which they came, with the address that each counts for.
        self._addresses: dict[Connection, str] = {}
        self._counts: dict[str, int] = {}
        #: Those that have no place any more, or got none, but are still open, with the time when each is cut.
        self._leaving: dict[Connection, float] = {}
        self._most_leaving = min(MAX_LEAVING, max(8, self._limit // 4))
        self._checking = False
        timeouts = (settings.first_byte_timeout, settings.header_timeout, settings.idle_timeout)
        self._interval = min(CHECK_INTERVAL, min(*timeouts, settings.receive_timeout, settings.body_rate_window) / 4)
        self._told: set[str] = set()
        if self._limit < settings.max_connections:
            text = "http.max_connections: %d are taken instead of %d: the process may have no more open files"
            log.warning(text, self._limit, settings.max_connections)

    def __len__(self) -> int:
        return len(self._addresses)

    def admit(self, connection: Connection, host: str) -> str | None:
        """Count a new connection. When all are taken, another one is closed for it: the one that has been idle longest,
        or else of the address with most connections the one whose header is unfinished for longest, or else the body,
        if the address has more connections than the new one's. Who is silent or slow keeps nobody out.

        :param host: the peer's IP address.
        :returns: why it is refused; ``None`` = it is taken, and `remove` must be called at its end.
        """
        address = network_of(host)
        count = self._counts.get(address, 0)
        if count >= self.settings.max_connections_per_address:
            return self._tell(f"too many connections from one address (http.max_connections_per_address = {count})")
        if len(self._addresses) >= self._limit:
            given_up = self._least_needed(count)
            if given_up is None:
                return self._tell(f"too many connections (http.max_connections = {self._limit})")
            self.leave(given_up)
            given_up.make_room()
        self._addresses[connection] = address
        self._counts[address] = self._counts.get(address, 0) + 1
        self._check_later()
        return None

    def leave(self, connection: Connection) -> None:
        """A connection that is being closed loses its place, or never had one. It has `LINGER` seconds for what is still
        to be sent, less when many others leave. `remove` must be called at its end."""
        self.remove(connection)
        if len(self._leaving) >= self._most_leaving:
            first = next(iter(self._leaving))
            del self._leaving[first]
            first.abort()
        self._leaving[connection] = asyncio.get_running_loop().time() + LINGER
        self._check_later()

    def remove(self, connection: Connection) -> None:
        """A connection has ended; one that is not counted is ignored."""
        self._leaving.pop(connection, None)
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def _least_needed(self, count: int) -> Connection | None:
        """Which connection is closed for one of an address that has this many."""
        found = min(self._addresses, key=self._rank)
        activity = found.activity
        fair = self._counts[self._addresses[found]] > count + 1
        return found if activity < Activity.TRANSFER or (activity is Activity.TRANSFER and fair) else None

    def _rank(self, connection: Connection) -> tuple[Activity, int, float]:
        activity = connection.activity
        of_address = 0 if activity <= Activity.IDLE else self._counts[self._addresses[connection]]
        return activity, -of_address, connection.deadline

    def _tell(self, reason: str) -> str:
        if reason not in self._told:
            self._told.add(reason)
            log.warning("connections are refused: %s; further ones are not logged", reason)
        return reason

    def _check_later(self) -> None:
        if not self._checking:
            self._checking = True
            asyncio.get_running_loop().call_later(self._interval, self._check)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            for connection in [each for each in self._addresses if each.deadline <= now]:
                connection.expire(now)
            for connection in [each for each, deadline in self._leaving.items() if deadline <= now]:
                del self._leaving[connection]
                connection.abort()
        finally:
            self._checking = False
            if self._addresses or self._leaving:
                self._check_later()


def _descriptors() -> int:
    """How many connections the process has file descriptors for."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource  # noqa: PLC0415 - Unix only

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(soft - RESERVED_DESCRIPTORS, soft // 2)
