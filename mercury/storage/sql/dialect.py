"""What a SQL store needs of a kind of database. Each kind is a class in a file of its own; `dialects` lists them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from sqlalchemy import (
    URL,
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Index,
    Integer,
    Table,
    make_url,
    true,
)
from sqlalchemy.engine.interfaces import Dialect as SqlDialect
from sqlalchemy.types import TypeEngine

from mercury.errors import CapabilityError
from mercury.storage.api import Capabilities
from mercury.storage.sql.prepared import Compiled, Prepared, Writer, compile_for
from mercury.storage.sql.together import Change

Rows = Sequence[Mapping[str, Any]]

#: The table of a marker, and its id: see `Dialect.insert_marker`.
Marker: TypeAlias = tuple[Table, str]

#: The type of auto-increment columns: in SQLite it must be an INTEGER primary key.
POSITION = BigInteger().with_variant(Integer, "sqlite")
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
    #: The database has a type for truth values.
    has_flags: bool
    #: The driver receives all values as texts, unless a cursor is for binary values.
    has_texts: bool
    #: The prefixes of SQLAlchemy's URLs; the last one names the driver.
    drivers: tuple[str, ...]

    def __init__(self) -> None:
        self._compiled: dict[Prepared, Compiled] = {}

    def compiled(self, prepared: Prepared, given: Mapping[str, Any]) -> Compiled:
        """The form of a statement for this kind of database and these parameters; it is compiled at the first use."""
        known = self._compiled.get(prepared)
        if known is None:
            known = compile_for(
                self.sql_dialect(),
                prepared.statement,
                self.writers,
                has_flags=self.has_flags,
                has_texts=self.has_texts,
            )
            self._compiled[prepared] = known
        return known.of(given)

    def sql_dialect(self) -> SqlDialect:
        """What compiles statements for this kind of database."""
        return make_url(f"{self.drivers[-1]}://").get_dialect()()

    @property
    @abstractmethod
    def writers(self) -> Mapping[type[TypeEngine[Any]], Writer]:
        """What converts the parameters of prepared statements, by their types."""

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

    def unfinished_indexes(self, connection: Connection) -> frozenset[str]:
        """The names of Mercury's indexes that exist, but are not used because their creation was interrupted."""
        return frozenset()

    def create_indexes_beside_writers(self, engine: Engine, missing: Callable[[Connection], list[Index]]) -> None:  # noqa: B027 - a database with a single writer cannot
        """Create indexes without a lock that keeps writers waiting, each in a transaction of its own.

        No effect if another process is doing it, or if the database has a single writer.

        :param missing: finds the indexes to create, on a connection without a transaction.
        """

    def history(self, driver: object) -> str | None:
        """The identity of the database's present history, which differs where other transactions were committed.

        :param driver: a new connection of the driver's.
        :returns: ``None`` = unknown.
        """
        return None

    @abstractmethod
    def now(self, connection: Connection) -> float:
        """The time of the database's clock, or of this process if the database has none, in seconds since the epoch."""

    def clock(self) -> ColumnElement[float]:
        """The time of the database's clock within a statement, in seconds since the epoch.

        :raises CapabilityError: the database has none (`has_clock`).
        """
        raise CapabilityError(f"{self} has no clock")

    def commits_at_once(self) -> ColumnElement[bool]:
        """Whether a query sees all that is committed when it begins, the commit of its transaction checks nothing that
        it could wait for, and nothing that was committed is lost in a crash."""
        return true()

    @abstractmethod
    def execute_all(self, connection: Connection, statements: Sequence[str]) -> None:
        """Execute statements without parameters and results; in one round trip if the database can.

        The driver executes them directly: SQLAlchemy's events and logs do not see them.

        :raises Exception: an error of the driver or of SQLAlchemy, as `errors.translated` takes it.
        """

    @abstractmethod
    def insert(self, connection: Connection, table: Table, rows: Rows, *, ignore: bool = False) -> None:
        """Insert rows with the same columns, in one statement. With ``ignore``, existing rows stay as they are."""

    def insert_both(
        self,
        connection: Connection,
        first: Table,
        first_rows: Rows,
        second: Table,
        rows: Rows,
        marker: Marker | None = None,
    ) -> None:
        """Insert into two tables, and a marker as by `insert_marker`; in one statement if the database can."""
        self.insert(connection, first, first_rows)
        self.insert(connection, second, rows)
        if marker is not None:
            self.insert_marker(connection, *marker)

    @abstractmethod
    def upsert(self, table: Table) -> Any:
        """An insert that has ``on_conflict_do_update`` and ``on_conflict_do_nothing``."""

    @abstractmethod
    def each(self, name: str) -> FromClause:
        """The texts in the list ``name`` (a parameter, as in `among`) as rows with the column ``value``, in order."""

    @abstractmethod
    def beginning(self, column: ColumnElement[str], mark: str) -> ColumnElement[str]:
        """The text of a column before the first occurrence of a mark; a text without it gives any text."""

    @abstractmethod
    def update(self, connection: Connection, table: Table, key: str, rows: Rows) -> None:
        """Update rows with the same columns by their column ``key``, in one statement."""

    def inserting(self, table: Table, rows: Rows) -> tuple[str, dict[str, Any]]:
        """The text and the named parameters of `insert`.

        :raises CapabilityError: a query cannot contain a change (`changes_in_queries`).
        """
        raise CapabilityError(f"{self} has no changes in queries")

    def inserting_both(
        self, first: Table, first_rows: Rows, second: Table, rows: Rows, marker: Marker | None = None
    ) -> Change:
        """The texts and the named parameters of `insert_both`; otherwise as `inserting`."""
        raise CapabilityError(f"{self} has no changes in queries")

    def inserting_marker(self, table: Table, marker: str) -> tuple[str, dict[str, Any]]:
        """The text and the named parameters of `insert_marker`; otherwise as `inserting`."""
        raise CapabilityError(f"{self} has no changes in queries")

    def updating(self, table: Table, key: str, rows: Rows) -> tuple[str, dict[str, Any]]:
        """The text and the named parameters of `update`; otherwise as `inserting`."""
        raise CapabilityError(f"{self} has no changes in queries")

    def insert_marker(self, connection: Connection, table: Table, marker: str, *, ignore: bool = False) -> bool:
        """Insert a row with an ``id``, and `now` as ``made_at``; in one statement if the database can.

        :param ignore: a row with this id stays as it is.
        :returns: whether the row is new.
        """
        row = self.upsert(table).values(id=marker, made_at=self.now(connection))
        statement = row.on_conflict_do_nothing() if ignore else row
        return connection.execute(statement.returning(table.c.id)).first() is not None

    def commit_and_announce(self, connection: Connection, announcement: str) -> None:
        """Commit and then execute a notification, in one round trip: its lock is not held while the commit is flushed,
        and a process that ends now has sent it.

        An error does not tell whether the transaction is committed.
        """
        raise CapabilityError(f"{self} has no notifications")

    # --- the application's part of a transaction ---------------------------------------------------------------------

    def has_deferred(self, connection: Connection) -> bool:
        """Whether the database has deferrable constraints that can be checked before the commit."""
        return False

    def check_deferred(self, connection: Connection) -> None:  # noqa: B027 - most databases need nothing here
        """Check the deferred constraints now; they stay deferred for later statements.

        :raises sqlalchemy.exc.IntegrityError: a constraint is violated; the transaction can only roll back to a
            savepoint.
        """

    def check_usable(self, connection: Connection) -> None:  # noqa: B027 - most databases need nothing here
        """Check that the database still executes statements of the transaction, which has begun.

        :raises DataError: an earlier one has failed; the transaction can only roll back, at most to a savepoint.
        :raises TransientStorageError: the connection is lost.
        """

    def check_durable(self, connection: Connection) -> None:  # noqa: B027 - most databases need nothing here
        """Check that a session of the application commits durably.

        :raises CapabilityError: its commits may be lost.
        """

    # --- databases that take part in two-phase commits (`Capabilities.two_phase`) ------------------------------------

    def obstacle_to_prepare(self, connection: Connection) -> str | None:
        """What the server cannot do, and what to change, if it cannot prepare transactions; ``None`` = it can."""
        return None

    def limit_session(self, connection: Connection) -> None:  # noqa: B027 - most databases need nothing here
        """Limit the waits of this transaction, unless the application has limited its sessions.

        Otherwise a stopped process could hold its locks forever.
        """

    # --- the time limit of handlers ----------------------------------------------------------------------------------

    def limit_statements(self, connection: Connection, milliseconds: int) -> None:  # noqa: B027 - not all can do it
        """Let a statement of this transaction that takes longer fail, unless a shorter limit is set."""

    def restore_statement_limit(self, connection: Connection) -> None:  # noqa: B027 - not all can do it
        """Set the limit from before `limit_statements`."""


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
