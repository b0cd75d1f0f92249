"""The connections of one HTTP server: how many there may be, and how long each may keep it waiting."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Protocol

from mercury.settings import HttpSettings
from mercury.storage.callers import network_of

log = logging.getLogger("mercury.http")

#: Seconds between two checks of the deadlines at most; shorter when a time limit is.
CHECK_INTERVAL = 1.0
#: File descriptors that are left for everything but connections: databases, logs, connections to peers.
RESERVED_DESCRIPTORS = 256


class Connection(Protocol):
    """What is asked of one connection. Times are the event loop's."""

    @property
    def deadline(self) -> float:
        """When it is to be ended or refused, unless something happens before."""

    def expire(self, now: float) -> None:
        """The deadline has passed."""

    @property
    def idle(self) -> bool:
        """No request is being received or answered."""

    @property
    def unfinished(self) -> bool:
        """What comes before a request is not all there: its header, or the handshake of TLS; and nothing is answered."""

    def make_room(self) -> None:
        """Close the connection, which is idle or unfinished, for another one."""


class Connections:
    """Every connection of one server. Used in the event loop's thread only.

    A check of all deadlines once in `CHECK_INTERVAL` replaces two timers for each request.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self._limit = min(settings.max_connections, _descriptors())
        #: In the order in which they came, with the address that each counts for.
        self._addresses: dict[Connection, str] = {}
        self._counts: dict[str, int] = {}
        self._checking = False
        timeouts = (settings.first_byte_timeout, settings.header_timeout, settings.idle_timeout)
        self._interval = min(CHECK_INTERVAL, min(*timeouts, settings.receive_timeout) / 4)
        self._told: set[str] = set()
        if self._limit < settings.max_connections:
            text = "http.max_connections: %d are taken instead of %d: the process may have no more open files"
            log.warning(text, self._limit, settings.max_connections)

    def __len__(self) -> int:
        return len(self._addresses)

    def admit(self, connection: Connection, host: str) -> str | None:
        """Count a new connection. When all are taken, the one that has been idle longest is closed for it, or else
        the one whose header is unfinished for longest: silence holds no place against a peer that speaks.

        :param host: the peer's IP address.
        :returns: why it is refused; ``None`` = it is taken, and `remove` must be called at its end.
        """
        address = network_of(host)
        count = self._counts.get(address, 0)
        if count >= self.settings.max_connections_per_address:
            return self._tell(f"too many connections from one address (http.max_connections_per_address = {count})")
        if len(self._addresses) >= self._limit:
            given_up = self._least_needed()
            if given_up is None:
                return self._tell(f"too many connections (http.max_connections = {self._limit})")
            self.remove(given_up)
            given_up.make_room()
        self._addresses[connection] = address
        self._counts[address] = count + 1
        if not self._checking:
            self._checking = True
            asyncio.get_running_loop().call_later(self._interval, self._check)
        return None

    def remove(self, connection: Connection) -> None:
        """A connection has ended; one that is not counted is ignored."""
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def _least_needed(self) -> Connection | None:
        idle = min((each for each in self._addresses if each.idle), key=_deadline, default=None)
        if idle is not None:
            return idle
        return min((each for each in self._addresses if each.unfinished), key=_deadline, default=None)

    def _tell(self, reason: str) -> str:
        if reason not in self._told:
            self._told.add(reason)
            log.warning("connections are refused: %s; further ones are not logged", reason)
        return reason

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            for connection in [each for each in self._addresses if each.deadline <= now]:
                connection.expire(now)
        finally:
            self._checking = bool(self._addresses)
            if self._checking:
                loop.call_later(self._interval, self._check)


def _deadline(connection: Connection) -> float:
    return connection.deadline


def _descriptors() -> int:
    """How many connections the process has file descriptors for."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource  # noqa: PLC0415 - Unix only

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(soft - RESERVED_DESCRIPTORS, soft // 2)
