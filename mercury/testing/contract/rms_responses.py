"""Requests that wait for a response, responses, and rows that are moved to a successor, taken or discarded."""

from __future__ import annotations

from itertools import permutations

import pytest

from mercury.storage.api import StorageManager
from mercury.storage.records import OutboundKind, SequenceKey
from mercury.testing.contract.builders import EVERYTHING, FETCHING, KEY, LISTENING, NOW, rms_record, row
from mercury.testing.contract.outbox import Outbox, ids, number_in, single

#: A limit in bytes that no test reaches.
ANY = 1_000_000


# --- requests that wait for a response -------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [LISTENING, FETCHING], ids=["listening", "fetching"])
@pytest.mark.parametrize("steps", list(permutations(["acknowledged", "answered", "consumed"])), ids="-".join)
def test_a_request_goes_once_it_is_acknowledged_and_its_response_consumed(
    store: StorageManager, on: object, steps: tuple[str, ...]
) -> None:
    outbox = Outbox(store, rms_record(on=on))  # type: ignore[arg-type]
    outbox.send("request", expects_response=True)
    happened = set()
    for step in steps:
        if step == "acknowledged":
            outbox.acknowledge(1)
        elif step == "answered":
            outbox.answered("request")
        else:
            outbox.consumed("request")
        outbox.release()
        happened.add(step)
        gone = happened >= {"acknowledged", "consumed"}
        assert outbox.here("request") == ([] if gone else ["request"])
        assert outbox.backlog == (0 if gone else 1)


@pytest.mark.parametrize(
    ("on", "expects", "answered", "needed"),
    [
        (LISTENING, False, False, False),
        (LISTENING, True, False, False),
        (FETCHING, False, False, False),
        (FETCHING, True, False, True),
        (FETCHING, True, True, False),
    ],
)
def test_an_acknowledged_request_is_repeated_only_to_fetch_its_response(
    store: StorageManager, on: object, expects: bool, answered: bool, needed: bool
) -> None:
    """HTTP-05: for a client without an address, the response comes on the connection of the request."""
    outbox = Outbox(store, rms_record(on=on))  # type: ignore[arg-type]
    outbox.send("request", expects_response=expects)
    if answered:
        outbox.answered("request")
    assert outbox.unsettled() == ["request"]
    outbox.acknowledge(1)
    assert outbox.unsettled() == (["request"] if needed else [])


def test_changed_copy_of_an_exchange_knows_the_original_request(outbox: Outbox) -> None:
    """A response that arrives several times is counted once."""
    outbox.send("request", expects_response=True, correlation="order:17")
    first, again = outbox.answered("request"), outbox.answered("request")
    assert first is not None
    assert again is not None
    assert (first.answered, again.answered) == (False, True)
    assert (first.sequence_id, first.number, first.correlation) == ("rms-1", 1, "order:17")
    assert outbox.answered("another") is None


def test_answering_twice_in_one_transaction_is_noticed(outbox: Outbox) -> None:
    outbox.send("request", expects_response=True)
    with outbox.store.transaction() as tx:
        tx.rms.lock([KEY])
        first, again = tx.rms.answered("request"), tx.rms.answered("request")
    assert first is not None
    assert again is not None
    assert (first.answered, again.answered) == (False, True)


def test_a_request_may_be_answered_before_it_has_a_number(outbox: Outbox) -> None:
    """The request was moved to a successor while its response was in transit."""
    outbox.send("request", expects_response=True)
    outbox.unnumber(1)
    assert outbox.answered("request") is not None
    outbox.consumed("request")
    assert outbox.waiting() == ["request"]


def test_consuming_a_deleted_request_does_nothing(outbox: Outbox) -> None:
    outbox.consumed("unknown")
    outbox.send("request", expects_response=True)
    outbox.acknowledge(1)
    outbox.consumed("request")
    outbox.consumed("request")
    assert outbox.backlog == 0


def test_taken_requests_are_no_longer_answered(outbox: Outbox) -> None:
    outbox.send("request", expects_response=True)
    with outbox.store.transaction() as tx:
        tx.rms.lock([KEY])
        tx.rms.take(outbox.record, EVERYTHING)
        assert tx.rms.answered("request") is None
        tx.rms.consumed("request")
    assert outbox.here("request") == []


