"""Destination sequences."""

from __future__ import annotations

from typing import Any

from mercury.errors import Conflict
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.tables import InvokerState, RmdState
from mercury.storage.api import StorageManager, Topic
from mercury.storage.claims import WorkFilter
from mercury.storage.records import InboundKind, RmdRecord
from mercury.testing.contract.builders import NOW, buffer, made_from, marker, rmd_record
from mercury.testing.contract.ending import ending


def insert(store: StorageManager, *records: RmdRecord) -> None:
    with store.transaction() as tx:
        for record in records:
            tx.rmd.insert(record)


def open_count(store: StorageManager) -> int:
    with store.transaction() as tx:
        return tx.rmd.open_count()


# --- created once ----------------------------------------------------------------------------------------------------


def test_a_sequence_is_found_by_the_request_that_made_it(store: StorageManager) -> None:
    """RM-CS-13: the key has everything that distinguishes two clients, as two peers may use the same MessageID."""
    others: tuple[dict[str, Any], ...] = (
        {"acks_to": EndpointReference("http://other.example/acks")},
        {"service": "another"},
        {"offered": "urn:offered"},
        {"peer": "192.0.2.8"},
        {"identity": "CN=other"},
    )
    insert(store, rmd_record("urn:a", create_message_id="create"))
    for number, different in enumerate(others):
        insert(store, rmd_record(f"urn:{number}", create_message_id="create", **different))
    with store.transaction() as tx:
        assert tx.rmd.find_created(key := made_from("create")) == {key: "urn:a"}
        for number, different in enumerate(others):
            assert tx.rmd.find_created(key := made_from("create", **different)) == {key: f"urn:{number}"}
        assert tx.rmd.find_created(made_from("create", peer="192.0.2.9")) == {}
        assert tx.rmd.find_created(made_from("another")) == {}


def test_one_request_makes_one_sequence(store: StorageManager) -> None:
    insert(store, rmd_record("urn:a", create_message_id="create"))
    with ending(store.transaction(), Conflict) as tx:
        tx.rmd.insert(rmd_record("urn:other", create_message_id="another"))
        tx.rmd.insert(rmd_record("urn:b", create_message_id="create"))
    with store.transaction() as tx:
        assert [record.identifier for record in tx.rmd.all()] == ["urn:a"]


def test_sequences_that_no_request_made_are_no_repetitions_of_each_other(store: StorageManager) -> None:
    """The sequences that this side offered were not made by a CreateSequence."""
    insert(store, rmd_record("urn:a"), rmd_record("urn:b"))
    assert open_count(store) == 2


def test_a_request_may_make_a_sequence_again_when_the_first_is_forgotten(store: StorageManager) -> None:
    insert(store, rmd_record("urn:a", create_message_id="create"))
    with store.transaction() as tx:
        tx.rmd.lock(["urn:a"])
        tx.rmd.delete("urn:a")
    with store.transaction() as tx:
        assert tx.rmd.find_created(made_from("create")) == {}
    insert(store, rmd_record("urn:b", create_message_id="create"))
    with store.transaction() as tx:
        assert tx.rmd.find_created(key := made_from("create")) == {key: "urn:b"}


def test_a_sequence_that_was_made_in_a_savepoint_that_failed_is_not_found(store: StorageManager) -> None:
    with store.transaction() as tx:
        with ending(tx.savepoint(), ZeroDivisionError):
            tx.rmd.insert(rmd_record("urn:a", create_message_id="create"))
            raise ZeroDivisionError
        assert tx.rmd.find_created(made_from("create")) == {}
        assert tx.rmd.read("urn:a") is None
        tx.rmd.insert(rmd_record("urn:b", create_message_id="create"))
    with store.transaction() as tx:
        assert [record.identifier for record in tx.rmd.all()] == ["urn:b"]


# --- changed and deleted ---------------------------------------------------------------------------------------------


def test_a_saved_sequence_is_changed(store: StorageManager) -> None:
    insert(store, rmd_record())
    with store.transaction() as tx:
        record = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
        record.machine.received.add(1, 10)
        record.machine.received.discard(5)
        record.due = NOW
        tx.rmd.save(record)
    with store.transaction() as tx:
        assert tx.rmd.read("urn:rmd:1") == record
        assert tx.rmd.find_created("") == {}


