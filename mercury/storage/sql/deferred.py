"""What is checked before the work of the application is kept: deferred constraints (decision 9), failed statements."""

from __future__ import annotations

from sqlalchemy import Connection

from mercury.storage.sql.dialect import Dialect


class DeferredConstraints:
    """The constraints that the database of one transaction checks at the commit."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self._any: bool | None = None

    def check_usable(self) -> None:
        """Check that no statement of the application has failed whose error it has caught.

        :raises DataError: one has, and the database executes no other in this transaction.
        """
        self._dialect.check_usable(self._connection)

    def check(self) -> None:
        """Check the deferred constraints now; they stay deferred for later statements.

        :raises sqlalchemy.exc.IntegrityError: a constraint is violated; the transaction can only roll back to a
            savepoint.
        """
        if self._any is None:
            self._any = self._dialect.has_deferred(self._connection)
        if self._any:
            self._dialect.check_deferred(self._connection)
