"""How many ended sequences of peers are remembered, and which of them are forgotten before their time.

A peer makes and ends any number of sequences, each of which would be remembered for a day. Above a limit the oldest
ones go, many at a time; above the limit for all, those of the peer that has most. That is safe: a late message of such
a sequence is answered with UnknownSequence, and nothing is handled twice. A sequence whose messages wait for the
application is never forgotten.

A sequence that was never used leaves nothing to remember when its time is over, and counts for as long all the same
(`expired.Expired`): a peer that asks for a very short time does not make any number of them.

A sequence that this side ended to make room (`quota`) stays, unless such sequences fill half of a limit: its source
does not know yet, and learns only from the answer to its next message what was received. UnknownSequence would leave
it in doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from mercury.engine.source.apply_effects import save_rms
from mercury.storage.records import RmdRecord, RmsRecord, SequenceKey

if TYPE_CHECKING:
    from mercury.engine.context import EngineContext
    from mercury.storage.api import Transaction

#: A peer that has so many times as many sequences as another one then has makes room for it.
EXCESS_FACTOR = 2
#: Ended sequences that are forgotten in one transaction, so that few of those that make a sequence pay for it.
BATCH_SIZE = 100
#: The same part of those of the peer that has far more than another one, which finds no room otherwise.
SMALL_PART = 10


class TombstoneQuota:
    """What one batch of arrivals forgets."""

    def __init__(self, context: EngineContext, tx: Transaction, now: float) -> None:
        self._settings = context.settings
        self._expired = context.expired
        self._tx = tx
        self._now = now
        #: Whether there is no room, by owner; ``None`` = all together.
        self._full: dict[str | None, bool] = {}
        #: Why there is no room, by owner.
        self._refusals: dict[str, str | None] = {}
        self._names: dict[str, None] = {}
        self._responses: dict[SequenceKey, None] = {}

    def make_room(self, owner: str, wanted: int) -> None:
        """Find what has to be forgotten so that ``wanted`` new sequences of this owner can be made; to be locked.

        One query for all that the batch makes.
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
        # Those that wait for the application are older than that, and no reason to refuse.
        return not names and rmd.ended_count(owner, before, given_up=False) + given_up >= limit

    def _may_take_from_largest(self, owner: str, wanted: int) -> bool:
        """Forget what has just ended of the peer with most, if that is far more than this owner has."""
        rmd = self._tx.rmd
        who, most = rmd.most_ended()
        if most < EXCESS_FACTOR * (rmd.ended_count(owner) + 1):
            return False
        names = rmd.ended(self._now, max(wanted, min(BATCH_SIZE, most // SMALL_PART)), who)
        self._names |= dict.fromkeys(names)
        return bool(names)

    def refusal(self, owner: str) -> str | None:
        """Why there is no room for one more sequence of this owner."""
        return self._refusals.get(owner)

    def excluding(self, named: Collection[str]) -> list[str]:
        """What is to be locked to be forgotten: nothing that the batch has to do with."""
        for name in named:
            self._names.pop(name, None)
        return list(self._names)

    def take(self, locked: dict[str, RmdRecord]) -> None:
        """Forget what was locked for it: for the batch it is gone from now on.

        Before the keys of the responses are locked: that is the order of locks.
        """
        gone = [locked.pop(name) for name in self._names if name in locked]
        buffers = self._tx.invoker.read_many([record.identifier for record in gone])
        for record in gone:
            buffer = buffers.get(record.identifier)
            channels = buffer.response_channels if buffer is not None else ()
            self._responses |= dict.fromkeys(channel.key for channel in channels)
            self._tx.invoker.delete(record.identifier)
            self._tx.rmd.delete(record.identifier)

    def keys(self) -> Collection[SequenceKey]:
        """The keys of the responses to what is forgotten; to be locked."""
        return self._responses

    def save(self, records: Mapping[SequenceKey, Iterable[RmsRecord]]) -> None:
        """Call the source worker: it forgets the ended sequences of the responses.

        :param records: of the keys that are locked.
        """
        for key in self._responses:
            for record in records[key]:
                if record.ended_at is not None:
                    record.due = self._now
                    save_rms(self._tx, record)
