"""SQLite as the database of a store."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Table,
    bindparam,
    create_engine,
    event,
    func,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from mercury.errors import ConfigurationError, DataError
from mercury.storage.api import Capabilities
from mercury.storage.sql.dialect import Dialect, Rows
from mercury.storage.sql.ends import ENDED_BEFORE
from mercury.storage.sql.prepared import SINGLE, Among, ListOf, Sought, Writer, change_many
from mercury.storage.sql.sqlite_connections import SqliteConnection


class Sqlite(Dialect):
    """A SQLite file: it has one writer at a time, so the lock of any row is the lock of the file.

    :param clock: seconds since the epoch; SQLite has no clock of its own.
    """

    capabilities = Capabilities(durable=True, shared=True, notifies=False, last_resource=True, two_phase=False)
    name = "sqlite"
    single_writer = True
    remote = False
    has_clock = False
    has_flags = False
    has_texts = False
    changes_in_queries = False
    drivers = ("sqlite", "sqlite+pysqlite")

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock

    @property
    def writers(self) -> Mapping[type[TypeEngine[Any]], Writer]:
        return {ListOf: json.dumps}

    def url(self, given: URL) -> URL:
        if not given.database or given.database == ":memory:":
            raise ConfigurationError("a SQLite store is a file: sqlite:///FILE (for a store in memory use memory:)")
        return given

    def exists(self, url: URL) -> bool:
        return Path(url.database or "").exists()

    def engine(self, url: URL, lock_timeout: float, idle_timeout: float) -> Engine:
        engine = create_engine(
            url,
            connect_args={
                "timeout": lock_timeout,
                "isolation_level": None,
                "check_same_thread": False,
                "factory": SqliteConnection,
            },
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

    def execute_all(self, connection: Connection, statements: Sequence[str]) -> None:
        driver = cast("sqlite3.Connection", connection.connection.dbapi_connection)
        for text in statements:
            driver.execute(text).close()

    def check_usable(self, connection: Connection) -> None:
        driver: object = None if connection.invalidated else connection.connection.dbapi_connection
        if isinstance(driver, SqliteConnection) and driver.owner is not None and not driver.in_transaction:
            raise DataError(ENDED_BEFORE)

    def lock_schema(self, connection: Connection) -> None:
        self.begin_writing(connection)

    def upsert(self, table: Table) -> Any:
        return sqlite.insert(table)

    def now(self, connection: Connection) -> float:
        return self._clock()

    def insert(self, connection: Connection, table: Table, rows: Rows, *, ignore: bool = False) -> None:
        if rows:
            columns = tuple(rows[0])
            change_many(connection, _insert(table, columns, ignore=ignore), _ordered(rows, columns))

    def each(self, name: str) -> FromClause:
        return func.json_each(bindparam(name, type_=ListOf())).table_valued("value", name="each")

    def beginning(self, column: ColumnElement[str], mark: str) -> ColumnElement[str]:
        return func.substr(column, 1, func.instr(column, mark) - 1)

    def update(self, connection: Connection, table: Table, key: str, rows: Rows) -> None:
        if rows:
            columns = (*(name for name in rows[0] if name != key), key)
            change_many(connection, _update(table, columns), _ordered(rows, columns))


@compiles(Sought, "sqlite")
def _sought(element: Sought, compiler: SQLCompiler, **more: Any) -> str:
    return f"{compiler.process(element.column, **more)} = {compiler.process(element.value, **more)}"


@compiles(Among, "sqlite")
def _among(element: Among, compiler: SQLCompiler, **more: Any) -> str:
    column, values = compiler.process(element.column, **more), compiler.process(element.values, **more)
    if more.get(SINGLE):
        return f"{column} = {values}"
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - compiled from columns


# Statements made of table and column names of the schema: few, and cached.


@lru_cache(maxsize=128)
def _insert(table: Table, columns: tuple[str, ...], *, ignore: bool) -> str:
    names, values = ", ".join(f'"{name}"' for name in columns), ", ".join("?" for _ in columns)
    end = " on conflict do nothing" if ignore else ""
    return f"insert into {table.name} ({names}) values ({values}){end}"  # noqa: S608


@lru_cache(maxsize=128)
def _update(table: Table, columns: tuple[str, ...]) -> str:
    """The key is the last column."""
    sets = ", ".join(f'"{name}" = ?' for name in columns[:-1])
    return f'update {table.name} set {sets} where "{columns[-1]}" = ?'  # noqa: S608


def _ordered(rows: Rows, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return [tuple([row[name] for name in columns]) for row in rows]


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
