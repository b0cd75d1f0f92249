"""InvokerBuffers: rows are added without a lock, and consumed by the one `save_delivered` that commits."""

from __future__ import annotations

from concurrent.futures import Future

from mercury.errors import Conflict
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import StorageManager
from mercury.storage.records import InboundKind, InboundMessage, InvokerRecord
from mercury.testing.contract.builders import NOW, buffer, inbound, marker
from mercury.testing.contract.ending import ending
from mercury.testing.contract.threads import Threads, result, waits

ONE = "urn:rmd:1"
WHOLE = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
KEEP = IncompleteSequenceBehavior.NO_DISCARD


def insert(store: StorageManager, *records: InvokerRecord) -> None:
    with store.transaction() as tx:
        for record in records:
            tx.invoker.insert(record)


def add(store: StorageManager, *messages: InboundMessage) -> None:
    with store.transaction() as tx:
        tx.invoker.add(messages)


def read(store: StorageManager, sequence: str = ONE) -> InvokerRecord:
    with store.transaction() as tx:
        record = tx.invoker.read(sequence)
    assert record is not None
    return record


def deliver(store: StorageManager, *numbers: int, sequence: str = ONE, state: InvokerState | None = None) -> None:
    """Consume the messages with these numbers, and all markers of the buffer."""
    with store.transaction() as tx:
        record = tx.invoker.read(sequence)
        assert record is not None
        for number in numbers:
            record.machine.passed.add(number)
        record.machine.state = state or record.machine.state
        tx.invoker.save_delivered(record, consumed=numbers, markers=tx.invoker.markers(sequence))


def numbers(store: StorageManager, sequence: str = ONE) -> list[tuple[int, int]]:
    with store.transaction() as tx:
        return list(tx.invoker.numbers(sequence))


def due(store: StorageManager, now: float = NOW) -> list[str]:
    return list(store.due_invoker(now, 100))


# --- rows ------------------------------------------------------------------------------------------------------------


