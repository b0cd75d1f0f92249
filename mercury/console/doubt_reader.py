"""Counts the transactions in doubt for the overview, which does not wait for a database that is slow to answer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future

from mercury.errors import MercuryError
from mercury.operations.transactions import InDoubt

#: Seconds that a page waits for the databases.
PATIENCE = 1.0


class DoubtReader:
    """Counts in a thread of its own, one count at a time, which all pages that ask meanwhile get.

    :param read: counts; may block for as long as databases do not answer.
    :param patience: seconds that a caller waits for the result.
    """

    def __init__(self, read: Callable[[], InDoubt], patience: float = PATIENCE) -> None:
        self._read = read
        self._patience = patience
        self._mutex = threading.Lock()
        self._running: Future[InDoubt] | None = None

    def now(self) -> InDoubt | None:
        """What is in doubt; ``None`` = the databases do not say it within the patience, or not at all."""
        with self._mutex:
            if self._running is None or self._running.done():
                self._running = Future()
                threading.Thread(
                    target=_run, args=(self._read, self._running), name="mercury-console-doubt", daemon=True
                ).start()
            running = self._running
        with contextlib.suppress(TimeoutError, MercuryError):
            return running.result(self._patience)
        return None


def _run(read: Callable[[], InDoubt], answer: Future[InDoubt]) -> None:
    try:
        answer.set_result(read())
    except BaseException as error:
        answer.set_exception(error)
