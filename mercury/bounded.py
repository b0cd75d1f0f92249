"""A dictionary that keeps only the entries that were set last."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Drops the entry that was set longest ago when there are more than allowed. An entry that is set again, or moved
    (`move_to_end`), counts as the newest one.

    Any number of threads may set and read entries.

    :param most: how many entries it keeps.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        with contextlib.suppress(KeyError):  # another thread may have dropped it meanwhile
            self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
