"""Limits the tombstones of ended sequences of peers, and selects those that are deleted early.

A peer may create and end any number of sequences, and each would leave a tombstone for a day. Above the limit of a peer
its oldest tombstones are deleted, many at a time; above the limit for all, those of the peer with most. That is safe: a
late message of such a sequence is answered with UnknownSequence, and nothing is handled twice. The tombstone of a
sequence with undelivered messages is never deleted.

An unused sequence leaves no tombstone when it expires, but it counts for as long as one (`expired.Expired`): otherwise
a peer could create any number of sequences with a very short Expires.

The tombstone of a sequence that this side ended to make room (`quota`) is retained, unless such tombstones fill half of
a limit: its source does not know of the end yet, and gets the final acknowledgement with the answer to its next
message. After UnknownSequence it would not know which messages were received.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from mercury.engine.source.apply_effects import save_rms
from mercury.storage.records import RmdRecord, RmsRecord, SequenceKey

if TYPE_CHECKING:
    from mercury.engine.context import EngineContext
    from mercury.storage.api import Transaction

#: A peer makes room for another peer if it has this many times as many sequences as the other one would have.
EXCESS_FACTOR = 2
#: The number of tombstones that are deleted in one transaction, so that few CreateSequence messages are delayed by it.
BATCH_SIZE = 100
#: At the limit for all, at most this part of the tombstones of the peer with most are deleted in one transaction.
SMALL_PART = 10


class TombstoneQuota:
    """The tombstones that one batch of arrivals deletes."""

    def __init__(self, context: EngineContext, tx: Transaction, now: float) -> None:
        self._settings = context.settings
        self._expired = context.expired
        self._tx = tx
        self._now = now
        #: Whether a limit is reached, by owner; ``None`` = the limit for all.
        self._full: dict[str | None, bool] = {}
        #: Why there is no room, by owner.
        self._refusals: dict[str, str | None] = {}
        self._names: dict[str, None] = {}
        self._responses: dict[SequenceKey, None] = {}

    def make_room(self, owner: str, wanted: int) -> None:
        """Find the tombstones to delete so that this owner can create ``wanted`` new sequences; the caller locks them.

        The store is queried once for the whole batch.
        """
        if owner not in self._refusals:
            self._refusals[owner] = self._make_room(owner, wanted)

    def _make_room(self, owner: str, wanted: int) -> str | None:
        if owner and self._expired.count(owner, self._now) >= self._settings.max_ended_per_peer:
            return "too many sequences of this peer have just expired; try again later"
        if owner and self._is_full(owner, self._settings.max_ended_per_peer, wanted):
            return "too many sequences of this peer have just ended; try again later"
        if self._is_full(None, self._settings.max_ended, wanted) and not self._may_take_from_largest(owner, wanted):
            return "too many sequences have just ended; try again later"
        return None

    def _is_full(self, owner: str | None, limit: int, wanted: int) -> bool:
        if owner not in self._full:
            self._full[owner] = self._recently_full(owner, limit, wanted)
        return self._full[owner]

    def _recently_full(self, owner: str | None, limit: int, wanted: int) -> bool:
        rmd, before = self._tx.rmd, self._now - self._settings.remember_ended
        if rmd.ended_count(owner) < limit:
            return False
        many = max(BATCH_SIZE, wanted)
        names = rmd.ended(before, many, owner)
        given_up = rmd.ended_count(owner, given_up=True)
        if 2 * given_up > limit:
            names += rmd.ended(before, many, owner, given_up=True)
        self._names |= dict.fromkeys(names)
        # Older tombstones have undelivered messages; they are no reason to refuse a sequence.
        return not names and rmd.ended_count(owner, before, given_up=False) + given_up >= limit

    def _may_take_from_largest(self, owner: str, wanted: int) -> bool:
        """Select recent tombstones of the peer with most, if it has far more than this owner. Returns whether there
        are any."""
        rmd = self._tx.rmd
        largest, most = rmd.most_ended()
        if most < EXCESS_FACTOR * (rmd.ended_count(owner) + 1):
            return False
        names = rmd.ended(self._now, max(wanted, min(BATCH_SIZE, most // SMALL_PART)), largest)
        self._names |= dict.fromkeys(names)
        return bool(names)

    def refusal(self, owner: str) -> str | None:
        """Why there is no room for one more sequence of this owner."""
        return self._refusals.get(owner)

    def excluding(self, named: Collection[str]) -> list[str]:
        """The tombstones to lock for deletion, without those that the arrivals of the batch name."""
        for name in named:
            self._names.pop(name, None)
        return list(self._names)

    def take(self, locked: dict[str, RmdRecord]) -> None:
        """Delete the tombstones, and remove them from ``locked``.

        Call it before the keys of the responses are locked, because of the lock order.
        """
        if not self._names:
            return
        gone = [locked.pop(name) for name in self._names if name in locked]
        buffers = self._tx.invoker.read_many([record.identifier for record in gone])
        for record in gone:
            buffer = buffers.get(record.identifier)
            channels = buffer.response_channels if buffer is not None else ()
            self._responses |= dict.fromkeys(channel.key for channel in channels)
            self._tx.invoker.delete(record.identifier)
            self._tx.rmd.delete(record.identifier)

    def keys(self) -> Collection[SequenceKey]:
        """The keys of the responses to the deleted sequences; the caller locks them."""
        return self._responses

    def save(self, records: Mapping[SequenceKey, Iterable[RmsRecord]]) -> None:
        """Make the response sequences due, so that the source worker deletes them.

        :param records: of the keys that are locked.
        """
        for key in self._responses:
            for record in records[key]:
                if record.ended_at is not None:
                    record.due = self._now
                    save_rms(self._tx, record)
