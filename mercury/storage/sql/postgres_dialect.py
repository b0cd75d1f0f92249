"""PostgreSQL as the database of a store."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from sqlalchemy import (
    ARRAY,
    URL,
    Boolean,
    ColumnElement,
    Connection,
    Double,
    Engine,
    FromClause,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    cast,
    create_engine,
    event,
    func,
    literal_column,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex, DropIndex
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from mercury.errors import CapabilityError, DataError, TransientStorageError
from mercury.storage.api import Capabilities
from mercury.storage.sql.dialect import AS_IT_IS, Dialect, Marker, Rows
from mercury.storage.sql.errors import LOST
from mercury.storage.sql.postgres_texts import (
    binary_columns,
    insert_both_text,
    insert_marker_text,
    insert_text,
    update_text,
)
from mercury.storage.sql.postgres_values import as_array, single_values
from mercury.storage.sql.prepared import SINGLE, Among, ListOf, Sought, TextsOf, Writer, change, fetch, note_lost
from mercury.storage.sql.releasing import note_bytes
from mercury.storage.sql.round_trips import error_of
from mercury.storage.sql.silence import limits_of_silence
from mercury.storage.sql.store_connections import StoreConnection
from mercury.storage.sql.together import Change, together

#: Connect time-out in seconds, unless the URL sets one.
CONNECT_TIMEOUT = 10
#: Executions after which a connection prepares a statement: Mercury repeats few statements.
PREPARE_AFTER = 1
#: The advisory lock that a process holds while it changes the schema.
SCHEMA_LOCK = 0x6D657263
#: The advisory lock that a process holds while it creates indexes beside writers.
INDEX_LOCK = SCHEMA_LOCK + 1
UNFINISHED_INDEXES = """
    select relname from pg_index join pg_class on pg_class.oid = indexrelid
    where not indisvalid and relname like 'mercury\\_%' and relnamespace = current_schema()::regnamespace
"""
NOW = "select extract(epoch from clock_timestamp())::double precision"
#: The cluster and its timeline, which a promotion and a recovery to a point in time change.
HISTORY = b"""
    select system_identifier || ' ' || case when not pg_is_in_recovery()
        then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end
    from pg_control_system()
"""
_DEFERRABLE = "exists (select from pg_trigger where tgdeferrable)"
HAS_DEFERRED = f"select {_DEFERRABLE}"
COMMITS_AT_ONCE = (
    f"current_setting('transaction_isolation') = 'read committed' and not {_DEFERRABLE} "
    "and current_setting('synchronous_commit') <> 'off'"
)
ABORTED = (
    "a statement has failed, and PostgreSQL executes no other in this transaction although its error was caught: put a "
    "statement that may fail into 'with tx.savepoint():', and catch its error around that"
)
#: Rolling back to the nested savepoint restores the modes of the constraints; one round trip.
CHECK_DEFERRED = (
    "savepoint mercury_check; set constraints all immediate; "
    "rollback to savepoint mercury_check; release savepoint mercury_check"
)
#: Defaults for an application's engine without time-outs.
LIMITS = """
    select case when current_setting('lock_timeout') = '0' then set_config('lock_timeout', '10s', true) end,
        case when current_setting('idle_in_transaction_session_timeout') = '0'
            then set_config('idle_in_transaction_session_timeout', '30s', true) end
"""
#: The setting with a prefix of Mercury's remembers in the server what was set before.
LIMIT_STATEMENTS = """
    select set_config('mercury.statement_timeout', current_setting('statement_timeout'), true),
        case when current_setting('statement_timeout')::interval between interval '1 ms' and {0} * interval '1 ms'
            then '' else set_config('statement_timeout', '{0}', true) end
"""
#: Without effect if a rollback has restored it already, and with it the setting with Mercury's prefix.
RESTORE_LIMIT = """
    select set_config('statement_timeout', current_setting('mercury.statement_timeout'), true)
    where current_setting('mercury.statement_timeout', true) <> ''
