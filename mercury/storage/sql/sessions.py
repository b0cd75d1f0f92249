"""The application's sessions in a transaction of Mercury's (decision 10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.orm import Session


class Sessions:
    """One session for each connection, in the transaction itself and again in each of its savepoints.

    The commit and the rollback of a session end only its own part of the transaction. What was added to it and not
    written yet is written when the savepoint, or the transaction, is left normally.
    """

    def __init__(self) -> None:
        self._levels: list[dict[Connection, Session]] = [{}]

    def on(self, connection: Connection) -> Session:
        """The session on a connection."""
        level = self._levels[-1]
        if connection not in level:
            level[connection] = Session(bind=connection, join_transaction_mode="create_savepoint")
        return level[connection]

    def flush(self) -> None:
        """Write what is to be written so far."""
        for session in self._levels[-1].values():
            session.flush()

    @contextmanager
    def level(self) -> Iterator[None]:
        """A savepoint: its sessions end with it."""
        self._levels.append({})
        try:
            yield
            self.keep()
        finally:
            self.give_up()
            self._levels.pop()

    def keep(self) -> None:
        """Write and end the innermost sessions."""
        level = self._levels[-1]
        for connection in reversed(list(level)):
            level[connection].commit()
            level.pop(connection).close()

    def give_up(self) -> None:
        """End the innermost sessions; what they have not written is gone."""
        while self._levels[-1]:
            self._levels[-1].popitem()[1].close()
