"""The life cycle of a row: appended, numbered, transmitted, acknowledged, answered, deleted."""

from __future__ import annotations

import pytest

from mercury.errors import Conflict
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER
from mercury.storage.api import StorageManager, Topic, Transaction
from mercury.storage.records import OutboundKind, OutboundMessage
from mercury.testing.contract.builders import EVERYTHING, KEY, LISTENING, NOW, rms_record, row
from mercury.testing.contract.ending import ending
from mercury.testing.contract.outbox import Outbox, ids, number_in

#: A limit in bytes that no test reaches.
ANY = 1_000_000


# --- appended --------------------------------------------------------------------------------------------------------


def test_rows_wait_in_the_order_in_which_they_were_appended(outbox: Outbox) -> None:
    outbox.append("c", "a")
    outbox.append("d")
    outbox.append("b")
    assert outbox.waiting() == ["c", "a", "d", "b"]


def test_only_as_many_rows_are_read_as_the_limit(outbox: Outbox) -> None:
    outbox.append("a", "b", "c", "d")
    assert outbox.waiting(2) == ["a", "b"]
    assert ids(outbox.number(3)) == ["a", "b", "c"]
    assert outbox.waiting(2) == ["d"]


def test_rows_of_other_keys_are_not_touched(outbox: Outbox, store: StorageManager) -> None:
    other = Outbox(store, rms_record("other", LISTENING))
    outbox.send("a", "b")
    other.send("c", "d")
    outbox.acknowledge(1, 2)
    outbox.release()
    assert other.unsettled() == ["c", "d"]
    assert (outbox.backlog, other.backlog) == (0, 2)


def test_an_end_that_becomes_the_last_message_comes_back_whole(outbox: Outbox) -> None:
    """In WS-RM 1.0 the end of a sequence becomes a LastMessage, with a number."""
    outbox.append("end", kind=OutboundKind.END, action="", payload=b"")
    (end,) = outbox.locked(lambda tx: tx.rms.unnumbered(KEY, 10))
    end.last, end.sequence_id, end.number, end.due = True, outbox.record.id, 1, NOW
    outbox.locked(lambda tx: tx.rms.number(outbox.record, [end]))
    (read,) = outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 10, NOW))
    assert (read.number, read.last, read.damaged) == (1, True, False)


def test_ends_wait_between_the_messages(outbox: Outbox) -> None:
    outbox.append("a")
    outbox.append("end", kind=OutboundKind.END, action="", payload=b"")
    outbox.append("b")
    rows = outbox.locked(lambda tx: tx.rms.unnumbered(KEY, 10))
    assert [each.kind for each in rows] == [OutboundKind.MESSAGE, OutboundKind.END, OutboundKind.MESSAGE]
    outbox.locked(lambda tx: tx.rms.discard(rows[1:2]))
    assert outbox.waiting() == ["a", "b"]
    assert outbox.here("a", "end", "b") == ["a", "b"]


@pytest.mark.parametrize("numbered", [False, True])
def test_a_message_is_not_kept_twice(outbox: Outbox, store: StorageManager, numbered: bool) -> None:
    outbox.append("a", correlation="first")
    if numbered:
        outbox.number()
    with ending(store.transaction(), Conflict) as tx:
        tx.rms.append(row("new"))
        tx.rms.append(row("a", LISTENING, correlation="second"))
    assert outbox.here("a", "new") == ["a"]
    kept = outbox.row("a")
    assert kept is not None
    assert kept.correlation == "first"


def test_one_transaction_cannot_append_a_message_twice(outbox: Outbox, store: StorageManager) -> None:
    with ending(store.transaction(), Conflict) as tx:
        tx.rms.append(row("a"))
        tx.rms.append(row("a"))
    assert outbox.waiting() == []


def test_a_message_may_be_appended_again_when_its_row_is_gone(outbox: Outbox) -> None:
    outbox.send("a")
    outbox.take()
    outbox.append("a")
    assert outbox.waiting() == ["a"]


# --- numbered and transmitted ----------------------------------------------------------------------------------------


def test_numbered_rows_wait_no_longer_and_need_transmission(outbox: Outbox) -> None:
    outbox.append("a", "b", "c")
    outbox.number(2, due=NOW + 1)
    assert outbox.waiting() == ["c"]
    rows = outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 10))
    assert [(each.message_id, each.number, each.sequence_id, each.due) for each in rows] == [
        ("a", 1, "rms-1", NOW + 1),
        ("b", 2, "rms-1", NOW + 1),
    ]


