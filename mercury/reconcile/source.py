"""Reads an application's table through SQLAlchemy, in the driver and in Spark's tasks.

With PostgreSQL, one connection exports a snapshot and keeps it open, and all others import it, so that they read one
state. With SQLite, the file's change counter shows afterwards whether another connection wrote during the read. With
other databases each statement sees a state of its own, and the report says so.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from mercury.errors import ConfigurationError, StorageError
from mercury.masking import masked
from mercury.reconcile.kinds import Kind

#: Rows that one fetch takes from the database.
CHUNK = 1000

#: A table with fewer blocks than this is counted.
LARGE = 1000

#: SQLAlchemy's name for PostgreSQL.
POSTGRES = "postgresql"
#: The prepared transactions of one database.
PREPARED = sa.text("select gid from pg_prepared_xacts where database = current_database()")
#: The size of a table in blocks, where it has any.
BLOCKS = sa.text(
    "select pg_relation_size(oid) / current_setting('block_size')::int from pg_class "
    "where oid = to_regclass(:name) and relkind in ('r', 'm') and not relhassubclass"
)
#: The rows of a block of a table, when PostgreSQL last looked at them.
DENSITY = sa.text(
    "select reltuples / nullif(relpages, 0) from pg_class where oid = to_regclass(:name) and reltuples > 0"
)

#: SQLAlchemy's types and their kinds; subclasses come before their base classes.
_KINDS: tuple[tuple[type[sa.types.TypeEngine[Any]], Kind], ...] = (
    (sa.Uuid, Kind.UUID),
    (sa.Boolean, Kind.BOOLEAN),
    (sa.DateTime, Kind.TIMESTAMP),
    (sa.Date, Kind.DATE),
    (sa.Integer, Kind.INTEGER),
    (sa.Float, Kind.FLOAT),
    (sa.Numeric, Kind.DECIMAL),
    (sa.JSON, Kind.JSON),
    (sa.LargeBinary, Kind.BYTES),
    (sa.types._Binary, Kind.BYTES),
    (sa.String, Kind.TEXT),
)


class Consistency(enum.Enum):
    """Whether everything that was read is one state of the database."""

    #: Everything was read in one snapshot.
    SNAPSHOT = "one snapshot"
    #: No other connection wrote during the read, so it is one state too.
    UNCHANGED = "nothing was written meanwhile"
    #: Another connection wrote, or may have written, during the read.
    NONE = "no common snapshot"


@dataclass(frozen=True, slots=True)
class Place:
    """A table in a database, with what a task needs to open it."""

    url: str
    table: str
    where: str | None = None
    #: PostgreSQL's name of the exported snapshot; ``None`` = none.
    snapshot: str | None = None

    def from_clause(self) -> sa.TableClause:
        schema, _, name = self.table.rpartition(".")
        return sa.table(name, schema=schema or None)

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        return [] if self.where is None else [sa.text(f"({self.where})")]  # type: ignore[list-item]


@dataclass(frozen=True, slots=True)
class Native:
    """A column as its database describes it."""

    kind: Kind | None
    #: The database's own name of the type.
    text: str
    #: Whether a TIMESTAMP has a time zone.
    zoned: bool = False


@contextlib.contextmanager
def translating(what: str) -> Iterator[None]:
    """Translate a database's error into a `StorageError` that begins with ``what``, without statement and
    parameters."""
    try:
        yield
    except DBAPIError as error:
        text = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        raise StorageError(f"{what}: {text}") from error
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigurationError(f"{what}: {error}") from error
    except SQLAlchemyError as error:
        raise StorageError(f"{what}: {str(error).splitlines()[0]}") from error


def shown(url: str) -> str:
    """A URL without its passwords.

    :raises ConfigurationError: the text is not a URL.
    """
    try:
        return masked(sa.make_url(url).render_as_string())
    except (ArgumentError, ValueError):  # a port that is no number; it may be a part of the password
        text = "a database's URL cannot be read: dialect+driver://user:password@host:port/name, with %40 for an @"
        raise ConfigurationError(text) from None


def _is_postgres(url: str) -> bool:
    return sa.make_url(url).get_backend_name() == POSTGRES


def prepared(url: str) -> list[str]:
    """The gids of the transactions that are prepared in a database at this moment; none except with PostgreSQL.

    :raises StorageError: the database cannot be reached.
    """
    if not _is_postgres(url):
        return []
    with connected(url) as connection, translating(shown(url)):
        return list(connection.execute(PREPARED).scalars())


@contextlib.contextmanager
def connected(url: str, snapshot: str | None = None) -> Iterator[sa.Connection]:
    """A connection in one read-only transaction.

    :param snapshot: PostgreSQL's name of a snapshot to import.
    :raises StorageError: the database fails.
    :raises ConfigurationError: the URL is not valid, or its driver is missing.
    """
    _refuse_missing_file(url)
    with translating(shown(url)):
        engine = sa.create_engine(_with_driver(url), poolclass=NullPool)
        try:
            with engine.connect() as connection:
                if _is_postgres(url):
                    _read_texts(connection)
                    connection = connection.execution_options(
                        isolation_level="REPEATABLE READ", postgresql_readonly=True
                    )
                    if snapshot is not None:
                        connection.execute(sa.text(f"set transaction snapshot '{snapshot}'"))
                    # The exporting session is idle while the tasks read. The results must not depend on its time zone.
                    connection.execute(sa.text("set local idle_in_transaction_session_timeout = 0"))
                    connection.execute(sa.text("set local time zone 'UTC'"))
                    # With fewer digits, as a database may be set to, different floats have one text.
                    connection.execute(sa.text("set local extra_float_digits = 1"))
                yield connection
        finally:
            engine.dispose()


def _read_texts(connection: sa.Connection) -> None:
    """Load as texts the dates that Python cannot represent (`infinity`, years before 1 or after 9999), and JSON, whose
    numbers Python would round and whose `null` it would take for SQL's."""
    from psycopg import DataError, abc
    from psycopg.types import datetime as types
    from psycopg.types.string import TextLoader

    def lenient(strict: type[abc.Loader]) -> type[abc.Loader]:
        class Lenient(strict):  # type: ignore[valid-type, misc]
            def load(self, data: abc.Buffer) -> Any:
                try:
                    return super().load(data)
                except DataError:
                    return bytes(data).decode()

        return Lenient

    driver = connection.connection.dbapi_connection
    adapters = getattr(driver, "adapters", None)
    if adapters is not None:
        adapters.register_loader("date", lenient(types.DateLoader))
        adapters.register_loader("timestamp", lenient(types.TimestampLoader))
        adapters.register_loader("timestamptz", lenient(types.TimestamptzLoader))
        adapters.register_loader("json", TextLoader)
        adapters.register_loader("jsonb", TextLoader)


