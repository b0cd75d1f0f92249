"""Threads around recovery: one for each database, so that one that is away keeps nobody waiting."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from mercury.storage.xa.recovery import Recovery
from mercury.storage.xa.resources import Resource

log = logging.getLogger("mercury.storage.xa")

#: Seconds that the first look may take before the process serves. What does not answer by then is looked at later.
FIRST = 5.0
#: Seconds to wait for a thread's end.
END = 2.0


class Keeper:
    """Runs recovery until it is stopped.

    :param clock: seconds since the epoch.
    """

    def __init__(self, recovery: Recovery, interval: float, clock: Callable[[], float]) -> None:
        self._recovery = recovery
        self._clock = clock
        self._threads = [_Loop("mercury-xa-log", recovery.upkeep, interval)]
        for resource in recovery.resources:
            self._threads.append(_Loop(f"mercury-xa-{resource.name}", partial(self._recover, resource), interval))

    def start(self) -> None:
        """Begin, and wait for the first look at each database that answers."""
        until = time.monotonic() + FIRST
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.first.wait(max(0.0, until - time.monotonic()))

    def _recover(self, resource: Resource) -> None:
        self._recovery.recover(resource, self._clock())

    def wake(self) -> None:
        """Something was left: look at once."""
        for thread in self._threads:
            thread.called.set()

    def stop(self) -> None:
        """End the threads. One that waits for a database is left behind: it holds nothing."""
        for thread in self._threads:
            thread.ended = True
            thread.called.set()
        until = time.monotonic() + END
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


class _Loop(threading.Thread):
    """Does something again and again."""

    def __init__(self, name: str, look: Callable[[], None], interval: float) -> None:
        super().__init__(name=name, daemon=True)
        self._look = look
        self._interval = interval
        self.called = threading.Event()
        self.first = threading.Event()
        self.ended = False

    def run(self) -> None:
        while not self.ended:
            self.called.clear()
            try:
                self._look()
            except Exception:
                log.exception("%s failed; it goes on", self.name)
            self.first.set()
            if not self.ended:
                self.called.wait(self._interval)
