"""Virtual time: runs planned events in the order of their times."""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections.abc import Callable
from random import Random

#: The virtual time at the start, in seconds since the epoch. Its value does not matter; it must be constant.
EPOCH = 1_000_000_000.0


class SeededIds:
    """`Ids` from a seeded random generator."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def new(self) -> str:
        return f"urn:uuid:{self._chance.getrandbits(128):032x}"

    def chance(self) -> float:
        return self._chance.random()


class World:
    """The clock, the planned events, and the trace of a simulation."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  chance has to be replayed, not unpredictable
        self.now = EPOCH
        self.events = 0
        #: Whether `run_within` runs: other events run inside one event.
        self.within = False
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._trace = hashlib.sha256()
        #: Called with every line of the trace; ``None`` = the lines are only hashed.
        self.on_line: Callable[[str], None] | None = None

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the beginning."""
        return self.now - EPOCH

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Plan an action; actions at the same time run in the order in which they were planned."""
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Plan an action, ``delay`` seconds from now: 0 or more."""
        heapq.heappush(self._queue, (self.now + delay, next(self._order), action))

    def run(self, until: float, enough: Callable[[], bool] | None = None) -> None:
        """Run events until a time, until none is left, or until ``enough`` returns true."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, action = heapq.heappop(queue)
            self.events += 1
            action()
            if enough is not None and self.events % 16 == 0 and enough():
                return
        if not queue or queue[0][0] > until:
            self.now = max(self.now, until)

    def run_within(self, until: float) -> None:
        """Run events inside a running event, until a time."""
        self.within = True
        try:
            self.run(until)
        finally:
            self.within = False

    def log(self, line: str) -> None:
        """Add a line to the trace."""
        stamped = f"{self.elapsed:.6f} {line}"
        self._trace.update(stamped.encode())
        if self.on_line is not None:
            self.on_line(stamped)

    def digest(self) -> str:
        """A digest of the trace so far."""
        return self._trace.hexdigest()
