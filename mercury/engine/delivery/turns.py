"""Fair scheduling of peers at the application, independent of the number of sequences that each has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from mercury.engine.context import EngineContext
from mercury.engine.cool_down import CoolDown
from mercury.storage.claims import WorkFilter


class Turns:
    """The peer that was served last, and the buffers that threads of this process work on."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._mutex = threading.Lock()
        self._busy: set[str] = set()
        #: The peer that any thread served last.
        self._last = ""
        #: The services that a limit on their rate held back at the last turn, and until when.
        self._held: dict[str, float] = {}

    @property
    def work_filter(self) -> WorkFilter:
        services = self._context.application.services()
        if self._held:
            services -= self._held.keys()
        return WorkFilter(self._context.claims.owner, services, self._last)

    def ready_at(self) -> float | None:
        """When calls of a service that a limit on its rate has held back may go on; ``None`` = there is none."""
        return min(self._held.values(), default=None)

    def next(self, now: float, cool_down: CoolDown) -> dict[str, str]:
        """The due sequences with their peers, in the order of service: first one of the peer after the last served one.

        :param cool_down: sequences that wait in it are omitted, and those that have failed take at most half of the
        places, so that the others continue.
        """
        limit = self._context.settings.sequence_batch
        if self._context.rates is not None:
            self._held = self._context.rates.waiting(now)
        due = self._context.store.due_invoker(now, limit + cool_down.count, self.work_filter)
        ready = {sequence: peer for sequence, peer in due.items() if not cool_down.waits(sequence, now)}
        failed = [sequence for sequence in ready if cool_down.has_failed(sequence)]
        for sequence in failed[max(1, limit // 2) :]:
            del ready[sequence]
        return dict(islice(ready.items(), limit))

    def taken(self, peer: str) -> None:
        """Note that a thread serves this peer."""
        self._last = peer

    @contextmanager
    def alone(self, sequence: str) -> Iterator[bool]:
        """Reserve a buffer for one thread, as the claim belongs to the whole process; yields ``False`` if it is
        taken."""
        with self._mutex:
            alone = sequence not in self._busy
            self._busy.add(sequence)
        try:
            yield alone
        finally:
            if alone:
                with self._mutex:
                    self._busy.discard(sequence)
