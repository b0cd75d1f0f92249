"""Works of the application: what it does for one message, in a transaction that has the works of several."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from mercury.errors import StorageError


class Works(Protocol):
    """The part of a transaction for such works."""

    @property
    def in_database(self) -> bool:
        """Whether the application has taken a connection to a database in this transaction: then each savepoint is a
        statement there."""

    def end_work(self) -> None:
        """In a savepoint: end what the application has left open since it began, as its end does. Sessions are flushed,
        and savepoints of the application are kept.

        :raises Exception: the flush failed.
        """

    def limited_statements(self, seconds: float) -> AbstractContextManager[None]:
        """In a savepoint: let each statement of the block that takes longer fail, on every connection that the
        application takes in it. Without effect in a database that cannot end a statement.

        :raises StorageError: on leaving the block, if a statement had failed in it or the database does not answer.
        """

    def translate(self, error: Exception) -> StorageError | None:
        """The storage error for an error that the application's statements raised; work that raised a
        `TransientStorageError` may be repeated. ``None`` = this is not a database error.
        """
