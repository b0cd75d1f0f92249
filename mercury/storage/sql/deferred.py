"""Deferred constraints, checked before the commit (decision 9)."""

from __future__ import annotations

from sqlalchemy import Connection

from mercury.storage.sql.dialects import Dialect


class DeferredConstraints:
    """The constraints of one transaction's database that it checks no sooner than at the commit."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self._any: bool | None = None

    def check(self) -> None:
        """Check them now; their modes stay as they are.

        :raises sqlalchemy.exc.IntegrityError: one is broken; the transaction can only go back to a savepoint.
        """
        if self._any is None:
            self._any = self._dialect.has_deferred(self._connection)
        if self._any:
            self._dialect.check_deferred(self._connection)
