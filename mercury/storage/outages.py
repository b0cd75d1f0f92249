"""Logs the begin and the end of a store's outage once each, for all threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from mercury.errors import DataError, StorageError
from mercury.statemachine.retransmission import Backoff

log = logging.getLogger("mercury.store")

#: Back-off of work that fails while other work on the store does not, in seconds.
PAUSES = Backoff(base=0.1, cap=5.0)
#: Back-off of a loop to which the store does not answer, in seconds. A store that fails over is back within seconds,
#: and each loop may find it as late as this: an attempt costs little, so it is short.
OUTAGE_PAUSES = Backoff(base=0.1, cap=1.0)
#: Seconds without a failure after which the outage is over. Longer than any of these pauses, and long enough that
#: occasional lock timeouts count as one outage.
REPEAT_INTERVAL = 6.0


class Outages:
    """The health of the store as this process observes it. Thread-safe.

    :param monotonic: a monotonic clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._mutex = threading.Lock()
        self._failed_at: float | None = None
        self._refused: tuple[str, str] | None = None

    @property
    def failing(self) -> bool:
        """Whether work on the store has failed lately, and waits."""
        with self._mutex:
            return self._failed_at is not None and self._monotonic() - self._failed_at < REPEAT_INTERVAL

    def failed(self, error: StorageError, what: str) -> None:
        """Report that the store failed. Only the first failure of an outage is logged.

        An error of a value (`DataError`) is not an outage: the store works, and the error is logged separately.

        :param what: the work that waits for the store.
        """
        if isinstance(error, DataError):
            self._refuses(error, what)
            return
        with self._mutex:
            first = self._failed_at is None
            self._failed_at = self._monotonic()
        if first:
            log.warning("the store fails: %s; %s waits, like all work, until the store answers", error, what)
        else:
            log.debug("the store still fails: %s; %s waits", error, what)

    def _refuses(self, error: DataError, what: str) -> None:
        with self._mutex:
            known = self._refused == (str(error), what)
            self._refused = (str(error), what)
        log.log(logging.DEBUG if known else logging.ERROR, "the store works and refuses %s: %s", what, error)

    def worked(self) -> None:
        """Report that an operation on the store succeeded."""
        with self._mutex:
            if self._failed_at is None or self._monotonic() - self._failed_at < REPEAT_INTERVAL:
                return
            self._failed_at = None
        log.info("the store is back")
