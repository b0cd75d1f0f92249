"""Recovery: finishes what a coordinator has left, by the decision log (decisions 16 to 21)."""

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

#: After so many leases without a sign of it a process is declared dead, and so many seconds later it is forgotten.
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
    """What the last run of recovery left."""

    #: The oldest first.
    branches: tuple[InDoubtBranch, ...] = ()
    #: Databases that could not be asked, with the reason: there may be more in them.
    away: tuple[tuple[str, str], ...] = ()
    #: How many branches were ever finished by hand against their decision.
    heuristics: int = 0

    def __len__(self) -> int:
        return len(self.branches)

    def oldest(self, now: float) -> float:
        """The age of the oldest branch in seconds; 0 = there is none."""
        return max(0.0, now - self.branches[0].since) if self.branches else 0.0

    def metrics(self, now: float) -> dict[str, float]:
        """How many branches are in doubt, the age of the oldest in seconds, how many databases are away, and how many
        branches were ever finished by hand against their decision.
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
        """Whether branches of the store's own database may be left."""

    @property
    def decisions(self) -> DecisionLog: ...

    @property
    def logs(self) -> Sequence[DecisionLog]:
        """Where decisions may have been made, this process's first."""

    @property
    def process(self) -> Process: ...

    @property
    def timing(self) -> Timing: ...

    def report(self, gtrid: Gtrid, resource: str, decided: Verdict, found: TransactionStatus, /) -> None:
        """A branch was finished by hand, against the decision."""

    def forget_finished(self) -> None:
        """Forget the decisions of what is finished."""


