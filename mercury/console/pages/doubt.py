"""In doubt: two-phase commits that are not finished in every database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mercury.console.acting import actor_of, reason_of
from mercury.console.site import Site
from mercury.console.visits import BadRequest, Done, Question, View, Visit, link
from mercury.errors import MercuryError
from mercury.operations.transactions import SOON, resolve, unfinished
from mercury.storage.opening import coordinator_of_operator
from mercury.storage.sql.store import SqlStore
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.decisions import Verdict
from mercury.storage.xa.names import Gtrid, read_gtrid
from mercury.storage.xa.operator import Operator, Overview

VERDICTS: Mapping[str, Verdict] = MappingProxyType({"commit": Verdict.COMMIT, "rollback": Verdict.ABORT})

#: What to do about a transaction that another decision log may have decided.
UNKNOWN = (
    "It is not known whether it is decided: no named decision log knows its process. Name the application's decision "
    "log in the setting xa.decision_log, or start a process that names it, whose recovery finishes the transaction."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubtLine:
    """One unfinished transaction."""

    gtrid: str
    #: The databases in which it is prepared, with its age there in seconds.
    prepared: tuple[tuple[str, float], ...]
    #: ``commit``, ``abort``, or empty = not decided.
    decision: str
    #: What to do.
    advice: str
    #: Seconds since the process that began it was heard of; ``None`` = it is not known any more.
    silent: float | None = None
    #: It is prepared, and no named decision log knows its process: it may be decided in another one.
    unknown: bool = False


class Coordinators:
    """Finds the coordinator of the databases that are named, or makes that of the store alone at its first use.

    :param named: returns the former; ``None`` = no databases are named.
    :param decision_log: the URL of the decision log of the latter: the databases may be named in another process only.
    """

    def __init__(self, store: SqlStore, named: Callable[[], Coordinator | None], decision_log: str | None) -> None:
        self._store = store
        self._named = named
        self._decision_log = decision_log
        self._alone: Coordinator | None = None
        self._mutex = threading.Lock()

    def find(self) -> Coordinator:
        """The coordinator.

        :raises MercuryError: the store or the decision log does not answer, or cannot be used.
        """
        found = self._named()
        if found is not None:
            return found
        with self._mutex:
            if self._alone is None:
                self._alone = coordinator_of_operator(self._store, self._decision_log)
            return self._alone

    def close(self) -> None:
        """Close what was made here."""
        with self._mutex:
            alone, self._alone = self._alone, None
        if alone is not None:
            alone.close()


def add_pages(site: Site, coordinators: Coordinators, clock: Callable[[], float]) -> None:
    """Add the list, and the action that finishes a transaction.

    :param clock: seconds since the epoch.
    """

    def listed(_visit: Visit) -> View:
        try:
            used = coordinators.find()
            found, silent = Operator(used).overview(), silent_for(used)
        except MercuryError as error:
            return View(template="doubt.html", values={"found": None, "lines": (), "error": str(error)})
        return View(template="doubt.html", values={"found": found, "lines": lines_of(found, silent), "error": ""})

    def wanted(visit: Visit) -> tuple[Gtrid, str]:
        verdict = visit.text("verdict")
        if verdict not in VERDICTS:
            raise BadRequest(f"{verdict!r} is neither commit nor rollback.")
        try:
            return read_gtrid(visit.text("gtrid")), verdict
        except MercuryError as error:
            raise BadRequest(str(error)) from error

    def ask(visit: Visit) -> View:
        gtrid, verdict = wanted(visit)
        found, decided = Operator(coordinators.find()).find(gtrid)
        forced = verdict == "commit" and decided is None
        names = [branch.resource for branch in found.branches if branch.gtrid == gtrid]
        lines = [str(gtrid), in_words(verdict == "commit", names)]
        if forced:
            lines.append(
                "It is not decided: some of its databases may not have prepared it, or may have rolled it back. Then a "
                "part of the transaction is lost."
            )
        return Question(
            title="Commit the transaction?" if verdict == "commit" else "Roll the transaction back?",
            lines=lines,
            action="doubt-resolve",
            fields={"gtrid": str(gtrid), "verdict": verdict},
            button="Commit it" if verdict == "commit" else "Roll it back",
            back=link("doubt"),
            danger=forced,
            box=("force", "Commit it without a decision: I know that its other databases have committed.")
            if forced
            else None,
        ).view()

    def act(visit: Visit) -> Done:
        gtrid, verdict = wanted(visit)
        finished = resolve(
            coordinators.find(),
            gtrid,
            VERDICTS[verdict],
            actor_of(visit),
            clock,
            force=visit.flag("force"),
            reason=reason_of(visit),
        )
        done = "Committed" if verdict == "commit" else "Rolled back"
        return Done(to=link("doubt"), note=f"{done}: {', '.join(finished) or 'no branch was left'}.")

    site.page("doubt", listed)
    site.question("doubt-resolve", ask)
    site.action("doubt-resolve", act)


def in_words(commits: bool, names: list[str]) -> str:
    """What finishing a transaction does to its databases.

    :param names: those in which it is prepared.
    """
    if not names:
        return "No database that was queried has it prepared: only its decision is looked at."
    where = f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0]
    return f"What it has changed in {where} {'takes effect' if commits else 'is undone'}."


def silent_for(coordinator: Coordinator) -> dict[str, float]:
    """Seconds since each process that coordinates was heard of, by the name of its start.

    :raises StorageError: a decision log does not answer.
    """
    return {
        each.id: max(0.0, log.now() - each.seen_at)
        for log in reversed(coordinator.logs)
        for each in log.incarnations().values()
    }


def lines_of(found: Overview, silent: Mapping[str, float]) -> list[InDoubtLine]:
    """The unfinished transactions, the oldest first.

    :param silent: see `silent_for`.
    """
    prepared: dict[str, list[tuple[str, float]]] = {}
    for branch in found.branches:
        prepared.setdefault(str(branch.gtrid), []).append((branch.resource, branch.age))
    decisions = {str(each.gtrid): each for each in found.decisions}
    lines = []
    for gtrid in unfinished(found):
        decided = decisions.get(gtrid)
        branches, unknown = tuple(prepared.get(gtrid, ())), read_gtrid(gtrid) in found.unknown
        lines.append(
            InDoubtLine(
                gtrid=gtrid,
                prepared=branches,
                decision=decided.verdict.value if decided is not None else "",
                advice=UNKNOWN
                if unknown
                else advice(decided.verdict if decided is not None else None, branches, bool(found.away)),
                silent=silent.get(read_gtrid(gtrid).incarnation),
                unknown=unknown,
            )
        )
    return lines


def advice(verdict: Verdict | None, prepared: tuple[tuple[str, float], ...], away: bool) -> str:
    """What an operator does about a transaction.

    :param away: a database did not answer.
    """
    oldest = max((age for _, age in prepared), default=0.0)
    if not prepared:
        return (
            "It is decided, and no queried database has it prepared. A database that was not queried may: let it "
            "answer, or name it in the setting xa.resources."
        )
    if oldest < SOON and not away:
        return "Wait: a running process finishes it within seconds."
    if verdict is Verdict.COMMIT:
        return "It is decided to commit. Start a process on this store, or commit it here: nothing is lost by that."
    if verdict is Verdict.ABORT:
        return (
            "It is decided to roll back. Start a process on this store, or roll it back here: nothing is lost by that."
        )
    return (
        "It is not decided: its process has ended or hangs. Start a process on this store, whose recovery rolls it "
        "back, or roll it back here. Do not commit it unless you know that the other databases have committed."
    )
