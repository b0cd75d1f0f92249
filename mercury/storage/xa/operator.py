"""What an operator sees of two-phase commits, and may do to them: by the same arbiter as everybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mercury.errors import StorageError
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.decisions import Decision, DecisionLog, Heuristic, Verdict
from mercury.storage.xa.names import STORE_BRANCH, Gtrid
from mercury.storage.xa.resources import NoSuchBranch, PreparedBranch, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What there is of two-phase commits at one moment."""

    #: Prepared branches, the oldest first.
    branches: Sequence[PreparedBranch]
    #: Those with branches that are not known to be finished; those on what is prepared are among them.
    decisions: Sequence[Decision]
    heuristics: Sequence[Heuristic]
    #: The databases that were queried for prepared transactions.
    queried: Sequence[str]
    #: Those that were not, with the reason: they do not answer, or a decision names them and nobody else does.
    away: Sequence[tuple[str, str]]

    def decision_on(self, gtrid: Gtrid) -> Decision | None:
        """What is decided, if it is."""
        return next((each for each in self.decisions if each.gtrid == gtrid), None)


class ResolutionRefused(StorageError):
    """It is not done: it would be against the decision, or nobody has decided it. Nothing was changed."""


class Operator:
    """Lists what is prepared in the databases of a coordinator, and finishes by hand what recovery cannot."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def overview(self) -> Overview:
        """Everything that is in doubt, or was finished against its decision.

        :raises StorageError: the decision log does not answer.
        """
        logs = self._coordinator.logs
        decisions = [decision for log in logs for decision in log.unfinished()]
        prepared, queried, away = self._prepared()
        known = {decision.gtrid for decision in decisions}
        for gtrid in {branch.gtrid for _, branch in prepared} - known:
            decisions += [found for log in logs if (found := log.find(gtrid)) is not None]
        named = {name for name, _ in away}.union(queried, [STORE_BRANCH], self._coordinator.resources)
        for name in sorted({name for decision in decisions for name in decision.branches} - named):
            away.append((name, "it is not named: add --resource NAME=URL, or the setting xa.resources"))
        return Overview(
            branches=sorted((branch for _, branch in prepared), key=lambda branch: -branch.age),
            decisions=decisions,
            heuristics=[heuristic for log in logs for heuristic in log.heuristics()],
            queried=queried,
            away=away,
        )

    def find(self, gtrid: Gtrid) -> tuple[Overview, Decision | None]:
        """What there is, and what is decided on one transaction.

        :raises ResolutionRefused: nobody knows it.
        :raises StorageError: the decision log does not answer.
        """
        found = self.overview()
        decided = found.decision_on(gtrid)
        for log in self._coordinator.logs if decided is None else ():
            decided = decided or log.find(gtrid)
        prepared = any(branch.gtrid == gtrid for branch in found.branches)
        by_hand = any(each.gid.startswith(f"{gtrid}:") for each in found.heuristics)
        if decided is None and not prepared and not by_hand:
            away = "".join(f"; not asked: {name}: {why}" for name, why in found.away)
            raise ResolutionRefused(
                f"nobody knows {gtrid}: it is not decided, and not prepared in "
                f"{', '.join(found.queried) or 'any database'}{away}. "
                "It is finished and forgotten, or it never was: see what it has written"
            )
        return found, decided

    def resolve(self, gtrid: Gtrid, verdict: Verdict, *, force: bool = False) -> list[str]:
        """Finish a transaction in every database that answers. Returns the gids that were finished now.

        :param force: commit what nobody has decided to commit.
        :raises ResolutionRefused: it is decided otherwise; or nobody has decided to commit it, and it is not forced.
        :raises TransientStorageError: its coordinator is about to decide, or the decision log is away.
        """
        prepared, _, _ = self._prepared()
        branches = [(resource, branch) for resource, branch in prepared if branch.gtrid == gtrid]
        log = self._decision_log_of(gtrid)
        decision = log.find(gtrid)
        if decision is None:
            if not branches:
                raise ResolutionRefused(f"nothing is prepared and nothing is decided for {gtrid}")
            if verdict is Verdict.COMMIT and not force:
                raise ResolutionRefused(self._undecided(gtrid))
            xids = {branch.resource: branch.xid for _, branch in branches}
            wanted = Decision(gtrid=gtrid, verdict=verdict, decided_at=self._coordinator.clock(), branches=xids)
            decision, _ = log.arbitrate(wanted)
        if decision.verdict is not verdict:
            raise ResolutionRefused(
                f"{gtrid} is decided: {decision.verdict.value}; only that can be done to what is left of it"
            )
        finished = []
        for resource, branch in branches:
            waits = self._coordinator.recovery.store_first(resource, decision)
            if waits:
                raise ResolutionRefused(f"{branch.gid} is not committed yet, so that messages stay in order: {waits}")
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

    def _prepared(self) -> tuple[list[tuple[Resource, PreparedBranch]], list[str], list[tuple[str, str]]]:
        """What is prepared, the names of the databases that were asked, and those that were not, with the reason."""
        found: list[tuple[Resource, PreparedBranch]] = []
        queried: list[str] = []
        away: list[tuple[str, str]] = []
        for resource in self._coordinator.recovery.resources:
            try:
                if resource.name != STORE_BRANCH:
                    resource.check(self._coordinator.store_id)
                if resource.is_store:
                    continue  # where there is nothing to prepare
                found += [(resource, branch) for branch in resource.prepared(self._coordinator.store_id)]
                queried.append(resource.name)
            except StorageError as error:
                away.append((resource.name, str(error)))
        return found, queried, away

    def _decision_log_of(self, gtrid: Gtrid) -> DecisionLog:
        """The log in which its coordinator decides."""
        for log in self._coordinator.logs:
            if gtrid.incarnation in log.incarnations():
                return log
        return self._coordinator.decisions
