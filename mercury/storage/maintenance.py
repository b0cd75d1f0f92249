"""Interfaces of a store for operators (dead letters) and for retention."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mercury.storage.claims import WorkFilter
from mercury.storage.letters import DeadLetter, LetterCount, LetterFilter
from mercury.storage.records import SequenceKey


class DeadLetterManager(Protocol):
    """Messages that cannot be delivered."""

    def add(self, letters: Sequence[DeadLetter]) -> None: ...

    def all(self) -> list[DeadLetter]:
        """All dead letters, the oldest first."""

    def find(self, which: LetterFilter, limit: int | None = None) -> list[DeadLetter]:
        """The dead letters that match a filter, as committed, the oldest first; at most ``limit``."""

    def count(self, which: LetterFilter) -> list[LetterCount]:
        """The numbers of dead letters that match a filter, grouped, the highest number first."""

    def delete(self, identifier: str) -> DeadLetter | None:
        """Remove and return one; ``None`` = it does not exist."""

    def discard(self, which: LetterFilter, limit: int) -> int | None:
        """Remove the oldest letters that match a filter, at most ``limit``, without reading their bodies.

        :returns: their number, without those that another transaction takes meanwhile; ``None`` = none matches.
        """

    def bytes(self, owner: str | None = None) -> int:
        """The sum of `DeadLetter.size` over the dead letters of one peer (`DeadLetter.owner`), or (``None``) of all
        peers; as committed. Reads all these rows: too slow to call for every message.
        """

    def bytes_of(self, sequence: str) -> int:
        """The same sum over the dead letters of one sequence that have an owner."""


class ReplayCache(Protocol):
    """The messages with WS-Security that were received, to refuse a copy (WS-Security 1.1, section 11)."""

    def add(self, digests: Mapping[str, float]) -> frozenset[str]:
        """Record messages, each by a digest that only its copies have, and return those that were recorded before.

        If two transactions add the same digest, one of them gets it returned, or its commit raises `Conflict`. A
        digest that was only recorded by a transaction that was rolled back is not returned.

        :param digests: by digest, the time after which a copy is refused without this record (seconds since the
            epoch). `RetentionStore.sweep` deletes the record after it.
        """


#: Seconds by which the clocks of processes that share a store may differ before `advance_overdue` changes anything.
SKEW = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """The longest delay of each kind of work, in seconds."""

    #: A claim, unless it is prolonged.
    lease: float
    #: A message whose handler failed.
    redelivery: float
    #: An acknowledgement.
    acknowledgement: float


class BufferAges(Protocol):
    """The age of the oldest received message that waits."""

    def oldest(self) -> float | None:
        """The time of arrival of the message that waits longest for the application, as committed; ``None`` = none
        waits."""


class EndedSequences(Protocol):
    """Tombstones of the sequences that peers have made."""

    def ended_count(self, owner: str | None = None, since: float | None = None, *, given_up: bool | None = None) -> int:
        """The number of tombstones: all, or those of one owner (`RmdRecord.owner`).

        :param since: only those that ended at this time or later.
        :param given_up: only those that were given up to make room (`RmdRecord.given_up`), or were not; ``None`` = all.
        """

    def most_ended(self) -> tuple[str, int]:
        """The owner with most tombstones and their number, as committed; ``("", 0)`` = no tombstones."""

    def ended(self, before: float, limit: int, owner: str | None = None, *, given_up: bool = False) -> list[str]:
        """Tombstones (all, or one owner's) of sequences that ended before a time and whose buffer has nothing left to
        do.

        Those of the owner with most tombstones come first, and of one owner the oldest.

        :param given_up: ``True`` = those that were given up to make room (`RmdRecord.given_up`), ``False`` = the
        others.
        """


class OpenSequences(Protocol):
    """Open sequences of peers that may have to end, and the backlog for the application of all sequences."""

    def idle(self, heard_before: float, limit: int, owner: str | None = None, *, waiting: bool = False) -> list[str]:
        """Open sequences of peers (or of one owner) without a message since ``heard_before``; the oldest first.

        :param waiting: only those with messages that wait for the application.
        """

    def crowding(self, limit: int, *, unused_before: float, heard_before: float) -> list[tuple[str, int]]:
        """Open sequences of peers with no message that waits for the application; as committed.

        First those that were never used; then those of the owner with the most open sequences, and of one owner the
        longest silent ones. Each with the number of open sequences of its owner. Reads all open sequences: call it
        only when there are too many.

        :param unused_before: a sequence that was never used counts if it has been silent since before this time.
        :param heard_before: any other sequence counts if it has been silent since before this time.
        """

    def first_waiting(self, heard_after: float, owner: str | None = None) -> str | None:
        """The oldest sequence (or the oldest of one owner) whose messages wait for the application, as committed.

        :param heard_after: a sequence that has been silent since before this time does not count.
        """

    def waiting_bytes(self, owner: str) -> tuple[int, int]:
        """Bytes (`InboundMessage.size`) of the waiting messages of one owner (`RmdRecord.owner`), and of all owners; as
        committed.

        Ended sequences count too. A sequence without a buffer or a record does not count. Reads all sequences: too slow
        to call for every message.
        """


class RowAges(Protocol):
    """The age of the oldest message that waits to be acknowledged."""

    def oldest_unacknowledged(self) -> float | None:
        """The time at which the oldest unacknowledged message was handed over, as committed; ``None`` = there is
        none."""

    def response_bytes(self, owner: str | None = None) -> int:
        """Bytes of unacknowledged responses (`OutboundMessage.size`), as committed: for one owner
        (`OutboundMessage.owner`), or (``None``) for all owners. Reads all these rows: too slow to call for every
        message.
        """

    def response_bytes_of(self, owner: str, keys: Collection[SequenceKey]) -> int:
        """The same for one owner, of the responses under some keys."""


class RetentionStore(Protocol):
    """Removes rows whose retention time has passed.

    Rows that a peer may still request are removed with the tombstone of their sequence.
    """

    def advance_overdue(self, now: float, longest: Pauses) -> int:
        """Make work due that a clock which ran ahead has delayed for longer than any work is ever delayed.

        These are sequences whose ``due`` was computed at a future time, acknowledgements and messages whose next
        attempt is farther ahead than ``longest``, and claims on sequences that last for more than twice the lease.
        Listeners are called if something was found.

        :returns: the number of rows that were changed.
        :raises TransientStorageError: a lock was not acquired in time.
        """

    def sweep(self, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0) -> int:
        """Remove rows that are not needed any more: at most ``limit`` of each kind, each kind in a separate
        transaction.

        These are correlations of messages settled before ``kept_before``, claims without a holder and nodes that were
        not seen since ``idle_before``, empty buffers without a sequence, and keys without a sequence and without a
        message; and the entries of the audit before ``audit_before`` that are its oldest.

        :returns: the highest number of rows removed of one kind; if it is ``limit``, there may be more.
        :raises StorageError: the store failed; rows of some kinds may be removed.
        """

    @property
    def has_attachments(self) -> bool:
        """Whether this process has written or read pieces of attachments since `remove_attachments` found none."""

    def remove_attachments(self, limit: int) -> int:
        """Remove the pieces of at most ``limit`` attachments that no message and no dead letter has any more.

        :returns: how many were removed; if it is ``limit``, there may be more.
        :raises StorageError: the store failed; some may be removed.
        """

    def stuck_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:
        """Sequences whose buffer has rows but no releasable one: usually because the peer has yet to fill a gap.

        Also those without rows that are not done although the sequence has ended. While there are damaged rows that
        belong to no buffer, every buffer that is not done counts. A store whose rows cannot be damaged returns none.

        :param work_filter: as for `due_invoker`.
        """
