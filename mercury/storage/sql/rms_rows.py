"""The buffers of source sequences in SQL: rows without a number, rows in transmission, rows that wait for responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, not_, or_, select, update

from mercury.statemachine.faults import Ranges
from mercury.statemachine.ranges import RangeSet
from mercury.storage.api import Topic
from mercury.storage.order import RMS
from mercury.storage.records import OutboundKind, OutboundMessage, RmsRecord, Role, SequenceKey
from mercury.storage.sizes import ANY_BYTES, within
from mercury.storage.sql.acknowledged_rows import AcknowledgedRows
from mercury.storage.sql.codec import body_values, outbound_message, outbound_values
from mercury.storage.sql.dialect import Marker, chunks
from mercury.storage.sql.prepared import Row
from mercury.storage.sql.rms_statements import (
    ABANDONMENTS,
    ANSWERED,
    ANSWERED_TOO,
    BACKLOG,
    CONSUMED,
    DELETE_BODIES,
    DELETE_ROWS,
    EXPIRED,
    IN_TIME,
    RESPONSE_BYTES,
    RESPONSES,
    RETAINED,
    UNANSWERED,
    WHOLE,
    WITH_BODY,
    WITHOUT_BODY,
)
from mercury.storage.sql.schema import RMS_BODY, RMS_MESSAGE
from mercury.storage.sql.statements import Statements
from mercury.storage.sql.unwritten_rows import UnwrittenRows
from mercury.storage.sql.waiting_rows import WaitingRows
from mercury.storage.sql.window import UNSETTLED, UNSETTLED_DUE, UNSETTLED_ONE
from mercury.storage.sql.windows_ahead import WindowsAhead

ROW, BODY = RMS_MESSAGE, RMS_BODY


class SqlRmsRows:
    """The part of `RMSSequenceManager` that works on rows."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        self.appended: list[OutboundMessage] = []
        #: Whether this transaction has appended rows, written or not.
        self.has_appended = False
        #: Rows that this transaction has read, by MessageID, without their bodies; ``None`` = the row does not exist.
        self._cached: dict[str, OutboundMessage | None] = {}
        #: Requests whose response is stored, and requests whose response was consumed; written together.
        self._answered: dict[str, None] = {}
        self._consumed: dict[str, OutboundMessage] = {}
        self._unwritten = UnwrittenRows()
        self._arrived = AcknowledgedRows(transaction)
        self._waiting = WaitingRows(transaction)
        self._windows = WindowsAhead(transaction)

    # --- handed over -----------------------------------------------------------------------------------------------

    def append(self, message: OutboundMessage) -> None:
        self._tx.require_whole()
        self._tx.store.settle()
        self.has_appended = True
        self.appended.append(message.copy())
        if self._tx.joined:
            self.flush_appended()

    def flush_appended(self, marker: Marker | None = None) -> bool:
        """Write the appended rows, with a commit marker; nothing if there are none. Returns whether there were any."""
        appended, self.appended = self.appended, []
        if appended:
            rows = [outbound_values(message) for message in appended]
            bodies = [body_values(message, row) for message, row in zip(appended, rows, strict=True)]
            self._tx.insert_both(ROW, rows, BODY, bodies, marker)
            self._tx.appended_keys |= {each.channel.key.digest for each in appended if each.number is None}
            if not self._tx.appended_keys:
                self._tx.topics_elsewhere.add(Topic.RMS)  # as for `number`
        return bool(appended)

    def truncate(self, length: int) -> None:
        del self.appended[length:]

    def unnumbered(self, key: SequenceKey, limit: int, most_bytes: int = ANY_BYTES) -> list[OutboundMessage]:
        self._require(key)
        if key.digest in self._unwritten.keys:
            self.flush_pending()  # changes of other keys' rows, and of numbered rows, can wait
        return self._waiting.read(key.digest, limit, most_bytes)

    def read_ahead_of(self, keys: Iterable[SequenceKey], records: Iterable[RmsRecord]) -> None:
        """Prepare for `unnumbered` of these keys, and for `unsettled` of these sequences."""
        names = [key.digest for key in keys if key.digest not in self._unwritten.keys]
        windows = self._windows.of_interest(records)
        if windows:
            self.flush_pending()
            questions = [*self._waiting.questions(names), *self._windows.questions(windows)]
            self._tx.read_ahead(questions)
        self._waiting.read_ahead(names)
        self._windows.take_ahead(windows)

    def abandoned(self, key: SequenceKey) -> bool:
        self._require(key)
        return self._waiting.abandoned(key.digest)

    def abandonments(self, key: SequenceKey) -> list[OutboundMessage]:
        self._require(key)
        return self._rows(ABANDONMENTS, {"key_id": key.digest})

    def expired(self, key: SequenceKey, now: float, limit: int) -> list[OutboundMessage]:
        self._require(key)
        if key.digest in self._waiting.lasting:
            return []
        self.flush_pending()
        values = {"key_id": key.digest, "now": now, "limit": limit}
        return [outbound_message(row) for row in self._tx.read(EXPIRED, values)]

    def number(self, record: RmsRecord, rows: Sequence[OutboundMessage]) -> None:
        self._require(record.channel.key)
        self._unwritten.keep_numbered(record.channel.key.digest, rows)
        self._tx.appended_keys.discard(record.channel.key.digest)  # what is left makes its sequence due
        self._reread(row.message_id for row in rows)
        if record.channel.back_channel:
            self._tx.topics_elsewhere.add(Topic.RMS)  # another process may hold the exchanges of the requests

    def backlog(self, key: SequenceKey) -> int:
        return int(self._tx.read(BACKLOG, {"key_id": key.digest})[0]["rows"])

    def oldest_unacknowledged(self) -> float | None:
        waits = and_(ROW.c.kind == OutboundKind.MESSAGE.value, not_(ROW.c.acknowledged), not_(RETAINED), IN_TIME)
        rows = self._tx.read(select(ROW.c.created_at).where(waits).order_by(ROW.c.position).limit(1))
        return rows[0]["created_at"] if rows else None

    def response_bytes(self, owner: str | None = None) -> int:
        query = RESPONSE_BYTES if owner is None else RESPONSE_BYTES.where(ROW.c.owner == owner)
        return int(self._tx.read(query)[0]["bytes"])

    def response_bytes_of(self, owner: str, keys: Collection[SequenceKey]) -> int:
        names = [key.digest for key in keys]
        return int(self._tx.read(RESPONSE_BYTES.where(ROW.c.owner == owner, ROW.c.key_id.in_(names)))[0]["bytes"])

    # --- in transmission -------------------------------------------------------------------------------------------

    def unsettled(
        self, record: RmsRecord, limit: int, now: float | None = None, *, one: bool = False, most_bytes: int = ANY_BYTES
    ) -> list[OutboundMessage]:
        self._require(record.channel.key)
        if record.channel.role is Role.REQUEST and self._holds_all_unsettled(record):
            return self._new_in_window(record, limit, most_bytes, 0, 0)
        ahead = None if one else self._windows.take(record, limit, now, _bytes_in_window, most_bytes)
        if ahead is not None:
            return [*ahead[0], *self._new_in_window(record, limit, most_bytes, *ahead[1:])]
        if not self._unwritten.all_new or self._arrived.reach(self._unwritten.lowest()):
            self.flush_rows()
        if self._arrived:
            self._flush_arrived()
        values = {"of_sequence": record.id, "limit": limit, "most_bytes": most_bytes}
        values |= {} if now is None else {"now": now}
        query = UNSETTLED_ONE if one else UNSETTLED_DUE
        found = self._tx.read(UNSETTLED if now is None else query, values)
        many, taken = (found[0]["many"], found[0]["taken"]) if found else (0, 0)
        rest = self._new_in_window(record, limit, most_bytes, many, taken)
        rows = [_read(row, unread=now is not None and row["due"] <= now) for row in found]
        return [*rows, *rest]

    def _holds_all_unsettled(self, record: RmsRecord) -> bool:
        """Whether only rows that this transaction has numbered need transmission: the counters of the locked sequence
        say so."""
        machine = record.machine
        new = self._unwritten.new_numbers(record)
        last = machine.last_number
        if machine.unanswered or not last or last != max(new, default=last):
            return False
        return machine.acknowledged.covers(1, min(new, default=last + 1) - 1)

    def _new_in_window(
        self, record: RmsRecord, limit: int, most_bytes: int, many: int, taken: int
    ) -> list[OutboundMessage]:
        """The rows numbered by this transaction, which are not written yet. They have the highest numbers."""
        new = sorted(self._unwritten.of(record), key=_number)
        rest = [row for row in new if not row.settled][: max(0, limit - many)]
        return [row.copy() for row in within(rest, _bytes_in_window, most_bytes, taken)]

    def transmitted(self, rows: Sequence[OutboundMessage]) -> None:
        for key in {row.channel.key for row in rows}:
            self._require(key)
        self._unwritten.keep(rows)
        self._windows.forget(row.sequence_id for row in rows)
        self._reread(row.message_id for row in rows)

    def flush_rows(self) -> None:
        """Write the rows that got a number or were transmitted."""
        self._save(self._unwritten.take(), "sequence_id", "number", "due", "last", "attempts")

    def acknowledge(self, record: RmsRecord, ranges: Ranges) -> None:
        self._require(record.channel.key)
        if ranges:
            self._arrived.acknowledge(record.id, ranges)
            self._windows.forget([record.id])
            for row in self._cached_between(record, ranges):
                row.acknowledged = True

    def release(self, record: RmsRecord, ranges: Ranges) -> None:
        self._require(record.channel.key)
        if ranges:
            self._arrived.release(record.id, ranges)
            self._windows.forget([record.id])
            for row in self._cached_between(record, ranges):
                if row.may_go:
                    self._cached[row.message_id] = None  # nothing else of this row was read: no query is needed

    def resend(self, record: RmsRecord, numbers: Iterable[int], now: float, most_attempts: int | None = None) -> None:
        self._require(record.channel.key)
        self._windows.forget([record.id])
        for part in chunks(numbers):
            wanted = and_(ROW.c.sequence_id == record.id, ROW.c.number.in_(part))
            if most_attempts is not None:
                wanted = and_(wanted, ROW.c.attempts <= most_attempts)
            self._write(update(ROW).where(wanted).values(due=now))
            self._reread(row.message_id for row in self._cached_between(record, tuple((each, each) for each in part)))

    def unnumber(self, record: RmsRecord, ranges: Ranges, in_doubt: Ranges = ()) -> list[OutboundMessage]:
        self._require(record.channel.key)
        self._waiting.forget()
        self._windows.forget([record.id])
        rows = self._rows_between(record, ranges, select(ROW))
        doubtful = RangeSet(in_doubt)
        for row in rows:
            row.in_doubt = row.in_doubt or (row.number or 0) in doubtful
            row.sequence_id = row.number = None
            row.attempts = 0
            row.acknowledged = False
        self._save(rows, "sequence_id", "number", "attempts", "acknowledged", "in_doubt")
        self._reread(row.message_id for row in rows)
        return rows

    def take(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        self._require(record.channel.key)
        rows = self._rows_between(record, ranges, WITH_BODY)
        self._delete(rows)
        return rows

    def discard(self, rows: Sequence[OutboundMessage]) -> None:
        self._delete(rows)

    # --- requests and responses ------------------------------------------------------------------------------------

    def unanswered(self, record: RmsRecord) -> list[OutboundMessage]:
        self._require(record.channel.key)
        return self._rows(UNANSWERED, {"of_sequence": record.id})

    def answered(self, message_id: str) -> OutboundMessage | None:
        row = self._own(message_id)
        if row is None:
            return None
        self._answered[message_id] = None
        self._windows.forget()
        before = row.copy()
        row.answered = True
        self._cached[message_id] = row
        return before

    def consumed(self, message_id: str) -> None:
        row = self._own(message_id)
        if row is None:
            return
        self._consumed[message_id] = row
        self._windows.forget()
        after = row.copy()
        after.answered, after.expects_response = True, False
        self._cached[message_id] = None if row.acknowledged else after

    def flush_answers(self) -> None:
        """Write which requests were answered, and which responses were consumed, which says both."""
        answered, consumed = [name for name in self._answered if name not in self._consumed], dict(self._consumed)
        self.forget_answers()
        both = [name for name in answered if (row := self._cached.get(name)) is not None and row.acknowledged]
        for part in chunks(both):
            self._tx.write(ANSWERED_TOO, {"names": part})  # most are acknowledged by their responses
        for part in chunks(set(answered).difference(both)):
            self._tx.write(ANSWERED, {"names": part})
        gone = [message_id for message_id, row in consumed.items() if row.acknowledged]
        for part in chunks(gone):
            self._arrived.consume(part)
        for part in chunks(message_id for message_id, row in consumed.items() if not row.acknowledged):
            self._tx.write(CONSUMED, {"names": part})

    def forget_answers(self) -> None:
        """Drop these lists: they are written, or a savepoint was rolled back."""
        self._answered.clear()
        self._consumed.clear()

    def forget_pending(self) -> None:
        """Drop pending changes: a savepoint was rolled back."""
        self.forget_answers()
        self._unwritten.forget()
        self._arrived.forget()
        self._waiting.forget()
        self._windows.forget()

    def forget_rows(self) -> None:
        """Drop cached rows: other transactions may have changed them."""
        self._cached = {name: row for name, row in self._cached.items() if name in self._answered}

    def row(self, message_id: str) -> OutboundMessage | None:
        rows = self._rows(WHOLE, {"names": [message_id]})
        return rows[0] if rows else None

    def rows(self, message_ids: Collection[str]) -> dict[str, OutboundMessage]:
        wanted = [message_id for message_id in message_ids if message_id not in self._cached]
        self._cached |= dict.fromkeys(wanted)
        for part in chunks(wanted):
            for row in self._rows(WITHOUT_BODY, {"names": part}):
                self._cached[row.message_id] = row
        seen = ((message_id, self._cached[message_id]) for message_id in message_ids)
        return {message_id: row.copy() for message_id, row in seen if row is not None}

    def responses_to(self, requests: Collection[str], most_bytes: int) -> list[OutboundMessage]:
        found: list[OutboundMessage] = []
        self.flush_pending()
        for part in chunks(requests):
            left = most_bytes - sum(len(row.payload) for row in found)
            for read in self._tx.read(RESPONSES, {"names": part, "most_bytes": left}):
                found.append(_read(read, unread=True))
        return found

    # --- within ----------------------------------------------------------------------------------------------------

    def _require(self, key: SequenceKey) -> None:
        self._tx.require(RMS, key.digest)

    def _own(self, message_id: str) -> OutboundMessage | None:
        row = self.rows([message_id]).get(message_id)
        if row is not None:
            self._require(row.channel.key)
        return row

    def _rows(self, query: Any, values: Mapping[str, Any] | None = None) -> list[OutboundMessage]:
        self.flush_pending()
        return [outbound_message(row) for row in self._tx.read(query, values)]

    def _write(self, statement: Any, values: Mapping[str, Any] | None = None) -> None:
        self.flush_pending()
        self._tx.write(statement, values)

    def flush_pending(self) -> None:
        """Write all pending changes to rows."""
        if self._unwritten:
            self.flush_rows()
        self._flush_arrived()

    def _flush_arrived(self) -> None:
        """Write what arrived for rows that are written."""
        if self._answered or self._consumed:
            self.flush_answers()
        if self._arrived:
            self._arrived.flush()

    def _rows_between(self, record: RmsRecord, ranges: Ranges, query: Select[Any]) -> list[OutboundMessage]:
        """The numbered rows in these ascending ranges, read in parts: SQLite limits the depth of an expression to
        1,000."""
        found = []
        for part in chunks(ranges, 400):
            found += self._rows(query.where(_between(record, tuple(part))).order_by(ROW.c.number))
        return found

    def _cached_between(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        """The cached rows of a sequence with numbers in these ranges."""
        rows = [row for row in self._cached.values() if row is not None and row.sequence_id == record.id]
        wanted = RangeSet(ranges) if rows else RangeSet()
        return [row for row in rows if _number(row) in wanted]

    def _reread(self, message_ids: Iterable[str]) -> None:
        """Drop these rows from the cache, because they were changed."""
        for message_id in message_ids:
            self._cached.pop(message_id, None)

    def _save(self, rows: Sequence[OutboundMessage], *columns: str) -> None:
        changed = [{"position": row.position} | {name: getattr(row, name) for name in columns} for row in rows]
        self._tx.update(ROW, "position", changed)

    def _delete(self, rows: Sequence[OutboundMessage]) -> None:
        self._reread(row.message_id for row in rows)
        self._windows.forget(row.sequence_id for row in rows)
        for part in chunks([row.message_id for row in rows]):
            self._waiting.forget()
            self._write(DELETE_BODIES, {"names": part})
            self._tx.delete_naming(DELETE_ROWS, {"names": part})


def _bytes_in_window(row: OutboundMessage) -> int:
    return 0 if row.acknowledged else len(row.payload)


def _read(read: Row, *, unread: bool) -> OutboundMessage:
    """The record of a row, which may lack its body.

    :param unread: mark the record as `OutboundMessage.unread` if the body is missing.
    """
    row = outbound_message(read)
    row.unread = unread and read["checksum"] is None
    return row


def _number(row: OutboundMessage) -> int:
    return row.number or 0


def _between(record: RmsRecord, ranges: Ranges) -> ColumnElement[bool]:
    """The numbered rows of a sequence in these ranges."""
    own = ROW.c.sequence_id == record.id  # in each term, so that SQLite searches its index once for each range
    numbers = [and_(own, ROW.c.number >= low, ROW.c.number <= high) for low, high in ranges]
    return and_(ROW.c.number.is_not(None), or_(false(), *numbers))
