"""Group commit: several arrivals share a transaction, because a commit costs as much time as handling several of
them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: The group-commit window, in seconds: a transaction begins when no other arrival came for so long; and the longest
#: time that it waits in all.
GROUP_COMMIT_WINDOW, GROUP_COMMIT_LIMIT = 0.004, 0.025


class Queue(Protocol[T_co]):
    def get(self, block: bool = True, timeout: float | None = None) -> T_co: ...


class GroupCommit(Generic[T]):
    """Takes from a queue the arrivals for one transaction. Used by one thread.

    It waits for as many arrivals as the last transaction had, as long as they keep coming. After a transaction with one
    arrival it does not wait.

    :param arrivals: the queue; ``None`` in it marks its end.
    :param most: the most arrivals in one transaction.
    :param clock: returns the time of a monotonic clock, in seconds.
    """

    def __init__(self, arrivals: Queue[T | None], most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._arrivals = arrivals
        self._most = most
        self._clock = clock
        #: The number of arrivals to wait for: as many as the last transaction had, or half as many as it expected.
        self._expected = 1

    def take(self) -> tuple[list[T], bool]:
        """Wait for arrivals; returns them, and whether the queue has ended."""
        taken, ended = self._take()
        self._expected = max(len(taken), self._expected // 2)
        return taken, ended

    def _take(self) -> tuple[list[T], bool]:
        taken: list[T] = []
        until = 0.0
        while len(taken) < self._most:
            try:
                if not taken:
                    found = self._arrivals.get()
                    until = self._clock() + GROUP_COMMIT_LIMIT
                elif len(taken) < self._expected and (left := until - self._clock()) > 0:
                    found = self._arrivals.get(timeout=min(left, GROUP_COMMIT_WINDOW))
                else:
                    found = self._arrivals.get(block=False)
            except queue.Empty:
                break
            if found is None:
                return taken, True
            taken.append(found)
        return taken, False
