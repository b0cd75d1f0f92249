"""One database's part of one transaction."""

from __future__ import annotations

import contextlib
import enum
from typing import cast

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, event, exc

from mercury.errors import StorageError, TransientStorageError
from mercury.storage.sql.deferred import DeferredConstraints
from mercury.storage.sql.ends import note_end
from mercury.storage.sql.releasing import own, release
from mercury.storage.sql.savepoints import Savepoints
from mercury.storage.sql.store_connections import StoreConnection
from mercury.storage.sql.transaction import SqlTransaction
from mercury.storage.xa.names import Gtrid
from mercury.storage.xa.resources import Resource

XID = "select pg_current_xact_id_if_assigned()::text"


class BranchState(enum.Enum):
    """The state of a branch."""

    WORKING = "working"
    PREPARED = "prepared"
    #: Prepared; the decision log decides its outcome, not this transaction.
    LEFT = "left"
    ENDED = "ended"


class Branch:
    """A connection in a transaction that can be prepared.

    A prepared branch belongs to the database, not to the connection, and survives it: SQLAlchemy and the driver do not
    know of the branch, so no pool can roll it back.
    """

    def __init__(self, resource: Resource, connection: Connection) -> None:
        self.resource = resource
        self.name = resource.name
        self.connection = connection
        self.deferred = DeferredConstraints(connection, resource.dialect)
        self.savepoints = Savepoints(connection, resource.dialect)
        self.state = BranchState.WORKING
        self.gid: str | None = None
        self._xid: int | None = None

    @property
    def xid(self) -> int:
        """PostgreSQL's id of the transaction, with its epoch."""
        assert self._xid is not None, "it is not prepared"
        return self._xid

    @property
    def has_begun(self) -> bool:
        """Whether a statement was sent: then the database has a transaction."""
        lost = self.connection.invalidated or self._driver.closed
        return lost or self._driver.info.transaction_status is not TransactionStatus.IDLE

    def require_connection(self) -> None:
        """
        :raises TransientStorageError: the connection is lost.
        """
        if self.connection.invalidated or self._driver.closed:
            raise TransientStorageError(f"the connection to the database {self.resource} is lost; nothing is kept")

    def is_written(self) -> bool:
        """Whether the branch has changed something and must be prepared.

        :raises StorageError: the database does not answer.
        """
        self._check()
        try:
            text = self._driver.execute(XID).fetchone()
        except psycopg.Error as error:
            raise self.resource.translate(error) from error
        self._xid = int(text[0]) if text is not None and text[0] is not None else None
        return self._xid is not None

    def prepare(self, gtrid: Gtrid) -> None:
        """Prepare the branch: afterwards the database can commit it even after a crash.

        :raises StorageError: the branch is not prepared, or its state is unknown; recovery rolls it back.
        """
        self._check()
        gid = gtrid.gid(self.name)
        try:
            cursor = self._driver.execute(f"prepare transaction '{gid}'".encode())
        except psycopg.Error as error:
            raise self.resource.translate(error) from error
        # PREPARE of a failed transaction rolls it back without an error: only the command tag shows it.
        if cursor.statusmessage != "PREPARE TRANSACTION":
            raise StorageError(f"the database {self.resource} has not prepared its part: a statement had failed in it")
        self.gid, self.state = gid, BranchState.PREPARED

    def finish(self, *, commit: bool) -> None:
        """Commit or roll back the prepared branch.

        :raises NoSuchBranch: another process or an operator has finished it.
        :raises StorageError: the statement failed; the branch stays prepared.
        """
        if self.connection.invalidated:
            raise TransientStorageError(f"the connection to the database {self.resource} is lost")
        driver = self._driver
        try:
            driver.rollback()  # the next statement must run outside a transaction
            driver.autocommit = True
            driver.execute(f"{'commit' if commit else 'rollback'} prepared '{self.gid}'".encode())
        except psycopg.Error as error:
            raise self.resource.translate(error) from error
        finally:
            if not driver.closed:
                driver.autocommit = False
        self.state = BranchState.ENDED

    def commit_unwritten(self) -> None:
        """End a branch that has changed nothing.

        :raises StorageError: a serialization failure: what the branch has read was not consistent.
        """
        try:
            self._driver.commit()
        except psycopg.Error as error:
            raise self.resource.translate(error) from error
        self.state = BranchState.ENDED

    def roll_back(self) -> None:
        """Roll the branch back unless the decision log decides its outcome. Never raises: recovery finishes the
        rest."""
        if self.state is BranchState.PREPARED:
            with contextlib.suppress(StorageError):
                self.finish(commit=False)
        elif self.state is BranchState.WORKING:
            try:
                self.connection.rollback()
            except exc.SQLAlchemyError:
                self.connection.invalidate()

    def release(self) -> None:
        """Return the connection to its pool. Never raises."""
        release(self.connection)

    @property
    def _driver(self) -> psycopg.Connection:
        return cast("psycopg.Connection", self.connection.connection.dbapi_connection)

    def _check(self) -> None:
        """Check that the connection is in a transaction without a failed statement.

        :raises StorageError: the check failed.
        """
        self.require_connection()
        status = self._driver.info.transaction_status
        if status is TransactionStatus.INERROR:
            raise StorageError(f"a statement in the database {self.resource} had failed; nothing is kept")
        if status is not TransactionStatus.INTRANS:
            raise StorageError(f"the application has ended the transaction in the database {self.resource} by itself")


def enlist(resource: Resource, owner: SqlTransaction) -> Branch:
    """Begin a branch on a new connection.

    :raises TransientStorageError: the database does not answer.
    """
    try:
        connection = resource.engine.connect()
        try:
            own(connection, owner)
            _note_ends(connection, owner)
            resource.dialect.limit_session(connection)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
    except exc.SQLAlchemyError as error:
        raise resource.translate(error) from error
    return Branch(resource, connection)


def _note_ends(connection: Connection, owner: SqlTransaction) -> None:
    """Let a statement that ends the branch be noticed: what follows would be in a transaction of its own, and as a
    branch of this one it would be prepared without what was before."""

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        note_end(owner, statement)

    if not isinstance(connection.connection.dbapi_connection, StoreConnection):  # which notes it itself
        event.listen(connection, "before_cursor_execute", note)
