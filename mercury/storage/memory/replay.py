"""Messages with WS-Security that were received, in memory."""

from __future__ import annotations

from collections.abc import Mapping

from mercury.errors import Conflict
from mercury.storage.memory.committed import Committed


class MemoryReplay:
    """`ReplayCache` of one transaction."""

    def __init__(self, committed: Committed) -> None:
        self._mutex = committed.mutex
        self._committed = committed.replay
        self.added: dict[str, float] = {}

    def add(self, digests: Mapping[str, float]) -> frozenset[str]:
        with self._mutex:
            known = frozenset(digest for digest in digests if digest in self._committed or digest in self.added)
        self.added |= {digest: expires for digest, expires in digests.items() if digest not in known}
        return known

    def check(self) -> None:
        for digest in self.added:
            if digest in self._committed:
                raise Conflict("another transaction has recorded the same message")

    def install(self) -> None:
        self._committed.update(self.added)
