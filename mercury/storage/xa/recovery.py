"""Recovery: finishes the branches that a coordinator has left, as the decision log says (decisions 16 to 21)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mercury.errors import StorageError, TransientStorageError
from mercury.storage.outages import Outages
from mercury.storage.sql.transaction_status import TransactionStatus
from mercury.storage.xa.decisions import Decision, DecisionLog, Incarnation, Verdict
from mercury.storage.xa.names import Gtrid
from mercury.storage.xa.process import Process
from mercury.storage.xa.resources import NoSuchBranch, PreparedBranch, Resource
from mercury.storage.xa.timing import Timing

log = logging.getLogger("mercury.storage.xa")

#: Number of leases without a heartbeat after which a process is declared dead; seconds after which it is deleted.
DEAD_AFTER, KEEP = 12, 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubtBranch:
    """A prepared branch that the last run of recovery could not finish. It keeps its locks."""

    gid: str
    resource: str
    #: When it was prepared, seconds since the epoch.
    since: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """The branches that the last run of recovery could not finish."""

    #: The oldest first.
    branches: tuple[InDoubtBranch, ...] = ()
    #: Databases that did not answer, with the reason: they may have more branches.
    away: tuple[tuple[str, str], ...] = ()
    #: Total number of heuristic outcomes: branches that were finished by hand against their decision.
    heuristics: int = 0

    def __len__(self) -> int:
        return len(self.branches)

    def oldest(self, now: float) -> float:
        """The age of the oldest branch in seconds; 0 = no branches."""
        return max(0.0, now - self.branches[0].since) if self.branches else 0.0

    def metrics(self, now: float) -> dict[str, float]:
        """Metrics: branches in doubt, the age of the oldest in seconds, databases that do not answer, and heuristic
        outcomes.
        """
        return {
            "in_doubt": len(self),
            "in_doubt_oldest": self.oldest(now),
            "databases_away": len(self.away),
            "heuristics": self.heuristics,
        }


class Coordination(Protocol):
    """What recovery uses of the `Coordinator` whose transactions it finishes."""

    @property
    def store_id(self) -> str: ...

    @property
    def resources(self) -> Mapping[str, Resource]:
        """The databases that may take part, by name."""

    @property
    def store_resource(self) -> Resource: ...

    @property
    def can_prepare_store(self) -> bool:
        """Whether the store's database may have prepared branches."""

    @property
    def decisions(self) -> DecisionLog: ...

    @property
    def logs(self) -> Sequence[DecisionLog]:
        """The logs that may have decisions, this process's first."""

    @property
    def process(self) -> Process: ...

    @property
    def timing(self) -> Timing: ...

    def report(self, gtrid: Gtrid, resource: str, decided: Verdict, found: TransactionStatus, /) -> None:
        """Report a branch that was finished by hand against the decision."""

    def forget_finished(self) -> None:
        """Delete the decisions of finished transactions."""


