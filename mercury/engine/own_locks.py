"""Destination sequences that workers of this process lock: reception waits for these (decision 109)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: Seconds from its begin for which a worker's transaction is waited for: many times what it takes. If it takes longer,
#: it probably waits itself, for another process.
PATIENCE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class _Locking:
    sequences: frozenset[str]
    began: float


class OwnLocks:
    """The sequences that transactions of this process lock which call no handler. Thread-safe.

    :param monotonic: returns the time of a monotonic clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._all: list[_Locking] = []
        self._changed = threading.Condition()

    @contextmanager
    def note(self, sequences: Collection[str]) -> Iterator[None]:
        """Note that a transaction locks these. It begins and ends within this context."""
        mine = _Locking(frozenset(sequences), self._monotonic())
        with self._changed:
            self._all.append(mine)
        try:
            yield
        finally:
            with self._changed:
                self._all.remove(mine)
                self._changed.notify_all()

    def wait_for(self, sequences: Collection[str]) -> None:
        """Wait until none of these is locked by a worker of this process whose transaction is not older than
        `PATIENCE`; not longer than that, however many transactions begin meanwhile."""
        with self._changed:
            latest = self._monotonic()
            while (seconds := self._left(sequences, latest)) > 0.0:
                self._changed.wait(seconds)

    def _left(self, sequences: Collection[str], latest: float) -> float:
        """The longest time to wait for these sequences.

        :param latest: a transaction that began later counts as if it had begun then.
        """
        found = [each.began for each in self._all if not each.sequences.isdisjoint(sequences)]
        return min(max(found), latest) + PATIENCE - self._monotonic() if found else 0.0
