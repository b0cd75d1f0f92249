"""Makes the pieces of bulk actions in threads of the console's process."""

from __future__ import annotations

import logging
import threading
import time

from mercury.errors import MercuryError, StorageError
from mercury.operations.acting import NotPossible
from mercury.operations.bulk_actions import BulkActions
from mercury.storage.bulk import Bulk, BulkState

log = logging.getLogger("mercury.console")

#: Bulk actions that one console works on at once.
MOST = 8
#: Pieces that are made between two looks at whether the console ends.
PIECES = 5
#: Attempts for one piece while the store fails, and the seconds between them.
ATTEMPTS, PAUSE = 10, 1.0


class BulkRunner:
    """A thread for each bulk action. The store keeps how far each is: whatever ends a thread, the page says where it
    stopped, and an operator lets it go on.

    :param pause: seconds between two attempts while the store fails.
    """

    def __init__(self, actions: BulkActions, pause: float = PAUSE) -> None:
        self._actions = actions
        self._pause = pause
        self._mutex = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        self._ending = threading.Event()

    def check_room(self) -> None:
        """Check that one more can be begun.

        :raises NotPossible: this console works on `MOST` already, or it ends.
        """
        with self._mutex:
            if len(self._threads) >= MOST:
                raise NotPossible(f"this console works on {MOST} bulk actions already: wait until one is done")
            if self._ending.is_set():
                raise NotPossible("this console ends")

    def start(self, identifier: int) -> None:
        """Work on a bulk action until it has ended; nothing happens if this console does already."""
        with self._mutex:
            if identifier in self._threads or self._ending.is_set():
                return
            thread = threading.Thread(
                target=self._run, args=(identifier,), name=f"mercury-bulk-{identifier}", daemon=True
            )
            self._threads[identifier] = thread
            thread.start()

    def wait(self, identifier: int, seconds: float) -> None:
        """Wait until a bulk action is not worked on here any more, or the time has passed."""
        with self._mutex:
            thread = self._threads.get(identifier)
        if thread is not None:
            thread.join(seconds)

    def close(self) -> None:
        """Stop after the pieces that are being made; the store says that they are stopped."""
        with self._mutex:
            self._ending.set()
            threads = list(self._threads.values())
        until = time.monotonic() + 10.0
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, identifier: int) -> None:
        try:
            bulk = self._made(identifier)
            if bulk is None or bulk.state is BulkState.RUNNING:
                self._actions.stop(identifier)
        except MercuryError as error:
            log.warning("the bulk action %s has stopped: %s", identifier, error)
        finally:
            with self._mutex:
                del self._threads[identifier]

    def _made(self, identifier: int) -> Bulk | None:
        """Make pieces until the bulk action has ended, the console ends, or the store keeps failing."""
        failed, bulk = 0, None
        while not self._ending.is_set() and failed < ATTEMPTS:
            try:
                bulk = self._actions.advance(identifier, PIECES)
            except StorageError as error:
                failed += 1
                log.warning("a piece of the bulk action %s is made again: %s", identifier, error)
                self._ending.wait(self._pause)
            else:
                failed = 0
                if bulk.state is not BulkState.RUNNING:
                    break
        return bulk
