"""Versions of the schema: which one a database has, which ones this Mercury can use, and the id of a store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import time

from sqlalchemy import Connection, Engine, delete, inspect, select, text

from mercury.storage.sql.dialects import dialect_of
from mercury.storage.sql.errors import translated
from mercury.storage.sql.schema import COMPATIBILITY, STORE

VERSION_TABLE = "mercury_schema_version"
#: All versions of the schema, each four digits; the last one is this Mercury's.
KNOWN = ("0001", "0002")
HEAD = KNOWN[-1]
#: The oldest version whose Mercury can go on using a database with this Mercury's schema: every later one only adds
#: tables, indexes, and columns that are nullable or have a server default.
OLDEST = "0001"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The version of Mercury's schema in a database."""

    #: ``None`` = the database has no schema of Mercury.
    version: str | None
    #: The oldest version whose Mercury can use the database, as the database says; ``None`` = it does not say.
    oldest: str | None = None

    @property
    def current(self) -> bool:
        return self.version == HEAD

    @property
    def newer(self) -> bool:
        """Whether a newer Mercury has made the schema."""
        return self.version is not None and self.version not in KNOWN

    @property
    def usable(self) -> bool:
        """Whether this Mercury can use the schema as it is."""
        return self.current or (self.newer and self.oldest is not None and self.oldest <= HEAD)

    @property
    def too_new(self) -> bool:
        return self.newer and not self.usable

    @property
    def additive(self) -> bool:
        """Whether the upgrade from this schema only adds to it, so that processes may use it meanwhile."""
        return self.version is not None and OLDEST <= self.version < HEAD


def status(engine: Engine) -> SchemaStatus:
    """The version of the schema that the database has.

    :raises StorageError: the database does not answer.
    """
    with translated(), engine.connect() as connection:
        return read_status(connection)


def read_status(connection: Connection) -> SchemaStatus:
    tables = inspect(connection)
    if not tables.has_table(VERSION_TABLE):
        return SchemaStatus(None)
    version = connection.execute(text(f"select version_num from {VERSION_TABLE}")).scalar_one_or_none()  # noqa: S608
    if version in KNOWN or not tables.has_table(COMPATIBILITY.name):
        return SchemaStatus(version, OLDEST if version == HEAD else None)
    said = select(COMPATIBILITY.c.oldest).where(COMPATIBILITY.c.version == version)
    return SchemaStatus(version, connection.execute(said).scalar_one_or_none())


def identifier(engine: Engine) -> str | None:
    """The id of the store; ``None`` = the store has none yet.

    :raises StorageError: the database does not answer, or has no schema.
    """
    with translated(), engine.connect() as connection:
        return connection.execute(select(STORE.c.id)).scalar_one_or_none()


def renew_id(engine: Engine) -> str:
    """Give a copied store a new id, before it runs (decision 17). Returns it."""
    with translated(), exclusive(engine) as connection:
        connection.execute(delete(STORE))
        identifier = name(connection)
        connection.commit()
    return identifier


def name(connection: Connection) -> str:
    """Give a store without an id a new one. Returns it."""
    identifier = uuid.uuid4().hex[:12]
    connection.execute(STORE.insert().values(id=identifier, created_at=time()))
    return identifier


@contextmanager
def exclusive(engine: Engine) -> Iterator[Connection]:
    """A transaction that has locked the schema against other changes."""
    dialect = dialect_of(engine)
    assert dialect is not None, f"no store can be in {engine.url.drivername}"
    with engine.connect() as connection:
        dialect.lock_schema(connection)
        yield connection
