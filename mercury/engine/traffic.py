"""Counts what this process sends and delivers, for operators: see `mercury.storage.nodes.Traffic`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from mercury.engine.measurements import Measurements
from mercury.storage.nodes import Traffic


class TrafficCounter:
    """`Measurements` that keeps the sums since they were last taken, and passes everything on. Thread-safe.

    :param others: the metrics of the process; ``None`` = there are none.
    :param monotonic: returns the time of a monotonic clock, in seconds.
    """

    def __init__(self, others: Measurements | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._others = others
        self._monotonic = monotonic
        self._mutex = threading.Lock()
        self._sums: dict[str, Traffic] = {}

    def take(self) -> tuple[Traffic, ...]:
        """What was counted since the last call, by service; empty = nothing."""
        with self._mutex:
            found, self._sums = self._sums, {}
        return tuple(found.values())

    def put_back(self, taken: Iterable[Traffic]) -> None:
        """Count again what was taken and could not be stored."""
        for each in taken:
            self._add(each)

    def _add(self, more: Traffic) -> None:
        with self._mutex:
            before = self._sums.get(more.service)
            self._sums[more.service] = more if before is None else before + more

    # --- Measurements ----------------------------------------------------------------------------------------------

    def sent(self, endpoint: str) -> None:
        if self._others is not None:
            self._others.sent(endpoint)

    def transmitted(self, endpoint: str, sequence: str, highest: int, messages: int, *, again: bool) -> None:
        self._add(Traffic(repeated=messages) if again else Traffic(transmitted=messages))
        if self._others is not None:
            self._others.transmitted(endpoint, sequence, highest, messages, again=again)

    def exchanged(self, endpoint: str, began: float, error: str) -> None:
        if self._others is not None:
            self._others.exchanged(endpoint, began, error)

    def accepted(self, services: Sequence[str | None]) -> None:
        for service in set(services):
            self._add(Traffic(service or "", received=services.count(service)))
        if self._others is not None:
            self._others.accepted(services)

    def call_begins(self) -> float:
        return self._monotonic()

    def call_ended(self, began: float, service: str | None, calls: int, error: type[BaseException] | None) -> None:
        if calls:
            spent = max(0.0, self._monotonic() - began)
            self._add(Traffic(service or "", calls=calls, failures=int(error is not None), seconds=spent))
        if self._others is not None:
            self._others.call_ended(began, service, calls, error)

    def delivered(
        self, service: str | None, received_at: Sequence[float], sent_at: Sequence[float | None] = ()
    ) -> None:
        self._add(Traffic(service or "", delivered=len(received_at)))
        if self._others is not None:
            self._others.delivered(service, received_at, sent_at)
