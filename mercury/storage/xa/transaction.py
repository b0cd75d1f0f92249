"""A unit of work of a SQL store in which other databases may take part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlalchemy import Connection

from mercury.errors import StorageError
from mercury.storage.application import Outcome
from mercury.storage.sql.parts import StorePart
from mercury.storage.sql.savepoints import Savepoint
from mercury.storage.sql.store_parts import StoreParts
from mercury.storage.sql.transaction import SqlTransaction
from mercury.storage.xa.branch import Branch, enlist
from mercury.storage.xa.resources import Resource


class Committer(Protocol):
    """The methods of its `Coordinator` that a transaction uses."""

    @property
    def store_resource(self) -> Resource:
        """The store's own database."""

    def enlistable(self, name: str, /) -> Resource:
        """The database of this name, checked so that a branch can begin.

        :raises CapabilityError: no database has this name, or it cannot take part.
        :raises TransientStorageError: the database or the decision log does not answer.
        """

    def commit(self, tx: XaTransaction, branches: Sequence[Branch], /) -> Outcome:
        """Commit a transaction with branches that have written.

        :raises StorageError: the transaction is not committed.
        :raises OutcomeUnknown: the decision log does not answer.
        """


class XaTransaction(SqlTransaction):
    """`Transaction` over the store's database and the named databases. A branch begins at its first use.

    If no other database was written to, the commit is that of a plain transaction of the store.

    :param of_application: its commit is announced before its actions, which may be slow.
    """

    _keeps = False  # a decision and the branch of the store end its use at other places

    def __init__(self, store: StoreParts, coordinator: Committer, *, of_application: bool = False) -> None:
        super().__init__(store)
        self._of_application = of_application
        self._coordinator = coordinator
        self._branches: dict[str, Branch] = {}
        #: The store's branch, in the two-phase form.
        self._own: Branch | None = None
        #: The open savepoints, the innermost last.
        self._parts: list[XaPart] = []

    @property
    def is_writing(self) -> bool:
        """Whether this transaction has written or locked rows in the store's database."""
        return self._writing

    def connection(self, resource: str | None = None) -> Connection:
        if resource is None or self.store.is_own_database(resource):
            return super().connection(resource)
        self.require_whole()
        branch = self._branches.get(resource)
        if branch is None:
            branch = self._branches[resource] = enlist(self._coordinator.enlistable(resource), self)
            for part in self._parts:
                part.enlist(branch)
        self._limit_statements_on(branch.connection, branch.resource.dialect)
        return branch.connection

    def write_all(self) -> None:
        """Write collected changes and check the claims, which guard the other databases too, even if the store has no
        change.

        :raises Conflict: a claim is lost.
        """
        self.writing()
        self.prepare_commit()

    def store_branch(self) -> Branch | None:
        """The store's branch; ``None`` = the store has no change."""
        if self._connection is None:
            return None
        self._ending = True
        branch = Branch(self._coordinator.store_resource, self._connection)
        self._own = branch if branch.has_begun and branch.is_written() else None
        return self._own

    # --- savepoints ------------------------------------------------------------------------------------------------

    @property
    def in_database(self) -> bool:
        return super().in_database or bool(self._branches)

    def restart(self) -> None:
        broken = self.broken
        super().restart()
        if self._branches:
            self.broken = broken  # a branch that has ended may have had work from before

    def _begin_part(self) -> XaPart:
        part = XaPart(self, self._parts)
        for branch in self._branches.values():
            part.enlist(branch)
        return part

    def _require_connections(self) -> None:
        super()._require_connections()
        for branch in self._branches.values():
            branch.require_connection()

    def check_usable(self) -> None:
        super().check_usable()
        for branch in self._branches.values():
            branch.deferred.check_usable()

    def check_deferred(self) -> None:
        super().check_deferred()
        for branch in self._branches.values():
            branch.deferred.check()

    # --- the end ---------------------------------------------------------------------------------------------------

    def _complete(self) -> None:
        written = [branch for branch in self._branches.values() if branch.is_written()]
        self._ending = True
        for branch in self._branches.values():
            if branch not in written:
                branch.commit_unwritten()
        if written:
            self.outcome = self._coordinator.commit(self, written)
        else:
            super()._complete()

    def drop_store(self) -> None:
        """Roll back the store's connection if its transaction may still be open."""
        if self._connection is not None:
            self._connection.invalidate()

    def _roll_back(self) -> None:
        super()._roll_back()
        # After the store's rollback: until then the store's transaction could commit, and with it a decision.
        for branch in self._branches.values():
            branch.roll_back()
        if self._own is not None:
            self._own.roll_back()

    def _release(self) -> None:
        super()._release()
        while self._branches:
            self._branches.popitem()[1].release()


class XaPart:
    """The work since a savepoint, in every database that takes part."""

    def __init__(self, tx: XaTransaction, open_parts: list[XaPart]) -> None:
        self._own = StorePart(tx)
        self._others: list[Savepoint] = []
        self._open = open_parts
        open_parts.append(self)

    def enlist(self, branch: Branch) -> None:
        """Add the branch of a database that begins after the savepoint."""
        self._others.append(branch.savepoints.begin())

    def keep(self) -> None:
        self._open.remove(self)
        self._own.keep()
        for savepoint in self._others:
            savepoint.keep()

    def undo(self) -> None:
        self._open.remove(self)
        failures: list[StorageError] = []
        steps: list[Callable[[], None]] = [self._own.undo, *(savepoint.undo for savepoint in self._others)]
        for step in steps:
            try:
                step()
            except StorageError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def end_work(self) -> None:
        self._own.end_work()
        for savepoint in self._others:
            savepoint.end_work()
