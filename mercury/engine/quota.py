"""How many sequences peers may hold open, and which idle ones make room for a new one.

Many clients never end their sequences (a process that creates one and exits): the newest use wins over the oldest
idle one, so that such a client neither fills the endpoint for others nor is refused itself. A few peers that use up the
limit of all keep nobody out: who has by far the most gives up one of them. How many ended ones are remembered is in
`forgetting`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mercury.storage.records import RmdRecord

if TYPE_CHECKING:
    from mercury.engine.batch import Batch

#: Sequences that end together when many bytes wait.
TOGETHER = 100
#: A peer that has so many times as many sequences as another one then has makes room for it.
FAR_MORE = 2


def idle_sequences(batch: Batch, owner: str, wanted: int) -> Iterator[str]:
    """The sequences that may have to end so that ``wanted`` new ones of this owner can be made; to be locked."""
    settings = batch.parts.settings
    before = batch.now - settings.idle_sequence
    for whose in batch.backlog.crowded_by(owner):
        yield from batch.tx.rmd.idle(before, TOGETHER, whose, waiting=True)
    if owner and batch.open_sequences(owner) + wanted > settings.max_sequences_per_peer:
        yield from batch.tx.rmd.idle(before, wanted, owner)
    needed = batch.open_sequences() + wanted - settings.max_sequences
    if needed > 0:
        idle = batch.tx.rmd.idle(before, needed)
        yield from idle
        if len(idle) < needed:
            yield from batch.crowding(needed + len(idle))


def make_room(batch: Batch, owner: str) -> str | None:
    """End idle sequences, which are locked, until one more of this owner fits; else why there is no room.

    They end by their expiry, which the destination worker sees next.
    """
    settings = batch.parts.settings
    full = batch.forgetting.refusal(owner)
    if full is not None:
        return full
    for whose in batch.backlog.crowded_by(owner):
        _end_those_that_wait(batch, whose)
    full = batch.backlog.no_new_sequence(owner)
    if full is not None:
        return f"{full[0].lower()}{full[1:]}; try again later"
    if owner and not _fits(batch, batch.open_sequences(owner), settings.max_sequences_per_peer, owner):
        return "too many sequences of this peer are open; try again later"
    excess = _excess(batch, batch.open_sequences(), settings.max_sequences, None)
    if excess > 0 and not _made_by_others(batch, owner, excess):
        return "too many sequences are open; try again later"
    return None


def _fits(batch: Batch, open_now: int, limit: int, owner: str | None) -> bool:
    return _excess(batch, open_now, limit, owner) <= 0


def _excess(batch: Batch, open_now: int, limit: int, owner: str | None) -> int:
    """How many have to end besides the idle ones, which do, so that one more fits."""
    before = batch.now - batch.parts.settings.idle_sequence
    for record in sorted(batch.rmds.values(), key=lambda each: each.machine.last_heard):
        if open_now < limit:
            break
        if not _ends(record, before, owner):
            continue
        _end(batch, record)
        open_now -= 1
    return open_now - limit + 1


def _made_by_others(batch: Batch, owner: str, excess: int) -> bool:
    """End so many sequences of peers that have far more than this owner; none, if there are not enough of them."""
    before = batch.now - batch.parts.settings.idle_sequence
    least = FAR_MORE * (batch.open_sequences(owner) + 1)
    given_up: Counter[str] = Counter()
    chosen: list[RmdRecord] = []
    for identifier, count in batch.crowding().items():
        if len(chosen) == excess:
            break
        record = batch.rmds.get(identifier)
        if record is None or record.machine.tombstone or _ends(record, before, None):
            continue
        if count - given_up[record.owner] >= least and not _holds(batch, record):
            given_up[record.owner] += 1
            chosen.append(record)
    if len(chosen) < excess:
        return False
    for record in chosen:
        _end(batch, record)
    return True


def _holds(batch: Batch, record: RmdRecord) -> bool:
    buffer = batch.buffer(record.identifier)
    return buffer is not None and record.received_bytes > buffer.consumed_bytes


def _end_those_that_wait(batch: Batch, owner: str | None) -> None:
    """End idle sequences with messages that wait: what lies behind a gap that nobody fills makes room by it."""
    before = batch.now - batch.parts.settings.idle_sequence
    for record in batch.rmds.values():
        if _ends(record, before, owner) and _holds(batch, record):
            _end(batch, record)


def _end(batch: Batch, record: RmdRecord) -> None:
    if record.machine.expires_at is None or record.machine.expires_at > batch.now:
        record.machine.expires_at = batch.now
        batch.change_rmd(record)


def _ends(record: RmdRecord, before: float, owner: str | None) -> bool:
    idle = record.create_message_id is not None and record.machine.last_heard < before
    return idle and not record.machine.tombstone and owner in (None, record.owner)
