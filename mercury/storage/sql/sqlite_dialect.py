"""SQLite as the database of a store."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Table,
    bindparam,
    create_engine,
    event,
    insert,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import NullPool

from mercury.errors import ConfigurationError
from mercury.storage.api import Capabilities
from mercury.storage.sql.dialect import Dialect, Rows


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
