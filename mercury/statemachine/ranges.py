"""Sets of message numbers, kept as ranges.

A sequence of a million messages with one hole is two ranges. All operations on one number are a binary search and
at most one insertion or removal, so none costs more than the number of ranges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


def as_text(ranges: Iterable[tuple[int, int]]) -> str:
    """Ranges of message numbers for people: ``1-7, 9``; empty text for no range."""
    return ", ".join(f"{low}-{high}" if low != high else str(low) for low, high in ranges)


class RangeSet:
    """A mutable set of positive integers as ascending, disjoint, non-adjacent closed ranges.

    Invariant: ``low[i] <= high[i]`` and ``high[i] + 1 < low[i + 1]``.
    """

    __slots__ = ("_highs", "_lows")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []
        for low, high in ranges:
            self.add(low, high)

    def add(self, low: int, high: int | None = None) -> bool:
        """Add one number, or the closed range ``low..high``. Returns whether anything was new.

        :raises ValueError: the range is empty or holds a number below 1.
        """
        if high is None:
            high = low
        if low < 1 or low > high:
            raise ValueError(f"not a range of message numbers: {low}..{high}")
        lows, highs = self._lows, self._highs
        first = bisect_left(highs, low - 1)
        last = bisect_right(lows, high + 1)
        if first == last:
            lows[first:first] = [low]  # faster than insert
            highs[first:first] = [high]
            return True
        if last - first == 1 and lows[first] <= low and high <= highs[first]:
            return False
        merged_low, merged_high = min(low, lows[first]), max(high, highs[last - 1])
        if last - first == 1:
            lows[first], highs[first] = merged_low, merged_high
        else:
            lows[first:last] = [merged_low]
            highs[first:last] = [merged_high]
        return True

    def update(self, other: Iterable[tuple[int, int]]) -> bool:
        """Add all ranges of ``other``. Returns whether anything was new."""
        changed = False
        for low, high in other:
            changed |= self.add(low, high)
        return changed

    def discard(self, low: int, high: int | None = None) -> None:
        """Remove one number or the closed range ``low..high``; numbers outside the set are ignored."""
        if high is None:
            high = low
        if low > high:
            return
        lows, highs = self._lows, self._highs
        first = bisect_left(highs, low)
        last = bisect_right(lows, high)
        if first >= last:
            return
        kept = [(lows[first], low - 1), (high + 1, highs[last - 1])]
        kept = [(a, b) for a, b in kept if a <= b]
        lows[first:last] = [a for a, _ in kept]
        highs[first:last] = [b for _, b in kept]

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._lows, number) - 1
        return index >= 0 and number <= self._highs[index]

    def covers(self, low: int, high: int) -> bool:
        """Whether every number of ``low..high`` is in the set; an empty range is covered."""
        if low > high:
            return True
        index = bisect_right(self._lows, low) - 1
        return index >= 0 and high <= self._highs[index]

    def touches(self, low: int, high: int) -> bool:
        """Whether ``low..high`` overlaps a range of the set or adjoins one: to add it makes no further range."""
        return bisect_left(self._highs, low - 1) != bisect_right(self._lows, high + 1)

    def gaps(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The ranges of ``low..high`` that are missing, ascending."""
        for index in range(bisect_left(self._highs, low), len(self._lows)):
            a, b = self._lows[index], self._highs[index]
            if a > high:
                break
            if low < a:
                yield low, a - 1
            low = max(low, b + 1)
        if low <= high:
            yield low, high

    def first_missing(self) -> int:
        """The lowest number from 1 that is not in the set."""
        return self._highs[0] + 1 if self._lows and self._lows[0] == 1 else 1

    @property
    def highest(self) -> int:
        """The highest number in the set, 0 when it is empty."""
        return self._highs[-1] if self._highs else 0

    @property
    def count(self) -> int:
        """How many numbers are in the set."""
        return sum(self._highs) - sum(self._lows) + len(self._lows)

    def copy(self) -> RangeSet:
        other = RangeSet.__new__(RangeSet)  # no __init__: this copy is on the hot path
        other._lows = self._lows.copy()
        other._highs = self._highs.copy()
        return other

    def as_tuples(self) -> tuple[tuple[int, int], ...]:
        """The ranges, ascending."""
        return tuple(zip(self._lows, self._highs, strict=True))

    def numbers(self) -> Iterator[int]:
        """Every number, ascending."""
        for low, high in self:
            yield from range(low, high + 1)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.as_tuples())

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self._lows)

    def __bool__(self) -> bool:
        return bool(self._lows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._lows == other._lows and self._highs == other._highs

    __hash__ = None  # type: ignore[assignment]  # mutable, so not a key

    def __repr__(self) -> str:
        return f"RangeSet({list(self)})"
