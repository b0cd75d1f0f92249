"""Two-phase commits that an operator finishes by hand, with their entries in the audit."""

from __future__ import annotations

from collections.abc import Callable

from mercury.errors import MercuryError
from mercury.operations.acting import note
from mercury.storage.audit import Actor, TargetKind
from mercury.storage.sql.store import SqlStore
from mercury.storage.xa.coordinator import Coordinator
from mercury.storage.xa.decisions import Verdict
from mercury.storage.xa.names import Gtrid
from mercury.storage.xa.operator import Operator


def resolve(
    coordinator: Coordinator,
    gtrid: Gtrid,
    verdict: Verdict,
    actor: Actor,
    clock: Callable[[], float],
    *,
    force: bool = False,
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
            note(tx, clock, actor, action, TargetKind.TRANSACTION, str(gtrid), None, after, reason)

    told("resolve", {"verdict": verdict.value, "force": force})
    try:
        finished = Operator(coordinator).resolve(gtrid, verdict, force=force)
    except MercuryError as error:
        told("resolve refused", {"verdict": verdict.value, "error": str(error)})
        raise
    told("resolved", {"verdict": verdict.value, "finished": finished})
    return finished
