"""Says in the store that this process runs and what it has done, so that operators see it."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version

from mercury.engine.exchange import Step
from mercury.engine.members import Members
from mercury.engine.traffic import TrafficCounter
from mercury.errors import StorageError
from mercury.storage.nodes import Node, NodeRegistry

#: Seconds between two statements; a node counts as gone after several of them.
INTERVAL = 15.0

#: Seconds without a statement of a node after which it is not named to clients.
MEMBER_SILENT = 3 * INTERVAL


def _ignore(_others: bool) -> None:
    """Default of a process that does not need it."""


class NodeWorker:
    """Writes the row of this process at the start and at an interval: one statement each time, and another one if it
    has sent or delivered something meanwhile.

    :param identifier: the owner of the claims of this process.
    :param services: the services that it hosts; ``None`` = all.
    :param threads: the number of its threads.
    :param queue: the number of arrivals that wait to be stored.
    :param traffic: counts what this process sends and delivers.
    :param started: seconds since the epoch.
    :param members: gets the members of the store, at the same interval; ``None`` = this process names none.
    :param note_others: gets whether other processes work on the store, at the same interval.
    """

    def __init__(
        self,
        store: NodeRegistry,
        identifier: str,
        services: Callable[[], frozenset[str] | None],
        threads: Callable[[], int],
        queue: Callable[[], int],
        traffic: TrafficCounter,
        started: float,
        members: Members | None = None,
        note_others: Callable[[bool], None] = _ignore,
    ) -> None:
        self._store = store
        self._identifier = identifier
        self._services = services
        self._threads = threads
        self._queue = queue
        self._traffic = traffic
        self._started = started
        self._due = started
        self._members = members
        self._note_others = note_others

    def run_once(self, now: float) -> Step:
        """Write the row, if it is due.

        :raises StorageError: the store failed; the row stays due.
        """
        # Due also when the clock was set back.
        if now < self._due <= now + INTERVAL:
            return Step()
        services = tuple(sorted(self._services() or ()))
        node = Node(
            id=self._identifier,
            host=os.uname().nodename,
            pid=os.getpid(),
            version=version("mercury-rm"),
            started_at=self._started,
            seen_at=now,
            services=services,
            roles=("sends", "serves") if services else ("sends",),
            threads=self._threads(),
            queue=self._queue(),
            address=self._members.address if self._members is not None else None,
        )
        self._store.note_node(node)
        since = now - MEMBER_SILENT
        self._note_others(self._store.others(self._identifier, since))
        if self._members is not None:
            self._members.update(self._store.members(now - MEMBER_SILENT))
        write_traffic(self._store, self._identifier, self._traffic, now)
        self._due = now + INTERVAL
        return Step()

    def next_due(self) -> float | None:
        """When the next statement is due, in seconds since the epoch."""
        return self._due


def write_traffic(store: NodeRegistry, identifier: str, traffic: TrafficCounter, now: float) -> None:
    """Write what a process has done since it was last written.

    :param identifier: the owner of its claims.
    :raises StorageError: the store failed; it is written the next time.
    """
    taken = traffic.take()
    if not taken:
        return
    try:
        store.add_traffic(identifier, now, taken)
    except StorageError:
        traffic.put_back(taken)
        raise
