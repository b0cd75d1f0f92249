"""Limits the open sequences of peers, and selects the sequences that end to make room for a new one.

Many clients never end their sequences, for example processes that create one and exit. At a limit, sequences that have
been idle longest end, so such clients neither fill the endpoint nor are refused. A few peers that use up the limit for
all do not exclude others: first, sequences of any peer that were never used end; then the peer with by far the most
sequences loses one that it has not used for a while. A sequence in use is never ended. `tombstone_quota` limits the
tombstones of ended sequences.
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

#: The most idle sequences that are ended at once when too many bytes are undelivered.
BATCH_SIZE = 100
#: Seconds after which an unused sequence may be ended to make room: first messages usually arrive sooner.
UNUSED = 60.0
#: Seconds since its last message for which a sequence counts as in use, and is not ended to make room.
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
        """The number of open destination sequences: of all, or of one owner."""

    def crowding(self, limit: int = 0, /) -> Mapping[str, int]:
        """Sequences that may be ended to make room, with the number of open sequences of their peer; 0 = the earlier
        result."""

    def buffer(self, identifier: str, /) -> InvokerRecord | None:
        """The invoker buffer of a sequence, as committed."""

    def change_rmd(self, record: RmdRecord, /) -> None:
        """Save a changed destination sequence at the end of the batch."""


def idle_sequences(batch: Creation, owner: str, wanted: int) -> Iterator[str]:
    """The sequences that may have to end so that this owner can create ``wanted`` new ones; the caller locks them."""
    settings = batch.context.settings
    before = batch.now - settings.idle_sequence
    for whose in batch.backlog.crowded_by(owner):
        yield from batch.tx.rmd.idle(before, BATCH_SIZE, whose, waiting=True)
    if owner and batch.open_sequences(owner) + wanted > settings.max_sequences_per_peer:
        yield from batch.tx.rmd.idle(before, wanted, owner)
        yield from batch.tx.rmd.idle(batch.now - UNUSED, BATCH_SIZE, owner)
    needed = batch.open_sequences() + wanted - settings.max_sequences
    if needed > 0 and not batch.context.recent_refusals.holds(batch.open_sequences(owner), batch.now):
        idle = batch.tx.rmd.idle(before, needed)
        yield from idle
        yield from batch.crowding(needed + len(idle))


def make_room(batch: Creation, owner: str) -> str | None:
    """End locked sequences until there is room for one more of this owner. Returns why there is no room; ``None`` =
    there is.

    Their expiry is set to now; the destination worker ends them.
    """
    settings = batch.context.settings
    full = batch.tombstone_quota.refusal(owner)
    if full is not None:
        return full
    for whose in batch.backlog.crowded_by(owner):
        _end_idle_with_backlog(batch, whose)
    full = batch.backlog.creation_refusal(owner)
    if full is not None:
        return f"{full[0].lower()}{full[1:]}; try again later"
    if owner:
        excess = batch.open_sequences(owner) + 1 - settings.max_sequences_per_peer
        if excess > 0 and _end_some(batch, [*_unused(batch, owner), *_idle(batch, owner)], excess) > 0:
            return "too many sequences of this peer are open; try again later"
    excess = batch.open_sequences() + 1 - settings.max_sequences
    if excess <= 0:
        return None
    excess = _end_some(batch, [*_never_used(batch), *_idle(batch, None)], excess)
    if excess > 0 and not _end_some_of_larger_peers(batch, owner, excess):
        batch.context.recent_refusals.remember(batch.open_sequences(owner), batch.now)
        return "too many sequences are open; try again later"
    return None


def _end_some(batch: Creation, those: Iterable[RmdRecord], excess: int) -> int:
    """End up to ``excess`` of these sequences. Returns how many more have to end."""
    distinct = list({record.identifier: record for record in those}.values())
    chosen = distinct[: max(0, excess)]
    for record in chosen:
        _end(batch, record)
    return excess - len(chosen)


def _idle(batch: Creation, owner: str | None) -> list[RmdRecord]:
    """Sequences without a message for `engine.idle_sequence`, the longest idle first."""
    before = batch.now - batch.context.settings.idle_sequence
    idle = [record for record in batch.rmds.values() if _is_idle_since(record, before, owner)]
    return sorted(idle, key=lambda each: each.machine.last_heard)


def _unused(batch: Creation, owner: str) -> list[RmdRecord]:
    """Sequences of a peer that are older than `UNUSED` and were never used: another peer may have caused them, by
    requests whose responses the owner sends elsewhere."""
    idle = [record for record in batch.rmds.values() if _is_idle_since(record, batch.now - UNUSED, owner)]
    return sorted((each for each in idle if not each.machine.used), key=lambda each: each.machine.last_heard)


def _never_used(batch: Creation) -> Iterator[RmdRecord]:
    """Sequences that are older than `UNUSED` and were never used: those of the peers with most sequences first."""
    for identifier in batch.crowding():
        record = batch.rmds.get(identifier)
        if record is not None and not record.machine.used and _is_idle_since(record, batch.now - UNUSED, None):
            yield record


def _end_some_of_larger_peers(batch: Creation, owner: str, excess: int) -> bool:
    """End ``excess`` sequences of peers that have far more than this owner; none if there are not enough. Returns
    whether
    there are."""
    before = batch.now - batch.context.settings.idle_sequence
    least = EXCESS_FACTOR * (batch.open_sequences(owner) + 1)
    given_up: Counter[str] = Counter()
    chosen: list[RmdRecord] = []
    for identifier, count in batch.crowding().items():
        if len(chosen) == excess:
            break
        record = batch.rmds.get(identifier)
        if (
            record is None
            or _is_idle_since(record, before, None)
            or not _is_idle_since(record, batch.now - IN_USE, None)
        ):
            continue
        if record.machine.used and count - given_up[record.owner] >= least and not _has_backlog(batch, record):
            given_up[record.owner] += 1
            chosen.append(record)
    if len(chosen) < excess:
        return False
    for record in chosen:
        _end(batch, record)
    return True


def _has_backlog(batch: Creation, record: RmdRecord) -> bool:
    buffer = batch.buffer(record.identifier)
    return buffer is not None and record.received_bytes > buffer.consumed_bytes


def _end_idle_with_backlog(batch: Creation, owner: str | None) -> None:
    """End idle sequences with undelivered messages above a gap: their source does not fill it."""
    before = batch.now - batch.context.settings.idle_sequence
    for record in batch.rmds.values():
        if _is_idle_since(record, before, owner) and _has_backlog(batch, record):
            _end(batch, record)


def _end(batch: Creation, record: RmdRecord) -> None:
    if record.machine.expires_at is None or record.machine.expires_at > batch.now:
        record.machine.end_by(batch.now)
        record.given_up = True
        batch.change_rmd(record)


def _is_idle_since(record: RmdRecord, before: float, owner: str | None) -> bool:
    idle = record.create_message_id is not None and record.machine.last_heard < before
    return idle and not record.machine.tombstone and owner in (None, record.owner)
