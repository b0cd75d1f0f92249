"""The coordinator: one transaction over several databases, committed in all of them or in none.

Two forms. In the last-resource form the other databases prepare, then the store commits in one phase with the decision
in the same local transaction, then the others commit. In the two-phase form the store is prepared like the others, and
the decision is committed in a log of its own. Either way the decision's commit is the moment it happens.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from mercury.errors import CapabilityError, OutcomeUnknown, StorageError, TransientStorageError
from mercury.storage.api import Ending, Outcome
from mercury.storage.sql.store import SqlStore
from mercury.storage.xa.branch import Branch, BranchState
from mercury.storage.xa.decisions import Decision, DecisionLog, Heuristic, IncarnationIsDead, Verdict
from mercury.storage.xa.keeping import Keeper
from mercury.storage.xa.names import STORE_BRANCH, Gtrid
from mercury.storage.xa.recovery import Recovery
from mercury.storage.xa.resources import Fate, NoSuchBranch, Resource
from mercury.storage.xa.transaction import XaTransaction

log = logging.getLogger("mercury.storage.xa")

#: How often, and with which pause in seconds, the decision is asked for when its commit was not answered.
TRIES, PAUSE = 20, 0.25
#: Finished transactions that are forgotten together.
BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times of a coordinator and its recovery, in seconds."""

    #: How often recovery looks.
    interval: float = 1.0
    #: How long a process is believed to live without a sign of it. Then its undecided transactions are rolled back.
    lease: float = 5.0
    #: How long others leave a branch to its coordinator, which is most likely about to finish it.
    grace: float = 1.0


