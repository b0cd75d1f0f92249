"""How many arrivals share a transaction: a commit costs as much as several of them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Group-commit window, in seconds: a transaction waits no longer when no other arrival came for so long; and the
#: longest time that it waits in all.
GROUP_COMMIT_WINDOW, GROUP_COMMIT_LIMIT = 0.004, 0.025


class Queue(Protocol[T_co]):
    def get(self, block: bool = True, timeout: float | None = None) -> T_co: ...


class GroupCommit(Generic[T]):
    """Takes from a queue what one transaction handles. For one thread.

    Arrivals like those that came together before are awaited together, while they keep coming. A single arrival is
    never delayed.

    :param arrivals: ``None`` in it is its end.
    :param most: how many a transaction takes.
    :param clock: seconds, monotonic.
    """

    def __init__(self, arrivals: Queue[T | None], most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._arrivals = arrivals
        self._most = most
        self._clock = clock
        #: As many as the last transaction took, or half as many as it expected.
        self._expected = 1

    def take(self) -> tuple[list[T], bool]:
        """Wait for something; what is taken, and whether nothing comes after it."""
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
