"""Buffers that a transaction locks first, delivers from and saves, as delivery on arrival does."""

from __future__ import annotations

import pytest

from mercury.errors import Conflict, TransientStorageError
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import LockOrderError, StorageManager, Topic, Transaction
from mercury.storage.claims import WorkFilter
from mercury.storage.records import InboundKind, InvokerRecord
from mercury.testing.contract.builders import KEY, NOW, buffer, inbound, marker, rmd_record
from mercury.testing.contract.ending import ending
from mercury.testing.contract.invoker import ONE, add, deliver, due, insert, numbers, read
from mercury.testing.contract.stores import StoreFactory, needs
from mercury.testing.contract.threads import Threads, result, waits

#: A lock timeout in seconds that is long enough to take a free lock, also on a busy machine.
SHORT = 0.1


def lock(tx: Transaction, sequence: str = ONE) -> InvokerRecord:
    return tx.invoker.lock([sequence])[sequence]


def pass_locked(store: StorageManager, *passed: int, sequence: str = ONE) -> int:
    """Save that messages which are not in the store were delivered; returns the version that was read."""
    with store.transaction() as tx:
        record = lock(tx, sequence)
        for number in passed:
            record.machine.passed.add(number)
        tx.invoker.save_locked([record])
    return record.version


# --- reading ---------------------------------------------------------------------------------------------------------


def test_locked_buffers_are_returned_as_committed_and_others_have_no_entry(store: StorageManager) -> None:
    insert(store, buffer("urn:a", version=4, last_error="failed"), buffer("urn:b"), buffer("urn:c"))
    with store.transaction() as tx:
        found = tx.invoker.lock(["urn:b", "urn:a", "urn:unknown"])
    assert sorted(found) == ["urn:a", "urn:b"]
    assert (found["urn:a"].version, found["urn:a"].last_error) == (4, "failed")


def test_a_lock_of_no_buffer_is_no_lock(store: StorageManager) -> None:
    with store.transaction() as tx:
        assert tx.invoker.lock([]) == {}
        tx.invoker.save_locked([])


def test_buffer_that_is_locked_twice_is_locked_once(store: StorageManager) -> None:
    insert(store, buffer())
    with store.transaction() as tx:
        assert lock(tx).sequence == lock(tx).sequence == ONE
    assert pass_locked(store, 1) == 0


def test_buffers_may_be_announced_with_the_lock_of_their_sequences(store: StorageManager) -> None:
    names = ["urn:a", "urn:b", "urn:c"]
    with store.transaction() as tx:
        for name in names:
            tx.rmd.insert(rmd_record(name, create_message_id=f"create {name}"))
        tx.invoker.insert(*(buffer(name, last_error=name) for name in names))
    with store.transaction() as tx:
        locked = tx.rmd.lock(names, ["urn:c"], ["urn:a", "urn:b"])
        found = tx.invoker.lock(["urn:a", "urn:b"])
        assert tx.invoker.paused() == frozenset()
        assert tx.invoker.read_many(["urn:c"])["urn:c"].last_error == "urn:c"
        for record in found.values():
            record.machine.passed.add(1)
        tx.invoker.save_locked(list(found.values()))
    assert sorted(locked) == names
    assert [(record.sequence, record.last_error) for record in found.values()] == [(each, each) for each in names[:2]]
    assert [read(store, name).version for name in names] == [1, 1, 0]


def test_no_service_is_paused_in_a_new_store(store: StorageManager) -> None:
    with store.transaction() as tx:
        assert tx.invoker.paused() == frozenset()


# --- locks -----------------------------------------------------------------------------------------------------------


def test_a_locked_buffer_is_waited_for_and_then_read_as_its_transaction_left_it(
    store: StorageManager, threads: Threads
) -> None:
    insert(store, buffer())
    with store.transaction() as tx:
        record = lock(tx)
        second = threads.start(lambda: pass_locked(store, 2))
        assert waits(second)
        record.machine.passed.add(1)
        tx.invoker.save_locked([record])
    assert result(second) == 1
    stored = read(store)
    assert (stored.version, list(stored.machine.passed)) == (2, [(1, 2)])


