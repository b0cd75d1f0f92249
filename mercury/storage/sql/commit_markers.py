"""Commit markers: they show whether a commit of the application happened when its answer was lost (decision 21).

PostgreSQL's transaction status does not suffice: a killed server may reuse the id of a lost transaction. A row that is
part of the transaction exists if and only if the transaction is committed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection, Engine, delete

from mercury.errors import OutcomeUnknown, StorageError
from mercury.masking import masked
from mercury.storage.sql.dialect import Dialect, Marker
from mercury.storage.sql.errors import translated
from mercury.storage.sql.prepared import Prepared, among, change
from mercury.storage.sql.schema import COMMIT

log = logging.getLogger("mercury.storage")

#: Milliseconds that one query waits for a transaction that is about to commit.
LOCK_TIMEOUT = 1000
#: How many times a database that does not answer is queried, and the pause between in seconds.
TRIES, PAUSE = 20, 0.25
#: Seconds for which a marker is kept beside the retention of idle rows. Each process leaves at most a batch of them.
MARKERS_KEPT = 86400.0
#: Number of answered markers that are deleted together.
BATCH = 64
DELETE = Prepared(delete(COMMIT).where(among(COMMIT.c.id, "names")))


class CommitMarkers:
    """The commit markers of one process in a store whose database is a server (`Dialect.remote`)."""

    def __init__(self, engine: Engine, dialect: Dialect, wait: Callable[[float], object] = time.sleep) -> None:
        self._engine = engine
        self._dialect = dialect
        self._wait = wait
        self._mutex = threading.Lock()
        self._answered: list[str] = []

    def new(self) -> Marker:
        """A marker that is not inserted yet."""
        return COMMIT, os.urandom(16).hex()

    def insert(self, connection: Connection, marker: Marker) -> None:
        """Insert a marker in the transaction of a connection, just before its commit."""
        with translated():
            self._dialect.insert_marker(connection, *marker)

    def answered(self, marker: Marker) -> None:
        """The commit was answered: its marker is not needed any more."""
        with self._mutex:
            self._answered.append(marker[1])
            if len(self._answered) < BATCH:
                return
            commit_markers, self._answered = self._answered, []
        given = {"names": commit_markers}
        compiled = self._dialect.compiled(DELETE, given)
        with contextlib.suppress(StorageError), translated(), self._engine.begin() as connection:
            # Retention deletes the rest.
            change(connection, compiled.text, compiled.parameters(given))

    def was_committed(self, marker: Marker, error: StorageError, age: float = 0.0) -> bool:
        """Whether a commit happened whose answer was lost. If it did not, this call prevents it.

        :param error: the error that the commit raised.
        :param age: seconds since the marker was made.
        :raises OutcomeUnknown: the database does not answer; or there is no marker, and one that is so old may have
            been removed: a machine can be suspended for a day while it waits for the answer.
        """
        log.warning("a commit was not answered: %s; looking for its marker in the database", error)
        trouble: StorageError = error
        for attempt in range(TRIES):
            if attempt:
                self._wait(PAUSE)
            try:
                with translated(), self._engine.begin() as connection:
                    self._dialect.limit_lock_wait(connection, LOCK_TIMEOUT)
                    # The first insert decides; a second one waits until the first is committed or rolled back.
                    found = not self._dialect.insert_marker(connection, *marker, ignore=True)
            except StorageError as again:
                trouble = again
                continue
            if found or age < MARKERS_KEPT / 2:
                return found
            trouble = StorageError(f"the answer to the commit was waited for {age:.0f} s, and its marker may be gone")
            break
        raise OutcomeUnknown(
            f"it is not known whether a transaction of {masked(self._engine.url.render_as_string())} is committed: "
            f"{trouble}. Check what it has written before you repeat it"
        ) from error
