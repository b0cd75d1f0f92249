"""One source sequence and its rows, with each operation in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from mercury.statemachine.faults import Ranges
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.records import OutboundMessage, RmsRecord
from mercury.testing.contract.builders import EVERYTHING, NOW, rms_record, row

T = TypeVar("T")


class Outbox:
    """The operations of the worker that holds the claim on a key, each in a transaction."""

    def __init__(self, store: StorageManager, record: RmsRecord | None = None) -> None:
        self.store = store
        self.record = record or rms_record()
        self.key = self.record.channel.key
        self._next = 1
        self.locked(lambda tx: tx.rms.insert(self.record))

    def locked(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a transaction that has locked the key."""
        with self.store.transaction() as tx:
            tx.rms.lock([self.key])
            return work(tx)

    def append(self, *message_ids: str, **more: Any) -> None:
        with self.store.transaction() as tx:
            for message_id in message_ids:
                tx.rms.append(row(message_id, self.record.channel, **more))

    def number(self, limit: int = 1000, *, due: float = NOW) -> list[OutboundMessage]:
        """Number the rows that have no number."""
        return self.locked(lambda tx: number_in(tx, self, limit, due=due))

    def send(self, *message_ids: str, **more: Any) -> list[OutboundMessage]:
        """Append rows, and number them."""
        self.append(*message_ids, **more)
        return self.number()

    def next_number(self) -> int:
        self._next += 1
        return self._next - 1

    def acknowledge(self, *numbers: int) -> None:
        self.locked(lambda tx: tx.rms.acknowledge(self.record, single(numbers)))

    def release(self, ranges: Ranges = EVERYTHING) -> None:
        self.locked(lambda tx: tx.rms.release(self.record, ranges))

    def take(self, ranges: Ranges = EVERYTHING) -> list[OutboundMessage]:
        return self.locked(lambda tx: tx.rms.take(self.record, ranges))

    def unnumber(self, *numbers: int) -> list[OutboundMessage]:
        return self.locked(lambda tx: tx.rms.unnumber(self.record, single(numbers)))

    def consumed(self, message_id: str) -> None:
        self.locked(lambda tx: tx.rms.consumed(message_id))

    def answered(self, message_id: str) -> OutboundMessage | None:
        return self.locked(lambda tx: tx.rms.answered(message_id))

    # --- queries ---------------------------------------------------------------------------------------------------

    def waiting(self, limit: int = 1000) -> list[str]:
        """The MessageIDs of the rows without a number."""
        return ids(self.locked(lambda tx: tx.rms.unnumbered(self.key, limit)))

    def unsettled(self, limit: int = 1000) -> list[str]:
        return ids(self.locked(lambda tx: tx.rms.unsettled(self.record, limit)))

    def row(self, message_id: str) -> OutboundMessage | None:
        with self.store.transaction() as tx:
            return tx.rms.row(message_id)

    def here(self, *message_ids: str) -> list[str]:
        """The MessageIDs of those of the given rows that exist."""
        return [message_id for message_id in message_ids if self.row(message_id) is not None]

    @property
    def backlog(self) -> int:
        with self.store.transaction() as tx:
            return tx.rms.backlog(self.key)


def number_in(tx: Transaction, outbox: Outbox, limit: int = 1000, *, due: float = NOW) -> list[OutboundMessage]:
    """Number the rows that have no number, in a transaction that has locked the key."""
    rows = tx.rms.unnumbered(outbox.key, limit)
    for each in rows:
        each.sequence_id = outbox.record.id
        each.number = outbox.next_number()
        each.due = due
    tx.rms.number(outbox.record, rows)
    return rows


def single(numbers: Iterable[int]) -> Ranges:
    """The numbers as ranges of one number each."""
    return tuple((number, number) for number in numbers)


def ids(rows: Iterable[OutboundMessage]) -> list[str]:
    return [row.message_id for row in rows]
