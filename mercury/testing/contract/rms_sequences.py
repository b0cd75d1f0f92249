"""Source sequences: found by key, by identifier and by their CreateSequence; due when they have work."""

from __future__ import annotations

import pytest

from mercury.errors import Conflict
from mercury.storage.api import StorageManager, Topic
from mercury.storage.records import OutboundMessage, RmsRecord, SequenceKey
from mercury.testing.contract.builders import KEY, LISTENING, NOW, channel, rms_record, row
from mercury.testing.contract.ending import ending
from mercury.testing.contract.outbox import Outbox


def insert(store: StorageManager, *records: RmsRecord) -> None:
    for record in records:
        with store.transaction() as tx:
            tx.rms.lock([record.channel.key])
            tx.rms.insert(record)


def append(store: StorageManager, *rows: OutboundMessage) -> None:
    with store.transaction() as tx:
        for each in rows:
            tx.rms.append(each)


# --- records ---------------------------------------------------------------------------------------------------------


def test_the_sequences_of_a_key_are_remembered_oldest_first(store: StorageManager) -> None:
    for number in range(12):  # more than nine: an order by text would show
        insert(store, rms_record(f"rms {number}"))
    insert(store, rms_record("other", LISTENING))
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        names = [f"rms {number}" for number in range(12)]
        assert [record.id for record in tx.rms.records(KEY)] == names
        assert [record.id for record in tx.rms.peek(KEY)] == names
        assert sorted(record.id for record in tx.rms.all()) == sorted([*names, "other"])


def test_the_order_stays_when_sequences_are_changed_and_forgotten(store: StorageManager) -> None:
    records = [rms_record(f"rms {number}") for number in range(4)]
    insert(store, *records)
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        records[0].last_error = "changed"
        tx.rms.save(records[0])
        tx.rms.delete(records[1])
    insert(store, rms_record("rms 4"))
    with store.transaction() as tx:
        assert [record.id for record in tx.rms.peek(KEY)] == ["rms 0", "rms 2", "rms 3", "rms 4"]
        assert tx.rms.peek(KEY)[0].last_error == "changed"


def test_no_two_sequences_get_one_identifier(store: StorageManager) -> None:
    """Two processes may accept the same offer at once: neither sees the other's uncommitted sequence."""
    insert(store, rms_record("first", identifier="urn:offered"))
    with ending(store.transaction(), Conflict) as tx:
        tx.rms.insert(rms_record("second", LISTENING, identifier="urn:offered"))
    with ending(store.transaction(), Conflict) as tx:
        tx.rms.insert(rms_record("third", LISTENING))
        tx.rms.save(rms_record("third", LISTENING, identifier="urn:offered"))
    with store.transaction() as tx:
        assert [record.id for record in tx.rms.all()] == ["first"]
        tx.rms.lock([KEY])
        tx.rms.delete(rms_record("first"))
        tx.rms.insert(rms_record("again", LISTENING, identifier="urn:offered"))
    with store.transaction() as tx:
        assert tx.rms.key_of("urn:offered") == LISTENING.key


def test_new_key_may_be_used_without_a_lock(store: StorageManager) -> None:
    """A response sequence is created with the request sequence, in a transaction that could not lock its key before."""
    with store.transaction() as tx:
        tx.rms.insert(rms_record("new"))
        tx.rms.save(rms_record("new", window_full=True))
    with store.transaction() as tx:
        assert [(record.id, record.window_full) for record in tx.rms.peek(KEY)] == [("new", True)]


def test_a_sequence_is_found_by_its_identifier_once_it_has_one(store: StorageManager) -> None:
    record = rms_record()
    insert(store, record)
    with store.transaction() as tx:
        assert tx.rms.key_of("urn:rms") is None
        tx.rms.lock([KEY])
        record.machine.identifier = "urn:rms"
        tx.rms.save(record)
    with store.transaction() as tx:
        assert tx.rms.key_of("urn:rms") == KEY
        assert tx.rms.key_of("urn:another") is None
        tx.rms.lock([KEY])
        tx.rms.delete(record)
    with store.transaction() as tx:
        assert tx.rms.key_of("urn:rms") is None
        assert tx.rms.peek(KEY) == []