def test_a_deleted_sequence_is_gone(store: StorageManager) -> None:
    insert(store, rmd_record("urn:a", due=NOW), rmd_record("urn:b", due=NOW))
    with store.transaction() as tx:
        tx.rmd.lock(["urn:a"])
        tx.rmd.delete("urn:a")
        assert tx.rmd.lock(["urn:a"]) == {}
    with store.transaction() as tx:
        assert tx.rmd.read("urn:a") is None
        assert tx.rmd.lock(["urn:a", "urn:b"]).keys() == {"urn:b"}
        assert tx.rmd.open_count() == 1
    assert store.due_rmd(NOW, 10) == ["urn:b"]


def test_unknown_message_is_not_found(store: StorageManager) -> None:
    with store.transaction() as tx:
        assert tx.rmd.read("urn:unknown") is None
        assert tx.rmd.lock(["urn:unknown"]) == {}
        assert tx.rmd.all() == []


def test_tombstones_are_not_counted_as_open(store: StorageManager) -> None:
    insert(store, rmd_record("urn:a"), rmd_record("urn:b"), rmd_record("urn:c", ended_at=NOW))
    assert open_count(store) == 2
    with store.transaction() as tx:
        record = tx.rmd.lock(["urn:a"])["urn:a"]
        record.machine.ended_at = NOW
        tx.rmd.save(record)
    assert open_count(store) == 1
    with store.transaction() as tx:
        for identifier in tx.rmd.lock(["urn:a", "urn:b"]):
            tx.rmd.delete(identifier)
    assert open_count(store) == 0


# --- due -------------------------------------------------------------------------------------------------------------


def test_the_longest_due_come_first(store: StorageManager) -> None:
    times = {"urn:a": NOW - 1, "urn:b": NOW - 10, "urn:c": NOW, "urn:d": NOW + 1, "urn:e": None, "urn:f": NOW - 5}
    insert(store, *(rmd_record(identifier, due=due) for identifier, due in times.items()))
    assert store.due_rmd(NOW, 10) == ["urn:b", "urn:f", "urn:a", "urn:c"]
    assert store.due_rmd(NOW, 2) == ["urn:b", "urn:f"]
    assert store.due_rmd(NOW + 1, 10)[-1] == "urn:d"
    assert store.next_due(Topic.RMD) == NOW - 10


def test_sequences_of_services_that_another_process_hosts_are_not_due(store: StorageManager) -> None:
    services = {"urn:a": "orders", "urn:b": "bills", "urn:c": None}
    due = dict(zip(services, (NOW - 3, NOW - 2, NOW - 1), strict=True))
    insert(store, *(rmd_record(name, service=service, due=due[name]) for name, service in services.items()))
    for hosted, found in (({"orders"}, ["urn:a", "urn:c"]), ({"bills"}, ["urn:b", "urn:c"]), (set(), ["urn:c"])):
        mine = WorkFilter("me", frozenset(hosted))
        assert store.due_rmd(NOW, 10, mine) == found
        assert store.due_rmd(NOW, 1, mine) == found[:1], "the others take no place"
        assert store.next_due(Topic.RMD, mine) == due[found[0]]
    assert store.due_rmd(NOW, 10, WorkFilter("me")) == list(services)


def test_postponed_rows_are_not_due(store: StorageManager) -> None:
    assert store.next_due(Topic.RMD) is None
    insert(store, rmd_record(due=NOW))
    for due in (NOW + 5, None):
        with store.transaction() as tx:
            record = tx.rmd.lock(["urn:rmd:1"])["urn:rmd:1"]
            record.due = due
            tx.rmd.save(record)
        assert store.due_rmd(NOW, 10) == []
        assert store.next_due(Topic.RMD) == due


def test_the_kinds_of_work_have_times_of_their_own(store: StorageManager) -> None:
    insert(store, rmd_record(due=NOW))
    assert (store.next_due(Topic.RMS), store.next_due(Topic.INVOKER)) == (None, None)


# --- owners -----------------------------------------------------------------------------------------------------------


def test_open_sequences_are_counted_for_one_owner(store: StorageManager) -> None:
    insert(store, rmd_record("urn:a", peer="192.0.2.1"), rmd_record("urn:b", peer="192.0.2.1", ended_at=NOW))
    insert(store, rmd_record("urn:c", peer="192.0.2.1", identity="CN=client"), rmd_record("urn:d", peer="192.0.2.2"))
    with store.transaction() as tx:
        assert [tx.rmd.open_count(owner) for owner in ("192.0.2.1", "CN=client", "192.0.2.3")] == [1, 1, 0]
        record = tx.rmd.lock(["urn:a"])["urn:a"]
        record.machine.ended_at = NOW
        tx.rmd.save(record)
    with store.transaction() as tx:
        assert tx.rmd.open_count("192.0.2.1") == 0
        assert tx.rmd.open_count() == 2


