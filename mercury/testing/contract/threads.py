"""A second thread for a test, with every wait bounded."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

#: What should happen soon has failed when it has not happened after so many seconds.
SOON = 10.0
#: What should not happen is watched for so many seconds; a right store never fails for it, however slow the machine.
MOMENT = 0.05


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
        _, late = concurrent.futures.wait(self._futures, timeout=SOON)
        self._pool.shutdown(wait=not late, cancel_futures=True)
        assert not late or error is not None, f"{len(late)} threads did not end"

    def start(self, work: Callable[[], T]) -> concurrent.futures.Future[T]:
        """Run ``work`` in a thread; returns once that thread runs."""
        running = threading.Event()

        def run() -> T:
            running.set()
            return work()

        future = self._pool.submit(run)
        self._futures.append(future)  # type: ignore[arg-type]
        assert running.wait(SOON)
        return future


def result(future: concurrent.futures.Future[T]) -> T:
    """What a thread returned, or the error it ended with."""
    return future.result(timeout=SOON)


def waits(future: concurrent.futures.Future[T]) -> bool:
    """Whether a thread is still busy after a moment."""
    done, _ = concurrent.futures.wait([future], timeout=MOMENT)
    return not done
