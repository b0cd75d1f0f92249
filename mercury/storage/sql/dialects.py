"""The differences between PostgreSQL and SQLite, all in this file."""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Connection,
    Double,
    Engine,
    Integer,
    LargeBinary,
    Table,
    Text,
    bindparam,
    create_engine,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import NullPool

from mercury.errors import CapabilityError, ConfigurationError
from mercury.storage.api import Capabilities

Rows = Sequence[Mapping[str, Any]]

#: The type of auto-increment columns: in SQLite it must be an INTEGER primary key.
POSITION = BigInteger().with_variant(Integer, "sqlite")
#: Connect time-out in seconds, unless the URL sets one.
CONNECT_TIMEOUT = 10
#: Executions after which a connection prepares a statement: Mercury repeats few statements.
PREPARE_AFTER = 1
#: The advisory lock that a process holds while it changes the schema.
SCHEMA_LOCK = 0x6D657263
HAS_DEFERRED = "select exists (select from pg_trigger where tgdeferrable)"
#: Rolling back to the nested savepoint restores the modes of the constraints; one round trip.
CHECK_DEFERRED = (
    "savepoint mercury_check; set constraints all immediate; "
    "rollback to savepoint mercury_check; release savepoint mercury_check"
)
#: Several statements in one string cannot be prepared.
AS_IT_IS = MappingProxyType({"no_parameters": True})


class Dialect(ABC):
    """What a SQL store needs of a kind of database."""

    capabilities: Capabilities
    #: The name of the dialect in SQLAlchemy.
    name: str
    #: One writer at a time: a writing transaction locks out all others.
    single_writer: bool
    #: The database is a server: the answer to a commit may be lost on the network.
    remote: bool
    #: The database has a clock, by which the leases of all processes can be measured.
    has_clock: bool
    #: A query may contain changes: one statement can change several tables and return the changed rows.
    changes_in_queries: bool
    #: The prefix of SQLAlchemy's URLs.
    drivers: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def url(self, given: URL) -> URL:
        """The URL of a store in the form that `engine` takes.

        :raises ConfigurationError: the URL cannot be that of a store.
        """
        return given

    def has_made(self, engine: Engine) -> bool:
        """Whether an application's engine is of this kind, and has a driver that Mercury can use."""
        return engine.dialect.name == self.name

    @abstractmethod
    def exists(self, url: URL) -> bool:
        """``False`` = the database does not exist; determined without connecting to it, else ``True``."""

    @abstractmethod
    def engine(self, url: URL, lock_timeout: float, idle_timeout: float) -> Engine:
        """An engine whose connections are set up for Mercury. The time-outs are seconds."""

    @abstractmethod
    def begin_writing(self, connection: Connection) -> None:
        """Prepare a transaction for writing; called once, before its first lock or change."""

    def limit_lock_wait(self, connection: Connection, milliseconds: int) -> None:  # noqa: B027 - most databases need nothing here
        """Limit the waits for locks in this transaction, where the database has a limit per transaction."""

    @abstractmethod
    def lock_schema(self, connection: Connection) -> None:
        """Lock the schema against changes by others until the transaction ends."""

    @abstractmethod
    def now(self, connection: Connection) -> float:
        """The time of the database's clock, or of this process if the database has none, in seconds since the epoch."""

    def execute_all(self, connection: Connection, statements: Sequence[str]) -> None:
        """Execute statements without parameters and results; in one round trip if the database can."""
        for text in statements:
            connection.exec_driver_sql(text, execution_options=AS_IT_IS)

    @abstractmethod
    def insert(self, connection: Connection, table: Table, rows: Rows, *, ignore: bool = False) -> None:
        """Insert rows with the same columns, in one statement. With ``ignore``, existing rows stay as they are."""

    def insert_both(self, connection: Connection, first: Table, first_rows: Rows, second: Table, rows: Rows) -> None:
        """Insert into two tables; in one statement if the database can."""
        self.insert(connection, first, first_rows)
        self.insert(connection, second, rows)

    @abstractmethod
    def upsert(self, table: Table) -> Any:
        """An insert that has ``on_conflict_do_update`` and ``on_conflict_do_nothing``."""

    @abstractmethod
    def update(self, connection: Connection, table: Table, key: str, rows: Rows) -> None:
        """Update rows with the same columns by their column ``key``, in one statement."""

    # --- the application's part of a transaction ---------------------------------------------------------------------

    def has_deferred(self, connection: Connection) -> bool:
        """Whether the database has deferrable constraints that can be checked before the commit."""
        return False

    def check_deferred(self, connection: Connection) -> None:  # noqa: B027 - most databases need nothing here
        """Check the deferred constraints now; they stay deferred for later statements.

        :raises sqlalchemy.exc.IntegrityError: a constraint is violated; the transaction can only roll back to a
            savepoint.
        """

    def check_durable(self, connection: Connection) -> None:  # noqa: B027 - most databases need nothing here
        """Check that a session of the application commits durably.

        :raises CapabilityError: its commits may be lost.
        """


