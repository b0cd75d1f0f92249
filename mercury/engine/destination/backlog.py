"""Limits on the bytes of undelivered messages and of dead letters: for one sequence, for one peer, and for all peers.

Above a limit a new message is refused as busy, and its source retransmits it. The undelivered bytes of a sequence are
the difference of two counters in records that are written anyway: the bytes received (`RmdRecord.received_bytes`) and
the bytes that have left the buffer (`InvokerRecord.consumed_bytes`). Dead letters count until an operator discards or
redrives them; the store is queried for their sum when a sequence has more than its share of them.

The next deliverable message of a sequence is accepted above the limit of the sequence, because the others wait for it.
Above the limit of its peer, or of all peers, it is accepted in four cases only: at least as many bytes as it has wait
in its sequence, so it can at most double them; nothing of that peer (or of all peers) waits yet; its sequence is the
oldest one with undelivered messages; or it is a response that a request of this side waits for, and nothing else of its
sequence waits. The last case is needed because the requests of that peer may wait until its responses are acknowledged:
two nodes that send requests to each other would wait for each other. So there is always progress: the message that the
oldest sequence needs is accepted when it arrives, and the sequence is delivered. If its source is silent for
`engine.idle_sequence`, the next sequence counts as the oldest. A sequence with DiscardEntireSequence is not delivered
before it is complete: the first case does not apply to it.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from mercury.engine.backlog_share import sequence_limit, share, small_amount, unblocks_rest
from mercury.engine.stage_room import FULL
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.storage.records import InvokerRecord, RmdRecord

if TYPE_CHECKING:
    from mercury.engine.context import EngineContext
    from mercury.storage.api import Transaction

log = logging.getLogger("mercury.engine.reception")

#: Responses that no request waits for become dead letters: of one sequence, at most this part of `max_backlog_bytes`.
STRAY_PART = 16
#: The reason of a refusal while dead letters alone fill a limit.
FULL_OF_LETTERS = "Too many bytes of {} are dead letters here, which an operator has to look at"
#: The log text for the operator.
FULL_OF_LETTERS_LOG = (
    "the dead letters of a peer take %d bytes, those of all peers %d: a limit is reached, and what would add to them "
    "is refused as busy; look at them with `mercury dlq list`, then `mercury dlq redrive` or `mercury dlq discard`"
)


class Backlog:
    """The limits on stored bytes, for one batch of arrivals."""

    def __init__(self, context: EngineContext, tx: Transaction, now: float) -> None:
        self._context = context
        self._tx = tx
        self._now = now
        #: The undelivered bytes in the store, of an owner and in all.
        self._stored_bytes: dict[str, tuple[int, int]] = {}
        #: The oldest sequence with undelivered messages, of an owner or (``None``) of all.
        self._oldest: dict[str | None, str] = {}
        #: The bytes that this batch has accepted so far, by owner and in all; they are not in the store yet.
        self._taken: Counter[str] = Counter()
        self._taken_of_all = 0
        #: The messages that this batch has accepted so far.
        self._messages = 0
        #: The bytes of dead letters, by owner (``None`` = of all) and by sequence: the same for the whole batch.
        self._letters_by_owner: dict[str | None, int] = {}
        self._letters_by_sequence: dict[str, int] = {}

    def take(self, record: RmdRecord, size: int) -> None:
        """Count a message that is put into the buffer of a locked sequence.

        :param size: its bytes.
        """
        record.received_bytes += size
        self._taken[record.owner] += size
        self._taken_of_all += size
        self._messages += 1
        stage = self._context.stage
        if stage is not None and self._messages == 1:
            self._tx.after_commit(lambda: stage.change(self._messages))

    def refusal(
        self, record: RmdRecord, buffer: InvokerRecord, number: int, size: int, *, stray: bool | None = None
    ) -> str | None:
        """The reason to refuse a new message of ``size`` bytes as busy; ``None`` = it is accepted.

        :param stray: for a response, whether no request waits for it; ``None`` = not known, or it is a request. Only a
            stray response may become a dead letter here. It has no share: otherwise a server could use up a share on
            each of any number of offered sequences.
        """
        policy = self._context.application.policy(record.service)
        moves = unblocks_rest(record, buffer, number)
        waiting = record.received_bytes - buffer.consumed_bytes
        stage = self._context.stage
        if not moves and stage is not None and stage.is_full(self._messages):
            return FULL
        limit = None if moves else sequence_limit(policy, record, buffer, size)
        if limit is not None:
            return limit
        if not stray and waiting + buffer.letter_bytes + size <= share(self._context.settings):
            return None
        if stray is not False:
            most = policy.max_backlog_bytes // (STRAY_PART if stray else 1)
            full = self._full_of_letters(record.identifier, record.owner, most)
            if full is not None:
                return full
        owner, settings = record.owner, self._context.settings
        if moves and stray is False and not waiting:
            return None
        own, every = self._waiting(owner)
        over = bool(owner) and own + self._letters(owner) + size > settings.max_backlog_bytes_per_peer
        if over and not (moves and self._may_exceed(record, buffer, size, own, owner)):
            return "Too many bytes of this peer wait for the application"
        over = every + self._letters_against(owner, own + size) + size > settings.max_backlog_bytes
        if over and not (moves and self._may_exceed(record, buffer, size, every, None)):
            return "Too many bytes of all peers wait for the application"
        return None

    def left(self, record: RmdRecord, buffer: InvokerRecord) -> int | None:
        """The bytes that the limits on its peer and on all peers leave to a sequence; ``None`` = it has not used up its
        share, which these limits leave to it in any case."""
        settings, owner = self._context.settings, record.owner
        if record.received_bytes - buffer.consumed_bytes + buffer.letter_bytes <= share(settings):
            return None
        own, every = self._waiting(owner)
        left = settings.max_backlog_bytes - every - self._letters_against(owner, own)
        if owner:
            left = min(left, settings.max_backlog_bytes_per_peer - own - self._letters(owner))
        return max(0, left)

    def full_of_letters(self, owner: str) -> bool:
        """Whether the dead letters of a peer fill its limit."""
        return bool(owner) and self._letters(owner) >= self._context.settings.max_backlog_bytes_per_peer

    def creation_refusal(self, owner: str) -> str | None:
        """The reason to refuse CreateSequence of a peer; ``None`` = none. The undelivered messages of ended sequences
        count
        too."""
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
        """The reason of a refusal if dead letters alone fill a limit, which is also logged: only an operator can
        remove them."""
        settings, own, every = self._context.settings, self._letters(owner), self._letters(None)
        if most is not None and self._letters_of(sequence) >= most:
            whose = "this sequence"
        elif self.full_of_letters(owner):
            whose = "this peer"
        elif every >= settings.max_backlog_bytes and own > small_amount(settings):
            whose = "all peers"
        else:
            return None
        if self._context.letters_log.allow("", self._now):
            log.warning(FULL_OF_LETTERS_LOG, own, every, extra={"sequence": sequence, "peer": owner})
        return FULL_OF_LETTERS.format(whose)

    def _letters_against(self, owner: str, waiting: int) -> int:
        """The bytes of all peers' dead letters that count against the limit of all, for a peer with ``waiting`` bytes.

        They do not count for a peer with few bytes: otherwise the dead letters of a few peers, which stay until an
        operator discards them, could exclude all other peers.
        """
        return self._letters(None) if waiting + self._letters(owner) > small_amount(self._context.settings) else 0

    def _may_exceed(self, record: RmdRecord, buffer: InvokerRecord, size: int, waiting: int, owner: str | None) -> bool:
        """Whether the next message of its sequence is taken above the limit of an owner, or (``None``) of all.

        :param waiting: the undelivered bytes of the owner, or of all.
        """
        entire = buffer.machine.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
        if not entire and record.received_bytes - buffer.consumed_bytes >= size:
            return True
        if owner not in self._oldest:
            heard_after = self._now - self._context.settings.idle_sequence
            # If nothing is undelivered, the first sequence in this batch is the oldest.
            self._oldest[owner] = self._tx.rmd.first_waiting(heard_after, owner) or record.identifier
        return self._oldest[owner] == record.identifier or not waiting

    def _letters(self, owner: str | None) -> int:
        """Bytes of the dead letters that an owner has caused, or (``None``) that all have."""
        if owner not in self._letters_by_owner:
            read = self._tx.dead_letters.bytes
            self._letters_by_owner[owner] = self._context.letters.owners.of(owner, self._now, lambda: read(owner))
        return self._letters_by_owner[owner]

    def _letters_of(self, sequence: str) -> int:
        if sequence not in self._letters_by_sequence:
            read, letters = self._tx.dead_letters.bytes_of, self._context.letters.sequences
            self._letters_by_sequence[sequence] = letters.of(sequence, self._now, lambda: read(sequence))
        return self._letters_by_sequence[sequence]

    def _waiting(self, owner: str) -> tuple[int, int]:
        """The undelivered bytes of an owner and of all, including what this batch has accepted; by one query."""
        if owner not in self._stored_bytes:
            self._stored_bytes[owner] = self._tx.rmd.waiting_bytes(owner)
        own, every = self._stored_bytes[owner]
        return own + self._taken[owner], every + self._taken_of_all
