"""How many bytes of responses are stored, as far as this process can tell without asking the store."""

from __future__ import annotations

import threading
from collections import OrderedDict


class StoredResponses:
    """What the store said of each peer when it was asked last, and what this process has stored since.

    What peers have acknowledged since then is not taken off: the store has that much of this process, or less. Safe
    to be used by many threads.

    :param most: how many peers are known, the latest ones.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._owners: OrderedDict[str, int] = OrderedDict()
        self._every = 0

    def add(self, owner: str, size: int) -> None:
        """So many bytes of responses to this peer are stored, or will be."""
        with self._mutex:
            self._set(owner, self._owners.get(owner, 0) + size)
            self._every += size

    def know(self, owner: str, own: int, every: int) -> None:
        """The store has so many bytes for this peer, and for all of them."""
        with self._mutex:
            self._set(owner, own)
            self._every = every

    def few(self, owner: str, own: int, every: int) -> bool:
        """Whether there are no more than these for this peer, and for all of them."""
        with self._mutex:
            return self._owners.get(owner, 0) <= own and self._every <= every

    def _set(self, owner: str, size: int) -> None:
        self._owners[owner] = size
        self._owners.move_to_end(owner)
        while len(self._owners) > self._most:
            self._owners.popitem(last=False)