def test_idle_sequences_are_found_the_oldest_first(store: StorageManager) -> None:
    for number, heard in enumerate((NOW - 10, NOW - 30, NOW - 20, NOW)):
        record = rmd_record(f"urn:{number}", create_message_id=f"create {number}", peer=f"192.0.2.{number % 2}")
        record.machine.last_heard = heard
        insert(store, record)
    ended = rmd_record("urn:ended", create_message_id="create ended", ended_at=NOW)
    offered = rmd_record("urn:offered")
    for record in (ended, offered):
        record.machine.last_heard = NOW - 100
        insert(store, record)
    with store.transaction() as tx:
        assert tx.rmd.idle(NOW - 5, 10) == ["urn:1", "urn:2", "urn:0"]
        assert tx.rmd.idle(NOW - 5, 2) == ["urn:1", "urn:2"]
        assert tx.rmd.idle(NOW - 5, 10, "192.0.2.0") == ["urn:2", "urn:0"]


# --- bytes that wait for the application ------------------------------------------------------------------------------


def insert_with_bytes(store: StorageManager, *waiting: tuple[str, str, int]) -> None:
    """Insert sequences.

    :param waiting: the identifier, the address of the peer, and the bytes that wait for the application, of each.
    """
    for identifier, peer, size in waiting:
        record = rmd_record(identifier, create_message_id=f"create {identifier}", peer=peer, received_bytes=1000 + size)
        insert(store, record)
        with store.transaction() as tx:
            tx.invoker.insert(buffer(identifier, consumed_bytes=1000))


def waiting_bytes(store: StorageManager, owner: str = "192.0.2.1") -> tuple[int, int]:
    with store.transaction() as tx:
        return tx.rmd.waiting_bytes(owner)


def test_bytes_that_wait_are_summed_for_one_owner_and_for_all(store: StorageManager) -> None:
    assert waiting_bytes(store) == (0, 0)
    insert_with_bytes(store, ("urn:a", "192.0.2.1", 2**40), ("urn:b", "192.0.2.1", 20), ("urn:c", "192.0.2.2", 300))
    assert waiting_bytes(store) == (2**40 + 20, 2**40 + 320)
    assert waiting_bytes(store, "192.0.2.2") == (300, 2**40 + 320)
    assert waiting_bytes(store, "192.0.2.3") == (0, 2**40 + 320)


def test_bytes_that_wait_behind_an_ended_sequence_count_and_those_of_a_forgotten_one_do_not(
    store: StorageManager,
) -> None:
    insert_with_bytes(store, ("urn:a", "192.0.2.1", 1), ("urn:b", "192.0.2.1", 20), ("urn:c", "192.0.2.1", 300))
    with store.transaction() as tx:
        records = tx.rmd.lock(["urn:a", "urn:b", "urn:c"])
        records["urn:a"].machine.ended_at = NOW
        tx.rmd.save(records["urn:a"])
        tx.invoker.delete("urn:b")
        tx.rmd.delete("urn:c")
    assert waiting_bytes(store) == (1, 1)


def test_bytes_wait_from_what_is_received_until_it_has_left_the_buffer_and_are_never_less_than_none(
    store: StorageManager,
) -> None:
    insert_with_bytes(store, ("urn:a", "192.0.2.1", 0), ("urn:b", "192.0.2.1", 5))
    with store.transaction() as tx:
        record = tx.rmd.lock(["urn:a"])["urn:a"]
        record.received_bytes += 70
        tx.rmd.save(record)
    assert waiting_bytes(store) == (75, 75)
    for left, waits in ((60, 15), (99, 5)):
        with store.transaction() as tx:
            kept = tx.invoker.read("urn:a")
            assert kept is not None
            kept.consumed_bytes = 1000 + left
            tx.invoker.save_delivered(kept, consumed=[])
        assert waiting_bytes(store) == (waits, waits)


