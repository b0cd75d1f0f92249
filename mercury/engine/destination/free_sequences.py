"""Reception beside other processes: it waits for no sequence that another transaction has locked (decision 109)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mercury.engine.context import EngineContext
from mercury.engine.destination.inbound_exchange import InboundExchange
from mercury.engine.held_elsewhere import HeldElsewhere
from mercury.storage.api import Transaction
from mercury.storage.records import RmdRecord


def lock_free(
    context: EngineContext,
    tx: Transaction,
    arrivals: Sequence[tuple[InboundExchange, Collection[str]]],
    more: Collection[str],
    addressed: Collection[str],
    delivered: Collection[str],
) -> dict[str, RmdRecord]:
    """Lock sequences as `RmdStorage.lock` does; if there are other processes, only those that none of them has locked.

    Workers of this process have none for long: where messages are delivered on arrival, they are waited for, because
    what arrives meanwhile would only be stored, if it was postponed.

    :param arrivals: each with the sequences that it names.
    :param more: sequences that no arrival names.
    :raises HeldElsewhere: a transaction has locked a sequence that an arrival names.
    """
    wanted = [*(name for _, names in arrivals for name in names), *more]
    others = context.others  # read once: a sequence that was left out because of them would be an unknown one
    if others and context.store.capabilities.delivers_on_arrival:
        context.own_locks.wait_for(wanted)
    locked = tx.rmd.lock(wanted, addressed, delivered, only_free=others)
    missing = [name for _, names in arrivals for name in names if name not in locked] if others else []
    held = tx.rmd.read_many(missing) if missing else {}
    if held:
        raise HeldElsewhere([exchange for exchange, names in arrivals if not held.keys().isdisjoint(names)])
    return locked
