"""How much peers may leave here: messages that wait for the application, and dead letters. Of one sequence, of one peer
and in all.

Above a limit a new message is refused as busy and comes again. What waits of a sequence is the difference of two
counters, in records that are written anyway: what was received (`RmdRecord.received_bytes`) and what has left its
buffer (`InvokerRecord.consumed_bytes`). What has left it as a dead letter counts until an operator has discarded it or
redriven it; the store is queried for their sum when a sequence has left more than its share.

The next message of a sequence, which its others wait for, is taken above the sequence's own limit. Above that of its
peer, or of all, it is taken only when as many bytes wait behind it as it has, so that it can no more than double what
waits; or when nothing waits of that peer (or of all) yet; or when its sequence is the oldest of those with something
that waits; or when it is a response that a request of ours waits for and nothing of its sequence waits: the requests of
that peer may wait until its responses are acknowledged, and two nodes that send requests to each other would wait for
each other. So something can always move: what the oldest waits for is taken when it comes, and its messages go to the
application. If its source is silent for `engine.idle_sequence`, the next one counts as the oldest. In a sequence with
DiscardEntireSequence nothing moves before all of it is here: only the last two hold.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from mercury.engine.backlog_share import little, share
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.storage.records import InvokerRecord, RmdRecord

if TYPE_CHECKING:
    from mercury.engine.context import EngineContext
    from mercury.storage.api import Transaction

log = logging.getLogger("mercury.engine.reception")

#: Of responses that answer nothing a sequence leaves this part of `max_backlog_bytes` as dead letters.
STRAY = 16
#: Why nothing is taken from a peer whose dead letters fill its limit.
LETTERS = "Too many bytes of {} are dead letters here, which an operator has to look at"
#: The log text for the operator.
LOOK = (
    "the dead letters of a peer take %d bytes, those of all peers %d: a limit is reached, and what would add to them "
    "is refused as busy; look at them with `mercury dlq list`, then `mercury dlq redrive` or `mercury dlq discard`"
)


class Backlog:
    """What peers leave here, for one batch of arrivals."""

    def __init__(self, context: EngineContext, tx: Transaction, now: float) -> None:
        self._context = context
        self._tx = tx
        self._now = now
        #: What the store says that waits, of an owner and in all.
        self._asked: dict[str, tuple[int, int]] = {}
        #: The oldest sequence with something that waits, of an owner or of all.
        self._first: dict[str | None, str] = {}
        #: What this batch has taken so far: the store does not know of it yet.
        self._taken: Counter[str] = Counter()

    def take(self, record: RmdRecord, size: int) -> None:
        """A message of so many bytes is put into the buffer of a locked sequence."""
        record.received_bytes += size
        self._taken[record.owner] += size

    def refusal(
        self, record: RmdRecord, buffer: InvokerRecord, number: int, size: int, *, stray: bool | None = None
    ) -> str | None:
        """Why a new message of so many bytes has to wait at its sender.

        :param stray: of a response: whether it answers nothing; what does leaves no dead letter. One that
            answers nothing has no share: a server could leave its share on each of any number of offered sequences.
        """
        policy = self._context.application.policy(record.service)
        moves = _unblocks_rest(record, buffer, number)
        waiting = record.received_bytes - buffer.consumed_bytes
        if not moves and record.machine.received.count - buffer.machine.passed.count >= policy.max_backlog:
            return "Too many messages wait for the application"
        if not moves and waiting + size > policy.max_backlog_bytes:
            return "Too many bytes wait for the application"
        if not stray and waiting + buffer.letter_bytes + size <= share(self._context.settings):
            return None
        if stray is not False:
            most = policy.max_backlog_bytes // (STRAY if stray else 1)
            full = self._full_of_letters(record.identifier, record.owner, most)
            if full is not None:
                return full
        owner, settings = record.owner, self._context.settings
        if moves and stray is False and not waiting:
            return None
        own, every = self._waiting(owner)
        over = bool(owner) and own + self._letters(owner) + size > settings.max_backlog_bytes_per_peer
        if over and not (moves and self._may_move(record, buffer, size, own, owner)):
            return "Too many bytes of this peer wait for the application"
        over = every + self._letters_against(owner, own + size) + size > settings.max_backlog_bytes
        if over and not (moves and self._may_move(record, buffer, size, every, None)):
            return "Too many bytes of all peers wait for the application"
        return None

    def full_of_letters(self, owner: str) -> bool:
        """Whether the dead letters of a peer fill its limit."""
        return bool(owner) and self._letters(owner) >= self._context.settings.max_backlog_bytes_per_peer

    def no_new_sequence(self, owner: str) -> str | None:
        """Why a peer may make no sequence now: what one leaves behind when it ends waits too."""
        settings = self._context.settings
        full = self._full_of_letters("", owner, None)
        if full is not None:
            return full
        own, every = self._waiting(owner)
        if owner and own + self._letters(owner) > settings.max_backlog_bytes_per_peer:
            return "Too many bytes of this peer wait for the application"
        if every + self._letters_against(owner, own) > settings.max_backlog_bytes:
            return "Too many bytes of all peers wait for the application"
        return None

    def crowded_by(self, owner: str) -> list[str | None]:
        """The limits that are more than half used: that of this owner, and that of all peers (``None``)."""
        settings = self._context.settings
        own, every = self._waiting(owner)
        crowded: list[str | None] = [owner] if owner and own > settings.max_backlog_bytes_per_peer // 2 else []
        return [*crowded, None] if every > settings.max_backlog_bytes // 2 else crowded

    def _full_of_letters(self, sequence: str, owner: str, most: int | None) -> str | None:
        """The refusal if dead letters alone fill a limit, which only an operator can change; the log names it."""
        settings, own, every = self._context.settings, self._letters(owner), self._letters(None)
        if most is not None and self._letters_of(sequence) >= most:
            whose = "this sequence"
        elif self.full_of_letters(owner):
            whose = "this peer"
        elif every >= settings.max_backlog_bytes and own > little(settings):
            whose = "all peers"
        else:
            return None
        if self._context.letters_log.allow("", self._now):
            log.warning(LOOK, own, every, extra={"sequence": sequence, "peer": owner})
        return LETTERS.format(whose)

    def _letters_against(self, owner: str, waiting: int) -> int:
        """The bytes of all peers' dead letters that count against the limit of all, for a peer with so many bytes.

        They do not count for a peer with few bytes: otherwise the dead letters of a few peers, which stay until an
        operator discards them, could exclude all other peers.
        """
        return self._letters(None) if waiting + self._letters(owner) > little(self._context.settings) else 0

    def _may_move(self, record: RmdRecord, buffer: InvokerRecord, size: int, much: int, owner: str | None) -> bool:
        """Whether the next message of its sequence is taken above the limit of an owner, or (``None``) of all.

        :param much: bytes that wait of those.
        """
        entire = buffer.machine.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
        if not entire and record.received_bytes - buffer.consumed_bytes >= size:
            return True
        if owner not in self._first:
            heard_after = self._now - self._context.settings.idle_sequence
            # Of nothing that waits, the first that comes in this batch is the oldest.
            self._first[owner] = self._tx.rmd.first_waiting(heard_after, owner) or record.identifier
        return self._first[owner] == record.identifier or not much

    def _letters(self, owner: str | None) -> int:
        """Bytes of the dead letters that an owner has caused, or all of them have."""
        return self._context.letters.owners.of(owner, self._now, lambda: self._tx.dead_letters.bytes(owner))

    def _letters_of(self, sequence: str) -> int:
        read = self._tx.dead_letters.bytes_of
        return self._context.letters.sequences.of(sequence, self._now, lambda: read(sequence))

    def _waiting(self, owner: str) -> tuple[int, int]:
        """The bytes that wait of an owner and in all, with what this batch has taken; with one query."""
        if owner not in self._asked:
            self._asked[owner] = self._tx.rmd.waiting_bytes(owner)
        own, every = self._asked[owner]
        return own + self._taken[owner], every + self._taken.total()


def _unblocks_rest(record: RmdRecord, buffer: InvokerRecord, number: int) -> bool:
    """Whether everything else of the sequence waits for this one."""
    if buffer.machine.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
        return number == record.machine.received.first_missing()  # nothing moves before all of it is here
    return number == buffer.machine.next
