"""One unit of work on a SQL store: one connection, one local transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, CursorResult, Executable, RowMapping, Select, Table, select
from sqlalchemy.orm import Session

from mercury.errors import CapabilityError, Conflict, StorageError
from mercury.storage.api import Claim, LockOrderError, Topic
from mercury.storage.sql.dead_letters import SqlDeadLetters
from mercury.storage.sql.errors import translate, translated
from mercury.storage.sql.invoker import SqlInvoker
from mercury.storage.sql.rmd import SqlRmd
from mercury.storage.sql.rms import SqlRms
from mercury.storage.sql.schema import CLAIM

if TYPE_CHECKING:
    from mercury.storage.sql.dialects import Dialect
    from mercury.storage.sql.store import SqlStore

#: The order in which rows are locked (storage.api).
RMD, INVOKER, RMS = range(3)
KINDS = ("RMD", "InvokerBuffer", "RMS")
#: Under this name a connection knows the transaction that it belongs to.
OWNER = "mercury transaction"


class SqlTransaction:
    """`Transaction` on a SQL store. The connection is taken when it is first needed.

    :param connection: a connection of the application's, in its own transaction: that one commits, not this.
    """

    def __init__(self, store: SqlStore, connection: Connection | None = None) -> None:
        self.store = store
        self.dialect: Dialect = store.dialect
        self.joined = connection is not None
        self._connection = connection
        self._writing = False
        self._ending = False
        self._broken = False
        self._locked: set[tuple[int, str]] = set()
        self._highest = (-1, "")
        self._claims: list[Claim] = []
        self._after_commit: list[Callable[[], None]] = []
        self.topics: set[Topic] = set()
        self.rmd = SqlRmd(self)
        self.invoker = SqlInvoker(self)
        self.rms = SqlRms(self)
        self.dead_letters = SqlDeadLetters(self)

    # --- the application's part ------------------------------------------------------------------------------------

    def connection(self, resource: str | None = None) -> Connection:
        if resource is not None:
            raise self._unknown(resource)
        return self.writing()

    def session(self, resource: str | None = None) -> Session:
        # Its commit and rollback stay within a savepoint of this transaction (transactions.md 11).
        return Session(bind=self.connection(resource), join_transaction_mode="create_savepoint")

    def _unknown(self, resource: str) -> CapabilityError:
        return CapabilityError(f"no database is named {resource!r}: name it in Mercury(..., resources={{...}})")

    # --- statements ------------------------------------------------------------------------------------------------

    def writing(self) -> Connection:
        """The connection of this transaction, in the state of one that may write."""
        connection = self._connected()
        if not self._writing:
            self._writing = True
            if not self.joined:
                with translated():
                    self.dialect.begin_writing(connection)
        return connection

    def _connected(self) -> Connection:
        if self._connection is None:
            with translated():
                self._connection = self.store.engine.connect()
                self._connection.info[OWNER] = self
        return self._connection

    def read(self, query: Select[Any]) -> Sequence[RowMapping]:
        """Rows as they are committed, or as this transaction changed them."""
        with translated():
            return self._connected().execute(query).mappings().all()

    def read_locked(self, query: Select[Any]) -> Sequence[RowMapping]:
        connection = self.writing()
        with translated():
            return connection.execute(self.dialect.locking(query)).mappings().all()

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
            raise LockOrderError(f"{KINDS[kind]} {wanted[0]} is locked after {KINDS[self._highest[0]]}")
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
            raise LockOrderError(f"{KINDS[kind]} {name} is changed without its lock")

    # --- the contract ----------------------------------------------------------------------------------------------

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.flush_records()
        lengths = len(self.rms.appended), len(self._after_commit)
        locks = set(self._locked), self._highest
        connection = self.writing()
        with translated():
            nested = connection.begin_nested()
        try:
            yield
            self.flush_records()
        except BaseException:
            self.rmd.forget_changes()
            self.rms.forget_changes()
            self.rms.truncate(lengths[0])
            del self._after_commit[lengths[1] :]
            self._locked, self._highest = locks  # the database lets go of what was locked since
            if nested.is_active or connection.in_nested_transaction():
                with translated():
                    nested.rollback()
            raise
        with translated():
            nested.commit()

    def guard(self, claim: Claim) -> None:
        self._claims.append(claim)

    def after_commit(self, action: Callable[[], None]) -> None:
        self._after_commit.append(action)

    def translate(self, error: Exception) -> StorageError | None:
        known = translate(error)
        if isinstance(known, Conflict) and known is not error:
            return StorageError(str(known))  # a unique violation of the application's own, not a race of ours
        return known

    # --- the end ---------------------------------------------------------------------------------------------------

    def ended_by_application(self, *, commit: bool) -> None:
        """The application ends the transaction that is Mercury's to end.

        :raises StorageError: it commits; nothing is kept.
        """
        if self._ending:
            return
        self._broken = True
        if commit:
            raise StorageError("the transaction is Mercury's: it commits when its 'with' block is left")

    def __enter__(self) -> SqlTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self.joined:
            return
        try:
            if error is None:
                if self._broken:
                    raise StorageError("the application has rolled back the transaction on its own; nothing is kept")
                self.prepare_commit()
                self._ending = True
                self._commit()
            else:
                self._roll_back()
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._release()
        if error is None:
            self.committed()

    def flush_records(self) -> None:
        """Write the records that were saved since the last time."""
        self.rmd.flush()
        self.rms.flush()

    def prepare_commit(self) -> None:
        """Write everything that is still kept here, and check the claims: the last statements before the commit."""
        self.flush_records()
        self.rms.flush_appended()
        if self._writing:
            for claim in self._claims:
                self._check(claim)

    def _check(self, claim: Claim) -> None:
        held = select(CLAIM.c.epoch).where(
            CLAIM.c.resource == claim.resource, CLAIM.c.owner == claim.owner, CLAIM.c.epoch == claim.epoch
        )
        # Shared, so that nobody takes it over between this statement and the commit.
        with translated():
            found = self._connected().execute(self.dialect.locking(held, share=True)).first()
        if found is None:
            raise Conflict(f"the claim on {claim.resource} is lost")

    def _commit(self) -> None:
        if self._connection is not None:
            with translated():
                self._connection.commit()

    def _roll_back(self) -> None:
        self._ending = True
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except Exception:  # the connection is gone, and with it what it had begun
            self._connection.invalidate()

    def _release(self) -> None:
        if self._connection is not None:
            if not self._connection.invalidated:
                self._connection.info.pop(OWNER, None)
            self._connection.close()
            self._connection = None

    def committed(self) -> None:
        """The commit is made: tell everybody."""
        for action in self._after_commit:
            action()
        if self.topics:
            self.store.tell(frozenset(self.topics))
