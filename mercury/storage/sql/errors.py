"""Translates errors of SQLAlchemy and of the drivers into errors of the storage API."""

from __future__ import annotations

import sqlite3

import psycopg
from sqlalchemy import exc

from mercury.errors import Conflict, DataError, StorageError, TransientStorageError, text_of

#: SQLSTATE classes and codes after which the same transaction may succeed: connection exceptions, transaction
#: rollbacks, lock not available, no resources, operator intervention, errors of the system, idle or too long in a
#: transaction.
TRANSIENT = ("08", "40", "55P03", "53", "57P", "58", "25P03", "25P04")
UNIQUE_VIOLATION = "23505"
#: SQLSTATE classes of errors that the same values raise again: data exceptions, constraints, program limits.
REFUSALS = ("22", "23", "54")
#: Errors that the drivers raise before a statement is sent: a number too large, text that is not UTF-8.
NEVER_SENT = (OverflowError, UnicodeEncodeError)
DATABASE_ERRORS = (exc.SQLAlchemyError, psycopg.Error, sqlite3.Error, *NEVER_SENT)
#: SQLAlchemy's code of the error of a connection that was lost within a transaction.
LOST_BEFORE = "8s2b"
LOST = "the connection to the database is lost; nothing is kept"
#: SQLite's texts for transient errors.
TRANSIENT_TEXTS = ("locked", "busy", "disk i/o error", "full")


def translate(error: Exception) -> StorageError | None:
    """The corresponding error of the storage API; ``None`` = this is not a database error."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, exc.TimeoutError):  # no connection in the pool is free
        return TransientStorageError(f"no connection to the database is free: {text_of(error)}")
    if isinstance(error, exc.PendingRollbackError) and error.code == LOST_BEFORE:
        return TransientStorageError(LOST)  # an earlier error of the transaction has said so, and was caught
    if isinstance(error, NEVER_SENT):
        return DataError(_first_line(error))
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    text = _first_line(original)
    if isinstance(original, psycopg.Error):
        return _from_postgres(original, text, lost=isinstance(error, exc.DBAPIError) and error.connection_invalidated)
    if isinstance(original, sqlite3.Error):
        if isinstance(original, sqlite3.IntegrityError):
            return Conflict(text)
        if isinstance(original, sqlite3.DataError):
            return DataError(text)
        transient = isinstance(original, sqlite3.OperationalError) and any(
            word in text.lower() for word in TRANSIENT_TEXTS
        )
        return TransientStorageError(text) if transient else StorageError(text)
    return StorageError(text_of(error)) if isinstance(error, exc.SQLAlchemyError) else None


def _from_postgres(error: psycopg.Error, text: str, *, lost: bool) -> StorageError:
    state = error.sqlstate or ""
    if state == UNIQUE_VIOLATION:
        return Conflict(text)
    # An error without a SQLSTATE: the connection is lost.
    gone = lost or (not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError))
    if gone or state.startswith(TRANSIENT):
        return TransientStorageError(text)
    # A value that psycopg cannot send, such as text with a NUL, has no SQLSTATE either.
    if state.startswith(REFUSALS) or isinstance(error, psycopg.DataError):
        return DataError(text)
    return StorageError(text)


def _first_line(error: BaseException | None) -> str:
    lines = text_of(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


class translated:  # noqa: N801 - used like a function
    """Translates database errors in its block into errors of the storage API."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DATABASE_ERRORS):
            known = translate(error)
            assert known is not None
            raise known from error
