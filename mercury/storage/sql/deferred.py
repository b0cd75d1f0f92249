"""What is checked before the work of the application is kept: deferred constraints (decision 9), failed statements."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from sqlalchemy import Connection

from mercury.storage.sql.dialect import Dialect

#: Seconds for which it is known whether a database has deferrable constraints.
KNOWN = 1.0


class DeferrableConstraints:
    """Whether a database has deferrable constraints, asked once a second at most. Thread-safe.

    One that is made meanwhile may be violated at a commit: then the whole transaction is rolled back, not one part of
    it, and its messages are handled again one by one.
    """

    def __init__(self, dialect: Dialect, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._dialect = dialect
        self._monotonic = monotonic
        self._known, self._until = False, -math.inf

    def any(self, connection: Connection) -> bool:
        """Whether there are any."""
        now = self._monotonic()
        if now >= self._until:
            self._known = self._dialect.has_deferred(connection)
            self._until = now + KNOWN
        return self._known


class DeferredConstraints:
    """The constraints that the database of one transaction checks at the commit.

    :param known: whether the database has any, if that is shared by its transactions.
    """

    def __init__(self, connection: Connection, dialect: Dialect, known: DeferrableConstraints | None = None) -> None:
        self._connection = connection
        self._dialect = dialect
        self._known = known or DeferrableConstraints(dialect)

    def check_usable(self) -> None:
        """Check that no statement of the application has failed whose error it has caught.

        :raises DataError: one has, and the database executes no other in this transaction.
        """
        self._dialect.check_usable(self._connection)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self._known.any(self._connection)

    def check(self) -> None:
        """Check the deferred constraints now; they stay deferred for later statements.

        :raises sqlalchemy.exc.IntegrityError: a constraint is violated; the transaction can only roll back to a
            savepoint.
        """
        if self.any:
            self._dialect.check_deferred(self._connection)