def test_delivery_that_has_read_the_buffer_before_it_was_locked_is_a_conflict(
    store: StorageManager, threads: Threads
) -> None:
    insert(store, buffer())
    add(store, inbound(1))
    early = read(store)

    def save() -> str:
        try:
            with store.transaction() as tx:
                early.machine.passed.add(1)
                tx.invoker.save_delivered(early, consumed=[1])
        except Conflict:
            return "conflict"
        return "done"

    with store.transaction() as tx:
        record = lock(tx)
        second = threads.start(save)
        assert waits(second)
        record.last_error = "failed"
        tx.invoker.save_locked([record])
    assert result(second) == "conflict"
    assert numbers(store) == [(1, 1)]


@needs("writes_side_by_side")
def test_rows_are_added_to_a_locked_buffer_without_waiting(store: StorageManager, threads: Threads) -> None:
    """A slow handler stops no message from being received."""
    insert(store, buffer())
    with store.transaction() as tx:
        record = lock(tx)
        result(threads.start(lambda: add(store, inbound(2))))
        record.machine.passed.add(1)
        tx.invoker.save_locked([record])
    assert numbers(store) == [(2, 2)]
    assert due(store) == [ONE]


def test_lock_of_a_buffer_is_free_after_a_roll_back(store: StorageManager) -> None:
    insert(store, buffer())
    with ending(store.transaction(), LookupError) as tx:
        record = lock(tx)
        record.last_error = "undone"
        tx.invoker.save_locked([record])
        raise LookupError
    assert pass_locked(store, 1) == 0
    assert read(store).last_error is None


def test_wait_for_a_locked_buffer_ends_with_an_error_that_passes(store_factory: StoreFactory, threads: Threads) -> None:
    store = store_factory(lock_timeout=SHORT)
    insert(store, buffer())

    def attempt() -> str:
        try:
            pass_locked(store, 1)
        except TransientStorageError:
            return "too late"
        return "done"

    with store.transaction() as tx:
        lock(tx)
        assert result(threads.start(attempt)) == "too late"
    assert attempt() == "done"


