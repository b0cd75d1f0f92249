"""Invoker buffers in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, and_, bindparam, delete, exists, func, or_, select, update

from mercury.errors import Conflict
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER
from mercury.statemachine.ranges import RangeSet
from mercury.storage.api import Topic
from mercury.storage.order import INVOKER
from mercury.storage.records import InboundKind, InboundMessage, InvokerRecord
from mercury.storage.sql.codec import inbound_message, inbound_values, invoker_record, invoker_values
from mercury.storage.sql.dialects import chunks
from mercury.storage.sql.schema import INVOKER_BUFFER, INVOKER_MESSAGE
from mercury.storage.sql.statements import Statements

BUFFER, MESSAGE = INVOKER_BUFFER, INVOKER_MESSAGE
IS_MESSAGE = MESSAGE.c.kind == InboundKind.MESSAGE.value
NEWEST = select(func.coalesce(func.max(MESSAGE.c.position), 0)).scalar_subquery()

LOW, HIGH = bindparam("low", type_=BigInteger), bindparam("high", type_=BigInteger)
BETWEEN = and_(MESSAGE.c.number >= LOW, MESSAGE.c.number <= HIGH)
OF_SEQUENCE = MESSAGE.c.sequence == bindparam("sequence")
BUFFERS = select(BUFFER).where(BUFFER.c.sequence.in_(bindparam("sequences", expanding=True)))
#: The markers of a buffer, and its messages between two numbers.
AHEAD = select(MESSAGE).where(OF_SEQUENCE, or_(~IS_MESSAGE, BETWEEN)).order_by(MESSAGE.c.position)
CONSUME = delete(MESSAGE).where(OF_SEQUENCE, IS_MESSAGE, BETWEEN)
#: A row whose sequence has no buffer.
STRAY = ~exists().where(BUFFER.c.sequence == MESSAGE.c.sequence)
#: Conditional: of two that deliver from the same state of a buffer one is kept.
MARK = (
    update(BUFFER)
    .where(BUFFER.c.sequence == bindparam("known"), BUFFER.c.version == bindparam("known_version"))
    .values({column.name: bindparam(f"new_{column.name}") for column in BUFFER.c if column.name != "turn"})
    .values(turn=NEWEST)
)


@dataclass(frozen=True, slots=True)
class _Window:
    """A part of a buffer."""

    sequence: str
    low: int
    high: int
    markers: list[InboundMessage]
    messages: dict[int, InboundMessage]

    def covers(self, sequence: str, low: int, high: int) -> bool:
        return self.sequence == sequence and self.low <= low and high <= self.high


class SqlInvoker:
    """`InvokerBufferManager` of one transaction."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        self._expected: dict[str, InvokerRecord | None] = {}
        #: What was read ahead of one buffer: its markers, and the messages between two numbers.
        self._window: _Window | None = None

    def insert(self, record: InvokerRecord) -> None:
        self._tx.insert(BUFFER, [invoker_values(record) | {"turn": 0}])

    def add(self, messages: Sequence[InboundMessage]) -> None:
        self._tx.insert(MESSAGE, [inbound_values(message) for message in messages])
        if messages:
            self._tx.topics.add(Topic.INVOKER)

    def prefetch(self, sequences: Iterable[str]) -> None:
        wanted = [sequence for sequence in sequences if sequence not in self._expected]
        self._expected |= dict.fromkeys(wanted)
        for part in chunks(wanted):
            for row in self._tx.read(BUFFERS, {"sequences": part}):
                self._expected[row["sequence"]] = invoker_record(row)

    def read(self, sequence: str) -> InvokerRecord | None:
        if sequence in self._expected:
            known = self._expected.pop(sequence)
            return known.copy() if known is not None else None
        rows = self._tx.read(BUFFERS, {"sequences": [sequence]})
        return invoker_record(rows[0]) if rows else None

    def prefetch_messages(self, sequence: str, low: int, high: int) -> None:
        low, high = min(low, MAX_MESSAGE_NUMBER), min(high, MAX_MESSAGE_NUMBER)
        rows = [inbound_message(row) for row in self._tx.read(AHEAD, {"sequence": sequence, "low": low, "high": high})]
        messages = _by_number(rows)
        # A damaged row that stands where another one is has lost its own place.
        markers = [row for row in rows if row.kind is not InboundKind.MESSAGE or messages[row.number] is not row]
        self._window = _Window(sequence, low, high, markers, messages)

    def markers(self, sequence: str) -> list[InboundMessage]:
        if self._window is not None and self._window.sequence == sequence:
            return list(self._window.markers)
        query = select(MESSAGE).where(MESSAGE.c.sequence == sequence, ~IS_MESSAGE).order_by(MESSAGE.c.position)
        return [inbound_message(row) for row in self._tx.read(query)]

    def numbers(self, sequence: str, low: int = 1, high: int | None = None) -> RangeSet:
        window = self._window
        low, high = min(low, MAX_MESSAGE_NUMBER), None if high is None else min(high, MAX_MESSAGE_NUMBER)
        if window is not None and high is not None and window.covers(sequence, low, high):
            known = RangeSet()
            for number in window.messages:
                if low <= number <= high:
                    known.add(number)
            return known
        query = select(MESSAGE.c.number).where(MESSAGE.c.sequence == sequence, IS_MESSAGE, MESSAGE.c.number >= low)
        if high is not None:
            query = query.where(MESSAGE.c.number <= high)
        found = RangeSet()
        for row in self._tx.read(query.order_by(MESSAGE.c.number)):
            found.add(row["number"])
        return found

    def messages(self, sequence: str, numbers: Sequence[int]) -> dict[int, InboundMessage]:
        found: dict[int, InboundMessage] = {}
        window = self._window
        if window is not None:
            here = [number for number in numbers if window.covers(sequence, number, number)]
            found = {number: window.messages[number] for number in here if number in window.messages}
            numbers = [number for number in numbers if not window.covers(sequence, number, number)]
        for part in chunks(numbers):
            query = select(MESSAGE).where(MESSAGE.c.sequence == sequence, IS_MESSAGE, MESSAGE.c.number.in_(part))
            found |= _by_number(inbound_message(row) for row in self._tx.read(query))
        return found

    def oldest(self) -> float | None:
        rows = self._tx.read(select(MESSAGE.c.received_at).where(IS_MESSAGE).order_by(MESSAGE.c.position).limit(1))
        return rows[0]["received_at"] if rows else None

    def damaged(self, sequence: str) -> list[InboundMessage]:
        query = select(MESSAGE).where(or_(MESSAGE.c.sequence == sequence, STRAY)).order_by(MESSAGE.c.position)
        rows = (inbound_message(row) for row in self._tx.read(query))
        return [row for row in rows if row.damaged]

    def save_delivered(
        self, record: InvokerRecord, *, consumed: Iterable[int], markers: Sequence[InboundMessage] = ()
    ) -> None:
        self._tx.locked(INVOKER, self._tx.to_lock(INVOKER, [record.sequence]))
        self._window = None
        values = {f"new_{name}": value for name, value in invoker_values(record).items()}
        before = {"new_version": record.version + 1, "known": record.sequence, "known_version": record.version}
        marked = self._tx.write(MARK, values | before)
        if marked.rowcount != 1:
            raise Conflict(f"the buffer of {record.sequence} was delivered from by somebody else")
        for low, high in _ranges(consumed):
            self._tx.write(CONSUME, {"sequence": record.sequence, "low": low, "high": high})
        if markers:
            positions = [marker.position for marker in markers]
            self._tx.write(delete(MESSAGE).where(MESSAGE.c.position.in_(positions)))
        self._tx.topics.add(Topic.INVOKER)

    def delete(self, sequence: str) -> None:
        self._tx.write(delete(BUFFER).where(BUFFER.c.sequence == sequence))
        self._tx.write(delete(MESSAGE).where(MESSAGE.c.sequence == sequence))
        self._tx.topics.add(Topic.INVOKER)

    def all(self) -> list[InvokerRecord]:
        return [invoker_record(row) for row in self._tx.read(select(BUFFER).order_by(BUFFER.c.sequence))]


def _by_number(rows: Iterable[InboundMessage]) -> dict[int, InboundMessage]:
    """The messages; where two have the same number, the one that is what was stored."""
    found: dict[int, InboundMessage] = {}
    for row in rows:
        if row.kind is InboundKind.MESSAGE and (row.number not in found or not row.damaged):
            found[row.number] = row
    return found


def _ranges(numbers: Iterable[int]) -> RangeSet:
    ranges = RangeSet()
    for number in numbers:
        ranges.add(number)
    return ranges
