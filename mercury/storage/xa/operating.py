"""What an operator sees of two-phase commits, and may do to them: by the same arbiter as everybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mercury.errors import StorageError
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.decisions import Decision, DecisionLog, Heuristic, Verdict
from mercury.storage.xa.names import Gtrid
from mercury.storage.xa.resources import NoSuchBranch, PreparedBranch, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What there is of two-phase commits at one moment."""

    #: Prepared branches, the oldest first.
    branches: Sequence[PreparedBranch]
    #: Those with branches that are not known to be finished; those on what is prepared are among them.
    decisions: Sequence[Decision]
    heuristics: Sequence[Heuristic]
    #: Databases that do not answer, with the reason.
    away: Sequence[tuple[str, str]]

    def decision_on(self, gtrid: Gtrid) -> Decision | None:
        """What is decided, if it is."""
        return next((each for each in self.decisions if each.gtrid == gtrid), None)


class Refused(StorageError):
    """It is not done: it would be against the decision, or nobody has decided it. Nothing was changed."""


class Operator:
    """Looks at the databases of a coordinator, and finishes by hand what recovery can not."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def overview(self) -> Overview:
        """Everything that is in doubt, or was finished against its decision.

        :raises StorageError: the decision log does not answer.
        """
        logs = self._coordinator.logs
        decisions = [decision for log in logs for decision in log.unfinished()]
        prepared, away = self._prepared()
        known = {decision.gtrid for decision in decisions}
        for gtrid in {branch.gtrid for _, branch in prepared} - known:
            decisions += [found for log in logs if (found := log.find(gtrid)) is not None]
        return Overview(
            branches=sorted((branch for _, branch in prepared), key=lambda branch: -branch.age),
            decisions=decisions,
            heuristics=[heuristic for log in logs for heuristic in log.heuristics()],
            away=away,
        )

    def resolve(self, gtrid: Gtrid, verdict: Verdict, *, force: bool = False) -> list[str]:
        """Finish a transaction in every database that answers. Returns the gids that were finished now.

        :param force: commit what nobody has decided to commit.
        :raises Refused: it is decided otherwise; or nobody has decided to commit it, and it is not forced.
        :raises TransientStorageError: its coordinator is about to decide, or the decision log is away.
        """
        prepared, _ = self._prepared()
        branches = [(resource, branch) for resource, branch in prepared if branch.gtrid == gtrid]
        log = self._log_of(gtrid)
        decision = log.find(gtrid)
        if decision is None:
            if not branches:
                raise Refused(f"nothing is prepared and nothing is decided for {gtrid}")
            if verdict is Verdict.COMMIT and not force:
                raise Refused(self._undecided(gtrid))
            xids = {branch.resource: branch.xid for _, branch in branches}
            wanted = Decision(gtrid=gtrid, verdict=verdict, decided_at=self._coordinator.clock(), branches=xids)
            decision, _ = log.arbitrate(wanted)
        if decision.verdict is not verdict:
            raise Refused(f"{gtrid} is decided: {decision.verdict.value}; only that can be done to what is left of it")
        finished = []
        for resource, branch in branches:
            waits = self._coordinator.recovery.store_first(resource, decision)
            if waits:
                raise Refused(f"{branch.gid} is not committed yet, so that messages stay in order: {waits}")
            try:
                resource.finish(branch.gid, commit=verdict is Verdict.COMMIT)
                finished.append(branch.gid)
            except NoSuchBranch:
                pass  # somebody was quicker
            log.finished(gtrid, branch.resource)
        return finished

    def _undecided(self, gtrid: Gtrid) -> str:
        lost = (
            "other databases may not have prepared their part"
            if self._coordinator.two_phase
            else "what the store had of it is lost: its messages, or that they were consumed"
        )
        return (
            f"nobody has decided to commit {gtrid}: {lost}. Recovery rolls it back in all databases. To commit it all "
            "the same, and to put the rest right by hand, add --force"
        )

    def _prepared(self) -> tuple[list[tuple[Resource, PreparedBranch]], list[tuple[str, str]]]:
        found, away = [], []
        for resource in self._coordinator.recovery.resources:
            try:
                found += [(resource, branch) for branch in resource.prepared(self._coordinator.store_id)]
            except StorageError as error:
                away.append((resource.name, str(error)))
        return found, away

    def _log_of(self, gtrid: Gtrid) -> DecisionLog:
        """The log in which its coordinator decides."""
        for log in self._coordinator.logs:
            if gtrid.incarnation in log.incarnations():
                return log
        return self._coordinator.decisions
