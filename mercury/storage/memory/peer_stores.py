"""The stores of destinations, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mercury.errors import Conflict
from mercury.storage.memory.committed import Committed
from mercury.storage.peer_stores import PeerStore


class MemoryPeerStores:
    """`PeerStores` of one transaction."""

    def __init__(self, committed: Committed) -> None:
        self._mutex = committed.mutex
        self._committed = committed.peer_stores
        self.changed: dict[str, PeerStore] = {}
        #: What the transaction has read of the destinations that it changes.
        self._before: dict[str, PeerStore | None] = {}

    def get(self, endpoint: str) -> PeerStore | None:
        with self._mutex:
            return self.changed.get(endpoint) or self._committed.get(endpoint)

    def agree(self, endpoint: str, store: str, now: float) -> str:
        known = self.get(endpoint)
        if known is None:
            self._change(PeerStore(endpoint=endpoint, store=store, since=now))
            return store
        return known.store

    def refuse(self, endpoint: str, store: str, address: str, now: float) -> bool:
        known = self.get(endpoint)
        if known is None:
            return False
        self._change(replace(known, refused=store, refused_at=now, refused_address=address))
        return (known.refused, known.refused_address) != (store, address)

    def answers(self, endpoint: str, address: str) -> None:
        known = self.get(endpoint)
        if known is not None and known.refused_address == address:
            self._change(replace(known, refused=None, refused_at=None, refused_address=None))

    def replace(self, endpoint: str, store: str, now: float) -> None:
        if self.get(endpoint) is not None:
            self._change(PeerStore(endpoint=endpoint, store=store, since=now))

    def refused(self, limit: int) -> Sequence[PeerStore]:
        with self._mutex:
            found = [each for each in (self._committed | self.changed).values() if each.refused is not None]
        return sorted(found, key=lambda each: -(each.refused_at or 0.0))[:limit]

    def _change(self, row: PeerStore) -> None:
        with self._mutex:
            self._before.setdefault(row.endpoint, self._committed.get(row.endpoint))
        self.changed[row.endpoint] = row

    def check(self) -> None:
        for endpoint, before in self._before.items():
            if endpoint in self.changed and self._committed.get(endpoint) != before:
                raise Conflict("another transaction has changed the store of the same destination")

    def install(self) -> None:
        self._committed.update(self.changed)
