"""The connections of a store's engine, each with a `Session`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.sql import Composable
from psycopg.types.string import BytesBinaryDumper

from mercury.storage.sql.ends import MOST_REMEMBERED, Ends, note_end
from mercury.storage.sql.round_trips import Session

#: After such statements psycopg deallocates every prepared statement of the session, Mercury's too.
DEALLOCATES = re.compile(r"\b(?:drop|alter|rollback|discard|deallocate)\b", re.IGNORECASE)
#: A piece of an argument, such as a parameter of the driver. Comments, escapes and dollar quotes are none: what they
#: contain may look like arguments.
_PIECE = r"""'[^'\\]*'|"[^"]*"|\$\d|%\(\w+\)|%(?!\()|-(?!-)|/(?!\*)|[^'"()$%\\/-]"""
#: The arguments of ``set_config`` for the transaction alone: ``true`` is the last.
_LOCAL = rf"\s*\((?:{_PIECE}|\((?:{_PIECE})*\))*,\s*true\s*\)"
#: Statements that change settings of the session, not of the transaction alone, or that may do so (``do`` with such
#: a word). Mercury's own change none.
SETS = re.compile(
    r"(?:^|;)(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(?:set(?!\s+(?:local|transaction|constraints)\b)|reset|do\b(?=.*\b(?:set|reset|set_config|execute)\b))\b"
    rf"|\bset_config\b(?!{_LOCAL})",
    re.IGNORECASE | re.DOTALL,
)


class StoreCursor(psycopg.Cursor[tuple[Any, ...]]):
    """A cursor of the application, or of SQLAlchemy: notes statements after which psycopg deallocates others, those
    that change the session, and those that end the transaction."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(query, str) or _has(DEALLOCATES, query):
            _doubt(self.connection)
        driver: object = self.connection
        if not isinstance(driver, StoreConnection):
            return super().execute(query, *arguments, **options)
        text, owner = _text(query, driver), driver.owner
        if changes_session(text):
            driver.changed = True
        if owner is None:
            return super().execute(query, *arguments, **options)
        note_end(owner, text)
        began = driver.pgconn.transaction_status != TransactionStatus.IDLE
        try:
            return super().execute(query, *arguments, **options)
        finally:
            if began and driver.pgconn.transaction_status == TransactionStatus.IDLE:
                owner.ended_by_application(commit=False)  # by a text that `note_end` has not understood

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        _doubt(self.connection)
        self._note_end(query)
        super().executemany(query, *arguments, **options)

    def stream(self, query: Any, *arguments: Any, **options: Any) -> Iterator[tuple[Any, ...]]:
        self._note_end(query)
        return super().stream(query, *arguments, **options)

    def copy(self, statement: Any, *arguments: Any, **options: Any) -> Any:
        self._note_end(statement)
        return super().copy(statement, *arguments, **options)

    def _note_end(self, query: Any) -> None:
        driver: object = self.connection
        if isinstance(driver, StoreConnection) and driver.owner is not None:
            note_end(driver.owner, _text(query, driver))


class UncopiedBytes(BytesBinaryDumper):
    """Passes bytes to libpq as they are.

    psycopg's own, of which there is one in C too, copies them first, and keeps the copy until the statement has ended:
    a second body in memory beside libpq's copy of it. As a class of its own it is not exchanged for the one in C.
    """


class StoreConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection of a store's engine, with a `Session`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cursor_factory = StoreCursor
        self._session: Session | None = None
        #: ``None`` = the connection is in no transaction of Mercury's.
        self.owner: Ends | None = None
        #: Its buffers have grown: see `releasing.release`.
        self.grown = False
        #: The application may have changed settings of its session, such as ``synchronous_commit``: likewise.
        self.changed = False

    @classmethod
    def opened(cls, arguments: Sequence[Any], options: Mapping[str, Any]) -> StoreConnection:
        """A new connection.

        :param arguments: those of psycopg's ``connect``, as ``options``.
        """
        driver = cls.connect(*arguments, **options)
        driver.adapters.register_dumper(bytes, UncopiedBytes)
        return driver

    @property
    def session(self) -> Session:
        """The session on this connection."""
        if self._session is None:
            self._session = Session(self)
        return self._session

    def commit(self) -> None:
        if self.owner is not None:
            self.owner.ended_by_application(commit=True)
        if not self._has_ended:
            super().commit()
        self._settle()

    def rollback(self) -> None:
        if self.owner is not None:
            self.owner.ended_by_application(commit=False)
        if not self._has_ended:
            if not self.closed and self.pgconn.transaction_status != TransactionStatus.IDLE:
                self.session.doubtful = True
            super().rollback()
        self._settle()

    @property
    def is_reusable(self) -> bool:
        """Whether the next transaction may begin on it as it is."""
        doubtful = self._session is not None and self._session.doubtful
        return not (self.closed or self.grown or doubtful) and self._has_ended

    @property
    def _has_ended(self) -> bool:
        """Whether there is no transaction to end: a `Session` has ended it, and psycopg would take a while to find
        out."""
        return self._tpc is None and self.pgconn.transaction_status == TransactionStatus.IDLE

    def _settle(self) -> None:
        """Find out after a transaction which statements are left, so that the next one need not doubt.

        Raises nothing if the connection is lost: the transaction has ended, and its outcome is known.
        """
        if self._session is not None and self._session.doubtful and not self.closed:
            with contextlib.suppress(psycopg.OperationalError):
                self._session.settle()

    @contextlib.contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        self.session.doubtful = True
        with super().transaction(savepoint_name, force_rollback) as transaction:
            yield transaction


def _text(query: Any, connection: StoreConnection) -> str:
    """The text of a query as psycopg takes it; empty = psycopg refuses it."""
    if isinstance(query, str):
        return query
    if isinstance(query, Composable):
        return query.as_string(connection)
    return query.decode(errors="replace") if isinstance(query, bytes) else ""


def changes_session(statement: str) -> bool:
    """Whether a statement may change settings of the session."""
    return _has(SETS, statement)


def _has(sought: re.Pattern[str], statement: str) -> bool:
    # Statements with literals may be as long as what they store: they are not kept in memory.
    if len(statement) > MOST_REMEMBERED:
        return sought.search(statement) is not None
    return _searched(sought, statement)


@lru_cache(maxsize=1024)
def _searched(sought: re.Pattern[str], statement: str) -> bool:
    return sought.search(statement) is not None


def _doubt(connection: object) -> None:
    if isinstance(connection, StoreConnection):
        connection.session.doubtful = True
