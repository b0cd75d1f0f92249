"""Random faults on both sides, each ended after a while."""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chaos.kinds import Side
from tests.chaos.soak.network import Cut
from tests.chaos.soak.stage import LEASE, Process, Stage, State

Undo = Callable[[], bool]

#: The relative frequency of each fault.
SHARES = {"kill": 4, "suspend": 3, "end_backends": 4, "kill_postgres": 2, "cut": 3}
#: The longest time until a killed process or PostgreSQL is restarted, and the longest cut of the network, in seconds.
DOWNTIME, CUT = 2.0, 6.0
#: The shortest and longest stop of a process, in leases.
STOP = 1.2, 2.5
#: After this share of the time the first process of each side is not killed any more, so that its memory is measured.
SPARED_AFTER = 0.1


@dataclass(slots=True, kw_only=True)
class Faults:
    """Causes faults at random times. All methods are called by one thread."""

    stage: Stage
    chance: random.Random
    #: The mean time between two faults, and the duration of the faulty phase, in seconds.
    every: float
    lasting: float
    counts: Counter[str] = field(default_factory=Counter)
    _begun: float = field(default_factory=time.monotonic)
    _next: float = 0.0
    _undoing: list[tuple[float, int, Undo]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def turn(self) -> None:
        """End the faults whose time is over, and cause one that is due."""
        now = time.monotonic()
        self._undo(now)
        if now >= self._next:
            if self._next:
                self.strike()
            pause = self.chance.expovariate(1 / self.every)
            self._next = time.monotonic() + min(max(pause, 0.2 * self.every), 3 * self.every)

    def strike(self) -> None:
        """Cause a random fault."""
        (kind,) = self.chance.choices(tuple(SHARES), tuple(SHARES.values()))
        done = getattr(self, f"_{kind}")()
        if done:
            self.counts[done] += 1

    def make_good(self) -> None:
        """End all faults."""
        while self._undoing:
            self._undo(float("inf"))
            time.sleep(0.05)

    # --- the faults; they return a description, or an empty text if the fault was not possible now --------------------

    def _kill(self) -> str:
        spared = time.monotonic() - self._begun > SPARED_AFTER * self.lasting
        there = [
            each for each in self.stage.processes if each.state is not State.DOWN and not (spared and each.number == 1)
        ]
        if not there:
            return ""
        process = self.chance.choice(there)
        self.stage.kill(process)
        self._later(self.chance.uniform(0.0, DOWNTIME), lambda: self._start(process))
        return f"SIGKILL of a {process.side.value}"

    def _start(self, process: Process) -> bool:
        self.stage.start(process)
        return True

    def _suspend(self) -> str:
        there = [each for each in self.stage.processes if each.state is State.RUNS]
        if not there:
            return ""
        process = self.chance.choice(there)
        fork = process.fork
        self.stage.stop(process)

        def go_on() -> bool:
            if process.fork is fork and process.state is State.STOPPED:  # it was not killed meanwhile
                self.stage.go_on(process)
            return True

        self._later(self.chance.uniform(*STOP) * LEASE, go_on)
        return f"SIGSTOP of a {process.side.value} past its lease"

    def _end_backends(self) -> str:
        side = self.chance.choice(list(Side))
        if side in self.stage.away:
            return ""
        most, busy = self.chance.randint(1, 4), self.chance.random() < 0.6
        ended = self.stage.end_backends(side, most, busy=busy, chance=self.chance)
        self.counts[f"backends of the {side.value} ended"] += ended
        return f"pg_terminate_backend at the {side.value}" if ended else ""

    def _kill_postgres(self) -> str:
        side = self.chance.choice(list(Side))
        if side in self.stage.away:
            return ""
        self.stage.kill_postgres(side)
        self._later(self.chance.uniform(0.0, DOWNTIME), lambda: self.stage.start_postgres(side))
        return f"stop of the {side.value}'s PostgreSQL"

    def _cut(self) -> str:
        side = self.chance.choice(list(Side))
        cut = self.chance.choice([each for each in Cut if each is not Cut.NOTHING])
        route = self.stage.network.routes[side]
        if route.cut is not Cut.NOTHING:
            return ""
        route.cut = cut

        def mend() -> bool:
            route.cut = Cut.NOTHING
            return True

        self._later(self.chance.uniform(0.5, CUT), mend)
        return f"network to the {side.value} cut: {cut.value}"

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _later(self, seconds: float, undo: Undo) -> None:
        heapq.heappush(self._undoing, (time.monotonic() + seconds, next(self._numbers), undo))

    def _undo(self, now: float) -> None:
        while self._undoing and self._undoing[0][0] <= now:
            _, _, undo = heapq.heappop(self._undoing)
            if not undo():
                self._later(0.5, undo)
                return
