"""Virtual time: events in order, one after the other."""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections.abc import Callable
from random import Random

#: When the world begins: any moment does, as long as it is always the same.
EPOCH = 1_000_000_000.0


class SeededIds:
    """`Ids` that a seed replays."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def new(self) -> str:
        return f"urn:uuid:{self._chance.getrandbits(128):032x}"

    def chance(self) -> float:
        return self._chance.random()


class World:
    """The clock, the order of events, and the trace of what happened."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  chance has to be replayed, not unpredictable
        self.now = EPOCH
        self.events = 0
        #: Events happen in the middle of one.
        self.within = False
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._trace = hashlib.sha256()
        #: Set to get every line of the trace.
        self.tell: Callable[[str], None] | None = None

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the beginning."""
        return self.now - EPOCH

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time; of two at the same time the one planned first comes first."""
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def run(self, until: float, enough: Callable[[], bool] | None = None) -> None:
        """Let events happen until a time, until none is left, or until it is ``enough``."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            self.events += 1
            action()
            if enough is not None and self.events % 16 == 0 and enough():
                return
        if not self._queue or self._queue[0][0] > until:
            self.now = max(self.now, until)

    def run_within(self, until: float) -> None:
        """Let events happen in the middle of one."""
        self.within = True
        try:
            self.run(until)
        finally:
            self.within = False

    def log(self, line: str) -> None:
        """Add a line to the trace."""
        stamped = f"{self.elapsed:.6f} {line}"
        self._trace.update(stamped.encode())
        if self.tell is not None:
            self.tell(stamped)

    def digest(self) -> str:
        """The same for the same trace."""
        return self._trace.hexdigest()
