"""The processes that run on a store."""

from __future__ import annotations

from dataclasses import dataclass


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
    #: What it does: ``sends``, ``serves``, ``coordinates``.
    roles: tuple[str, ...] = ()
    threads: int = 0
    #: Arrivals that wait to be stored.
    queue: int = 0
