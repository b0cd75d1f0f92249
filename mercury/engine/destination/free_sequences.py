"""Reception beside other processes: it waits for no sequence that another transaction has locked (decision 109)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mercury.engine.context import EngineContext
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.held_elsewhere import HeldElsewhere
from mercury.storage.api import Transaction
from mercury.storage.records import RmdRecord


def lock_free(
    context: EngineContext,
    tx: Transaction,
    wanted: Collection[str],
    addressed: Collection[str],
    delivered: Collection[str],
) -> dict[str, RmdRecord]:
    """Lock sequences as `RmdStorage.lock` does; if there are other processes, only those that none of them has locked.

    Workers of this process have none for long: what arrives meanwhile would only be stored, if it was postponed.
    """
    if context.others:
        context.own_locks.wait_for(wanted)
    return tx.rmd.lock(wanted, addressed, delivered, only_free=context.others)


def require_free(
    context: EngineContext,
    tx: Transaction,
    exchanges: Sequence[InboundExchange],
    named: Sequence[Collection[str]],
    locked: Mapping[str, RmdRecord],
) -> None:
    """Check that this transaction has locked all sequences that exist, if there are other processes.

    :param named: the sequences of each arrival.
    :raises HeldElsewhere: others have locked some.
    """
    if not context.others:
        return
    missing = [name for names in named for name in names if name not in locked]
    held = tx.rmd.read_many(missing) if missing else {}
    if held:
        both = zip(exchanges, named, strict=True)
        raise HeldElsewhere([exchange for exchange, names in both if not held.keys().isdisjoint(names)])
