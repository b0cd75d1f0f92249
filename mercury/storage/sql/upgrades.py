"""The upgrade of a database to the schema of this Mercury, also while processes of the version before use it.

On PostgreSQL a step takes the lock ACCESS EXCLUSIVE of each table that gets a column, which is held for milliseconds:
no row is rewritten. It has to wait for the transactions that use the table, and others wait behind it. So it waits for
`LOCK_WAIT` at most, then gives up its locks and tries again. Indexes on tables that exist are created afterwards, with
CREATE INDEX CONCURRENTLY. SQLite has one writer, and the upgrade is one transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files

from sqlalchemy import Connection, Engine

from mercury.errors import ConfigurationError, TransientStorageError
from mercury.storage.sql import indexes
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.dialects import dialect_of
from mercury.storage.sql.errors import translated
from mercury.storage.sql.schema import COMPATIBILITY, STORE
from mercury.storage.sql.versions import (
    HEAD,
    OLDEST,
    VERSION_TABLE,
    SchemaStatus,
    exclusive,
    name,
    read_status,
    status,
)

#: The longest wait for the lock of a table, in milliseconds. PostgreSQL searches for deadlocks after a second
#: (deadlock_timeout): the upgrade gives up before, so it never makes a transaction of a process fail.
LOCK_WAIT = 500
#: Seconds between two attempts, in which the transactions that have waited go on.
PAUSE = 1.0
ATTEMPTS = 40


def upgrade(engine: Engine, pause: Callable[[float], None] = time.sleep) -> SchemaStatus:
    """Bring the schema up to date, or create it, with a new store id, in an empty database. Leaves a newer schema that
    this Mercury can use as it is. Creates missing indexes too. Returns the status after it.

    :param pause: waits for some seconds between two attempts to lock the tables.
    :raises ConfigurationError: a newer Mercury has made the schema, and this one cannot use it.
    :raises TransientStorageError: the tables could not be locked in `ATTEMPTS` attempts; nothing is changed.
    """
    dialect = dialect_of(engine)
    assert dialect is not None, f"no store can be in {engine.url.drivername}"
    with translated(), exclusive(engine) as connection:
        found = read_status(connection)
        if found.too_new:
            raise ConfigurationError(_too_new(found))
        if found.newer:
            return found
        if not found.current:
            alone = found.version is None or dialect.single_writer
            _migrate_at_once(connection, dialect) if alone else _migrate_in_turns(connection, dialect, pause)
        if not connection.execute(STORE.select()).first():
            name(connection)
        connection.commit()
    with translated():
        indexes.create_beside_writers(engine, dialect)
    return SchemaStatus(HEAD, OLDEST)


def make_ready(engine: Engine, what: str) -> None:
    """Check that this Mercury can use the schema; an empty database gets the schema.

    :param what: the name of the store in errors.
    :raises ConfigurationError: the schema is older, or newer and not compatible; the text says what to run.
    """
    found = status(engine)
    if found.version is None:
        upgrade(engine)
    elif found.too_new:
        raise ConfigurationError(f"{what}: {_too_new(found)}")
    elif not found.usable:
        raise ConfigurationError(
            f"{what} has schema {found.version}, this Mercury needs {HEAD}: {how_to_upgrade(found)}"
        )


def how_to_upgrade(found: SchemaStatus) -> str:
    """What to do about an older schema."""
    if found.additive:
        return "run 'mercury db upgrade'; processes that use it may go on meanwhile"
    return "stop what uses it, then run 'mercury db upgrade'"


def _too_new(found: SchemaStatus) -> str:
    return f"its schema {found.version} is of a newer Mercury than this one, which knows up to {HEAD}: upgrade Mercury"


def _migrate_at_once(connection: Connection, dialect: Dialect) -> None:
    migrate(connection)
    indexes.create(connection, dialect)


def _migrate_in_turns(connection: Connection, dialect: Dialect, pause: Callable[[float], None]) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # The savepoint gives the locks of tables back after a failed attempt, and keeps that of the schema.
            with translated(), connection.begin_nested():
                dialect.limit_lock_wait(connection, LOCK_WAIT)
                migrate(connection)
            return
        except TransientStorageError as error:
            if attempt == ATTEMPTS:
                raise TransientStorageError(
                    f"the tables could not be locked in {ATTEMPTS} attempts: {error}; nothing is changed: look for a "
                    "long transaction in pg_stat_activity, and run it again"
                ) from error
            pause(PAUSE)


def migrate(connection: Connection, target: str = "head") -> None:
    """Run the missing steps up to a version in the connection's transaction. Indexes on tables that exist are missing
    afterwards.

    Alembic's environment is not used: it is global to the process, and two threads that upgrade two databases would
    mix them up.
    """
    with _quiet_alembic(new=read_status(connection).version is None):
        _run_steps(connection, target)
    if target == "head":
        connection.execute(COMPATIBILITY.insert().values(version=HEAD, oldest=OLDEST))


def _run_steps(connection: Connection, target: str) -> None:
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(files("mercury.storage.sql") / "migrations"))
    options = {
        "version_table": VERSION_TABLE,
        "transactional_ddl": True,
        "fn": lambda found, _context: scripts._upgrade_revs(target, found),
    }
    context = MigrationContext.configure(connection, opts=options)
    with context.begin_transaction():
        context.run_migrations(op=Operations(context))


@contextmanager
def _quiet_alembic(*, new: bool) -> Iterator[None]:
    """A context in which alembic logs, at INFO, only the steps of a schema that exists.

    :param new: the database has no schema yet: its creation is no news.
    """
    thread = threading.get_ident()

    def is_news(record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO or record.thread != thread:
            return True
        return not new and record.getMessage().startswith("Running upgrade")

    loggers = [logging.getLogger(name) for name in ("alembic.runtime.migration", "alembic.runtime.plugins")]
    for each in loggers:
        each.addFilter(is_news)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(is_news)
