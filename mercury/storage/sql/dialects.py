"""The kinds of databases that can hold a store. A new kind is a file with its `Dialect`, and an entry in `KINDS`."""

from __future__ import annotations

from sqlalchemy import URL, Engine

from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.postgres_dialect import Postgres
from mercury.storage.sql.sqlite_dialect import Sqlite

#: The kinds of databases that can hold a store.
KINDS: tuple[type[Dialect], ...] = (Postgres, Sqlite)


def dialect_of_url(url: URL) -> Dialect | None:
    """The kind of database of a store's URL; ``None`` = a kind that cannot hold a store."""
    return next((kind() for kind in KINDS if url.drivername in kind.drivers), None)


def dialect_of(engine: Engine) -> Dialect | None:
    """The kind of database of an application's engine; ``None`` = a kind that Mercury does not know."""
    return next((found for kind in KINDS if (found := kind()).has_made(engine)), None)
