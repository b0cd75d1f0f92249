"""Two-phase locking of sequence objects, with the lock order checked."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable

from mercury.errors import TransientStorageError
from mercury.storage.api import LockOrderError
from mercury.storage.order import NAMES


class LockTable:
    """The sequence objects that transactions have locked. Unlocked ones leave nothing: peers name many objects."""

    def __init__(self, timeout: float) -> None:
        #: Limit on a wait for a lock, in seconds.
        self.timeout = timeout
        self._mutex = threading.Lock()
        self._freed = threading.Condition(self._mutex)
        self._locked: set[tuple[int, str]] = set()
        #: The number of transactions that wait for a lock.
        self._waiting = 0

    def acquire(self, kind: int, name: str, *, wait: bool = True) -> bool:
        """Lock an object. ``False`` = the object was not unlocked within `timeout`."""
        wanted = (kind, name)
        with self._mutex:
            if wanted in self._locked and not (wait and self._wait(wanted)):
                return False
            self._locked.add(wanted)
        return True

    def _wait(self, wanted: tuple[int, str]) -> bool:
        self._waiting += 1
        try:
            return self._freed.wait_for(lambda: wanted not in self._locked, self.timeout)
        finally:
            self._waiting -= 1

    def release(self, objects: Collection[tuple[int, str]]) -> None:
        """Unlock objects that are held."""
        with self._mutex:
            self._locked.difference_update(objects)
            if self._waiting:
                self._freed.notify_all()


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
        for name in self._in_order(names):
            if not self._acquire(kind, name, wait=True):
                raise TransientStorageError(f"{NAMES[kind]} {name} was not unlocked within {self._table.timeout} s")

    def acquire_free(self, kind: int, names: Iterable[str]) -> list[str]:
        """As `acquire` for those that no other transaction has locked. Returns those that this transaction holds.

        :raises LockOrderError: an object comes before one that is held already.
        """
        return [name for name in self._in_order(names) if self._acquire(kind, name, wait=False)]

    @staticmethod
    def _in_order(names: Iterable[str]) -> Collection[str]:
        wanted = set(names)
        return sorted(wanted) if len(wanted) > 1 else wanted

    def _acquire(self, kind: int, name: str, *, wait: bool) -> bool:
        """Lock an object, unless this transaction holds it. Returns whether it is locked now."""
        if (kind, name) in self._held:
            return True
        if (kind, name) < self._highest:
            held = f"{NAMES[self._highest[0]]} {self._highest[1]}"
            raise LockOrderError(f"{NAMES[kind]} {name} is locked after {held}")
        if not self._table.acquire(kind, name, wait=wait):
            return False
        self._held[kind, name] = None
        self._highest = (kind, name)
        return True

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

    @property
    def any(self) -> bool:
        """Whether a lock is held, or counted as held."""
        return bool(self._held)

    def release(self) -> None:
        if self._held:
            self._table.release(self._held)
            self._held.clear()
