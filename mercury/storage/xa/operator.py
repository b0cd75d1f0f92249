"""Lists two-phase commits for operators, and resolves them manually, in accordance with the decision log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mercury.errors import StorageError
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.decisions import Decision, DecisionLog, Heuristic, Verdict
from mercury.storage.xa.names import STORE_BRANCH, Gtrid
from mercury.storage.xa.resources import NoSuchBranch, PreparedBranch, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The unfinished two-phase commits at one moment."""

    #: Prepared branches, the oldest first.
    branches: Sequence[PreparedBranch]
    #: Decisions with branches that may be unfinished, including all decisions on the prepared branches.
    decisions: Sequence[Decision]
    heuristics: Sequence[Heuristic]
    #: The databases that were queried for prepared transactions.
    queried: Sequence[str]
    #: Databases that were not queried, with the reason: no answer, or only a decision names the database.
    away: Sequence[tuple[str, str]]
    #: Prepared transactions whose process no named decision log knows: another log may have decided them.
    unknown: frozenset[Gtrid] = frozenset()

    def decision_on(self, gtrid: Gtrid) -> Decision | None:
        """The decision on a transaction; ``None`` = not decided."""
        return next((each for each in self.decisions if each.gtrid == gtrid), None)


class ResolutionRefused(StorageError):
    """A manual resolution is refused: it contradicts the decision, or there is none, or another log may have it.
    Nothing was changed."""


