"""How many sequences peers may hold open, and which ones make room for a new one.

Many clients never end their sequences (a process that creates one and exits): the newest use wins over the oldest
idle one, so that such a client neither fills the endpoint for others nor is refused itself. A few peers that use up the
limit of all do not exclude others: first sequences that were never used make room, of any peer; then the peer with by
far the most gives up one that it has not used for a while. A sequence in use is never ended. `tombstone_quota` limits
the ended ones that are remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from mercury.engine.context import EngineContext
from mercury.engine.destination.backlog import Backlog
from mercury.engine.destination.tombstone_quota import EXCESS_FACTOR, TombstoneQuota
from mercury.storage.api import Transaction
from mercury.storage.records import InvokerRecord, RmdRecord

#: Sequences that end together when many bytes wait.
BATCH_SIZE = 100
#: Seconds after which a sequence that was never used makes room: the first message comes sooner.
UNUSED = 60.0
#: Seconds for which a sequence that was used counts as in use, and makes no room for others.
IN_USE = 300.0


class Creation(Protocol):
    """The interface that this module needs of the transaction that creates sequences, a `Batch` of arrivals."""

    context: EngineContext
    tx: Transaction
    now: float
    #: The destination sequences that are locked.
    rmds: dict[str, RmdRecord]
    tombstone_quota: TombstoneQuota
    backlog: Backlog

    def open_sequences(self, owner: str | None = None, /) -> int:
        """How many destination sequences are open: all, or one owner's."""

    def crowding(self, limit: int = 0, /) -> Mapping[str, int]:
        """Sequences that may make room, with the number that their peer has open; called again without a limit."""

    def buffer(self, identifier: str, /) -> InvokerRecord | None:
        """The invoker buffer of a sequence, as committed."""

    def change_rmd(self, record: RmdRecord, /) -> None:
        """Keep a destination sequence that was changed."""


def idle_sequences(batch: Creation, owner: str, wanted: int) -> Iterator[str]:
    """The sequences that may have to end so that ``wanted`` new ones of this owner can be made; to be locked."""
    settings = batch.context.settings
    before = batch.now - settings.idle_sequence
    for whose in batch.backlog.crowded_by(owner):
        yield from batch.tx.rmd.idle(before, BATCH_SIZE, whose, waiting=True)
    if owner and batch.open_sequences(owner) + wanted > settings.max_sequences_per_peer:
        yield from batch.tx.rmd.idle(before, wanted, owner)
    needed = batch.open_sequences() + wanted - settings.max_sequences
    if needed > 0 and not batch.context.recent_refusals.holds(batch.open_sequences(owner), batch.now):
        idle = batch.tx.rmd.idle(before, needed)
        yield from idle
        yield from batch.crowding(needed + len(idle))


def make_room(batch: Creation, owner: str) -> str | None:
    """End sequences, which are locked, until one more of this owner fits; else why there is no room.

    They end by their expiry, which the destination worker sees next.
    """
    settings = batch.context.settings
    full = batch.tombstone_quota.refusal(owner)
    if full is not None:
        return full
    for whose in batch.backlog.crowded_by(owner):
        _end_those_that_wait(batch, whose)
    full = batch.backlog.no_new_sequence(owner)
    if full is not None:
        return f"{full[0].lower()}{full[1:]}; try again later"
    if owner:
        excess = batch.open_sequences(owner) + 1 - settings.max_sequences_per_peer
        if _still_excess(batch, _idle(batch, owner), excess) > 0:
            return "too many sequences of this peer are open; try again later"
    excess = batch.open_sequences() + 1 - settings.max_sequences
    excess = _still_excess(batch, [*_never_used(batch), *_idle(batch, None)], excess)
    if excess > 0 and not _made_by_others(batch, owner, excess):
        batch.context.recent_refusals.remember(batch.open_sequences(owner), batch.now)
        return "too many sequences are open; try again later"
    return None


def _still_excess(batch: Creation, those: Iterable[RmdRecord], excess: int) -> int:
    """End so many of those; returns how many have to end besides."""
    distinct = list({record.identifier: record for record in those}.values())
    chosen = distinct[: max(0, excess)]
    for record in chosen:
        _end(batch, record)
    return excess - len(chosen)


def _idle(batch: Creation, owner: str | None) -> list[RmdRecord]:
    """Sequences that nothing was heard of for very long, the oldest first."""
    before = batch.now - batch.context.settings.idle_sequence
    idle = [record for record in batch.rmds.values() if _ends(record, before, owner)]
    return sorted(idle, key=lambda each: each.machine.last_heard)


def _never_used(batch: Creation) -> Iterator[RmdRecord]:
    """Sequences that were made a while ago, and nothing came on them: those of the peers with most first."""
    for identifier in batch.crowding():
        record = batch.rmds.get(identifier)
        if record is not None and not record.machine.used and _ends(record, batch.now - UNUSED, None):
            yield record


def _made_by_others(batch: Creation, owner: str, excess: int) -> bool:
    """End so many sequences of peers that have far more than this owner; none, if there are not enough of them."""
    before = batch.now - batch.context.settings.idle_sequence
    least = EXCESS_FACTOR * (batch.open_sequences(owner) + 1)
    given_up: Counter[str] = Counter()
    chosen: list[RmdRecord] = []
    for identifier, count in batch.crowding().items():
        if len(chosen) == excess:
            break
        record = batch.rmds.get(identifier)
        if record is None or _ends(record, before, None) or not _ends(record, batch.now - IN_USE, None):
            continue
        if record.machine.used and count - given_up[record.owner] >= least and not _holds(batch, record):
            given_up[record.owner] += 1
            chosen.append(record)
    if len(chosen) < excess:
        return False
    for record in chosen:
        _end(batch, record)
    return True


def _holds(batch: Creation, record: RmdRecord) -> bool:
    buffer = batch.buffer(record.identifier)
    return buffer is not None and record.received_bytes > buffer.consumed_bytes


def _end_those_that_wait(batch: Creation, owner: str | None) -> None:
    """End idle sequences with messages that wait behind a gap that their peer does not fill, which makes room."""
    before = batch.now - batch.context.settings.idle_sequence
    for record in batch.rmds.values():
        if _ends(record, before, owner) and _holds(batch, record):
            _end(batch, record)


def _end(batch: Creation, record: RmdRecord) -> None:
    if record.machine.expires_at is None or record.machine.expires_at > batch.now:
        record.machine.end_by(batch.now)
        record.given_up = True
        batch.change_rmd(record)


def _ends(record: RmdRecord, before: float, owner: str | None) -> bool:
    idle = record.create_message_id is not None and record.machine.last_heard < before
    return idle and not record.machine.tombstone and owner in (None, record.owner)
