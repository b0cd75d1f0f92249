"""The processes that run on a store."""

from __future__ import annotations

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

    @property
    def name(self) -> str:
        """Its name for people: ``app-1:4711``."""
        return f"{self.host}:{self.pid}"


class NodeRegistry(Protocol):
    """The nodes of a store. Only used if several processes may share the store (`Capabilities.shared`)."""

    def note_node(self, node: Node) -> None:
        """Store that a process runs, in place of what was stored of it before.

        :raises StorageError: the store failed.
        """

    def forget_node(self, identifier: str) -> None:
        """Store that a process does not run any more.

        :raises StorageError: the store failed.
        """
