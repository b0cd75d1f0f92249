"""The statements and locks of one unit of work: what the managers of the kinds of rows work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, CursorResult, Engine, Executable, RowMapping, Select, Table

from mercury.storage.api import LockOrderError, Topic
from mercury.storage.order import NAMES
from mercury.storage.records import SequenceKey
from mercury.storage.sql.bounded import BoundedDict
from mercury.storage.sql.commit_markers import CommitMarkers
from mercury.storage.sql.dialects import Dialect
from mercury.storage.sql.errors import translated
from mercury.storage.sql.releasing import OWNER


class StoreParts(Protocol):
    """What a unit of work uses of its store."""

    @property
    def id(self) -> str:
        """What names the store among all."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def commit_markers(self) -> CommitMarkers: ...

    @property
    def remembered_keys(self) -> BoundedDict[SequenceKey]: ...

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds since the epoch."""

    def soon(self, due: float | None, /) -> bool:
        """Whether a worker has to be told of what is due then."""

    def is_own_database(self, resource: str, /) -> bool:
        """Whether a database that was named for two-phase commit is the store's own.

        :raises CapabilityError: databases were named, and none has this name, or it cannot take part.
        :raises TransientStorageError: it does not answer.
        """

    def settle(self) -> None:
        """Finish what commits of this process have left prepared in the store: nothing that is sent now overtakes it.

        :raises TransientStorageError: it could not be done yet.
        """

    def notify(self, topics: frozenset[Topic], elsewhere: frozenset[Topic], /) -> None:
        """A commit has made work."""


class Statements:
    """One connection in one transaction, taken when it is first needed; what is locked; what the commit will tell.

    :param connection: a connection of the application's, in its own transaction: that one commits, not this.
    """

    def __init__(self, store: StoreParts, connection: Connection | None = None) -> None:
        self.store = store
        self.dialect = store.dialect
        self.joined = connection is not None
        self._connection = connection
        self._writing = False
        self._locked: set[tuple[int, str]] = set()
        self._highest = (-1, "")
        self.topics: set[Topic] = set()
        #: What is news to other processes only.
        self.topics_elsewhere: set[Topic] = set()

    # --- statements ------------------------------------------------------------------------------------------------

    def writing(self) -> Connection:
        """The connection of this transaction, in the state of one that may write."""
        connection = self._connected()
        if not self._writing:
            self._writing = True
            if not self.joined:
                with translated():
                    self.dialect.begin_writing(connection)
                    if not connection.in_transaction():
                        connection.begin()  # else a session on it would take it for its own to commit
        return connection

    def _connected(self) -> Connection:
        if self._connection is None:
            with translated():
                self._connection = self.store.engine.connect()
                self._connection.info[OWNER] = self
        return self._connection

    def read(self, query: Select[Any], parameters: Mapping[str, Any] | None = None) -> Sequence[RowMapping]:
        """Rows as they are committed, or as this transaction changed them."""
        with translated():
            return self._connected().execute(query, parameters).mappings().all()

    def read_locked(self, query: Select[Any], parameters: Mapping[str, Any] | None = None) -> Sequence[RowMapping]:
        """Rows of a query ``for update``, or that changes something. In a SQLite file a writer has the one lock."""
        self.writing()
        return self.read(query, parameters)

    def write(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> CursorResult[Any]:
        connection = self.writing()
        with translated():
            result = connection.execute(statement, parameters)
            assert isinstance(result, CursorResult)
            return result

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]], *, ignore: bool = False) -> None:
        if rows:
            connection = self.writing()
            with translated():
                self.dialect.insert(connection, table, rows, ignore=ignore)

    def insert_both(
        self,
        first: Table,
        first_rows: Sequence[Mapping[str, Any]],
        second: Table,
        second_rows: Sequence[Mapping[str, Any]],
    ) -> None:
        connection = self.writing()
        with translated():
            self.dialect.insert_both(connection, first, first_rows, second, second_rows)

    def update(self, table: Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            connection = self.writing()
            with translated():
                self.dialect.update(connection, table, key, rows)

    # --- locks -----------------------------------------------------------------------------------------------------

    def to_lock(self, kind: int, names: Sequence[str]) -> list[str]:
        """Of these names those that are not locked yet, in the order in which to lock them.

        :raises LockOrderError: something that comes later in the order is locked already.
        """
        wanted = sorted({name for name in names if (kind, name) not in self._locked})
        if wanted and (kind, wanted[0]) < self._highest:
            raise LockOrderError(f"{NAMES[kind]} {wanted[0]} is locked after {NAMES[self._highest[0]]}")
        return wanted

    def locked(self, kind: int, names: Sequence[str]) -> None:
        """These are locked now."""
        for name in names:
            self._locked.add((kind, name))
            self._highest = max(self._highest, (kind, name))

    def adopt(self, kind: int, name: str) -> None:
        """A row that is so new that nobody else can know it needs no lock."""
        self._locked.add((kind, name))

    def require(self, kind: int, name: str) -> None:
        """A row may be changed only while it is locked."""
        if (kind, name) not in self._locked:
            raise LockOrderError(f"{NAMES[kind]} {name} is changed without its lock")
