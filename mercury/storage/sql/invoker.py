"""Invoker buffers in SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    FromClause,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
    union_all,
    update,
)

from mercury.errors import Conflict
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import Topic
from mercury.storage.buffers import BufferPart
from mercury.storage.claims import SUSPENDED
from mercury.storage.order import INVOKER
from mercury.storage.records import InboundKind, InboundMessage, InvokerRecord
from mercury.storage.sizes import ANY_BYTES
from mercury.storage.sql import ahead
from mercury.storage.sql.ahead import NEWEST
from mercury.storage.sql.codec import inbound_message, inbound_values, invoker_record, invoker_values
from mercury.storage.sql.dialect import Dialect, chunks
from mercury.storage.sql.prepared import Prepared, among
from mercury.storage.sql.schema import INVOKER_BUFFER, INVOKER_MESSAGE
from mercury.storage.sql.statements import Statements

BUFFER, MESSAGE = INVOKER_BUFFER, INVOKER_MESSAGE
IS_MESSAGE = MESSAGE.c.kind == InboundKind.MESSAGE.value

LOW, HIGH = bindparam("low", type_=BigInteger), bindparam("high", type_=BigInteger)
BETWEEN = and_(MESSAGE.c.number >= LOW, MESSAGE.c.number <= HIGH)
OF_SEQUENCE = MESSAGE.c.sequence == bindparam("sequence")
MARKERS = Prepared(select(MESSAGE).where(OF_SEQUENCE, ~IS_MESSAGE).order_by(MESSAGE.c.position))
NUMBERS = Prepared(select(MESSAGE.c.number).where(OF_SEQUENCE, IS_MESSAGE, BETWEEN).order_by(MESSAGE.c.number))


def _rows(sequence: ColumnElement[str], low: Any, high: Any, *, source: FromClause = MESSAGE) -> CompoundSelect[Any]:
    """The markers of a buffer, and its messages between two numbers: three ranges of an index. One condition on all
    rows of the sequence would read every message that waits."""
    kind = InboundKind.MESSAGE.value
    rows = select(MESSAGE).select_from(source).where(MESSAGE.c.sequence == sequence)
    between = rows.where(IS_MESSAGE, MESSAGE.c.number >= low, MESSAGE.c.number <= high)
    return union_all(rows.where(MESSAGE.c.kind < kind), rows.where(MESSAGE.c.kind > kind), between)


def _that_fit(rows: FromClause, source: FromClause, *order: ColumnElement[Any]) -> Prepared:
    """Markers, and messages within a number of bytes."""
    size = case((rows.c.kind == InboundKind.MESSAGE.value, func.length(rows.c.payload)), else_=0)
    upto = func.sum(size).over(order_by=order).label("upto")
    part = select(rows, upto, size.label("counted")).select_from(source).subquery()
    fits = or_(part.c.upto <= bindparam("most_bytes", type_=BigInteger), part.c.upto <= part.c.counted)
    wanted = or_(part.c.kind != InboundKind.MESSAGE.value, fits)
    return Prepared(select(part).where(wanted).order_by(part.c.position))


def _part() -> Prepared:
    """The markers of a buffer, and its messages between two numbers, within a number of bytes."""
    rows = _rows(bindparam("sequence"), LOW, HIGH).subquery()
    return _that_fit(rows, rows, rows.c.number, rows.c.position)


@lru_cache
def _parts(dialect: Dialect) -> Prepared:
    """The same of many buffers, each from its next number on."""
    buffers = select(BUFFER.c.sequence, BUFFER.c.next).where(among(BUFFER.c.sequence, "sequences")).cte("buffers")
    most, left = bindparam("most", type_=BigInteger), MAX_MESSAGE_NUMBER - buffers.c.next
    highest = case((left < most, MAX_MESSAGE_NUMBER), else_=buffers.c.next + most - 1)
    if dialect.changes_in_queries:
        # With an offset the planner cannot take the rows of all buffers first (decision 105).
        found = _rows(buffers.c.sequence, buffers.c.next, highest).offset(literal_column("0")).lateral("found")
        return _that_fit(found, buffers.join(found, true()), found.c.sequence, found.c.number, found.c.position)
    rows = _rows(buffers.c.sequence, buffers.c.next, highest, source=buffers).subquery()
    return _that_fit(rows, rows, rows.c.sequence, rows.c.number, rows.c.position)


PART = _part()
REMOVE = delete(MESSAGE).returning(MESSAGE.c.attachments_id)
CONSUME = Prepared(REMOVE.where(OF_SEQUENCE, IS_MESSAGE, BETWEEN))
REMOVE_ALL = Prepared(REMOVE.where(OF_SEQUENCE))
DELETE = Prepared(delete(BUFFER).where(BUFFER.c.sequence == bindparam("sequence")))
#: A message whose sequence has no buffer.
WITHOUT_BUFFER = ~exists().where(BUFFER.c.sequence == MESSAGE.c.sequence)
#: Conditional on the version: of two deliveries from the same state of a buffer, one succeeds.
SAVE = (
    update(BUFFER)
    .where(BUFFER.c.sequence == bindparam("known"), BUFFER.c.version == bindparam("known_version"))
    .values({column.name: bindparam(f"new_{column.name}") for column in BUFFER.c if column.name != "turn"})
    .values(turn=NEWEST)
)
SAVE_IF_UNCHANGED = Prepared(SAVE)


def _save_and_consume() -> Prepared:
    """Both as one statement, for a database where a query can contain changes: how many buffers were saved, and the
    names of attachments in the deleted rows (``None`` = none)."""
    saved = SAVE.returning(BUFFER.c.sequence).cte("saved")
    gone = REMOVE.where(OF_SEQUENCE, IS_MESSAGE, BETWEEN).cte("gone")
    names = func.array_agg(gone.c.attachments_id).filter(gone.c.attachments_id.is_not(None))
    marked = select(func.count()).select_from(saved).scalar_subquery().label("marked")
    return Prepared(select(marked, select(names).scalar_subquery().label("unnamed")))


SAVE_AND_CONSUME = _save_and_consume()
#: Locks buffers, in the order of all locks.
LOCK = Prepared(
    select(BUFFER.c.sequence, BUFFER.c.version, NEWEST.label("newest"))
    .where(among(BUFFER.c.sequence, "sequences"))
    .order_by(BUFFER.c.sequence)
    .with_for_update()
)
#: Deletes the messages of saved buffers that are below the next one.
CONSUME_IN_ORDER = Prepared(
    REMOVE.where(
        among(MESSAGE.c.sequence, "sequences"),
        IS_MESSAGE,
        MESSAGE.c.number < select(BUFFER.c.next).where(BUFFER.c.sequence == MESSAGE.c.sequence).scalar_subquery(),
    )
)


class SqlInvoker:
    """`InvokerBufferManager` of one transaction."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        #: The position of the newest row when `lock` read these buffers.
        self._newest: dict[str, int] = {}
        #: Those of the locked buffers whose sequences were suspended.
        self._suspended: set[str] = set()

    def insert(self, *records: InvokerRecord) -> None:
        self._tx.insert(BUFFER, [invoker_values(record) | {"turn": 0} for record in records])

    def add(self, messages: Sequence[InboundMessage]) -> None:
        self._tx.insert_later(MESSAGE, [inbound_values(message) for message in messages])
        if messages:
            self._tx.topics.add(Topic.INVOKER)

    def read(self, sequence: str) -> InvokerRecord | None:
        return self.read_many([sequence]).get(sequence)

    def read_many(self, sequences: Collection[str]) -> dict[str, InvokerRecord]:
        rows = (row for part in chunks(sorted(sequences)) for row in self._tx.read(*ahead.buffers(part)))
        return {row["sequence"]: invoker_record(row) for row in rows}

    def lock(self, sequences: Collection[str]) -> dict[str, InvokerRecord]:
        new, found, all_found = self._tx.to_lock(INVOKER, list(sequences)), {}, True
        for part in chunks(sorted(sequences)):
            question, free = ahead.locked_buffers(part), ahead.locked_buffers(part, only_free=True)
            if self._tx.is_ahead(free):
                rows, all_found = self._tx.read(*free), False
            else:
                is_ahead = self._tx.is_ahead(question)
                rows = self._tx.read(*question) if is_ahead else self._tx.read_locked(*question)
            for row in rows:
                self._newest[row["sequence"]] = row["newest"]
                if (row["holder"] or "").startswith(SUSPENDED):
                    self._suspended.add(row["sequence"])
                found[row["sequence"]] = invoker_record(row)
        self._tx.locked(INVOKER, new if all_found else [name for name in new if name in found])
        return found

    def suspended(self) -> frozenset[str]:
        return frozenset(self._suspended)

    def paused(self) -> frozenset[str]:
        return frozenset(row["service"] for row in self._tx.read(*ahead.paused()))

    def expect(self, sequence: str, most: int, most_bytes: int = ANY_BYTES) -> None:
        part = {"sequences": [sequence], "most": most, "most_bytes": most_bytes}
        questions = [ahead.buffers([sequence]), ahead.rmds([sequence]), (_parts(self._tx.dialect), part)]
        self._tx.read_ahead(questions, handlers=True)

    def part(self, sequence: str, low: int, high: int, most_bytes: int = ANY_BYTES) -> BufferPart:
        low, high = min(low, MAX_MESSAGE_NUMBER), min(high, MAX_MESSAGE_NUMBER)
        first = {"sequences": [sequence], "most": high - low + 1, "most_bytes": most_bytes}
        question = (_parts(self._tx.dialect), first)
        if self._tx.is_ahead(question):
            return _as_part([inbound_message(row) for row in self._tx.read(*question)])
        values = {"sequence": sequence, "low": low, "high": high, "most_bytes": most_bytes}
        return _as_part([inbound_message(row) for row in self._tx.read(PART, values)])

    def parts(self, sequences: Collection[str], most: int, most_bytes: int = ANY_BYTES) -> dict[str, BufferPart]:
        rows: dict[str, list[InboundMessage]] = {}
        values = {"sequences": list(sequences), "most": most, "most_bytes": most_bytes}
        for row in self._tx.read(_parts(self._tx.dialect), values):
            rows.setdefault(row["sequence"], []).append(inbound_message(row))
        return {sequence: _as_part(found) for sequence, found in rows.items()}

    def markers(self, sequence: str) -> list[InboundMessage]:
        return [inbound_message(row) for row in self._tx.read(MARKERS, {"sequence": sequence})]

    def numbers(self, sequence: str, low: int = 1, high: int | None = None) -> RangeSet:
        low, high = min(low, MAX_MESSAGE_NUMBER), min(high or MAX_MESSAGE_NUMBER, MAX_MESSAGE_NUMBER)
        found = RangeSet()
        for row in self._tx.read(NUMBERS, {"sequence": sequence, "low": low, "high": high}):
            found.add(row["number"])
        return found

    def messages(self, sequence: str, numbers: Sequence[int]) -> dict[int, InboundMessage]:
        found: dict[int, InboundMessage] = {}
        for part in chunks(numbers):
            query = select(MESSAGE).where(MESSAGE.c.sequence == sequence, IS_MESSAGE, MESSAGE.c.number.in_(part))
            found |= _by_number(inbound_message(row) for row in self._tx.read(query))
        return found

    def oldest(self) -> float | None:
        rows = self._tx.read(select(MESSAGE.c.received_at).where(IS_MESSAGE).order_by(MESSAGE.c.position).limit(1))
        return rows[0]["received_at"] if rows else None

    def damaged(self, sequence: str) -> list[InboundMessage]:
        query = select(MESSAGE).where(or_(MESSAGE.c.sequence == sequence, WITHOUT_BUFFER)).order_by(MESSAGE.c.position)
        rows = (inbound_message(row) for row in self._tx.read(query))
        return [row for row in rows if row.damaged]

    def save_delivered(
        self, record: InvokerRecord, *, consumed: Iterable[int], markers: Sequence[InboundMessage] = ()
    ) -> None:
        self._tx.locked(INVOKER, self._tx.to_lock(INVOKER, [record.sequence]))
        values = {f"new_{name}": value for name, value in invoker_values(record).items()}
        before = {"new_version": record.version + 1, "known": record.sequence, "known_version": record.version}
        ranges = list(_ranges(consumed))
        if len(ranges) == 1 and self._tx.dialect.changes_in_queries:
            (low, high), ranges = ranges[0], []
            between = {"sequence": record.sequence, "low": low, "high": high}
            (found,) = self._tx.read_changing(SAVE_AND_CONSUME, values | before | between, BUFFER, MESSAGE)
            marked = found["marked"]
            self._tx.note_unnamed(found["unnamed"] or ())
        else:
            marked = self._tx.write(SAVE_IF_UNCHANGED, values | before)
        if marked != 1:
            raise Conflict(f"another transaction has delivered from the buffer of {record.sequence}")
        for low, high in ranges:
            self._tx.delete_naming(CONSUME, {"sequence": record.sequence, "low": low, "high": high})
        if markers:
            positions = [marker.position for marker in markers]
            self._tx.delete_naming(REMOVE.where(MESSAGE.c.position.in_(positions)))
        self._wake_followers(record)

    def save_in_order(self, records: Collection[InvokerRecord]) -> None:
        by_name = {record.sequence: record for record in sorted(records, key=lambda each: each.sequence)}
        new = self._tx.to_lock(INVOKER, list(by_name))
        for part in chunks(by_name):
            stored = {row["sequence"]: row for row in self._tx.read_locked(LOCK, {"sequences": part})}
            saved = []
            for name in part:
                record = by_name[name]
                if name not in stored or stored[name]["version"] != record.version:
                    raise Conflict(f"another transaction has delivered from the buffer of {name}")
                values = {"version": record.version + 1, "turn": stored[name]["newest"]}
                saved.append(invoker_values(record) | values)
                self._wake_followers(record)
            self._tx.update(BUFFER, "sequence", saved)
            self._tx.delete_naming(CONSUME_IN_ORDER, {"sequences": part})
        self._tx.locked(INVOKER, new)

    def save_locked(self, records: Collection[InvokerRecord]) -> None:
        saved = []
        for record in records:
            self._tx.require(INVOKER, record.sequence)
            values = {"version": record.version + 1, "turn": self._newest[record.sequence]}
            saved.append(invoker_values(record) | values)
            self._wake_followers(record)
        self._tx.update(BUFFER, "sequence", saved)

    def _wake_followers(self, record: InvokerRecord) -> None:
        """Wake the invoker if the sequence that follows one may be delivered now."""
        if record.machine.state is InvokerState.DONE:
            self._tx.topics.add(Topic.INVOKER)

    def delete(self, sequence: str) -> None:
        self._tx.write(DELETE, {"sequence": sequence})
        self._tx.delete_naming(REMOVE_ALL, {"sequence": sequence})
        self._tx.topics.add(Topic.INVOKER)

    def all(self) -> list[InvokerRecord]:
        return [invoker_record(row) for row in self._tx.read(select(BUFFER).order_by(BUFFER.c.sequence))]


def _as_part(rows: Sequence[InboundMessage]) -> BufferPart:
    messages = _by_number(rows)
    # A damaged row that has the number of another row has lost its own number.
    markers = [row for row in rows if row.kind is not InboundKind.MESSAGE or messages[row.number] is not row]
    return BufferPart(markers, messages)


def _by_number(rows: Iterable[InboundMessage]) -> dict[int, InboundMessage]:
    """The messages by number; if two have the same number, the undamaged one."""
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
