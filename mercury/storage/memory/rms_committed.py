"""The committed source sequences in memory, with indexes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from mercury.statemachine.faults import Ranges
from mercury.storage.maintenance import SKEW
from mercury.storage.names import source_claim
from mercury.storage.records import OutboundKind, OutboundMessage, RmsRecord, SequenceKey
from mercury.storage.turns import HEAD_START, alternating, by_turns


def _remove(numbers: list[int], number: int) -> None:
    index = bisect_left(numbers, number)
    if index < len(numbers) and numbers[index] == number:
        del numbers[index]


@dataclass(slots=True)
class NumberedRows:
    """The rows of one sequence: number to position, and which of them still need transmission."""

    positions: dict[int, int] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    unsettled: list[int] = field(default_factory=list)

    def between(self, ranges: Ranges) -> Iterator[int]:
        for low, high in ranges:
            yield from self.numbers[bisect_left(self.numbers, low) : bisect_right(self.numbers, high)]


@dataclass(slots=True)
class KeyData:
    """The committed state of one internal key."""

    records: list[RmsRecord] = field(default_factory=list)
    rows: dict[int, OutboundMessage] = field(default_factory=dict)
    #: Positions of the rows without a number, ascending.
    waiting: list[int] = field(default_factory=list)
    #: Positions of the abandonments among these rows.
    abandoned: set[int] = field(default_factory=set)
    #: When those of these rows expire that do, by position.
    expiring: dict[int, float] = field(default_factory=dict)
    numbered: dict[str, NumberedRows] = field(default_factory=dict)


class CommittedRms:
    """The committed source sequences, with indexes."""

    def __init__(self) -> None:
        self.keys: dict[SequenceKey, KeyData] = {}
        self.by_identifier: dict[str, SequenceKey] = {}
        self.by_create: dict[str, SequenceKey] = {}
        #: By `RmsRecord.fetched_by`: the time and the key of each sequence.
        self.fetched: dict[str, dict[str, tuple[float, SequenceKey]]] = {}
        self.by_message_id: dict[str, tuple[SequenceKey, int]] = {}
        #: Responses by their request (`request_name`): usually one, two if a handler ran twice.
        self.responses: dict[str, dict[int, SequenceKey]] = {}
        #: Keys with rows that wait for a number.
        self.waiting: dict[SequenceKey, None] = {}
        self.times: dict[SequenceKey, float] = {}
        #: The priorities of keys that have one.
        self.priorities: dict[SequenceKey, int] = {}
        #: When the next row without a number of a key expires.
        self.expiring: dict[SequenceKey, float] = {}
        #: Bytes of unacknowledged responses: for each key and owner, for each owner, and for all owners.
        self.bytes_of_key: Counter[tuple[SequenceKey, str]] = Counter()
        self.bytes_of_owner: Counter[str] = Counter()
        self.response_bytes = 0

    def data(self, key: SequenceKey) -> KeyData:
        data = self.keys.get(key)
        if data is None:
            data = self.keys[key] = KeyData()
        return data

    def install_row(self, key: SequenceKey, data: KeyData, position: int, row: OutboundMessage | None) -> None:
        """Replace, add or (``None``) remove one row of a key, and update every index."""
        old = data.rows.get(position)
        if old is not None and row is not None and old.number == row.number and old.sequence_id == row.sequence_id:
            # Most changes only concern transmission or acknowledgement, and affect no other index.
            data.rows[position] = row
            if old.acknowledged is not row.acknowledged:
                self._count(key, old, row)
            if row.sequence_id is not None and row.number is not None and old.settled != row.settled:
                unsettled = data.numbered[row.sequence_id].unsettled
                if row.settled:
                    _remove(unsettled, row.number)
                else:
                    insort(unsettled, row.number)
            return
        self._count(key, old, row)
        if old is not None:
            if old.sequence_id is None or old.number is None:
                _remove(data.waiting, position)
                data.abandoned.discard(position)
                data.expiring.pop(position, None)
            else:
                rows = data.numbered[old.sequence_id]
                del rows.positions[old.number]
                _remove(rows.numbers, old.number)
                _remove(rows.unsettled, old.number)
            self.by_message_id.pop(old.message_id, None)
            if old.request is not None:
                others = self.responses[old.request]
                del others[position]
                if not others:
                    del self.responses[old.request]
        if row is None:
            data.rows.pop(position, None)
        else:
            data.rows[position] = row
            if row.sequence_id is None or row.number is None:
                insort(data.waiting, position)
                if row.kind is OutboundKind.ABANDON:
                    data.abandoned.add(position)
                if row.expires_at is not None:
                    data.expiring[position] = row.expires_at
            else:
                if row.sequence_id not in data.numbered:
                    data.numbered[row.sequence_id] = NumberedRows()
                rows = data.numbered[row.sequence_id]
                rows.positions[row.number] = position
                insort(rows.numbers, row.number)
                if not row.settled:
                    insort(rows.unsettled, row.number)
            self.by_message_id[row.message_id] = (key, position)
            if row.request is not None:
                self.responses.setdefault(row.request, {})[position] = key

    def _count(self, key: SequenceKey, old: OutboundMessage | None, new: OutboundMessage | None) -> None:
        for row, sign in ((old, -1), (new, 1)):
            if row is None or row.owner is None or row.acknowledged:
                continue
            size = sign * row.size
            self.response_bytes += size
            self.bytes_of_key[key, row.owner] += size
            self.bytes_of_owner[row.owner] += size
            if not self.bytes_of_key[key, row.owner]:
                del self.bytes_of_key[key, row.owner]
            if not self.bytes_of_owner[row.owner]:
                del self.bytes_of_owner[row.owner]

    def install_records(self, key: SequenceKey, records: list[RmsRecord]) -> None:
        data = self.data(key)
        before, data.records = data.records, records
        if len(before) != len(records) or not all(map(_named_alike, before, records)):
            for record in before:
                self._forget_names(record)
            for record in records:
                self._note_names(record, key)
        if len(data.numbered) > len(records) or not all(record.id in data.numbered for record in records):
            for sequence_id in data.numbered.keys() - {record.id for record in records}:
                if not data.numbered[sequence_id].positions:
                    del data.numbered[sequence_id]

    def _forget_names(self, record: RmsRecord) -> None:
        if record.machine.identifier is not None:
            self.by_identifier.pop(record.machine.identifier, None)
        self.by_create.pop(record.create_message_id, None)
        if record.fetched_by is not None:
            sequences = self.fetched[record.fetched_by]
            del sequences[record.id]
            if not sequences:
                del self.fetched[record.fetched_by]

    def _note_names(self, record: RmsRecord, key: SequenceKey) -> None:
        if record.machine.identifier is not None:
            self.by_identifier[record.machine.identifier] = key
        self.by_create[record.create_message_id] = key
        if record.fetched_by is not None and record.fetch_due is not None:
            self.fetched.setdefault(record.fetched_by, {})[record.id] = (record.fetch_due, key)

    def refresh(self, key: SequenceKey) -> None:
        """Update the indexes of one key's work; delete a key without sequences and rows."""
        data = self.keys[key]
        self.waiting.pop(key, None)
        self.times.pop(key, None)
        if self.expiring:
            self.expiring.pop(key, None)
        if self.priorities:
            self.priorities.pop(key, None)
        priority = self._priority(data)
        if priority:
            self.priorities[key] = priority
        if data.expiring:
            self.expiring[key] = min(data.expiring.values())
        if data.waiting and (data.abandoned or not any(record.holds_rows for record in data.records)):
            self.waiting[key] = None
        times = [record.due for record in data.records if record.due is not None]
        if times:
            self.times[key] = min(times)
        if not data.records and not data.rows:
            del self.keys[key]

    def advance_overdue(self, now: float) -> int:
        """Make sequences due whose ``due`` was computed at a future time. Returns their number."""
        found = 0
        for key, data in self.keys.items():
            for place, record in enumerate(data.records):
                if record.planned_at > now + SKEW and record.due is not None and record.due > now:
                    data.records[place] = own = record.copy()
                    own.due = own.planned_at = now
                    self.times[key] = now
                    found += 1
        return found

    def due(self, now: float, limit: int, free: Callable[[str], bool], after: str) -> list[SequenceKey]:
        """Keys with rows to be numbered or expired, and keys with a sequence that is due, alternating: neither kind
        starves."""
        timed = [key for key, at in self.times.items() if at <= now]
        expired = [key for key, at in self.expiring.items() if at <= now and key not in self.waiting]
        if not timed and not self.waiting and not expired:
            return []
        rows = [*self.waiting, *expired]
        if self.priorities:
            timed.sort(key=lambda key: self._turn(key, self.times[key]))
            rows.sort(key=lambda key: self._turn(key, self.keys[key].rows[self.keys[key].waiting[0]].created_at))
        else:
            timed.sort(key=self.times.__getitem__)
        waits = (key for key in rows if free(source_claim(key.digest)))
        waiting = ((key, self._owner_of_first(key)) for key in waits)
        in_time = ((key, self.keys[key].records[-1].owner) for key in timed if free(source_claim(key.digest)))
        first, second = by_turns(waiting, after), by_turns(in_time, after)
        return (alternating(first, second) if first and second else first or second)[:limit]

    def _turn(self, key: SequenceKey, since: float) -> float:
        """The time by which keys take turns: since when one is due, and earlier by its priority."""
        return since - self.priorities.get(key, 0) * HEAD_START

    @staticmethod
    def _priority(data: KeyData) -> int:
        if data.waiting:
            return data.rows[data.waiting[0]].channel.priority
        return data.records[-1].channel.priority if data.records else 0

    def _owner_of_first(self, key: SequenceKey) -> str:
        data = self.keys[key]
        return data.rows[data.waiting[0]].owner or ""

    def next_due(self, free: Callable[[str], bool] | None) -> float | None:
        if free is None:
            return 0.0 if self.waiting else min((*self.times.values(), *self.expiring.values()), default=None)
        if any(free(source_claim(key.digest)) for key in self.waiting):
            return 0.0
        times = chain(self.times.items(), self.expiring.items())
        return min((at for key, at in times if free(source_claim(key.digest))), default=None)


def _named_alike(old: RmsRecord, new: RmsRecord) -> bool:
    """Whether a sequence is found by the same names before and after a change, as with most changes."""
    return old is new or (
        old.machine.identifier == new.machine.identifier
        and old.create_message_id == new.create_message_id
        and old.fetch_due is None
        and new.fetch_due is None
    )


def is_in_time(row: OutboundMessage) -> bool:
    """Whether a message does not wait for its `OutboundMessage.not_before`, and so may be late."""
    return row.not_before is None or row.number is not None


def due_at(rows: list[OutboundMessage], now: float, *, one: bool) -> list[OutboundMessage]:
    """The rows that are due (if ``one``, the lowest of them), the first row, and the row that is due next."""
    due = [place for place, row in enumerate(rows) if row.due <= now][: 1 if one else None]
    chosen = {*due, 0} if rows else set()
    if len(due) < len(rows):
        rest = set(range(len(rows))).difference(due)
        chosen.add(min(rest, key=lambda place: rows[place].due))  # the lowest of those that are due at the same time
    return [rows[place] for place in sorted(chosen)]
