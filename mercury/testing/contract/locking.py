"""Locks: which transactions wait for others. A second thread does the waiting, and each wait has a timeout."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from mercury.errors import Conflict, TransientStorageError
from mercury.storage.api import LockOrderError, StorageManager, Transaction
from mercury.storage.records import InboundKind, SequenceKey
from mercury.testing.contract.builders import CHANNEL, KEY, LISTENING, buffer, inbound, letter, marker

from mercury.testing.contract.builders import rmd_record, rms_record, row  # isort: skip
from mercury.testing.contract.ending import ending
from mercury.testing.contract.outbox import Outbox, ids
from mercury.testing.contract.stores import StoreFactory, needs
from mercury.testing.contract.threads import Threads, result, waits

#: A lock timeout in seconds that is long enough to take a free lock, also on a busy machine.
SHORT = 0.1


def add_one(store: StorageManager, identifier: str = "urn:rmd:1") -> int:
    """Change a record under its lock, and return the new value."""
    with store.transaction() as tx:
        record = tx.rmd.lock([identifier])[identifier]
        record.ack_failures += 1
        tx.rmd.save(record)
        return record.ack_failures


def attempt(work: Callable[[], object]) -> str:
    """Run a transaction, and return its result in words."""
    try:
        work()
    except Conflict:
        return "conflict"
    except TransientStorageError:
        return "too late"
    return "done"


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_destination_sequence_is_waited_for_until_the_first_transaction_ends(
    store: StorageManager, threads: Threads
) -> None:
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
    with store.transaction() as tx:
        record = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
        second = threads.start(lambda: add_one(store))
        assert waits(second)
        record.ack_failures = 10
        tx.rmd.save(record)
    assert result(second) == 11


def test_a_key_is_waited_for_until_the_first_transaction_ends(store: StorageManager, threads: Threads) -> None:
    outbox = Outbox(store)
    outbox.append("a", "b")
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        second = threads.start(lambda: ids(outbox.number()))
        assert waits(second)
        (first, _) = tx.rms.unnumbered(KEY, 2)
        first.sequence_id, first.number = outbox.record.id, outbox.next_number()
        tx.rms.number(outbox.record, [first])
    assert result(second) == ["b"]


def test_a_key_is_locked_even_where_nothing_is_yet(store: StorageManager, threads: Threads) -> None:
    """Only one transaction can make the first sequence of a key."""

    def make(record_id: str) -> list[str]:
        with store.transaction() as tx:
            tx.rms.lock([KEY])
            found = [record.id for record in tx.rms.records(KEY)]
            if not found:
                tx.rms.insert(rms_record(record_id))
            return found

    with store.transaction() as tx:
        tx.rms.lock([KEY])
        second = threads.start(lambda: make("second"))
        assert waits(second)
        assert tx.rms.records(KEY) == []
        tx.rms.insert(rms_record("first"))
    assert result(second) == ["first"]


def test_a_key_stays_locked_when_all_that_it_had_is_deleted(store: StorageManager, threads: Threads) -> None:
    """Two transactions wait for a key whose records are deleted: only one at a time gets the lock."""
    Outbox(store)
    third: list[Future[int]] = []

    def start_third() -> None:
        third.append(threads.start(count))
        assert waits(third[0])

    def count(meanwhile: Callable[[], None] = lambda: None) -> int:
        with store.transaction() as tx:
            tx.rms.lock([KEY])
            found = len(tx.rms.records(KEY))
            meanwhile()
            tx.rms.insert(rms_record(f"rms {found}"))
            return found

    with store.transaction() as tx:
        tx.rms.lock([KEY])
        second = threads.start(lambda: count(start_third))
        assert waits(second)
        for record in tx.rms.records(KEY):
            tx.rms.delete(record)
    assert result(second) == 0
    assert result(third[0]) == 1


def test_save_delivered_waits_for_another_one_of_the_same_buffer(store: StorageManager, threads: Threads) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(buffer())
        tx.invoker.add([inbound(1)])

    def mark() -> None:
        with store.transaction() as tx:
            tx.invoker.save_delivered(buffer(), consumed=[1])

    with store.transaction() as tx:
        tx.invoker.save_delivered(buffer(), consumed=[1])
        second = threads.start(lambda: attempt(mark))
        assert waits(second)
    assert result(second) == "conflict"


def test_a_lock_is_free_after_a_roll_back(store: StorageManager, threads: Threads) -> None:
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
    with ending(store.transaction(), ZeroDivisionError) as tx:
        record = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
        second = threads.start(lambda: add_one(store))
        record.ack_failures = 10
        tx.rmd.save(record)
        raise ZeroDivisionError
    assert result(second) == 1


def test_row_read_under_its_lock_is_the_last_committed_one(store: StorageManager, threads: Threads) -> None:
    """A transaction that has read a row before locking it sees the changes that were committed in between."""
    outbox = Outbox(store)
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
    with store.transaction() as tx:
        assert tx.rmd.read("urn:rmd:1") == rmd_record()
        assert tx.rms.peek(KEY) == [outbox.record]
        assert tx.rms.row("a") is None
        result(threads.start(lambda: add_one(store)))
        result(threads.start(lambda: outbox.append("a")))
        assert tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"].ack_failures == 1
        tx.rms.lock([KEY])
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["a"]


def test_locking_twice_is_locking_once(store: StorageManager) -> None:
    outbox = Outbox(store)
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
    with store.transaction() as tx:
        for _ in range(2):
            assert list(tx.rmd.lock(["urn:rmd:1", "urn:rmd:1"])) == ["urn:rmd:1"]
        for _ in range(2):
            tx.rms.lock([KEY, KEY])
        assert tx.rms.records(KEY) == [outbox.record]


def test_only_sequences_that_exist_are_locked_and_returned(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record("urn:b"))
        tx.rmd.insert(rmd_record("urn:d"))
    with store.transaction() as tx:
        assert set(tx.rmd.lock(["urn:e", "urn:d", "urn:c", "urn:b", "urn:a"])) == {"urn:b", "urn:d"}
        assert tx.rmd.lock([]) == {}
        tx.rms.lock([])


# --- transactions that do not wait -----------------------------------------------------------------------------------


@needs("writes_side_by_side")
@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda tx: tx.rms.append(row("b")), id="an append to the same key"),
        pytest.param(lambda tx: tx.invoker.add([inbound(2)]), id="a message for the same buffer"),
        pytest.param(lambda tx: tx.rmd.save(tx.rmd.lock(["urn:rmd:2"])["urn:rmd:2"]), id="another sequence"),
        pytest.param(lambda tx: tx.rms.lock([LISTENING.key]), id="another key"),
        pytest.param(lambda tx: tx.rms.peek(KEY) and tx.rmd.read("urn:rmd:1"), id="a reader"),
        pytest.param(lambda tx: tx.rmd.insert(rmd_record("urn:rmd:3")), id="a new sequence"),
    ],
)  # fmt: skip
def test_transactions_without_a_common_lock_do_not_wait_for_each_other(
    store_factory: StoreFactory, store: StorageManager, threads: Threads, work: Callable[[Transaction], object]
) -> None:
    """Decisions 4 and 8: a long transaction never blocks a sequence, a slow handler never stalls reception."""
    Outbox(store)
    with store.transaction() as tx:
        for name in ("urn:rmd:1", "urn:rmd:2"):
            tx.rmd.insert(rmd_record(name))
            tx.invoker.insert(buffer(name))
        tx.invoker.add([inbound(1)])

    def other() -> None:
        with store.transaction() as tx:
            work(tx)

    with store.transaction() as tx:
        tx.rmd.lock(["urn:rmd:1"])
        tx.invoker.save_delivered(buffer("urn:rmd:1"), consumed=[1])
        tx.rms.lock([KEY])
        tx.rms.append(row("a"))
        result(threads.start(other))


def test_message_received_while_its_buffer_is_worked_on_survives_the_save(
    store: StorageManager, threads: Threads
) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(buffer())
        tx.invoker.add([inbound(1), marker(InboundKind.END, 3)])

    def arrive() -> None:
        with store.transaction() as tx:
            tx.invoker.add([inbound(2), marker(InboundKind.CUT)])

    with store.transaction() as tx:
        record, markers = tx.invoker.read("urn:rmd:1"), tx.invoker.markers("urn:rmd:1")
        assert record is not None
        assert [each.kind for each in markers] == [InboundKind.END]
        result(threads.start(arrive))
        tx.invoker.save_delivered(record, consumed=[1], markers=markers)
    with store.transaction() as tx:
        assert list(tx.invoker.numbers("urn:rmd:1")) == [(2, 2)]
        assert [each.kind for each in tx.invoker.markers("urn:rmd:1")] == [InboundKind.CUT]


# --- time and order --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda tx: tx.rmd.lock(["urn:rmd:1"]), id="a destination sequence"),
        pytest.param(lambda tx: tx.invoker.save_delivered(buffer(), consumed=[]), id="a buffer"),
        pytest.param(lambda tx: tx.rms.lock([KEY]), id="a key"),
    ],
)
def test_lock_timeout_is_transient_and_leaves_no_lock(
    store_factory: StoreFactory, threads: Threads, work: Callable[[Transaction], None]
) -> None:
    store = store_factory(lock_timeout=SHORT)
    Outbox(store)
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
        tx.invoker.insert(buffer())

    def second() -> None:
        with store.transaction() as tx:
            tx.dead_letters.all()
            work(tx)
            tx.rms.append(row("never"))

    with store.transaction() as tx:
        work(tx)
        tx.rms.append(row("a"))
        assert result(threads.start(lambda: attempt(second))) == "too late"
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["a"]
    assert attempt(second) in ("done", "conflict")  # every lock is free again; the buffer may have a newer version


def test_locks_are_released_when_a_later_lock_times_out(store_factory: StoreFactory, threads: Threads) -> None:
    store = store_factory(lock_timeout=SHORT)
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record("urn:rmd:1"))
        tx.rmd.insert(rmd_record("urn:rmd:2"))

    def both() -> None:
        with store.transaction() as tx:
            tx.rmd.lock(["urn:rmd:1", "urn:rmd:2"])

    with store.transaction() as tx:
        tx.rmd.lock(["urn:rmd:2"])
        assert result(threads.start(lambda: attempt(both))) == "too late"
    assert add_one(store, "urn:rmd:1") == 1
    assert attempt(both) == "done"


def test_rows_are_locked_in_one_order_whatever_order_they_are_named_in(store: StorageManager, threads: Threads) -> None:
    names = [f"urn:rmd:{number}" for number in range(4)]
    keys = [SequenceKey("http://peer.example", str(number)) for number in range(4)]
    with store.transaction() as tx:
        for name in names:
            tx.rmd.insert(rmd_record(name))

    def run(turn: int) -> None:
        for step in range(20):
            shift = (turn + step) % 4
            with store.transaction() as tx:
                for record in tx.rmd.lock(names[shift:] + names[:shift]).values():
                    record.ack_failures += 1
                    tx.rmd.save(record)
                tx.rms.lock(reversed(keys[shift:] + keys[:shift]))

    for future in [threads.start(lambda turn=turn: run(turn)) for turn in range(4)]:  # type: ignore[misc]
        result(future)
    with store.transaction() as tx:
        assert [record.ack_failures for record in tx.rmd.all()] == [80] * 4


@needs("notices_lock_order")
@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda tx: (tx.rms.lock([KEY]), tx.rmd.lock(["urn:rmd:1"])), id="RMS, RMD"),
        pytest.param(lambda tx: (tx.rms.lock([KEY]), _save_delivered(tx)), id="RMS, buffer"),
        pytest.param(lambda tx: (_save_delivered(tx), tx.rmd.lock(["urn:rmd:1"])), id="buffer, RMD"),
        pytest.param(lambda tx: (tx.rmd.lock(["urn:rmd:2"]), tx.rmd.lock(["urn:rmd:1"])), id="RMD, a lower RMD"),
        pytest.param(
            # No store orders keys like this.
            lambda tx: [tx.rms.lock([SequenceKey(f"http://{host}", "")]) for host in "hgfedcba"],
            id="RMS, a lower RMS",
        ),
        pytest.param(lambda tx: tx.rmd.save(rmd_record()), id="an RMD without its lock"),
        pytest.param(lambda tx: tx.rmd.delete("urn:rmd:1"), id="the end of an RMD without its lock"),
        pytest.param(lambda tx: tx.rms.save(rms_record()), id="an RMS without its lock"),
        pytest.param(lambda tx: tx.rms.unnumbered(KEY, 1), id="rows without the lock of their key"),
        pytest.param(lambda tx: tx.rms.consumed("a"), id="a row without the lock of its key"),
    ],
)  # fmt: skip
def test_a_breach_of_the_lock_order_is_refused(store: StorageManager, work: Callable[[Transaction], object]) -> None:
    outbox = Outbox(store)
    outbox.send("a")
    with store.transaction() as tx:
        for name in ("urn:rmd:1", "urn:rmd:2"):
            tx.rmd.insert(rmd_record(name))
        tx.invoker.insert(buffer())
    with ending(store.transaction(), LockOrderError) as tx:
        tx.rms.append(row("never"))
        work(tx)
    assert outbox.here("a", "never") == ["a"]


# --- two transactions that do the same -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "found"),
    [
        pytest.param(
            lambda tx, name: tx.rmd.insert(rmd_record(name, create_message_id="create")),
            lambda tx: [record.identifier for record in tx.rmd.all()],
            id="a sequence from the same CreateSequence",
        ),
        pytest.param(
            lambda tx, name: tx.rms.append(row("a", correlation=name)),
            lambda tx: [tx.rms.row("a").correlation],
            id="a row with the same MessageID",
        ),
    ],
)
def test_one_of_two_transactions_that_insert_the_same_record_commits(
    store: StorageManager,
    threads: Threads,
    work: Callable[[Transaction, str], None],
    found: Callable[[Transaction], list[str]],
) -> None:
    def make(name: str) -> None:
        with store.transaction() as tx:
            work(tx, name)
            if name == "first":
                second.append(threads.start(lambda: attempt(lambda: make("second"))))
                waits(second[0])  # it may end before this transaction, or wait for its end

    second: list[Future[str]] = []
    ends = {"first": attempt(lambda: make("first")), "second": result(second[0])}
    assert sorted(ends.values()) == ["conflict", "done"]
    with store.transaction() as tx:
        assert found(tx) == [name for name, end in ends.items() if end == "done"]


def test_a_dead_letter_is_taken_by_one_transaction_only(store: StorageManager, threads: Threads) -> None:
    """Two operators redrive the same dead letter at once: it is redriven once."""
    with store.transaction() as tx:
        tx.dead_letters.add([letter("dead")])

    def take(name: str) -> str:
        with store.transaction() as tx:
            taken = tx.dead_letters.delete("dead")
            if taken is not None:
                tx.rms.append(row(name, CHANNEL))
            if name == "first":
                second.append(threads.start(lambda: attempt(lambda: take("second"))))
                waits(second[0])
        return name

    second: list[Future[str]] = []
    attempt(lambda: take("first"))
    result(second[0])
    with store.transaction() as tx:
        assert tx.rms.backlog(KEY) == 1
        assert tx.dead_letters.all() == []


def _save_delivered(tx: Transaction) -> object:
    tx.invoker.save_delivered(buffer(), consumed=[])
    return tx