def test_keys_of_sequences_are_found_together_by_their_identifiers(store: StorageManager) -> None:
    insert(store, rms_record("a", identifier="urn:a"), rms_record("b", LISTENING, identifier="urn:b"))
    for _ in range(2):  # the second time a store may use its cache
        with store.transaction() as tx:
            assert tx.rms.keys_by_identifier(["urn:a", "urn:b", "urn:c"]) == {"urn:a": KEY, "urn:b": LISTENING.key}
            assert tx.rms.keys_by_identifier([]) == {}


def test_keys_of_sequences_are_found_together_by_the_messages_that_requested_them(store: StorageManager) -> None:
    insert(store, rms_record("a", create_message_id="create a"))
    insert(store, rms_record("b", LISTENING, create_message_id="create b"))
    with store.transaction() as tx:
        found = tx.rms.keys_by_create(["create a", "create b", "create c"])
        assert found == {"create a": KEY, "create b": LISTENING.key}
        assert tx.rms.keys_by_create([]) == {}


def test_sequence_that_no_longer_makes_its_offer_is_found_by_the_message_that_requests_it_now(
    store: StorageManager,
) -> None:
    insert(store, rms_record("a", create_message_id="create a", offered="urn:offered"))
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        (record,) = tx.rms.records(KEY)
        record.create_message_id, record.offered = "create again", None
        tx.rms.save(record)
    with store.transaction() as tx:
        assert tx.rms.peek(KEY) == [record]
        assert tx.rms.keys_by_create(["create again"]) == {"create again": KEY}


def test_an_identifier_that_a_peer_chooses_is_not_taken_for_a_message_id(store: StorageManager) -> None:
    """A peer names its sequence after the MessageID of another sequence's CreateSequence."""
    insert(store, rms_record("a", create_message_id="urn:same"), rms_record("b", LISTENING, identifier="urn:same"))
    with store.transaction() as tx:
        assert tx.rms.keys_by_identifier(["urn:same"]) == {"urn:same": LISTENING.key}
        assert tx.rms.keys_by_create(["urn:same"]) == {"urn:same": KEY}


def test_rows_are_found_together_by_their_message_ids(store: StorageManager) -> None:
    outbox = Outbox(store)
    outbox.append("waits", "waits too")
    outbox.number()
    with store.transaction() as tx:
        found = tx.rms.rows(["waits", "another", "waits too"])
        assert {name: (row.message_id, row.channel.key, row.number) for name, row in found.items()} == {
            "waits": ("waits", KEY, 1),
            "waits too": ("waits too", KEY, 2),
        }
        assert tx.rms.rows([]) == {}
    outbox.take()
    with store.transaction() as tx:
        assert tx.rms.rows(["waits", "waits too"]) == {}


def test_a_row_is_whole_after_it_was_found_with_others(store: StorageManager) -> None:
    Outbox(store).append("waits")
    with store.transaction() as tx:
        whole = tx.rms.row("waits")
    with store.transaction() as tx:
        assert tx.rms.rows(["waits"]).keys() == {"waits"}
        assert tx.rms.row("waits") == whole
    assert whole is not None
    assert whole.payload


def test_keys_are_distinguished_by_both_of_their_parts(store: StorageManager) -> None:
    keys = [("http://a", "b#c"), ("http://a#b", "c"), ("http://a", "b"), ("http://a", "B"), ("http://a/", "b")]
    for number, (endpoint, name) in enumerate(keys):
        insert(store, rms_record(f"rms {number}", channel(name, endpoint=endpoint)))
    with store.transaction() as tx:
        for number, key in enumerate(keys):
            assert [record.id for record in tx.rms.peek(SequenceKey(*key))] == [f"rms {number}"]


# --- due -------------------------------------------------------------------------------------------------------------


def test_a_key_with_rows_to_number_is_due(store: StorageManager) -> None:
    assert store.due_rms(NOW, 10) == []
    assert store.next_due(Topic.RMS) is None
    append(store, row("a"))
    assert store.due_rms(NOW, 10) == [KEY]
    earliest = store.next_due(Topic.RMS)
    assert earliest is not None
    assert earliest <= NOW
    Outbox(store).number()
    assert store.due_rms(NOW, 10) == []
    assert store.next_due(Topic.RMS) is None


