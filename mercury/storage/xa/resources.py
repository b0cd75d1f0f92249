"""Databases that take part in two-phase commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import psycopg
from sqlalchemy import Connection, Engine, exc, inspect, select

from mercury.errors import CapabilityError, DataError, StorageError, TransientStorageError
from mercury.masking import masked
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.dialects import dialect_of
from mercury.storage.sql.errors import translate
from mercury.storage.sql.joining import guard_ends
from mercury.storage.sql.schema import STORE
from mercury.storage.sql.transaction_status import TransactionStatus, transaction_status
from mercury.storage.xa.names import STORE_BRANCH, Gtrid, prefix, read_gid

PREPARED = """
    select gid, extract(epoch from clock_timestamp() - prepared)::float8, transaction::text::bigint,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    from pg_prepared_xacts where database = current_database() and starts_with(gid, %(prefix)s)
    order by prepared, gid
"""
IS_PREPARED = "select 1 from pg_prepared_xacts where database = current_database() and gid = %(gid)s"
EPOCH = 1 << 32


@dataclass(frozen=True, slots=True)
class PreparedBranch:
    """A prepared transaction as its database lists it."""

    gtrid: Gtrid
    resource: str
    #: PostgreSQL's transaction id, with its epoch.
    xid: int
    #: Its age in seconds since PREPARE, by the database's clock.
    age: float

    @property
    def gid(self) -> str:
        return self.gtrid.gid(self.resource)


class NoSuchBranch(StorageError):
    """No prepared transaction has this gid: it was finished before."""


class Resource:
    """A database that takes part in two-phase commits, under its name in the application.

    :param owned: the engine was made for this object; `close` disposes of it.
    """

    def __init__(self, name: str, engine: Engine, *, owned: bool = False) -> None:
        self.name = name
        self.engine = engine
        self._owned = owned
        self._dialect = dialect_of(engine)
        self._is_store: bool | None = None
        if name != STORE_BRANCH:  # the connections of a store report their ends themselves
            guard_ends(engine)

    def __str__(self) -> str:
        return f"{self.name!r} ({masked(self.engine.url.render_as_string())})"

    @property
    def checked(self) -> bool:
        """Whether `check` has succeeded."""
        return self._is_store is not None

    @property
    def is_store(self) -> bool:
        """Whether this is the store's own database, which needs no branch. Known after `check`."""
        return self._is_store is True

    @property
    def dialect(self) -> Dialect:
        """The kind of this database.

        :raises CapabilityError: a database of this kind cannot take part.
        """
        if self._dialect is None:
            raise self._wrong_kind()
        return self._dialect

    def check_kind(self) -> None:
        """Check that a database of this kind can take part, without connecting to it.

        :raises CapabilityError: it cannot take part.
        """
        _ = self.dialect  # raises for unknown kinds; SQLite is allowed, because the file may be the store's own

    def _wrong_kind(self) -> CapabilityError:
        return CapabilityError(
            f"the database {self} cannot take part in a two-phase commit: only PostgreSQL can, by "
            "postgresql+psycopg://..., or the store's own database, which needs no branch"
        )

    def check(self, store: str) -> None:
        """Check that this database can take part. Writes nothing.

        :param store: the store's id.
        :raises CapabilityError: it cannot take part; the text says why, and what to change.
        :raises TransientStorageError: the database does not answer.
        """
        if self.checked:
            return
        with self.connection() as connection:
            if _store_in(connection) == store:
                self._is_store = True
                return
            if not self.dialect.capabilities.two_phase:
                raise self._wrong_kind()
            if cast("psycopg.Connection", connection.connection.dbapi_connection).autocommit:
                raise CapabilityError(f"the engine of {self} has isolation_level AUTOCOMMIT: there is no transaction")
            obstacle = self.dialect.obstacle_to_prepare(connection)
            if obstacle is not None:
                raise CapabilityError(f"the server of {self} {obstacle}")
            self._is_store = False

    def close(self) -> None:
        """Dispose of the engine if it is owned."""
        if self._owned:
            self.engine.dispose()

    # --- what recovery needs ---------------------------------------------------------------------------------------

    def prepared(self, store: str) -> list[PreparedBranch]:
        """The prepared branches of a store in this database, the oldest first.

        :raises TransientStorageError: the database does not answer.
        """
        with self.connection() as connection:
            rows = connection.exec_driver_sql(PREPARED, {"prefix": prefix(store)}).all()
        found = []
        for gid, age, xid, following in rows:
            known = read_gid(gid)
            if known is not None:
                found.append(PreparedBranch(*known, _with_epoch(xid, following), age))
        return found

    def is_prepared(self, gid: str) -> bool:
        """Whether a branch is prepared in this database now.

        :raises TransientStorageError: the database does not answer.
        """
        with self.connection(autocommit=True) as connection:
            return connection.exec_driver_sql(IS_PREPARED, {"gid": gid}).first() is not None

    def finish(self, gid: str, *, commit: bool) -> None:
        """Commit or roll back a prepared branch, on a separate connection.

        :raises NoSuchBranch: the branch is finished already.
        :raises StorageError: the statement failed; the branch stays prepared.
        """
        assert read_gid(gid) is not None, gid
        with self.connection(autocommit=True) as connection:
            connection.exec_driver_sql(f"{'commit' if commit else 'rollback'} prepared '{gid}'")

    def transaction_statuses(self, xids: Sequence[int]) -> list[TransactionStatus]:
        """The statuses of transactions that are not prepared any more.

        :raises TransientStorageError: the database does not answer.
        """
        with self.connection(autocommit=True) as connection:
            return [transaction_status(connection, xid) for xid in xids]

    @contextmanager
    def connection(self, *, autocommit: bool = False) -> Iterator[Connection]:
        """A separate connection. Errors name the database."""
        try:
            engine = self.engine.execution_options(isolation_level="AUTOCOMMIT") if autocommit else self.engine
            with engine.connect() as connection:
                yield connection
        except (exc.SQLAlchemyError, psycopg.Error) as error:
            raise self.translate(error) from error

    def translate(self, error: Exception) -> StorageError:
        """Translate an error of this database; the text names the database."""
        original = error.orig if isinstance(error, exc.DBAPIError) else error
        known = translate(error) or StorageError(str(error))
        kinds = (TransientStorageError, DataError)
        kind: type[StorageError] = next((each for each in kinds if isinstance(known, each)), StorageError)
        if isinstance(original, psycopg.errors.UndefinedObject):
            kind = NoSuchBranch
        return kind(f"the database {self}: {known}")


def _store_in(connection: Connection) -> str | None:
    """The id of the store in a database; ``None`` = it has none."""
    if not inspect(connection).has_table(STORE.name):
        return None
    return connection.execute(select(STORE.c.id)).scalar()


def _with_epoch(xid: int, near: int) -> int:
    """Extend a 32-bit transaction id by its epoch.

    :param near: a transaction id with its epoch, less than half an epoch before or after ``xid``.
    """
    ahead = (xid - near) % EPOCH
    return near + ahead - (EPOCH if ahead >= EPOCH // 2 else 0)