def test_the_window_begins_at_the_lowest_row_that_needs_transmission(outbox: Outbox) -> None:
    names = [f"row {number}" for number in range(1, 13)]
    outbox.send(*names)
    assert outbox.unsettled(3) == names[:3]
    outbox.acknowledge(2, 3, 12)
    assert outbox.unsettled(3) == ["row 1", "row 4", "row 5"]
    outbox.acknowledge(*range(1, 13))
    assert outbox.unsettled(3) == []


def test_rows_of_two_sequences_of_a_key_are_distinguished(outbox: Outbox, store: StorageManager) -> None:
    outbox.send("a", "b")
    successor = Outbox(store, rms_record("successor"))
    successor.send("c")
    assert outbox.unsettled() == ["a", "b"]
    assert successor.unsettled() == ["c"]
    successor.acknowledge(1)
    successor.release()
    assert outbox.unsettled() == ["a", "b"]
    assert outbox.backlog == 2


def test_a_transmission_is_counted_and_put_off(outbox: Outbox) -> None:
    outbox.send("a", "b")
    for _ in range(2):
        with outbox.store.transaction() as tx:
            tx.rms.lock([KEY])
            rows = tx.rms.unsettled(outbox.record, 1)
            rows[0].attempts += 1
            rows[0].due += 10
            tx.rms.transmitted(rows)
    first, second = outbox.row("a"), outbox.row("b")
    assert first is not None
    assert second is not None
    assert (first.attempts, first.due) == (2, NOW + 20)
    assert (second.attempts, second.due) == (0, NOW)


def test_of_rows_due_later_only_the_first_and_one_repeated_are_read(outbox: Outbox) -> None:
    """The first row shows whether the peer answers, and the row that is due next shows when there is work again."""
    outbox.send(*"abcdefgh")
    times = dict(zip("abcdefgh", (9, 7, 0, 5, 5, 0, 8, 0), strict=True))

    def put_off(tx: Transaction) -> None:
        rows = tx.rms.unsettled(outbox.record, 10)
        for each in rows:
            each.due = NOW + times[each.message_id]
        tx.rms.transmitted(rows)
        assert ids(tx.rms.unsettled(outbox.record, 10, NOW)) == list("acdfh"), "the changes are not written yet"

    outbox.locked(put_off)

    def poll(tx: Transaction) -> None:
        rows = tx.rms.unsettled(outbox.record, 10, NOW)
        assert ids(rows) == list("acdfh")
        assert all(each.payload for each in rows if each.due <= NOW)
        assert ids(tx.rms.unsettled(outbox.record, 7, NOW)) == list("acdf"), "the window has no more"
        assert ids(tx.rms.unsettled(outbox.record, 2, NOW)) == list("ab")
        assert ids(tx.rms.unsettled(outbox.record, 10, NOW - 1)) == list("ac")
        assert ids(tx.rms.unsettled(outbox.record, 10, NOW + 9)) == list("abcdefgh")

    outbox.locked(poll)

    def poll_for_one(tx: Transaction) -> None:
        first, chosen, more = tx.rms.unsettled(outbox.record, 10, NOW, one=True)
        assert ids([first, chosen, more]) == list("acf")
        assert chosen.payload
        assert not chosen.unread
        assert more.unread is not bool(more.payload), "the row shows whether its body was read"
        assert ids(tx.rms.unsettled(outbox.record, 10, NOW - 1, one=True)) == list("ac"), "no row is due"

    outbox.locked(poll_for_one)


def test_newly_numbered_rows_count_in_the_window_with_earlier_ones(outbox: Outbox) -> None:
    outbox.append(*"abc")
    outbox.number(due=NOW + 5)
    outbox.append(*"defg")

    def work(tx: Transaction) -> None:
        number_in(tx, outbox)
        assert ids(tx.rms.unsettled(outbox.record, 5, NOW)) == list("ade")
        assert ids(tx.rms.unsettled(outbox.record, 3, NOW)) == list("a")
        assert ids(tx.rms.unsettled(outbox.record, 2, NOW)) == list("a")
        assert ids(tx.rms.unsettled(outbox.record, 5)) == list("abcde")

    outbox.locked(work)


def test_rows_that_are_acknowledged_in_the_transaction_that_numbers_them_go(outbox: Outbox) -> None:
    """The oldest of too many replies count as fetched when others get their numbers."""
    outbox.append("a", "b", "c")

    def number_and_release(tx: Transaction) -> list[OutboundMessage]:
        rows = tx.rms.unnumbered(KEY, 10)
        for number, each in enumerate(rows, 1):
            each.sequence_id, each.number, each.due = outbox.record.id, number, NOW
        tx.rms.number(outbox.record, rows)
        tx.rms.acknowledge(outbox.record, ((1, 2),))
        tx.rms.release(outbox.record, ((1, 2),))
        return tx.rms.unsettled(outbox.record, 10, NOW)

    assert ids(outbox.locked(number_and_release)) == ["c"]
    assert outbox.here("a", "b", "c") == ["c"]


