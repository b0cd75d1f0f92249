"""Which commits of applications have happened, for those whose answer is lost (decision 21).

What PostgreSQL knows of a transaction by its id does not do: a server that is killed may give the id of a transaction
that it has lost to another one. A row that is part of the transaction is there, or it is not.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable

from sqlalchemy import Connection, Engine, delete

from mercury.errors import OutcomeUnknown, StorageError
from mercury.storage.sql.errors import translated
from mercury.storage.sql.schema import COMMIT

log = logging.getLogger("mercury.storage")

MARK = f"insert into {COMMIT.name} (id, made_at) values (%(id)s, extract(epoch from clock_timestamp()))"  # noqa: S608
#: The first insert decides; a second one waits until the first is committed or rolled back.
ABORT = f"{MARK} on conflict do nothing"
SHORTLY = "set local lock_timeout = '1s'"
#: How often, and with which pause in seconds, a database is asked that does not answer.
TRIES, PAUSE = 20, 0.25
#: Marks that nobody will ask for are removed together.
BATCH = 64


class CommitMarkers:
    """The marks of one process in a store on PostgreSQL."""

    def __init__(self, engine: Engine, wait: Callable[[float], object] = time.sleep) -> None:
        self._engine = engine
        self._wait = wait
        self._mutex = threading.Lock()
        self._answered: list[str] = []

    def make(self, connection: Connection) -> str:
        """Mark the transaction of a connection, just before its commit. Returns the mark's id."""
        marker = uuid.uuid4().hex
        with translated():
            connection.exec_driver_sql(MARK, {"id": marker})
        return marker

    def answered(self, marker: str) -> None:
        """The commit was answered: nobody asks for its mark."""
        with self._mutex:
            self._answered.append(marker)
            if len(self._answered) < BATCH:
                return
            commit_markers, self._answered = self._answered, []
        with contextlib.suppress(StorageError), translated(), self._engine.begin() as connection:
            connection.execute(delete(COMMIT).where(COMMIT.c.id.in_(commit_markers)))  # else retention does it

    def was_committed(self, marker: str, error: StorageError) -> bool:
        """Whether a commit happened whose answer was lost. If it did not, it cannot any more.

        :param error: what was raised instead of the answer.
        :raises OutcomeUnknown: the database does not answer.
        """
        log.warning("a commit was not answered: %s; the database is asked what became of it", error)
        trouble: StorageError = error
        for attempt in range(TRIES):
            if attempt:
                self._wait(PAUSE)
            try:
                with translated(), self._engine.begin() as connection:
                    connection.exec_driver_sql(SHORTLY)
                    return connection.exec_driver_sql(ABORT, {"id": marker}).rowcount == 0
            except StorageError as again:
                trouble = again
        raise OutcomeUnknown(
            f"whether a transaction of {self._engine.url.render_as_string(hide_password=True)} is committed cannot be "
            f"told: {trouble}. Look at what it has written before it is repeated"
        ) from error
