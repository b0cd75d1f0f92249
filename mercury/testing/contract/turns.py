"""Fair scheduling: peers take turns, and of one peer the sequence that was served longest ago comes first."""

from __future__ import annotations

import pytest

from mercury.storage.api import StorageManager
from mercury.storage.claims import WorkFilter
from mercury.storage.records import RmdRecord, SequenceKey
from mercury.testing.contract.builders import NOW, buffer, channel, inbound, rmd_record, rms_record, row


def sequence(name: str, peer: str = "", **more: str) -> RmdRecord:
    return rmd_record(name, peer=peer, create_message_id=f"create {name}", **more)


def make(store: StorageManager, *records: RmdRecord, messages: int = 1) -> None:
    """Insert sequences with ``messages`` messages each."""
    for record in records:
        with store.transaction() as tx:
            tx.rmd.insert(record)
            tx.invoker.insert(buffer(record.identifier, owner=record.owner))
            tx.invoker.add([inbound(number, record.identifier) for number in range(1, messages + 1)])


def deliver(store: StorageManager, name: str, number: int) -> None:
    with store.transaction() as tx:
        record = tx.invoker.read(name)
        assert record is not None
        record.machine.passed.add(number)
        tx.invoker.save_delivered(record, consumed=[number])


def due(store: StorageManager, after: str = "", limit: int = 100) -> list[str]:
    return list(store.due_invoker(NOW, limit, WorkFilter("me", after=after)))


def test_one_sequence_of_each_peer_comes_before_the_second_of_any(store: StorageManager) -> None:
    make(store, *(sequence(f"a{number}", "10.0.0.1") for number in range(3)), messages=3)
    for name in ("a0", "a1", "a2"):
        deliver(store, name, 1)  # the store now has the time of each sequence's last delivery
    make(store, sequence("b", "10.0.0.2"), sequence("c", "10.0.0.3"))
    assert due(store) == ["a0", "b", "c", "a1", "a2"]
    assert due(store, limit=2) == ["a0", "b"]
    assert store.due_invoker(NOW, 2) == {"a0": "10.0.0.1", "b": "10.0.0.2"}


def test_the_peer_after_the_one_that_had_the_last_turn_comes_first(store: StorageManager) -> None:
    make(store, sequence("a", "10.0.0.1"), sequence("b", "10.0.0.2"), sequence("c", "10.0.0.3"))
    assert due(store, after="10.0.0.1") == ["b", "c", "a"]
    assert due(store, after="10.0.0.2") == ["c", "a", "b"]
    assert due(store, after="10.0.0.3") == ["a", "b", "c"]
    assert due(store, after="10.0.0.15") == ["b", "c", "a"]  # the peer that was served last may have no work left
    assert due(store, after="10.0.0.2", limit=1) == ["c"]


def test_sequence_of_a_peer_that_was_served_longest_ago_comes_first(store: StorageManager) -> None:
    make(store, *(sequence(f"a{number}", "10.0.0.1") for number in range(3)), messages=3)
    for name in ("a1", "a0", "a2", "a1"):
        deliver(store, name, 1 if name != "a1" else 2)
        make(store, sequence(f"later than {name} {len(due(store))}", "10.0.0.2"))  # time passes
    assert [name for name in due(store) if name.startswith("a")] == ["a0", "a2", "a1"]


def test_peer_that_keeps_making_sequences_does_not_delay_the_others(store: StorageManager) -> None:
    """A sequence that was never served is the first one of its peer, and does not precede those of other peers."""
    make(store, sequence("honest", "10.0.0.9"), messages=3)
    deliver(store, "honest", 1)
    after = ""
    for number in range(3):
        make(store, *(sequence(f"new {number} {each}", "10.0.0.1") for each in range(10)))
        if due(store, after, limit=1) == ["honest"]:
            return
        (first,) = due(store, after, limit=1)
        deliver(store, first, 1)
        after = "10.0.0.1"
    raise AssertionError


