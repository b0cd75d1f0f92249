"""A coordinator that stops in the middle of a commit until the test resumes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mercury.storage.api import Transaction
from mercury.storage.xa.coordinator import Coordinator
from tests.acceptance.processes import PATIENCE

from .places import work


class Paused:
    """The transaction of a coordinator that was stopped."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._reached, self._goes_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.transaction: Transaction | None = None
        self.error: BaseException | None = None

    def stop_after(self, step: str) -> None:
        """Begin, and return when the step is done."""
        real = getattr(self._coordinator, step)

        def stopping(*arguments: Any) -> Any:
            result = real(*arguments)
            if not self._reached.is_set():
                self._reached.set()
                assert self._goes_on.wait(PATIENCE)
            return result

        setattr(self._coordinator, step, stopping)
        self._thread.start()
        assert self._reached.wait(PATIENCE), f"{step} was never done: {self.error}"

    def go_on(self) -> None:
        """Let it go, and wait until it has ended."""
        self._goes_on.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._coordinator.transaction() as self.transaction:
                work(self.transaction, 1)
        except BaseException as error:
            self.error = error


@contextmanager
def paused(coordinator: Coordinator, step: str) -> Iterator[Paused]:
    """A transaction that was stopped after a step of its commit. It goes on at the end of the block at the latest."""
    stopped = Paused(coordinator)
    stopped.stop_after(step)
    try:
        yield stopped
    finally:
        stopped.go_on()