def _with_driver(url: str) -> sa.URL:
    """The URL; for PostgreSQL without a driver, with the driver that Mercury installs."""
    parsed = sa.make_url(url)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == POSTGRES else parsed


def is_here(url: str) -> bool:
    """Whether the file of a SQLite database is on this machine: settings may be those of another one."""
    return Path(sa.make_url(url).database or "").exists()


def _refuse_missing_file(url: str) -> None:
    """Refuse a SQLite file that does not exist, which SQLite would create, and a database in memory.

    :raises ConfigurationError: the database is in memory.
    :raises StorageError: the file does not exist.
    """
    shown(url)
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigurationError("a SQLite database in memory cannot be read by Spark's tasks: name a file")
    if not parsed.database.startswith("file:") and not is_here(url):
        raise StorageError(f"{shown(url)}: there is no such file")


def stream(connection: sa.Connection, statement: sa.Select[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    """The rows of a statement in chunks of `CHUNK`, so that memory stays bounded."""
    result = connection.execution_options(stream_results=True, yield_per=CHUNK).execute(statement)
    yield from result.partitions()


class Source:
    """One database of an application, read in one snapshot where the database can do that."""

    def __init__(self, connection: sa.Connection, place: Place) -> None:
        self.connection = connection
        self.place = place
        self._change = self._change_counter()

    @property
    def dialect(self) -> str:
        """The kind of database, as SQLAlchemy names it."""
        return self.connection.dialect.name

    @property
    def is_postgres(self) -> bool:
        return self.dialect == POSTGRES

    def blocks(self) -> int:
        """The number of blocks of an ordinary PostgreSQL table; 0 for views, partitioned and foreign tables, and for
        other databases.

        :raises StorageError: the database fails.
        """
        if not self.is_postgres:
            return 0
        with translating(self.place.table):
            return int(self.connection.execute(BLOCKS, {"name": self._quoted()}).scalar() or 0)

    def _quoted(self) -> str:
        schema, _, name = self.place.table.rpartition(".")
        preparer = self.connection.dialect.identifier_preparer
        return ".".join(preparer.quote(part) for part in (schema, name) if part)

    def estimated_rows(self) -> int | None:
        """PostgreSQL's estimate of the number of rows of a large table; ``None`` = they must be counted: the table is
        small, or PostgreSQL has not seen its rows yet.

        :raises StorageError: the database fails.
        """
        if self.place.where is not None or (blocks := self.blocks()) < LARGE:
            return None
        with translating(self.place.table):
            density = self.connection.execute(DENSITY, {"name": self._quoted()}).scalar()
        return int(density * blocks) if density else None

    def is_unique(self, column: str) -> bool:
        """Whether the database refuses two rows with the same value in this column.

        :raises StorageError: the database fails.
        """
        schema, _, name = self.place.table.rpartition(".")
        inspector = sa.inspect(self.connection)
        with translating(self.place.table):
            keys: list[list[str | None]] = []
            keys.append([*inspector.get_pk_constraint(name, schema=schema or None)["constrained_columns"]])
            keys += [
                list(each["column_names"])
                for each in inspector.get_indexes(name, schema=schema or None)
                if each["unique"] and "postgresql_where" not in each.get("dialect_options", {})
            ]
        return [column] in keys

    def natives(self, columns: Sequence[str]) -> dict[str, Native]:
        """The database's descriptions of these columns.

        :raises ConfigurationError: the table or a column does not exist.
        """
        schema, _, name = self.place.table.rpartition(".")
        inspector = sa.inspect(self.connection)
        if not (inspector.has_table(name, schema=schema or None)):
            known = ", ".join(sorted(inspector.get_table_names(schema=schema or None))[:20])
            raise ConfigurationError(
                f"{shown(self.place.url)} has no table {self.place.table!r}" + (f" (but {known})" if known else "")
            )
        found = {each["name"]: each["type"] for each in inspector.get_columns(name, schema=schema or None)}
        for column in columns:
            if column not in found:
                raise ConfigurationError(
                    f"{self.place.table} of {shown(self.place.url)} has no column {column!r} (but {', '.join(found)})"
                )
        return {column: _native(found[column], self.connection.dialect) for column in columns}

    def one(self, *expressions: sa.ColumnElement[Any]) -> Sequence[Any]:
        """One row of aggregates over the rows that fulfil the table's condition."""
        query = sa.select(*expressions).select_from(self.place.from_clause()).where(*self.place.conditions())
        with translating(self.place.table):
            return self.connection.execute(query).one()

    def consistency(self) -> Consistency:
        """Whether everything that was read so far is one state of the database."""
        if self.place.snapshot is not None:
            return Consistency.SNAPSHOT
        if self._change is not None and self._change == self._change_counter():
            return Consistency.UNCHANGED
        return Consistency.NONE

    def _change_counter(self) -> int | None:
        """SQLite's counter of commits by other connections. It is read outside a transaction, because it does not
        change inside one."""
        if self.dialect != "sqlite":
            return None
        self.connection.rollback()
        counter: int = self.connection.exec_driver_sql("pragma data_version").scalar_one()
        self.connection.rollback()
        return counter


@contextlib.contextmanager
def held(url: str, table: str, where: str | None) -> Iterator[Source]:
    """A source whose snapshot is taken now and kept until the block ends.

    :raises StorageError: the database cannot be reached.
    """
    with connected(url) as connection:
        snapshot = None
        if _is_postgres(url):
            with translating(shown(url)):
                snapshot = connection.execute(sa.text("select pg_export_snapshot()")).scalar_one()
        yield Source(connection, Place(url, table, where, snapshot))


def _native(given: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> Native:
    kind = next((kind for cls, kind in _KINDS if isinstance(given, cls)), None)
    try:
        text = given.compile(dialect=dialect)
    except SQLAlchemyError:
        text = type(given).__name__
    return Native(kind, text.upper(), bool(getattr(given, "timezone", False)))