def test_a_nack_makes_rows_due_now(outbox: Outbox) -> None:
    outbox.append("a", "b", "c")
    outbox.number(due=NOW + 50)
    outbox.locked(lambda tx: tx.rms.resend(outbox.record, [2, 3, 77], NOW + 1))
    rows = outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 10))
    assert [each.due for each in rows] == [NOW + 50, NOW + 1, NOW + 1]
    outbox.locked(lambda tx: tx.rms.resend(outbox.record, [], NOW))


def test_as_many_nacks_and_ranges_as_one_message_may_have_are_taken(outbox: Outbox) -> None:
    outbox.append("a", "b", "c")
    outbox.number(due=NOW + 50)
    outbox.locked(lambda tx: tx.rms.resend(outbox.record, range(2, 2050), NOW + 1))
    rows = outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 10))
    assert [each.due for each in rows] == [NOW + 50, NOW + 1, NOW + 1]
    assert [each.message_id for each in outbox.unnumber(1, *range(3, 5000, 2))] == ["a", "c"]
    assert [each.message_id for each in outbox.take(tuple((number, number) for number in range(2, 5000, 2)))] == ["b"]


def test_a_nack_leaves_rows_alone_that_were_transmitted_too_often(outbox: Outbox) -> None:
    outbox.append("a", "b")
    outbox.number(due=NOW + 50)

    def transmit_the_second(tx: Transaction) -> None:
        second = tx.rms.unsettled(outbox.record, 10)[1]
        second.attempts = 2
        tx.rms.transmitted([second])

    outbox.locked(transmit_the_second)
    outbox.locked(lambda tx: tx.rms.resend(outbox.record, [1, 2], NOW + 1, most_attempts=1))
    rows = outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 10))
    assert [each.due for each in rows] == [NOW + 1, NOW + 50]


def test_the_highest_number_there_is_can_be_given(outbox: Outbox) -> None:
    outbox.append("a")
    with outbox.store.transaction() as tx:
        tx.rms.lock([KEY])
        (only,) = tx.rms.unnumbered(KEY, 1)
        only.sequence_id, only.number = outbox.record.id, MAX_MESSAGE_NUMBER
        tx.rms.number(outbox.record, [only])
    outbox.acknowledge(MAX_MESSAGE_NUMBER)
    outbox.release(EVERYTHING)
    assert outbox.here("a") == []


# --- acknowledged and released ---------------------------------------------------------------------------------------


def test_an_acknowledged_row_stays_until_it_is_released(outbox: Outbox) -> None:
    outbox.send("a", "b", "c")
    outbox.acknowledge(1, 3)
    assert outbox.unsettled() == ["b"]
    assert outbox.backlog == 3
    outbox.release(((3, 3),))
    assert outbox.here("a", "b", "c") == ["a", "b"]
    outbox.release()
    assert outbox.here("a", "b", "c") == ["b"]


def test_unacknowledged_messages_are_not_released(outbox: Outbox) -> None:
    outbox.send("a")
    outbox.release()
    assert outbox.unsettled() == ["a"]


def test_acknowledgement_may_be_repeated_and_name_deleted_rows(outbox: Outbox) -> None:
    outbox.send("a", "b")
    outbox.acknowledge(1)
    outbox.release()
    outbox.locked(lambda tx: tx.rms.acknowledge(outbox.record, ((1, 1), (5, 2**50))))
    outbox.locked(lambda tx: tx.rms.acknowledge(outbox.record, ()))
    assert outbox.unsettled() == ["b"]


def test_acknowledgement_with_many_ranges_is_applied(outbox: Outbox) -> None:
    names = [f"row {number}" for number in range(1, 201)]
    outbox.send(*names)
    odd = tuple((number, number) for number in range(1, 201, 2))
    outbox.locked(lambda tx: tx.rms.acknowledge(outbox.record, odd))
    outbox.release(odd)
    assert outbox.unsettled(1000) == names[1::2]
    assert outbox.backlog == 100


def test_acknowledged_and_released_in_one_transaction(outbox: Outbox) -> None:
    names = [f"row {number}" for number in range(1, 201)]
    outbox.send(*names)

    def work(tx: Transaction) -> None:
        for number in range(1, 201, 2):
            tx.rms.acknowledge(outbox.record, ((number, number),))
            tx.rms.release(outbox.record, ((1, number),))

    outbox.locked(work)
    assert outbox.unsettled(1000) == names[1::2]
    assert outbox.backlog == 100