@pytest.mark.parametrize("full", [True, False], ids=["window full", "no successor yet"])
def test_a_key_whose_sequence_holds_its_rows_is_not_due(store: StorageManager, full: bool) -> None:
    outbox = Outbox(store, rms_record(window_full=full, holds_successor=not full))
    outbox.append("a")
    assert store.due_rms(NOW, 10) == []
    assert store.next_due(Topic.RMS) is None
    outbox.record.window_full = outbox.record.holds_successor = False
    outbox.locked(lambda tx: tx.rms.save(outbox.record))
    assert store.due_rms(NOW, 10) == [KEY]


def test_key_with_one_sequence_that_holds_its_rows_is_not_due(store: StorageManager) -> None:
    insert(store, rms_record("old"), rms_record("holds", window_full=True), rms_record("new"))
    append(store, row("a"))
    assert store.due_rms(NOW, 10) == []


def test_a_key_that_holds_its_rows_is_due_by_its_time(store: StorageManager) -> None:
    outbox = Outbox(store, rms_record(window_full=True, due=NOW + 5))
    outbox.append("a")
    assert store.due_rms(NOW, 10) == []
    assert store.next_due(Topic.RMS) == NOW + 5
    assert store.due_rms(NOW + 5, 10) == [KEY]


def test_a_key_is_due_when_one_of_its_sequences_is(store: StorageManager) -> None:
    insert(store, rms_record("never"), rms_record("late", due=NOW + 9), rms_record("soon", due=NOW + 1))
    assert store.next_due(Topic.RMS) == NOW + 1
    assert store.due_rms(NOW + 0.5, 10) == []
    assert store.due_rms(NOW + 1, 10) == [KEY]
    assert store.due_rms(NOW + 100, 10) == [KEY]


def test_a_key_is_not_due_any_more_when_its_sequence_is_put_off_or_forgotten(store: StorageManager) -> None:
    record = rms_record(due=NOW)
    outbox = Outbox(store, record)
    assert store.due_rms(NOW, 10) == [KEY]
    record.due = NOW + 10
    outbox.locked(lambda tx: tx.rms.save(record))
    assert store.due_rms(NOW, 10) == []
    record.due = None
    outbox.locked(lambda tx: tx.rms.save(record))
    assert store.due_rms(NOW + 100, 10) == []
    record.due = NOW
    outbox.locked(lambda tx: tx.rms.save(record))
    outbox.locked(lambda tx: tx.rms.delete(record))
    assert store.due_rms(NOW + 100, 10) == []
    assert store.next_due(Topic.RMS) is None


def test_the_earliest_of_all_keys_is_next(store: StorageManager) -> None:
    insert(store, rms_record("a", due=NOW + 7), rms_record("b", LISTENING, due=NOW + 3))
    assert store.next_due(Topic.RMS) == NOW + 3


def test_a_limited_number_of_due_keys_is_returned_each_once(store: StorageManager) -> None:
    keys = [SequenceKey("http://peer.example", f"key {number}") for number in range(10)]
    for key in keys:
        insert(store, rms_record(f"rms {key}", channel(key.name, endpoint=key.endpoint), due=NOW))
        append(store, row(f"row {key}", channel(key.name, endpoint=key.endpoint)))
    found = store.due_rms(NOW, 4)
    assert len(set(found)) == len(found) == 4
    assert sorted(store.due_rms(NOW, 100)) == keys


@pytest.mark.parametrize("waiting", [True, False])
def test_new_rows_and_retransmissions_do_not_delay_each_other(store: StorageManager, waiting: bool) -> None:
    """More keys have new rows than one query returns: retransmissions are still found. The reverse holds too."""
    for number in range(20):
        other = channel(f"other {number}")
        if waiting:
            append(store, row(f"row {number}", other))
        else:
            insert(store, rms_record(f"rms {number}", other, due=NOW - 1000 + number))
    if waiting:
        insert(store, rms_record("alone", due=NOW - 1))
    else:
        append(store, row("alone"))
    assert KEY in store.due_rms(NOW, 10)
