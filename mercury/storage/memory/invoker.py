"""Invoker buffers in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from mercury.errors import Conflict
from mercury.statemachine.ranges import RangeSet
from mercury.storage import order
from mercury.storage.api import Topic
from mercury.storage.buffers import BufferPart
from mercury.storage.memory.committed import Committed
from mercury.storage.memory.invoker_committed import Buffer
from mercury.storage.memory.locks import HeldLocks
from mercury.storage.records import InboundMessage, InvokerRecord
from mercury.storage.sizes import ANY_BYTES, fitting


class MemoryInvoker:
    """`InvokerBufferManager` of one transaction."""

    def __init__(self, committed: Committed, locks: HeldLocks) -> None:
        self._mutex = committed.mutex
        self._locks = locks
        self._committed = committed.invoker
        self._next_position = committed.next_position
        self.inserted: list[InvokerRecord] = []
        self.added: list[InboundMessage] = []
        self.marked: list[tuple[InvokerRecord, tuple[int, ...], tuple[int, ...]]] = []
        self.deleted: list[str] = []
        #: The messages that the commit has removed.
        self.removed: list[InboundMessage] = []

    def insert(self, *records: InvokerRecord) -> None:
        self.inserted += [record.copy() for record in records]

    def add(self, messages: Sequence[InboundMessage]) -> None:
        self.added.extend(messages)

    def read(self, sequence: str) -> InvokerRecord | None:
        for record in self.inserted:
            if record.sequence == sequence:
                return record.copy()
        with self._mutex:
            buffer = self._committed.buffers.get(sequence)
            return buffer.record.copy() if buffer else None

    def read_many(self, sequences: Collection[str]) -> dict[str, InvokerRecord]:
        return {sequence: record for sequence in sequences if (record := self.read(sequence)) is not None}

    def lock(self, sequences: Collection[str]) -> dict[str, InvokerRecord]:
        self._locks.acquire(order.INVOKER, sequences)
        return self.read_many(sequences)

    def suspended(self) -> frozenset[str]:
        return frozenset()  # no operator works on this store

    def paused(self) -> frozenset[str]:
        return frozenset()  # no operator works on this store

    def expect(self, sequence: str, most: int, most_bytes: int = ANY_BYTES) -> None:
        """Nothing is far away here."""

    def part(self, sequence: str, low: int, high: int, most_bytes: int = ANY_BYTES) -> BufferPart:
        messages = self.messages(sequence, list(self.numbers(sequence, low, high).numbers()))
        fit = fitting([len(message.payload) for message in messages.values()], most_bytes)
        return BufferPart(self.markers(sequence), dict(islice(messages.items(), fit)))

    def parts(self, sequences: Collection[str], most: int, most_bytes: int = ANY_BYTES) -> dict[str, BufferPart]:
        found: dict[str, BufferPart] = {}
        taken = 0
        for sequence, record in sorted(self.read_many(sequences).items()):
            low = record.machine.next
            messages = self.messages(sequence, list(self.numbers(sequence, low, low + most - 1).numbers()))
            sizes = [len(message.payload) for message in messages.values()]
            fit = fitting(sizes, most_bytes, taken)
            taken += sum(sizes[:fit])
            part = BufferPart(self.markers(sequence), dict(islice(messages.items(), fit)))
            if part.markers or part.messages:
                found[sequence] = part
        return found

    def markers(self, sequence: str) -> list[InboundMessage]:
        with self._mutex:
            buffer = self._committed.buffers.get(sequence)
            return list(buffer.markers) if buffer else []

    def numbers(self, sequence: str, low: int = 1, high: int | None = None) -> RangeSet:
        with self._mutex:
            buffer = self._committed.buffers.get(sequence)
            if buffer is None:
                return RangeSet()
            found = buffer.numbers.copy()
        if low > 1:
            found.discard(1, low - 1)
        if high is not None and found.highest > high:
            found.discard(high + 1, found.highest)
        return found

    def messages(self, sequence: str, numbers: Sequence[int]) -> dict[int, InboundMessage]:
        with self._mutex:
            buffer = self._committed.buffers.get(sequence)
            rows = buffer.rows if buffer else {}
            return {number: rows[number] for number in numbers if number in rows}

    def oldest(self) -> float | None:
        with self._mutex:
            rows = (row for buffer in self._committed.buffers.values() for row in buffer.rows.values())
            return min((row.received_at for row in rows), default=None)

    def damaged(self, sequence: str) -> list[InboundMessage]:  # noqa: ARG002  rows in memory are never damaged
        return []

    def save_delivered(
        self, record: InvokerRecord, *, consumed: Iterable[int], markers: Sequence[InboundMessage] = ()
    ) -> None:
        self._locks.acquire(order.INVOKER, [record.sequence])
        with self._mutex:
            buffer = self._committed.buffers.get(record.sequence)
            if buffer is None or buffer.record.version != record.version:
                raise Conflict(f"another transaction has delivered from the buffer of {record.sequence}")
        changed = record.copy()
        changed.version += 1
        changed.machine = changed.machine.without_messages()
        self.marked.append((changed, tuple(consumed), tuple(marker.position for marker in markers)))

    def save_in_order(self, records: Collection[InvokerRecord]) -> None:
        for record in sorted(records, key=lambda record: record.sequence):
            waiting = self.numbers(record.sequence, 1, record.machine.next - 1)
            self.save_delivered(record, consumed=waiting.numbers())

    def save_locked(self, records: Collection[InvokerRecord]) -> None:
        for record in records:
            self._locks.require(order.INVOKER, record.sequence)
            self.save_delivered(record, consumed=())

    def delete(self, sequence: str) -> None:
        self.deleted.append(sequence)

    def all(self) -> list[InvokerRecord]:
        with self._mutex:
            return [buffer.record.copy() for buffer in self._committed.buffers.values()]

    # --- the end of the transaction, under the store's mutex -------------------------------------------------------

    def check(self) -> None:
        for record, _, _ in self.marked:
            # The lock excludes other deliveries, but not a deletion of the buffer.
            if record.sequence not in self._committed.buffers:
                raise Conflict(f"the buffer of {record.sequence} was deleted meanwhile")

    def install(self) -> set[Topic]:
        committed = self._committed
        touched: list[str] = []
        for record in self.inserted:
            committed.buffers[record.sequence] = Buffer(record)
        for message in self.added:
            buffer = committed.buffers.get(message.sequence)
            if buffer is not None:
                buffer.add(message, self._next_position())
                touched.append(message.sequence)
        for record, consumed, markers in self.marked:
            self.removed += committed.buffers[record.sequence].deliver(record, consumed, markers)
            committed.mark_served(record.owner, record.sequence)
            touched.append(record.sequence)
        for sequence in self.deleted:
            gone = committed.buffers.pop(sequence, None)
            self.removed += gone.rows.values() if gone is not None else ()
        for sequence in touched:
            if sequence in committed.buffers:
                committed.mark_ready(committed.buffers[sequence])
        return {Topic.INVOKER} if touched or self.deleted else set()

    def savepoint(self) -> tuple[int, int, int, int]:
        return len(self.inserted), len(self.added), len(self.marked), len(self.deleted)

    def rollback_to(self, saved: tuple[int, int, int, int]) -> None:
        inserted, added, marked, deleted = saved
        del self.inserted[inserted:]
        del self.added[added:]
        del self.marked[marked:]
        del self.deleted[deleted:]