def test_the_oldest_sequence_with_something_that_waits_is_found(store: StorageManager) -> None:
    def first(owner: str | None = None, heard_after: float = 0.0) -> str | None:
        with store.transaction() as tx:
            return tx.rmd.first_waiting(heard_after, owner)

    assert first() is None
    insert_with_bytes(store, ("urn:a", "192.0.2.1", 0), ("urn:c", "192.0.2.1", 20), ("urn:b", "192.0.2.2", 300))
    with store.transaction() as tx:
        for place, record in enumerate(tx.rmd.lock(["urn:a", "urn:b", "urn:c"]).values()):
            record.machine.last_heard = NOW + place
            tx.rmd.save(record)
    assert (first(), first("192.0.2.1"), first("192.0.2.2"), first("192.0.2.3")) == ("urn:b", "urn:c", "urn:b", None)
    assert (first(None, NOW + 2), first("192.0.2.2", NOW + 2)) == ("urn:c", None)


def test_idle_sequences_with_something_that_waits_are_found_the_oldest_first(store: StorageManager) -> None:
    insert_with_bytes(store, ("urn:a", "192.0.2.1", 0), ("urn:b", "192.0.2.1", 20), ("urn:c", "192.0.2.2", 300))
    with store.transaction() as tx:
        for ago, record in enumerate(tx.rmd.lock(["urn:a", "urn:b", "urn:c"]).values()):
            record.machine.last_heard = NOW - 10 - ago
            tx.rmd.save(record)
    with store.transaction() as tx:
        assert tx.rmd.idle(NOW - 5, 10, waiting=True) == ["urn:c", "urn:b"]
        assert tx.rmd.idle(NOW - 5, 1, waiting=True) == ["urn:c"]
        assert tx.rmd.idle(NOW - 5, 10, "192.0.2.1", waiting=True) == ["urn:b"]


def test_sequences_of_owners_with_many_are_found_those_of_the_one_with_most_first(store: StorageManager) -> None:
    """Sequences with messages for the application, ended ones, and those offered by this side do not count."""
    late = {"unused_before": NOW + 1, "heard_before": NOW + 1}
    made = (("few", 2, 0), ("most", 4, 50), ("many", 3, 0))
    for peer, count, ago in made:
        for number in range(count):
            record = rmd_record(f"urn:{peer}:{number}", create_message_id=f"create {peer} {number}", peer=peer)
            record.machine.last_heard = NOW - ago - number
            insert(store, record)
    insert(store, rmd_record("urn:ended", create_message_id="create ended", peer="few", ended_at=NOW))
    insert(store, rmd_record("urn:offered", peer="most"))
    insert_with_bytes(store, ("urn:holds", "most", 1), ("urn:holds nothing", "most", 0))
    with store.transaction() as tx:
        most = [("urn:most:3", 7), ("urn:most:2", 7), ("urn:most:1", 7), ("urn:most:0", 7), ("urn:holds nothing", 7)]
        many = [("urn:many:2", 3), ("urn:many:1", 3), ("urn:many:0", 3)]
        few = [("urn:few:1", 2), ("urn:few:0", 2)]
        assert tx.rmd.crowding(100, **late) == most + many + few
        assert tx.rmd.crowding(6, **late) == most + many[:1]


def test_sequences_that_were_never_used_are_found_first_and_of_each_kind_only_those_silent_for_long(
    store: StorageManager,
) -> None:
    a, b = [("a", True, ago) for ago in (9, 10, 11)], [("b", False, ago) for ago in (1, 2)]
    for owner, used, ago in [*a, *b, ("c", False, 3)]:
        record = rmd_record(f"urn:{owner}:{ago}", create_message_id=f"create {owner} {ago}", peer=owner)
        record.machine.last_heard = NOW - ago
        if used:
            record.machine.used, record.machine.state = True, RmdState.RECEIVING
        insert(store, record)
    with store.transaction() as tx:
        unused = [("urn:b:2", 2), ("urn:c:3", 1)]
        found = tx.rmd.crowding(10, unused_before=NOW - 1, heard_before=NOW - 9)
        assert found == [*unused, ("urn:a:11", 3), ("urn:a:10", 3)]
        assert tx.rmd.crowding(10, unused_before=NOW - 1, heard_before=NOW - 11) == unused
        assert tx.rmd.crowding(1, unused_before=NOW - 2, heard_before=NOW) == [("urn:c:3", 1)]


# --- ended sequences --------------------------------------------------------------------------------------------------


def insert_ended(store: StorageManager) -> None:
    """Insert ended sequences of peers at two addresses, one open sequence, and one that this side offered."""
    for number, at in enumerate((NOW - 10, NOW - 30, NOW - 20, NOW)):
        peer = f"192.0.2.{number % 2}"
        insert(store, rmd_record(f"urn:{number}", create_message_id=f"create {number}", peer=peer, ended_at=at))
    insert(store, rmd_record("urn:open", create_message_id="create open", peer="192.0.2.0"))
    insert(store, rmd_record("urn:offered", peer="192.0.2.0", ended_at=NOW - 100))