@pytest.mark.parametrize("on", [LISTENING, FETCHING], ids=["listening", "fetching"])
def test_the_requests_without_a_response_are_known(store: StorageManager, on: object) -> None:
    outbox = Outbox(store, rms_record(on=on))  # type: ignore[arg-type]
    outbox.send("first", "answered", "acknowledged", expects_response=True)
    outbox.send("one-way")
    outbox.append("later", expects_response=True)
    outbox.acknowledge(2, 3)
    outbox.answered("answered")

    def unanswered() -> list[tuple[str, int | None]]:
        return [(each.message_id, each.number) for each in outbox.locked(lambda tx: tx.rms.unanswered(outbox.record))]

    assert unanswered() == [("first", 1), ("acknowledged", 3)]
    outbox.locked(lambda tx: tx.rms.discard(tx.rms.unanswered(outbox.record)))
    assert unanswered() == []
    assert outbox.here("first", "answered", "acknowledged", "one-way", "later") == ["answered", "one-way", "later"]


# --- responses to a peer's requests ----------------------------------------------------------------------------------


def test_a_response_can_be_fetched_while_it_has_a_number_and_no_acknowledgement(
    outbox: Outbox, store: StorageManager
) -> None:
    def fetched() -> str | None:
        with store.transaction() as tx:
            found = tx.rms.responses_to(["request", "another request"], ANY)
            return found[0].message_id if found else None

    assert fetched() is None
    outbox.append("response", request="request")
    outbox.append("unrelated", request="another")
    assert fetched() is None
    outbox.number()
    assert fetched() == "response"
    outbox.unnumber(1)
    assert fetched() is None
    outbox.number()
    assert fetched() == "response"
    outbox.acknowledge(3)
    assert fetched() is None


@pytest.mark.parametrize("first", [1, 2])
def test_of_two_responses_to_one_request_the_one_that_is_not_acknowledged_is_fetched(
    outbox: Outbox, store: StorageManager, first: int
) -> None:
    """With AtLeastOnce, a handler that ran twice has made two responses."""
    outbox.append("first", request="request")
    outbox.append("second", request="request")
    outbox.number()
    outbox.acknowledge(first)
    for _ in range(2):
        with store.transaction() as tx:
            (found,) = tx.rms.responses_to(["request"], ANY)
        assert found.number == 3 - first
        outbox.release()
    outbox.acknowledge(3 - first)
    with store.transaction() as tx:
        assert tx.rms.responses_to(["request"], ANY) == []


def test_rows_read_for_a_request_do_not_depend_on_others_with_its_message_id(
    outbox: Outbox, store: StorageManager
) -> None:
    """A peer chooses the MessageIDs, and may use one MessageID for all its requests."""
    for number in range(1, 51):
        outbox.append(f"response {number}", relates_to="urn:same", request=f"{number} urn:s", payload=b"<x/>" * 250)
    outbox.number()
    with store.transaction() as tx:
        (found,) = tx.rms.responses_to(["17 urn:s"], ANY)
        assert (found.message_id, found.relates_to, found.request) == ("response 17", "urn:same", "17 urn:s")
        assert len(found.payload) == 1000
        assert ids(tx.rms.responses_to(["50 urn:s", "2 urn:s", "51 urn:s", "2 urn:t"], ANY)) == [
            "response 2",
            "response 50",
        ]
        assert tx.rms.responses_to(["urn:same"], ANY) == []


def test_responses_are_read_up_to_so_many_bytes_the_smallest_first_and_one_at_least(
    outbox: Outbox, store: StorageManager
) -> None:
    sizes = {"large": 4000, "small": 1000, "medium": 2000}
    for name, size in sizes.items():
        outbox.append(name, request=f"to {name}", payload=b"x" * size)
    outbox.number()
    requests = [f"to {name}" for name in sizes]

    def read(most_bytes: int) -> list[str]:
        with store.transaction() as tx:
            found = tx.rms.responses_to(requests, most_bytes)
        assert ids(found) == list(sizes), "the rows above the limit are returned without their bodies"
        for each in found:
            assert (len(each.payload), each.damaged) == (0 if each.unread else sizes[each.message_id], False)
        return [each.message_id for each in found if not each.unread]

    assert read(7000) == ["large", "small", "medium"]
    assert read(6999) == ["small", "medium"]
    assert read(2999) == ["small"]
    assert read(1) == ["small"]


# --- moved, taken, discarded -----------------------------------------------------------------------------------------


