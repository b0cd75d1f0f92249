"""Interfaces of a store for operators (dead letters) and for retention."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from mercury.storage.claims import WorkFilter
from mercury.storage.letters import LetterBytes, LetterCount, LetterFilter
from mercury.storage.records import DeadLetter, SequenceKey


class DeadLetterManager(Protocol):
    """Messages that cannot be delivered."""

    def add(self, letters: Sequence[DeadLetter]) -> None: ...

    def all(self) -> list[DeadLetter]:
        """All, the oldest first."""

    def find(self, which: LetterFilter, limit: int | None = None) -> list[DeadLetter]:
        """Those that a filter means, as committed, the oldest first; at most ``limit``."""

    def count(self, which: LetterFilter) -> list[LetterCount]:
        """How many a filter means, alike ones together, the most first."""

    def delete(self, identifier: str) -> DeadLetter | None:
        """Remove and return one."""

    def bytes(self, sequence: str, owner: str) -> LetterBytes:
        """What those take that peers have caused: of one sequence, of one owner, and of all; as committed.

        Reads them all: not for every message.
        """


#: Seconds: the clocks of processes that share a store may differ by so much without anything being brought forward.
SKEW = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long what is due later may be put off at most, in seconds."""

    #: A claim, unless it is prolonged.
    lease: float
    #: A message whose handler failed.
    redelivery: float
    #: An acknowledgement.
    acknowledgement: float


class BufferAges(Protocol):
    """The age of the oldest received message that waits."""

    def oldest(self) -> float | None:
        """When the message arrived that waits for the application longest, as committed; ``None`` = none waits."""


class EndedSequences(Protocol):
    """Ended sequences that peers have made and that are still remembered."""

    def ended_count(self, owner: str | None = None, since: float | None = None, *, given_up: bool | None = None) -> int:
        """How many there are: all, or those of one owner (`RmdRecord.owner`).

        :param since: only those that ended since then.
        :param given_up: only those that were given up to make room (`RmdRecord.given_up`), or were not; ``None`` = all.
        """

    def most_ended(self) -> tuple[str, int]:
        """The owner that has most of them, and how many; as committed. Without any: ``("", 0)``."""

    def ended(self, before: float, limit: int, owner: str | None = None, *, given_up: bool = False) -> list[str]:
        """Those (or one owner's) that ended before that and whose buffer has nothing left to do.

        Those of the owner with most ended ones first, and of one owner the oldest.

        :param given_up: those that were given up to make room (`RmdRecord.given_up`), or else those that were not.
        """


class OpenSequences(Protocol):
    """Which open sequences of peers may have to end, and what waits for the application behind all, open or not."""

    def idle(self, heard_before: float, limit: int, owner: str | None = None, *, waiting: bool = False) -> list[str]:
        """Sequences made by peers (or one owner), no tombstones, last heard of before that; the oldest first.

        :param waiting: only those with messages that wait for the application.
        """

    def crowding(self, limit: int, *, unused_before: float, heard_before: float) -> list[tuple[str, int]]:
        """Sequences made by peers, no tombstones, behind which nothing waits for the application; as committed.

        First those that were never used; then those of the owner with the most open sequences, and of one owner those
        last heard of longest ago. Each with the number that its owner has open. Reads all open sequences: only when
        there are too many.

        :param unused_before: those that were never used were last heard of before that.
        :param heard_before: the others were last heard of before that.
        """

    def first_waiting(self, heard_after: float, owner: str | None = None) -> str | None:
        """The oldest of the sequences (or of one owner's) whose messages wait for the application, as committed.

        :param heard_after: those that were last heard of before that do not count.
        """

    def waiting_bytes(self, owner: str) -> tuple[int, int]:
        """Bytes (`InboundMessage.size`) that wait of one owner (`RmdRecord.owner`), and of all; as committed.

        Ended sequences count too. Of a sequence whose buffer or record is gone nothing counts. Reads all sequences:
        not for every message.
        """


class RowAges(Protocol):
    """The age of the oldest message that waits to be acknowledged."""

    def oldest_unacknowledged(self) -> float | None:
        """When the message was handed over that is unacknowledged longest, as committed; ``None`` = none is."""

    def response_bytes(self, keys: Collection[SequenceKey], owner: str) -> tuple[int, int, int]:
        """Bytes of unacknowledged responses (`OutboundMessage.size`) under some keys, for one owner
        (`OutboundMessage.owner`), and for all that have an owner; as committed. Reads them all: not for every message.
        """


class RetentionStore(Protocol):
    """Removes rows that retention is over for.

    Rows that a peer may still ask for go with the tombstone of their sequence.
    """

    def advance_overdue(self, now: float, longest: Pauses) -> int:
        """Make due what a clock that was ahead has put off: its time is farther ahead than anything is ever put off.

        These are sequences whose plan was made in the future, acknowledgements and messages whose next attempt is
        farther ahead than ``longest`` says, and claims that last for more than twice the lease. Listeners are
        called when something was found.

        :returns: how many of them there were.
        :raises TransientStorageError: a lock was not got in time.
        """

    def sweep(self, *, kept_before: float, idle_before: float, limit: int) -> int:
        """Remove what nobody needs any more: at most ``limit`` of each kind, each kind in a transaction of its own.

        Gone are the correlations of messages that arrived before ``kept_before``; claims that nobody has held since
        ``idle_before``; empty buffers whose sequence is forgotten; keys without a sequence and without a message.

        :returns: how many of the kind of which there were most: with ``limit`` there may be more.
        :raises StorageError: the store failed; some kinds may be gone.
        """

    def stuck_invoker(self, now: float, limit: int, work_filter: WorkFilter | None = None) -> list[str]:
        """Sequences whose buffer has rows and nothing to release: usually behind a gap that the peer has yet to fill.

        While there are damaged rows that belong to no buffer, every buffer that is not done counts. A store that
        cannot give back anything else than it was given finds none.

        :param work_filter: as with `due_invoker`.
        """
