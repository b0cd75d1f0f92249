"""A unit of work of a SQL store in which other databases may take part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlalchemy import Connection

from mercury.errors import StorageError
from mercury.storage.application import Outcome
from mercury.storage.sql.savepoints import Savepoint
from mercury.storage.sql.statements import StoreParts
from mercury.storage.sql.transaction import SqlTransaction, StorePart
from mercury.storage.xa.branch import Branch, enlist
from mercury.storage.xa.resources import Resource


class Committer(Protocol):
    """What a transaction asks of the `Coordinator` that commits it."""

    @property
    def store_resource(self) -> Resource:
        """The store's own database."""

    def enlistable(self, name: str, /) -> Resource:
        """A database that may have a branch now.

        :raises CapabilityError: none has this name, or it cannot take part.
        :raises TransientStorageError: it, or the decision log, does not answer.
        """

    def commit(self, tx: XaTransaction, branches: Sequence[Branch], /) -> Outcome:
        """Commit a transaction with branches that have written.

        :raises StorageError: it is not committed.
        :raises OutcomeUnknown: it cannot be told.
        """


class XaTransaction(SqlTransaction):
    """`Transaction` over the store's database and those that were named. A branch begins when it is first asked for.

    If no other database was written to, it is a plain transaction of the store's.
    """

    def __init__(self, store: StoreParts, coordinator: Committer) -> None:
        super().__init__(store)
        self._coordinator = coordinator
        self._branches: dict[str, Branch] = {}
        #: The store's own part, where that is prepared too.
        self._own: Branch | None = None
        #: The savepoints that are open, the innermost last.
        self._parts: list[XaPart] = []

    @property
    def is_writing(self) -> bool:
        """Whether the store's database was written to, or locked."""
        return self._writing

    def connection(self, resource: str | None = None) -> Connection:
        if resource is None or self.store.is_own_database(resource):
            return super().connection(resource)
        branch = self._branches.get(resource)
        if branch is None:
            branch = self._branches[resource] = enlist(self._coordinator.enlistable(resource), self)
            for part in self._parts:
                part.enlist(branch)
        return branch.connection

    def write_all(self) -> None:
        """Write what is left, and check the claims: the other databases write under them, even if the store does not.

        :raises Conflict: a claim is lost.
        """
        self.writing()
        self.prepare_commit()

    def store_branch(self) -> Branch | None:
        """The store's own part as a branch; ``None`` = it has written nothing."""
        if self._connection is None:
            return None
        self._ending = True
        branch = Branch(self._coordinator.store_resource, self._connection)
        self._own = branch if branch.has_begun and branch.is_written() else None
        return self._own

    # --- savepoints ------------------------------------------------------------------------------------------------

    def _begin_part(self) -> XaPart:
        part = XaPart(self, self._parts)
        for branch in self._branches.values():
            part.enlist(branch)
        return part

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
        """Give up what the store's database may still have open."""
        if self._connection is not None:
            self._connection.invalidate()

    def _roll_back(self) -> None:
        super()._roll_back()
        # After the store's: while that could commit, a decision could be in it.
        for branch in self._branches.values():
            branch.roll_back()
        if self._own is not None:
            self._own.roll_back()

    def _release(self) -> None:
        super()._release()
        while self._branches:
            self._branches.popitem()[1].release()


class XaPart:
    """What was done since a savepoint, in every database that takes part."""

    def __init__(self, tx: XaTransaction, open_parts: list[XaPart]) -> None:
        self._own = StorePart(tx)
        self._others: list[Savepoint] = []
        self._open = open_parts
        open_parts.append(self)

    def enlist(self, branch: Branch) -> None:
        """A database takes part. What it has done since the savepoint is nothing yet."""
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
