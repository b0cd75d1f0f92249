"""Two-phase commits that an operator finishes by hand, with their entries in the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mercury.errors import MercuryError
from mercury.operations.acting import entry_of
from mercury.storage.audit import Actor, TargetKind
from mercury.storage.sql import steering
from mercury.storage.sql.store import SqlStore
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.decisions import Verdict
from mercury.storage.xa.names import Gtrid
from mercury.storage.xa.operator import Operator, Overview

#: Seconds after which recovery should have finished a transaction whose databases answer.
SOON = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """How many two-phase commits are not finished in every database."""

    many: int
    #: The age of the oldest, in seconds.
    oldest: float
    #: Databases that were not queried.
    away: int


def in_doubt(coordinator: Coordinator, now: float) -> InDoubt:
    """Counts the two-phase commits that are not finished in every database, by querying the databases.

    :param now: seconds since the epoch.
    :raises StorageError: the decision log does not answer.
    """
    found = Operator(coordinator).overview()
    ages = [branch.age for branch in found.branches]
    ages += [now - each.decided_at for each in found.decisions if each.branches]
    return InDoubt(many=len(unfinished(found)), oldest=max(ages, default=0.0), away=len(found.away))


def unfinished(found: Overview) -> tuple[str, ...]:
    """The names of the transactions that are not finished in every database: those with prepared branches, the oldest
    first, then those that only a decision names."""
    prepared = [str(branch.gtrid) for branch in found.branches]
    decided = [str(each.gtrid) for each in found.decisions if each.branches]
    return tuple(dict.fromkeys([*prepared, *decided]))


def resolve(
    coordinator: Coordinator,
    gtrid: Gtrid,
    verdict: Verdict,
    actor: Actor,
    clock: Callable[[], float],
    *,
    force: bool = False,
    unknown_process: bool = False,
    reason: str = "",
) -> list[str]:
    """Finish a transaction in every database that answers: see `Operator.resolve`. Returns the gids that were finished.

    The audit has the verdict before the first branch is finished, because several databases share no transaction; what
    was finished, or why it was refused, is a second entry.

    :param clock: seconds since the epoch.
    :raises ResolutionRefused: as `Operator.resolve`.
    :raises StorageError: as `Operator.resolve`, or the store failed; nothing is finished without the first entry.
    """
    store = coordinator.store

    def told(action: str, after: dict[str, object]) -> None:
        assert isinstance(store, SqlStore)
        with store.transaction() as tx:
            steering.note(tx, entry_of(clock(), actor, action, TargetKind.TRANSACTION, str(gtrid), None, after, reason))

    forced = {"force": force} | ({"unknown_process": True} if unknown_process else {})
    told("resolve", {"verdict": verdict.value, **forced})
    try:
        finished = Operator(coordinator).resolve(gtrid, verdict, force=force, unknown_process=unknown_process)
    except MercuryError as error:
        told("resolve refused", {"verdict": verdict.value, "error": str(error)})
        raise
    told("resolved", {"verdict": verdict.value, "finished": finished})
    return finished
