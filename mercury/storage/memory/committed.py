"""Everything that is committed in memory."""

from __future__ import annotations

import threading
from collections import Counter

from mercury.storage.memory.invoker_committed import CommittedInvoker
from mercury.storage.memory.rmd_committed import CommittedRmd
from mercury.storage.memory.rms_committed import CommittedRms
from mercury.storage.records import DeadLetter


class CountedLetters:
    """What dead letters take that peers have caused."""

    def __init__(self) -> None:
        self.sequences: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.owners: Counter[str] = Counter()
        self.every = 0

    def add(self, letter: DeadLetter, sign: int) -> None:
        """Count one, or with -1 no longer."""
        if letter.owner is None:
            return
        size = sign * letter.size
        self.every += size
        counted = ((self.sequences, letter.sequence or "", size), (self.owners, letter.owner, size))
        for counter, name, much in (*counted, (self.counts, letter.owner, sign)):
            counter[name] += much
            if not counter[name]:
                del counter[name]


class Committed:
    """The committed state of a store. Whoever reads or changes it holds the mutex."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.rmd = CommittedRmd()
        self.invoker = CommittedInvoker()
        self.rms = CommittedRms()
        self.dead_letters: dict[str, DeadLetter] = {}
        self.letter_bytes = CountedLetters()
        self._position = 0

    def next_position(self) -> int:
        """The next place in the order of insertion."""
        self._position += 1
        return self._position
