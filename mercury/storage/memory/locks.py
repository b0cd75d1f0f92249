"""Two-phase locking of sequence objects, with the lock order checked."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from mercury.errors import TransientStorageError
from mercury.storage.api import LockOrderError
from mercury.storage.order import NAMES


class _Shared:
    """A lock, and the number of transactions that hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


class LockTable:
    """One lock for each sequence object that is held or waited for. Unused locks are dropped: peers name many
    objects."""

    def __init__(self, timeout: float) -> None:
        #: Limit on a wait for a lock, in seconds.
        self.timeout = timeout
        self._mutex = threading.Lock()
        self._locks: dict[tuple[int, str], _Shared] = {}

    def acquire(self, kind: int, name: str, *, wait: bool = True) -> bool:
        """Lock an object. ``False`` = the object was not unlocked within `timeout`."""
        with self._mutex:
            shared = self._locks.get((kind, name))
            if shared is None:
                shared = self._locks[kind, name] = _Shared()
            shared.users += 1
        acquired = False
        try:
            acquired = shared.lock.acquire(timeout=self.timeout) if wait else shared.lock.acquire(blocking=False)
        finally:
            if not acquired:
                self._leave(kind, name)
        return acquired

    def release(self, kind: int, name: str) -> None:
        """Unlock an object that is held."""
        self._leave(kind, name).lock.release()

    def _leave(self, kind: int, name: str) -> _Shared:
        with self._mutex:
            shared = self._locks[kind, name]
            shared.users -= 1
            if not shared.users:
                del self._locks[kind, name]
        return shared


class HeldLocks:
    """The locks of one transaction. All are held until its end."""

    def __init__(self, table: LockTable) -> None:
        self._table = table
        self._held: dict[tuple[int, str], None] = {}
        self._highest: tuple[int, str] = (-1, "")

    def acquire(self, kind: int, names: Iterable[str]) -> None:
        """Lock these objects in ascending order; skip those that this transaction holds.

        :raises LockOrderError: an object comes before one that is held already.
        :raises TransientStorageError: a lock was not acquired within the limit.
        """
        wanted = set(names)
        for name in sorted(wanted) if len(wanted) > 1 else wanted:
            if (kind, name) in self._held:
                continue
            if (kind, name) < self._highest:
                held = f"{NAMES[self._highest[0]]} {self._highest[1]}"
                raise LockOrderError(f"{NAMES[kind]} {name} is locked after {held}")
            if not self._table.acquire(kind, name):
                raise TransientStorageError(f"{NAMES[kind]} {name} was not unlocked within {self._table.timeout} s")
            self._held[kind, name] = None
            self._highest = (kind, name)

    def adopt(self, kind: int, name: str) -> None:
        """Hold an object that this transaction makes; no other transaction can know it."""
        if (kind, name) not in self._held and self._table.acquire(kind, name, wait=False):
            self._held[kind, name] = None

    def holds(self, kind: int, name: str) -> bool:
        return (kind, name) in self._held

    def require(self, kind: int, name: str) -> None:
        """Check that this transaction holds the lock of an object that it changes.

        :raises LockOrderError: the object is not locked.
        """
        if not self.holds(kind, name):
            raise LockOrderError(f"{name} is changed without its lock")

    def release(self) -> None:
        for kind, name in self._held:
            self._table.release(kind, name)
        self._held.clear()