class Recovery:
    """Recovery of one store's transactions. Several processes may run it at once, beside their coordinators.

    It may run at any time: safety rests on the decision log, not on when it runs.
    """

    def __init__(self, coordinator: Coordination) -> None:
        self._coordinator = coordinator
        self._mutex = threading.Lock()
        self._left: dict[str, list[InDoubtBranch]] = {}
        self._away: dict[str, str] = {}
        self._heuristics = 0
        self._told: set[str] = set()
        #: What is known of the store's health in this process.
        self.outages = Outages()
        #: Is called once with each branch that is found in doubt and the time, in the thread that looks. It must not
        #: block or fail.
        self.on_in_doubt: Callable[[InDoubtBranch, float], None] = _nobody

    @property
    def resources(self) -> list[Resource]:
        """Every database where a branch may be left."""
        named = [each for each in self._coordinator.resources.values() if not each.is_store]
        own = self._coordinator.store_resource
        return [own, *named] if self._coordinator.can_prepare_store else named

    def run_once(self, now: float) -> InDoubt:
        """Recover every database once, one after the other. Returns what is left.

        :param now: seconds since the epoch.
        """
        self.maintenance()
        for resource in self.resources:
            self.recover(resource, now)
        return self.in_doubt()

    def in_doubt(self) -> InDoubt:
        """What the last run left."""
        with self._mutex:
            left = sorted((each for part in self._left.values() for each in part), key=lambda each: each.since)
            return InDoubt(branches=tuple(left), away=tuple(sorted(self._away.items())), heuristics=self._heuristics)

    # --- one database ----------------------------------------------------------------------------------------------

    def recover(self, resource: Resource, now: float) -> bool:
        """Finish what is prepared in one database, and see what became of the rest. A database that is away is not
        waited for.

        :returns: whether it, and the decisions, could be read.
        """
        own = True  # what is read is the store's or the decision log's
        try:
            looked = _ProcessView(self._coordinator, now)
            # In this order: what has a decision was prepared before it.
            decisions = [(each, known) for each in self._coordinator.logs for known in each.unfinished()]
            own = resource.is_store or resource is self._coordinator.store_resource
            prepared = resource.prepared(self._coordinator.store_id)
            found = [self.recover_branch(resource, branch, looked) for branch in prepared]
            for each, decision in decisions:
                self._verify(each, decision, resource, prepared, looked)
        except StorageError as error:
            if own:
                self.outages.failed(error, f"recovery of {resource}")
            else:
                self._log_once(f"away {resource.name}", "recovery of %s waits: %s", resource, error)
            with self._mutex:
                self._away[resource.name] = str(error)
            return False
        with self._mutex:
            back = f"away {resource.name}" in self._told
            self._told.discard(f"away {resource.name}")
            self._away.pop(resource.name, None)
            known = {each.gid for each in self._left.get(resource.name, ())}
            left = self._left[resource.name] = [each for each in found if each is not None]
        if back:
            log.info("recovery of %s goes on", resource)
        for branch in left:
            if branch.gid not in known:
                self.on_in_doubt(branch, now)
        return True

    def recover_branch(self, resource: Resource, branch: PreparedBranch, look: _ProcessView) -> InDoubtBranch | None:
        """Finish one branch as its decision says. Returns what is left of it, if it is in doubt."""
        gtrid = branch.gtrid
        if not look.at_rest(gtrid):
            return None
        mine = self._coordinator.process.is_mine(gtrid.incarnation)
        if not mine and branch.age < self._coordinator.timing.grace:
            return None
        found = look.incarnation(gtrid.incarnation)
        if found is None:
            why = "no decision log here knows the process that prepared it"
            self._log_once(branch.gid, "%s is not touched: %s; is another decision log the right one?", branch.gid, why)
            return _in_doubt(branch, look.now, why)
        decisions, incarnation = found
        try:
            decision, new = decisions.find(gtrid), False
            if decision is None:
                if not mine and not look.is_gone(decisions, incarnation):
                    return _in_doubt(branch, look.now, "its coordinator lives, and has not decided yet")
                decision, new = self.arbitrate(decisions, branch, look.now)
                if new and not self._confirm(resource, branch, decisions):
                    return None
        except TransientStorageError as error:
            return _in_doubt(branch, look.now, f"it is about to be decided: {error}")
        waits = self.store_first(resource, decision)
        if waits:
            return _in_doubt(branch, look.now, waits)
        return self._finish(resource, branch, decisions, decision, look.now)

    def store_first(self, resource: Resource, decision: Decision) -> str:
        """Commit the store's part of a transaction before another database's. Returns why that one has to wait; empty
        = it need not.

        Whoever sees what the application did sends after what it sent with that. A store that does not answer is no
        exception: it may answer others, who see the row and send, and it comes back without the earlier message.
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
            pass  # somebody was quicker
        except StorageError as error:
            return f"the store's part comes first: {error}"
        return ""

    def arbitrate(self, decisions: DecisionLog, branch: PreparedBranch, now: float) -> tuple[Decision, bool]:
        """Decide to roll back, unless it is decided already. Returns the decision to obey, and whether it is new.

        :raises TransientStorageError: the coordinator is about to decide.
        """
        return decisions.arbitrate(Decision(gtrid=branch.gtrid, verdict=Verdict.ABORT, decided_at=now))

    def _confirm(self, resource: Resource, branch: PreparedBranch, decisions: DecisionLog) -> bool:
        """Whether a branch is prepared now that nobody can decide to commit it any more.

        Where it is not, its coordinator has committed it since it was seen here, and forgotten that: no decision was
        found any more, and the row that says `abort` speaks of nothing.
        """
        still = resource.is_prepared(branch.gid)
        if still:
            decisions.add_branch(branch.gtrid, branch.resource, branch.xid)
        return still

    def _finish(
        self, resource: Resource, branch: PreparedBranch, decisions: DecisionLog, decision: Decision, now: float
    ) -> InDoubtBranch | None:
        try:
            self.finish(resource, branch, decision)
        except NoSuchBranch:
            # Finished since it was seen here, by another one's recovery or by hand.
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
        """Do in one database what is decided."""
        resource.finish(branch.gid, commit=decision.verdict is Verdict.COMMIT)

    def _verify(
        self,
        decisions: DecisionLog,
        decision: Decision,
        resource: Resource,
        prepared: Sequence[PreparedBranch],
        look: _ProcessView,
    ) -> None:
        """See that a branch which is not prepared any more has become what was decided."""
        gtrid = decision.gtrid
        young = look.now - decision.decided_at < self._coordinator.timing.grace
        still = any(branch.gtrid == gtrid for branch in prepared)
        if resource.name not in decision.branches or still or young or not look.at_rest(gtrid):
            return
        if self._settled(resource, decision, decision.branches[resource.name]):
            decisions.finished(gtrid, resource.name)

    def _settled(self, resource: Resource, decision: Decision, xid: int) -> bool:
        """What somebody else has made of a branch; whether that is settled. What it should not be is reported."""
        (transaction_status,) = resource.transaction_statuses([xid])
        opposite = {Verdict.COMMIT: TransactionStatus.ABORTED, Verdict.ABORT: TransactionStatus.COMMITTED}
        if transaction_status is opposite[decision.verdict]:
            self._coordinator.report(decision.gtrid, resource.name, decision.verdict, transaction_status)
        return transaction_status is not TransactionStatus.IN_PROGRESS

    # --- the log ---------------------------------------------------------------------------------------------------

    def maintenance(self) -> None:
        """Give a sign of life, forget what is finished, and give up processes that give none."""
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
            self._told.discard("maintenance")
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
                continue  # it is about to decide
        decisions.purge(clock - KEEP)

    def _log_once(self, about: str, message: str, *details: object) -> None:
        """Log something that may stay so for long, once."""
        with self._mutex:
            new = about not in self._told
            self._told.add(about)
        if new:
            log.warning(message, *details)


class _ProcessView:
    """Which processes were known to run when a database was read."""

    def __init__(self, coordinator: Coordination, now: float) -> None:
        self._coordinator = coordinator
        self._known: dict[str, tuple[DecisionLog, Incarnation]] | None = None
        self.at_rest = coordinator.process.at_rest()
        self.now = now

    def incarnation(self, name: str) -> tuple[DecisionLog, Incarnation] | None:
        """A process, and the log in which it decides; only that one can say what became of its transactions."""
        if self._known is None:
            self._known = {
                known.id: (decisions, known)
                for decisions in reversed(self._coordinator.logs)
                for known in decisions.incarnations().values()
            }
        return self._known.get(name)

    def is_gone(self, decisions: DecisionLog, incarnation: Incarnation) -> bool:
        """Whether it has given no sign of life for the time of its lease, by the log's clock."""
        return incarnation.dead or incarnation.seen_at + self._coordinator.timing.lease <= decisions.now()


def _nobody(_branch: InDoubtBranch, _now: float) -> None:
    """Nobody watches."""


def _in_doubt(branch: PreparedBranch, now: float, why: str) -> InDoubtBranch:
    return InDoubtBranch(gid=branch.gid, resource=branch.resource, since=now - branch.age, why=why)
