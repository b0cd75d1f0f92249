"""A buffer is due when it has deliverable work and its retry time has come."""

from __future__ import annotations

import pytest

from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import StorageManager, Topic
from mercury.storage.records import InboundKind, InvokerRecord
from mercury.testing.contract.builders import NOW, buffer, inbound, marker
from mercury.testing.contract.invoker import add, deliver, due, insert, read

ONE = "urn:rmd:1"
WHOLE = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
KEEP = IncompleteSequenceBehavior.NO_DISCARD


# --- due -------------------------------------------------------------------------------------------------------------


def test_an_empty_buffer_is_not_due(store: StorageManager) -> None:
    insert(store, buffer())
    assert due(store) == []
    assert store.next_due(Topic.INVOKER) is None


def test_in_order_the_next_message_is_waited_for(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, inbound(2), inbound(3))
    assert due(store) == []
    assert store.next_due(Topic.INVOKER) is None
    add(store, inbound(1))
    assert due(store) == [ONE]
    deliver(store, 1)
    assert due(store) == [ONE]
    deliver(store, 2, 3)
    assert due(store) == []
    add(store, inbound(4))
    assert due(store) == [ONE]


@pytest.mark.parametrize(
    "record",
    [
        buffer(in_order=False, behavior=KEEP),
        buffer(assurance=DeliveryAssurance.AT_MOST_ONCE, behavior=KEEP),
    ],
    ids=["without order", "at most once"],
)
def test_where_nothing_waits_for_a_gap_any_message_is_due(store: StorageManager, record: InvokerRecord) -> None:
    insert(store, record)
    add(store, inbound(7))
    assert due(store) == [ONE]
    deliver(store, 7)
    assert due(store) == []


@pytest.mark.parametrize("behavior", list(IncompleteSequenceBehavior), ids=lambda each: each.value)
def test_run_in_progress_is_due_despite_gaps(store: StorageManager, behavior: IncompleteSequenceBehavior) -> None:
    insert(store, buffer(assurance=DeliveryAssurance.AT_MOST_ONCE, behavior=behavior))
    add(store, inbound(1), inbound(2))
    with store.transaction() as tx:
        record = tx.invoker.read(ONE)
        assert record is not None
        record.machine.passed.add(1, 2)
        record.machine.in_progress.add(1, 2)
        tx.invoker.save_delivered(record, consumed=())
    assert due(store) == [ONE]
    with store.transaction() as tx:
        record = tx.invoker.read(ONE)
        assert record is not None
        assert record.machine.in_progress == RangeSet([(1, 2)])
        record.machine.in_progress = RangeSet()
        tx.invoker.save_delivered(record, consumed=(1, 2))
    assert due(store) == []


def test_without_order_a_gap_is_waited_for_where_it_may_discard_the_rest(store: StorageManager) -> None:
    insert(store, buffer(in_order=False))
    add(store, inbound(2))
    assert due(store) == []
    add(store, inbound(1))
    assert due(store) == [ONE]


def test_all_or_nothing_is_due_when_all_of_it_is_here(store: StorageManager) -> None:
    insert(store, buffer(behavior=WHOLE))
    add(store, inbound(1), inbound(3, last=True))
    assert due(store) == []
    assert store.next_due(Topic.INVOKER) is None
    add(store, inbound(2))
    assert due(store) == [ONE]


def test_all_or_nothing_is_due_when_its_end_is_known_later(store: StorageManager) -> None:
    insert(store, buffer(behavior=WHOLE))
    add(store, inbound(1), inbound(2))
    assert due(store) == []
    add(store, marker(InboundKind.END, 3))
    assert due(store) == [ONE]
    with store.transaction() as tx:
        record = tx.invoker.read(ONE)
        assert record is not None
        record.machine.last = 3
        tx.invoker.save_delivered(record, consumed=[], markers=tx.invoker.markers(ONE))
    assert due(store) == []
    add(store, inbound(3))
    assert due(store) == [ONE]


def test_a_marker_is_due_until_it_was_seen(store: StorageManager) -> None:
    insert(store, buffer())
    add(store, inbound(2), marker(InboundKind.CUT))
    assert due(store) == [ONE]
    deliver(store)
    assert due(store) == []


