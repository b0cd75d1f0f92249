"""The connections of one HTTP server: how many it accepts, and how long it waits for each."""

from __future__ import annotations

import asyncio
import enum
import logging
import sys
from collections.abc import Callable
from typing import Protocol

from uvicorn.server import ServerState

from mercury.engine.runtime.kept_connections import MOST
from mercury.service.authorities import Authorities
from mercury.service.known_requests import KnownRequests
from mercury.settings import HttpSettings, load
from mercury.storage.callers import network_of

log = logging.getLogger("mercury.http")

#: The longest time between two checks of the deadlines, in seconds; shorter when a timeout is shorter.
CHECK_INTERVAL = 1.0
#: Seconds that a connection which no longer counts has for its last answer before it is cut.
LINGER = 1.0
#: The most connections that may linger so at once; a quarter of the connection limit if that is smaller.
MAX_LEAVING = 64
#: File descriptors that are kept free for connections to peers (persistent ones, and with the default of
#: ``runtime.senders`` those in use with them), databases and logs.
RESERVED_DESCRIPTORS = MOST + 128
#: The attribute of uvicorn's server state that holds the `Connections`.
_CONNECTIONS = "mercury_connections"


class Activity(enum.IntEnum):
    """What a connection does now. At the connection limit, a connection with the lowest value is closed for a new one;
    from `HELD` on only if its network has more connections than the new one's."""

    #: It has been refused, or is being closed.
    ENDING = 0
    #: No request is being received or answered.
    IDLE = 1
    #: The TLS handshake or the header of a request is incomplete, or the rest of an answered request is being read.
    BEGINNING = 2
    #: A request was accepted, and its exchange is held open for the response; it can be answered at once with 202.
    HELD = 3
    #: The body of a request is incomplete, or the peer does not read its answer.
    TRANSFER = 4
    #: A request is being processed.
    BUSY = 5


class Connection(Protocol):
    """One connection, as `Connections` sees it. Times are seconds of the event loop's clock."""

    @property
    def deadline(self) -> float:
        """When `Connections` calls `expire`; ``math.inf`` = never."""

    def expire(self, now: float) -> None:
        """Called when the deadline has passed: refuse the request or close the connection."""

    @property
    def activity(self) -> Activity:
        """What the connection does now."""

    @property
    def since(self) -> float:
        """The start or the deadline of the present activity. Of connections with the same activity, the one with the
        lowest value is closed first."""

    def make_room(self) -> None:
        """Close the connection, which is not `Activity.BUSY`, so that a new one can be accepted."""

    def abort(self) -> None:
        """Cut the connection at once; bytes that are not sent yet are lost."""