class Postgres(Dialect):
    """PostgreSQL with psycopg: locks single rows; several processes may share the database."""

    capabilities = Capabilities(durable=True, shared=True, notifies=True, last_resource=True, two_phase=True)
    name = "postgresql"
    single_writer = False
    remote = True
    has_clock = True
    changes_in_queries = True
    drivers = ("postgresql", "postgresql+psycopg")

    def url(self, given: URL) -> URL:
        return given.set(drivername="postgresql+psycopg")

    def has_made(self, engine: Engine) -> bool:
        return super().has_made(engine) and engine.dialect.driver == "psycopg"

    def exists(self, url: URL) -> bool:
        return True

    def engine(self, url: URL, lock_timeout: float, idle_timeout: float) -> Engine:
        options = (
            f"-c lock_timeout={int(lock_timeout * 1000)} "
            f"-c idle_in_transaction_session_timeout={int(idle_timeout * 1000)} "
            "-c synchronous_commit=on -c default_transaction_isolation=read\\ committed"
        )
        given = str(url.query.get("options", ""))
        return create_engine(
            url,
            connect_args={
                "options": f"{options} {given}".strip(),
                "application_name": "mercury",
                "prepare_threshold": PREPARE_AFTER,
                "connect_timeout": int(str(url.query.get("connect_timeout", CONNECT_TIMEOUT))),
            },
            pool_size=10,
            max_overflow=20,
            # Last in, first out: the few connections in use have prepared the statements, and their plans are cached.
            pool_use_lifo=True,
            pool_reset_on_return="rollback",
            pool_pre_ping=False,
        )

    def begin_writing(self, connection: Connection) -> None:
        """No effect: the driver begins the transaction."""

    def limit_lock_wait(self, connection: Connection, milliseconds: int) -> None:
        connection.exec_driver_sql(f"set local lock_timeout = {milliseconds}")

    def lock_schema(self, connection: Connection) -> None:
        # If two processes find an empty database at the same time, only one of them makes the schema.
        connection.exec_driver_sql(f"select pg_advisory_xact_lock({SCHEMA_LOCK})")

    def execute_all(self, connection: Connection, statements: Sequence[str]) -> None:
        connection.exec_driver_sql("; ".join(statements), execution_options=AS_IT_IS)

    def upsert(self, table: Table) -> Any:
        return postgresql.insert(table)

    def has_deferred(self, connection: Connection) -> bool:
        return bool(connection.exec_driver_sql(HAS_DEFERRED).scalar_one())

    def check_deferred(self, connection: Connection) -> None:
        connection.exec_driver_sql(CHECK_DEFERRED, execution_options=AS_IT_IS)

    def check_durable(self, connection: Connection) -> None:
        if connection.exec_driver_sql("show synchronous_commit").scalar() == "off":
            raise CapabilityError("the session has synchronous_commit off: what it commits may be lost")

    def now(self, connection: Connection) -> float:
        return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())

    def insert(self, connection: Connection, table: Table, rows: Rows, *, ignore: bool = False) -> None:
        if not rows:
            return
        statement, columns = _insert(table, ignore=ignore)
        connection.exec_driver_sql(statement, {name: _array([row[name] for row in rows]) for name in columns})

    def insert_both(self, connection: Connection, first: Table, first_rows: Rows, second: Table, rows: Rows) -> None:
        statement, columns = _insert(first)
        before, names = _insert(second, prefix="second_")
        parameters = {name: _array([row[name] for row in first_rows]) for name in columns}
        parameters |= {f"second_{name}": _array([row[name] for row in rows]) for name in names}
        connection.exec_driver_sql(f"with second as ({before}) {statement}", parameters)

    def update(self, connection: Connection, table: Table, key: str, rows: Rows) -> None:
        if not rows:
            return
        columns = tuple(rows[0])
        connection.exec_driver_sql(
            _update(table, key, columns), {name: _array([row[name] for row in rows]) for name in columns}
        )


# Statements made of table and column names of the schema: few, and cached.


@lru_cache(maxsize=128)
def _update(table: Table, key: str, columns: tuple[str, ...]) -> str:
    sets = ", ".join(f'"{name}" = v."{name}"' for name in columns if name != key)
    names = ", ".join(f'"{name}"' for name in columns)
    arrays = ", ".join(_typed(table, name) for name in columns)
    return f'update {table.name} t set {sets} from unnest({arrays}) as v({names}) where t."{key}" = v."{key}"'  # noqa: S608


@lru_cache(maxsize=128)
def _insert(table: Table, *, ignore: bool = False, prefix: str = "") -> tuple[str, tuple[str, ...]]:
    columns = tuple(column.name for column in table.columns if not (column.primary_key and column.name == "position"))
    names = ", ".join(f'"{name}"' for name in columns)
    arrays = ", ".join(_typed(table, name, prefix) for name in columns)
    end = " on conflict do nothing" if ignore else ""
    return f"insert into {table.name} ({names}) select * from unnest({arrays}){end}", columns  # noqa: S608


