"""Connections of a SQLite store, which notice that the transaction has ended before Mercury ends it.

SQLite rolls back the whole transaction by itself when the disk is full, cannot be read or written, or memory is short,
for ``on conflict rollback`` and for ``raise(rollback)`` in a trigger. The driver then executes each further statement
as a transaction of its own, and its commit does nothing and raises nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from mercury.storage.sql.ends import Ends, note_end


class SqliteCursor(sqlite3.Cursor):
    """Executes nothing more in a transaction of Mercury's that has ended."""

    def execute(self, statement: str, *arguments: Any) -> Any:
        return self._run(super().execute, statement, *arguments)

    def executemany(self, statement: str, *arguments: Any) -> Any:
        return self._run(super().executemany, statement, *arguments)

    def executescript(self, statement: str) -> Any:
        if (owner := self._connection.owner) is not None:
            owner.ended_by_application(commit=True)  # the driver commits first
        return super().executescript(statement)

    @property
    def _connection(self) -> SqliteConnection:
        connection = self.connection
        assert isinstance(connection, SqliteConnection)
        return connection

    def _run(self, run: Callable[..., Any], statement: str, *arguments: Any) -> Any:
        connection = self._connection
        owner = connection.owner
        if owner is None:
            return run(statement, *arguments)
        if owner.broken is not None:
            if statement.lstrip()[:8].lower() == "rollback":
                return self  # to a savepoint, or of all: that is done
            raise owner.broken
        note_end(owner, statement)
        began = connection.in_transaction
        try:
            return run(statement, *arguments)
        except Exception as error:
            if began and not connection.in_transaction:
                owner.ended_by_database(error)
            raise


class SqliteConnection(sqlite3.Connection):
    """A connection of a store's engine."""

    #: ``None`` = the connection is in no transaction of Mercury's.
    owner: Ends | None = None

    def cursor(self, factory: Any = SqliteCursor) -> Any:
        return super().cursor(factory)

    # The driver's own forms of these go past the methods that a subclass overrides.

    def execute(self, statement: str, *arguments: Any) -> Any:
        return self.cursor().execute(statement, *arguments)

    def executemany(self, statement: str, *arguments: Any) -> Any:
        return self.cursor().executemany(statement, *arguments)

    def executescript(self, statement: str) -> Any:
        return self.cursor().executescript(statement)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if self.owner is not None:
            self.owner.ended_by_application(commit=kind is None)
        return super().__exit__(kind, error, trace)

    def commit(self) -> None:
        if self.owner is not None:
            self.owner.ended_by_application(commit=True)
        super().commit()

    def rollback(self) -> None:
        if self.owner is not None:
            self.owner.ended_by_application(commit=False)
        super().rollback()
