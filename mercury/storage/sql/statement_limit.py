"""The limit on the time of each statement of a handler."""

from __future__ import annotations

import math

from sqlalchemy import Connection

from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.errors import translated


class StatementLimit:
    """Limits the statements on the connections that a handler uses, from its first use of each.

    :param seconds: the longest time of one statement.
    """

    def __init__(self, seconds: float) -> None:
        self._milliseconds = max(1, math.ceil(seconds * 1000))
        self._limited: list[tuple[Connection, Dialect]] = []

    def add(self, connection: Connection, dialect: Dialect) -> None:
        """Limit the statements on a connection. Without effect in a database that cannot end a statement.

        :raises StorageError: the database does not answer.
        """
        if any(known is connection for known, _ in self._limited):
            return
        with translated():
            dialect.limit_statements(connection, self._milliseconds)
        self._limited.append((connection, dialect))

    @property
    def count(self) -> int:
        """The number of limited connections."""
        return len(self._limited)

    def undone(self, count: int) -> None:
        """A savepoint was rolled back, and with it the limits on all connections but the first ones.

        :param count: as it was when the savepoint began.
        """
        del self._limited[count:]

    def end(self) -> None:
        """Restore the limits from before. Not needed after a rollback, which has done it.

        :raises StorageError: a statement has failed in the transaction, or the database does not answer.
        """
        with translated():
            for connection, dialect in self._limited:
                dialect.restore_statement_limit(connection)
