"""Everything that is committed in memory."""

from __future__ import annotations

import threading

from mercury.storage.memory.invoker_committed import CommittedInvoker
from mercury.storage.memory.rmd_committed import CommittedRmd
from mercury.storage.memory.rms_committed import CommittedRms
from mercury.storage.records import DeadLetter


class Committed:
    """The committed state of a store. Whoever reads or changes it holds the mutex."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.rmd = CommittedRmd()
        self.invoker = CommittedInvoker()
        self.rms = CommittedRms()
        self.dead_letters: dict[str, DeadLetter] = {}
        self._position = 0

    def next_position(self) -> int:
        """The next place in the order of insertion."""
        self._position += 1
        return self._position
