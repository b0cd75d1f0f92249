"""How many sequences of a peer were made for a moment only: of such a sequence the store keeps nothing."""

from __future__ import annotations

import threading
from collections import Counter, deque


class Expired:
    """Whose sequences were forgotten just after they were made, because they were never used and their time was over.

    Only in this process. Safe to be used by many threads.

    :param most: how many are known in all, the latest ones.
    :param lasts: seconds for which one is known.
    """

    def __init__(self, most: int, lasts: float) -> None:
        self._lasts = lasts
        self._mutex = threading.Lock()
        self._owners: Counter[str] = Counter()
        self._times: deque[tuple[float, str]] = deque()
        self._most = most

    def add(self, owner: str, now: float) -> None:
        """One of this owner is forgotten."""
        with self._mutex:
            self._times.append((now, owner))
            self._owners[owner] += 1
            while len(self._times) > self._most:
                self._drop()

    def count(self, owner: str, now: float) -> int:
        """How many of this owner were forgotten a while ago or later."""
        with self._mutex:
            # What was in the future was there before the clock was set back.
            while self._times and not 0 <= now - self._times[0][0] < self._lasts:
                self._drop()
            return self._owners[owner]

    def _drop(self) -> None:
        _, owner = self._times.popleft()
        self._owners[owner] -= 1
        if not self._owners[owner]:
            del self._owners[owner]
