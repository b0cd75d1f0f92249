"""How much may wait for the application: by number and in bytes, of one sequence, of one peer and in all.

Above a limit a new message is refused as busy and comes again. The one that the others wait for is taken whatever
waits, or nothing would ever move again. What waits of a sequence is the difference of two counters, in records that are
written anyway: what was received (`RmdRecord.received_bytes`) and what has left its buffer
(`InvokerRecord.consumed_bytes`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.storage.records import InvokerRecord, RmdRecord

if TYPE_CHECKING:
    from mercury.engine.parts import EngineSettings, Parts
    from mercury.storage.api import Transaction


class Backlog:
    """What waits for the application, for one batch of arrivals."""

    def __init__(self, parts: Parts, tx: Transaction) -> None:
        self._parts = parts
        self._tx = tx
        #: What the store says that waits, of an owner and in all.
        self._asked: dict[str, tuple[int, int]] = {}
        #: What this batch has taken so far: the store does not know of it yet.
        self._taken: Counter[str] = Counter()

    def take(self, record: RmdRecord, size: int) -> None:
        """A message of so many bytes is put into the buffer of a locked sequence."""
        record.received_bytes += size
        self._taken[record.owner] += size

    def refusal(self, record: RmdRecord, buffer: InvokerRecord, number: int, size: int) -> str | None:
        """Why a new message of so many bytes has to wait at its sender."""
        if _moves_the_rest(record, buffer, number):
            return None
        policy = self._parts.application.policy(record.service)
        if record.machine.received.count - buffer.machine.passed.count >= policy.max_backlog:
            return "Too many messages wait for the application"
        waiting = record.received_bytes - buffer.consumed_bytes + size
        if waiting > policy.max_backlog_bytes:
            return "Too many bytes wait for the application"
        if waiting <= share(self._parts.settings):
            return None
        return self._full(record.owner, size)

    def no_new_sequence(self, owner: str) -> str | None:
        """Why a peer may make no sequence now: what one leaves behind when it ends waits too."""
        return self._full(owner, 0)

    def crowded_by(self, owner: str) -> list[str | None]:
        """Whose messages take more than half of what may wait: this owner's, everybody's (``None``)."""
        settings = self._parts.settings
        own, every = self._waiting(owner)
        crowded: list[str | None] = [owner] if owner and own > settings.max_backlog_bytes_per_peer // 2 else []
        return [*crowded, None] if every > settings.max_backlog_bytes // 2 else crowded

    def _full(self, owner: str, size: int) -> str | None:
        own, every = self._waiting(owner)
        if owner and own + size > self._parts.settings.max_backlog_bytes_per_peer:
            return "Too many bytes of this peer wait for the application"
        if every + size > self._parts.settings.max_backlog_bytes:
            return "Too many bytes of all peers wait for the application"
        return None

    def _waiting(self, owner: str) -> tuple[int, int]:
        """The bytes that wait of an owner and in all, with what this batch has taken; the store is asked once."""
        if owner not in self._asked:
            self._asked[owner] = self._tx.rmd.waiting_bytes(owner)
        own, every = self._asked[owner]
        return own + self._taken[owner], every + self._taken.total()


def share(settings: EngineSettings) -> int:
    """What each sequence may have without a look at the others: by it all that may be open just reach a limit."""
    return min(
        settings.max_backlog_bytes_per_peer // settings.max_sequences_per_peer,
        settings.max_backlog_bytes // settings.max_sequences,
    )


def _moves_the_rest(record: RmdRecord, buffer: InvokerRecord, number: int) -> bool:
    """What everything else waits for is taken whatever waits, or nothing would ever move again."""
    if buffer.machine.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
        return number == record.machine.received.first_missing()  # nothing moves before all of it is here
    return number == buffer.machine.next
