"""Many threads use a store at once: no row is lost or repeated, and the rows of each thread keep their order."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from mercury.errors import TransientStorageError
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.records import RmsRecord
from mercury.testing.contract.builders import (
    CHANNEL,
    EVERYTHING,
    KEY,
    NOW,
    buffer,
    channel,
    inbound,
    rmd_record,
    rms_record,
    row,
)
from mercury.testing.contract.outbox import Outbox, ids
from mercury.testing.contract.threads import Threads, result

SENDERS = 8
EACH = 25


def retried(store: StorageManager, work: Callable[[Transaction], None]) -> None:
    """Run one unit of work, and repeat it after each transient error."""
    for _ in range(1000):
        try:
            with store.transaction() as tx:
                work(tx)
        except TransientStorageError:
            continue
        return
    raise AssertionError("the unit of work did not succeed in 1000 attempts")


def test_rows_appended_by_many_threads_are_complete_and_ordered_by_thread(
    store: StorageManager, threads: Threads
) -> None:
    def send(sender: int) -> None:
        for number in range(EACH):
            retried(store, lambda tx: tx.rms.append(row(f"{sender} {number}")))  # noqa: B023 (called at once)

    futures = [threads.start(lambda sender=sender: send(sender)) for sender in range(SENDERS)]  # type: ignore[misc]
    for future in futures:
        result(future)
    rows = ids(Outbox(store).number())
    assert len(rows) == SENDERS * EACH
    for sender in range(SENDERS):
        own = [name for name in rows if name.startswith(f"{sender} ")]
        assert own == [f"{sender} {number}" for number in range(EACH)]


def test_rows_appended_by_one_transaction_keep_their_order(store: StorageManager, threads: Threads) -> None:
    def append(tx: Transaction, sender: int) -> None:
        for number in range(EACH):
            tx.rms.append(row(f"{sender} {number}"))

    futures = [
        threads.start(lambda sender=sender: retried(store, lambda tx: append(tx, sender)))  # type: ignore[misc]
        for sender in range(SENDERS)
    ]
    for future in futures:
        result(future)
    rows = ids(Outbox(store).number())
    for sender in range(SENDERS):
        assert [name for name in rows if name.startswith(f"{sender} ")] == [f"{sender} {n}" for n in range(EACH)]


def test_rows_that_come_while_others_are_numbered_get_each_one_number(store: StorageManager, threads: Threads) -> None:
    """Two threads number and acknowledge while others append: each row gets one number, and no row is left."""
    record = rms_record()
    Outbox(store, record)
    numbers: dict[str, int] = {}
    next_number = itertools.count(1)
    done = threading.Event()

    def send(sender: int) -> None:
        for number in range(EACH):
            retried(store, lambda tx: tx.rms.append(row(f"{sender} {number}")))  # noqa: B023 (called at once)

    def number_some(tx: Transaction) -> None:
        tx.rms.lock([KEY])
        rows = tx.rms.unnumbered(KEY, 10)
        for each in rows:
            each.sequence_id, each.number, each.due = record.id, next(next_number), NOW
        tx.rms.number(record, rows)
        given = {each.message_id: each.number or 0 for each in rows}
        tx.after_commit(lambda: numbers.update(given))
        tx.rms.acknowledge(record, EVERYTHING)
        tx.rms.release(record, EVERYTHING)

    def work() -> None:
        while not done.is_set() or store.due_rms(NOW, 1):
            retried(store, number_some)

    workers = [threads.start(work) for _ in range(2)]
    senders = [threads.start(lambda sender=sender: send(sender)) for sender in range(SENDERS)]  # type: ignore[misc]
    for future in senders:
        result(future)
    done.set()
    for future in workers:
        result(future)
    assert len(numbers) == SENDERS * EACH
    assert len(set(numbers.values())) == len(numbers)
    for sender in range(SENDERS):
        own = [numbers[f"{sender} {number}"] for number in range(EACH)]
        assert own == sorted(own)
    with store.transaction() as tx:
        assert tx.rms.backlog(KEY) == 0


def test_messages_received_by_many_threads_are_delivered_once(store: StorageManager, threads: Threads) -> None:
    """Threads store messages as reception does, while others consume them as the invoker does."""
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
        tx.invoker.insert(buffer())
    order: list[int] = []
    numbers = list(range(1, SENDERS * EACH + 1))

    def receive(own: list[int]) -> None:
        for number in own:

            def accept(tx: Transaction, number: int = number) -> None:
                record = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
                record.machine.received.add(number)
                tx.rmd.save(record)
                tx.invoker.add([inbound(number)])

            retried(store, accept)

    def invoke() -> None:
        while len(order) < len(numbers):
            if store.due_invoker(NOW, 1):
                retried(store, deliver)

    def deliver(tx: Transaction) -> None:
        record = tx.invoker.read("urn:rmd:1")
        assert record is not None
        first = record.machine.next
        run = list(tx.invoker.numbers("urn:rmd:1", first, first + 9).numbers())
        ready = [number for index, number in enumerate(run) if number == first + index]
        assert len(tx.invoker.messages("urn:rmd:1", ready)) == len(ready)
        if not ready:
            return
        record.machine.passed.add(ready[0], ready[-1])
        tx.invoker.save_delivered(record, consumed=ready)
        tx.after_commit(lambda: order.extend(ready))

    futures = [
        threads.start(lambda own=numbers[sender::SENDERS]: receive(own))  # type: ignore[misc]
        for sender in range(SENDERS)
    ]
    invoker = threads.start(invoke)
    for future in futures:
        result(future)
    result(invoker)
    assert order == numbers
    with store.transaction() as tx:
        record = tx.rmd.read("urn:rmd:1")
        assert record is not None
        assert list(record.machine.received) == [(1, len(numbers))]
        assert not tx.invoker.numbers("urn:rmd:1")


def test_transactions_over_many_rows_at_once_never_deadlock(store: StorageManager, threads: Threads) -> None:
    """Reception, workers and a handler use the same rows; all take their locks in one order."""
    channels = [channel(f"key {number}") for number in range(3)]
    names = [f"urn:rmd:{number}" for number in range(3)]
    with store.transaction() as tx:
        for name in names:
            tx.rmd.insert(rmd_record(name))
            tx.invoker.insert(buffer(name))

    def batch(tx: Transaction, step: int) -> None:
        for record in tx.rmd.lock(names[step % 3 :] + names[: step % 2]).values():
            record.ack_failures += 1
            tx.rmd.save(record)
        tx.rms.lock([each.key for each in reversed(channels)])
        tx.invoker.add([inbound(step + 1, names[step % 3])])

    def worker(tx: Transaction, step: int) -> None:
        tx.rmd.lock([names[step % 3]])
        tx.rms.lock([channels[step % 3].key])
        tx.rms.append(row(f"row {next(counted)}", channels[step % 3]))

    def handler(tx: Transaction, step: int) -> None:
        record = tx.invoker.read(names[step % 3])
        assert record is not None
        tx.invoker.save_delivered(record, consumed=[])
        tx.rms.lock([channels[(step + 1) % 3].key])

    def run(work: Callable[[Transaction, int], None]) -> None:
        for step in range(EACH):
            retried(store, lambda tx: work(tx, step))  # noqa: B023 (called at once)

    counted = itertools.count()
    futures = [threads.start(lambda work=work: run(work)) for work in (batch, worker, handler) * 2]  # type: ignore[misc]
    for future in futures:
        result(future)
    with store.transaction() as tx:
        assert sum(tx.rms.backlog(each.key) for each in channels) == 2 * EACH
        versions = [record.version for record in tx.invoker.all()]
    assert sum(versions) == 2 * EACH


def test_claims_under_which_many_work_let_one_at_a_time_commit(store: StorageManager, threads: Threads) -> None:
    """Each lease expires as soon as the claim is taken, so only the epoch decides which transaction commits."""
    Outbox(store)
    clock = itertools.count(int(NOW), 10)
    kept: list[tuple[int, str]] = []

    def run(owner: str) -> None:
        for step in range(EACH):
            held = store.claim("rms 1", owner, float(next(clock)), 5.0)
            if held is None:
                continue
            message_id = f"{owner} {step}"
            try:
                with store.transaction() as tx:
                    tx.guard(held)
                    tx.rms.append(row(message_id, CHANNEL))
                    epoch = held.epoch
                    tx.after_commit(lambda: kept.append((epoch, message_id)))  # noqa: B023 (called at once)
            except TransientStorageError:
                continue

    for future in [threads.start(lambda owner=owner: run(owner)) for owner in "abcd"]:  # type: ignore[misc]
        result(future)
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        rows = ids(tx.rms.unnumbered(KEY, 1000))
    assert sorted(rows) == sorted(message_id for _, message_id in kept)
    by_row = {message_id: epoch for epoch, message_id in kept}
    epochs = [by_row[message_id] for message_id in rows]
    assert epochs == sorted(epochs)


def test_many_keys_are_worked_on_at_once(store: StorageManager, threads: Threads) -> None:
    def run(number: int) -> list[str]:
        own: RmsRecord = rms_record(f"rms {number}", channel(f"key {number}"))
        outbox = Outbox(store, own)
        for step in range(5):
            outbox.send(f"{number} {step}")
            outbox.acknowledge(step + 1)
            outbox.release()
        outbox.send(f"{number} last")
        return outbox.unsettled()

    futures = [threads.start(lambda number=number: run(number)) for number in range(SENDERS)]  # type: ignore[misc]
    assert [result(future) for future in futures] == [[f"{number} last"] for number in range(SENDERS)]
