"""Deferred constraints, looked at before the commit (decision 9)."""

from __future__ import annotations

from sqlalchemy import Connection

HAS_ANY = "select exists (select from pg_trigger where tgdeferrable)"
#: The nested savepoint gives their modes back; one round trip.
CHECK = (
    "savepoint mercury_check; set constraints all immediate; "
    "rollback to savepoint mercury_check; release savepoint mercury_check"
)


class DeferredConstraints:
    """The constraints of one transaction's database that it checks no sooner than at the commit.

    Only PostgreSQL's: what SQLite defers, it checks at the commit.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._any = None if connection.dialect.name == "postgresql" else False

    def check(self) -> None:
        """Check them now; their modes stay as they are.

        :raises sqlalchemy.exc.IntegrityError: one is broken; the transaction can only go back to a savepoint.
        """
        if self._any is None:
            self._any = bool(self._connection.exec_driver_sql(HAS_ANY).scalar_one())
        if self._any:
            self._connection.exec_driver_sql(CHECK, execution_options={"no_parameters": True})
