"""Counts what this process sends and delivers, for operators: see `mercury.storage.nodes.Traffic`."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mercury.engine.measurements import Measurements
from mercury.storage.nodes import Traffic


@dataclass(slots=True)
class _Sums:
    """The fields of `Traffic`, to be added to."""

    transmitted: int = 0
    repeated: int = 0
    received: int = 0
    delivered: int = 0
    calls: int = 0
    failures: int = 0
    seconds: float = 0.0

    def of(self, service: str) -> Traffic:
        return Traffic(
            service,
            self.transmitted,
            self.repeated,
            self.received,
            self.delivered,
            self.calls,
            self.failures,
            self.seconds,
        )


class TrafficCounter:
    """`Measurements` that keeps the sums since they were last taken, and passes everything on. Thread-safe.

    :param others: the metrics of the process; ``None`` = there are none.
    :param monotonic: returns the time of a monotonic clock, in seconds.
    """

    def __init__(self, others: Measurements | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._others = others
        self._monotonic = monotonic
        self._mutex = threading.Lock()
        #: By service.
        self._sums: defaultdict[str, _Sums] = defaultdict(_Sums)

    def take(self) -> tuple[Traffic, ...]:
        """What was counted since the last call, by service; empty = nothing."""
        with self._mutex:
            found, self._sums = self._sums, defaultdict(_Sums)
        return tuple(sums.of(service) for service, sums in found.items())

    def put_back(self, taken: Iterable[Traffic]) -> None:
        """Count again what was taken and could not be stored."""
        with self._mutex:
            for each in taken:
                sums = self._sums[each.service]
                sums.transmitted += each.transmitted
                sums.repeated += each.repeated
                sums.received += each.received
                sums.delivered += each.delivered
                sums.calls += each.calls
                sums.failures += each.failures
                sums.seconds += each.seconds

    # --- Measurements ----------------------------------------------------------------------------------------------

    def sent(self, endpoint: str) -> None:
        if self._others is not None:
            self._others.sent(endpoint)

    def transmitted(self, endpoint: str, sequence: str, highest: int, messages: int, *, again: bool) -> None:
        with self._mutex:
            sums = self._sums[""]
            if again:
                sums.repeated += messages
            else:
                sums.transmitted += messages
        if self._others is not None:
            self._others.transmitted(endpoint, sequence, highest, messages, again=again)

    def exchanged(self, endpoint: str, began: float, error: str) -> None:
        if self._others is not None:
            self._others.exchanged(endpoint, began, error)

    def accepted(self, services: Sequence[str | None]) -> None:
        with self._mutex:
            for service in services:
                self._sums[service or ""].received += 1
        if self._others is not None:
            self._others.accepted(services)

    def call_begins(self) -> float:
        return self._monotonic()

    def call_ended(self, began: float, service: str | None, calls: int, error: type[BaseException] | None) -> None:
        if calls:
            spent = max(0.0, self._monotonic() - began)
            with self._mutex:
                sums = self._sums[service or ""]
                sums.calls += calls
                sums.failures += error is not None
                sums.seconds += spent
        if self._others is not None:
            self._others.call_ended(began, service, calls, error)

    def delivered(
        self, service: str | None, received_at: Sequence[float], sent_at: Sequence[float | None] = ()
    ) -> None:
        with self._mutex:
            self._sums[service or ""].delivered += len(received_at)
        if self._others is not None:
            self._others.delivered(service, received_at, sent_at)
