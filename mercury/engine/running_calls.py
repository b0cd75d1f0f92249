"""Calls of the application that run in this process at the moment, so that a stop can name them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class RunningCalls:
    """Calls of the application that are not over, by thread. Safe to be used by many threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._calls: dict[int, str] = {}

    @contextmanager
    def call(self, what: str) -> Iterator[None]:
        """One call, for as long as it takes."""
        thread = threading.get_ident()
        with self._mutex:
            self._calls[thread] = what
        try:
            yield
        finally:
            with self._mutex:
                self._calls.pop(thread, None)

    def now(self) -> list[str]:
        """What is not over."""
        with self._mutex:
            return list(self._calls.values())
