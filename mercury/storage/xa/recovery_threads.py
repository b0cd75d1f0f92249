"""The threads of recovery: one for each database, so that a database that does not answer delays no other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from mercury.errors import StorageError
from mercury.storage.outages import OUTAGE_PAUSES, Outages
from mercury.storage.xa.recovery import Recovery
from mercury.storage.xa.resources import Resource

log = logging.getLogger("mercury.storage.xa")

#: Seconds to wait for the first recovery before the process begins to serve. A database that does not answer by then
#: is recovered later.
FIRST = 5.0
#: Seconds to wait for the end of a thread.
END = 2.0


class RecoveryThreads:
    """Runs recovery until it is stopped.

    :param clock: seconds since the epoch.
    :param outages: gets the failures of the store and of the decision log.
    """

    def __init__(
        self, recovery: Recovery, interval: float, clock: Callable[[], float], outages: Outages | None
    ) -> None:
        self._recovery = recovery
        outages = recovery.outages = outages or recovery.outages
        self._clock = clock
        self._threads = [_Loop("mercury-xa-log", self._maintain, interval, outages)]
        for resource in recovery.resources:
            look = partial(self._recover, resource)
            self._threads.append(_Loop(f"mercury-xa-{resource.name}", look, interval, outages))

    def start(self) -> None:
        """Start, and wait for the first recovery of each database that answers."""
        until = time.monotonic() + FIRST
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.first.wait(max(0.0, until - time.monotonic()))

    def _recover(self, resource: Resource) -> bool:
        return self._recovery.recover(resource, self._clock())

    def _maintain(self) -> bool:
        self._recovery.maintenance()
        return True

    def wake(self) -> None:
        """Run recovery immediately: a branch was left in doubt."""
        for thread in self._threads:
            thread.called.set()

    def stop(self) -> None:
        """End the threads. A thread that waits for a database is abandoned: it holds no locks."""
        for thread in self._threads:
            thread.ended = True
            thread.called.set()
        until = time.monotonic() + END
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


class _Loop(threading.Thread):
    """Calls a function repeatedly, less often while it fails.

    :param look: the function; returns whether it succeeded.
    """

    def __init__(self, name: str, look: Callable[[], bool], interval: float, outages: Outages) -> None:
        super().__init__(name=name, daemon=True)
        self._outages = outages
        self._look = look
        self._interval = interval
        self.called = threading.Event()
        self.first = threading.Event()
        self.ended = False

    def run(self) -> None:
        failures = 0
        while not self.ended:
            self.called.clear()
            try:
                failures = 0 if self._look() else failures + 1
            except StorageError as error:
                failures += 1
                self._outages.failed(error, self.name)
            except Exception:
                failures += 1
                log.exception("%s failed; it will be repeated", self.name)
            wait = max(self._interval, OUTAGE_PAUSES.delay(failures, 0.0) if failures else 0.0)
            self.first.set()
            if not self.ended:
                self.called.wait(wait)