class Coordinator:
    """Coordinates the transactions of one store in one process.

    :param resources: the databases that may take part, by name.
    :param log: the two-phase form: where decisions are kept. Left out, the last-resource form: in the store.
    :param clock: seconds since the epoch.
    :param new_incarnation: a name that no start of any process ever had.
    :raises CapabilityError: the store can not be prepared.
    """

    def __init__(
        self,
        store: SqlStore,
        resources: Mapping[str, Resource],
        new_incarnation: Callable[[], str],
        *,
        log: SqlStore | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.store = store
        self.store_id = store.id
        self.pace = pace or Pace()
        self.clock = store.clock
        self.resources = dict(resources)
        #: The store's own database, where its branches are prepared in the two-phase form.
        self.store_resource = Resource(STORE_BRANCH, store.engine)
        self.decisions = DecisionLog(store.engine, store.dialect, self.store_id)
        #: Where decisions may have been made, this process's first: the form may have been another one before.
        self.logs = [self.decisions]
        self._log = log
        if log is not None:
            self.decisions = DecisionLog(log.engine, log.dialect, self.store_id)
            self.logs.insert(0, self.decisions)
        self._new_incarnation = new_incarnation
        self._incarnation: str | None = None
        #: All names that this process has gone by.
        self._mine: set[str] = set()
        self._seen_at = 0.0
        self._numbers = itertools.count(1)
        self._mutex = threading.Lock()
        self._running: set[Gtrid] = set()
        self._finished: list[Gtrid] = []
        self._closing = threading.Event()
        self.recovery = Recovery(self)
        self._keeper: Keeper | None = None

    @property
    def two_phase(self) -> bool:
        """Whether the store is prepared too."""
        return self._log is not None

    # --- transactions ----------------------------------------------------------------------------------------------

    def transaction(self) -> XaTransaction:
        """One unit of work, in which other databases may take part."""
        # In the store before anything is locked there: a file has one writer.
        if not self.two_phase and not all(each.is_store for each in self.resources.values()):
            self.keep_alive()
        return XaTransaction(self.store, self)

    def resource(self, name: str) -> Resource:
        """A database by its name, which is known to be able to take part.

        :raises CapabilityError: none has this name, or it can not take part; nothing was written.
        :raises TransientStorageError: it does not answer.
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

    def start(self) -> None:
        """Find out whether everything that was named can take part, then recover what was left, now and from now on.

        A database that does not answer is waited for by recovery, not here.

        :raises CapabilityError: one can not take part; the text says why, and what to change. Nothing was written.
        """
        self.check()
        if self._keeper is None:
            self._keeper = Keeper(self.recovery, self.pace.interval, self.clock)
            self._keeper.start()

    def check(self) -> list[str]:
        """Find out whether everything that was named can take part. Returns the names of those that do not answer.

        :raises CapabilityError: one can not; the text says why, and what to change.
        """
        away = []
        for name in self.resources:
            try:
                self.resource(name)
            except TransientStorageError as error:
                log.warning("%s; it is tried again when it is needed", error)
                away.append(name)
        if self.two_phase and not all(each.is_store for each in self.resources.values()):
            self._check_store()
        return away

    def _check_store(self) -> None:
        with self.store_resource.connection() as connection:
            if connection.exec_driver_sql("show max_prepared_transactions").scalar() == "0":
                raise CapabilityError(
                    f"the server of the store {self.store_resource} allows no prepared transactions: set "
                    "max_prepared_transactions = 64 (or more) in its postgresql.conf and restart it, or leave out log"
                )

    # --- this process ----------------------------------------------------------------------------------------------

    @property
    def incarnation(self) -> str | None:
        """The name of this process in decisions; ``None`` = it has none yet."""
        return self._incarnation

    def keep_alive(self) -> str:
        """Let the others know that this process lives. Returns the name it goes by.

        :raises StorageError: the decision log is away.
        """
        with self._mutex:
            now = self.clock()
            if self._incarnation is not None and now - self._seen_at >= self.pace.lease / 3:
                self._seen_at = now
                if not self.decisions.beat(self._incarnation, self.decisions.now()):
                    self._incarnation = None
            if self._incarnation is None:
                incarnation = self._new_incarnation()
                self.decisions.enroll(incarnation, self.decisions.now())
                self._incarnation, self._seen_at = incarnation, now
                self._mine.add(incarnation)
            return self._incarnation

    def is_mine(self, incarnation: str) -> bool:
        """Whether this process goes by this name, or has gone by it."""
        with self._mutex:
            return incarnation in self._mine

    def is_running(self, gtrid: Gtrid) -> bool:
        """Whether this process is about to commit it."""
        with self._mutex:
            return gtrid in self._running

    @contextmanager
    def _run(self) -> Iterator[Gtrid]:
        with self._mutex:
            if self._incarnation is None:
                raise IncarnationIsDead("this process was given up for dead; the same work may be done again")
            gtrid = Gtrid(self.store_id, self._incarnation, next(self._numbers))
            self._running.add(gtrid)
        try:
            yield gtrid
        except IncarnationIsDead:
            with self._mutex:
                if self._incarnation == gtrid.incarnation:
                    self._incarnation = None
            raise
        finally:
            with self._mutex:
                self._running.discard(gtrid)

    # --- one commit ------------------------------------------------------------------------------------------------

    def commit(self, tx: XaTransaction, branches: Sequence[Branch]) -> Outcome:
        """Commit a transaction with branches that have written.

        :raises StorageError: it is not committed, or nothing of it will be; the caller rolls back what it has.
        :raises OutcomeUnknown: it can not be told; recovery makes it one or the other.
        """
        with self._run() as gtrid:
            if self.two_phase:
                branches = [*branches, *self._commit_two_phase(tx, gtrid, branches)]
            else:
                self._commit_last_resource(tx, gtrid, branches)
            away = [branch.name for branch in branches if not self.commit_branch(branch, gtrid)]
        if not away:
            self.forget(gtrid)
        elif self._keeper is not None:
            self._keeper.wake()
        return Outcome(ending=Ending.COMMITTED, gtrid=str(gtrid), away=tuple(away))

    def _commit_last_resource(self, tx: XaTransaction, gtrid: Gtrid, branches: Sequence[Branch]) -> None:
        # What fails shall fail before anything is prepared; but a single writer is not kept waiting by other databases.
        late = tx.dialect.single_writer and not tx.is_writing
        if not late:
            tx.prepare_commit()
        for branch in branches:
            self.prepare(branch, gtrid)
        if late:
            tx.prepare_commit()
        self.decide(tx.writing(), self._decision(gtrid, branches))
        with self._deciding(tx, gtrid, branches, tx.drop_store):
            self.commit_decision(tx.commit_store)

    def _commit_two_phase(self, tx: XaTransaction, gtrid: Gtrid, branches: Sequence[Branch]) -> list[Branch]:
        tx.prepare_commit()
        own = tx.store_branch()
        taking_part = [*branches, own] if own is not None else list(branches)
        for branch in taking_part:
            self.prepare(branch, gtrid)
        with self.decisions.open() as connection:
            self.decide(connection, self._decision(gtrid, taking_part))
            with self._deciding(tx, gtrid, taking_part, connection.invalidate):
                self.commit_decision(connection.commit)
        return [own] if own is not None else []

    def _decision(self, gtrid: Gtrid, branches: Sequence[Branch]) -> Decision:
        xids = {branch.name: branch.xid for branch in branches}
        return Decision(gtrid=gtrid, verdict=Verdict.COMMIT, decided_at=self.clock(), branches=xids)

    @contextmanager
    def _deciding(
        self, tx: XaTransaction, gtrid: Gtrid, branches: Sequence[Branch], drop: Callable[[], None]
    ) -> Iterator[None]:
        """From here only the decision log can say what becomes of it.

        :param drop: lets go of the connection that decides: a single writer would wait for itself.
        """
        tx.outcome = Outcome(ending=Ending.UNKNOWN, gtrid=str(gtrid))
        for branch in branches:
            branch.state = BranchState.LEFT
        try:
            yield
        except Exception as error:
            drop()
            if self._ask(gtrid, branches, error) is Verdict.ABORT:
                tx.outcome = Outcome(ending=Ending.ROLLED_BACK, gtrid=str(gtrid))
                for branch in branches:
                    branch.state = BranchState.PREPARED
                raise

    def _ask(self, gtrid: Gtrid, branches: Sequence[Branch], error: Exception) -> Verdict:
        """What became of a decision whose commit was not answered: by recovery's rule, never by assumption."""
        log.warning("the commit of %s failed: %s; the decision log is asked", gtrid, error)
        xids = {branch.name: branch.xid for branch in branches}
        abort = Decision(gtrid=gtrid, verdict=Verdict.ABORT, decided_at=self.clock(), branches=xids)
        for attempt in range(TRIES):
            if attempt:
                self._closing.wait(PAUSE)
            try:
                return self.decisions.arbitrate(abort)[0].verdict
            except StorageError as trouble:
                last = trouble
        raise OutcomeUnknown(
            f"whether {gtrid} is committed can not be told: {last}. Recovery will make it one or the other; "
            f"`mercury xa show {gtrid}` says which"
        ) from error

    # --- its steps -------------------------------------------------------------------------------------------------

    def prepare(self, branch: Branch, gtrid: Gtrid) -> None:
        """Prepare one branch."""
        branch.prepare(gtrid)

    def decide(self, connection: Connection, decision: Decision) -> None:
        """Insert the decision; nothing is decided before its commit."""
        self.decisions.decide(connection, decision)

    def commit_decision(self, commit: Callable[[], None]) -> None:
        """Commit the decision, in the last-resource form with everything that the store has of the transaction."""
        commit()

    def commit_branch(self, branch: Branch, gtrid: Gtrid) -> bool:
        """Commit one prepared branch. Returns whether that is done; recovery does it otherwise."""
        try:
            branch.finish(commit=True)
        except NoSuchBranch:
            return self.committed_already(branch.resource, gtrid, branch.xid)
        except StorageError as error:
            log.warning("%s is committed, but not yet there: %s; recovery goes on with it", gtrid, error)
            return False
        return True

    def committed_already(self, resource: Resource, gtrid: Gtrid, xid: int) -> bool:
        """Somebody else has finished a branch that is to be committed. Returns whether that is settled."""
        try:
            (fate,) = resource.fates([xid])
        except StorageError:
            return False
        if fate is Fate.ABORTED:
            self.report(gtrid, resource.name, Verdict.COMMIT, fate)
        return fate is not Fate.IN_PROGRESS

    def report(self, gtrid: Gtrid, resource: str, decided: Verdict, found: Fate) -> None:
        """A branch was finished by hand, against the decision: keep it for the operator, and say so loudly.

        :raises StorageError: the log is away.
        """
        gid = gtrid.gid(resource)
        heuristic = Heuristic(
            gid=gid, resource=resource, decided=decided.value, found=found.value, found_at=self.clock()
        )
        if self.decisions.record(heuristic):
            log.error(
                "%s: decided was %s, but in the database %r it is %s: somebody has finished it by hand, and the "
                "databases do not agree any more; see `mercury xa list`",
                gid, decided.value, resource, found.value,
            )  # fmt: skip

    def forget(self, gtrid: Gtrid) -> None:
        """Every branch is committed: the decision is not needed any more. Done later, several at once."""
        with self._mutex:
            self._finished.append(gtrid)
            enough = len(self._finished) >= BATCH
        if enough:
            self.forget_finished()

    def forget_finished(self) -> None:
        """Forget the decisions of what is finished. What can not be forgotten now is forgotten later."""
        with self._mutex:
            finished, self._finished = self._finished, []
        if not finished:
            return
        try:
            self.decisions.forget(finished)
        except StorageError as error:
            log.info("%d decisions are forgotten later: %s", len(finished), error)
            with self._mutex:
                self._finished += finished

    def close(self) -> None:
        """Nothing is coordinated any more."""
        self._closing.set()
        if self._keeper is not None:
            self._keeper.stop()
        self.forget_finished()
        for each in self.resources.values():
            each.close()
        if self._log is not None:
            self._log.close()