def test_rows_that_lose_their_number_wait_before_all_that_came_later(outbox: Outbox, store: StorageManager) -> None:
    outbox.send("a", "b", "c")
    outbox.append("d")
    outbox.acknowledge(2)
    moved = outbox.unnumber(3, 1)
    assert sorted(ids(moved)) == ["a", "c"]
    outbox.append("e")
    assert outbox.waiting() == ["a", "c", "d", "e"]
    assert outbox.waiting(2) == ["a", "c"]
    assert outbox.unsettled() == []
    assert all(each.number is None and each.sequence_id is None and each.attempts == 0 for each in moved)
    successor = Outbox(store, rms_record("successor"))
    assert [(each.message_id, each.number) for each in successor.number()] == [("a", 1), ("c", 2), ("d", 3), ("e", 4)]


def test_a_row_that_was_in_doubt_when_it_lost_its_number_stays_so(outbox: Outbox) -> None:
    outbox.send("a", "b")
    outbox.locked(lambda tx: tx.rms.unnumber(outbox.record, ((1, 2),), ((1, 1),)))
    outbox.number()
    outbox.unnumber(3, 4)
    rows = outbox.locked(lambda tx: tx.rms.unnumbered(outbox.key, 10))
    assert [(each.message_id, each.in_doubt) for each in rows] == [("a", True), ("b", False)]


def test_a_row_that_lost_its_number_is_sent_as_if_for_the_first_time(outbox: Outbox) -> None:
    outbox.send("a", expects_response=True)
    with outbox.store.transaction() as tx:
        tx.rms.lock([KEY])
        rows = tx.rms.unsettled(outbox.record, 1)
        rows[0].attempts = 5
        tx.rms.transmitted(rows)
    outbox.acknowledge(1)
    outbox.unnumber(1)
    outbox.number()
    again = outbox.row("a")
    assert again is not None
    assert (again.number, again.attempts, again.acknowledged) == (2, 0, False)
    assert outbox.unsettled() == ["a"]


def test_taken_rows_are_returned_and_deleted(outbox: Outbox) -> None:
    outbox.send("a", "b", "c", "d")
    outbox.acknowledge(4)
    taken = outbox.take(((2, 2), (4, 100)))
    assert [(each.message_id, each.number, each.acknowledged) for each in taken] == [("b", 2, False), ("d", 4, True)]
    assert outbox.here("a", "b", "c", "d") == ["a", "c"]
    assert outbox.take(()) == []
    assert ids(outbox.take()) == ["a", "c"]
    assert outbox.backlog == 0


def test_rows_without_a_number_are_not_taken_with_a_sequence(outbox: Outbox) -> None:
    outbox.send("a")
    outbox.append("b")
    assert ids(outbox.take()) == ["a"]
    assert outbox.waiting() == ["b"]


def test_waiting_rows_can_be_discarded(outbox: Outbox) -> None:
    outbox.append("a", "b", "c")
    rows = outbox.locked(lambda tx: tx.rms.unnumbered(KEY, 2))
    outbox.locked(lambda tx: tx.rms.discard(rows))
    outbox.locked(lambda tx: tx.rms.discard([]))
    assert outbox.waiting() == ["c"]


def test_the_backlog_counts_what_waits_and_what_was_numbered(outbox: Outbox) -> None:
    assert outbox.backlog == 0
    outbox.append("a", "b", "c")
    assert outbox.backlog == 3
    outbox.number(2)
    assert outbox.backlog == 3
    outbox.acknowledge(1)
    assert outbox.backlog == 3
    outbox.release()
    assert outbox.backlog == 2


def test_a_sequence_that_was_forgotten_leaves_the_rows_that_wait(outbox: Outbox) -> None:
    outbox.send("a")
    outbox.append("b")
    with outbox.store.transaction() as tx:
        tx.rms.lock([KEY])
        tx.rms.take(outbox.record, EVERYTHING)
        tx.rms.delete(outbox.record)
    assert outbox.here("a", "b") == ["b"]
    assert outbox.waiting() == ["b"]
    assert outbox.store.due_rms(NOW, 10) == [KEY]