def test_acknowledgements_after_a_release_wait_for_the_next_release(outbox: Outbox) -> None:
    outbox.send("a", "b")

    def work(tx: Transaction) -> None:
        tx.rms.acknowledge(outbox.record, ((1, 1),))
        tx.rms.release(outbox.record, ((1, 2),))
        tx.rms.acknowledge(outbox.record, ((2, 2),))

    outbox.locked(work)
    assert outbox.here("a", "b") == ["b"]
    assert outbox.unsettled() == []


def test_collectable_rows_do_not_hide_stuck_ones(outbox: Outbox) -> None:
    """One transaction deletes an older request and acknowledges a newer one, which still waits for its response."""
    outbox.send("old", "young", expects_response=True)
    outbox.acknowledge(1)
    outbox.locked(lambda tx: tx.rms.answered("old"))

    def work(tx: Transaction) -> None:
        tx.rms.consumed("old")
        tx.rms.acknowledge(outbox.record, ((1, 2),))
        tx.rms.release(outbox.record, ((1, 2),))

    outbox.locked(work)
    assert outbox.here("old", "young") == ["young"]
    kept = outbox.row("young")
    assert kept is not None
    assert kept.acknowledged


def test_bytes_freed_by_another_acknowledgement_are_not_counted_twice(outbox: Outbox) -> None:
    outbox.send("old", "young", expects_response=True)
    outbox.consumed("old")

    def first(tx: Transaction) -> None:
        tx.rms.acknowledge(outbox.record, ((1, 1),))

    def second(tx: Transaction) -> None:
        tx.rms.acknowledge(outbox.record, ((2, 2),))
        tx.rms.release(outbox.record, ((1, 2),))

    outbox.locked(first)
    outbox.locked(second)
    assert outbox.here("old", "young") == ["young"]
    kept = outbox.row("young")
    assert kept is not None
    assert kept.acknowledged


def test_acknowledgements_of_a_savepoint_go_with_it(outbox: Outbox) -> None:
    outbox.send("a", "b")

    def work(tx: Transaction) -> None:
        tx.rms.acknowledge(outbox.record, ((1, 1),))
        with pytest.raises(LookupError), tx.savepoint():
            tx.rms.lock([outbox.key])
            tx.rms.acknowledge(outbox.record, ((2, 2),))
            tx.rms.release(outbox.record, EVERYTHING)
            raise LookupError

    outbox.locked(work)
    assert outbox.unsettled() == ["b"]
    assert outbox.here("a", "b") == ["a", "b"]


# --- abandonments ----------------------------------------------------------------------------------------------------


def abandoned(outbox: Outbox) -> bool:
    return outbox.locked(lambda tx: tx.rms.abandoned(outbox.key))


def test_an_abandonment_is_seen_however_much_waits_before_it(outbox: Outbox) -> None:
    outbox.append("a", "b")
    outbox.append("end", kind=OutboundKind.END, action="", payload=b"")
    assert not abandoned(outbox)
    outbox.append("gone", kind=OutboundKind.ABANDON, action="", payload=b"")
    assert abandoned(outbox)
    outbox.locked(lambda tx: tx.rms.discard(tx.rms.unnumbered(outbox.key, 10)[-1:]))
    assert not abandoned(outbox)


def test_an_abandonment_that_is_dealt_with_in_this_transaction_is_over(outbox: Outbox) -> None:
    outbox.append("gone", kind=OutboundKind.ABANDON, action="", payload=b"")

    def work(tx: Transaction) -> bool:
        tx.rms.discard(tx.rms.unnumbered(outbox.key, 10))
        return tx.rms.abandoned(outbox.key)

    assert not outbox.locked(work)


def test_a_sequence_holds_what_waits_but_no_abandonment(outbox: Outbox, store: StorageManager) -> None:
    def hold(tx: Transaction) -> None:
        (record,) = tx.rms.records(outbox.key)
        record.window_full, record.due = True, None
        tx.rms.save(record)

    outbox.append("a")
    assert store.due_rms(NOW, 10) == [outbox.key]
    outbox.locked(hold)
    assert store.due_rms(NOW, 10) == []
    assert store.next_due(Topic.RMS) is None
    outbox.append("gone", kind=OutboundKind.ABANDON, action="", payload=b"")
    assert store.due_rms(NOW, 10) == [outbox.key]
    assert store.next_due(Topic.RMS) == 0.0