def test_failed_buffer_is_due_at_its_retry_time(store: StorageManager) -> None:
    insert(store, buffer(retry_at=NOW + 10))
    add(store, inbound(1), marker(InboundKind.END, 1))
    assert due(store, NOW + 9.5) == []
    assert store.next_due(Topic.INVOKER) == NOW + 10
    assert due(store, NOW + 10) == [ONE]
    record = read(store)
    record.retry_at = None
    with store.transaction() as tx:
        tx.invoker.save_delivered(record, consumed=[])
    assert due(store) == [ONE]
    earliest = store.next_due(Topic.INVOKER)
    assert earliest is not None
    assert earliest <= NOW


def test_empty_buffer_is_not_due_at_its_retry_time(store: StorageManager) -> None:
    """A retry time alone does not make a buffer due."""
    insert(store, buffer(retry_at=NOW))
    assert due(store, NOW + 100) == []
    assert store.next_due(Topic.INVOKER) is None


def test_a_successor_waits_until_everything_before_it_is_delivered(store: StorageManager) -> None:
    insert(store, buffer("urn:before"), buffer("urn:after", follows="urn:before"))
    add(store, inbound(1, "urn:after"))
    assert due(store) == []
    assert store.next_due(Topic.INVOKER) is None
    add(store, inbound(1, "urn:before"))
    assert due(store) == ["urn:before"]
    deliver(store, 1, sequence="urn:before")
    assert due(store) == []
    add(store, marker(InboundKind.END, 1, "urn:before"))
    assert due(store) == ["urn:before"]
    deliver(store, sequence="urn:before", state=InvokerState.DONE)
    assert due(store) == ["urn:after"]
    assert store.next_due(Topic.INVOKER) is not None


def test_a_successor_waits_for_the_last_marker_too(store: StorageManager) -> None:
    insert(store, buffer("urn:before"), buffer("urn:after", follows="urn:before"))
    add(store, inbound(1, "urn:after"))
    deliver(store, sequence="urn:before", state=InvokerState.DONE)
    add(store, marker(InboundKind.CUT, 0, "urn:before"))
    assert due(store) == ["urn:before"]
    deliver(store, sequence="urn:before")
    assert due(store) == ["urn:after"]


def test_successor_does_not_wait_for_an_unknown_or_deleted_sequence(store: StorageManager) -> None:
    insert(store, buffer("urn:before"), buffer("urn:after", follows="urn:before"), buffer(follows="urn:unknown"))
    add(store, inbound(1, "urn:after"), inbound(1))
    assert due(store) == [ONE]
    with store.transaction() as tx:
        tx.invoker.delete("urn:before")
    assert sorted(due(store)) == ["urn:after", ONE]


def test_a_limited_number_of_due_buffers_is_returned(store: StorageManager) -> None:
    names = [f"urn:rmd:{number}" for number in range(10)]
    insert(store, *(buffer(name) for name in names))
    add(store, *(inbound(1, name) for name in names))
    found = store.due_invoker(NOW, 4)
    assert len(set(found)) == len(found) == 4
    assert sorted(due(store)) == names


def test_buffers_that_always_have_work_do_not_delay_the_others(store: StorageManager) -> None:
    """There are more buffers with work than one query returns: the buffers are served in turn."""
    names = [f"urn:rmd:{number}" for number in range(8)]
    insert(store, *(buffer(name) for name in names))
    add(store, *(inbound(number, name) for name in names for number in range(1, 20)))
    served = dict.fromkeys(names, 0)
    for _ in range(12):
        for name in store.due_invoker(NOW, 2):
            served[name] += 1
            deliver(store, served[name], sequence=name)
    assert min(served.values()) > 0


def test_the_oldest_waiting_message_is_known_and_markers_do_not_count(store: StorageManager) -> None:
    def oldest() -> float | None:
        with store.transaction() as tx:
            return tx.invoker.oldest()

    insert(store, buffer(ONE))
    add(store, marker(InboundKind.END, 3))
    assert oldest() is None
    add(store, inbound(2, received_at=NOW - 5), inbound(1, received_at=NOW - 3))
    assert oldest() == NOW - 5
    deliver(store, 2)
    assert oldest() == NOW - 3


def test_parked_number_is_stored_with_the_buffer(store: StorageManager) -> None:
    insert(store, buffer(ONE))
    add(store, inbound(1))
    record = read(store)
    record.parked = 1
    with store.transaction() as tx:
        tx.invoker.save_delivered(record, consumed=())
    assert read(store).parked == 1
