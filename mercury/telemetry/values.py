"""The values that a process has counted and measured. Exporters read them when they are asked."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from mercury.telemetry.instruments import Instrument

#: The values of an instrument's attributes, in its order.
Labels: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class Distribution:
    """One series of a histogram."""

    #: The numbers of values up to each bound, and above the last one; not cumulated.
    counts: list[int]
    sum: float = 0.0

    def copy(self) -> Distribution:
        return Distribution(list(self.counts), self.sum)


@dataclass(slots=True)
class Counter:
    """The series of one counter. Thread-safe."""

    instrument: Instrument
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _series: dict[Labels, int] = field(default_factory=dict)

    def add(self, many: int, *labels: str) -> None:
        with self._mutex:
            self._series[labels] = self._series.get(labels, 0) + many

    def read(self) -> Iterator[tuple[Labels, int]]:
        """The series, as of now."""
        with self._mutex:
            found = dict(self._series)
        yield from found.items()


@dataclass(slots=True)
class Histogram:
    """The series of one histogram. Thread-safe."""

    instrument: Instrument
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _series: dict[Labels, Distribution] = field(default_factory=dict)

    def record(self, value: float, labels: Labels, many: int = 1) -> None:
        """Count a value, ``many`` times."""
        self.record_all((value,), labels, many)

    def record_all(self, values: tuple[float, ...] | list[float], labels: Labels, many: int = 1) -> None:
        """Count values, each ``many`` times."""
        bounds = self.instrument.buckets
        with self._mutex:
            found = self._series.get(labels)
            if found is None:
                found = self._series[labels] = Distribution([0] * (len(bounds) + 1))
            counts = found.counts
            for value in values:
                counts[bisect_left(bounds, value)] += many
            found.sum += sum(values) * many

    def read(self) -> Iterator[tuple[Labels, Distribution]]:
        """The series, as of now."""
        with self._mutex:
            found = {labels: each.copy() for labels, each in self._series.items()}
        yield from found.items()