@needs("notices_lock_order")
def test_buffers_are_locked_after_sequences_and_before_keys(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b"))
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
    with store.transaction() as tx:
        tx.rmd.lock([ONE])
        lock(tx, "urn:a")
        tx.rms.lock([KEY])
    with ending(store.transaction(), LockOrderError) as tx:
        tx.rms.lock([KEY])
        lock(tx, "urn:a")
    with ending(store.transaction(), LockOrderError) as tx:
        lock(tx, "urn:a")
        tx.rmd.lock([ONE])


@needs("notices_lock_order")
def test_buffer_that_is_not_locked_cannot_be_saved_as_locked(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b"))
    with ending(store.transaction(), LockOrderError) as tx:
        lock(tx, "urn:a")
        record = tx.invoker.read("urn:b")
        assert record is not None
        tx.invoker.save_locked([record])
    assert read(store, "urn:b").version == 0


# --- saving ----------------------------------------------------------------------------------------------------------


def test_saved_locked_buffers_keep_their_rows(store: StorageManager) -> None:
    insert(store, buffer("urn:a", version=4), buffer("urn:b"), buffer("urn:c"))
    for name in ("urn:a", "urn:b"):
        add(store, inbound(5, name), marker(InboundKind.END, 5, name))
    with store.transaction() as tx:
        records = tx.invoker.lock(["urn:a", "urn:b"])
        for record in records.values():
            record.machine.passed.add(1, 3)
            record.consumed_bytes = 30
        tx.invoker.save_locked(list(records.values()))
    stored = read(store, "urn:a")
    assert (stored.version, stored.consumed_bytes, list(stored.machine.passed)) == (5, 30, [(1, 3)])
    assert [numbers(store, name) for name in ("urn:a", "urn:b")] == [[(5, 5)]] * 2
    assert [read(store, name).version for name in ("urn:b", "urn:c")] == [1, 0]
    with store.transaction() as tx:
        assert [len(tx.invoker.markers(name)) for name in ("urn:a", "urn:b")] == [1, 1]


def test_numbers_that_wait_in_the_machine_are_not_saved_with_a_locked_buffer(store: StorageManager) -> None:
    insert(store, buffer())
    with store.transaction() as tx:
        record = lock(tx)
        record.machine.buffered.add(7)
        tx.invoker.save_locked([record])
    assert list(read(store).machine.buffered) == []


def test_locked_buffer_may_be_saved_in_order_with_the_rows_that_it_had(store: StorageManager) -> None:
    insert(store, buffer(), buffer("urn:other"))
    add(store, inbound(1), inbound(2), inbound(4))
    with store.transaction() as tx:
        records = tx.invoker.lock([ONE, "urn:other"])
        parts = tx.invoker.parts([ONE], 10)
        assert sorted(parts[ONE].messages) == [1, 2, 4]
        records[ONE].machine.passed.add(1, 3)
        records["urn:other"].machine.passed.add(1)
        tx.invoker.save_in_order([records[ONE]])
        tx.invoker.save_locked([records["urn:other"]])
    assert numbers(store) == [(4, 4)]
    assert [read(store, name).version for name in (ONE, "urn:other")] == [1, 1]


def test_rows_that_are_added_with_a_locked_buffer_are_due_after_its_pause(store: StorageManager) -> None:
    """A handler that has failed on arrival: its message is stored, and called for again later."""
    insert(store, buffer())
    with store.transaction() as tx:
        record = lock(tx)
        record.machine.passed.add(1)
        record.attempts, record.retry_at, record.last_error = 1, NOW + 5, "failed"
        tx.invoker.save_locked([record])
        tx.invoker.add([inbound(2)])
    assert due(store) == []
    assert store.next_due(Topic.INVOKER) == NOW + 5
    assert due(store, NOW + 5) == [ONE]
    assert read(store).attempts == 1


def test_buffer_without_rows_is_not_due_after_it_was_saved_locked(store: StorageManager) -> None:
    insert(store, buffer())
    pass_locked(store, 1)
    assert due(store) == []
    assert store.next_due(Topic.INVOKER) is None


def test_a_successor_is_due_when_the_buffer_before_it_was_saved_as_done(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b", follows="urn:a"))
    add(store, inbound(1, "urn:b"))
    assert due(store) == []
    woken: list[Topic] = []
    store.listen(woken.extend)
    with store.transaction() as tx:
        record = lock(tx, "urn:a")
        record.machine.passed.add(1)
        record.machine.last, record.machine.state = 1, InvokerState.DONE
        tx.invoker.save_locked([record])
    assert due(store) == ["urn:b"]
    assert Topic.INVOKER in woken


def test_buffer_that_was_saved_locked_has_had_its_turn(store: StorageManager) -> None:
    names = ["urn:a", "urn:b", "urn:c"]
    insert(store, *(buffer(name) for name in names))
    for name in names:
        add(store, inbound(2, name))
    for name in names:
        deliver_nothing(store, name)
    pass_locked(store, 1, sequence="urn:b")
    add(store, inbound(3, "urn:b"))  # time passes
    for name in ("urn:a", "urn:c"):
        with store.transaction() as tx:
            record = lock(tx, name)
            record.machine.passed.add(1)
            tx.invoker.save_locked([record])
    first, *_ = store.due_invoker(NOW, 10, WorkFilter("me"))
    assert first == "urn:b", "it was served longest ago"


def deliver_nothing(store: StorageManager, name: str) -> None:
    """The store notes when the buffer had its turn."""
    deliver(store, sequence=name)


@pytest.mark.parametrize("saved", ["save_in_order", "save_locked"])
def test_next_delivery_reads_the_version_that_was_saved(store: StorageManager, saved: str) -> None:
    insert(store, buffer())
    for number in (1, 2, 3):
        with store.transaction() as tx:
            record = lock(tx)
            assert record.version == number - 1
            record.machine.passed.add(number)
            getattr(tx.invoker, saved)([record])
    deliver(store)
    assert read(store).version == 4
