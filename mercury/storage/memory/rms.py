"""Source sequences and their buffers in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from mercury.errors import Conflict
from mercury.statemachine.faults import Ranges
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER
from mercury.statemachine.ranges import RangeSet
from mercury.storage import order
from mercury.storage.api import Topic
from mercury.storage.claims import Claim
from mercury.storage.memory import appended
from mercury.storage.memory.committed import Committed
from mercury.storage.memory.locks import HeldLocks
from mercury.storage.memory.rms_committed import NumberedRows, due_at, is_in_time
from mercury.storage.names import fetch_name
from mercury.storage.records import OutboundKind, OutboundMessage, RmsRecord, SequenceKey
from mercury.storage.sizes import ANY_BYTES, fitting


class MemoryRms:
    """`RMSSequenceManager` of one transaction."""

    def __init__(self, committed: Committed, locks: HeldLocks, holds: Callable[[Claim], bool]) -> None:
        self._mutex = committed.mutex
        self._locks = locks
        self._holds = holds  #: Whether a claim is not lost.
        self._committed = committed.rms
        self._next_position = committed.next_position
        self.appended: list[OutboundMessage] = []
        self._locked: set[SequenceKey] = set()
        #: The key that was used last, which is locked.
        self._used: SequenceKey | None = None
        self.changed_records: dict[SequenceKey, list[RmsRecord]] = {}
        #: This transaction's versions of rows by position; ``None`` = removed.
        self.changed_rows: dict[SequenceKey, dict[int, OutboundMessage | None]] = {}
        #: The rows that the commit has removed.
        self.removed: list[OutboundMessage] = []

    # --- sequences -------------------------------------------------------------------------------------------------

    def append(self, message: OutboundMessage) -> None:
        self.appended.append(message.copy())

    def lock_appended(self, key: SequenceKey, claim: Claim) -> bool:
        if not self._holds(claim) or not self._locks.acquire_free(order.RMS, [str(key)]):
            return False
        self._locked.add(key)
        self._change(key, appended.placed(self.appended, key, self._next_position))
        return True

    def lock(self, keys: Iterable[SequenceKey], *, records: bool = False, rows: bool = False) -> None:  # noqa: ARG002
        names = {str(key): key for key in keys}
        self._locks.acquire(order.RMS, names)
        self._locked.update(names.values())

    def records(self, key: SequenceKey) -> list[RmsRecord]:
        self._require(key)
        own = self.changed_records.get(key)
        return self.peek(key) if own is None else [record.copy() for record in own]

    def peek(self, key: SequenceKey) -> list[RmsRecord]:
        with self._mutex:
            data = self._committed.keys.get(key)
            return [record.copy() for record in data.records] if data else []

    def key_of(self, identifier: str) -> SequenceKey | None:
        with self._mutex:
            return self._committed.by_identifier.get(identifier)

    def keys_by_identifier(self, identifiers: Collection[str]) -> dict[str, SequenceKey]:
        with self._mutex:
            return _of(self._committed.by_identifier, identifiers)

    def keys_by_create(self, message_ids: Collection[str]) -> dict[str, SequenceKey]:
        with self._mutex:
            return _of(self._committed.by_create, message_ids)

    def fetchable(self, address: str, identity: str | None, limit: int) -> list[tuple[float, SequenceKey]]:
        with self._mutex:
            return sorted(self._committed.fetched.get(fetch_name(address, identity), {}).values())[:limit]

    def insert(self, *records: RmsRecord) -> None:
        for record in records:
            self._locks.adopt(order.RMS, str(record.channel.key))
            self._own_records(record.channel.key).append(record.copy())

    def save(self, record: RmsRecord) -> None:
        records = self._own_records(record.channel.key)
        records[self._index(records, record)] = record.copy()

    def delete(self, record: RmsRecord) -> None:
        records = self._own_records(record.channel.key)
        del records[self._index(records, record)]

    # --- rows ------------------------------------------------------------------------------------------------------

    def unnumbered(self, key: SequenceKey, limit: int, most_bytes: int = ANY_BYTES) -> list[OutboundMessage]:
        self._require(key)
        own = self.changed_rows.get(key, {})
        with self._mutex:
            data = self._committed.keys.get(key)
            found = [data.rows[position] for position in data.waiting[: limit + len(own)]] if data else []
        if own:
            found = [row for row in found if row.position not in own]
            found += [row for row in own.values() if row is not None and row.number is None]
            found.sort(key=lambda row: row.position)
        del found[limit:]
        del found[fitting([len(row.payload) for row in found], most_bytes) :]
        return [row.copy() for row in found]

    def read_ahead(self, keys: Iterable[SequenceKey]) -> None:
        for key in keys:
            self._require(key)

    def abandoned(self, key: SequenceKey) -> bool:
        return bool(self.abandonments(key))

    def abandonments(self, key: SequenceKey) -> list[OutboundMessage]:
        self._require(key)
        with self._mutex:
            data = self._committed.keys.get(key)
            left = data.abandoned - self.changed_rows.get(key, {}).keys() if data else ()
            return [data.rows[position].copy() for position in sorted(left)] if data else []

    def expired(self, key: SequenceKey, now: float, limit: int) -> list[OutboundMessage]:
        self._require(key)
        own = self.changed_rows.get(key, {})
        with self._mutex:
            data = self._committed.keys.get(key)
            expiring = data.expiring.items() if data else ()
            found = (
                {place: data.rows[place] for place, at in expiring if at <= now and place not in own} if data else {}
            )
        found |= {
            place: row
            for place, row in own.items()
            if row is not None and row.number is None and row.expires_at is not None and row.expires_at <= now
        }
        return [found[place].copy() for place in sorted(found)[:limit]]

    def number(self, record: RmsRecord, rows: Sequence[OutboundMessage]) -> None:
        self._change(record.channel.key, rows)

    def unsettled(
        self, record: RmsRecord, limit: int, now: float | None = None, *, one: bool = False, most_bytes: int = ANY_BYTES
    ) -> list[OutboundMessage]:
        key = record.channel.key
        self._require(key)
        own = self.changed_rows.get(key, {})
        with self._mutex:
            numbered = self._numbered(record)
            found = []
            if numbered is not None:
                rows, positions = self._committed.keys[key].rows, numbered.positions
                found = [rows[positions[number]] for number in numbered.unsettled[: limit + len(own)]]
        if own:
            found = [row for row in found if row.position not in own]
            changed = [row for row in own.values() if row is not None and row.sequence_id == record.id]
            found = sorted(found + [row for row in changed if not row.settled], key=lambda row: row.number or 0)
        del found[limit:]
        del found[fitting([0 if row.acknowledged else len(row.payload) for row in found], most_bytes) :]
        return [row.copy() for row in (found if now is None else due_at(found, now, one=one))]

    def transmitted(self, rows: Sequence[OutboundMessage]) -> None:
        if rows:
            self._change(rows[0].channel.key, rows)

    def acknowledge(self, record: RmsRecord, ranges: Ranges) -> None:
        rows = [row for row in self._rows_between(record, ranges) if not row.acknowledged]
        for row in rows:
            row.acknowledged = True
        self._keep(record.channel.key, rows)

    def release(self, record: RmsRecord, ranges: Ranges) -> None:
        for row in self._rows_between(record, ranges):
            if row.may_go:
                self._remove_row(row)

    def resend(self, record: RmsRecord, numbers: Iterable[int], now: float, most_attempts: int | None = None) -> None:
        rows = self._rows_between(record, tuple((number, number) for number in numbers))
        rows = [row for row in rows if most_attempts is None or row.attempts <= most_attempts]
        for row in rows:
            row.due = now
        self._keep(record.channel.key, rows)

    def answered(self, message_id: str) -> OutboundMessage | None:
        row = self._own_row(message_id)
        if row is None:
            return None
        before = row.copy()
        row.answered = True
        self._keep(row.channel.key, [row])
        return before

    def consumed(self, message_id: str) -> None:
        row = self._own_row(message_id)
        if row is None:
            return
        row.answered = True
        row.expects_response = False
        if row.acknowledged:
            self._remove_row(row)
        else:
            self._keep(row.channel.key, [row])

    def row(self, message_id: str) -> OutboundMessage | None:
        with self._mutex:
            return self._committed_row(self._committed.by_message_id.get(message_id))

    def rows(self, message_ids: Collection[str]) -> dict[str, OutboundMessage]:
        return {message_id: row for message_id in message_ids if (row := self.row(message_id)) is not None}

    def responses_to(self, requests: Collection[str], most_bytes: int) -> list[OutboundMessage]:
        found: list[OutboundMessage] = []
        with self._mutex:
            for request in requests:
                for position, key in self._committed.responses.get(request, {}).items():
                    row = self._committed.keys[key].rows[position]
                    if row.number is not None and not row.acknowledged:
                        found.append(row.copy())
        size = 0
        for row in sorted(found, key=lambda row: (len(row.payload), row.position)):
            before, size = size, size + len(row.payload)
            if before and size > most_bytes:
                row.payload, row.headers, row.to_parameters, row.unread = b"", (), (), True
        return sorted(found, key=lambda row: row.position)

    def unanswered(self, record: RmsRecord) -> list[OutboundMessage]:
        rows = self._rows_between(record, ((1, MAX_MESSAGE_NUMBER),))
        return [row for row in rows if row.expects_response and not row.answered]

    def unnumber(self, record: RmsRecord, ranges: Ranges, in_doubt: Ranges = ()) -> list[OutboundMessage]:
        rows = self._rows_between(record, ranges)
        doubtful = RangeSet(in_doubt)
        for row in rows:
            row.in_doubt = row.in_doubt or (row.number or 0) in doubtful
            row.sequence_id = row.number = None
            row.attempts = 0
            row.acknowledged = False
        self._change(record.channel.key, rows)
        return [row.copy() for row in rows]

    def take(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        rows = self._rows_between(record, ranges)
        for row in rows:
            self._remove_row(row)
        return rows

    def discard(self, rows: Sequence[OutboundMessage]) -> None:
        for row in rows:
            self._remove_row(row)

    def backlog(self, key: SequenceKey) -> int:
        with self._mutex:
            data = self._committed.keys.get(key)
            return len(data.rows) if data else 0

    def oldest_unacknowledged(self) -> float | None:
        with self._mutex:
            rows = (row for data in self._committed.keys.values() for row in data.rows.values())
            waiting = (
                row for row in rows if row.kind is OutboundKind.MESSAGE and not (row.acknowledged or row.retained)
            )
            return min((row.created_at for row in waiting if is_in_time(row)), default=None)

    def response_bytes(self, owner: str | None = None) -> int:
        with self._mutex:
            return self._committed.response_bytes if owner is None else self._committed.bytes_of_owner[owner]

    def response_bytes_of(self, owner: str, keys: Collection[SequenceKey]) -> int:
        with self._mutex:
            return sum(self._committed.bytes_of_key[key, owner] for key in set(keys))

    def all(self) -> list[RmsRecord]:
        with self._mutex:
            return [record.copy() for data in self._committed.keys.values() for record in data.records]

    # --- within ----------------------------------------------------------------------------------------------------

    def _require(self, key: SequenceKey) -> None:
        if key is self._used:
            return
        if key not in self._locked:
            self._locks.require(order.RMS, str(key))
        self._used = key

    def _own_records(self, key: SequenceKey) -> list[RmsRecord]:
        self._require(key)
        own = self.changed_records.get(key)
        if own is None:
            with self._mutex:
                data = self._committed.keys.get(key)
                # A committed record is replaced, never changed: it is copied only when it is read.
                own = self.changed_records[key] = list(data.records) if data else []
        return own

    @staticmethod
    def _index(records: list[RmsRecord], record: RmsRecord) -> int:
        wanted = record.id
        for index, known in enumerate(records):
            if known.id == wanted:
                return index
        raise KeyError(wanted)

    def _numbered(self, record: RmsRecord) -> NumberedRows | None:
        data = self._committed.keys.get(record.channel.key)
        return data.numbered.get(record.id) if data else None

    def _committed_row(self, found: tuple[SequenceKey, int] | None) -> OutboundMessage | None:
        if found is None:
            return None
        key, position = found
        return self._committed.keys[key].rows[position].copy()

    def _own_row(self, message_id: str) -> OutboundMessage | None:
        """This transaction's version of a row of a locked key."""
        for rows in self.changed_rows.values():
            for row in rows.values():
                if row is not None and row.message_id == message_id:
                    return row.copy()
        committed = self.row(message_id)
        if committed is None:
            return None
        self._require(committed.channel.key)
        own = self.changed_rows.get(committed.channel.key, {})
        return None if committed.position in own else committed

    def _rows_between(self, record: RmsRecord, ranges: Ranges) -> list[OutboundMessage]:
        """This transaction's versions of the numbered rows in these ranges, ascending."""
        key = record.channel.key
        self._require(key)
        own = self.changed_rows.get(key, {})
        found: list[OutboundMessage] = []
        wanted = RangeSet(ranges)  # the ranges of a peer may overlap
        with self._mutex:
            numbered = self._numbered(record)
            if numbered is not None:
                rows = self._committed.keys[key].rows
                positions = (numbered.positions[number] for number in numbered.between(wanted.as_tuples()))
                found = [rows[position].copy() for position in positions if position not in own]
        for row in own.values():
            if row is not None and row.sequence_id == record.id and row.number is not None and row.number in wanted:
                found.append(row.copy())
        return sorted(found, key=lambda row: row.number or 0)

    def _change(self, key: SequenceKey, rows: Iterable[OutboundMessage]) -> None:
        self._keep(key, (row.copy() for row in rows))

    def _keep(self, key: SequenceKey, rows: Iterable[OutboundMessage]) -> None:
        """Add rows that this transaction has made."""
        self._require(key)
        own = self.changed_rows.setdefault(key, {})
        for row in rows:
            own[row.position] = row

    def _remove_row(self, row: OutboundMessage) -> None:
        self._require(row.channel.key)
        self.changed_rows.setdefault(row.channel.key, {})[row.position] = None

    # --- the end of the transaction, under the store's mutex -------------------------------------------------------

    def check(self) -> None:
        appended.check(self.appended, self._committed)
        self._check_identifiers()

    def _check_identifiers(self) -> None:
        """Check the identifiers of all sequences of the keys that this transaction changes."""
        seen: set[str] = set()
        for records in self.changed_records.values():
            for record in records:
                identifier = record.machine.identifier
                if identifier is None:
                    continue
                holder = self._committed.by_identifier.get(identifier)
                if identifier in seen or (holder is not None and holder not in self.changed_records):
                    raise Conflict(f"another sequence has the identifier {identifier}")
                seen.add(identifier)

    def install(self) -> set[Topic]:
        committed = self._committed
        touched: dict[SequenceKey, None] = {}
        for key, rows in self.changed_rows.items():
            data = committed.data(key)
            for position, row in rows.items():
                if row is None and (gone := data.rows.get(position)) is not None:
                    self.removed.append(gone)
                committed.install_row(key, data, position, row)
            touched[key] = None
        touched |= dict.fromkeys(appended.install(self.appended, committed, self._next_position))
        for key, records in self.changed_records.items():
            committed.install_records(key, records)
            touched[key] = None
        for key in touched:
            committed.refresh(key)
        return {Topic.RMS} if touched else set()

    def savepoint(
        self,
    ) -> tuple[int, dict[SequenceKey, list[RmsRecord]], dict[SequenceKey, dict[int, OutboundMessage | None]]]:
        records = {key: list(rows) for key, rows in self.changed_records.items()}
        return len(self.appended), records, {key: dict(rows) for key, rows in self.changed_rows.items()}

    def rollback_to(
        self,
        saved: tuple[int, dict[SequenceKey, list[RmsRecord]], dict[SequenceKey, dict[int, OutboundMessage | None]]],
    ) -> None:
        length, self.changed_records, self.changed_rows = saved
        del self.appended[length:]


def _of(keys: Mapping[str, SequenceKey], names: Iterable[str]) -> dict[str, SequenceKey]:
    return {name: keys[name] for name in names if name in keys}
