"""What those ask of a store who look after it: operators after dead letters, retention after what is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mercury.storage.records import DeadLetter, LetterCount, LetterFilter


class DeadLetterManager(Protocol):
    """Messages that can not be delivered."""

    def add(self, letters: Sequence[DeadLetter]) -> None: ...

    def all(self) -> list[DeadLetter]:
        """All, the oldest first."""

    def find(self, which: LetterFilter, limit: int | None = None) -> list[DeadLetter]:
        """Those that a filter means, as committed, the oldest first; at most ``limit``."""

    def count(self, which: LetterFilter) -> list[LetterCount]:
        """How many a filter means, alike ones together, the most first."""

    def delete(self, identifier: str) -> DeadLetter | None:
        """Remove and return one."""


class Sweeper(Protocol):
    """Removes what is over. What a peer could still ask for goes with its sequence, which has a tombstone."""

    def sweep(self, *, kept_before: float, idle_before: float, limit: int) -> int:
        """Remove what nobody needs any more: at most ``limit`` of each kind, each kind in a transaction of its own.

        Gone are the correlations of messages that arrived before ``kept_before``; claims that nobody has held since
        ``idle_before``; empty buffers whose sequence is forgotten; keys without a sequence and without a message.

        :returns: how many of the kind of which there were most: with ``limit`` there may be more.
        :raises StorageError: the store failed; some kinds may be gone.
        """