class Connections:
    """Every connection of one server. Used in the event loop's thread only.

    A check of all deadlines once in `CHECK_INTERVAL` replaces two timers for each request.

    :param in_files: a service takes attachments: the request on a connection may be in a file.
    """

    def __init__(
        self, settings: HttpSettings, authorities: Authorities | None = None, *, in_files: bool = False
    ) -> None:
        self.settings = settings
        #: The headers of requests on these connections.
        self.known = KnownRequests()
        #: The certificate authorities of the server's peers.
        self.authorities = authorities or Authorities()
        #: The most connections that count: ``http.max_connections``, or fewer if the process may have fewer files.
        self.limit = min(settings.max_connections, _descriptors() // (2 if in_files else 1))
        #: The counted connections, oldest first, with the network that each counts for (`network_of`).
        self._addresses: dict[Connection, str] = {}
        #: The number of counted connections of each network.
        self._counts: dict[str, int] = {}
        #: Open connections that do not count, because they are being closed or were refused, with the time of the cut.
        self._leaving: dict[Connection, float] = {}
        self._most_leaving = min(MAX_LEAVING, max(8, self.limit // 4))
        self._checking = False
        timeouts = (settings.first_byte_timeout, settings.header_timeout, settings.idle_timeout)
        self._interval = min(CHECK_INTERVAL, min(*timeouts, settings.receive_timeout, settings.body_rate_window) / 4)
        #: Reasons of refusals that have been logged.
        self._logged: set[str] = set()
        if self.limit < settings.max_connections:
            text = "http.max_connections: %d are accepted instead of %d: the process may have no more open files"
            log.warning(text, self.limit, settings.max_connections)

    def __len__(self) -> int:
        return len(self._addresses)

    def admit(self, connection: Connection, host: str) -> str | None:
        """Count a new connection, and close another one for it if the limit is reached.

        At ``http.max_connections`` the connection to close is, in this order:

        1. the one that is idle longest;
        2. of the network with the most connections, the one whose header or handshake is incomplete longest;
        3. of the network with the most connections, if that is more than the new connection's network has, the one
           whose exchange is held longest, or else the one whose body or answer is transferred longest. One connection
           more is enough if its exchange is held for longer than ``http.back_channel_wait``.

        At ``http.max_connections_per_address`` it is the one with the lowest activity of the same network, unless all
        of them transfer or process a request. So a connection that is silent, slow or waiting keeps no new one out.

        :param host: the peer's IP address.
        :returns: the reason of the refusal; ``None`` = the connection counts, and the caller calls `remove` when it
            ends.
        """
        address = network_of(host)
        count = self._counts.get(address, 0)
        if count >= self.settings.max_connections_per_address:
            to_close = self._least_needed_of(address)
            if to_close is None:
                most = f"http.max_connections_per_address = {count}"
                return self._log_refused(f"too many connections from one address ({most})")
        elif len(self._addresses) >= self.limit:
            to_close = self._least_needed(count)
            if to_close is None:
                return self._log_refused(f"too many connections (http.max_connections = {self.limit})")
        else:
            to_close = None
        self._addresses[connection] = address
        self._counts[address] = count + 1
        self._check_later()
        if to_close is not None:
            self.leave(to_close)
            to_close.make_room()
        return None

    def leave(self, connection: Connection) -> None:
        """Stop counting a connection that is being closed or was refused, and cut it in `LINGER` seconds at the latest.

        When more than `MAX_LEAVING` linger, the oldest of them is cut at once. The caller calls `remove` when the
        connection ends.
        """
        self.remove(connection)
        if len(self._leaving) >= self._most_leaving:
            first = next(iter(self._leaving))
            del self._leaving[first]
            first.abort()
        self._leaving[connection] = asyncio.get_running_loop().time() + LINGER
        self._check_later()

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended; does nothing for one that is not known."""
        self._leaving.pop(connection, None)
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def _least_needed(self, count: int) -> Connection | None:
        """The connection to close for a new one whose network has ``count`` connections; ``None`` = there is none."""
        ranks = {each: rank for each in self._addresses if (rank := self._rank(each, count)) is not None}
        return min(ranks, key=ranks.__getitem__, default=None)

    def _rank(self, connection: Connection, count: int) -> tuple[int, int, int, float] | None:
        """The sort key of a connection, the lowest is closed first; ``None`` = this one is not closed."""
        activity, in_network = connection.activity, self._counts[self._addresses[connection]]
        if activity <= Activity.IDLE:
            return activity, 0, 0, connection.since
        if activity < Activity.HELD:
            return activity, -in_network, 0, connection.since
        if activity is Activity.BUSY or in_network <= (count if self._is_held_long(connection) else count + 1):
            return None
        # The network's size comes before the activity: a network with slow bodies on many connections must not cost a
        # smaller network its held exchanges.
        return Activity.HELD, -in_network, activity, connection.since

    def _is_held_long(self, connection: Connection) -> bool:
        """Whether an exchange is held for longer than ``http.back_channel_wait``."""
        until = connection.since + self.settings.back_channel_wait
        return connection.activity is Activity.HELD and until < asyncio.get_running_loop().time()

    def _least_needed_of(self, network: str) -> Connection | None:
        """The connection to close for a new one of the same network; ``None`` = all of them transfer or are busy."""
        own = ((each.activity, each.since, each) for each, its in self._addresses.items() if its == network)
        least = min(own, key=lambda each: each[:2], default=None)
        return None if least is None or least[0] >= Activity.TRANSFER else least[2]

    def _log_refused(self, reason: str) -> str:
        if reason not in self._logged:
            self._logged.add(reason)
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
    """The number of file descriptors that the process's limit allows for connections and their requests."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource  # noqa: PLC0415 - Unix only

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(soft - RESERVED_DESCRIPTORS, soft // 2)


def connections_of(server_state: ServerState, in_files: Callable[[], bool] = lambda: False) -> Connections:
    """The `Connections` of a server. For a uvicorn that Mercury did not start they are made from the process's
    settings.

    :param in_files: returns whether a service of the server's application takes attachments.
    """
    connections: Connections | None = getattr(server_state, _CONNECTIONS, None)
    if connections is None:
        settings = load()
        connections = Connections(settings.http, Authorities(settings.tls.with_issuer), in_files=in_files())
        keep(server_state, connections)
    return connections


def keep(server_state: ServerState, connections: Connections) -> None:
    """Store the `Connections` in a server's state, for `connections_of`."""
    setattr(server_state, _CONNECTIONS, connections)
