"""Transactions: isolation, roll-back, savepoints, and the actions after a commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mercury.storage.api import StorageManager, Topic, Transaction
from mercury.storage.records import InboundKind
from mercury.testing.contract.builders import (
    KEY,
    NOW,
    buffer,
    inbound,
    letter,
    made_from,
    marker,
    rmd_record,
    rms_record,
    row,
)
from mercury.testing.contract.ending import ending
from mercury.testing.contract.outbox import Outbox, ids, number_in


class Mistake(Exception):
    """An error that the application raises."""


def fill(tx: Transaction, name: str = "new") -> None:
    """Store a record of each kind, with keys made from ``name``."""
    tx.rmd.insert(rmd_record(f"urn:rmd:{name}", create_message_id=f"create {name}", due=NOW))
    tx.invoker.insert(buffer(f"urn:rmd:{name}"))
    tx.invoker.add([inbound(1, f"urn:rmd:{name}"), marker(InboundKind.CUT, 0, f"urn:rmd:{name}")])
    tx.rms.lock([KEY])
    tx.rms.insert(rms_record(f"rms {name}", identifier=f"urn:rms:{name}", due=NOW))
    tx.rms.append(row(name))
    tx.dead_letters.add([letter(name)])


def seen(store: StorageManager, name: str = "new") -> list[bool]:
    """Whether another transaction sees the records of `fill`, by each query that needs no lock."""
    with store.transaction() as tx:
        looks = [
            tx.rmd.read(f"urn:rmd:{name}") is not None,
            tx.rmd.find_created(made_from(f"create {name}")) != {},
            any(record.identifier == f"urn:rmd:{name}" for record in tx.rmd.all()),
            tx.rmd.open_count() > 0,
            tx.invoker.read(f"urn:rmd:{name}") is not None,
            any(record.sequence == f"urn:rmd:{name}" for record in tx.invoker.all()),
            bool(tx.invoker.numbers(f"urn:rmd:{name}")),
            bool(tx.invoker.messages(f"urn:rmd:{name}", [1])),
            bool(tx.invoker.markers(f"urn:rmd:{name}")),
            any(record.id == f"rms {name}" for record in tx.rms.peek(KEY)),
            any(record.id == f"rms {name}" for record in tx.rms.all()),
            tx.rms.key_of(f"urn:rms:{name}") is not None,
            bool(tx.rms.keys_by_create([f"create rms {name}"])),
            bool(tx.rms.rows([name])),
            tx.rms.row(name) is not None,
            tx.rms.backlog(KEY) > 0,
            any(each.id == name for each in tx.dead_letters.all()),
        ]
    return [
        *looks,
        f"urn:rmd:{name}" in store.due_rmd(NOW, 100),
        f"urn:rmd:{name}" in store.due_invoker(NOW, 100),
        KEY in store.due_rms(NOW, 100),
        *(store.next_due(topic) is not None for topic in Topic),
    ]


# --- isolation and roll-back -----------------------------------------------------------------------------------------


def test_nothing_is_seen_by_others_before_the_commit_and_everything_after_it(store: StorageManager) -> None:
    with store.transaction() as tx:
        fill(tx)
        assert not any(seen(store))
    assert all(seen(store))


def test_a_change_is_seen_by_others_after_the_commit_only(store: StorageManager) -> None:
    outbox = Outbox(store)
    outbox.send("a", "b")
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
        tx.invoker.insert(buffer())
        tx.invoker.add([inbound(1)])

    def poll() -> tuple[object, ...]:
        with store.transaction() as tx:
            rmd, invoker, message = tx.rmd.read("urn:rmd:1"), tx.invoker.read("urn:rmd:1"), tx.rms.row("a")
            assert rmd is not None
            assert invoker is not None
            return (
                rmd.ack_failures,
                invoker.attempts,
                list(tx.invoker.numbers("urn:rmd:1")),
                [record.last_error for record in tx.rms.peek(outbox.key)],
                message and message.acknowledged,
                tx.rms.backlog(outbox.key),
            )

    before = poll()
    with store.transaction() as tx:
        rmd = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
        rmd.ack_failures = 1
        tx.rmd.save(rmd)
        invoker = tx.invoker.read("urn:rmd:1")
        assert invoker is not None
        invoker.attempts = 1
        tx.invoker.save_delivered(invoker, consumed=[1])
        tx.rms.lock([outbox.key])
        outbox.record.last_error = "changed"
        tx.rms.save(outbox.record)
        tx.rms.acknowledge(outbox.record, ((1, 1),))
        tx.rms.take(outbox.record, ((2, 2),))
        assert poll() == before == (0, 0, [(1, 1)], [None], False, 2)
    assert poll() == (1, 1, [], ["changed"], True, 1)


@pytest.mark.parametrize("error", [Mistake, KeyboardInterrupt, SystemExit])
def test_an_exception_rolls_everything_back_and_propagates(store: StorageManager, error: type[BaseException]) -> None:
    called: list[str] = []
    raised = error("on purpose")
    caught: list[BaseException] = []
    try:
        with store.transaction() as tx:
            fill(tx)
            tx.after_commit(lambda: called.append("after the commit"))
            raise raised
    except error as same:
        caught.append(same)
    assert caught == [raised]
    assert not any(seen(store))
    assert called == []


def test_changes_and_deletions_are_rolled_back(store: StorageManager) -> None:
    outbox = Outbox(store)
    outbox.send("a", "b", "c")
    with store.transaction() as tx:
        fill(tx, "old")
    before = seen(store, "old")
    with ending(store.transaction(), Mistake) as tx:
        tx.rmd.lock(["urn:rmd:old"])
        tx.rmd.delete("urn:rmd:old")
        tx.invoker.delete("urn:rmd:old")
        tx.rms.lock([KEY])
        tx.rms.acknowledge(outbox.record, ((1, 1),))
        tx.rms.unnumber(outbox.record, ((2, 2),))
        tx.rms.take(outbox.record, ((3, 3),))
        tx.rms.discard([each for each in tx.rms.unnumbered(KEY, 10) if each.message_id == "old"])
        for record in tx.rms.records(KEY):
            tx.rms.delete(record)
        assert tx.dead_letters.delete("old") is not None
        raise Mistake
    assert seen(store, "old") == before
    assert outbox.unsettled() == ["a", "b", "c"]
    assert outbox.waiting() == ["old"]


def test_a_transaction_after_one_that_was_rolled_back_starts_afresh(store: StorageManager) -> None:
    for attempt in range(3):
        with ending(store.transaction(), Mistake) as tx:
            fill(tx)
            raise Mistake(attempt)
    with store.transaction() as tx:
        fill(tx)
    assert all(seen(store))


# --- one's own changes -----------------------------------------------------------------------------------------------


def test_a_transaction_sees_its_own_sequences(store: StorageManager) -> None:
    with store.transaction() as tx:
        record = rmd_record(create_message_id="create")
        tx.rmd.insert(record)
        tx.invoker.insert(buffer())
        assert tx.rmd.find_created(record.create_key or "") == {record.create_key: record.identifier}
        record.ack_failures = 2
        tx.rmd.save(record)
        assert tx.rmd.read(record.identifier) == record
        assert tx.rmd.lock([record.identifier]) == {record.identifier: record}
        assert tx.invoker.read(record.identifier) == buffer()
        tx.rms.lock([KEY])
        first, second = rms_record("first"), rms_record("second")
        tx.rms.insert(first)
        tx.rms.insert(second)
        second.last_error = "changed"
        tx.rms.save(second)
        assert tx.rms.records(KEY) == [first, second]
        tx.rms.delete(first)
        assert tx.rms.records(KEY) == [second]
        tx.rmd.delete(record.identifier)
        assert tx.rmd.read(record.identifier) is None
    with store.transaction() as tx:
        assert tx.rms.peek(KEY) == [second]
        assert tx.rmd.all() == []


def test_a_transaction_sees_what_it_did_to_rows(store: StorageManager) -> None:
    """One transaction numbers, transmits, acknowledges and moves rows, as the worker does."""
    outbox = Outbox(store)
    outbox.append("a", "b", "c", "d")

    def work(tx: Transaction) -> None:
        record = outbox.record
        assert ids(number_in(tx, outbox, 3)) == ["a", "b", "c"]
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["d"]
        rows = tx.rms.unsettled(record, 10)
        assert [(each.message_id, each.number, each.due) for each in rows] == [
            ("a", 1, NOW),
            ("b", 2, NOW),
            ("c", 3, NOW),
        ]
        rows[0].attempts, rows[0].due = 1, NOW + 5
        tx.rms.transmitted(rows[:1])
        again = tx.rms.unsettled(record, 10)
        assert [(each.attempts, each.due) for each in again] == [(1, NOW + 5), (0, NOW), (0, NOW)]
        tx.rms.acknowledge(record, ((1, 1),))
        assert ids(tx.rms.unsettled(record, 10)) == ["b", "c"]
        tx.rms.release(record, ((1, 3),))
        assert ids(tx.rms.unnumber(record, ((2, 2),))) == ["b"]
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["b", "d"]
        assert ids(tx.rms.unsettled(record, 10)) == ["c"]
        assert ids(tx.rms.take(record, ((1, 3),))) == ["c"]
        assert tx.rms.unsettled(record, 10) == []
        tx.rms.discard(tx.rms.unnumbered(KEY, 1))
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["d"]

    outbox.locked(work)
    assert outbox.waiting() == ["d"]
    assert outbox.backlog == 1


# --- savepoints ------------------------------------------------------------------------------------------------------


def undone(tx: Transaction, work: Callable[[], None]) -> None:
    """Run ``work`` in a savepoint that an exception rolls back."""
    with ending(tx.savepoint(), Mistake):
        work()
        raise Mistake


def test_a_savepoint_undoes_what_was_inside_and_only_that(store: StorageManager) -> None:
    with store.transaction() as tx:
        fill(tx, "before")
        undone(tx, lambda: fill(tx, "inside"))
        assert tx.rmd.read("urn:rmd:inside") is None
        assert [record.id for record in tx.rms.records(KEY)] == ["rms before"]
        fill(tx, "after")
    assert all(seen(store, "before"))
    assert all(seen(store, "after"))
    with store.transaction() as tx:
        assert tx.rmd.read("urn:rmd:inside") is None
        assert tx.invoker.read("urn:rmd:inside") is None
        assert tx.rms.row("inside") is None
        assert tx.rms.key_of("urn:rms:inside") is None
        assert [each.id for each in tx.dead_letters.all()] == ["before", "after"]


def test_a_savepoint_that_ends_well_changes_nothing(store: StorageManager) -> None:
    with store.transaction() as tx, tx.savepoint():
        fill(tx)
    assert all(seen(store))


def test_work_may_end_several_times_in_a_savepoint_which_then_is_undone_as_a_whole(store: StorageManager) -> None:
    with store.transaction() as tx:
        with ending(tx.savepoint(), Mistake):
            for name in ("one", "two"):
                tx.rmd.insert(rmd_record(name))
                tx.end_work()
            raise Mistake
        with tx.savepoint():
            for name in ("three", "four"):
                tx.rmd.insert(rmd_record(name))
                tx.end_work()
    with store.transaction() as tx:
        assert {record.identifier for record in tx.rmd.all()} == {"three", "four"}


def test_the_error_that_leaves_a_savepoint_propagates(store: StorageManager) -> None:
    raised = Mistake("the same")
    caught: list[Mistake] = []
    with store.transaction() as tx:
        try:
            with tx.savepoint():
                raise raised
        except Mistake as same:
            caught.append(same)
        fill(tx)
    assert caught == [raised]
    assert all(seen(store))


def test_changes_to_what_was_there_are_undone_by_a_savepoint(store: StorageManager) -> None:
    outbox = Outbox(store)
    outbox.send("a", "b", "c", expects_response=True)
    outbox.append("waits")
    with store.transaction() as tx:
        tx.rmd.insert(rmd_record())
        tx.invoker.insert(buffer())
        tx.invoker.add([inbound(1), marker(InboundKind.CUT)])
        tx.dead_letters.add([letter("dead")])

    with store.transaction() as tx:
        rmd = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
        tx.rms.lock([KEY])

        def change() -> None:
            rmd.ack_failures = 3
            tx.rmd.save(rmd)
            tx.invoker.delete("urn:rmd:1")
            outbox.record.last_error = "inside"
            tx.rms.save(outbox.record)
            tx.rms.acknowledge(outbox.record, ((1, 1),))
            tx.rms.answered("a")
            tx.rms.unnumber(outbox.record, ((2, 2),))
            tx.rms.take(outbox.record, ((3, 3),))
            tx.rms.discard(tx.rms.unnumbered(KEY, 10))
            assert tx.dead_letters.delete("dead") is not None

        undone(tx, change)
        assert tx.rmd.read("urn:rmd:1") == rmd_record()
        assert [record.last_error for record in tx.rms.records(KEY)] == [None]
        assert ids(tx.rms.unsettled(outbox.record, 10)) == ["a", "b", "c"]
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["waits"]
    with store.transaction() as tx:
        message = tx.rms.row("a")
        assert tx.rmd.all() == [rmd_record()]
        assert list(tx.invoker.numbers("urn:rmd:1")) == [(1, 1)]
        assert len(tx.invoker.markers("urn:rmd:1")) == 1
        assert [each.id for each in tx.dead_letters.all()] == ["dead"]
    assert message is not None
    assert (message.acknowledged, message.answered) == (False, False)


def test_changes_before_a_savepoint_stay(store: StorageManager) -> None:
    outbox = Outbox(store)
    outbox.append("a", "b", "c")
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        outbox.record.last_error = "before"
        tx.rms.save(outbox.record)
        number_in(tx, outbox, 2)

        def change() -> None:
            outbox.record.last_error = "inside"
            tx.rms.save(outbox.record)
            tx.rms.take(outbox.record, ((1, 1),))
            tx.rms.acknowledge(outbox.record, ((2, 2),))

        undone(tx, change)
        assert ids(tx.rms.unsettled(outbox.record, 10)) == ["a", "b"]
        assert [record.last_error for record in tx.rms.records(KEY)] == ["before"]
    assert outbox.unsettled() == ["a", "b"]
    assert outbox.waiting() == ["c"]


def test_of_nested_savepoints_only_the_failing_one_is_undone(store: StorageManager) -> None:
    with store.transaction() as tx:
        with tx.savepoint():
            tx.rms.append(row("outer"))
            undone(tx, lambda: tx.rms.append(row("inner")))
            tx.rms.append(row("outer again"))
        tx.rms.append(row("outside"))
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["outer", "outer again", "outside"]


def test_a_savepoint_that_fails_undoes_the_ones_inside_it_that_ended_well(store: StorageManager) -> None:
    with store.transaction() as tx:

        def work() -> None:
            with tx.savepoint():
                fill(tx, "inner")

        undone(tx, work)
        tx.rms.append(row("outside"))
    assert not any(seen(store, "inner")[:12])
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        assert ids(tx.rms.unnumbered(KEY, 10)) == ["outside"]


def test_every_second_of_many_savepoints_fails(store: StorageManager) -> None:
    """The invoker sets one savepoint for each message."""
    with store.transaction() as tx:
        for number in range(50):
            if number % 2:
                undone(tx, lambda number=number: tx.rms.append(row(f"{number}")))  # type: ignore[misc]
            else:
                with tx.savepoint():
                    tx.rms.append(row(f"{number}"))
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        assert ids(tx.rms.unnumbered(KEY, 100)) == [f"{number}" for number in range(0, 50, 2)]


def test_a_savepoint_inside_a_transaction_that_fails_keeps_nothing(store: StorageManager) -> None:
    with ending(store.transaction(), Mistake) as tx:
        with tx.savepoint():
            fill(tx)
        raise Mistake
    assert not any(seen(store))
