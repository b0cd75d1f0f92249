"""Opening a store by its URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercury.errors import ConfigurationError, StorageError
from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from mercury.storage.sql.dialects import Dialect
    from mercury.storage.sql.store import SqlStore

MEMORY = "memory:"
WHAT_THERE_IS = "memory:, sqlite:///FILE and postgresql+psycopg://USER@HOST/DATABASE are what there is"


def open_store(url: str) -> StorageManager:
    """The store a URL names: ``memory:``, ``sqlite:///file`` or ``postgresql+psycopg://...``.

    An empty database gets Mercury's tables.

    :raises ConfigurationError: the URL names no store that there is, or its schema is not this Mercury's.
    :raises StorageError: the database does not answer.
    """
    if url == MEMORY:
        return MemoryStore()
    return open_sql_store(url)


def open_sql_store(
    url: str, *, lock_timeout: float = 10.0, idle_timeout: float = 30.0, database_clock: bool = True
) -> SqlStore:
    """A store in a database; parameters are those of `SqlStore`, errors those of `open_store`."""
    from mercury.storage.sql.dialects import Postgres
    from mercury.storage.sql.store import SqlStore
    from mercury.storage.sql.versions import make_ready

    parsed, dialect = read_url(url)
    store = SqlStore(
        parsed,
        dialect,
        lock_timeout=lock_timeout,
        idle_timeout=idle_timeout,
        database_clock=database_clock and isinstance(dialect, Postgres),
    )
    shown = parsed.render_as_string(hide_password=True)
    try:
        make_ready(store.engine, shown)
    except StorageError as error:
        store.close()
        raise StorageError(f"the store {shown} can not be opened: {error}") from error
    except BaseException:
        store.close()
        raise
    return store


def open_engine(url: str) -> Engine:
    """An engine for a store's database, whatever its schema.

    :raises ConfigurationError: the URL names no SQL store.
    """
    parsed, dialect = read_url(url)
    return dialect.engine(parsed, 10.0, 30.0)


def read_url(url: str) -> tuple[URL, Dialect]:
    """The URL's parts and the kind of database it names.

    :raises ConfigurationError: it names none that there is.
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    from mercury.storage.sql.dialects import Postgres, Sqlite

    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError(f"not a store: {url!r} ({WHAT_THERE_IS})") from None
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg"), Postgres()
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        if not parsed.database or parsed.database == ":memory:":
            raise ConfigurationError("a SQLite store is a file: sqlite:///FILE (what lives in memory only is memory:)")
        return parsed, Sqlite()
    shown = parsed.render_as_string(hide_password=True)
    raise ConfigurationError(f"not a store: {shown!r} ({WHAT_THERE_IS})")
