"""Destination sequences in SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from sqlalchemy import Integer, and_, bindparam, case, delete, exists, func, or_, select

from mercury.statemachine.tables import InvokerState
from mercury.storage.api import Topic
from mercury.storage.names import fetch_name
from mercury.storage.order import RMD
from mercury.storage.records import RmdRecord
from mercury.storage.sql import ahead as queries
from mercury.storage.sql.codec import rmd_changes, rmd_record, rmd_values
from mercury.storage.sql.dialect import chunks
from mercury.storage.sql.prepared import Prepared, Row, among
from mercury.storage.sql.schema import INVOKER_BUFFER, INVOKER_MESSAGE, RMD_SEQUENCE
from mercury.storage.sql.statements import Statements

TABLE = RMD_SEQUENCE
NAMED = select(TABLE).where(among(TABLE.c.identifier, "identifiers")).order_by(TABLE.c.identifier)
TO_LOCK = Prepared(NAMED.with_for_update())
FREE_TO_LOCK = Prepared(NAMED.with_for_update(skip_locked=True))
CREATED = Prepared(select(TABLE.c.create_key, TABLE.c.identifier).where(among(TABLE.c.create_key, "create_keys")))
DELETE = Prepared(delete(TABLE).where(TABLE.c.identifier == bindparam("identifier")))
FETCHABLE = Prepared(
    select(TABLE.c.identifier)
    .where(TABLE.c.fetched_by == bindparam("name"))
    .order_by(TABLE.c.identifier)
    .limit(bindparam("limit", type_=Integer))
)
ENDED = and_(TABLE.c.ended_at.is_not(None), TABLE.c.create_message_id.is_not(None))
#: The buffer of the sequence still has work.
BUSY = or_(
    exists().where(
        INVOKER_BUFFER.c.sequence == TABLE.c.identifier,
        or_(INVOKER_BUFFER.c.state != InvokerState.DONE.value, INVOKER_BUFFER.c.in_progress != ""),
    ),
    exists().where(INVOKER_MESSAGE.c.sequence == TABLE.c.identifier),
)
#: The waiting bytes of each sequence that has any.
OF_BUFFER = and_(
    INVOKER_BUFFER.c.sequence == TABLE.c.identifier, INVOKER_BUFFER.c.consumed_bytes < TABLE.c.received_bytes
)
WAITING = (
    select(TABLE.c.owner, (TABLE.c.received_bytes - INVOKER_BUFFER.c.consumed_bytes).label("waiting"))
    .join_from(TABLE, INVOKER_BUFFER, OF_BUFFER)
    .subquery()
)
HAS_WAITING = exists().where(OF_BUFFER)
#: Open sequences by their owners.
OPEN = (
    select(TABLE.c.owner, func.count().label("open"))
    .where(TABLE.c.ended_at.is_(None))
    .group_by(TABLE.c.owner)
    .subquery()
)
#: Sequences that have been silent since before a time.
SILENT = or_(
    and_(TABLE.c.used, TABLE.c.last_heard < bindparam("heard_before")),
    and_(~TABLE.c.used, TABLE.c.last_heard < bindparam("unused_before")),
)
CROWDING = (
    select(TABLE.c.identifier, OPEN.c.open)
    .join_from(TABLE, OPEN, OPEN.c.owner == TABLE.c.owner)
    .where(TABLE.c.ended_at.is_(None), TABLE.c.create_message_id.is_not(None), SILENT, ~HAS_WAITING)
    .order_by(TABLE.c.used, OPEN.c.open.desc(), TABLE.c.owner, TABLE.c.last_heard, TABLE.c.identifier)
)
#: Ended sequences of peers by their owners.
ENDED_COUNTS = select(TABLE.c.owner, func.count().label("ended")).where(ENDED).group_by(TABLE.c.owner)
ENDED_BY_OWNER = ENDED_COUNTS.subquery()
MOST_ENDED = Prepared(ENDED_COUNTS.order_by(func.count().desc(), TABLE.c.owner).limit(1))
WAITING_BYTES = Prepared(
    select(
        func.coalesce(func.sum(case((WAITING.c.owner == bindparam("owner"), WAITING.c.waiting), else_=0)), 0).label(
            "own"
        ),
        func.coalesce(func.sum(WAITING.c.waiting), 0).label("every"),
    )
)


#: The counts of all, and of one owner.
OPEN_COUNTS, ENDED_COUNTS_OF = (
    tuple(
        Prepared(select(func.count().label(name)).select_from(TABLE).where(wanted, *of_owner))
        for of_owner in ((), (TABLE.c.owner == bindparam("of_owner"),))
    )
    for name, wanted in (("open", TABLE.c.ended_at.is_(None)), ("ended", ENDED))
)


class SqlRmd:
    """`RMDSequenceManager` of one transaction. Locked records are cached here, and saved ones written at its end."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        self._known: dict[str, RmdRecord | None] = {}
        self._changed: dict[str, None] = {}

    def lock(
        self,
        identifiers: Iterable[str],
        buffers: Collection[str] = (),
        delivered: Collection[str] = (),
        *,
        only_free: bool = False,
    ) -> dict[str, RmdRecord]:
        wanted = list(dict.fromkeys(identifiers))
        locked = self._tx.to_lock(RMD, wanted)
        missing = sorted({*locked, *(identifier for identifier in wanted if identifier not in self._known)})
        query = FREE_TO_LOCK if only_free else TO_LOCK
        for part in chunks(missing):
            last = part[-1] == missing[-1]
            ahead = queries.behind_locks(buffers, delivered, only_free=only_free) if last else []
            names, delivers = {"identifiers": part}, bool(delivered)
            # For one sequence, two statements more would cost as much as a plan that was kept for too long.
            searches = delivers and len(part) > 1
            rows = self._tx.read_locked(query, names, ahead, savepoint=delivers, delivers=delivers, handlers=searches)
            for row in rows:
                self._known[row["identifier"]] = rmd_record(row)
        self._tx.locked(RMD, [name for name in locked if name in self._known] if only_free else locked)
        found = ((identifier, self._known.get(identifier)) for identifier in wanted)
        return {identifier: record.copy() for identifier, record in found if record is not None}

    def read(self, identifier: str) -> RmdRecord | None:
        return self.read_many([identifier]).get(identifier)

    def read_many(self, identifiers: Collection[str]) -> dict[str, RmdRecord]:
        found = {name: own.copy() for name in identifiers if (own := self._known.get(name)) is not None}
        for part in chunks([name for name in identifiers if name not in self._known]):
            read = self._tx.read if len(part) == 1 else partial(self._tx.search, handlers=True)
            for row in read(*queries.rmds(part)):
                found[row["identifier"]] = rmd_record(row)
        return found

    def find_created(self, *create_keys: str) -> dict[str, str]:
        known = {record.create_key: record.identifier for record in self._known.values() if record}
        found = {key: known[key] for key in create_keys if key in known}
        for part in chunks([key for key in create_keys if key not in found]):
            rows = self._tx.search(CREATED, {"create_keys": part}, handlers=True)
            found |= {row["create_key"]: row["identifier"] for row in rows}
        return found

    def insert(self, *records: RmdRecord) -> None:
        for record in records:
            self._tx.adopt(RMD, record.identifier)
        self._tx.insert(TABLE, [rmd_values(record) for record in records])
        for record in records:
            self._known[record.identifier] = record.copy()
            self._wake(record)

    def save(self, record: RmdRecord) -> None:
        self._tx.require(RMD, record.identifier)
        self._known[record.identifier] = record.copy()
        self._changed[record.identifier] = None
        self._wake(record)

    def _wake(self, record: RmdRecord) -> None:
        if self._tx.store.soon(record.due):
            self._tx.topics.add(Topic.RMD)

    def delete(self, identifier: str) -> None:
        self._tx.require(RMD, identifier)
        self._tx.write(DELETE, {"identifier": identifier})
        self._known[identifier] = None
        self._changed.pop(identifier, None)

    def fetchable(self, address: str, identity: str | None, limit: int) -> list[str]:
        rows = self._tx.read(FETCHABLE, {"name": fetch_name(address, identity), "limit": limit})
        return [row["identifier"] for row in rows]

    def open_count(self, owner: str | None = None) -> int:
        return int(self._count(OPEN_COUNTS, owner)["open"])

    def idle(self, heard_before: float, limit: int, owner: str | None = None, *, waiting: bool = False) -> list[str]:
        made_by_peers = and_(TABLE.c.ended_at.is_(None), TABLE.c.create_message_id.is_not(None))
        query = select(TABLE.c.identifier).where(made_by_peers, TABLE.c.last_heard < heard_before)
        if owner is not None:
            query = query.where(TABLE.c.owner == owner)
        if waiting:
            query = query.where(HAS_WAITING)
        rows = self._tx.read(query.order_by(TABLE.c.last_heard, TABLE.c.identifier).limit(limit))
        return [row["identifier"] for row in rows]

    def crowding(self, limit: int, *, unused_before: float, heard_before: float) -> list[tuple[str, int]]:
        times = {"unused_before": unused_before, "heard_before": heard_before}
        rows = self._tx.read(CROWDING.limit(limit), times)
        return [(row["identifier"], int(row["open"])) for row in rows]

    def ended_count(self, owner: str | None = None, since: float | None = None, *, given_up: bool | None = None) -> int:
        if since is None and given_up is None:
            return int(self._count(ENDED_COUNTS_OF, owner)["ended"])
        query = select(func.count().label("ended")).select_from(TABLE).where(ENDED)
        if owner is not None:
            query = query.where(TABLE.c.owner == owner)
        if since is not None:
            query = query.where(TABLE.c.ended_at >= since)
        if given_up is not None:
            query = query.where(TABLE.c.given_up == given_up)
        return int(self._tx.read(query)[0]["ended"])

    def _count(self, counts: tuple[Prepared, ...], owner: str | None) -> Row:
        of_all, of_one = counts
        return (self._tx.read(of_all) if owner is None else self._tx.read(of_one, {"of_owner": owner}))[0]

    def most_ended(self) -> tuple[str, int]:
        rows = self._tx.read(MOST_ENDED)
        return (rows[0]["owner"], int(rows[0]["ended"])) if rows else ("", 0)

    def ended(self, before: float, limit: int, owner: str | None = None, *, given_up: bool = False) -> list[str]:
        query = select(TABLE.c.identifier).where(ENDED, TABLE.c.ended_at < before, TABLE.c.given_up == given_up, ~BUSY)
        if owner is not None:
            query = query.where(TABLE.c.owner == owner)
        else:
            query = query.join_from(TABLE, ENDED_BY_OWNER, ENDED_BY_OWNER.c.owner == TABLE.c.owner)
            query = query.order_by(ENDED_BY_OWNER.c.ended.desc(), TABLE.c.owner)
        rows = self._tx.read(query.order_by(TABLE.c.ended_at, TABLE.c.identifier).limit(limit))
        return [row["identifier"] for row in rows]

    def first_waiting(self, heard_after: float, owner: str | None = None) -> str | None:
        query = select(TABLE.c.identifier).where(TABLE.c.last_heard >= heard_after, HAS_WAITING)
        if owner is not None:
            query = query.where(TABLE.c.owner == owner)
        rows = self._tx.read(query.order_by(TABLE.c.created_at, TABLE.c.identifier).limit(1))
        return rows[0]["identifier"] if rows else None

    def waiting_bytes(self, owner: str) -> tuple[int, int]:
        row = self._tx.read(WAITING_BYTES, {"owner": owner})[0]
        return int(row["own"]), int(row["every"])

    def all(self) -> list[RmdRecord]:
        return [rmd_record(row) for row in self._tx.read(select(TABLE).order_by(TABLE.c.created_at))]

    # --- the end of the transaction --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the saved records."""
        if self._changed:
            changed = [record for identifier in self._changed if (record := self._known[identifier]) is not None]
            self._changed.clear()
            self._tx.update(TABLE, "identifier", [rmd_changes(record) for record in changed])

    def forget_changes(self) -> None:
        """Drop cached records: a savepoint was rolled back."""
        self._changed.clear()
        self._known.clear()
