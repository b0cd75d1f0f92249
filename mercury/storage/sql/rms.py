"""Source sequences in SQL; their rows are in `rms_rows`."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import BindParameter, bindparam, delete, select

from mercury.storage.api import Topic
from mercury.storage.order import RMS
from mercury.storage.records import RmsRecord, SequenceKey
from mercury.storage.sql import codec
from mercury.storage.sql.codec import rms_record, rms_values
from mercury.storage.sql.dialects import chunks
from mercury.storage.sql.fields import Values
from mercury.storage.sql.rms_rows import SqlRmsRows
from mercury.storage.sql.schema import RMS_KEY, RMS_SEQUENCE
from mercury.storage.sql.statements import Statements
from mercury.storage.sql.values import read_channel

TABLE = RMS_SEQUENCE
NAMES: BindParameter[str] = bindparam("names", expanding=True)
KEYS = select(RMS_KEY.c.key_id).where(RMS_KEY.c.key_id.in_(NAMES)).order_by(RMS_KEY.c.key_id).with_for_update()
OF_KEYS = select(TABLE).where(TABLE.c.key_id.in_(NAMES)).order_by(TABLE.c.position)


class SqlRms(SqlRmsRows):
    """`RMSSequenceManager` of one transaction. Records are kept here as they are locked and written at its end."""

    def __init__(self, transaction: Statements) -> None:
        super().__init__(transaction)
        self._records: dict[str, list[RmsRecord]] = {}
        self._changed: dict[str, RmsRecord] = {}
        #: Keys that were locked and whose records nobody has asked for yet: not every lock is for them.
        self._to_load: dict[str, None] = {}
        #: Answers to `key_of`, read ahead: by identifier and by the MessageID of CreateSequence.
        self._expected_keys: tuple[dict[str, SequenceKey | None], dict[str, SequenceKey | None]] = ({}, {})

    def lock(self, keys: Iterable[SequenceKey]) -> None:
        by_id = {key.digest: key for key in keys}
        wanted = self._tx.to_lock(RMS, list(by_id))
        for part in chunks(wanted):
            here = {row["key_id"] for row in self._tx.read_locked(KEYS, {"names": part})}
            new = [name for name in part if name not in here]
            if new:
                # Somebody else may make them now: then this waits for him, and locks what he has made.
                rows = [{"key_id": name, "endpoint": by_id[name].endpoint, "name": by_id[name].name} for name in new]
                self._tx.insert(RMS_KEY, rows, ignore=True)
                self._tx.read_locked(KEYS, {"names": new})
        self._tx.locked(RMS, wanted)
        self._to_load.update(dict.fromkeys(wanted))
        self.forget_prefetched()

    def _load(self, key_ids: Iterable[str]) -> None:
        """Read the records of these keys, and with them those of all that were locked meanwhile."""
        missing = [name for name in key_ids if name not in self._records]
        if not missing:
            return
        missing += [name for name in self._to_load if name not in self._records and name not in missing]
        self._to_load.clear()
        for name in missing:
            self._records[name] = []
        for part in chunks(missing):
            for row in self._tx.read(OF_KEYS, {"names": part}):
                self._records[row["key_id"]].append(rms_record(row))

    def records(self, key: SequenceKey) -> list[RmsRecord]:
        return [record.copy() for record in self._own_records(key)]

    def peek(self, key: SequenceKey) -> list[RmsRecord]:
        name = key.digest
        if name in self._records:
            return [record.copy() for record in self._records[name]]
        return [rms_record(row) for row in self._tx.read(OF_KEYS, {"names": [name]})]

    def insert(self, record: RmsRecord) -> None:
        name = record.channel.key.digest
        self._tx.adopt(RMS, name)
        key = record.channel.key
        self._tx.insert(RMS_KEY, [{"key_id": name, "endpoint": key.endpoint, "name": key.name}], ignore=True)
        self._load([name])
        self._tx.insert(TABLE, [rms_values(record)])
        self._records[name].append(record.copy())
        self._wake(record)

    def save(self, record: RmsRecord) -> None:
        records = self._own_records(record.channel.key)
        own = record.copy()
        records[_index(records, record)] = own
        self._changed[record.id] = own
        self._wake(record)

    def _wake(self, record: RmsRecord) -> None:
        if self._tx.store.soon(record.due):
            self._tx.topics.add(Topic.RMS)

    def delete(self, record: RmsRecord) -> None:
        records = self._own_records(record.channel.key)
        del records[_index(records, record)]
        self._changed.pop(record.id, None)
        self._tx.write(delete(TABLE).where(TABLE.c.id == record.id))

    def all(self) -> list[RmsRecord]:
        return [rms_record(row) for row in self._tx.read(select(TABLE).order_by(TABLE.c.position))]

    def prefetch(
        self,
        *,
        identifiers: Iterable[str] = (),
        create_message_ids: Iterable[str] = (),
        message_ids: Iterable[str] = (),
    ) -> None:
        for known, column, values in zip(
            self._expected_keys,
            (TABLE.c.identifier, TABLE.c.create_message_id),
            (list(identifiers), list(create_message_ids)),
            strict=True,
        ):
            remembered = self._tx.store.remembered_keys
            known |= {value: key for value in values if (key := remembered.get(value)) is not None}
            wanted = [value for value in values if value not in known]
            known |= dict.fromkeys(wanted)
            for part in chunks(wanted):
                for row in self._tx.read(select(column.label("value"), TABLE.c.channel).where(column.in_(part))):
                    key = known[row["value"]] = read_channel(row["channel"]).key
                    remembered[row["value"]] = key
        self.prefetch_rows(message_ids)

    def key_of(self, *, identifier: str | None = None, create_message_id: str | None = None) -> SequenceKey | None:
        for records in self._records.values():
            for record in records:
                if identifier is not None and record.machine.identifier == identifier:
                    return record.channel.key
        known, column, value = self._expected_keys[0], TABLE.c.identifier, identifier
        if identifier is None:
            known, column, value = self._expected_keys[1], TABLE.c.create_message_id, create_message_id
        if value in known:
            return known[value]
        rows = self._tx.read(select(TABLE.c.channel).where(column == value).limit(1))
        return read_channel(rows[0]["channel"]).key if rows else None

    # --- the end of the transaction --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what was saved."""
        self.flush_kept()
        changed = list(self._changed.values())
        self._changed.clear()
        self._tx.update(TABLE, "id", [_changing(record) for record in changed])

    def forget_changes(self) -> None:
        """A savepoint is rolled back: what is known may be wrong."""
        self._changed.clear()
        self._records.clear()
        self.forget_kept()
        self.forget_prefetched()

    def forget_prefetched(self) -> None:
        """Others may have changed what was read ahead."""
        for known in self._expected_keys:
            known.clear()
        self.forget_rows()

    # --- within ----------------------------------------------------------------------------------------------------

    def _own_records(self, key: SequenceKey) -> list[RmsRecord]:
        name = key.digest
        self._tx.require(RMS, name)
        self._load([name])
        return self._records[name]


def _changing(record: RmsRecord) -> Values:
    """What can change of a record."""
    values = rms_values(record)
    for name in codec.RMS.constant:
        del values[name]
    return values


def _index(records: list[RmsRecord], record: RmsRecord) -> int:
    return next(index for index, known in enumerate(records) if known.id == record.id)
