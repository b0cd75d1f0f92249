"""Fair scheduling: peers take turns at the application, whatever number of sequences each of them has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mercury.engine.context import EngineContext
from mercury.storage.claims import WorkFilter


class Turns:
    """Who had the last turn, and which buffers the threads of this process work on."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._mutex = threading.Lock()
        self._busy: set[str] = set()
        #: The peer whose turn was last, of all threads.
        self._last = ""

    @property
    def work_filter(self) -> WorkFilter:
        return WorkFilter(self._context.claims.owner, self._context.application.services(), self._last)

    def next(self, now: float) -> dict[str, str]:
        """What is due, with its peers: first a sequence of that peer which comes after the one with the last turn."""
        return self._context.store.due_invoker(now, self._context.settings.sequence_batch, self.work_filter)

    def taken(self, peer: str) -> None:
        """A thread works on a buffer of this peer."""
        self._last = peer

    @contextmanager
    def alone(self, sequence: str) -> Iterator[bool]:
        """The claim belongs to the process; within it one thread works on a buffer."""
        with self._mutex:
            alone = sequence not in self._busy
            self._busy.add(sequence)
        try:
            yield alone
        finally:
            if alone:
                with self._mutex:
                    self._busy.discard(sequence)
