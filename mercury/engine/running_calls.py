"""Calls of handlers and callbacks that run in this process now, so that a stop can name them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercury.engine.measurements import Measurements


class RunningCalls:
    """Running calls of handlers and callbacks, by thread. Thread-safe.

    :param measurements: takes the times of the calls; ``None`` = they are not measured.
    """

    def __init__(self, measurements: Measurements | None = None) -> None:
        self.measurements = measurements
        self._mutex = threading.Lock()
        self._calls: dict[int, Callable[[], str]] = {}

    def call(self, described: Callable[[], str], service: str | None, calls: Callable[[], int] | None = None) -> _Call:
        """A context manager around one call, or several one after the other.

        :param described: returns the description of the call that runs; it may be called in another thread.
        :param service: the service of the handlers; ``None`` = callbacks are called.
        :param calls: returns the number of calls at the end; ``None`` = there is one.
        """
        return _Call(self, described, service, calls)

    def now(self) -> list[str]:
        """The calls that are running."""
        with self._mutex:
            running = list(self._calls.values())
        return [described() for described in running]

    def begin(self, thread: int, described: Callable[[], str]) -> None:
        """Note that a call begins in a thread."""
        with self._mutex:
            self._calls[thread] = described

    def end(self, thread: int) -> None:
        """Note that the call in a thread has ended."""
        with self._mutex:
            self._calls.pop(thread, None)


class _Call:
    """A call, or several one after the other, in the thread that enters it."""

    __slots__ = ("_began", "_calls", "_described", "_many", "_service", "_thread")

    def __init__(
        self, calls: RunningCalls, described: Callable[[], str], service: str | None, many: Callable[[], int] | None
    ) -> None:
        self._calls, self._described, self._thread = calls, described, 0
        self._service, self._many, self._began = service, many, 0.0

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._calls.begin(self._thread, self._described)
        if self._calls.measurements is not None:
            self._began = self._calls.measurements.call_begins()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._calls.measurements is not None:
            many = 1 if self._many is None else self._many()
            self._calls.measurements.call_ended(self._began, self._service, many, kind)
        self._calls.end(self._thread)
