"""The statements and locks of one unit of work, as the managers of each kind of row use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, CursorResult, Engine, Executable, RowMapping, Select, Table

from mercury.storage.api import LockOrderError, Topic
from mercury.storage.order import NAMES
from mercury.storage.records import SequenceKey
from mercury.storage.sql.bounded import BoundedDict
from mercury.storage.sql.commit_markers import CommitMarkers
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.errors import translated
from mercury.storage.sql.releasing import OWNER


class StoreParts(Protocol):
    """The methods of its store that a unit of work uses."""

    @property
    def id(self) -> str:
        """The store's unique id."""

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
        """Whether a worker must be woken for work that is due at this time."""

    def is_own_database(self, resource: str, /) -> bool:
        """Whether a database named for two-phase commit (``resources=``) is the store's own.

        :raises CapabilityError: databases were named, but not this one; or it cannot take part.
        :raises TransientStorageError: the database does not answer.
        """

    def attachments_used(self) -> None:
        """Note that this process works with attachments (`RetentionStore.has_attachments`)."""

    def settle(self) -> None:
        """Finish the branches that earlier commits of this process left prepared in the store, so that a message sent
        now does not overtake theirs.

        :raises TransientStorageError: a branch could not be finished yet.
        """

    def notify(self, topics: frozenset[Topic], elsewhere: frozenset[Topic], /) -> None:
        """Report that a commit has made work."""


class Statements:
    """The connection of one transaction, taken at its first use; the locks it holds; the topics its commit announces.

    :param connection: the application's connection, in a transaction that the application commits.
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
        #: Topics to announce to other processes only.
        self.topics_elsewhere: set[Topic] = set()

    # --- statements ------------------------------------------------------------------------------------------------

    def writing(self) -> Connection:
        """The connection of this transaction, ready to write."""
        connection = self._connected()
        if not self._writing:
            self._writing = True
            if not self.joined:
                with translated():
                    self.dialect.begin_writing(connection)
                    if not connection.in_transaction():
                        connection.begin()  # otherwise a session on it would begin the transaction, and commit it
        return connection

    def _connected(self) -> Connection:
        if self._connection is None:
            with translated():
                self._connection = self.store.engine.connect()
                self._connection.info[OWNER] = self
        return self._connection

    def read(self, query: Select[Any], parameters: Mapping[str, Any] | None = None) -> Sequence[RowMapping]:
        """Read rows, as committed or as this transaction has changed them. Takes no lock."""
        with translated():
            return self._connected().execute(query, parameters).mappings().all()

    def read_locked(self, query: Select[Any], parameters: Mapping[str, Any] | None = None) -> Sequence[RowMapping]:
        """Read rows by a query with ``for update`` or with a change. In SQLite this takes the lock of the file."""
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
        """Those of these names that this transaction has not locked yet, in lock order.

        :raises LockOrderError: an object that is later in the order is locked already.
        """
        wanted = sorted({name for name in names if (kind, name) not in self._locked})
        if wanted and (kind, wanted[0]) < self._highest:
            raise LockOrderError(f"{NAMES[kind]} {wanted[0]} is locked after {NAMES[self._highest[0]]}")
        return wanted

    def locked(self, kind: int, names: Sequence[str]) -> None:
        """Note that these objects are locked now."""
        for name in names:
            self._locked.add((kind, name))
            self._highest = max(self._highest, (kind, name))

    def adopt(self, kind: int, name: str) -> None:
        """Count a row as locked that this transaction inserts; no other transaction can know it."""
        self._locked.add((kind, name))

    def require(self, kind: int, name: str) -> None:
        """Check that a row is locked before it is changed."""
        if (kind, name) not in self._locked:
            raise LockOrderError(f"{NAMES[kind]} {name} is changed without its lock")
