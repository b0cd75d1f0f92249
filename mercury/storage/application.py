"""The part of a store that applications use: a transaction, and how it ended."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

#: The error of what is done with a transaction that has ended.
OVER = "the transaction has ended: what is sent or executed with it now would be part of no transaction; begin another"

#: The error of a store that was opened before this process was forked.
FORKED = (
    "the store was opened in another process, from which this one was forked: they would share its connections and "
    "its claims. Make Mercury in each process, after the fork (gunicorn: without --preload)"
)


class Ending(enum.Enum):
    """How a transaction ended."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    #: The connection was lost during the commit, and the database could not be queried for the outcome.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a transaction ended."""

    ending: Ending = Ending.OPEN
    #: The name of the two-phase commit in the decision log and in `mercury xa`; ``None`` = a one-phase commit.
    gtrid: str | None = None
    #: Databases that did not answer after the decision to commit: recovery commits there as soon as they answer.
    away: tuple[str, ...] = ()


class Transaction(Protocol):
    """One unit of work: what is sent and written with it is committed together, or not at all. Not for two threads.

    `Mercury.transaction` returns one; a handler with a parameter ``tx`` gets the transaction that consumes its message.
    After its end, everything but `outcome` raises `StorageError`, also in actions of `after_commit`.
    """

    @property
    def outcome(self) -> Outcome:
        """How it ended. Read it after the ``with`` block; of a joined transaction, which the application ends, it stays
        open."""

    def connection(self, resource: str | None = None) -> Connection:
        """A SQLAlchemy connection whose statements are part of this transaction.

        :param resource: the name of a database in ``Mercury(resources=)``; by default the store's own database.
        :raises CapabilityError: the store has no database, or none of this name; nothing was written.
        """

    def session(self, resource: str | None = None) -> Session:
        """A SQLAlchemy session in this transaction; its commit and rollback end only its own part of it.

        Parameters and errors as for `connection`.
        """

    def execute_later(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, resource: str | None = None
    ) -> None:
        """Execute a statement without a result in this transaction, now or together with later ones.

        PostgreSQL gets all statements that wait in one round trip: with the next use of `connection` or `session`, at
        the end of a savepoint or of the handler's call, or with the commit. They are executed in their order, so a
        later query sees what they have done. Other stores, and ``resource``, execute each at once.

        :param statement: as for SQLAlchemy's ``text``: ``insert into orders values (:id, :text)``.
        :param parameters: the values by name, as they are now.
        :param resource: as for `connection`.
        :raises CapabilityError: as for `connection`.
        :raises StorageError: the statement fails: now, or at one of the ends above, and then the transaction fails, or
            the handler's call. To catch the error of one statement, use `connection`.
        """

    def savepoint(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """A savepoint: an exception in its block undoes the work of the block, no more, and is raised again.

        :param waits: what its block leaves to `execute_later` may be executed after the block, by the commit at the
            latest; if it fails then, the transaction fails.
        """

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call ``action``, which must not fail, after the commit, when every lock is free.

        It is not called after a rollback, nor when the process dies in between: do not use it for what must happen.
        """


def call_each(actions: Iterable[Callable[[], None]]) -> None:
    """Call what follows a commit, all of it even if some fails: the actions of `Transaction.after_commit`, and the
    announcement of the commit.

    :raises BaseException: the first error.
    """
    first: BaseException | None = None
    for action in actions:
        try:
            action()
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first
