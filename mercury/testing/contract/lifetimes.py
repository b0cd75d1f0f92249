"""Rows with times: they expire, or wait for their time, while their sequence holds the rows of its key."""

from __future__ import annotations

from mercury.storage.api import StorageManager, Topic, Transaction
from mercury.storage.records import OutboundMessage, RmsRecord
from mercury.testing.contract.builders import KEY, LISTENING, NOW, rms_record, row
from mercury.testing.contract.outbox import Outbox, ids


def expired(outbox: Outbox, now: float, limit: int = 10) -> list[OutboundMessage]:
    return outbox.locked(lambda tx: tx.rms.expired(outbox.key, now, limit))


def insert(store: StorageManager, record: RmsRecord) -> None:
    with store.transaction() as tx:
        tx.rms.lock([record.channel.key])
        tx.rms.insert(record)


def append(store: StorageManager, message: OutboundMessage) -> None:
    with store.transaction() as tx:
        tx.rms.append(message)


def full(store: StorageManager) -> Outbox:
    """A sequence that holds the rows of its key."""
    return Outbox(store, rms_record(window_full=True))


def test_the_times_of_a_row_are_kept(outbox: Outbox) -> None:
    outbox.append("a", expires_at=NOW + 60.5, not_before=NOW + 30.25)
    (read,) = outbox.locked(lambda tx: tx.rms.unnumbered(outbox.key, 10))
    assert (read.expires_at, read.not_before, read.damaged) == (NOW + 60.5, NOW + 30.25, False)


def test_rows_that_have_expired_are_found_behind_others_in_their_order(outbox: Outbox) -> None:
    outbox.append("lasts")
    outbox.append("late", expires_at=NOW + 9)
    outbox.append("a", "b", expires_at=NOW + 5)
    outbox.append("c", expires_at=NOW + 4)
    assert expired(outbox, NOW + 3) == []
    found = expired(outbox, NOW + 5)
    assert ids(found) == ["a", "b", "c"]
    assert found[0].payload == row("a").payload, "the dead letter needs the body"
    assert ids(expired(outbox, NOW + 5, 2)) == ["a", "b"]


def test_a_row_with_a_number_has_not_expired(outbox: Outbox) -> None:
    outbox.append("a", "b", expires_at=NOW + 5)
    outbox.number(1)
    assert ids(expired(outbox, NOW + 5)) == ["b"]
    outbox.unnumber(1)
    assert ids(expired(outbox, NOW + 5)) == ["a", "b"]


def test_rows_of_this_transaction_are_found_as_it_has_left_them(outbox: Outbox) -> None:
    outbox.append("a", "b", "c", expires_at=NOW + 5)
    outbox.number(1)

    def work(tx: Transaction) -> list[OutboundMessage]:
        assert not tx.rms.abandoned(outbox.key)
        tx.rms.unnumber(outbox.record, ((1, 1),))
        tx.rms.discard(tx.rms.unnumbered(outbox.key, 10)[1:2])
        return tx.rms.expired(outbox.key, NOW + 5, 10)

    assert ids(outbox.locked(work)) == ["a", "c"]


def test_a_key_that_holds_its_rows_is_due_when_one_expires(store: StorageManager) -> None:
    outbox = full(store)
    outbox.append("lasts")
    assert store.next_due(Topic.RMS) is None
    outbox.append("late", expires_at=NOW + 9)
    outbox.append("soon", expires_at=NOW + 5)
    assert store.next_due(Topic.RMS) == store.work_due(NOW)[Topic.RMS] == NOW + 5
    assert store.due_rms(NOW + 4.5, 10) == []
    assert store.due_rms(NOW + 5, 10) == [KEY]
    assert store.work_due(NOW + 5)[Topic.RMS] <= NOW + 5
    outbox.locked(lambda tx: tx.rms.discard(tx.rms.expired(KEY, NOW + 5, 10)))
    assert store.due_rms(NOW + 5, 10) == []
    assert store.next_due(Topic.RMS) == NOW + 9


def test_the_earlier_of_an_expiry_and_other_work_is_next(store: StorageManager) -> None:
    full(store).append("soon", expires_at=NOW + 5)
    insert(store, rms_record("other", LISTENING, due=NOW + 7))
    assert store.next_due(Topic.RMS) == NOW + 5
    insert(store, rms_record("earlier", LISTENING, due=NOW + 3))
    assert store.next_due(Topic.RMS) == store.work_due(NOW)[Topic.RMS] == NOW + 3


def test_a_key_whose_rows_wait_for_a_time_is_due_at_that_time(store: StorageManager) -> None:
    insert(store, rms_record(rows_wait_until=NOW + 5, due=NOW + 5))
    append(store, row("a"))
    assert store.due_rms(NOW, 10) == []
    assert store.next_due(Topic.RMS) == NOW + 5
    assert store.due_rms(NOW + 5, 10) == [KEY]


def test_a_message_that_waits_for_its_time_is_not_late(store: StorageManager) -> None:
    append(store, row("scheduled", created_at=NOW - 900, not_before=NOW + 60))
    with store.transaction() as tx:
        assert tx.rms.oldest_unacknowledged() is None
    append(store, row("other", created_at=NOW - 5))
    with store.transaction() as tx:
        assert tx.rms.oldest_unacknowledged() == NOW - 5