def test_a_peer_is_an_identity_or_else_an_address_or_a_server(store: StorageManager) -> None:
    make(store, sequence("known", "10.0.0.1", identity="till"), sequence("unknown", "10.0.0.1"))
    make(store, rmd_record("responses", peer="http://there:80"))
    with store.transaction() as tx:  # a redriven dead letter
        tx.invoker.insert(buffer("redriven"))
        tx.invoker.add([inbound(1, "redriven")])
    peers = {"known": "till", "unknown": "10.0.0.1", "responses": "http://there:80", "redriven": ""}
    assert store.due_invoker(NOW, 10) == peers


def test_single_replies_of_one_server_take_the_turns_of_that_server(store: StorageManager) -> None:
    """They belong to no sequence: each has a buffer of its own."""
    for owner, count in (("http://many:80", 8), ("http://few:80", 1)):
        for number in range(count):
            with store.transaction() as tx:
                tx.invoker.insert(buffer(f"reply:{owner} {number}", owner=owner))
                tx.invoker.add([inbound(1, f"reply:{owner} {number}")])
    first, second = store.due_invoker(NOW, 2).items()
    assert {first, second} == {("reply:http://few:80 0", "http://few:80"), ("reply:http://many:80 0", "http://many:80")}
    assert due(store, after="http://few:80", limit=1) == ["reply:http://many:80 0"]
    assert due(store, after="http://many:80", limit=1) == ["reply:http://few:80 0"]


# --- source sequences ------------------------------------------------------------------------------------------------


def sending(store: StorageManager, owner: str, count: int, *, waits: bool, due: float = NOW) -> list[SequenceKey]:
    """Insert ``count`` keys of an owner, each with work: a row without a number, or a sequence that is due."""
    found = []
    for number in range(count):
        on = channel(f"{owner} {number:02}", endpoint="http://peer.example/responses")
        found.append(on.key)
        with store.transaction() as tx:
            if waits:
                tx.rms.append(row(f"row of {owner} {number}", on, owner=owner or None))
            else:
                tx.rms.insert(rms_record(f"rms of {owner} {number}", on, owner=owner, due=due + number))
    return found


def due_to_send(store: StorageManager, after: str = "", limit: int = 100) -> list[SequenceKey]:
    return store.due_rms(NOW, limit, WorkFilter("me", after=after))


@pytest.mark.parametrize("waits", [True, False], ids=["rows", "times"])
def test_one_key_of_each_owner_comes_before_the_second_of_any(store: StorageManager, waits: bool) -> None:
    many = sending(store, "a", 30, waits=waits, due=NOW - 1000)
    few = sending(store, "b", 2, waits=waits, due=NOW - 1)
    (own,) = sending(store, "", 1, waits=waits)
    assert set(due_to_send(store, limit=3)) == {own, many[0], few[0]}
    assert due_to_send(store, after="a", limit=5) == [few[0], own, many[0], few[1], many[1]]
    assert due_to_send(store) == [many[0], few[0], own, many[1], few[1], *many[2:]]
    assert store.due_rms(NOW, 3) == due_to_send(store, limit=3)


@pytest.mark.parametrize("waits", [True, False], ids=["rows", "times"])
def test_more_owners_than_one_query_returns_are_served_in_turn(store: StorageManager, waits: bool) -> None:
    keys = {name: sending(store, name, 3, waits=waits, due=NOW - 100)[0] for name in "abcdef"}
    assert due_to_send(store, after="", limit=2) == [keys["a"], keys["b"]]
    assert due_to_send(store, after="b", limit=2) == [keys["c"], keys["d"]]
    assert due_to_send(store, after="e", limit=2) == [keys["f"], keys["a"]]


def test_keys_that_another_process_works_on_are_skipped(store: StorageManager) -> None:
    many = sending(store, "a", 8, waits=False, due=NOW - 100)
    (other,) = sending(store, "b", 1, waits=False)
    for key in many[:6]:
        assert store.claim(f"rms {key.digest}", "another", NOW, 60.0) is not None
    assert due_to_send(store, limit=2) == [many[6], other]
