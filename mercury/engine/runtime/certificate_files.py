"""A TLS context made from files, which follows the files: renewed certificates are used without a restart."""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterable

from mercury.errors import ConfigurationError

log = logging.getLogger("mercury.tls")

#: Seconds between two looks at the files.
LOOK_INTERVAL = 2.0


class FileContext:
    """A TLS context that is made again when its files have changed. Thread-safe.

    A connection keeps the context that it was opened with. Changed files are used when two looks in a row find them in
    the same state: until then, a file may be in the middle of being written. Files that cannot be used, such as a new
    certificate whose key is not written yet, change nothing: the log says so once, and the files are read again when
    they change.

    :param use: what the files are for, for the log: ``"https://partner.example"``.
    :param files: names of files; ``None`` = not set. Without any, the context is made once.
    :param make: makes the context. It raises `ConfigurationError` if a file cannot be used.
    :param renew: the same for changed files, if that differs: it must not wait, as for a passphrase.
    :param clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        use: str,
        files: Iterable[str | None],
        make: Callable[[], ssl.SSLContext],
        *,
        renew: Callable[[], ssl.SSLContext] | None = None,
        look_interval: float = LOOK_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._use = use
        self._files = tuple(file for file in files if file is not None)
        self._make = make
        self._renew = renew or make
        self._look_interval = look_interval
        self._clock = clock
        self._mutex = threading.Lock()
        self._context: ssl.SSLContext | None = None
        #: The state of the files that the context was made from, or could not be made from, and at the last look.
        self._read = self._seen = self._state()
        self._looked = clock()

    def current(self) -> ssl.SSLContext:
        """The context for a new connection, made at the first call.

        :raises ConfigurationError: at the first call only: a file cannot be used.
        """
        with self._mutex:
            if self._context is None:
                self._read, self._looked = self._state(), self._clock()
                self._context = self._make()
            elif self._files and self._clock() >= self._looked + self._look_interval:
                self._look()
            return self._context

    def begin_with(self, context: ssl.SSLContext) -> None:
        """Use a context that was made from the files after this object."""
        with self._mutex:
            self._context = context

    def _look(self) -> None:
        self._looked = self._clock()
        state = self._state()  # before the files are read: what is written meanwhile is seen the next time
        still, self._seen = state == self._seen, state
        if state == self._read or not still:
            return
        self._read = state
        try:
            self._context = self._renew()
        except ConfigurationError as error:
            log.error("new certificates for %s are not used, and the previous ones stay: %s", self._use, error)
        else:
            log.info("new certificates for %s are used for new connections", self._use)

    def _state(self) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(_state_of(file) for file in self._files)


def _state_of(file: str) -> tuple[int, ...] | None:
    """What changes when a file is written or replaced, also behind a symbolic link; ``None`` = it is not there."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
