"""The arguments of a call, which may come from another machine."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from mercury.choices import member

E = TypeVar("E", bound=enum.Enum)

#: The most items of a list that a caller over HTTP gets or gives at once, and the most characters of a text.
MOST_ITEMS, MOST_CHARACTERS = 1000, 4_000_000
#: Items of a list unless the caller says how many.
ITEMS = 100


class Arguments:
    """Arguments by name, each checked when it is read. Every method raises `ValueError`, with the name, for a value of
    another type or range.

    :param most: the largest value of ``limit``, and the longest list.
    """

    def __init__(self, given: Mapping[str, object], most: int = MOST_ITEMS) -> None:
        self._given = given
        self._most = most

    def only(self, names: Iterable[str]) -> None:
        """Check that there is no other argument: one that is misspelt must not be ignored."""
        unknown = sorted(set(self._given) - set(names))
        if unknown:
            raise ValueError(f"there is no argument {unknown[0]!r}")

    def text(self, name: str) -> str | None:
        """A text; ``None`` = it is left out."""
        value = self._given.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > MOST_CHARACTERS or "\0" in value):
            raise ValueError(f"{name} is not a text")
        return value

    def needed(self, name: str) -> str:
        """A text that is not left out."""
        value = self.text(name)
        if value is None:
            raise ValueError(f"{name} is missing")
        return value

    def texts(self, name: str) -> frozenset[str] | None:
        """A list of texts; ``None`` = it is left out."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > self._most or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{name} is not a list of at most {self._most} texts")
        return frozenset(value)

    def flag(self, name: str) -> bool:
        """True or false; false if it is left out."""
        value = self._given.get(name, False)
        if not isinstance(value, bool):
            raise ValueError(f"{name} is neither true nor false")
        return value

    def seconds(self, name: str) -> float | None:
        """A time in seconds since the epoch; ``None`` = it is left out."""
        value = self._given.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is not a number of seconds")
        return float(value)

    def choice(self, name: str, kind: type[E]) -> E | None:
        """A value of an enumeration; ``None`` = it is left out."""
        value = self.text(name)
        return None if value is None else member(kind, value, name)

    def limit(self) -> int:
        """The largest number of items."""
        value = self._given.get("limit", ITEMS)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= self._most:
            raise ValueError(f"limit is not a number between 1 and {self._most}")
        return value
