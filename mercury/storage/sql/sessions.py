"""The application's SQLAlchemy sessions in a transaction of Mercury (decision 10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class Sessions:
    """One session for each connection in the transaction, and another in each of its savepoints.

    Commit and rollback of a session end only its part of the transaction. Objects that were added and not flushed are
    flushed when the savepoint or the transaction is left normally.
    """

    def __init__(self) -> None:
        self._levels: list[dict[Connection, Session]] = [{}]

    def on(self, connection: Connection) -> Session:
        """The session on a connection."""
        from sqlalchemy.orm import Session

        level = self._levels[-1]
        if connection not in level:
            level[connection] = Session(bind=connection, join_transaction_mode="create_savepoint")
        return level[connection]

    def flush(self) -> None:
        """Flush all sessions."""
        for session in self._levels[-1].values():
            session.flush()

    @contextmanager
    def level(self) -> Iterator[None]:
        """A savepoint: sessions begun in its block end with it."""
        self._levels.append({})
        try:
            yield
            self.keep()
        finally:
            self.give_up()
            self._levels.pop()

    def keep(self) -> None:
        """Flush and end the innermost sessions."""
        level = self._levels[-1]
        for connection in reversed(list(level)):
            level[connection].commit()
            level.pop(connection).close()

    def give_up(self) -> None:
        """End the innermost sessions without a flush."""
        while self._levels[-1]:
            self._levels[-1].popitem()[1].close()
