"""The part of the storage API between destination sequences and the application: their invoker buffers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mercury.statemachine.ranges import RangeSet
from mercury.storage.maintenance import BufferAges
from mercury.storage.records import InboundMessage, InvokerRecord
from mercury.storage.sizes import ANY_BYTES


@dataclass(frozen=True, slots=True)
class BufferPart:
    """A part of an invoker buffer, as one read returns it."""

    #: The rows of kind END and CUT, in order of insertion.
    markers: list[InboundMessage]
    #: Messages by number, bodies included.
    messages: dict[int, InboundMessage]


class InvokerBufferManager(BufferAges, Protocol):
    """Buffers between destination sequences and the application."""

    def insert(self, *records: InvokerRecord) -> None:
        """Insert the buffers of new sequences."""

    def add(self, messages: Sequence[InboundMessage]) -> None:
        """Insert rows without locking any buffer: a slow handler never stalls reception (decision 8)."""

    def read(self, sequence: str) -> InvokerRecord | None:
        """The committed record, without a lock."""

    def read_many(self, sequences: Collection[str]) -> dict[str, InvokerRecord]:
        """The committed records of these sequences, without a lock; a sequence without a buffer has no entry."""

    def lock(self, sequences: Collection[str]) -> dict[str, InvokerRecord]:
        """Lock these buffers and read their records; a sequence without a buffer has no entry, nor one whose buffer was
        left out (``only_free`` of `RMDSequenceManager.lock`). The locks come after those of RMD sequences, and before
        those of RMS keys.

        :raises TransientStorageError: a lock was not acquired within the store's limit.
        """

    def suspended(self) -> frozenset[str]:
        """Those of the buffers that `lock` has read whose sequences an operator had suspended when it was read."""

    def paused(self) -> frozenset[str]:
        """The services whose handlers are not called, because an operator has paused them. Takes no lock."""

    def expect(self, sequence: str, most: int, most_bytes: int = ANY_BYTES) -> None:
        """Say that the next reads are those of a buffer, of its sequence, and of its first ``most`` numbers (`part`
        with the same ``most_bytes``): a store may make all of them now."""

    def part(self, sequence: str, low: int, high: int, most_bytes: int = ANY_BYTES) -> BufferPart:
        """The markers, and the waiting messages between ``low`` and ``high``, both included.

        :param most_bytes: a store leaves out the messages with which the bodies have more bytes, except the lowest.
        """

    def parts(self, sequences: Collection[str], most: int, most_bytes: int = ANY_BYTES) -> dict[str, BufferPart]:
        """The first part of each of these buffers as committed: its markers, and its waiting messages among the
        ``most`` numbers from the next one (`InvokerBuffer.next`).

        :param most_bytes: a store leaves out the messages with which the bodies of all parts have more bytes. A buffer
            of which nothing is returned has no entry.
        """

    def markers(self, sequence: str) -> list[InboundMessage]:
        """The rows of kind END and CUT, in order of insertion."""

    def numbers(self, sequence: str, low: int = 1, high: int | None = None) -> RangeSet:
        """The numbers of the waiting messages between ``low`` and ``high``, both included."""

    def messages(self, sequence: str, numbers: Sequence[int]) -> dict[int, InboundMessage]:
        """The waiting messages with these numbers, bodies included."""

    def damaged(self, sequence: str) -> list[InboundMessage]:
        """The damaged rows of this buffer, markers included, and those that belong to no buffer. Reads the whole
        buffer."""

    def save_delivered(
        self, record: InvokerRecord, *, consumed: Iterable[int], markers: Sequence[InboundMessage] = ()
    ) -> None:
        """Lock the buffer, save ``record``, and delete the consumed messages and ``markers``.

        The stored version must be the one that ``record`` was read with; the update increases it by one.

        :raises Conflict: the stored version is another one. The transaction must be rolled back.
        """

    def save_in_order(self, records: Collection[InvokerRecord]) -> None:
        """As `save_delivered` for each of these buffers, whose messages below `InvokerBuffer.next` are consumed."""

    def save_locked(self, records: Collection[InvokerRecord]) -> None:
        """Save buffers that `lock` has locked and returned. No consumed message of them is in the store.

        :raises LockOrderError: one of them is not locked.
        """

    def delete(self, sequence: str) -> None:
        """Delete a buffer and its rows."""

    def all(self) -> list[InvokerRecord]:
        """All records, as committed."""