def test_one_transaction_makes_the_sequence_numbers_rows_and_sets_the_due_time(store: StorageManager) -> None:
    """For a new key the worker creates the sequence, numbers the rows and sets the due time in one commit."""
    with store.transaction() as tx:
        tx.rms.append(row("a"))
        tx.rms.append(row("b"))
    record = rms_record("new")
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        tx.rms.insert(record)
        rows = tx.rms.unnumbered(KEY, 10)
        for number, each in enumerate(rows, 1):
            each.sequence_id, each.number, each.due = record.id, number, NOW
        tx.rms.number(record, rows)
        assert ids(tx.rms.unsettled(record, 10)) == ["a", "b"]
        record.due = NOW + 1
        tx.rms.save(record)
    assert store.due_rms(NOW, 10) == []
    assert store.due_rms(NOW + 1, 10) == [KEY]
    with store.transaction() as tx:
        tx.rms.lock([KEY])
        assert ids(tx.rms.unsettled(record, 10)) == ["a", "b"]
        tx.rms.acknowledge(record, single([1, 2]))
        tx.rms.release(record, EVERYTHING)
        tx.rms.delete(record)
    with store.transaction() as tx:
        assert (tx.rms.backlog(KEY), tx.rms.peek(KEY)) == (0, [])


def test_numbering_takes_up_where_it_stopped(outbox: Outbox) -> None:
    outbox.append("a", "b", "c", "d", "e")
    with outbox.store.transaction() as tx:
        tx.rms.lock([KEY])
        assert ids(number_in(tx, outbox, 2)) == ["a", "b"]
        assert ids(number_in(tx, outbox, 2)) == ["c", "d"]
    assert outbox.waiting() == ["e"]
    assert outbox.unsettled() == ["a", "b", "c", "d"]


# --- the oldest message ----------------------------------------------------------------------------------------------


def test_the_oldest_unacknowledged_message_is_known_and_ends_do_not_count(
    outbox: Outbox, store: StorageManager
) -> None:
    def oldest() -> float | None:
        with store.transaction() as tx:
            return tx.rms.oldest_unacknowledged()

    assert oldest() is None
    outbox.append("end", kind=OutboundKind.END, action="", payload=b"", created_at=NOW - 9)
    assert oldest() is None
    outbox.locked(lambda tx: tx.rms.discard(tx.rms.unnumbered(KEY, 10)))
    outbox.append("kept", created_at=NOW - 9, relates_to="urn:request", answered=True)
    assert oldest() is None, "a response that is stored to be fetched again does not count"
    outbox.locked(lambda tx: tx.rms.discard(tx.rms.unnumbered(KEY, 10)))
    outbox.append("a", created_at=NOW - 5, expects_response=True)
    outbox.append("b", created_at=NOW - 3)
    assert oldest() == NOW - 5
    outbox.number(2)
    outbox.acknowledge(1)
    assert oldest() == NOW - 3, "a request that is acknowledged and not answered does not count"


# --- bytes of responses ----------------------------------------------------------------------------------------------


def test_bytes_of_responses_are_summed_until_they_are_acknowledged(outbox: Outbox, store: StorageManager) -> None:
    def taken(owner: str = "192.0.2.1", *keys: SequenceKey) -> tuple[int, int, int]:
        with store.transaction() as tx:
            return tx.rms.response_bytes_of(owner, keys), tx.rms.response_bytes(owner), tx.rms.response_bytes()

    assert taken() == (0, 0, 0)
    outbox.send("request", payload=b"x" * 500)
    for message_id, owner in (("a", "192.0.2.1"), ("b", "192.0.2.1"), ("c", "192.0.2.2")):
        outbox.append(message_id, owner=owner, payload=b"x" * 1000)
    with store.transaction() as tx:
        tx.rms.append(row("d", LISTENING, owner="192.0.2.1", payload=b"x" * 1000))
    one, other = row("a", payload=b"x" * 1000).size, row("d", LISTENING, payload=b"x" * 1000).size
    assert 1000 < one < 2000
    assert taken() == (0, 2 * one + other, 3 * one + other)
    outbox.number()
    assert taken("192.0.2.2", outbox.key) == (one, one, 3 * one + other)
    assert taken("192.0.2.1", outbox.key) == (2 * one, 2 * one + other, 3 * one + other)
    assert taken("192.0.2.3", outbox.key, LISTENING.key) == (0, 0, 3 * one + other)
    assert taken("192.0.2.1", outbox.key, LISTENING.key) == (2 * one + other, 2 * one + other, 3 * one + other)
    outbox.acknowledge(2)
    assert taken("192.0.2.1", outbox.key) == (one, one + other, 2 * one + other)
    outbox.unnumber(2)
    assert taken("192.0.2.1", outbox.key) == (2 * one, 2 * one + other, 3 * one + other)
    outbox.take(((3, 4),))
    assert taken("192.0.2.1", outbox.key) == (one, one + other, one + other)