def _typed(table: Table, name: str, prefix: str = "") -> str:
    kinds: tuple[tuple[type, str], ...] = (
        (Text, "%({})s::text[]"),
        (Boolean, "%({})s::boolean[]"),
        (Double, "%({})s::double precision[]"),
        (BigInteger, "%({})s::bigint[]"),
        (LargeBinary, "%({})b::bytea[]"),
    )
    kind = table.columns[name].type
    return next(cast for known, cast in kinds if isinstance(kind, known)).format(prefix + name)


def _array(values: list[Any]) -> str | list[bytes | None]:
    """The values of one column as the text of a PostgreSQL array; faster than the driver's conversion.

    Bytes are returned as a list: the driver sends them in binary.
    """
    if any(isinstance(value, bytes) for value in values):
        return values
    return f"{{{','.join([_element(value) for value in values])}}}"


def _element(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case bool():
            return "t" if value else "f"
        case int() | float():
            return repr(value)
    raise TypeError(f"no element of an array: {type(value).__name__}")


class Sqlite(Dialect):
    """A SQLite file: it has one writer at a time, so the lock of any row is the lock of the file.

    :param clock: seconds since the epoch; SQLite has no clock of its own.
    """

    capabilities = Capabilities(durable=True, shared=True, notifies=False, last_resource=True, two_phase=False)
    name = "sqlite"
    single_writer = True
    remote = False
    has_clock = False
    changes_in_queries = False
    drivers = ("sqlite", "sqlite+pysqlite")

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    def url(self, given: URL) -> URL:
        if not given.database or given.database == ":memory:":
            raise ConfigurationError("a SQLite store is a file: sqlite:///FILE (for a store in memory use memory:)")
        return given

    def exists(self, url: URL) -> bool:
        return Path(url.database or "").exists()

    def engine(self, url: URL, lock_timeout: float, idle_timeout: float) -> Engine:
        engine = create_engine(
            url,
            connect_args={"timeout": lock_timeout, "isolation_level": None, "check_same_thread": False},
            poolclass=None if url.database else NullPool,
        )

        @event.listens_for(engine, "connect")
        def set_up(connection: Any, _record: Any) -> None:
            use_write_ahead_log(connection, lock_timeout)
            for pragma in ("synchronous = FULL", "foreign_keys = ON"):
                connection.execute(f"pragma {pragma}").close()

        return engine

    def begin_writing(self, connection: Connection) -> None:
        # Begin here, not earlier: a transaction that only reads never waits, and one that reads first can still write.
        connection.exec_driver_sql("begin immediate")

    def lock_schema(self, connection: Connection) -> None:
        self.begin_writing(connection)

    def upsert(self, table: Table) -> Any:
        return sqlite.insert(table)

    def now(self, connection: Connection) -> float:
        return self._clock()

    def insert(self, connection: Connection, table: Table, rows: Rows, *, ignore: bool = False) -> None:
        if rows:
            statement = sqlite.insert(table).on_conflict_do_nothing() if ignore else insert(table)
            connection.execute(statement, list(rows))

    def update(self, connection: Connection, table: Table, key: str, rows: Rows) -> None:
        if rows:
            columns = [name for name in rows[0] if name != key]
            statement = (
                update(table)
                .where(table.columns[key] == bindparam(f"_{key}"))
                .values({name: bindparam(f"_{name}") for name in columns})
            )
            connection.execute(statement, [{f"_{name}": row[name] for name in row} for row in rows])


#: The kinds of databases that can hold a store.
KINDS: tuple[type[Postgres] | type[Sqlite], ...] = (Postgres, Sqlite)


def dialect_of_url(url: URL) -> Dialect | None:
    """The kind of database of a store's URL; ``None`` = a kind that cannot hold a store."""
    return next((kind() for kind in KINDS if url.drivername in kind.drivers), None)


def dialect_of(engine: Engine) -> Dialect | None:
    """The kind of database of an application's engine; ``None`` = a kind that Mercury does not know."""
    return next((found for kind in KINDS if (found := kind()).has_made(engine)), None)


def chunks(values: Iterable[Any], size: int = 500) -> Iterable[list[Any]]:
    """Split values into lists of at most ``size``: SQLite limits the number of parameters."""
    part: list[Any] = []
    for value in values:
        part.append(value)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


def use_write_ahead_log(connection: Any, timeout: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Switch a database to the write-ahead log.

    SQLite does not wait for this lock: if two processes open a new file at the same time, one gets an error
    immediately.

    :param timeout: seconds during which the switch is retried.
    """
    waited, pause = 0.0, 0.005
    while True:
        try:
            connection.execute("pragma journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= timeout:
                raise
        sleep(pause)
        waited, pause = waited + pause, min(2 * pause, 0.1)
