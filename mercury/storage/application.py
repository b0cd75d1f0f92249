"""What an application sees of a store: a transaction, and how it ended."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session


class Ending(enum.Enum):
    """How a transaction ended."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    #: The connection was lost over the commit, and nobody could be asked.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a transaction ended."""

    ending: Ending = Ending.OPEN
    #: The two-phase commit it was: its name in the decision log and in `mercury xa`. ``None`` = it was a plain one.
    gtrid: str | None = None
    #: Databases that were away after the decision to commit: recovery commits there as soon as they are back.
    away: tuple[str, ...] = ()


class Transaction(Protocol):
    """One unit of work: what is sent and written with it is committed together, or not at all. Not for two threads.

    `Mercury.transaction` gives one, and a handler that asks for one is given that which consumes its message.
    """

    @property
    def outcome(self) -> Outcome:
        """How it ended. To be asked after the ``with`` block; of one that the application has begun it stays open."""

    def connection(self, resource: str | None = None) -> Connection:
        """A SQLAlchemy connection whose statements are part of this transaction.

        :param resource: the name of a database that was given to Mercury; left out, the store's own.
        :raises CapabilityError: the store has no database, or none of this name; nothing was written.
        """

    def session(self, resource: str | None = None) -> Session:
        """A SQLAlchemy session in this transaction; its commit and rollback end only its own part of it.

        Parameters and errors are those of `connection`.
        """

    def savepoint(self) -> AbstractContextManager[None]:
        """Leaving with an exception undoes what was done inside, and only that; the exception goes on."""

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call ``action``, which must not fail, once the commit is made and every lock is free.

        Not called after a rollback, nor when the process dies in between: nothing that must happen may rest on it.
        """
