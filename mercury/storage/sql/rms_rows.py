"""The buffers of source sequences in SQL: rows without a number, rows in transmission, rows that wait for responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    delete,
    false,
    func,
    not_,
    or_,
    select,
    text,
    update,
)

from mercury.statemachine.faults import Ranges
from mercury.storage.api import Topic
from mercury.storage.order import RMS
from mercury.storage.records import OutboundKind, OutboundMessage, RmsRecord, SequenceKey
from mercury.storage.sql.acknowledged_rows import OF_SEQUENCE, AcknowledgedRows
from mercury.storage.sql.codec import body_values, outbound_message, outbound_values
from mercury.storage.sql.dialects import chunks
from mercury.storage.sql.schema import IS_ABANDONED, RMS_BODY, RMS_MESSAGE, RMS_SEQUENCE, UNACKNOWLEDGED_RESPONSE
from mercury.storage.sql.statements import Statements

ROW, BODY, SEQUENCE = RMS_MESSAGE, RMS_BODY, RMS_SEQUENCE
#: `OutboundMessage.retained`
KEPT = and_(ROW.c.relates_to.is_not(None), ROW.c.answered)
SETTLED = and_(ROW.c.acknowledged, or_(ROW.c.answered, not_(ROW.c.replays)))
BODY_COLUMNS = tuple(column for column in BODY.c if column.name != "message_id")
WITH_BODY = select(ROW, *BODY_COLUMNS).join_from(ROW, BODY, ROW.c.message_id == BODY.c.message_id)
LIMIT = bindparam("limit", type_=Integer)
UNNUMBERED = (
    WITH_BODY.where(ROW.c.key_id == bindparam("key_id"), ROW.c.number.is_(None)).order_by(ROW.c.position).limit(LIMIT)
)
ABANDONED = select(ROW.c.position).where(ROW.c.key_id == bindparam("key_id"), IS_ABANDONED).limit(1)
TRANSMITTED = and_(OF_SEQUENCE, not_(SETTLED))
UNSETTLED = WITH_BODY.where(TRANSMITTED).order_by(ROW.c.number).limit(LIMIT)


def _unsettled_due() -> Select[Any]:
    """Of the same rows those that are due, with their bodies; the first, and the one that is due next."""
    window = select(ROW).where(TRANSMITTED).order_by(ROW.c.number).limit(LIMIT).cte("rows_in_window")
    is_due = window.c.due <= bindparam("now")
    lowest = select(func.min(window.c.number)).scalar_subquery()
    later = select(window.c.number).where(not_(is_due)).order_by(window.c.due, window.c.number).limit(1)
    many = select(func.count()).select_from(window).scalar_subquery().label("many")
    body = and_(window.c.message_id == BODY.c.message_id, is_due)
    wanted = or_(is_due, window.c.number == lowest, window.c.number == later.scalar_subquery())
    rows = select(*window.c, *BODY_COLUMNS, many).join_from(window, BODY, body, isouter=True)
    return rows.where(wanted).order_by(window.c.number)


UNSETTLED_DUE = _unsettled_due()
NAMES: BindParameter[str] = bindparam("names", expanding=True)
FETCHABLE = and_(ROW.c.request.in_(NAMES), ROW.c.number.is_not(None), not_(ROW.c.acknowledged))


def _responses() -> Select[Any]:
    """Responses by their requests, with the bodies that fit: a body's length is known without reading it."""
    size = func.length(BODY.c.payload)
    upto = func.sum(size).over(order_by=(size, ROW.c.position))
    whole = select(ROW.c.position, size.label("size"), upto.label("upto")).where(FETCHABLE)
    sizes = whole.join_from(ROW, BODY, ROW.c.message_id == BODY.c.message_id).cte("sizes")
    fits = or_(sizes.c.upto <= bindparam("most_bytes", type_=BigInteger), sizes.c.upto == sizes.c.size)
    body = and_(ROW.c.message_id == BODY.c.message_id, fits)
    rows = select(ROW, *BODY_COLUMNS).join_from(sizes, ROW, sizes.c.position == ROW.c.position)
    return rows.join(BODY, body, isouter=True).order_by(ROW.c.position)


RESPONSES = _responses()
NAMED = ROW.c.message_id.in_(NAMES)
ANSWERED = update(ROW).where(NAMED).values(answered=True)
ANSWERED_TOO = update(ROW).where(NAMED).values(answered=True, acknowledged=True)
PREFETCHED, WHOLE = select(ROW).where(NAMED), WITH_BODY.where(NAMED)


