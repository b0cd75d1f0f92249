"""Fair scheduling of peers at the application, independent of the number of sequences that each has."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from mercury.engine.context import EngineContext
from mercury.engine.cool_down import CoolDown
from mercury.storage.claims import WorkFilter


@dataclass(frozen=True, slots=True)
class Due:
    """The buffers that were due at a query."""

    #: Their sequences with their peers, in the order of service.
    sequences: Mapping[str, str]
    #: Whether these are all that were due.
    complete: bool
    #: The number of the query.
    asked: int


class Turns:
    """The peer that was served last, and the buffers that threads of this process work on."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._mutex = threading.Lock()
        #: Notified when buffers are not reserved any more, if a thread waits for that.
        self._freed = threading.Condition(self._mutex)
        self._waiting = 0
        #: The buffers that threads wait for in `wait_for`.
        self._wanted: Counter[str] = Counter()
        self._busy: set[str] = set()
        #: Those of them whose threads go on although arrivals wait.
        self._going_on: set[str] = set()
        #: The peer that any thread served last.
        self._last = ""
        #: The services that a limit on their rate held back at the last turn, and until when.
        self._held: dict[str, float] = {}
        #: The number of the last query, and those whose buffers are still worked on.
        self._asked = 0
        self._open: set[int] = set()
        #: Buffers that were served since the first of these began, with the number of the last query before that.
        self._served: dict[str, int] = {}

    @property
    def work_filter(self) -> WorkFilter:
        services = self._context.application.services()
        if self._held:
            services -= self._held.keys()
        return WorkFilter(self._context.claims.owner, services, self._last)

    def ready_at(self) -> float | None:
        """When calls of a service that a limit on its rate has held back may go on; ``None`` = there is none."""
        return min(self._held.values(), default=None)

    @contextmanager
    def next(self, now: float, cool_down: CoolDown) -> Iterator[Due]:
        """The due sequences, in the order of service: first one of the peer after the last served one.

        :param cool_down: sequences that wait in it are omitted, and those that have failed take at most half of the
        places, so that the others continue.
        """
        with self._mutex:
            self._asked += 1
            asked, busy = self._asked, len(self._busy)
            self._open.add(asked)
        try:
            limit = self._context.settings.sequence_batch
            if self._context.rates is not None:
                self._held = self._context.rates.waiting(now)
            due = self._context.store.due_invoker(now, limit + busy + cool_down.count, self.work_filter)
            ready = {sequence: peer for sequence, peer in due.items() if not cool_down.waits(sequence, now)}
            failed = [sequence for sequence in ready if cool_down.has_failed(sequence)]
            for sequence in failed[max(1, limit // 2) :]:
                del ready[sequence]
            complete = len(ready) < limit and not cool_down.count
            yield Due(dict(islice(ready.items(), limit + busy)), complete, asked)
        finally:
            with self._mutex:
                self._open.discard(asked)
                first = min(self._open, default=self._asked + 1)
                if self._served:
                    self._served = {sequence: last for sequence, last in self._served.items() if last >= first}

    def taken(self, peer: str) -> None:
        """Note that a thread serves this peer."""
        self._last = peer

    @contextmanager
    def alone(self, sequences: Collection[str], due: Due | None = None, most: int | None = None) -> Iterator[list[str]]:
        """Reserve buffers for one thread, as the claim belongs to the whole process; yields those that it gets.

        :param due: the query that found them: what was served since it began is left out.
        :param most: the most that are reserved; ``None`` = all.
        """
        asked = None if due is None else due.asked
        with self._mutex:
            free = (each for each in sequences if each not in self._busy and not self._is_past(each, asked))
            mine = list(islice(free, most))
            self._busy.update(mine)
        try:
            yield mine
        finally:
            with self._mutex:
                self._busy.difference_update(mine)
                self._going_on.difference_update(mine)
                if self._waiting:
                    self._freed.notify_all()

    def wait_for(self, sequences: Collection[str], seconds: float) -> bool:
        """Wait until no thread works on these buffers, except those that go on. Returns whether that is so.

        :param seconds: the longest wait.
        """
        with self._mutex:
            self._waiting += 1
            self._wanted.update(sequences)
            try:
                return self._freed.wait_for(lambda: not self._is_awaited(sequences), seconds)
            finally:
                self._waiting -= 1
                self._wanted -= Counter(sequences)

    def _is_awaited(self, sequences: Collection[str]) -> bool:
        return any(each in self._busy and each not in self._going_on for each in sequences)

    def go_on(self, sequence: str, *, goes_on: bool) -> None:
        """Note whether the thread that works on a reserved buffer goes on although arrivals wait: then none waits."""
        if goes_on != (sequence in self._going_on):
            with self._mutex:
                (self._going_on.add if goes_on else self._going_on.discard)(sequence)
                if self._waiting:
                    self._freed.notify_all()

    def is_wanted(self, sequence: str) -> bool:
        """Whether arrivals wait for a reserved buffer: they are delivered with what waits in it, and need not be stored
        before."""
        return sequence in self._wanted

    def served(self, sequences: Collection[str]) -> None:
        """Note that these reserved buffers were worked on: what queries have found before may be done."""
        with self._mutex:
            self._served |= dict.fromkeys(sequences, self._asked)

    def is_past(self, sequence: str, due: Due) -> bool:
        """Whether a buffer was served since the query that found it began."""
        with self._mutex:
            return self._is_past(sequence, due.asked)

    def _is_past(self, sequence: str, asked: int | None) -> bool:
        return asked is not None and self._served.get(sequence, 0) >= asked
