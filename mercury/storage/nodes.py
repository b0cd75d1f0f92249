"""The processes that run on a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One start of a process on a store. Times are seconds since the epoch."""

    #: The owner of its claims.
    id: str
    host: str
    pid: int
    #: The version of Mercury.
    version: str
    started_at: float
    #: When it has last said that it runs.
    seen_at: float
    #: The services that it hosts.
    services: tuple[str, ...] = ()
    #: What it does: ``sends``, ``serves``.
    roles: tuple[str, ...] = ()
    threads: int = 0
    #: Arrivals that wait to be stored.
    queue: int = 0
    #: Where clients reach it and no other one, ``http://host:port``; ``None`` = it is not named to clients.
    address: str | None = None

    @property
    def name(self) -> str:
        """Its name for people: ``app-1:4711``."""
        return f"{self.host}:{self.pid}"


#: Seconds of a row of traffic.
PERIOD = 60


@dataclass(frozen=True, slots=True)
class Traffic:
    """What processes have done for a service: sums of some time. A repeated call counts each time."""

    #: Empty = responses that this side gets, and all that it transmits.
    service: str = ""
    #: Messages that were posted for the first time, and again.
    transmitted: int = 0
    repeated: int = 0
    #: Messages that were received and stored; that were delivered.
    received: int = 0
    delivered: int = 0
    #: Calls of handlers, those of them that failed, and the seconds that all of them took.
    calls: int = 0
    failures: int = 0
    seconds: float = 0.0

    def __add__(self, more: Traffic) -> Traffic:
        return Traffic(
            self.service,
            self.transmitted + more.transmitted,
            self.repeated + more.repeated,
            self.received + more.received,
            self.delivered + more.delivered,
            self.calls + more.calls,
            self.failures + more.failures,
            self.seconds + more.seconds,
        )


class NodeRegistry(Protocol):
    """The nodes of a store. Only used if several processes may share the store (`Capabilities.shared`)."""

    def note_node(self, node: Node) -> None:
        """Store that a process runs, in place of what was stored of it before.

        :raises StorageError: the store failed.
        """

    def members(self, since: float) -> list[str]:
        """The addresses of the nodes that serve, have one, and have said so since then.

        :raises StorageError: the store failed.
        """

    def others(self, identifier: str, since: float) -> bool:
        """Whether another node has said since then that it runs.

        :param identifier: of the node that asks.
        :raises StorageError: the store failed.
        """

    def add_traffic(self, identifier: str, at: float, traffic: Sequence[Traffic]) -> None:
        """Add to what a process has done, in one transaction. It is kept for hours, and is lost with the process: it is
        for people.

        :param identifier: of the node.
        :param at: the minute in which this time is, in seconds since the epoch, gets all of it.
        :raises StorageError: the store failed.
        """

    def forget_node(self, identifier: str) -> None:
        """Store that a process does not run any more.

        :raises StorageError: the store failed.
        """