"""


class Postgres(Dialect):
    """PostgreSQL with psycopg: locks single rows; several processes may share the database."""

    capabilities = Capabilities(
        durable=True, shared=True, notifies=True, last_resource=True, two_phase=True, delivers_on_arrival=True
    )
    name = "postgresql"
    single_writer = False
    remote = True
    has_clock = True
    changes_in_queries = True
    has_flags = True
    has_texts = True
    drivers = ("postgresql", "postgresql+psycopg")

    @property
    def writers(self) -> Mapping[type[TypeEngine[Any]], Writer]:
        # Numbers are sent as text: the driver's type of a number depends on its size, and a statement is prepared for
        # each combination of types.
        return {ListOf: as_array, Integer: _number}

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
            "-c synchronous_commit=on -c default_transaction_isolation=read\\ committed "
            "-c extra_float_digits=1"  # with fewer, a time that is read as text is not the one in the row's checksum
        )
        given = str(url.query.get("options", ""))
        engine = create_engine(
            url,
            connect_args={
                "options": f"{options} {given}".strip(),
                "application_name": "mercury",
                "client_encoding": "utf8",  # not that of the environment or the database: statements are sent in it
                "prepare_threshold": PREPARE_AFTER,
                "connect_timeout": int(str(url.query.get("connect_timeout", CONNECT_TIMEOUT))),
                **limits_of_silence(url.query),
            },
            pool_size=10,
            max_overflow=20,
            # Last in, first out: the few connections in use have prepared the statements, and their plans are cached.
            pool_use_lifo=True,
            pool_reset_on_return="rollback",
            pool_pre_ping=False,
        )
        event.listen(engine, "do_connect", _connect)
        return engine

    def begin_writing(self, connection: Connection) -> None:
        """No effect: the driver begins the transaction."""

    def limit_lock_wait(self, connection: Connection, milliseconds: int) -> None:
        connection.exec_driver_sql(f"set local lock_timeout = {milliseconds}")

    def lock_schema(self, connection: Connection) -> None:
        # If two processes find an empty database at the same time, only one of them makes the schema.
        connection.exec_driver_sql(f"select pg_advisory_xact_lock({SCHEMA_LOCK})")

    def unfinished_indexes(self, connection: Connection) -> frozenset[str]:
        return frozenset(connection.exec_driver_sql(UNFINISHED_INDEXES, execution_options=AS_IT_IS).scalars())

    def create_indexes_beside_writers(self, engine: Engine, missing: Callable[[Connection], list[Index]]) -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # Not a lock to wait for: the creation of an index waits until all statements that wait have ended.
            if not connection.exec_driver_sql(f"select pg_try_advisory_lock({INDEX_LOCK})").scalar():
                return
            try:
                unfinished = self.unfinished_indexes(connection)
                for index in missing(connection):
                    assert index.table is not None, f"{index.name} is an index of no table"
                    copies = index.table.to_metadata(MetaData()).indexes
                    copy = next(each for each in copies if each.name == index.name)
                    copy.dialect_options["postgresql"]["concurrently"] = True
                    if index.name in unfinished:
                        connection.execute(DropIndex(copy))
                    connection.execute(CreateIndex(copy))
            finally:
                connection.exec_driver_sql(f"select pg_advisory_unlock({INDEX_LOCK})")

    def execute_all(self, connection: Connection, statements: Sequence[str]) -> None:
        text = "; ".join(statements)
        driver: object = connection.connection.dbapi_connection
        if not isinstance(driver, psycopg.Connection) or not _in_transaction(driver):
            connection.exec_driver_sql(text, execution_options=AS_IT_IS)  # the driver begins the transaction first
            return
        # Each handler call has a savepoint. One call of libpq costs a third of a cursor of the driver and SQLAlchemy's.
        result = driver.pgconn.exec_(text.encode())
        if result.status != ExecStatus.COMMAND_OK:
            error = error_of(result)
            note_lost(connection, error)
            raise error

    def insert_marker(self, connection: Connection, table: Table, marker: str, *, ignore: bool = False) -> bool:
        return change(connection, insert_marker_text(table, ignore=ignore), {"id": marker}) == 1

    def inserting_marker(self, table: Table, marker: str) -> tuple[str, dict[str, Any]]:
        return insert_marker_text(table), {"id": marker}

    def commit_and_announce(self, connection: Connection, announcement: str) -> None:
        driver = typing.cast("psycopg.Connection", connection.connection.dbapi_connection)
        driver.execute(f"commit; {announcement}".encode(), prepare=False)

    def upsert(self, table: Table) -> Any:
        return postgresql.insert(table)

    def has_deferred(self, connection: Connection) -> bool:
        return bool(connection.exec_driver_sql(HAS_DEFERRED).scalar_one())

    def check_deferred(self, connection: Connection) -> None:
        connection.exec_driver_sql(CHECK_DEFERRED, execution_options=AS_IT_IS)

    def check_usable(self, connection: Connection) -> None:
        if connection.invalidated:
            raise TransientStorageError(LOST)
        driver: object = connection.connection.dbapi_connection
        if isinstance(driver, psycopg.Connection) and driver.pgconn.transaction_status == TransactionStatus.INERROR:
            raise DataError(ABORTED)

    def check_durable(self, connection: Connection) -> None:
        if connection.exec_driver_sql("show synchronous_commit").scalar() == "off":
            raise CapabilityError("the session has synchronous_commit off: what it commits may be lost")

    def obstacle_to_prepare(self, connection: Connection) -> str | None:
        if connection.exec_driver_sql("show max_prepared_transactions").scalar() != "0":
            return None
        return (
            "allows no prepared transactions: set max_prepared_transactions = 64 (or more: as many as may run at once) "
            "in its postgresql.conf and restart it"
        )

    def limit_session(self, connection: Connection) -> None:
        connection.exec_driver_sql(LIMITS)

    def limit_statements(self, connection: Connection, milliseconds: int) -> None:
        connection.exec_driver_sql(LIMIT_STATEMENTS.format(milliseconds), execution_options=AS_IT_IS)

    def restore_statement_limit(self, connection: Connection) -> None:
        connection.exec_driver_sql(RESTORE_LIMIT, execution_options=AS_IT_IS)

    def history(self, driver: object) -> str | None:
        if not isinstance(driver, psycopg.Connection):
            return None
        result = driver.pgconn.exec_(HISTORY)  # no transaction begins
        value = result.get_value(0, 0) if result.status == ExecStatus.TUPLES_OK else None  # else not PostgreSQL's own
        return value.decode() if value is not None else None

    def clock(self) -> ColumnElement[float]:
        return cast(func.extract("epoch", func.clock_timestamp()), Double)

    def commits_at_once(self) -> ColumnElement[bool]:
        return literal_column(f"({COMMITS_AT_ONCE})", Boolean)

    def now(self, connection: Connection) -> float:
        return float(fetch(connection, NOW, {})[0][0])

    def insert(self, connection: Connection, table: Table, rows: Rows, *, ignore: bool = False) -> None:
        if not rows:
            return
        change(connection, *self.inserting(table, rows, ignore=ignore))
        names = binary_columns(table)
        if names:
            note_bytes(connection, [row[name] for row in rows for name in names])

    def inserting(self, table: Table, rows: Rows, *, ignore: bool = False) -> tuple[str, dict[str, Any]]:
        # A single value is sent as it is, and those of a list are copied twice.
        one = len(rows) == 1
        statement, columns = insert_text(table, ignore=ignore, one=one)
        if one:
            return statement, single_values(rows[0], columns)
        return statement, {name: as_array([row[name] for row in rows]) for name in columns}

    def insert_both(
        self,
        connection: Connection,
        first: Table,
        first_rows: Rows,
        second: Table,
        rows: Rows,
        marker: Marker | None = None,
    ) -> None:
        change(connection, *together([], self.inserting_both(first, first_rows, second, rows, marker)))
        for table, inserted in ((first, first_rows), (second, rows)):
            note_bytes(connection, [row[name] for row in inserted for name in binary_columns(table)])

    def inserting_both(
        self, first: Table, first_rows: Rows, second: Table, rows: Rows, marker: Marker | None = None
    ) -> Change:
        one, marks = len(first_rows) == len(rows) == 1, None if marker is None else marker[0]
        tables, texts, columns, names = insert_both_text(first, second, marks, one=one)
        if one:
            parameters = single_values(first_rows[0], columns)
            parameters |= {f"second_{name}": value for name, value in single_values(rows[0], names).items()}
        else:
            parameters = {name: as_array([row[name] for row in first_rows]) for name in columns}
            parameters |= {f"second_{name}": as_array([row[name] for row in rows]) for name in names}
        if marker is not None:
            parameters["id"] = marker[1]
        return Change(tables, texts, parameters)

    def each(self, name: str) -> FromClause:
        return func.unnest(_TextArray(name)).table_valued("value").render_derived(name="each")

    def beginning(self, column: ColumnElement[str], mark: str) -> ColumnElement[str]:
        return func.split_part(column, mark, 1)

    def update(self, connection: Connection, table: Table, key: str, rows: Rows) -> None:
        if rows:
            change(connection, *self.updating(table, key, rows))

    def updating(self, table: Table, key: str, rows: Rows) -> tuple[str, dict[str, Any]]:
        columns, one = tuple(rows[0]), len(rows) == 1
        statement = update_text(table, key, columns, one=one)
        return statement, single_values(rows[0], columns) if one else {
            name: as_array([row[name] for row in rows]) for name in columns
        }


class _TextArray(ColumnElement[Sequence[str]]):
    """The list ``name`` as an array; an array of a single text is one of whose length PostgreSQL knows."""

    inherit_cache = False

    def __init__(self, name: str) -> None:
        self.values = bindparam(name, type_=TextsOf())
        self.type = ARRAY(Text)


@compiles(_TextArray, "postgresql")
def _text_array(element: _TextArray, compiler: SQLCompiler, **more: Any) -> str:
    values = compiler.process(element.values, **more)
    return f"ARRAY[CAST({values} AS TEXT)]" if more.get(SINGLE) else f"CAST({values} AS TEXT[])"


@compiles(Among, "postgresql")
def _among(element: Among, compiler: SQLCompiler, **more: Any) -> str:
    column, values = compiler.process(element.column, **more), compiler.process(element.values, **more)
    return f"{column} = CAST({values} AS TEXT)" if more.get(SINGLE) else f"{column} = ANY (CAST({values} AS TEXT[]))"


@compiles(Sought, "postgresql")
def _sought(element: Sought, compiler: SQLCompiler, **more: Any) -> str:
    # The planner merges and hashes for `=` only.
    column, value = compiler.process(element.column, **more), compiler.process(element.value, **more)
    return f"{column} = ANY (ARRAY[{value}])"


def _connect(_dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]) -> StoreConnection:
    return StoreConnection.opened(arguments, options)


def _in_transaction(driver: psycopg.Connection[Any]) -> bool:
    """Whether the server has a transaction, without a failed statement in it."""
    return driver.info.transaction_status == TransactionStatus.INTRANS


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)