OF_KEYS = ROW.c.key_id.in_(NAMES)
RESPONSE_BYTES = select(
    func.coalesce(func.sum(case((OF_KEYS, ROW.c.size), else_=0)), 0).label("of_keys"),
    func.coalesce(func.sum(case((ROW.c.owner == bindparam("owner"), ROW.c.size), else_=0)), 0).label("own"),
    func.coalesce(func.sum(ROW.c.size), 0).label("every"),
).where(text(UNACKNOWLEDGED_RESPONSE))


class SqlRmsRows:
    """The part of `RMSSequenceManager` that works on rows."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        self.appended: list[OutboundMessage] = []
        #: Whether anything was handed over, written already or not.
        self.has_appended = False
        #: Rows that were read ahead, by MessageID.
        self._expected: dict[str, OutboundMessage | None] = {}
        #: Rows whose response is stored, and those whose response was consumed: written together.
        self._answered: dict[str, None] = {}
        self._consumed: dict[str, OutboundMessage] = {}
        #: Rows that got a number or were transmitted, by position; written together too.
        self._numbered: dict[int, OutboundMessage] = {}
        #: Of these the ones whose number is not written yet.
        self._new: set[int] = set()
        self._arrived = AcknowledgedRows(transaction)

    # --- handed over -----------------------------------------------------------------------------------------------

    def append(self, message: OutboundMessage) -> None:
        self._tx.store.settle()
        self.has_appended = True
        self.appended.append(message.copy())
        if self._tx.joined:
            self.flush_appended()

    def flush_appended(self) -> None:
        """Write what was handed over."""
        appended, self.appended = self.appended, []
        if appended:
            rows = [outbound_values(message) for message in appended]
            self._tx.insert_both(ROW, rows, BODY, [body_values(message) for message in appended])
            numbered = all(message.number is not None for message in appended)
            topics = self._tx.topics_elsewhere if numbered else self._tx.topics  # as for `number`
            topics.add(Topic.RMS)

    def truncate(self, length: int) -> None:
        del self.appended[length:]

    def unnumbered(self, key: SequenceKey, limit: int) -> list[OutboundMessage]:
        self._require(key)
        return self._rows(UNNUMBERED, {"key_id": key.digest, "limit": limit})

    def abandoned(self, key: SequenceKey) -> bool:
        self._require(key)
        return bool(self._tx.read(ABANDONED, {"key_id": key.digest}))

    def number(self, record: RmsRecord, rows: Sequence[OutboundMessage]) -> None:
        self._require(record.channel.key)
        self._keep(rows)
        self._new.update(row.position for row in rows)
        if record.channel.back_channel:
            self._tx.topics_elsewhere.add(Topic.RMS)  # another process may hold the exchanges of the requests

    def backlog(self, key: SequenceKey) -> int:
        name = key.digest
        waiting = select(func.count()).where(ROW.c.key_id == name, ROW.c.number.is_(None)).scalar_subquery()
        mine = select(SEQUENCE.c.id).where(SEQUENCE.c.key_id == name)
        numbered = select(func.count()).where(ROW.c.sequence_id.in_(mine), ROW.c.number.is_not(None)).scalar_subquery()
        return int(self._tx.read(select((waiting + numbered).label("rows")))[0]["rows"])

    def oldest_unacknowledged(self) -> float | None:
        waits = and_(ROW.c.kind == OutboundKind.MESSAGE.value, not_(ROW.c.acknowledged), not_(KEPT))
        rows = self._tx.read(select(ROW.c.created_at).where(waits).order_by(ROW.c.position).limit(1))
        return rows[0]["created_at"] if rows else None

    def response_bytes(self, keys: Collection[SequenceKey], owner: str) -> tuple[int, int, int]:
        row = self._tx.read(RESPONSE_BYTES, {"names": [key.digest for key in keys], "owner": owner})[0]
        return int(row["of_keys"]), int(row["own"]), int(row["every"])

    # --- in transmission -------------------------------------------------------------------------------------------

    def unsettled(self, record: RmsRecord, limit: int, now: float | None = None) -> list[OutboundMessage]:
        self._require(record.channel.key)
        if self._arrived:
            self.flush_kept()
        if not self._new.issuperset(self._numbered):
            self.flush_rows()
        values = {"of_sequence": record.id, "limit": limit} | ({} if now is None else {"now": now})
        found = self._tx.read(UNSETTLED if now is None else UNSETTLED_DUE, values)
        many = len(found) if now is None else found[0]["many"] if found else 0
        # What was numbered here is not written yet; its numbers are the highest, and it is here with its bodies.
        new = sorted((row for row in self._numbered.values() if row.sequence_id == record.id), key=_number)
        rest = [row.copy() for row in new if not row.settled][: max(0, limit - many)]
        return [*(outbound_message(row) for row in found), *rest]

    def transmitted(self, rows: Sequence[OutboundMessage]) -> None:
        for key in {row.channel.key for row in rows}:
            self._require(key)
        self._keep(rows)

    def _keep(self, rows: Sequence[OutboundMessage]) -> None:
        """Rows that got a number or were transmitted are written together."""
        self._numbered |= {row.position: row.copy() for row in rows}
        self._reread(row.message_id for row in rows)

    def flush_rows(self) -> None:
        """Write the rows that got a number or were transmitted."""
        rows = list(self._numbered.values())
        self._forget_numbered()
        self._save(rows, "sequence_id", "number", "due", "last", "attempts")

    def acknowledge(self, record: RmsRecord, ranges: Ranges) -> None:
        self._require(record.channel.key)
        if ranges:
            self._arrived.acknowledge(record.id, ranges)
            for row in self._read_ahead(record, ranges):
                row.acknowledged = True

    def release(self, record: RmsRecord, ranges: Ranges) -> None:
        self._require(record.channel.key)
        if ranges:
            self._arrived.release(record.id, ranges)
            for row in self._read_ahead(record, ranges):
                if row.acknowledged and not row.expects_response:
                    self._expected[row.message_id] = None  # nothing else is known to be otherwise: no need to ask

    def resend(self, record: RmsRecord, numbers: Iterable[int], now: float, most_attempts: int | None = None) -> None:
        self._require(record.channel.key)
        for part in chunks(numbers):
            wanted = and_(ROW.c.sequence_id == record.id, ROW.c.number.in_(part))
            if most_attempts is not None:
                wanted = and_(wanted, ROW.c.attempts <= most_attempts)
            self._write(update(ROW).where(wanted).values(due=now))
            self._reread(row.message_id for row in self._read_ahead(record, tuple((each, each) for each in part)))

    def unnumber(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        self._require(record.channel.key)
        rows = self._rows_between(record, ranges)
        for row in rows:
            row.sequence_id = row.number = None
            row.attempts = 0
            row.acknowledged = False
        self._save(rows, "sequence_id", "number", "attempts", "acknowledged")
        self._reread(row.message_id for row in rows)
        return rows

    def take(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        self._require(record.channel.key)
        rows = self._rows_between(record, ranges)
        self._delete(rows)
        return rows

    def discard(self, rows: Sequence[OutboundMessage]) -> None:
        self._delete(rows)

    # --- requests and responses ------------------------------------------------------------------------------------

    def unanswered(self, record: RmsRecord) -> list[OutboundMessage]:
        self._require(record.channel.key)
        wanted = and_(ROW.c.sequence_id == record.id, ROW.c.number.is_not(None), ROW.c.expects_response)
        return self._rows(WITH_BODY.where(wanted, not_(ROW.c.answered)).order_by(ROW.c.number))

    def answered(self, message_id: str) -> OutboundMessage | None:
        row = self._own(message_id)
        if row is None:
            return None
        self._answered[message_id] = None
        before = row.copy()
        row.answered = True
        self._expected[message_id] = row
        return before

    def consumed(self, message_id: str) -> None:
        row = self._own(message_id)
        if row is None:
            return
        self._consumed[message_id] = row
        after = row.copy()
        after.answered, after.expects_response = True, False
        self._expected[message_id] = None if row.acknowledged else after

    def flush_answers(self) -> None:
        """Write what was answered and consumed."""
        answered, consumed = list(self._answered), dict(self._consumed)
        self.forget_answers()
        both = [name for name in answered if (row := self._expected.get(name)) is not None and row.acknowledged]
        for part in chunks(both):
            self._tx.write(ANSWERED_TOO, {"names": part})  # most are acknowledged by their responses
        for part in chunks(set(answered).difference(both)):
            self._tx.write(ANSWERED, {"names": part})
        gone = [message_id for message_id, row in consumed.items() if row.acknowledged]
        for part in chunks(gone):
            self._arrived.consume(part)
        for part in chunks(message_id for message_id, row in consumed.items() if not row.acknowledged):
            done = update(ROW).where(ROW.c.message_id.in_(part))
            self._tx.write(done.values(answered=True, expects_response=False, replays=False))

    def forget_answers(self) -> None:
        """A savepoint is rolled back, or they are written."""
        self._answered.clear()
        self._consumed.clear()

    def forget_kept(self) -> None:
        """A savepoint is rolled back."""
        self.forget_answers()
        self._forget_numbered()
        self._arrived.forget()

    def _forget_numbered(self) -> None:
        self._numbered.clear()
        self._new.clear()

    def prefetch_rows(self, message_ids: Iterable[str], query: Select[Any] = PREFETCHED) -> None:
        """Read these rows ahead."""
        wanted = [message_id for message_id in message_ids if message_id not in self._expected]
        self._expected |= dict.fromkeys(wanted)
        for part in chunks(wanted):
            for row in self._rows(query, {"names": part}):
                self._expected[row.message_id] = row

    def forget_rows(self) -> None:
        """Others may have changed what was read ahead."""
        self._expected = {name: row for name, row in self._expected.items() if name in self._answered}

    def row(self, message_id: str) -> OutboundMessage | None:
        self.prefetch_rows([message_id], WHOLE)
        row = self._expected[message_id]
        return row.copy() if row is not None else None

    def responses_to(self, requests: Collection[str], most_bytes: int) -> list[OutboundMessage]:
        found: list[OutboundMessage] = []
        self.flush_kept()
        for part in chunks(requests):
            left = most_bytes - sum(len(row.payload) for row in found)
            for read in self._tx.read(RESPONSES, {"names": part, "most_bytes": left}):
                row = outbound_message(read)
                row.unread = read["checksum"] is None
                found.append(row)
        return found

    def key_of_request(self, message_id: str) -> SequenceKey | None:
        row = self.row(message_id)
        return row.channel.key if row is not None else None

    # --- within ----------------------------------------------------------------------------------------------------

    def _require(self, key: SequenceKey) -> None:
        self._tx.require(RMS, key.digest)

    def _own(self, message_id: str) -> OutboundMessage | None:
        row = self.row(message_id)
        if row is not None:
            self._require(row.channel.key)
        return row

    def _rows(self, query: Any, values: Mapping[str, Any] | None = None) -> list[OutboundMessage]:
        self.flush_kept()
        return [outbound_message(row) for row in self._tx.read(query, values)]

    def _write(self, statement: Any) -> None:
        self.flush_kept()
        self._tx.write(statement)

    def flush_kept(self) -> None:
        """Write what is kept here to be written together."""
        if self._numbered:
            self.flush_rows()
        if self._answered or self._consumed:
            self.flush_answers()
        if self._arrived:
            self._arrived.flush()

    def _rows_between(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        """The numbered rows in these ranges, which ascend; an expression of SQLite is 1,000 terms deep at most."""
        found = []
        for part in chunks(ranges, 400):
            found += self._rows(WITH_BODY.where(_between(record, tuple(part))).order_by(ROW.c.number))
        return found

    def _read_ahead(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        """What was read ahead of a sequence, with these numbers."""
        rows = [row for row in self._expected.values() if row is not None and row.sequence_id == record.id]
        return [row for row in rows if any(low <= _number(row) <= high for low, high in ranges)]

    def _reread(self, message_ids: Iterable[str]) -> None:
        """These were changed since they were read ahead."""
        for message_id in message_ids:
            self._expected.pop(message_id, None)

    def _save(self, rows: Sequence[OutboundMessage], *columns: str) -> None:
        changed = [{"position": row.position} | {name: getattr(row, name) for name in columns} for row in rows]
        self._tx.update(ROW, "position", changed)

    def _delete(self, rows: Sequence[OutboundMessage]) -> None:
        self._reread(row.message_id for row in rows)
        for part in chunks([row.message_id for row in rows]):
            self._tx.write(delete(BODY).where(BODY.c.message_id.in_(part)))
            self._write(delete(ROW).where(ROW.c.message_id.in_(part)))


def _number(row: OutboundMessage) -> int:
    return row.number or 0


def _between(record: RmsRecord, ranges: Ranges) -> ColumnElement[bool]:
    """The numbered rows of a sequence in these ranges."""
    numbers = [and_(ROW.c.number >= low, ROW.c.number <= high) for low, high in ranges]
    return and_(ROW.c.sequence_id == record.id, ROW.c.number.is_not(None), or_(false(), *numbers))
