"""The stores of simulated nodes, in memory or in SQLite files: their committed state survives a simulated crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Protocol

from mercury.statemachine.ranges import RangeSet
from mercury.storage.api import StorageManager
from mercury.storage.letters import DeadLetter
from mercury.storage.memory import MemoryStore
from mercury.storage.records import InvokerRecord, RmdRecord, RmsRecord


class NodeStore(Protocol):
    """A node's store, with queries of its committed state for the checks."""

    #: The interval of a node's polls, in virtual seconds, by which it finds claims that have expired; ``None`` = none.
    poll: float | None

    def open(self, interrupt: Callable[[], None]) -> StorageManager:
        """The store for a process that starts now.

        :param interrupt: called before each SQL statement, if the store executes any; it may raise a crash.
        """

    def received(self, identifier: str) -> RangeSet: ...

    def number_of(self, message_id: str) -> int | None:
        """The message number of an outbound row; ``None`` = it has none yet, or there is no such row."""

    def source(self, identifier: str) -> RmsRecord | None: ...

    def destinations(self) -> Iterable[RmdRecord]: ...

    def buffers(self) -> Iterable[tuple[InvokerRecord, int]]:
        """Each InvokerBuffer with the number of messages in it."""

    def bytes_in(self, sequence: str) -> int:
        """The sum of the bytes of the messages in a buffer."""

    def sources(self) -> Iterable[RmsRecord]: ...

    def rows(self) -> list[str]:
        """The MessageIDs of the outbound rows."""

    def letters(self) -> Iterable[DeadLetter]: ...

    def close(self) -> None: ...


class MemoryNodeStore:
    """Committed state in memory. A restart keeps it, and drops the claims."""

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
    """Committed state in memory that several processes share. A restart keeps the claims: other processes have some.

    :param store: the shared store; it is not closed.
    """

    poll: float | None = 1.0

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store

    def open(self, interrupt: Callable[[], None]) -> MemoryStore:  # noqa: ARG002  nothing to interrupt here
        return self._store


class SqliteNodeStore:
    """A SQLite file. It is not flushed to disk, because only simulated processes crash.

    :param clock: returns the virtual time.
    """

    poll: float | None = 1.0

    def __init__(self, file: Path, clock: Callable[[], float]) -> None:
        # SQLAlchemy is loaded only for simulations with SQLite.
        from mercury.storage.sql.simulated import SimulatedStore  # noqa: PLC0415

        self._open = partial(SimulatedStore, file, clock)
        #: A store for the checks, whose statements do not crash.
        self._reader = self._open(_do_nothing)
        self._store = self._reader

    def open(self, interrupt: Callable[[], None]) -> StorageManager:
        if self._store is not self._reader:
            self._store.close()
        self._store = self._open(interrupt)
        return self._store

    def received(self, identifier: str) -> RangeSet:
        with self._reader.transaction() as tx:
            record = tx.rmd.read(identifier)
        return record.machine.received if record is not None else RangeSet()

    def number_of(self, message_id: str) -> int | None:
        with self._reader.transaction() as tx:
            row = tx.rms.row(message_id)
        return row.number if row is not None else None

    def source(self, identifier: str) -> RmsRecord | None:
        with self._reader.transaction() as tx:
            key = tx.rms.key_of(identifier=identifier)
            records = tx.rms.peek(key) if key is not None else []
        return next((record for record in records if record.machine.identifier == identifier), None)

    def destinations(self) -> Iterable[RmdRecord]:
        with self._reader.transaction() as tx:
            return tx.rmd.all()

    def buffers(self) -> Iterable[tuple[InvokerRecord, int]]:
        with self._reader.transaction() as tx:
            return [(record, tx.invoker.numbers(record.sequence).count) for record in tx.invoker.all()]

    def bytes_in(self, sequence: str) -> int:
        with self._reader.transaction() as tx:
            rows = tx.invoker.messages(sequence, list(tx.invoker.numbers(sequence).numbers()))
        return sum(row.size for row in rows.values())

    def sources(self) -> Iterable[RmsRecord]:
        with self._reader.transaction() as tx:
            return tx.rms.all()

    def rows(self) -> list[str]:
        return self._reader.message_ids()

    def letters(self) -> Iterable[DeadLetter]:
        with self._reader.transaction() as tx:
            return tx.dead_letters.all()

    def close(self) -> None:
        for store in {self._store, self._reader}:
            store.close()


def _do_nothing() -> None:
    """Do nothing."""


class Interruptions:
    """Raises a crash before SQL statements, at random.

    :param probability: the probability for each statement.
    """

    def __init__(self, chance: Random, probability: float, crash: Callable[[], BaseException]) -> None:
        self._chance = chance
        self._probability = probability
        self._crash = crash
        #: Whether crashes occur; false in the healed phase.
        self.on = True

    def __call__(self) -> None:
        if self.on and self._probability > 0 and self._chance.random() < self._probability:
            raise self._crash()
