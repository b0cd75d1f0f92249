"""A bounded dictionary for what never changes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

V = TypeVar("V")


class BoundedDict(OrderedDict[str, V]):
    """Forgets what was put in first when there is too much. Readers and writers of several threads may use it."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, name: str, value: V) -> None:
        super().__setitem__(name, value)
        while len(self) > self._most:
            self.popitem(last=False)
