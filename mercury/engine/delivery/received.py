"""The sequences whose messages arrive at this process, where several processes work on a store."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from mercury.bounded import BoundedDict

#: Seconds after its last arrival for which a sequence counts as one that arrives here.
LATELY = 5.0
#: The most sequences that are remembered.
MOST = 10_000


class Received:
    """Remembers when something of each sequence arrived last. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._at: BoundedDict[str, float] = BoundedDict(MOST)

    def note(self, sequences: Iterable[str], at: float) -> None:
        """Something of these sequences has arrived.

        :param at: seconds of a monotonic clock.
        """
        with self._mutex:
            for sequence in sequences:
                self._at[sequence] = at

    def lately(self, sequence: str, now: float) -> bool:
        """Whether something of a sequence has arrived in the last seconds.

        :param now: seconds of the same clock.
        """
        at = self._at.get(sequence)
        return at is not None and now - at < LATELY
