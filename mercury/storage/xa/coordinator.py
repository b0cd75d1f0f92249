"""The coordinator: one transaction over several databases, committed in all of them or in none.

Two forms. In the last-resource form the other databases prepare, then the store commits in one phase with the decision
in the same local transaction, then the others commit. In the two-phase form the store is prepared like the others, and
the decision is committed in a separate decision log. In both forms the transaction is committed when the decision is.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from mercury.errors import CapabilityError, OutcomeUnknown, StorageError, TransientStorageError
from mercury.storage.application import Ending, Outcome
from mercury.storage.outages import Outages
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction_status import TransactionStatus
from mercury.storage.xa.branch import Branch, BranchState
from mercury.storage.xa.decisions import Decision, DecisionLog, Heuristic, Verdict
from mercury.storage.xa.names import STORE_BRANCH, Gtrid
from mercury.storage.xa.process import Process
from mercury.storage.xa.recovery import Recovery
from mercury.storage.xa.recovery_threads import RecoveryThreads
from mercury.storage.xa.resources import NoSuchBranch, Resource
from mercury.storage.xa.timing import Timing
from mercury.storage.xa.transaction import XaTransaction

log = logging.getLogger("mercury.storage.xa")

#: Seconds to wait for the databases before the process begins to serve.
TIMEOUT = 5.0
#: After an unanswered commit of a decision: number of queries for the decision, and the pause between in seconds.
TRIES, PAUSE = 20, 0.25
#: Number of finished transactions whose decisions are deleted together.
BATCH = 64


class Coordinator:
    """Coordinates the transactions of one store in one process.

    :param resources: the databases that may take part, by name.
    :param log: the database of the decision log (two-phase form); ``None`` = the store (last-resource form).
    :param clock: seconds since the epoch.
    :param new_incarnation: returns a name that no other start of any process has.
    :raises CapabilityError: the store cannot be prepared.
    """

    def __init__(
        self,
        store: SqlStore,
        resources: Mapping[str, Resource],
        new_incarnation: Callable[[], str],
        *,
        log: SqlStore | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.store = store
        self.store_id = store.id
        self.timing = timing or Timing()
        self.clock = store.clock
        self.resources = dict(resources)
        #: The store's database, where branches are prepared in the two-phase form.
        self.store_resource = Resource(STORE_BRANCH, store.engine)
        self.decisions = DecisionLog(store.engine, store.dialect, self.store_id)
        #: The logs that may have decisions, this process's first: earlier processes may have used the other form.
        self.logs = [self.decisions]
        self._log = log
        if log is not None:
            self.decisions = DecisionLog(log.engine, log.dialect, self.store_id)
            self.logs.insert(0, self.decisions)
        self.process = Process(self.decisions, self.store_id, new_incarnation, self.timing.lease, self.clock)
        self._mutex = threading.Lock()
        self._finished: list[Gtrid] = []
        #: Branches of the store from commits of this process that are possibly still prepared.
        self._left: set[str] = set()
        self._closing = threading.Event()
        self.recovery = Recovery(self)
        self._keeper: RecoveryThreads | None = None

    @property
    def two_phase(self) -> bool:
        """Whether the store is prepared too."""
        return self._log is not None

    @property
    def can_prepare_store(self) -> bool:
        """Whether the store's database may have prepared branches."""
        return self.store.capabilities.two_phase

    # --- transactions ----------------------------------------------------------------------------------------------

    def transaction(self, *, of_application: bool = False) -> XaTransaction:
        """One unit of work, in which other databases may take part.

        :param of_application: as for `XaTransaction`.
        """
        # Before the transaction locks anything in the store: SQLite has one writer.
        if not self.two_phase and not self._all_in_the_store:
            with contextlib.suppress(StorageError):
                self.process.keep_alive()
        return XaTransaction(self.store, self, of_application=of_application)

    @property
    def _all_in_the_store(self) -> bool:
        return all(each.is_store for each in self.resources.values())

    def enlistable(self, name: str) -> Resource:
        """The database of this name, checked so that a branch can begin.

        :raises CapabilityError: no database has this name, or it cannot take part; nothing was written.
        :raises TransientStorageError: the database or the decision log does not answer.
        """
        found = self.resource(name)
        if self.two_phase:
            self.process.keep_alive()
        if self.process.incarnation is None:
            raise TransientStorageError("the decision log did not answer when the transaction began")
        return found

    def resource(self, name: str) -> Resource:
        """The database of this name, after the check that it can take part.

        :raises CapabilityError: no database has this name, or it cannot take part; nothing was written.
        :raises TransientStorageError: the database does not answer.
        """
        if name not in self.resources:
            known = ", ".join(sorted(self.resources)) or "none"
            raise CapabilityError(
                f"no database is named {name!r} ({known} are): name it when Mercury is made, "
                f"Mercury(..., resources={{{name!r}: engine}}), because recovery must know it before anything runs"
            )
        found = self.resources[name]
        found.check(self.store_id)
        return found

    def is_store(self, name: str) -> bool:
        """Whether the database of this name is the store's own. Errors as for `resource`."""
        return self.resource(name).is_store

    def start(self, outages: Outages | None = None) -> None:
        """Check that all named databases can take part, then start recovery, which runs until `close`.

        If a database does not answer, recovery retries it; this call waits for about ten seconds at most. Called again,
        it does nothing: a member that becomes the active one has checked them before, and would wait under its lease.

        :raises CapabilityError: a database cannot take part; the text says why, and what to change. Nothing was
            written.
        """
        if self._keeper is None:
            self.check()
            self._keeper = RecoveryThreads(self.recovery, self.timing.interval, self.clock, outages)
            self._keeper.start()

    def check(self) -> list[str]:
        """Check that all named databases can take part. Returns the names of those that do not answer.

        :raises CapabilityError: a database cannot take part; the text says why, and what to change.
        """
        answers: dict[str, StorageError | None] = {}
        threads = [threading.Thread(target=self._check, args=(name, answers), daemon=True) for name in self.resources]
        until = time.monotonic() + TIMEOUT
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        for error in answers.copy().values():
            if error is not None and not isinstance(error, TransientStorageError):
                raise error
        if self.two_phase and not self._all_in_the_store:
            self._check_store()
        return [name for name in self.resources if answers.get(name, self) is not None]

    def _check(self, name: str, answers: dict[str, StorageError | None]) -> None:
        try:
            self.resource(name)
            answers[name] = None
        except StorageError as error:
            if isinstance(error, TransientStorageError):
                log.warning("%s; this is retried when the database is needed", error)
            answers[name] = error

    def _check_store(self) -> None:
        with self.store_resource.connection() as connection:
            obstacle = self.store_resource.dialect.obstacle_to_prepare(connection)
            if obstacle is not None:
                raise CapabilityError(f"the server of the store {self.store_resource} {obstacle}, or leave out log")

    # --- one commit ------------------------------------------------------------------------------------------------

    def commit(self, tx: XaTransaction, branches: Sequence[Branch]) -> Outcome:
        """Commit a transaction with branches that have written.

        :raises StorageError: the transaction is not and will not be committed; the caller rolls back its part.
        :raises OutcomeUnknown: the decision log does not answer; recovery commits or rolls back.
        """
        with self.process.run() as gtrid:
            if self.two_phase:
                branches = [*self._commit_two_phase(tx, gtrid, branches), *branches]
            else:
                self._commit_last_resource(tx, gtrid, branches)
            away = self._commit_branches(branches, gtrid)
        if not away:
            self.forget(gtrid)
        else:
            self._leave(gtrid, away)
        return Outcome(ending=Ending.COMMITTED, gtrid=str(gtrid), away=tuple(away))

    def _commit_last_resource(self, tx: XaTransaction, gtrid: Gtrid, branches: Sequence[Branch]) -> None:
        # Errors of the store must come before any PREPARE; but SQLite's one writer must not wait for other databases.
        late = tx.dialect.single_writer and not tx.is_writing
        if not late:
            tx.write_all()
        for branch in branches:
            self.prepare(branch, gtrid)
        if late:
            tx.write_all()
        self.decide(tx.writing(), self._decision(gtrid, branches))
        with self._deciding(tx, gtrid, branches, tx.drop_store):
            self.commit_decision(tx.commit_store)

    def _commit_two_phase(self, tx: XaTransaction, gtrid: Gtrid, branches: Sequence[Branch]) -> list[Branch]:
        tx.write_all()
        own = tx.store_branch()
        taking_part = [*branches, own] if own is not None else list(branches)
        for branch in taking_part:
            self.prepare(branch, gtrid)
        with self.decisions.open() as connection:
            self.decide(connection, self._decision(gtrid, taking_part))
            try:
                with self._deciding(tx, gtrid, taking_part, connection.invalidate):
                    self.commit_decision(connection.commit)
            except OutcomeUnknown:
                self._leave(gtrid, [branch.name for branch in taking_part])
                raise
        return [own] if own is not None else []

    def _commit_branches(self, branches: Sequence[Branch], gtrid: Gtrid) -> list[str]:
        """Commit the branches of a decided transaction, the store's first. Returns the names of those left to recovery.

        The reason for the order is in `Recovery.store_first`.
        """
        away: list[str] = []
        for branch in branches:
            if STORE_BRANCH in away or not self.commit_branch(branch, gtrid):
                away.append(branch.name)
        return away

    def _leave(self, gtrid: Gtrid, names: Sequence[str]) -> None:
        """Leave these branches to recovery."""
        with self._mutex:
            self._left.update(gtrid.gid(name) for name in names if name == STORE_BRANCH)
        if self._keeper is not None:
            self._keeper.wake()

    def settle(self) -> None:
        """As `StoreParts.settle`: finish the branches that earlier commits left prepared in the store.

        :raises TransientStorageError: a branch could not be finished yet.
        """
        with self._mutex:
            left = list(self._left)
        if not left:
            return
        self.recovery.recover(self.store_resource, self.clock())
        for gid in left:
            if self.store_resource.is_prepared(gid):
                raise TransientStorageError(
                    f"{gid} is left prepared in the store {self.store_resource} by an earlier commit of this process, "
                    "and nothing is sent before that is finished; try again"
                )
            with self._mutex:
                self._left.discard(gid)

    def _decision(self, gtrid: Gtrid, branches: Sequence[Branch]) -> Decision:
        xids = {branch.name: branch.xid for branch in branches}
        return Decision(gtrid=gtrid, verdict=Verdict.COMMIT, decided_at=self.clock(), branches=xids)

    @contextmanager
    def _deciding(
        self, tx: XaTransaction, gtrid: Gtrid, branches: Sequence[Branch], drop: Callable[[], None]
    ) -> Iterator[None]:
        """The block commits the decision: from its begin on, only the decision log knows the outcome.

        :param drop: releases the connection of the decision; otherwise SQLite's one writer would wait for itself.
        """
        tx.outcome = Outcome(ending=Ending.UNKNOWN, gtrid=str(gtrid))
        for branch in branches:
            branch.state = BranchState.LEFT
        try:
            yield
        except Exception as error:
            drop()
            if self._find_verdict(gtrid, branches, error) is Verdict.ABORT:
                tx.outcome = Outcome(ending=Ending.ROLLED_BACK, gtrid=str(gtrid))
                for branch in branches:
                    branch.state = BranchState.PREPARED
                raise

    def _find_verdict(self, gtrid: Gtrid, branches: Sequence[Branch], error: Exception) -> Verdict:
        """The outcome of a decision whose commit was not answered, as `Recovery` determines it."""
        log.warning("the commit of %s failed: %s; looking for its decision in the log", gtrid, error)
        abort = Decision(gtrid=gtrid, verdict=Verdict.ABORT, decided_at=self.clock())
        for attempt in range(TRIES):
            if attempt:
                self._closing.wait(PAUSE)
            try:
                if self.decisions.arbitrate(abort)[0].verdict is Verdict.COMMIT:
                    return Verdict.COMMIT
                # Another process may have found the decision, committed every branch, and deleted the decision before
                # this query. The branches of a transaction that was never decided are still prepared, or rolled back.
                return Verdict.COMMIT if self._is_committed(branches) else Verdict.ABORT
            except StorageError as trouble:
                last = trouble
        raise OutcomeUnknown(
            f"it is not known whether {gtrid} is committed: {last}. Recovery will commit it or roll it back; "
            f"`mercury xa show {gtrid}` shows which"
        ) from error

    def _is_committed(self, branches: Sequence[Branch]) -> bool:
        """Whether a transaction without a decision was committed in all databases; the first that answers shows it.

        :raises StorageError: no database answers.
        """
        last: StorageError | None = None
        for branch in branches:
            try:
                return branch.resource.transaction_statuses([branch.xid]) == [TransactionStatus.COMMITTED]
            except StorageError as error:
                last = error
        assert last is not None, "a transaction without branches"
        raise last

    # --- its steps -------------------------------------------------------------------------------------------------

    def prepare(self, branch: Branch, gtrid: Gtrid) -> None:
        """Prepare one branch."""
        branch.prepare(gtrid)

    def decide(self, connection: Connection, decision: Decision) -> None:
        """Insert the decision; it takes effect with its commit."""
        self.decisions.decide(connection, decision)

    def commit_decision(self, commit: Callable[[], None]) -> None:
        """Commit the decision; in the last-resource form together with the store's part of the transaction."""
        commit()

    def commit_branch(self, branch: Branch, gtrid: Gtrid) -> bool:
        """Commit one prepared branch. Returns ``False`` if that failed; then recovery commits it."""
        try:
            branch.finish(commit=True)
        except NoSuchBranch:
            return self.committed_already(branch.resource, gtrid, branch.xid)
        except StorageError as error:
            log.warning("%s is decided, but this branch is not committed yet: %s; recovery retries", gtrid, error)
            return False
        return True

    def committed_already(self, resource: Resource, gtrid: Gtrid, xid: int) -> bool:
        """Check a branch that others have finished. Returns whether its outcome is known; a rollback is reported."""
        try:
            (transaction_status,) = resource.transaction_statuses([xid])
            if transaction_status is TransactionStatus.ABORTED:
                self.report(gtrid, resource.name, Verdict.COMMIT, transaction_status)
        except StorageError:
            return False  # the decision stands; recovery retries
        return transaction_status is not TransactionStatus.IN_PROGRESS

    def report(self, gtrid: Gtrid, resource: str, decided: Verdict, found: TransactionStatus) -> None:
        """Record a heuristic outcome, a branch that was finished by hand against the decision, and log it as an error.

        :raises StorageError: the decision log does not answer.
        """
        gid = gtrid.gid(resource)
        heuristic = Heuristic(
            gid=gid, resource=resource, decided=decided.value, found=found.value, found_at=self.clock()
        )
        if self.decisions.record(heuristic):
            log.error(
                "%s: the decision is %s, but in the database %r the branch is %s: it was finished by hand, and the "
                "databases do not agree any more; see `mercury xa list`",
                gid, decided.value, resource, found.value,
            )  # fmt: skip

    def forget(self, gtrid: Gtrid) -> None:
        """Delete a decision whose branches are all committed; done later, several together."""
        with self._mutex:
            self._finished.append(gtrid)
            enough = len(self._finished) >= BATCH
        if enough:
            self.forget_finished()

    def forget_finished(self) -> None:
        """Delete the decisions of finished transactions; after an error they are deleted later."""
        with self._mutex:
            finished, self._finished = self._finished, []
        if not finished:
            return
        try:
            self.decisions.forget(finished)
        except StorageError as error:
            log.info("%d finished decisions will be deleted later: %s", len(finished), error)
            with self._mutex:
                self._finished += finished

    def close(self) -> None:
        """Stop recovery, and close the databases."""
        self._closing.set()
        if self._keeper is not None:
            self._keeper.stop()
        self.forget_finished()
        for each in self.resources.values():
            each.close()
        if self._log is not None:
            self._log.close()
