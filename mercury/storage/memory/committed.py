"""The committed state of an in-memory store."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import chain, islice

from mercury.storage.letters import DeadLetter
from mercury.storage.memory.invoker_committed import CommittedInvoker
from mercury.storage.memory.rmd_committed import CommittedRmd
from mercury.storage.memory.rms_committed import CommittedRms
from mercury.storage.peer_stores import PeerStore


class CountedLetters:
    """The bytes of the dead letters of each peer."""

    def __init__(self) -> None:
        self.sequences: Counter[str] = Counter()
        self.owners: Counter[str] = Counter()
        self.every = 0

    def add(self, letter: DeadLetter, sign: int) -> None:
        """Add the size of a dead letter (``sign`` 1), or subtract it (-1)."""
        if letter.owner is None:
            return
        size = sign * letter.size
        self.every += size
        for counter, name in ((self.sequences, letter.sequence or ""), (self.owners, letter.owner)):
            counter[name] += size
            if not counter[name]:
                del counter[name]


class Committed:
    """The committed state of a store. Callers hold the store's mutex while they read or change it."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.rmd = CommittedRmd()
        self.invoker = CommittedInvoker()
        self.rms = CommittedRms()
        self.dead_letters: dict[str, DeadLetter] = {}
        self.letter_bytes = CountedLetters()
        #: The pieces of each part, by `Attachments.id` and place.
        self.attachments: dict[str, dict[int, list[bytes]]] = {}
        #: Expiry times by digest; see `ReplayCache`.
        self.replay: dict[str, float] = {}
        #: By endpoint.
        self.peer_stores: dict[str, PeerStore] = {}
        self._position = 0

    def remove_attachments(self, limit: int) -> int:
        """As `RetentionStore.remove_attachments`."""
        if not self.attachments:
            return 0
        received = (row.attachments for buffer in self.invoker.buffers.values() for row in buffer.rows.values())
        sent = (row.attachments for data in self.rms.keys.values() for row in data.rows.values())
        dead = (letter.attachments for letter in self.dead_letters.values())
        used = {each.id for each in chain(received, sent, dead) if each is not None}
        gone = list(islice((name for name in self.attachments if name not in used), limit))
        for name in gone:
            del self.attachments[name]
        return len(gone)

    def next_position(self) -> int:
        """The next place in the order of insertion."""
        self._position += 1
        return self._position
