"""How long the calls of each service take: quick ones share a transaction, slow ones are called in parallel."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Collection

#: Seconds of a call, on average, up to which one thread takes all buffers that are due, and up to which it takes a part
#: of them. Above that it takes one.
QUICK, SLOW = 0.005, 0.02
#: After so many calls of a service, none of which was quick, it is slow.
FIRST_CALLS = 20
#: The part of the buffers that one thread takes, if calls may wait for something.
PART = 4
#: Seconds of calls after which a transaction with several buffers ends: other threads cannot take its buffers before.
TOGETHER_SECONDS = 0.2


class CallTimes:
    """The average times of the calls of each service; ``None`` = callbacks. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: How many calls were timed, by service; and the services that have had their first calls.
        self._calls: Counter[str | None] = Counter()
        self._begun: set[str | None] = set()
        #: Seconds of a call by service, and of a buffer.
        self._of_call: dict[str | None, float] = {}
        self._of_buffer = 0.0

    def took(self, services: Collection[str | None], seconds: float, calls: int, buffers: int) -> None:
        """Note how long so many calls of these services took, for the messages of so many buffers.

        One call weighs as much as all before, and several weigh more. The first calls of a process may take longer,
        because the application opens its connections in them: they weigh nothing as soon as one was quick.
        """
        if not calls:
            return
        each = seconds / calls
        with self._mutex:
            for service in services:
                before = self._of_call.get(service, each)
                self._calls[service] += calls
                if service not in self._begun and (each <= QUICK or self._calls[service] >= FIRST_CALLS):
                    self._begun.add(service)
                    before = each
                self._of_call[service] = before + (each - before) * calls / (calls + 1)
            self._of_buffer = (self._of_buffer + seconds / buffers) / 2

    def may_share(self, service: str | None) -> bool:
        """Whether calls of a service may share a transaction with those of other buffers."""
        return self._of_call.get(service, SLOW) < SLOW

    def is_quick(self, service: str | None) -> bool:
        """Whether calls of a service wait for nothing as far as is known: arrivals may wait for them."""
        longest = QUICK if service in self._begun else SLOW
        return self._of_call.get(service, math.inf) <= longest

    def knows(self, service: str | None) -> bool:
        """Whether calls of a service were timed."""
        return service in self._of_call

    def may_be_quick(self, service: str | None) -> bool:
        """Whether calls of a service are quick, or had no time to become so: those were its first ones."""
        return service not in self._begun or self.is_quick(service)

    def of_quick(self, service: str | None) -> float:
        """Seconds of a call of a service whose calls are quick (`is_quick`); 0 = they are not, or it is not known."""
        return self._of_call[service] if self.is_quick(service) else 0.0

    @property
    def are_quick(self) -> bool:
        """Whether no calls that may share a transaction wait for something: then other threads are of no use."""
        with self._mutex:
            return all(seconds <= QUICK for seconds in self._of_call.values() if seconds < SLOW)

    def most(self, due: int) -> int:
        """How many of so many due buffers one thread takes at once."""
        with self._mutex:
            if not any(seconds < SLOW for seconds in self._of_call.values()):
                return 1
            fitting = int(TOGETHER_SECONDS / max(self._of_buffer, TOGETHER_SECONDS / (due + 1)))
        return min(max(2, fitting), due if self.are_quick else -(-due // PART))
