"""Reading an application's table through SQLAlchemy, in the driver and in Spark's tasks.

One consistent read of a PostgreSQL database by many connections needs a snapshot that one of them exports and keeps
open; the others take it over. A SQLite file is watched instead: its change counter says afterwards whether somebody
wrote while it was read. Elsewhere every statement sees its own moment, and the report says so.
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
from mercury.reconcile.kinds import Kind

#: Rows that one read takes from the server at a time.
CHUNK = 1000

#: SQLAlchemy's name for PostgreSQL.
POSTGRES = "postgresql"
#: The prepared transactions of one database.
PREPARED = sa.text("select gid from pg_prepared_xacts where database = current_database()")
#: The size of a table in blocks, where it has any.
BLOCKS = sa.text(
    "select pg_relation_size(oid) / current_setting('block_size')::int from pg_class "
    "where oid = to_regclass(:name) and relkind in ('r', 'm') and not relhassubclass"
)

#: From the most special to the most general.
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
    """What is known about the moment of a read."""

    #: One moment for all that was read.
    SNAPSHOT = "one snapshot"
    #: Nobody wrote meanwhile, which is as good.
    UNCHANGED = "nothing was written meanwhile"
    #: Somebody wrote, or may have.
    NONE = "not one moment"


@dataclass(frozen=True, slots=True)
class Place:
    """A table in a database, as a task can open it."""

    url: str
    table: str
    where: str | None = None
    #: PostgreSQL's name of the snapshot that is to be used.
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
    #: TIMESTAMP: with a time zone.
    zoned: bool = False


@contextlib.contextmanager
def translating(what: str) -> Iterator[None]:
    """What a database refuses becomes a `StorageError` that names it, without statement and parameters."""
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
    """A URL without its password.

    :raises ConfigurationError: it is none.
    """
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except ArgumentError as error:
        raise ConfigurationError("a database's URL cannot be read: dialect+driver://user:password@host/name") from error


def _is_postgres(url: str) -> bool:
    return sa.make_url(url).get_backend_name() == POSTGRES


def prepared(url: str) -> list[str]:
    """The gids of the transactions that are prepared in a database at this moment: only PostgreSQL prepares any.

    :raises StorageError: the database cannot be reached.
    """
    if not _is_postgres(url):
        return []
    with connected(url) as connection, translating(shown(url)):
        return list(connection.execute(PREPARED).scalars())


@contextlib.contextmanager
def connected(url: str, snapshot: str | None = None) -> Iterator[sa.Connection]:
    """A connection in one read-only transaction, at a snapshot where there is one.

    :raises StorageError: the database refuses.
    :raises ConfigurationError: the URL names no database that can be reached from here.
    """
    _refuse_missing_file(url)
    with translating(shown(url)):
        engine = sa.create_engine(_with_driver(url), poolclass=NullPool)
        try:
            with engine.connect() as connection:
                if _is_postgres(url):
                    _read_infinity(connection)
                    connection = connection.execution_options(
                        isolation_level="REPEATABLE READ", postgresql_readonly=True
                    )
                    if snapshot is not None:
                        connection.execute(sa.text(f"set transaction snapshot '{snapshot}'"))
                    # The exporting session waits while others work; nothing here may depend on the session's zone.
                    connection.execute(sa.text("set local idle_in_transaction_session_timeout = 0"))
                    connection.execute(sa.text("set local time zone 'UTC'"))
                yield connection
        finally:
            engine.dispose()


def _read_infinity(connection: sa.Connection) -> None:
    """PostgreSQL has dates that Python has not: `infinity`, and years before 1 or after 9999. They stay texts."""
    from psycopg import DataError, abc
    from psycopg.types import datetime as types

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


def _with_driver(url: str) -> sa.URL:
    """PostgreSQL without a driver means the one that Mercury brings."""
    parsed = sa.make_url(url)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == POSTGRES else parsed


def _refuse_missing_file(url: str) -> None:
    """SQLite makes a file that is not there; a database in memory is nobody else's."""
    shown(url)
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigurationError("a SQLite database in memory cannot be read by Spark's tasks: name a file")
    if not parsed.database.startswith("file:") and not Path(parsed.database).exists():
        raise StorageError(f"{shown(url)}: there is no such file")


def stream(connection: sa.Connection, statement: sa.Select[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    """The rows of a statement in chunks, without ever holding all of them."""
    result = connection.execution_options(stream_results=True, yield_per=CHUNK).execute(statement)
    yield from result.partitions()


class Source:
    """One database of an application, held at one moment as well as it can be, while the reconciliation runs."""

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
        """The blocks of an ordinary table of PostgreSQL's; 0 for every other (views, partitioned and foreign tables).

        :raises StorageError: the database refuses.
        """
        if not self.is_postgres:
            return 0
        schema, _, name = self.place.table.rpartition(".")
        preparer = self.connection.dialect.identifier_preparer
        quoted = ".".join(preparer.quote(part) for part in (schema, name) if part)
        with translating(self.place.table):
            return int(self.connection.execute(BLOCKS, {"name": quoted}).scalar() or 0)

    def natives(self, columns: Sequence[str]) -> dict[str, Native]:
        """What the database says about these columns.

        :raises ConfigurationError: there is no such table, or no such column.
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
        """One row of aggregates over the rows that take part."""
        query = sa.select(*expressions).select_from(self.place.from_clause()).where(*self.place.conditions())
        with translating(self.place.table):
            return self.connection.execute(query).one()

    def consistency(self) -> Consistency:
        """What is known now about the moment of everything that was read so far."""
        if self.place.snapshot is not None:
            return Consistency.SNAPSHOT
        if self._change is not None and self._change == self._change_counter():
            return Consistency.UNCHANGED
        return Consistency.NONE

    def _change_counter(self) -> int | None:
        """SQLite: changes when another connection commits. Asked outside a transaction, or it would stand still."""
        if self.dialect != "sqlite":
            return None
        self.connection.rollback()
        counter: int = self.connection.exec_driver_sql("pragma data_version").scalar_one()
        self.connection.rollback()
        return counter


@contextlib.contextmanager
def held(url: str, table: str, where: str | None) -> Iterator[Source]:
    """A source at the present moment, until the block ends.

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
