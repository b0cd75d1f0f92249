"""Savepoints of one connection (decision 9)."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, NestedTransaction

from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.errors import translated

#: Begins the first savepoint of a transaction.
FIRST_SAVEPOINT = "savepoint mercury_1"


class Savepoints:
    """The nested savepoints that are open on a connection.

    Each handler call has a savepoint, so there are as few statements as possible: a kept savepoint is released in the
    same round trip that begins the next one, or by the end of the transaction.
    """

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self._depth = 0
        #: The depth of the kept savepoint that is not released yet; 0 = none.
        self._kept = 0
        #: The application's savepoint that was open around the kept one.
        self._kept_in: NestedTransaction | None = None

    def begin(self, *, begun: bool = False) -> Savepoint:
        """Begin a savepoint inside the open ones.

        :param begun: the database has begun it already (`FIRST_SAVEPOINT`).
        :raises StorageError: the database does not answer.
        """
        depth = self._depth + 1
        name = f"mercury_{depth}"
        begins, outer = [f"savepoint {name}"], self._connection.get_nested_transaction()
        # A savepoint that the application has begun since would be released with it, and one that has ended has taken
        # the kept one with it.
        releases = self._kept == depth and outer is self._kept_in
        if not begun:
            self._execute([f"release savepoint {name}", *begins] if releases else begins)
        self._depth, self._kept, self._kept_in = depth, 0, None
        return Savepoint(self, depth, outer)

    def keep(self, savepoint: Savepoint) -> None:
        """Keep the work since the savepoint."""
        self.end_work(savepoint)
        self._depth, self._kept, self._kept_in = savepoint.depth - 1, savepoint.depth, savepoint.outer

    def end_work(self, savepoint: Savepoint) -> None:
        """Keep the application's savepoints that are open inside a savepoint, which stays open."""
        for nested in self._left_by_the_application(savepoint):
            nested.commit()

    def undo(self, savepoint: Savepoint) -> None:
        """Undo the work since the savepoint, unless the transaction has ended.

        :raises StorageError: the database does not answer.
        """
        self._depth, self._kept = savepoint.depth - 1, 0
        if self._connection.invalidated or not self._connection.in_transaction():
            return
        for nested in self._left_by_the_application(savepoint):
            nested.rollback()
        name = f"mercury_{savepoint.depth}"
        self._execute([f"rollback to savepoint {name}", f"release savepoint {name}"])

    def _left_by_the_application(self, savepoint: Savepoint) -> Iterator[NestedTransaction]:
        """SQLAlchemy savepoints of the application inside this one that are still open, the innermost first.

        The caller must end each before it takes the next.
        """
        while (found := self._connection.get_nested_transaction()) not in (None, savepoint.outer):
            assert found is not None
            yield found

    def _execute(self, statements: list[str]) -> None:
        with translated():
            self._dialect.execute_all(self._connection, statements)


class Savepoint:
    """One savepoint."""

    def __init__(self, savepoints: Savepoints, depth: int, outer: NestedTransaction | None) -> None:
        self._savepoints = savepoints
        self.depth = depth
        #: The application's savepoint that was open before this one began.
        self.outer = outer

    def keep(self) -> None:
        self._savepoints.keep(self)

    def end_work(self) -> None:
        self._savepoints.end_work(self)

    def undo(self) -> None:
        self._savepoints.undo(self)
