"""Calls of handlers and callbacks that run in this process now, so that a stop can name them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class RunningCalls:
    """Running calls of handlers and callbacks, by thread. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._calls: dict[int, str] = {}

    @contextmanager
    def call(self, what: str) -> Iterator[None]:
        """A context manager around one call."""
        thread = threading.get_ident()
        with self._mutex:
            self._calls[thread] = what
        try:
            yield
        finally:
            with self._mutex:
                self._calls.pop(thread, None)

    def now(self) -> list[str]:
        """The calls that are running."""
        with self._mutex:
            return list(self._calls.values())
