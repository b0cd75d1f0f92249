"""Gauges: what waits in a store, and for how long, read from a limited number of rows."""

from __future__ import annotations

from mercury.statemachine.ranges import RangeSet
from mercury.storage.api import StorageManager
from mercury.storage.gauges import READER, Waits
from mercury.storage.letters import Direction
from mercury.storage.records import InboundKind, RmdRecord
from mercury.testing.contract.builders import (
    KEY,
    LISTENING,
    NOW,
    buffer,
    inbound,
    letter,
    marker,
    rmd_record,
    rms_record,
)
from mercury.testing.contract.outbox import Outbox, single

ENDPOINT = KEY.endpoint


def test_gauges_of_an_empty_store_are_zero(store: StorageManager) -> None:
    found = store.gauges(NOW)
    assert not found.waiting
    assert not any(found.uncounted.values())
    assert (found.oldest_unacknowledged, found.oldest_undelivered, found.oldest_decision) == (None, None, None)
    assert (found.open_sources, found.open_destinations, found.gaps, found.letters_uncounted) == (0, 0, 0, 0)
    assert (dict(found.dead_letters), found.decisions, found.claims) == ({}, 0, ())


def test_outbound_messages_count_by_what_they_wait_for(store: StorageManager) -> None:
    outbox = Outbox(store, rms_record("listening", LISTENING))
    rows = outbox.send("acknowledged", "request", "sent", "numbered", created_at=NOW, expects_response=True)
    outbox.append("new", "newer", created_at=NOW + 1)
    for row in rows[:3]:
        row.attempts = 1
    outbox.locked(lambda tx: tx.rms.transmitted(rows[:3]))
    outbox.acknowledge(1, 2)
    outbox.locked(lambda tx: tx.rms.answered("acknowledged"))
    found = store.gauges(NOW)
    assert dict(found.waiting) == {
        (Waits.RESPONSE, ENDPOINT): 1,
        (Waits.ACKNOWLEDGEMENT, ENDPOINT): 1,
        (Waits.TRANSMISSION, ENDPOINT): 3,
    }
    assert found.oldest_unacknowledged == NOW


def test_the_oldest_unacknowledged_message_is_no_acknowledged_one(store: StorageManager) -> None:
    outbox = Outbox(store, rms_record("listening", LISTENING))
    outbox.send("a", created_at=NOW, expects_response=True)
    outbox.send("b", created_at=NOW + 5)
    outbox.acknowledge(1)
    assert store.gauges(NOW).oldest_unacknowledged == NOW + 5


def test_a_message_that_waits_for_its_time_counts_and_is_not_the_oldest_unacknowledged(store: StorageManager) -> None:
    outbox = Outbox(store)
    outbox.append("scheduled", created_at=NOW - 900, not_before=NOW + 60)
    found = store.gauges(NOW)
    assert (found.waiting[Waits.TRANSMISSION, ENDPOINT], found.oldest_unacknowledged) == (1, None)
    outbox.append("other", created_at=NOW - 5)
    found = store.gauges(NOW)
    assert (found.waiting[Waits.TRANSMISSION, ENDPOINT], found.oldest_unacknowledged) == (2, NOW - 5)


def test_received_messages_count_by_service(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(buffer("urn:rmd:1", service="orders"), buffer("urn:rmd:2"))
        tx.invoker.add([inbound(1, received_at=NOW + 2), inbound(2, received_at=NOW + 3)])
        tx.invoker.add([inbound(1, "urn:rmd:2", received_at=NOW + 1), marker(InboundKind.END, 2)])
    found = store.gauges(NOW)
    assert dict(found.waiting) == {(Waits.DELIVERY, "orders"): 2, (Waits.DELIVERY, ""): 1}
    assert found.oldest_undelivered == NOW + 1


def test_rows_above_the_limit_are_not_read(store: StorageManager) -> None:
    outbox = Outbox(store)
    outbox.append(*(f"row {number}" for number in range(5)))
    with store.transaction() as tx:
        tx.invoker.insert(buffer("urn:rmd:1", service="orders"))
        tx.invoker.add([inbound(number) for number in range(1, 5)])
        tx.dead_letters.add([letter(f"letter {number}") for number in range(6)])
    found = store.gauges(NOW, 3)
    assert dict(found.waiting) == {(Waits.TRANSMISSION, ENDPOINT): 3, (Waits.DELIVERY, "orders"): 3}
    assert dict(found.uncounted) == {Direction.OUTBOUND: 2, Direction.INBOUND: 1}
    assert dict(found.dead_letters) == {(Direction.OUTBOUND, "given up"): 3}
    assert found.letters_uncounted == 3


def test_the_newest_dead_letters_count_by_reason(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add([letter("old"), letter("a"), letter("b")])
    found = store.gauges(NOW, 2)
    assert dict(found.dead_letters) == {(Direction.OUTBOUND, "given up"): 2}
    assert found.letters_uncounted == 1


def test_open_sequences_and_those_with_a_gap_are_counted(store: StorageManager) -> None:
    Outbox(store)
    ended = Outbox(store, rms_record("ended", LISTENING, ended_at=NOW))
    assert ended.record.ended_at == NOW
    with store.transaction() as tx:
        tx.rmd.insert(
            _received("unused"),
            _received("one", (1, 1)),
            _received("whole", (1, 12)),
            _received("late", (2, 3)),
            _received("gap", (1, 3), (5, 5)),
            _received("beginning", (10, 11)),
            _received("ended", (2, 2), ended_at=NOW),
        )
    found = store.gauges(NOW)
    assert (found.open_sources, found.open_destinations, found.gaps) == (1, 6, 3)


def _received(identifier: str, *ranges: tuple[int, int], ended_at: float | None = None) -> RmdRecord:
    record = rmd_record(identifier, ended_at=ended_at)
    record.machine.received = RangeSet(ranges)
    return record


def test_claims_that_are_held_are_counted_for_each_owner(store: StorageManager) -> None:
    for resource, owner, lease in (("a", "one", 10), ("b", "two", 10), ("c", "two", 10), ("d", "three", 1)):
        assert store.claim(resource, owner, NOW, lease)
    assert store.claim(READER, "four", NOW, 10)
    released = store.claim("e", "one", NOW, 10)
    assert released is not None
    store.release(released)
    assert store.gauges(NOW + 5).claims == (2, 1)
    assert store.gauges(NOW + 11).claims == ()


def test_settled_messages_do_not_wait(store: StorageManager) -> None:
    outbox = Outbox(store)
    outbox.send("a", "b")
    outbox.acknowledge(1, 2)
    outbox.locked(lambda tx: tx.rms.release(outbox.record, single((1, 2))))
    assert not store.gauges(NOW).waiting
