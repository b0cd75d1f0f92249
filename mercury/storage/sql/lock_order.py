"""The locks that one unit of work holds, in the order of all locks."""

from __future__ import annotations

from collections.abc import Sequence

from mercury.storage.api import LockOrderError
from mercury.storage.order import NAMES


class LockOrder:
    """The locks that one unit of work holds."""

    def __init__(self) -> None:
        self._locked: set[tuple[int, str]] = set()
        #: The last one in the order.
        self._highest = (-1, "")

    def to_lock(self, kind: int, names: Sequence[str]) -> list[str]:
        """Those of these names that this transaction has not locked yet, in lock order.

        :raises LockOrderError: an object that is later in the order is locked already.
        """
        wanted = sorted({name for name in names if (kind, name) not in self._locked})
        if wanted and (kind, wanted[0]) < self._highest:
            raise LockOrderError(f"{NAMES[kind]} {wanted[0]} is locked after {NAMES[self._highest[0]]}")
        return wanted

    def locked(self, kind: int, names: Sequence[str]) -> None:
        """Note that these objects are locked now."""
        for name in names:
            self._locked.add((kind, name))
            self._highest = max(self._highest, (kind, name))

    def adopt(self, kind: int, name: str) -> None:
        """Count a row as locked that this transaction inserts; no other transaction can know it."""
        self._locked.add((kind, name))

    def require(self, kind: int, name: str) -> None:
        """Check that a row is locked before it is changed."""
        if (kind, name) not in self._locked:
            raise LockOrderError(f"{NAMES[kind]} {name} is changed without its lock")
