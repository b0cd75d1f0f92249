"""Destination sequences in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from mercury.errors import Conflict
from mercury.storage import order
from mercury.storage.api import Topic
from mercury.storage.memory.committed import Committed
from mercury.storage.memory.locks import HeldLocks
from mercury.storage.names import fetch_name
from mercury.storage.records import RmdRecord


class MemoryRmd:
    """`RMDSequenceManager` of one transaction."""

    def __init__(self, committed: Committed, locks: HeldLocks) -> None:
        self._mutex = committed.mutex
        self._locks = locks
        self._committed = committed.rmd
        self._buffers = committed.invoker
        self.changed: dict[str, RmdRecord | None] = {}
        self.inserted: list[RmdRecord] = []

    def lock(
        self,
        identifiers: Iterable[str],
        buffers: Collection[str] = (),  # noqa: ARG002  nothing is far away here
        delivered: Collection[str] = (),  # noqa: ARG002
        *,
        only_free: bool = False,
    ) -> dict[str, RmdRecord]:
        wanted = list(identifiers)
        if only_free:
            wanted = self._locks.acquire_free(order.RMD, wanted)
        else:
            self._locks.acquire(order.RMD, wanted)
        return self.read_many(wanted)

    def read(self, identifier: str) -> RmdRecord | None:
        if identifier in self.changed:
            own = self.changed[identifier]
            return own.copy() if own else None
        with self._mutex:
            record = self._committed.records.get(identifier)
            return record.copy() if record else None

    def read_many(self, identifiers: Collection[str]) -> dict[str, RmdRecord]:
        return {identifier: record for identifier in identifiers if (record := self.read(identifier)) is not None}

    def find_created(self, *create_keys: str) -> dict[str, str]:
        with self._mutex:
            by_create = self._committed.by_create
            found = {key: by_create[key] for key in create_keys if key in by_create}
        inserted = {record.create_key: record.identifier for record in self.inserted}
        return found | {key: inserted[key] for key in create_keys if key in inserted}

    def insert(self, *records: RmdRecord) -> None:
        for record in records:
            self._locks.adopt(order.RMD, record.identifier)
            self.inserted.append(record)
            self.changed[record.identifier] = record.copy()

    def save(self, record: RmdRecord) -> None:
        self._locks.require(order.RMD, record.identifier)
        self.changed[record.identifier] = record.copy()

    def delete(self, identifier: str) -> None:
        self._locks.require(order.RMD, identifier)
        self.changed[identifier] = None

    def fetchable(self, address: str, identity: str | None, limit: int) -> list[str]:
        with self._mutex:
            return sorted(self._committed.fetched.get(fetch_name(address, identity), ()))[:limit]

    def open_count(self, owner: str | None = None) -> int:
        with self._mutex:
            return self._committed.open if owner is None else self._committed.open_by_owner[owner]

    def idle(self, heard_before: float, limit: int, owner: str | None = None, *, waiting: bool = False) -> list[str]:
        with self._mutex:
            records = self._committed.records.values()
            idle = sorted(
                (record.machine.last_heard, record.identifier)
                for record in records
                if record.create_message_id is not None
                and not record.machine.tombstone
                and record.machine.last_heard < heard_before
                and owner in (None, record.owner)
                and (not waiting or self._has_waiting(record))
            )
        return [identifier for _, identifier in idle[:limit]]

    def crowding(self, limit: int, *, unused_before: float, heard_before: float) -> list[tuple[str, int]]:
        with self._mutex:
            counts = self._committed.open_by_owner
            found = sorted(
                (record.machine.used, -counts[record.owner], record.owner, record.machine.last_heard, record.identifier)
                for record in self._committed.records.values()
                if record.create_message_id is not None
                and not record.machine.tombstone
                and record.machine.last_heard < (heard_before if record.machine.used else unused_before)
                and not self._has_waiting(record)
            )
        return [(identifier, -count) for _, count, _, _, identifier in found[:limit]]

    def ended_count(self, owner: str | None = None, since: float | None = None, *, given_up: bool | None = None) -> int:
        with self._mutex:
            if since is not None or given_up is not None:
                return sum(
                    (since is None or at >= since) and (given_up is None or record.given_up is given_up)
                    for at, record in self._ended(owner)
                )
            return self._committed.ended if owner is None else self._committed.ended_by_owner[owner]

    def most_ended(self) -> tuple[str, int]:
        with self._mutex:
            counts = self._committed.ended_by_owner
            return min(counts.items(), key=lambda each: (-each[1], each[0]), default=("", 0))

    def ended(self, before: float, limit: int, owner: str | None = None, *, given_up: bool = False) -> list[str]:
        with self._mutex:
            idle, counts = self._buffers.idle, self._committed.ended_by_owner
            old = sorted(
                (-counts[record.owner], record.owner, at, record.identifier)
                for at, record in self._ended(owner)
                if at < before and record.given_up is given_up and idle(record.identifier)
            )
        return [identifier for *_, identifier in old[:limit]]

    def _ended(self, owner: str | None) -> Iterator[tuple[float, RmdRecord]]:
        for record in self._committed.records.values():
            at = record.machine.ended_at
            if at is not None and record.create_message_id is not None and owner in (None, record.owner):
                yield at, record

    def first_waiting(self, heard_after: float, owner: str | None = None) -> str | None:
        with self._mutex:
            waiting = (
                (record.created_at, identifier)
                for identifier, record in self._committed.records.items()
                if self._has_waiting(record)
                and record.machine.last_heard >= heard_after
                and owner in (None, record.owner)
            )
            return min(waiting, default=(0.0, None))[1]

    def waiting_bytes(self, owner: str) -> tuple[int, int]:
        own = every = 0
        with self._mutex:
            buffers = self._buffers.buffers
            for identifier, record in self._committed.records.items():
                buffer = buffers.get(identifier)
                # The owner is compared last: the loop reads all sequences, and most have no waiting message.
                if buffer is not None and record.received_bytes > buffer.record.consumed_bytes:
                    waiting = record.received_bytes - buffer.record.consumed_bytes
                    every += waiting
                    own += waiting if record.owner == owner else 0
        return own, every

    def _has_waiting(self, record: RmdRecord) -> bool:
        buffer = self._buffers.buffers.get(record.identifier)
        return buffer is not None and record.received_bytes > buffer.record.consumed_bytes

    def all(self) -> list[RmdRecord]:
        with self._mutex:
            return [record.copy() for record in self._committed.records.values()]

    # --- the end of the transaction, under the store's mutex -------------------------------------------------------

    def check(self) -> None:
        for record in self.inserted:
            if record.create_key in self._committed.by_create:
                raise Conflict("the same CreateSequence has made a sequence meanwhile")

    def install(self) -> set[Topic]:
        for identifier, record in self.changed.items():
            self._committed.install(identifier, record)
        return {Topic.RMD} if self.changed else set()

    def savepoint(self) -> tuple[dict[str, RmdRecord | None], list[RmdRecord]]:
        return dict(self.changed), list(self.inserted)

    def rollback_to(self, saved: tuple[dict[str, RmdRecord | None], list[RmdRecord]]) -> None:
        self.changed, self.inserted = saved
