"""Invoker buffers in memory."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from mercury.errors import Conflict
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.tables import InvokerState
from mercury.storage import order
from mercury.storage.api import Topic
from mercury.storage.copies import shallow
from mercury.storage.records import InboundKind, InboundMessage, InvokerRecord

if TYPE_CHECKING:
    from mercury.storage.memory.store import MemoryTransaction

#: Whether whoever asks may have the work on a resource of a service.
Free = Callable[[str, str | None], bool]


class Buffer:
    """One buffer as committed."""

    def __init__(self, record: InvokerRecord) -> None:
        self.record = record
        self.rows: dict[int, InboundMessage] = {}
        self.numbers = RangeSet()
        self.markers: list[InboundMessage] = []
        #: The number of the message that said it is the last one.
        self.last: int | None = None

    def add(self, message: InboundMessage, position: int) -> None:
        if message.kind is InboundKind.MESSAGE:
            self.rows[message.number] = message
            self.numbers.add(message.number)
            if message.last:
                self.last = message.number
        else:
            self.markers.append(replace(message, position=position))

    def remove(self, number: int) -> None:
        if self.rows.pop(number, None) is not None:
            self.numbers.discard(number)

    def releasable(self) -> bool:
        """Whether a worker would find something to do: a marker, or a message that may be delivered."""
        if self.markers:
            return True
        if not self.rows or self.record.machine.in_progress:
            return bool(self.rows)
        machine = shallow(self.record.machine)
        machine.buffered = self.numbers
        if machine.last is None:
            machine.last = self.last
        return next(machine.releasable(), None) is not None


class CommittedInvoker:
    """What is committed of invoker buffers."""

    def __init__(self) -> None:
        self.buffers: dict[str, Buffer] = {}
        #: Buffers that may have something releasable; a superset, cleaned when it is asked.
        self.ready: dict[str, None] = {}

    def waits_for(self, record: InvokerRecord) -> bool:
        """Whether the sequence that this one carries on still has something to deliver."""
        before = self.buffers.get(record.follows) if record.follows else None
        return before is not None and (
            before.record.machine.state is not InvokerState.DONE or bool(before.rows or before.markers)
        )

    def idle(self, sequence: str) -> bool:
        """Whether the buffer of a sequence has nothing left to do; so has none at all."""
        buffer = self.buffers.get(sequence)
        if buffer is None:
            return True
        machine = buffer.record.machine
        return machine.state is InvokerState.DONE and not (machine.in_progress or buffer.rows or buffer.markers)

    def forget(self, sequences: Container[str], limit: int) -> int:
        """Remove empty buffers of sequences that are not among these. Returns how many."""
        empty = (name for name, buffer in self.buffers.items() if not buffer.rows and not buffer.markers)
        gone = list(islice((name for name in empty if name not in sequences), limit))
        for name in gone:
            del self.buffers[name]
        return len(gone)

    def bring_forward(self, now: float, longest: float) -> int:
        """Let the messages be tried again whose next attempt is farther ahead than ``longest``. Returns how many."""
        found = 0
        for buffer in self.buffers.values():
            if buffer.record.retry_at is not None and buffer.record.retry_at > now + longest:
                buffer.record = buffer.record.copy()
                buffer.record.retry_at = now
                found += 1
        return found

    def due(self, now: float, limit: int, free: Free) -> list[str]:
        found: list[str] = []
        for sequence in list(self.ready):
            buffer = self.buffers.get(sequence)
            if buffer is None or not buffer.releasable():
                del self.ready[sequence]
                continue
            retry_at = buffer.record.retry_at
            ripe = retry_at is None or retry_at <= now
            if ripe and not self.waits_for(buffer.record) and free(f"invoker {sequence}", buffer.record.service):
                found.append(sequence)
                if len(found) == limit:
                    break
        return found

    def next_due(self, free: Free | None) -> float | None:
        """A buffer that could be worked on at once counts as due for ever."""
        if not self.ready:
            return None
        buffers = (self.buffers[sequence] for sequence in self.ready if sequence in self.buffers)
        times = (
            buffer.record.retry_at or 0.0
            for buffer in buffers
            if buffer.releasable()
            and not self.waits_for(buffer.record)
            and (free is None or free(f"invoker {buffer.record.sequence}", buffer.record.service))
        )
        return min(times, default=None)


class MemoryInvoker:
    """`InvokerBufferManager` of one transaction."""

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction
        self._committed = transaction.store.invoker
        self.inserted: list[InvokerRecord] = []
        self.added: list[InboundMessage] = []
        self.marked: list[tuple[InvokerRecord, tuple[int, ...], tuple[int, ...]]] = []
        self.deleted: list[str] = []

    def insert(self, record: InvokerRecord) -> None:
        self.inserted.append(record.copy())

    def add(self, messages: Sequence[InboundMessage]) -> None:
        self.added.extend(messages)

    def expect(self, sequences: Iterable[str]) -> None:
        """Reading one by one costs nothing here."""

    def expect_messages(self, sequence: str, low: int, high: int) -> None:
        """Reading one by one costs nothing here."""

    def read(self, sequence: str) -> InvokerRecord | None:
        for record in self.inserted:
            if record.sequence == sequence:
                return record.copy()
        with self._tx.store.mutex:
            buffer = self._committed.buffers.get(sequence)
            return buffer.record.copy() if buffer else None

    def markers(self, sequence: str) -> list[InboundMessage]:
        with self._tx.store.mutex:
            buffer = self._committed.buffers.get(sequence)
            return list(buffer.markers) if buffer else []

    def numbers(self, sequence: str, low: int = 1, high: int | None = None) -> RangeSet:
        with self._tx.store.mutex:
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
        with self._tx.store.mutex:
            buffer = self._committed.buffers.get(sequence)
            rows = buffer.rows if buffer else {}
            return {number: rows[number] for number in numbers if number in rows}

    def oldest(self) -> float | None:
        with self._tx.store.mutex:
            rows = (row for buffer in self._committed.buffers.values() for row in buffer.rows.values())
            return min((row.received_at for row in rows), default=None)


    def damaged(self, sequence: str) -> list[InboundMessage]:  # noqa: ARG002  memory gives back what it was given
        return []

    def mark(self, record: InvokerRecord, *, consumed: Iterable[int], markers: Sequence[InboundMessage] = ()) -> None:
        self._tx.locks.acquire(order.INVOKER, [record.sequence])
        with self._tx.store.mutex:
            buffer = self._committed.buffers.get(record.sequence)
            if buffer is None or buffer.record.version != record.version:
                raise Conflict(f"the buffer of {record.sequence} was delivered from by somebody else")
        changed = record.copy()
        changed.version += 1
        changed.machine.buffered = RangeSet()  # derived from the rows each time it is read
        self.marked.append((changed, tuple(consumed), tuple(marker.position for marker in markers)))

    def delete(self, sequence: str) -> None:
        self.deleted.append(sequence)

    def all(self) -> list[InvokerRecord]:
        with self._tx.store.mutex:
            return [buffer.record.copy() for buffer in self._committed.buffers.values()]

    # --- the end of the transaction, under the store's mutex -------------------------------------------------------

    def check(self) -> None:
        for record, _, _ in self.marked:
            # The lock keeps out other marks, not a deletion.
            if record.sequence not in self._committed.buffers:
                raise Conflict(f"the buffer of {record.sequence} was forgotten meanwhile")

    def install(self) -> set[Topic]:
        committed = self._committed
        touched: list[str] = []
        for record in self.inserted:
            committed.buffers[record.sequence] = Buffer(record)
        for message in self.added:
            buffer = committed.buffers.get(message.sequence)
            if buffer is not None:
                buffer.add(message, self._tx.store.next_position())
                touched.append(message.sequence)
        for record, consumed, markers in self.marked:
            buffer = committed.buffers[record.sequence]
            buffer.record = record
            for number in consumed:
                buffer.remove(number)
            buffer.markers = [marker for marker in buffer.markers if marker.position not in markers]
            committed.ready.pop(record.sequence, None)  # it has had its turn
            touched.append(record.sequence)
        for sequence in self.deleted:
            committed.buffers.pop(sequence, None)
        for sequence in touched:
            committed.ready[sequence] = None
        return {Topic.INVOKER} if touched or self.deleted else set()

    def savepoint(self) -> tuple[int, int, int, int]:
        return len(self.inserted), len(self.added), len(self.marked), len(self.deleted)

    def rollback_to(self, saved: tuple[int, int, int, int]) -> None:
        inserted, added, marked, deleted = saved
        del self.inserted[inserted:]
        del self.added[added:]
        del self.marked[marked:]
        del self.deleted[deleted:]
