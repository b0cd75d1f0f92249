"""One database's part of one transaction."""

from __future__ import annotations

import contextlib
import enum
from typing import cast

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, exc

from mercury.errors import StorageError, TransientStorageError
from mercury.storage.sql.deferred import DeferredConstraints
from mercury.storage.sql.releasing import OWNER, release
from mercury.storage.sql.savepoints import Savepoints
from mercury.storage.sql.transaction import SqlTransaction
from mercury.storage.xa.names import Gtrid
from mercury.storage.xa.resources import Resource

#: An engine of the application's may have no limits: then a lost row lock or a stopped process would last for ever.
LIMITS = """
    select case when current_setting('lock_timeout') = '0' then set_config('lock_timeout', '10s', true) end,
        case when current_setting('idle_in_transaction_session_timeout') = '0'
            then set_config('idle_in_transaction_session_timeout', '30s', true) end
"""
XID = "select pg_current_xact_id_if_assigned()::text"


class BranchState(enum.Enum):
    """How far a branch has come."""

    WORKING = "working"
    PREPARED = "prepared"
    #: Prepared, and what becomes of it is not for this transaction to say.
    LEFT = "left"
    ENDED = "ended"


class Branch:
    """A connection in a transaction that can be prepared.

    What is prepared belongs to the database, not to the connection: it stays whatever happens to that one, because
    neither SQLAlchemy nor the driver is told of it, so that no pool can roll it back.
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
        """Whether any statement was sent, so that there is a transaction in the database."""
        lost = self.connection.invalidated or self._driver.closed
        return lost or self._driver.info.transaction_status is not TransactionStatus.IDLE

    def is_written(self) -> bool:
        """Whether there is anything to prepare.

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
        """Prepare it: from here the database can commit it whatever happens.

        :raises StorageError: it is not prepared, or it is not known whether; recovery rolls back what is left of it.
        """
        self._check()
        gid = gtrid.gid(self.name)
        try:
            cursor = self._driver.execute(f"prepare transaction '{gid}'".encode())
        except psycopg.Error as error:
            raise self.resource.translate(error) from error
        # A transaction that has failed is rolled back, and there is no error: only the answer says it.
        if cursor.statusmessage != "PREPARE TRANSACTION":
            raise StorageError(f"the database {self.resource} has not prepared its part: a statement had failed in it")
        self.gid, self.state = gid, BranchState.PREPARED

    def finish(self, *, commit: bool) -> None:
        """Commit or roll back what is prepared.

        :raises NoSuchBranch: somebody has finished it.
        :raises StorageError: it could not be done; it stays prepared.
        """
        if self.connection.invalidated:
            raise TransientStorageError(f"the connection to the database {self.resource} is lost")
        driver = self._driver
        try:
            driver.rollback()  # nothing is open; a driver that knows so takes the next statement outside of one
            driver.autocommit = True
            driver.execute(f"{'commit' if commit else 'rollback'} prepared '{self.gid}'".encode())
        except psycopg.Error as error:
            raise self.resource.translate(error) from error
        finally:
            if not driver.closed:
                driver.autocommit = False
        self.state = BranchState.ENDED

    def commit_unwritten(self) -> None:
        """End a branch that has nothing to prepare.

        :raises StorageError: what it has read was no consistent state (in the isolation level that it has).
        """
        try:
            self._driver.commit()
        except psycopg.Error as error:
            raise self.resource.translate(error) from error
        self.state = BranchState.ENDED

    def roll_back(self) -> None:
        """Undo it, as far as that is for this transaction to say. Never fails: recovery does what is not done here."""
        if self.state is BranchState.PREPARED:
            with contextlib.suppress(StorageError):
                self.finish(commit=False)
        elif self.state is BranchState.WORKING:
            try:
                self.connection.rollback()
            except exc.SQLAlchemyError:
                self.connection.invalidate()

    def release(self) -> None:
        """Give the connection back. Never fails."""
        release(self.connection)

    @property
    def _driver(self) -> psycopg.Connection:
        return cast("psycopg.Connection", self.connection.connection.dbapi_connection)

    def _check(self) -> None:
        """It is in a transaction, and nothing in that one has failed.

        :raises StorageError: it is not.
        """
        if self.connection.invalidated or self._driver.closed:
            raise TransientStorageError(f"the connection to the database {self.resource} is lost; nothing is kept")
        status = self._driver.info.transaction_status
        if status is TransactionStatus.INERROR:
            raise StorageError(f"a statement in the database {self.resource} had failed; nothing is kept")
        if status is not TransactionStatus.INTRANS:
            raise StorageError(f"the application has ended the transaction in the database {self.resource} by itself")


def enlist(resource: Resource, owner: SqlTransaction) -> Branch:
    """Begin a branch on a connection of its own.

    :raises TransientStorageError: the database does not answer.
    """
    try:
        connection = resource.engine.connect()
        try:
            connection.info[OWNER] = owner
            connection.exec_driver_sql(LIMITS)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
    except exc.SQLAlchemyError as error:
        raise resource.translate(error) from error
    return Branch(resource, connection)
