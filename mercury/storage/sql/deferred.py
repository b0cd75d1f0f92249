"""Deferred constraints, checked before the commit (decision 9)."""

from __future__ import annotations

from sqlalchemy import Connection

from mercury.storage.sql.dialect import Dialect


class DeferredConstraints:
    """The constraints that the database of one transaction checks at the commit."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self._any: bool | None = None

    def check(self) -> None:
        """Check the deferred constraints now; they stay deferred for later statements.

        :raises sqlalchemy.exc.IntegrityError: a constraint is violated; the transaction can only roll back to a
            savepoint.
        """
        if self._any is None:
            self._any = self._dialect.has_deferred(self._connection)
        if self._any:
            self._dialect.check_deferred(self._connection)
