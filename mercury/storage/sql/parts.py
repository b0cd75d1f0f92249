"""The work of a transaction since a savepoint, which can be kept or undone."""

from __future__ import annotations

from typing import Protocol

from mercury.storage.sql.savepoints import Savepoint


class Part(Protocol):
    """The work since a savepoint, which can be kept or undone."""

    def keep(self) -> None: ...

    def undo(self) -> None: ...

    def end_work(self) -> None:
        """Keep the savepoints that the application has left open in it."""


class Restartable(Protocol):
    """What a part uses of its `SqlTransaction`."""

    def begin_savepoint(self) -> Savepoint | None:
        """Begin a savepoint; ``None`` = none is needed."""

    def keep_nested(self) -> None:
        """Keep all savepoints that the application has left open."""

    def restart(self) -> None:
        """Roll back everything, and begin again."""


class StorePart:
    """The work since a savepoint in the store's database."""

    def __init__(self, tx: Restartable) -> None:
        self._tx = tx
        self._savepoint = tx.begin_savepoint()

    def keep(self) -> None:
        if self._savepoint is None:
            self._tx.keep_nested()
        else:
            self._savepoint.keep()

    def undo(self) -> None:
        if self._savepoint is None:
            self._tx.restart()
        else:
            self._savepoint.undo()

    def end_work(self) -> None:
        if self._savepoint is None:
            self._tx.keep_nested()
        else:
            self._savepoint.end_work()
