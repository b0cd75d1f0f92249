"""The connections of one HTTP server: how many there may be, and how long each may keep it waiting."""

from __future__ import annotations

import asyncio
import enum
import logging
import sys
from typing import Protocol

from uvicorn.server import ServerState

from mercury.service.authorities import Authorities
from mercury.settings import HttpSettings, load
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
#: Where a server's state keeps the connections of all protocols that belong to it.
_CONNECTIONS = "mercury_connections"


class Activity(enum.IntEnum):
    """What goes on at a connection. When places are scarce, the first of these lose theirs first; from `HELD` on only
    those of a network that has more than its share."""

    #: It has been refused, or is being closed.
    ENDING = 0
    #: No request is being received or answered.
    IDLE = 1
    #: What comes before a request is not all there, its header or the handshake of TLS; or the rest of a request that
    #: has been answered.
    BEGINNING = 2
    #: A request is taken, and its exchange is held for the response: it can be answered at once without that.
    HELD = 3
    #: The body of a request is not all there, or its answer is not being read.
    TRANSFER = 4
    #: A request is being processed.
    BUSY = 5


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

    @property
    def since(self) -> float:
        """The lower, the sooner it makes room, of those with the same activity: when this began, or is to end."""

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
        """Count a new connection. When all are taken, another one makes room for it: the one that is idle longest,
        or else of the network with most connections the one whose header is unfinished for longest, or else, if that
        network has more than the new one's, the exchange that is held for its response for longest, or the body. When
        its own network has as many as it may, one of that network makes room, unless each sends a request or is being
        answered. Who waits, is silent or slow keeps nobody out.

        :param host: the peer's IP address.
        :returns: why it is refused; ``None`` = it is taken, and `remove` must be called at its end.
        """
        address = network_of(host)
        count = self._counts.get(address, 0)
        if count >= self.settings.max_connections_per_address:
            given_up = self._least_needed_of(address)
            if given_up is None:
                most = f"http.max_connections_per_address = {count}"
                return self._log_refused(f"too many connections from one address ({most})")
        elif len(self._addresses) >= self._limit:
            given_up = self._least_needed(count)
            if given_up is None:
                return self._log_refused(f"too many connections (http.max_connections = {self._limit})")
        else:
            given_up = None
        if given_up is not None:
            self.leave(given_up)
            given_up.make_room()
        self._addresses[connection] = address
        self._counts[address] = self._counts.get(address, 0) + 1
        self._check_later()
        return None

    def leave(self, connection: Connection) -> None:
        """A connection that is being closed loses its place, or never had one. It has `LINGER` seconds for what is
        still to be sent, less when many others leave. `remove` must be called at its end."""
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
        """Which connection makes room for one of a network that has this many."""
        ranks = {each: rank for each in self._addresses if (rank := self._rank(each, count)) is not None}
        return min(ranks, key=ranks.__getitem__, default=None)

    def _rank(self, connection: Connection, count: int) -> tuple[int, int, int, float] | None:
        """The lowest makes room; ``None`` = this one does not."""
        activity, of_network = connection.activity, self._counts[self._addresses[connection]]
        if activity <= Activity.IDLE:
            return activity, 0, 0, connection.since
        if activity < Activity.HELD:
            return activity, -of_network, 0, connection.since
        if activity is Activity.BUSY or of_network <= count + 1:
            return None
        # Nobody loses an exchange to the slow bodies of a network that has more connections.
        return Activity.HELD, -of_network, activity, connection.since

    def _least_needed_of(self, network: str) -> Connection | None:
        """Which connection makes room for another one of the same network."""
        own = ((each.activity, each.since, each) for each, its in self._addresses.items() if its == network)
        least = min(own, key=lambda each: each[:2], default=None)
        return None if least is None or least[0] >= Activity.TRANSFER else least[2]

    def _log_refused(self, reason: str) -> str:
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


def connections_of(server_state: ServerState) -> Connections:
    """The connections of a server; those of one that is not Mercury's go by the settings of the process."""
    connections: Connections | None = getattr(server_state, _CONNECTIONS, None)
    if connections is None:
        connections = Connections(load().http)
        keep(server_state, connections)
    return connections


def keep(server_state: ServerState, connections: Connections) -> None:
    """Make a server's connections these."""
    setattr(server_state, _CONNECTIONS, connections)
