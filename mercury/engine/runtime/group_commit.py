"""Group commit: several arrivals share a transaction, because a commit costs as much time as handling several of
them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")

#: The group-commit window, in seconds: a transaction begins when no other arrival came for so long; and the longest
#: time that it waits in all.
GROUP_COMMIT_WINDOW, GROUP_COMMIT_LIMIT = 0.004, 0.025
#: The longest time, in seconds, that a transaction waits because its arrivals can.
MOST_GATHERED = 0.01
#: The most bytes of the bodies that one transaction stores, unless it has one arrival only. They are in one statement,
#: which the driver has in memory as a whole.
GROUP_COMMIT_BYTES = 8 * 1024 * 1024
#: Seconds of the calls of handlers in one transaction, unless it has one arrival only: what `ArrivalDelivery` has no
#: time for is stored, and read again.
GROUP_COMMIT_CALLS = 0.06
#: The most seconds of calls that are divided like this: behind more of them an answer would take too long.
MOST_DIVIDED = 1.0


class Condition(Protocol):
    """What a queue needs of `threading.Condition`."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: Any) -> Any: ...

    def wait(self, timeout: float | None = None) -> bool: ...

    def notify(self) -> None: ...


class ArrivalQueue(Generic[T]):
    """The arrivals that wait for a transaction. Any thread puts, and one takes.

    A transaction waits for as many arrivals as the last one had, as long as they keep coming. After a transaction with
    one arrival it does not wait. The taking thread is woken when as many have come as it waits for, not by each.

    Arrivals that can wait gather after a transaction for as long as it took, `MOST_GATHERED` at most, or until a given
    time after its begin.

    :param most_waiting: the most arrivals that wait.
    :param most: the most arrivals in one transaction.
    :param clock: returns the time of a monotonic clock, in seconds.
    :param condition: makes a condition with a lock.
    :param size: the bytes that an arrival counts for `GROUP_COMMIT_BYTES`.
    :param calls: the seconds that it counts for `GROUP_COMMIT_CALLS`.
    :param can_wait: whether an arrival can wait for others, if all that wait can.
    :param gathers: whether nothing becomes slower if such arrivals wait now; called with the lock of the queue.
    :param pause: seconds from one transaction to the next one of such arrivals; called likewise.
    """

    def __init__(
        self,
        most_waiting: int,
        most: int,
        clock: Callable[[], float] = time.monotonic,
        condition: Callable[[threading.Lock], Condition] = threading.Condition,
        size: Callable[[T], int] = lambda _: 0,
        calls: Callable[[T], float] = lambda _: 0.0,
        can_wait: Callable[[T], bool] = lambda _: False,
        gathers: Callable[[], bool] = lambda: False,
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._most_waiting = most_waiting
        self._most = most
        self._clock = clock
        self._size = size
        self._calls = calls
        self._can_wait = can_wait
        self._gathers = gathers
        self._pause = pause
        mutex = threading.Lock()
        #: Both have the same lock, so that either may be held. `_arrived` wakes the taking thread.
        self._arrived, self._room = condition(mutex), condition(mutex)
        self._waiting: deque[T] = deque()
        self._closed = False
        #: With how many arrivals the taking thread is woken; 0 = it does not wait.
        self._wake_at = 0
        self._is_gathering = False
        #: How many that cannot wait are among those that do, and when arrivals were taken last.
        self._urgent = 0
        self._taken_at = clock()
        #: Threads that wait for room.
        self._held_up = 0
        #: The number of arrivals to wait for: as many as the last transaction had, or half as many as it expected.
        self._expected = 1

    @property
    def full(self) -> bool:
        """Whether as many arrivals wait as may."""
        return len(self._waiting) >= self._most_waiting

    @property
    def length(self) -> int:
        """How many arrivals wait."""
        return len(self._waiting)

    def put(self, arrivals: Sequence[T], timeout: float = 0.0) -> int:
        """Add arrivals, as many as there is room for; returns how many.

        :param timeout: seconds to wait for room if there is none.
        """
        with self._arrived:
            if self.full and timeout > 0:
                self._held_up += 1
                self._room.wait(timeout)
                self._held_up -= 1
            # More may wait than may be added: those that were put back.
            added = max(0, min(len(arrivals), self._most_waiting - len(self._waiting)))
            self._waiting.extend(arrivals[:added])
            urgent = self._urgent_of(arrivals[:added])
            self._urgent += urgent
            if self._wake_at and (len(self._waiting) >= self._wake_at or (urgent and self._is_gathering)):
                self._arrived.notify()
        return added

    def close(self) -> None:
        """Let `take` return what waits, and then nothing."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()

    def take(self) -> list[T]:
        """Wait for arrivals of one transaction; returns none at the end of the queue."""
        with self._arrived:
            now = self._clock()
            gathered_at = now + min(now - self._taken_at, MOST_GATHERED)
            while not self._waiting and not self._closed:
                self._wait(1, None)
            self._let_gather(gathered_at)
            expected = min(self._expected, self._most)
            until = self._clock() + GROUP_COMMIT_LIMIT
            known = 0
            while known < len(self._waiting) < expected and not self._closed:
                left = until - self._clock()
                if left <= 0:
                    break
                known = len(self._waiting)
                self._wait(expected, min(left, GROUP_COMMIT_WINDOW))
            taken = self._pop()
            self._expected = max(len(taken), self._expected // 2)
            self._taken_at = self._clock()
        return taken

    def _let_gather(self, until: float) -> None:
        """Wait until a time, or that of `pause`, or until something has come that cannot wait."""
        self._is_gathering = True
        while not self._urgent and not self._closed:
            paused = self._taken_at + self._pause()
            left = (max(until, paused) if self._gathers() else paused) - self._clock()
            if left <= 0:
                break
            self._wait(self._most, left)
        self._is_gathering = False

    def take_waiting(self) -> list[T]:
        """What waits now and fits into one transaction, in place of the taking thread, which is busy."""
        with self._arrived:
            return self._pop()

    def put_back(self, arrivals: Sequence[T]) -> None:
        """Let arrivals that `take_waiting` has returned wait again, before all others."""
        with self._arrived:
            self._waiting.extendleft(reversed(arrivals))
            self._urgent += self._urgent_of(arrivals)
            if self._wake_at and arrivals:
                self._arrived.notify()

    def _pop(self) -> list[T]:
        taken = [self._waiting.popleft() for _ in range(self._fitting())]
        self._urgent -= self._urgent_of(taken)
        for _ in range(min(self._held_up, len(taken))):
            self._room.notify()
        return taken

    def _urgent_of(self, arrivals: Sequence[T]) -> int:
        return sum(not self._can_wait(arrival) for arrival in arrivals)

    def _fitting(self) -> int:
        """How many of the first arrivals share the next transaction."""
        left, seconds = GROUP_COMMIT_BYTES, 0.0
        fitting = in_time = min(len(self._waiting), self._most)
        for count, arrival in enumerate(islice(self._waiting, self._most)):
            left -= self._size(arrival)
            if left < 0:
                fitting = max(1, count)
                break
            seconds += self._calls(arrival)
            if seconds > GROUP_COMMIT_CALLS:
                in_time = min(in_time, max(1, count))
        return min(fitting, in_time) if seconds <= MOST_DIVIDED else fitting

    def _wait(self, count: int, timeout: float | None) -> None:
        """Wait until so many arrivals wait, or the queue is closed, or for so many seconds."""
        self._wake_at = count
        self._arrived.wait(timeout)
        self._wake_at = 0
