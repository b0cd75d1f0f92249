"""Calls of handlers and callbacks that run in this process now, so that a stop can name them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class RunningCalls:
    """Running calls of handlers and callbacks, by thread. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._calls: dict[int, Callable[[], str]] = {}

    def call(self, described: Callable[[], str]) -> _Call:
        """A context manager around one call, or several one after the other.

        :param described: returns the description of the call that runs; it may be called in another thread.
        """
        return _Call(self, described)

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

    __slots__ = ("_calls", "_described", "_thread")

    def __init__(self, calls: RunningCalls, described: Callable[[], str]) -> None:
        self._calls, self._described, self._thread = calls, described, 0

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._calls.begin(self._thread, self._described)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.end(self._thread)
