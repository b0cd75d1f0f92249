"""The committed invoker buffers in memory, with indexes for due work."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.tables import InvokerState
from mercury.storage.names import destination_claim
from mercury.storage.records import InboundKind, InboundMessage, InvokerRecord

#: Whether a worker may take the work on a resource of a service.
Free = Callable[[str, str | None], bool]


class Buffer:
    """One buffer as committed. Only its methods change it."""

    def __init__(self, record: InvokerRecord) -> None:
        self.record = record
        self.rows: dict[int, InboundMessage] = {}
        self.numbers = RangeSet()
        self.markers: list[InboundMessage] = []
        #: The number of the last message, if it is known.
        self.last: int | None = None
        #: Whether the buffer has work; ``None`` = not known since its last change.
        self._releasable: bool | None = None

    def add(self, message: InboundMessage, position: int) -> None:
        self._releasable = None
        if message.kind is InboundKind.MESSAGE:
            self.rows[message.number] = message
            self.numbers.add(message.number)
            if message.last:
                self.last = message.number
        else:
            self.markers.append(replace(message, position=position))

    def deliver(self, record: InvokerRecord, consumed: Iterable[int], markers: Container[int]) -> list[InboundMessage]:
        """Replace the record, and remove the messages with these numbers and the markers at these positions.

        Returns the messages.
        """
        self._releasable = None
        self.record = record
        self.markers = [marker for marker in self.markers if marker.position not in markers]
        found = [(number, self.rows.pop(number, None)) for number in consumed]
        for number, row in found:
            if row is not None:
                self.numbers.discard(number)
        return [row for _, row in found if row is not None]

    def retry_by(self, at: float) -> None:
        """Make its next message due at this time."""
        self.record = self.record.copy()
        self.record.retry_at = at

    def releasable(self) -> bool:
        """Whether the buffer has work: a marker, or a message that may be delivered."""
        if self._releasable is None:
            self._releasable = bool(self.markers) or self.record.machine.has_work(self.numbers, self.last)
        return self._releasable


class CommittedInvoker:
    """The committed invoker buffers."""

    def __init__(self) -> None:
        self.buffers: dict[str, Buffer] = {}
        #: By peer, the buffers that may have a releasable row, the one served longest ago first. A superset, which
        #: queries clean up.
        self.ready: dict[str, dict[str, None]] = {}

    def waits_for(self, record: InvokerRecord) -> bool:
        """Whether the predecessor of this sequence still has something to deliver."""
        before = self.buffers.get(record.follows) if record.follows else None
        return before is not None and (
            before.record.machine.state is not InvokerState.DONE or bool(before.rows or before.markers)
        )

    def idle(self, sequence: str) -> bool:
        """Whether the buffer of a sequence has nothing left to do; also true if it has no buffer."""
        buffer = self.buffers.get(sequence)
        if buffer is None:
            return True
        return buffer.record.machine.finished and not (buffer.rows or buffer.markers)

    def forget(self, sequences: Container[str], limit: int) -> int:
        """Remove empty buffers of sequences that are not among these. Returns the number removed."""
        empty = (name for name, buffer in self.buffers.items() if not buffer.rows and not buffer.markers)
        gone = list(islice((name for name in empty if name not in sequences), limit))
        for name in gone:
            del self.buffers[name]
        return len(gone)

    def advance_overdue(self, now: float, longest: float) -> int:
        """Make messages due whose next attempt is more than ``longest`` seconds ahead. Returns their number."""
        found = 0
        for buffer in self.buffers.values():
            if buffer.record.retry_at is not None and buffer.record.retry_at > now + longest:
                buffer.retry_by(now)
                found += 1
        return found

    def mark_ready(self, buffer: Buffer) -> None:
        """Note that a buffer may have a releasable row."""
        self.ready.setdefault(buffer.record.owner, {})[buffer.record.sequence] = None

    def mark_served(self, peer: str, sequence: str) -> None:
        """Note that a buffer was served or has no work: after the next `mark_ready` it is the last one of its peer."""
        ready = self.ready.get(peer, {})
        ready.pop(sequence, None)
        if not ready:
            self.ready.pop(peer, None)

    def due(self, now: float, limit: int, free: Free, after: str) -> dict[str, str]:
        if not self.ready:
            return {}
        found: dict[str, str] = {}
        names = sorted(self.ready)
        first = bisect_right(names, after)
        peers = [(peer, self._due_of(peer, now, free)) for peer in (*names[first:], *names[:first])]
        while peers:
            more = []
            for peer, sequences in peers:
                sequence = next(sequences, None)
                if sequence is None:
                    continue
                found[sequence] = peer
                if len(found) == limit:
                    return found
                more.append((peer, sequences))
            peers = more
        return found

    def _due_of(self, peer: str, now: float, free: Free) -> Iterator[str]:
        """The due buffers of one peer, the one served longest ago first."""
        for buffer in self._with_work(peer):
            record = buffer.record
            is_due = record.retry_at is None or record.retry_at <= now
            if is_due and not self.waits_for(record) and free(destination_claim(record.sequence), record.service):
                yield record.sequence

    def _with_work(self, peer: str) -> Iterator[Buffer]:
        """The buffers of one peer with a releasable row, the one served longest ago first; the others are left out of
        `ready`."""
        for sequence in list(self.ready[peer]):
            buffer = self.buffers.get(sequence)
            if buffer is not None and buffer.releasable():
                yield buffer
            else:
                self.mark_served(peer, sequence)

    def next_due(self, free: Free | None) -> float | None:
        """The earliest time at which a buffer with work is due; 0.0 = one can be worked on now, ``None`` = none has
        work."""
        earliest: float | None = None
        for peer in list(self.ready):
            for buffer in self._with_work(peer):
                at = buffer.record.retry_at or 0.0
                if (
                    (earliest is None or at < earliest)
                    and not self.waits_for(buffer.record)
                    and (free is None or free(destination_claim(buffer.record.sequence), buffer.record.service))
                ):
                    earliest = at
        return earliest
