"""Counts sequences that expired unused soon after they were created; the store keeps no row of them."""

from __future__ import annotations

import threading
from collections import Counter, deque


class Expired:
    """The owners of sequences that were never used, expired and were forgotten without a tombstone.

    Each process counts its own. Thread-safe.

    :param most: how many sequences are counted in all; the latest ones are.
    :param lasts: how long a sequence is counted, in seconds.
    """

    def __init__(self, most: int, lasts: float) -> None:
        self._lasts = lasts
        self._mutex = threading.Lock()
        self._owners: Counter[str] = Counter()
        self._times: deque[tuple[float, str]] = deque()
        self._most = most

    def add(self, owner: str, now: float) -> None:
        """A sequence of this owner was forgotten."""
        with self._mutex:
            self._times.append((now, owner))
            self._owners[owner] += 1
            while len(self._times) > self._most:
                self._drop()

    def count(self, owner: str, now: float) -> int:
        """How many sequences of this owner were forgotten in the last ``lasts`` seconds."""
        with self._mutex:
            # A time in the future was recorded before the clock was set back.
            while self._times and not 0 <= now - self._times[0][0] < self._lasts:
                self._drop()
            return self._owners[owner]

    def _drop(self) -> None:
        _, owner = self._times.popleft()
        self._owners[owner] -= 1
        if not self._owners[owner]:
            del self._owners[owner]