class Operator:
    """Lists the prepared branches in the databases of a coordinator, and finishes those that recovery cannot."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def overview(self) -> Overview:
        """All branches in doubt, and all heuristic outcomes.

        :raises StorageError: the decision log does not answer.
        """
        logs = self._coordinator.logs
        decisions = [decision for log in logs for decision in log.unfinished()]
        prepared, queried, away = self._prepared()
        known = {decision.gtrid for decision in decisions}
        for gtrid in {branch.gtrid for _, branch in prepared} - known:
            decisions += [found for log in logs if (found := log.find(gtrid)) is not None]
        processes = {name for log in logs for name in log.incarnations()} if prepared else set()
        named = {name for name, _ in away}.union(queried, [STORE_BRANCH], self._coordinator.resources)
        for name in sorted({name for decision in decisions for name in decision.branches} - named):
            away.append((name, "not configured: add --resource NAME=URL, or the setting xa.resources"))
        return Overview(
            branches=sorted((branch for _, branch in prepared), key=lambda branch: -branch.age),
            decisions=decisions,
            heuristics=[heuristic for log in logs for heuristic in log.heuristics()],
            queried=queried,
            away=away,
            unknown=frozenset(each.gtrid for _, each in prepared if each.gtrid.incarnation not in processes),
        )

    def find(self, gtrid: Gtrid) -> tuple[Overview, Decision | None]:
        """The overview, and the decision on one transaction.

        :raises ResolutionRefused: no database and no log knows the transaction.
        :raises StorageError: the decision log does not answer.
        """
        found = self.overview()
        decided = found.decision_on(gtrid)
        for log in self._coordinator.logs if decided is None else ():
            decided = decided or log.find(gtrid)
        prepared = any(branch.gtrid == gtrid for branch in found.branches)
        by_hand = any(each.gid.startswith(f"{gtrid}:") for each in found.heuristics)
        if decided is None and not prepared and not by_hand:
            away = "".join(f"; not queried: {name}: {why}" for name, why in found.away)
            raise ResolutionRefused(
                f"unknown transaction {gtrid}: it is not decided, and not prepared in "
                f"{', '.join(found.queried) or 'any database'}{away}. "
                "It is finished and its decision deleted, or it never existed: check the rows that it writes"
            )
        return found, decided

    def resolve(
        self, gtrid: Gtrid, verdict: Verdict, *, force: bool = False, unknown_process: bool = False
    ) -> list[str]:
        """Finish a transaction in every database that answers. Returns the gids that were finished now.

        :param force: commit a transaction without a decision to commit.
        :param unknown_process: finish it although no named decision log knows its process.
        :raises ResolutionRefused: the decision is the other verdict; or there is none to commit, without ``force`` or
            while its coordinator is alive; or the decision may be in a log that is not named.
        :raises TransientStorageError: its coordinator is about to decide, or the decision log does not answer.
        """
        prepared, _, _ = self._prepared()
        branches = [(resource, branch) for resource, branch in prepared if branch.gtrid == gtrid]
        known = self._decision_log_of(gtrid)
        log = known or self._coordinator.decisions
        decision = log.find(gtrid)
        if decision is None and not branches:
            raise ResolutionRefused(f"nothing is prepared and nothing is decided for {gtrid}")
        if known is None and not unknown_process:
            # As recovery: a decision to commit may be in the log that is not named, and executed in other databases.
            raise ResolutionRefused(
                f"no named decision log knows the process of {gtrid}: another one may have decided it. Name the "
                "decision log of the application by --decision-log URL, or in the setting xa.decision_log. If there "
                "is none, or the process was deleted from it after 30 days, find out in the other databases what was "
                "decided, and use `mercury xa resolve` with --unknown-process"
            )
        if decision is None:
            if verdict is Verdict.COMMIT and not force:
                raise ResolutionRefused(self._undecided(gtrid))
            if verdict is Verdict.COMMIT:
                self._check_ended(gtrid, log)
            xids = {branch.resource: branch.xid for _, branch in branches}
            wanted = Decision(gtrid=gtrid, verdict=verdict, decided_at=self._coordinator.clock(), branches=xids)
            decision, _ = log.arbitrate(wanted)
        if decision.verdict is not verdict:
            raise ResolutionRefused(
                f"{gtrid} is decided: {decision.verdict.value}; its remaining branches can only be resolved that way"
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
                pass  # another process has finished it
            log.finished(gtrid, branch.resource)
        return finished

    def _check_ended(self, gtrid: Gtrid, log: DecisionLog) -> None:
        """Its coordinator may be about to prepare another branch, which a forced commit would lose without need."""
        coordinator = log.incarnations().get(gtrid.incarnation)
        left = 0.0 if coordinator is None else coordinator.ends(self._coordinator.timing.lease) - log.now()
        if left > 0:
            lease = self._coordinator.timing.lease
            raise ResolutionRefused(
                f"the coordinator of {gtrid} may decide it yet: it sent a heartbeat in the last {lease:g} s. Try again "
                f"in {math.ceil(left)} s; if its process hangs, end it before"
            )

    def _undecided(self, gtrid: Gtrid) -> str:
        lost = (
            "other databases may not have prepared their part"
            if self._coordinator.two_phase
            else "the store's part is lost: its messages, or the record that messages were consumed"
        )
        return (
            f"there is no decision to commit {gtrid}: {lost}. Recovery rolls it back in all databases. To commit it "
            "nevertheless, and to repair the rest by hand, add --force"
        )

    def _prepared(self) -> tuple[list[tuple[Resource, PreparedBranch]], list[str], list[tuple[str, str]]]:
        """The prepared branches, the names of the queried databases, and the others, with the reason."""
        found: list[tuple[Resource, PreparedBranch]] = []
        queried: list[str] = []
        away: list[tuple[str, str]] = []
        for resource in self._coordinator.recovery.resources:
            try:
                if resource.name != STORE_BRANCH:
                    resource.check(self._coordinator.store_id)
                if resource.is_store:
                    continue  # this form prepares no branches there
                found += [(resource, branch) for branch in resource.prepared(self._coordinator.store_id)]
                queried.append(resource.name)
            except StorageError as error:
                away.append((resource.name, str(error)))
        return found, queried, away

    def _decision_log_of(self, gtrid: Gtrid) -> DecisionLog | None:
        """The log in which its coordinator decides; ``None`` = none of those that are named."""
        for log in self._coordinator.logs:
            if gtrid.incarnation in log.incarnations():
                return log
        return None
