"""Where PostgreSQL and SQLite differ, and nothing else."""

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

#: The type of what the database counts by itself: SQLite does so only in an INTEGER primary key.
POSITION = BigInteger().with_variant(Integer, "sqlite")
#: Seconds after which a server that does not answer counts as away, unless its URL says otherwise.
CONNECT_TIMEOUT = 10
#: A connection prepares a statement that it has executed so often: Mercury's are few, and come again.
PREPARE_AFTER = 1
#: The advisory lock of whoever changes the schema.
SCHEMA_LOCK = 0x6D657263
HAS_DEFERRED = "select exists (select from pg_trigger where tgdeferrable)"
#: The nested savepoint gives their modes back; one round trip.
CHECK_DEFERRED = (
    "savepoint mercury_check; set constraints all immediate; "
    "rollback to savepoint mercury_check; release savepoint mercury_check"
)
#: Several statements in one cannot be prepared.
AS_IT_IS = MappingProxyType({"no_parameters": True})


class Dialect(ABC):
    """What a store asks of its kind of database."""

    capabilities: Capabilities
    #: The kind's name in SQLAlchemy.
    name: str
    #: Who writes keeps everybody else from writing.
    single_writer: bool
    #: It is a server: the answer to a commit may be lost on the way.
    remote: bool
    #: It has a clock of its own, by which the leases of all that share it can be measured.
    has_clock: bool
    #: A query may change rows too, so that one statement changes several tables and says what it changed.
    changes_in_queries: bool
    #: What SQLAlchemy's URLs for it begin with.
    drivers: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def url(self, given: URL) -> URL:
        """The URL of a store as `engine` takes it.

        :raises ConfigurationError: no store can be there.
        """
        return given

    def has_made(self, engine: Engine) -> bool:
        """Whether an application's engine is of this kind, with a driver that Mercury can use too."""
        return engine.dialect.name == self.name

    @abstractmethod
    def exists(self, url: URL) -> bool:
        """Whether there may be such a database, as far as can be told without connecting to it."""

    @abstractmethod
    def engine(self, url: URL, lock_timeout: float, idle_timeout: float) -> Engine:
        """An engine whose connections are set up for Mercury. Times are seconds."""

    @abstractmethod
    def begin_writing(self, connection: Connection) -> None:
        """Called once before the first lock or change of a transaction."""

    def limit_lock_wait(self, connection: Connection, milliseconds: int) -> None:  # noqa: B027 - most databases need nothing here
        """Let this transaction wait for a lock so long at most, where a transaction can have a limit of its own."""

    @abstractmethod
    def lock_schema(self, connection: Connection) -> None:
        """Keep others from changing the schema until the transaction ends."""

    @abstractmethod
    def now(self, connection: Connection) -> float:
        """The database's clock, or the caller's where it has none, in seconds since the epoch."""

    def execute_all(self, connection: Connection, statements: Sequence[str]) -> None:
        """Execute statements without parameters and results, in one round trip where that can be."""
        for text in statements:
            connection.exec_driver_sql(text, execution_options=AS_IT_IS)

    @abstractmethod
    def insert(self, connection: Connection, table: Table, rows: Rows, *, ignore: bool = False) -> None:
        """Insert rows with the same columns, in one statement. With ``ignore``, those that are there already stay."""

    def insert_both(self, connection: Connection, first: Table, first_rows: Rows, second: Table, rows: Rows) -> None:
        """Insert into two tables, in one statement where that can be."""
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
        """Whether constraints of the database may be deferred, and can be checked before the commit all the same."""
        return False

    def check_deferred(self, connection: Connection) -> None:  # noqa: B027 - most databases need nothing here
        """Check the deferred constraints now; their modes stay as they are.

        :raises sqlalchemy.exc.IntegrityError: one is broken; the transaction can only go back to a savepoint.
        """

    def check_durable(self, connection: Connection) -> None:  # noqa: B027 - most databases need nothing here
        """See that a session of the application's loses nothing that it commits.

        :raises CapabilityError: it may.
        """


class Postgres(Dialect):
    """PostgreSQL by psycopg: rows are locked one by one, several processes share it."""

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
            # The same few connections again and again: they have the statements prepared, and planned for good.
            pool_use_lifo=True,
            pool_reset_on_return="rollback",
            pool_pre_ping=False,
        )

    def begin_writing(self, connection: Connection) -> None:
        """The driver begins by itself."""

    def limit_lock_wait(self, connection: Connection, milliseconds: int) -> None:
        connection.exec_driver_sql(f"set local lock_timeout = {milliseconds}")

    def lock_schema(self, connection: Connection) -> None:
        # Two processes that find an empty database at once make one schema.
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


# Statements of the schema's own names: few, and made once.


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
    """The values of one column as PostgreSQL writes an array; the driver takes far longer for the same.

    Bytes are left to the driver, which sends them as they are.
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
    """A SQLite file: one writer at a time, so a row's lock is the file's.

    :param clock: seconds since the epoch; the file has no clock of its own.
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
            raise ConfigurationError("a SQLite store is a file: sqlite:///FILE (what lives in memory only is memory:)")
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
        # Not before: a transaction that only reads never waits, and one that reads first cannot fail to write.
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


#: The kinds of databases that a store may be in.
KINDS: tuple[type[Postgres] | type[Sqlite], ...] = (Postgres, Sqlite)


def dialect_of_url(url: URL) -> Dialect | None:
    """The kind of database that the URL of a store names; ``None`` = no store can be there."""
    return next((kind() for kind in KINDS if url.drivername in kind.drivers), None)


def dialect_of(engine: Engine) -> Dialect | None:
    """The kind of database of an application's engine; ``None`` = it is of no kind that Mercury knows."""
    return next((found for kind in KINDS if (found := kind()).has_made(engine)), None)


def chunks(values: Iterable[Any], size: int = 500) -> Iterable[list[Any]]:
    """SQLite takes a limited number of parameters."""
    part: list[Any] = []
    for value in values:
        part.append(value)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


def use_write_ahead_log(connection: Any, timeout: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Use the write-ahead log.

    SQLite does not wait for this lock: of two processes that find a new file at once, one is refused right away.

    :param timeout: seconds for which it is tried again.
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