def test_a_buffer_and_its_first_messages_may_be_made_together(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(buffer())
        tx.invoker.add([inbound(1)])
    assert numbers(store) == [(1, 1)]


def test_numbers_are_returned_as_ranges_within_a_window(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, *(inbound(number) for number in (9, 1, 2, 3, 5, 2**62)))
    with store.transaction() as tx:
        assert tx.invoker.numbers(ONE) == RangeSet([(1, 3), (5, 5), (9, 9), (2**62, 2**62)])
        assert list(tx.invoker.numbers(ONE, 2)) == [(2, 3), (5, 5), (9, 9), (2**62, 2**62)]
        assert list(tx.invoker.numbers(ONE, 2, 5)) == [(2, 3), (5, 5)]
        assert list(tx.invoker.numbers(ONE, 3, 3)) == [(3, 3)]
        assert list(tx.invoker.numbers(ONE, 4, 4)) == []
        assert list(tx.invoker.numbers(ONE, 6, 8)) == []
        assert list(tx.invoker.numbers(ONE, 2**62)) == [(2**62, 2**62)]
        assert list(tx.invoker.numbers("urn:unknown")) == []


def test_messages_are_read_by_number_with_their_bodies(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, inbound(3), inbound(1, payload=b"<one/>"))
    with store.transaction() as tx:
        found = tx.invoker.messages(ONE, [1, 2, 3, 3])
        assert set(found) == {1, 3}
        assert (found[1].payload, found[1].message_id, found[3].number) == (b"<one/>", f"{ONE}/1", 3)
        assert tx.invoker.messages(ONE, []) == {}
        assert tx.invoker.messages("urn:unknown", [1]) == {}


def test_many_messages_can_be_read_and_consumed_at_once(store: StorageManager) -> None:
    """The number is above the parameter limit of a statement in some databases."""
    insert(store, buffer())
    add(store, *(inbound(number, payload=b"") for number in range(1, 2001)))
    with store.transaction() as tx:
        assert len(tx.invoker.messages(ONE, range(1, 2001))) == 2000
    deliver(store, *range(1, 2001))
    assert numbers(store) == []


def test_markers_are_no_messages_and_keep_their_order(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, marker(InboundKind.END, 2), inbound(2))
    add(store, marker(InboundKind.CUT))
    with store.transaction() as tx:
        kinds = [(each.kind, each.number) for each in tx.invoker.markers(ONE)]
        assert kinds == [(InboundKind.END, 2), (InboundKind.CUT, 0)]
        assert list(tx.invoker.numbers(ONE)) == [(2, 2)]
        assert tx.invoker.messages(ONE, [2])[2].kind is InboundKind.MESSAGE
        assert tx.invoker.markers("urn:unknown") == []


def test_a_part_of_a_buffer_has_its_markers_and_the_messages_between_two_numbers(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, *(inbound(number) for number in (9, 1, 3, 2, 2**62)), marker(InboundKind.END, 9))
    with store.transaction() as tx:
        part = tx.invoker.part(ONE, 2, 8)
        assert part.messages == tx.invoker.messages(ONE, [2, 3])
        assert part.markers == tx.invoker.markers(ONE) != []
        assert tx.invoker.part(ONE, 10, 2**63).messages.keys() == {2**62}  # above the highest number there may be
        assert tx.invoker.part(ONE, 4, 4).messages == {}
        nothing = tx.invoker.part("urn:unknown", 1, 9)
        assert (nothing.markers, nothing.messages) == ([], {})


def test_first_parts_of_many_buffers_are_read_together(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b"), buffer("urn:c"), buffer("urn:d"))
    add(store, *(inbound(number, "urn:a") for number in (1, 2, 3, 4, 6)), *(inbound(n, "urn:b") for n in (2, 3)))
    add(store, marker(InboundKind.END, 6, "urn:b"), marker(InboundKind.CUT, 0, "urn:d"))
    deliver(store, 1, sequence="urn:a")
    with store.transaction() as tx:
        found = tx.invoker.parts(["urn:d", "urn:c", "urn:b", "urn:a", "urn:unknown"], 3)
        assert found.keys() == {"urn:a", "urn:b", "urn:d"}
        assert found["urn:a"].messages == tx.invoker.messages("urn:a", [2, 3, 4])
        assert found["urn:b"].messages == tx.invoker.messages("urn:b", [2, 3])
        assert [found[name].markers for name in ("urn:a", "urn:b")] == [[], tx.invoker.markers("urn:b")]
        assert (found["urn:d"].messages, len(found["urn:d"].markers)) == ({}, 1)
        assert tx.invoker.parts([], 3) == {}


def test_first_parts_of_many_buffers_have_no_more_bytes_together(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b"))
    add(store, *(inbound(number, name, payload=b"x" * 10) for name in ("urn:a", "urn:b") for number in (1, 2)))
    with store.transaction() as tx:
        assert [len(part.messages) for part in tx.invoker.parts(["urn:a", "urn:b"], 9, 40).values()] == [2, 2]
        assert sum(len(part.messages) for part in tx.invoker.parts(["urn:a", "urn:b"], 9, 39).values()) == 3
        assert len(tx.invoker.parts(["urn:a", "urn:b"], 9, 1)) == 1


def test_records_of_many_buffers_are_read_together(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b"))
    with store.transaction() as tx:
        found = tx.invoker.read_many(["urn:a", "urn:unknown", "urn:b"])
        assert found == {"urn:a": tx.invoker.read("urn:a"), "urn:b": tx.invoker.read("urn:b")}
        assert tx.invoker.read_many([]) == {}


def test_rows_of_one_call_may_belong_to_many_buffers(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b"))
    add(store, inbound(1, "urn:a"), inbound(1, "urn:b"), inbound(2, "urn:a"))
    assert numbers(store, "urn:a") == [(1, 2)]
    assert numbers(store, "urn:b") == [(1, 1)]
    deliver(store, 1, sequence="urn:a")
    assert numbers(store, "urn:a") == [(2, 2)]
    assert numbers(store, "urn:b") == [(1, 1)]


def test_rows_added_in_a_savepoint_that_failed_are_not_there(store: StorageManager) -> None:
    insert(store, buffer())
    with store.transaction() as tx:
        tx.invoker.add([inbound(1)])
        with ending(tx.savepoint(), ZeroDivisionError):
            tx.invoker.add([inbound(2), marker(InboundKind.CUT)])
            raise ZeroDivisionError
        tx.invoker.add([inbound(3)])
    assert numbers(store) == [(1, 1), (3, 3)]
    with store.transaction() as tx:
        assert tx.invoker.markers(ONE) == []


# --- save_delivered --------------------------------------------------------------------------------------------------


def test_save_delivered_saves_the_record_and_deletes_the_consumed_messages(store: StorageManager) -> None:
    insert(store, buffer(version=4))
    add(store, inbound(1), inbound(2), inbound(3), marker(InboundKind.END, 3))
    record = read(store)
    with store.transaction() as tx:
        record.attempts, record.last_error = 2, "failed"
        record.machine.passed.add(1, 2)
        tx.invoker.save_delivered(record, consumed=iter([1, 2, 99]), markers=tx.invoker.markers(ONE))
    stored = read(store)
    assert (stored.version, stored.attempts, stored.last_error) == (5, 2, "failed")
    assert list(stored.machine.passed) == [(1, 2)]
    assert numbers(store) == [(3, 3)]
    with store.transaction() as tx:
        assert tx.invoker.markers(ONE) == []


def test_save_delivered_keeps_the_markers_that_are_not_consumed(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, marker(InboundKind.END, 3), marker(InboundKind.CUT))
    with store.transaction() as tx:
        (end, _) = tx.invoker.markers(ONE)
        tx.invoker.save_delivered(read(store), consumed=[], markers=[end])
    with store.transaction() as tx:
        assert [each.kind for each in tx.invoker.markers(ONE)] == [InboundKind.CUT]


def test_version_grows_with_each_save_delivered(store: StorageManager) -> None:
    insert(store, buffer())
    for version in range(5):
        assert read(store).version == version
        deliver(store)


def test_save_delivered_with_an_old_version_is_rolled_back(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, inbound(1), inbound(2))
    old = read(store)
    deliver(store, 1)
    with ending(store.transaction(), Conflict) as tx:
        tx.invoker.add([inbound(3)])
        old.attempts = 7
        tx.invoker.save_delivered(old, consumed=[2])
    assert numbers(store) == [(2, 2)]
    assert (read(store).version, read(store).attempts) == (1, 0)


def test_save_delivered_of_a_deleted_buffer_is_rolled_back(store: StorageManager) -> None:
    insert(store, buffer())
    old = read(store)
    with store.transaction() as tx:
        tx.invoker.delete(ONE)
    with ending(store.transaction(), Conflict) as tx:
        tx.dead_letters.all()
        tx.invoker.save_delivered(old, consumed=[])
    with store.transaction() as tx:
        assert tx.invoker.all() == []


def test_buffers_that_are_saved_in_order_lose_what_is_below_their_next_number(store: StorageManager) -> None:
    insert(store, buffer("urn:a", version=4), buffer("urn:b"), buffer("urn:c"))
    for name in ("urn:a", "urn:b", "urn:c"):
        add(store, *(inbound(number, name) for number in (1, 2, 3)), marker(InboundKind.END, 3, name))
    records = [read(store, name) for name in ("urn:b", "urn:a")]
    with store.transaction() as tx:
        records[0].machine.passed.add(1, 2)
        records[1].machine.passed.add(1, 3)
        records[1].last_error = "failed"
        tx.invoker.save_in_order(records)
    assert [numbers(store, name) for name in ("urn:a", "urn:b", "urn:c")] == [[], [(3, 3)], [(1, 3)]]
    stored = read(store, "urn:a")
    assert (stored.version, stored.last_error, list(stored.machine.passed)) == (5, "failed", [(1, 3)])
    assert (read(store, "urn:b").version, read(store, "urn:c").version) == (1, 0)
    with store.transaction() as tx:
        assert len(tx.invoker.markers("urn:a")) == 1


def test_none_of_several_buffers_is_saved_if_one_has_an_old_version(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b"))
    add(store, inbound(1, "urn:a"), inbound(1, "urn:b"))
    records = [read(store, name) for name in ("urn:a", "urn:b")]
    deliver(store, sequence="urn:b")
    with ending(store.transaction(), Conflict) as tx:
        for record in records:
            record.machine.passed.add(1)
        tx.invoker.save_in_order(records)
    assert [numbers(store, name) for name in ("urn:a", "urn:b")] == [[(1, 1)], [(1, 1)]]
    assert read(store, "urn:a").version == 0


def test_one_of_a_save_delivered_and_a_deletion_at_once_commits_first(store: StorageManager, threads: Threads) -> None:
    """A sequence is deleted while the application still handles its message: one of the two transactions commits."""
    insert(store, buffer("urn:a"), buffer("urn:b"))
    add(store, inbound(1, "urn:a"), inbound(1, "urn:b"))

    def forget() -> None:
        with store.transaction() as tx:
            tx.invoker.delete("urn:a")

    def save() -> bool:
        try:
            with store.transaction() as tx:
                for sequence in ("urn:a", "urn:b"):
                    record = tx.invoker.read(sequence)
                    assert record is not None
                    tx.invoker.save_delivered(record, consumed=[1])
                forgetting.append(threads.start(forget))
                waits(forgetting[0])  # it may end before this transaction, or wait for its end
        except Conflict:
            return False
        return True

    forgetting: list[Future[None]] = []
    kept = save()
    result(forgetting[0])
    assert numbers(store, "urn:b") == ([] if kept else [(1, 1)])
    with store.transaction() as tx:
        assert tx.invoker.read("urn:a") is None
        assert list(tx.invoker.numbers("urn:a")) == []


def test_one_of_two_transactions_that_deliver_the_same_message_commits(store: StorageManager, threads: Threads) -> None:
    insert(store, buffer())
    add(store, *(inbound(number) for number in range(1, 101)))
    delivered: list[int] = []

    def run() -> int:
        conflicts = 0
        while True:
            try:
                with store.transaction() as tx:
                    record = tx.invoker.read(ONE)
                    assert record is not None
                    number = record.machine.next
                    if number > 100:
                        return conflicts
                    assert tx.invoker.messages(ONE, [number])[number].number == number
                    record.machine.passed.add(number)
                    tx.invoker.save_delivered(record, consumed=[number])
                    tx.after_commit(lambda number=number: delivered.append(number))  # type: ignore[misc]
            except (Conflict, KeyError):
                conflicts += 1

    futures = [threads.start(run) for _ in range(4)]
    for future in futures:
        result(future)
    assert sorted(delivered) == list(range(1, 101))
    assert read(store).version == 100


def test_a_deleted_buffer_is_gone_with_all_that_was_in_it(store: StorageManager) -> None:
    insert(store, buffer("urn:a"), buffer("urn:b"))
    add(store, inbound(1, "urn:a"), marker(InboundKind.CUT, 0, "urn:a"), inbound(1, "urn:b"))
    with store.transaction() as tx:
        tx.invoker.delete("urn:a")
        tx.invoker.delete("urn:unknown")
    with store.transaction() as tx:
        assert tx.invoker.read("urn:a") is None
        assert tx.invoker.messages("urn:a", [1]) == {}
        assert tx.invoker.markers("urn:a") == []
        assert [record.sequence for record in tx.invoker.all()] == ["urn:b"]
    assert numbers(store, "urn:a") == []
    assert due(store) == ["urn:b"]


def test_buffer_can_be_saved_and_deleted_in_one_transaction(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, inbound(1))
    with store.transaction() as tx:
        tx.invoker.save_delivered(buffer(), consumed=[1])
        tx.invoker.delete(ONE)
    with store.transaction() as tx:
        assert tx.invoker.read(ONE) is None
