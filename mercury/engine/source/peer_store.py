"""The store of a destination, and of each sequence there: what is kept of it, and what is refused (decision 73)."""

from __future__ import annotations

from mercury.engine.context import EngineContext
from mercury.engine.events import DestinationReplaced, StoreRefused
from mercury.statemachine.rms import RMSSequence
from mercury.storage.api import Transaction
from mercury.storage.records import Channel, RmsRecord, Role


def store_of(tx: Transaction, channel: Channel) -> str | None:
    """The store that a new sequence has to be at; ``None`` = the first answer decides."""
    if channel.role is not Role.REQUEST:
        return None
    known = tx.peer_stores.get(channel.endpoint)
    return None if known is None else known.store


def is_made_there(
    tx: Transaction, context: EngineContext, record: RmsRecord, stated: str | None, address: str, now: float
) -> bool:
    """Whether a sequence may be where its CreateSequenceResponse comes from. The first answer of a destination decides
    which store it has.

    :param stated: the store that the response states; ``None`` = none, so that nothing can be checked.
    :param address: where the response comes from.
    """
    if stated is None or record.channel.role is not Role.REQUEST:
        return True
    endpoint = record.channel.endpoint
    if record.store is None:
        record.store = tx.peer_stores.agree(endpoint, stated, now)
    if record.store == stated:
        return True
    refuse_store(tx, context, endpoint, address, record.store, stated, now)
    return False


def refuse_store(
    tx: Transaction, context: EngineContext, endpoint: str, address: str, expected: str, found: str, now: float
) -> None:
    """Note that another store has answered for a destination, and emit it if it is news."""
    if tx.peer_stores.refuse(endpoint, found, address, now):
        event = StoreRefused(at=now, endpoint=endpoint, address=address, expected=expected, found=found)
        context.observers.emit(tx, event)


def tell_replaced(tx: Transaction, context: EngineContext, before: RmsRecord, record: RmsRecord, now: float) -> None:
    """Emit that a key goes on at another store, if a successor is at another one than the sequence before."""
    if before.store is None or record.store is None or before.store == record.store:
        return
    event = DestinationReplaced(
        at=now,
        endpoint=record.channel.endpoint,
        key=record.channel.key.name,
        sequence=before.machine.identifier,
        before=before.store,
        store=record.store,
        in_doubt=doubtful(before.machine),
    )
    context.observers.emit(tx, event)


def doubtful(machine: RMSSequence) -> tuple[tuple[int, int], ...]:
    """The numbers that were sent and are not acknowledged."""
    done = machine.acknowledged.copy()
    done.update(machine.moved)
    return tuple(done.gaps(1, machine.highest_sent))
