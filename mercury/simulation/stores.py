"""What survives a simulated crash: one store a node, in memory or in a SQLite file, and what is committed in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Protocol

from mercury.statemachine.ranges import RangeSet
from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore
from mercury.storage.records import DeadLetter, InvokerRecord, RmdRecord, RmsRecord


class NodeStore(Protocol):
    """A node's store, and the questions that the checks ask about what is committed in it."""

    #: Virtual seconds after which a node polls: claims of its earlier lives run out.
    poll: float | None

    def open(self, interrupt: Callable[[], None]) -> StorageManager:
        """What a process finds that starts now.

        :param interrupt: is called before each statement of a store that has some; it may raise a crash.
        """

    def received(self, identifier: str) -> RangeSet: ...

    def number_of(self, message_id: str) -> int | None:
        """The number of an outbound row; ``None`` also when there is no such row."""

    def source(self, identifier: str) -> RmsRecord | None: ...

    def destinations(self) -> Iterable[RmdRecord]: ...

    def buffers(self) -> Iterable[tuple[InvokerRecord, int]]:
        """Each with the number of messages in it."""

    def bytes_in(self, sequence: str) -> int:
        """What the messages in a buffer take, row by row."""

    def sources(self) -> Iterable[RmsRecord]: ...

    def rows(self) -> list[str]:
        """MessageIDs of outbound rows."""

    def letters(self) -> Iterable[DeadLetter]: ...

    def close(self) -> None: ...


class MemoryNodeStore:
    """Committed state that is handed from one life of the node to the next, without the claims."""

    poll: float | None = None

    def __init__(self) -> None:
        self._store = MemoryStore()

    def open(self, interrupt: Callable[[], None]) -> MemoryStore:  # noqa: ARG002  nothing to interrupt here
        self._store = self._store.crashed()
        return self._store

    def received(self, identifier: str) -> RangeSet:
        record = self._store.committed.rmd.records.get(identifier)
        return record.machine.received if record is not None else RangeSet()

    def number_of(self, message_id: str) -> int | None:
        found = self._store.committed.rms.by_message_id.get(message_id)
        return self._store.committed.rms.keys[found[0]].rows[found[1]].number if found else None

    def source(self, identifier: str) -> RmsRecord | None:
        key = self._store.committed.rms.by_identifier.get(identifier)
        records = self._store.committed.rms.keys[key].records if key is not None else []
        return next((record for record in records if record.machine.identifier == identifier), None)

    def destinations(self) -> Iterable[RmdRecord]:
        return self._store.committed.rmd.records.values()

    def buffers(self) -> Iterable[tuple[InvokerRecord, int]]:
        return [(buffer.record, len(buffer.rows)) for buffer in self._store.committed.invoker.buffers.values()]

    def bytes_in(self, sequence: str) -> int:
        return sum(row.size for row in self._store.committed.invoker.buffers[sequence].rows.values())

    def sources(self) -> Iterable[RmsRecord]:
        return [record for data in self._store.committed.rms.keys.values() for record in data.records]

    def rows(self) -> list[str]:
        return [row.message_id for data in self._store.committed.rms.keys.values() for row in data.rows.values()]

    def letters(self) -> Iterable[DeadLetter]:
        return self._store.committed.dead_letters.values()

    def close(self) -> None:
        self._store.close()


class SharedMemoryNodeStore(MemoryNodeStore):
    """The same for one of several processes, which lasts: what another process has claimed stays with it.

    :param store: is closed by nobody.
    """

    poll: float | None = 1.0

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store

    def open(self, interrupt: Callable[[], None]) -> MemoryStore:  # noqa: ARG002  nothing to interrupt here
        return self._store


class SqliteNodeStore:
    """A SQLite file. It need not be flushed: what crashes here is a process that exists in name only.

    :param clock: virtual time.
    """

    poll: float | None = 1.0

    def __init__(self, file: Path, clock: Callable[[], float]) -> None:
        # SQLAlchemy is only loaded for who simulates over it.
        from mercury.storage.sql.simulated import SimulatedStore  # noqa: PLC0415

        self._open = partial(SimulatedStore, file, clock)
        #: Checks are not interrupted.
        self._eye = self._open(_never)
        self._store = self._eye

    def open(self, interrupt: Callable[[], None]) -> StorageManager:
        if self._store is not self._eye:
            self._store.close()
        self._store = self._open(interrupt)
        return self._store

    def received(self, identifier: str) -> RangeSet:
        with self._eye.transaction() as tx:
            record = tx.rmd.read(identifier)
        return record.machine.received if record is not None else RangeSet()

    def number_of(self, message_id: str) -> int | None:
        with self._eye.transaction() as tx:
            row = tx.rms.row(message_id)
        return row.number if row is not None else None

    def source(self, identifier: str) -> RmsRecord | None:
        with self._eye.transaction() as tx:
            key = tx.rms.key_of(identifier=identifier)
            records = tx.rms.peek(key) if key is not None else []
        return next((record for record in records if record.machine.identifier == identifier), None)

    def destinations(self) -> Iterable[RmdRecord]:
        with self._eye.transaction() as tx:
            return tx.rmd.all()

    def buffers(self) -> Iterable[tuple[InvokerRecord, int]]:
        with self._eye.transaction() as tx:
            return [(record, tx.invoker.numbers(record.sequence).count) for record in tx.invoker.all()]

    def bytes_in(self, sequence: str) -> int:
        with self._eye.transaction() as tx:
            rows = tx.invoker.messages(sequence, list(tx.invoker.numbers(sequence).numbers()))
        return sum(row.size for row in rows.values())

    def sources(self) -> Iterable[RmsRecord]:
        with self._eye.transaction() as tx:
            return tx.rms.all()

    def rows(self) -> list[str]:
        return self._eye.message_ids()

    def letters(self) -> Iterable[DeadLetter]:
        with self._eye.transaction() as tx:
            return tx.dead_letters.all()

    def close(self) -> None:
        for store in {self._store, self._eye}:
            store.close()


def _never() -> None:
    """Nothing happens."""


class Interruptions:
    """Crashes before a statement, by chance.

    :param likely: chance of each statement.
    """

    def __init__(self, chance: Random, likely: float, crash: Callable[[], BaseException]) -> None:
        self._chance = chance
        self._likely = likely
        self._crash = crash
        #: Cleared when the world heals.
        self.on = True

    def __call__(self) -> None:
        if self.on and self._likely > 0 and self._chance.random() < self._likely:
            raise self._crash()
