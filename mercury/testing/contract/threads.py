"""Threads for a test; each wait for a thread has a timeout."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

#: Seconds to wait for an expected event; the test fails after that.
EVENT_TIMEOUT = 10.0
#: Seconds to wait for an event that must not happen. A correct store passes also on a slow machine.
ABSENCE_TIME = 0.05


class Threads:
    """Runs functions in other threads."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=32)
        self._futures: list[concurrent.futures.Future[object]] = []

    def __enter__(self) -> Threads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _, late = concurrent.futures.wait(self._futures, timeout=EVENT_TIMEOUT)
        self._pool.shutdown(wait=not late, cancel_futures=True)
        assert not late or error is not None, f"{len(late)} threads did not end"

    def start(self, work: Callable[[], T]) -> concurrent.futures.Future[T]:
        """Run ``work`` in a thread; return as soon as the thread runs."""
        running = threading.Event()

        def run() -> T:
            running.set()
            return work()

        future = self._pool.submit(run)
        self._futures.append(future)  # type: ignore[arg-type]
        assert running.wait(EVENT_TIMEOUT)
        return future


def result(future: concurrent.futures.Future[T]) -> T:
    """The result of a thread.

    :raises Exception: the function raised it.
    """
    return future.result(timeout=EVENT_TIMEOUT)


def waits(future: concurrent.futures.Future[T]) -> bool:
    """Whether a thread still runs after `ABSENCE_TIME`."""
    done, _ = concurrent.futures.wait([future], timeout=ABSENCE_TIME)
    return not done
