"""Source sequences in SQL; their rows are in `rms_rows`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Integer, bindparam, delete, select

from mercury.storage.api import Topic
from mercury.storage.claims import Claim
from mercury.storage.names import fetch_name
from mercury.storage.order import RMS
from mercury.storage.records import RmsRecord, SequenceKey
from mercury.storage.sql import ahead
from mercury.storage.sql.claim_guard import free_claim
from mercury.storage.sql.codec import rms_changes, rms_record, rms_values
from mercury.storage.sql.dialect import chunks
from mercury.storage.sql.prepared import Prepared, among
from mercury.storage.sql.rms_rows import SqlRmsRows
from mercury.storage.sql.schema import RMS_KEY, RMS_SEQUENCE
from mercury.storage.sql.statements import Statements
from mercury.storage.sql.values import read_channel

TABLE = RMS_SEQUENCE
KEYS = Prepared(
    select(RMS_KEY.c.key_id).where(among(RMS_KEY.c.key_id, "names")).order_by(RMS_KEY.c.key_id).with_for_update()
)
FREE_KEYS = Prepared(select(RMS_KEY.c.key_id).where(among(RMS_KEY.c.key_id, "names")).with_for_update(skip_locked=True))
FETCHABLE = Prepared(
    select(TABLE.c.fetch_due, TABLE.c.channel)
    .where(TABLE.c.fetched_by == bindparam("name"))
    .order_by(TABLE.c.fetch_due, TABLE.c.position)
    .limit(bindparam("limit", type_=Integer))
)
BY_IDENTIFIER, BY_CREATE = (
    Prepared(select(column.label("value"), TABLE.c.channel).where(among(column, "names")))
    for column in (TABLE.c.identifier, TABLE.c.create_message_id)
)
KEY_OF = Prepared(select(TABLE.c.channel).where(TABLE.c.identifier == bindparam("identifier")).limit(1))
DELETE = Prepared(delete(TABLE).where(TABLE.c.id == bindparam("name")))


class SqlRms(SqlRmsRows):
    """`RMSSequenceManager` of one transaction. Locked records are cached here, and saved ones written at its end."""

    def __init__(self, transaction: Statements) -> None:
        super().__init__(transaction)
        self._records: dict[str, list[RmsRecord]] = {}
        self._changed: dict[str, RmsRecord] = {}
        #: New records that are not written yet: most are saved again before the end of their transaction.
        self._inserted: dict[str, RmsRecord] = {}
        #: Keys that have a row in the table of keys, as far as this transaction knows.
        self._named: set[str] = set()
        #: Locked keys whose records are not read yet: many callers that lock a key do not need them.
        self._to_load: dict[str, None] = {}

    def lock(self, keys: Iterable[SequenceKey], *, records: bool = False, rows: bool = False) -> None:
        by_id = {key.digest: key for key in keys}
        wanted = self._tx.to_lock(RMS, list(by_id))
        behind = [ahead.rms_of_keys(wanted)] if records else []
        behind += self._waiting.questions(wanted) if rows else []
        for part in chunks(wanted):
            more = behind if len(part) == len(wanted) else []
            here = {row["key_id"] for row in self._tx.read_locked(KEYS, {"names": part}, more)}
            new = [name for name in part if name not in here]
            if new:
                # Another transaction may be inserting the same keys: the insert waits for it, and then locks its rows.
                keys_to_insert = [
                    {"key_id": name, "endpoint": by_id[name].endpoint, "name": by_id[name].name} for name in new
                ]
                self._tx.insert(RMS_KEY, keys_to_insert, ignore=True)
                self._tx.read_locked(KEYS, {"names": new})
        self._take_locked(wanted, rows=rows)

    def _take_locked(self, names: Sequence[str], *, rows: bool) -> None:
        """Note that keys are locked now.

        :param rows: rows without a number may have been read ahead.
        """
        self._tx.locked(RMS, names)
        self._named.update(names)
        self._to_load.update(dict.fromkeys(names))
        self.forget_rows()
        if rows:
            self._waiting.take_ahead(names)

    def lock_appended(self, key: SequenceKey, claim: Claim) -> bool:
        self.flush_appended()
        wanted = self._tx.to_lock(RMS, [key.digest])
        free, behind = (FREE_KEYS, {"names": wanted}), [ahead.rms_of_keys(wanted), *self._waiting.questions(wanted)]
        query = free_claim(self._tx.dialect)
        held = self._tx.read_locked(query, {"resource": claim.resource}, [free, *behind], savepoint=True)
        if [Claim(**row) for row in held] != [claim] or not self._tx.read(*free):
            return False
        self._take_locked(wanted, rows=True)
        self._load(wanted)
        return True

    def _load(self, key_ids: Iterable[str]) -> None:
        """Read the records of these keys, and of all other locked keys whose records are not read yet."""
        missing = [name for name in key_ids if name not in self._records]
        if not missing:
            return
        missing += [name for name in self._to_load if name not in self._records and name not in missing]
        self._to_load.clear()
        for name in missing:
            self._records[name] = []
        for part in chunks(sorted(missing)):
            for row in self._tx.search(*ahead.rms_of_keys(part)):
                self._records[row["key_id"]].append(rms_record(row))

    def records(self, key: SequenceKey) -> list[RmsRecord]:
        return [record.copy() for record in self._own_records(key)]

    def read_ahead(self, keys: Iterable[SequenceKey]) -> None:
        every = list(keys)
        self.read_ahead_of(every, [record for key in every for record in self._own_records(key)])

    def peek(self, key: SequenceKey) -> list[RmsRecord]:
        name = key.digest
        if name in self._records:
            return [record.copy() for record in self._records[name]]
        return [rms_record(row) for row in self._tx.read(*ahead.rms_of_keys([name]))]

    def insert(self, *records: RmsRecord) -> None:
        # A key that is locked has its row.
        keys = {record.channel.key.digest: record.channel.key for record in records}
        new = {name: key for name, key in keys.items() if name not in self._named}
        rows = [{"key_id": name, "endpoint": key.endpoint, "name": key.name} for name, key in new.items()]
        self._tx.insert(RMS_KEY, rows, ignore=True)
        for name in new:
            self._tx.adopt(RMS, name)
        self._named.update(new)
        self._load(keys)
        for record in records:
            own = record.copy()
            self._records[record.channel.key.digest].append(own)
            self._inserted[record.id] = own

    def save(self, record: RmsRecord) -> None:
        records = self._own_records(record.channel.key)
        own, place = record.copy(), _index(records, record)
        if own.create_message_id != records[place].create_message_id and own.id not in self._inserted:
            # Apart from what changes often: SQLite writes the indexes of all columns that an update names.
            create = {"id": own.id, "create_message_id": own.create_message_id, "offered": own.offered}
            self._tx.update(TABLE, "id", [create])
        records[place] = own
        (self._inserted if record.id in self._inserted else self._changed)[record.id] = own

    def _wake(self, record: RmsRecord) -> None:
        if self._tx.store.soon(record.due):
            self._tx.topics.add(Topic.RMS)

    def delete(self, record: RmsRecord) -> None:
        records = self._own_records(record.channel.key)
        del records[_index(records, record)]
        self._changed.pop(record.id, None)
        if self._inserted.pop(record.id, None) is not None:
            return
        self._tx.write(DELETE, {"name": record.id})

    def all(self) -> list[RmsRecord]:
        self._flush_inserted()
        return [rms_record(row) for row in self._tx.read(select(TABLE).order_by(TABLE.c.position))]

    def backlog(self, key: SequenceKey) -> int:
        self._flush_inserted()
        return super().backlog(key)

    def fetchable(self, address: str, identity: str | None, limit: int) -> list[tuple[float, SequenceKey]]:
        self._flush_inserted()
        rows = self._tx.read(FETCHABLE, {"name": fetch_name(address, identity), "limit": limit})
        return [(row["fetch_due"], read_channel(row["channel"]).key) for row in rows]

    def key_of(self, identifier: str) -> SequenceKey | None:
        for records in self._records.values():
            for record in records:
                if record.machine.identifier == identifier:
                    return record.channel.key
        rows = self._tx.read(KEY_OF, {"identifier": identifier})
        return read_channel(rows[0]["channel"]).key if rows else None

    def keys_by_identifier(self, identifiers: Collection[str]) -> dict[str, SequenceKey]:
        return self._keys_by("identifier", BY_IDENTIFIER, identifiers)

    def keys_by_create(self, message_ids: Collection[str]) -> dict[str, SequenceKey]:
        return self._keys_by("create", BY_CREATE, message_ids)

    def _keys_by(self, kind: str, query: Prepared, values: Collection[str]) -> dict[str, SequenceKey]:
        """The keys are cached in the store, because the key of an identifier never changes."""
        self._flush_inserted()
        remembered = self._tx.store.remembered_keys
        names = {value: f"{kind} {value}" for value in values}
        found = {value: key for value, name in names.items() if (key := remembered.get(name)) is not None}
        for part in chunks([value for value in names if value not in found]):
            for row in self._tx.search(query, {"names": part}):
                found[row["value"]] = remembered[names[row["value"]]] = read_channel(row["channel"]).key
        return found

    # --- the end of the transaction --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the new and the saved records."""
        if self._inserted:
            self._flush_inserted()
        if self._changed:
            changed, self._changed = list(self._changed.values()), {}
            for record in changed:
                self._wake(record)
            self._tx.update(TABLE, "id", [rms_changes(record) for record in changed])
        self.flush_pending()  # behind it, to be sent together

    def _flush_inserted(self) -> None:
        new = list(self._inserted.values())
        self._inserted.clear()
        for record in new:
            self._wake(record)
        self._tx.insert(TABLE, [rms_values(record) for record in new])

    def forget_changes(self) -> None:
        """Drop cached records: a savepoint was rolled back."""
        self._changed.clear()
        self._inserted.clear()
        self._named.clear()
        self._records.clear()
        self._to_load.clear()
        self.forget_pending()
        self.forget_rows()

    # --- within ----------------------------------------------------------------------------------------------------

    def _own_records(self, key: SequenceKey) -> list[RmsRecord]:
        name = key.digest
        self._tx.require(RMS, name)
        self._load([name])
        return self._records[name]


def _index(records: list[RmsRecord], record: RmsRecord) -> int:
    return [known.id for known in records].index(record.id)