def test_ended_sequences_of_peers_are_counted_for_one_owner_and_since_a_time(store: StorageManager) -> None:
    insert_ended(store)
    with store.transaction() as tx:
        assert [tx.rmd.ended_count(owner) for owner in (None, "192.0.2.0", "192.0.2.1", "192.0.2.2")] == [4, 2, 2, 0]
        assert [tx.rmd.ended_count(None, since) for since in (NOW - 30, NOW - 20, NOW, NOW + 1)] == [4, 3, 1, 0]
        assert tx.rmd.ended_count("192.0.2.0", NOW - 10) == 1
        tx.rmd.lock(["urn:0", "urn:open"])
        tx.rmd.delete("urn:0")
    with store.transaction() as tx:
        assert [tx.rmd.ended_count(owner) for owner in (None, "192.0.2.0", "192.0.2.1")] == [3, 1, 2]
        record = tx.rmd.lock(["urn:open"])["urn:open"]
        record.machine.ended_at = NOW
        tx.rmd.save(record)
    with store.transaction() as tx:
        assert [tx.rmd.ended_count(owner) for owner in (None, "192.0.2.0", "192.0.2.1")] == [4, 2, 2]


def test_ended_sequences_are_found_the_oldest_first(store: StorageManager) -> None:
    insert_ended(store)
    with store.transaction() as tx:
        assert tx.rmd.ended(NOW, 10, "192.0.2.0") == ["urn:2", "urn:0"]
        assert tx.rmd.ended(NOW, 1, "192.0.2.0") == ["urn:2"]
        assert tx.rmd.ended(NOW + 1, 10, "192.0.2.1") == ["urn:1", "urn:3"]


def test_of_all_ended_sequences_those_of_the_owner_with_most_are_found_first(store: StorageManager) -> None:
    with store.transaction() as tx:
        assert tx.rmd.most_ended() == ("", 0)
    insert_ended(store)
    with store.transaction() as tx:
        assert tx.rmd.most_ended() == ("192.0.2.0", 2)
        assert tx.rmd.ended(NOW + 1, 10) == ["urn:2", "urn:0", "urn:1", "urn:3"]
    insert(store, rmd_record("urn:more", create_message_id="create more", peer="192.0.2.1", ended_at=NOW - 5))
    with store.transaction() as tx:
        assert tx.rmd.most_ended() == ("192.0.2.1", 3)
        assert tx.rmd.ended(NOW, 10) == ["urn:1", "urn:more", "urn:2", "urn:0"]
        assert tx.rmd.ended(NOW, 3) == ["urn:1", "urn:more", "urn:2"]


def test_ended_sequences_that_were_given_up_are_found_and_counted_apart(store: StorageManager) -> None:
    insert_ended(store)
    with store.transaction() as tx:
        for record in tx.rmd.lock(["urn:1", "urn:2"]).values():
            record.given_up = True
            tx.rmd.save(record)
    with store.transaction() as tx:
        assert tx.rmd.ended(NOW + 1, 10) == ["urn:0", "urn:3"]
        assert tx.rmd.ended(NOW + 1, 10, given_up=True) == ["urn:2", "urn:1"]
        assert tx.rmd.ended(NOW + 1, 10, "192.0.2.1", given_up=True) == ["urn:1"]
        assert [tx.rmd.ended_count(given_up=given_up) for given_up in (None, True, False)] == [4, 2, 2]
        assert tx.rmd.ended_count(None, NOW - 20, given_up=True) == 1
        assert tx.rmd.ended_count("192.0.2.0", NOW - 20, given_up=False) == 1


def test_of_ended_sequences_only_those_with_nothing_for_the_application_are_found(store: StorageManager) -> None:
    insert_ended(store)
    with store.transaction() as tx:
        for number in range(4):
            record = buffer(f"urn:{number}")
            record.machine.state = InvokerState.EMPTY if number == 2 else InvokerState.DONE
            record.machine.in_progress = RangeSet([(1, 1)] if number == 3 else [])
            tx.invoker.insert(record)
    with store.transaction() as tx:
        tx.invoker.add([marker(InboundKind.END, 1, "urn:1")])
    with store.transaction() as tx:
        assert tx.rmd.ended(NOW + 1, 10) == ["urn:0"]
