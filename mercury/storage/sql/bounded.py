"""A bounded dictionary for values that never change."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

V = TypeVar("V")


class BoundedDict(OrderedDict[str, V]):
    """Drops the oldest entry when it is full. Thread-safe."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, name: str, value: V) -> None:
        super().__setitem__(name, value)
        while len(self) > self._most:
            self.popitem(last=False)
