"""Logs once that a store fails and once that it is back, however many threads notice it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from mercury.errors import DataError, StorageError
from mercury.statemachine.retransmission import Backoff

log = logging.getLogger("mercury.store")

#: Pauses of a worker whose turns fail, in seconds: every loop around the store keeps to these.
PAUSES = Backoff(base=0.1, cap=5.0)
#: Seconds without a failure after which the store counts as back: more than any of these pauses, and a lock timeout
#: now and then counts as the same outage.
REPEAT_INTERVAL = 6.0


class Outages:
    """What is known of the store's health in this process. Safe to be used by many threads.

    :param monotonic: seconds that only ever grow.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._mutex = threading.Lock()
        self._failed_at: float | None = None
        self._refused: tuple[str, str] | None = None

    def failed(self, error: StorageError, what: str) -> None:
        """The store failed. Only the first failure is logged.

        A value that it refuses is no outage: the store works, and the refusal is logged by itself.

        :param what: what has to wait for it.
        """
        if isinstance(error, DataError):
            self._refuses(error, what)
            return
        with self._mutex:
            first = self._failed_at is None
            self._failed_at = self._monotonic()
        if first:
            log.warning("the store fails: %s; %s waits, as all work does, until it is back", error, what)
        else:
            log.debug("the store still fails: %s; %s waits", error, what)

    def _refuses(self, error: DataError, what: str) -> None:
        with self._mutex:
            known = self._refused == (str(error), what)
            self._refused = (str(error), what)
        log.log(logging.DEBUG if known else logging.ERROR, "the store works and refuses %s: %s", what, error)

    def worked(self) -> None:
        """An operation on the store succeeded."""
        with self._mutex:
            if self._failed_at is None or self._monotonic() - self._failed_at < REPEAT_INTERVAL:
                return
            self._failed_at = None
        log.info("the store is back")