class Recovery:
    """Recovery of one store's transactions. Several processes may run it at the same time, and coordinators too.

    It is safe at any time, because both sides obey the decision log.
    """

    def __init__(self, coordinator: Coordination) -> None:
        self._coordinator = coordinator
        self._mutex = threading.Lock()
        self._left: dict[str, list[InDoubtBranch]] = {}
        self._away: dict[str, str] = {}
        self._heuristics = 0
        self._logged: set[str] = set()
        #: The health of the store as this process observes it.
        self.outages = Outages()
        #: Called once for each branch found in doubt, with the time, in the thread of recovery. Must not block or
        #: raise.
        self.on_in_doubt: Callable[[InDoubtBranch, float], None] = _ignore

    @property
    def resources(self) -> list[Resource]:
        """Every database that may have a prepared branch."""
        named = [each for each in self._coordinator.resources.values() if not each.is_store]
        own = self._coordinator.store_resource
        return [own, *named] if self._coordinator.can_prepare_store else named

    def run_once(self, now: float) -> InDoubt:
        """Recover every database once, one after the other. Returns the branches left in doubt.

        :param now: seconds since the epoch.
        """
        self.maintenance()
        for resource in self.resources:
            self.recover(resource, now)
        return self.in_doubt()

    def in_doubt(self) -> InDoubt:
        """The branches that the last run could not finish."""
        with self._mutex:
            left = sorted((each for part in self._left.values() for each in part), key=lambda each: each.since)
            return InDoubt(branches=tuple(left), away=tuple(sorted(self._away.items())), heuristics=self._heuristics)

    # --- one database ----------------------------------------------------------------------------------------------

    def recover(self, resource: Resource, now: float) -> bool:
        """Finish the prepared branches of one database, and check the outcome of those that others have finished. Does
        not wait for a database that does not answer.

        :returns: whether the database and the decisions could be read.
        """
        own = True  # True while the code reads the store or the decision log: an error then is their outage
        try:
            view = _ProcessView(self._coordinator, now)
            # Read decisions before branches: a branch is prepared before its decision is made.
            decisions = [(each, known) for each in self._coordinator.logs for known in each.unfinished()]
            own = resource.is_store or resource is self._coordinator.store_resource
            prepared = resource.prepared(self._coordinator.store_id)
            found = [self.recover_branch(resource, branch, view) for branch in prepared]
            for each, decision in decisions:
                self._verify(each, decision, resource, prepared, view)
        except StorageError as error:
            if own:
                self.outages.failed(error, f"recovery of {resource}")
            else:
                self._log_once(f"away {resource.name}", "recovery of %s waits: %s", resource, error)
            with self._mutex:
                self._away[resource.name] = str(error)
            return False
        with self._mutex:
            back = f"away {resource.name}" in self._logged
            self._logged.discard(f"away {resource.name}")
            self._away.pop(resource.name, None)
            known = {each.gid for each in self._left.get(resource.name, ())}
            left = self._left[resource.name] = [each for each in found if each is not None]
        if back:
            log.info("recovery of %s continues", resource)
        for branch in left:
            if branch.gid not in known:
                self.on_in_doubt(branch, now)
        return True

    def recover_branch(self, resource: Resource, branch: PreparedBranch, view: _ProcessView) -> InDoubtBranch | None:
        """Finish one branch as its decision says. Returns the branch if it stays in doubt."""
        gtrid = branch.gtrid
        if not view.at_rest(gtrid):
            return None
        mine = self._coordinator.process.is_mine(gtrid.incarnation)
        if not mine and branch.age < self._coordinator.timing.grace:
            return None
        found = view.incarnation(gtrid.incarnation)
        if found is None:
            why = "no decision log of this process knows the process that prepared it"
            self._log_once(branch.gid, "%s is not touched: %s; is another decision log the right one?", branch.gid, why)
            return _in_doubt(branch, view.now, why)
        decisions, incarnation = found
        try:
            decision, new = decisions.find(gtrid), False
            if decision is None:
                if not mine and not view.is_gone(decisions, incarnation):
                    return _in_doubt(branch, view.now, "its coordinator is alive, and has not decided yet")
                decision, new = self.arbitrate(decisions, branch, view.now)
            if decision.verdict is Verdict.ABORT and not self._confirm(resource, branch, decisions, new=new):
                return None
        except TransientStorageError as error:
            return _in_doubt(branch, view.now, f"it is about to be decided: {error}")
        waits = self.store_first(resource, decision)
        if waits:
            return _in_doubt(branch, view.now, waits)
        return self._finish(resource, branch, decisions, decision, view.now)

    def store_first(self, resource: Resource, decision: Decision) -> str:
        """Commit the store's branch of a transaction before the branch in another database. Returns why the other
        branch has to wait; empty = it does not.

        Otherwise a program could read the application's row, react by sending a message, and that message would
        overtake the one that belongs to the row. The rule holds also while the store does not answer: it may answer
        other processes.
        """
        store = self._coordinator.store_resource
        if resource.name == store.name or store.name not in decision.branches or decision.verdict is not Verdict.COMMIT:
            return ""
        gid = decision.gtrid.gid(store.name)
        try:
            if store.is_prepared(gid):
                store.finish(gid, commit=True)
                log.info("recovered: %s (commit), before %s", gid, resource.name)
        except NoSuchBranch:
            pass  # another process has finished it
        except StorageError as error:
            return f"the store's branch must be committed first: {error}"
        return ""

    def arbitrate(self, decisions: DecisionLog, branch: PreparedBranch, now: float) -> tuple[Decision, bool]:
        """Insert the decision `abort` unless there is one. Returns the decision to obey, and whether it is new.

        :raises TransientStorageError: the coordinator is about to decide.
        """
        return decisions.arbitrate(Decision(gtrid=branch.gtrid, verdict=Verdict.ABORT, decided_at=now))

    def _confirm(self, resource: Resource, branch: PreparedBranch, decisions: DecisionLog, *, new: bool) -> bool:
        """Whether a branch that is to be rolled back is still prepared.

        If it is not, it was rolled back since it was read here, or its coordinator has committed it and deleted the
        decision. Then the `abort` row has no meaning: this run has inserted it, or another one that had read the branch
        before. It names no branch, and is deleted with the dead incarnation.

        :param new: this run has inserted the `abort` row.
        """
        still = resource.is_prepared(branch.gid)
        if still and new:
            decisions.add_branch(branch.gtrid, branch.resource, branch.xid)
        return still

    def _finish(
        self, resource: Resource, branch: PreparedBranch, decisions: DecisionLog, decision: Decision, now: float
    ) -> InDoubtBranch | None:
        try:
            self.finish(resource, branch, decision)
        except NoSuchBranch:
            # Finished since it was read here, by another process's recovery or by hand.
            if not self._settled(resource, decision, branch.xid):
                return _in_doubt(branch, now, "it is being finished")
        except TransientStorageError:
            raise
        except StorageError as error:
            self._log_once(branch.gid, "%s cannot be finished: %s", branch.gid, error)
            return _in_doubt(branch, now, str(error))
        else:
            log.info("recovered: %s (%s)", branch.gid, decision.verdict.value)
        decisions.finished(branch.gtrid, branch.resource)
        return None

    def finish(self, resource: Resource, branch: PreparedBranch, decision: Decision) -> None:
        """Commit or roll back one branch as decided."""
        resource.finish(branch.gid, commit=decision.verdict is Verdict.COMMIT)

    def _verify(
        self,
        decisions: DecisionLog,
        decision: Decision,
        resource: Resource,
        prepared: Sequence[PreparedBranch],
        view: _ProcessView,
    ) -> None:
        """Check that a branch which is not prepared any more has the decided outcome."""
        gtrid = decision.gtrid
        young = view.now - decision.decided_at < self._coordinator.timing.grace
        still = any(branch.gtrid == gtrid for branch in prepared)
        if resource.name not in decision.branches or still or young or not view.at_rest(gtrid):
            return
        if self._settled(resource, decision, decision.branches[resource.name]):
            decisions.finished(gtrid, resource.name)

    def _settled(self, resource: Resource, decision: Decision, xid: int) -> bool:
        """Check a branch that another process or an operator has finished. Returns whether its outcome is known; an
        outcome against the decision is reported."""
        (transaction_status,) = resource.transaction_statuses([xid])
        opposite = {Verdict.COMMIT: TransactionStatus.ABORTED, Verdict.ABORT: TransactionStatus.COMMITTED}
        if transaction_status is opposite[decision.verdict]:
            self._coordinator.report(decision.gtrid, resource.name, decision.verdict, transaction_status)
        return transaction_status is not TransactionStatus.IN_PROGRESS

    # --- the log ---------------------------------------------------------------------------------------------------

    def maintenance(self) -> None:
        """Send a heartbeat, delete finished decisions, and declare processes dead that send no heartbeat."""
        try:
            if self._coordinator.process.incarnation is not None:
                self._coordinator.process.keep_alive()
            self._coordinator.forget_finished()
            for decisions in self._coordinator.logs:
                self._give_up(decisions)
            heuristics = len(self._coordinator.decisions.heuristics())
        except StorageError as error:
            self._log_once("maintenance", "the decision log: %s", error)
            return
        with self._mutex:
            self._logged.discard("maintenance")
            self._heuristics = heuristics

    def _give_up(self, decisions: DecisionLog) -> None:
        clock = decisions.now()
        before = clock - DEAD_AFTER * self._coordinator.timing.lease
        for incarnation in decisions.incarnations().values():
            if incarnation.dead or incarnation.seen_at >= before or self._coordinator.process.is_mine(incarnation.id):
                continue
            try:
                decisions.declare_dead(incarnation.id, before)
            except TransientStorageError:
                continue  # the process is about to decide
        decisions.purge(clock - KEEP)

    def _log_once(self, about: str, message: str, *details: object) -> None:
        """Log a lasting condition once."""
        with self._mutex:
            new = about not in self._logged
            self._logged.add(about)
        if new:
            log.warning(message, *details)


class _ProcessView:
    """The incarnations in the decision logs when a database was read."""

    def __init__(self, coordinator: Coordination, now: float) -> None:
        self._coordinator = coordinator
        self._known: dict[str, tuple[DecisionLog, Incarnation]] | None = None
        self.at_rest = coordinator.process.at_rest()
        self.now = now

    def incarnation(self, name: str) -> tuple[DecisionLog, Incarnation] | None:
        """An incarnation, and the log with its decisions: only this log knows the outcomes of its transactions."""
        if self._known is None:
            self._known = {
                known.id: (decisions, known)
                for decisions in reversed(self._coordinator.logs)
                for known in decisions.incarnations().values()
            }
        return self._known.get(name)

    def is_gone(self, decisions: DecisionLog, incarnation: Incarnation) -> bool:
        """Whether an incarnation has sent no heartbeat for its lease, by the log's clock."""
        return incarnation.ends(self._coordinator.timing.lease) <= decisions.now()


def _ignore(_branch: InDoubtBranch, _now: float) -> None:
    """Default without an observer."""


def _in_doubt(branch: PreparedBranch, now: float, why: str) -> InDoubtBranch:
    return InDoubtBranch(gid=branch.gid, resource=branch.resource, since=now - branch.age, why=why)
