"""Versions of the schema: which one a database has, and the upgrade to the one that this Mercury needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from time import time

from sqlalchemy import Connection, Engine, delete, inspect, select, text

from mercury.errors import ConfigurationError
from mercury.storage.sql.dialects import dialect_of
from mercury.storage.sql.errors import translated
from mercury.storage.sql.schema import STORE

VERSION_TABLE = "mercury_schema_version"
#: All versions of the schema; the last one is this Mercury's.
KNOWN = ("0001", "0002")
HEAD = KNOWN[-1]


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The version of Mercury's schema in a database."""

    #: ``None`` = the database has no schema of Mercury.
    version: str | None

    @property
    def current(self) -> bool:
        return self.version == HEAD

    @property
    def unknown(self) -> bool:
        """Whether a newer Mercury has made the schema."""
        return self.version is not None and self.version not in KNOWN


def status(engine: Engine) -> SchemaStatus:
    """The version of the schema that the database has.

    :raises StorageError: the database does not answer.
    """
    with translated(), engine.connect() as connection:
        return _status(connection)


def _status(connection: Connection) -> SchemaStatus:
    if not inspect(connection).has_table(VERSION_TABLE):
        return SchemaStatus(None)
    return SchemaStatus(connection.execute(text(f"select version_num from {VERSION_TABLE}")).scalar_one_or_none())  # noqa: S608


def upgrade(engine: Engine) -> SchemaStatus:
    """Bring the schema up to date, or create it, with a new store id, in an empty database.

    :raises ConfigurationError: a newer Mercury has made the schema.
    """
    with translated(), _exclusive(engine) as connection:
        found = _status(connection)
        if found.unknown:
            raise ConfigurationError(_too_new(found))
        if not found.current:
            _migrate(connection)
        if not connection.execute(STORE.select()).first():
            _name(connection)
        connection.commit()
    return SchemaStatus(HEAD)


def make_ready(engine: Engine, what: str) -> None:
    """Check that the schema is this Mercury's; an empty database gets the schema.

    :param what: the name of the store in errors.
    :raises ConfigurationError: the schema is older or newer; the text says what to run.
    """
    found = status(engine)
    if found.version is None:
        upgrade(engine)
    elif found.unknown:
        raise ConfigurationError(f"{what}: {_too_new(found)}")
    elif not found.current:
        raise ConfigurationError(
            f"{what} has schema {found.version}, this Mercury needs {HEAD}: stop what uses it, then run "
            "'mercury db upgrade'"
        )


def identifier(engine: Engine) -> str | None:
    """The id of the store; ``None`` = the store has none yet.

    :raises StorageError: the database does not answer, or has no schema.
    """
    with translated(), engine.connect() as connection:
        return connection.execute(select(STORE.c.id)).scalar_one_or_none()


def renew_id(engine: Engine) -> str:
    """Give a copied store a new id, before it runs (decision 17). Returns it."""
    with translated(), _exclusive(engine) as connection:
        connection.execute(delete(STORE))
        identifier = _name(connection)
        connection.commit()
    return identifier


def _name(connection: Connection) -> str:
    identifier = uuid.uuid4().hex[:12]
    connection.execute(STORE.insert().values(id=identifier, created_at=time()))
    return identifier


def _too_new(found: SchemaStatus) -> str:
    return f"its schema {found.version} is of a newer Mercury than this one, which knows up to {HEAD}: upgrade Mercury"


@contextmanager
def _exclusive(engine: Engine) -> Iterator[Connection]:
    """A transaction that has locked the schema against other changes."""
    dialect = dialect_of(engine)
    assert dialect is not None, f"no store can be in {engine.url.drivername}"
    with engine.connect() as connection:
        dialect.lock_schema(connection)
        yield connection


def _migrate(connection: Connection) -> None:
    """Run the missing steps, without Alembic's environment: it is global to the process, and two threads that upgrade
    two databases would mix them up.
    """
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(files("mercury.storage.sql") / "migrations"))
    options = {
        "version_table": VERSION_TABLE,
        "transactional_ddl": True,
        "fn": lambda found, _context: scripts._upgrade_revs("head", found),
    }
    context = MigrationContext.configure(connection, opts=options)
    with context.begin_transaction():
        context.run_migrations(op=Operations(context))
