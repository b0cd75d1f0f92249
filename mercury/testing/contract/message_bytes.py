"""Messages within a number of bytes: a window in bytes, portions of rows without a number, and parts of a buffer."""

from __future__ import annotations

from mercury.storage.api import StorageManager, Transaction
from mercury.storage.records import InboundKind, OutboundMessage
from mercury.testing.contract.builders import NOW, buffer, inbound, marker
from mercury.testing.contract.outbox import Outbox, ids, number_in

BODY = b"<e>" + 93 * b"x" + b"</e>"


def in_window(outbox: Outbox, limit: int, now: float | None, most_bytes: int) -> list[OutboundMessage]:
    return outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, limit, now, most_bytes=most_bytes))


def test_rows_without_a_number_are_read_up_to_a_number_of_bytes(outbox: Outbox) -> None:
    outbox.append(*"abcd", payload=BODY)

    def work(tx: Transaction) -> None:
        assert ids(tx.rms.unnumbered(outbox.key, 10, 3 * len(BODY))) == list("abc")
        assert ids(tx.rms.unnumbered(outbox.key, 2, 3 * len(BODY))) == list("ab")
        assert ids(tx.rms.unnumbered(outbox.key, 10, 3 * len(BODY) - 1)) == list("ab")
        assert ids(tx.rms.unnumbered(outbox.key, 10, 1)) == ["a"], "one is read whatever its size"

    outbox.locked(work)


def test_window_in_bytes_counts_what_is_not_acknowledged_due_or_not(outbox: Outbox) -> None:
    outbox.send(*"abcdef", payload=BODY)

    def put_off(tx: Transaction) -> None:
        (first,) = tx.rms.unsettled(outbox.record, 10, most_bytes=1)
        assert first.message_id == "a", "the lowest is in the window whatever its size"
        first.due = NOW + 10
        tx.rms.transmitted([first])

    outbox.locked(put_off)
    for now in (None, NOW):
        rows = in_window(outbox, 10, now, 3 * len(BODY))
        assert ids(rows) == list("abc")
        assert all(row.payload == BODY for row in rows if row.due <= NOW)
        assert ids(in_window(outbox, 2, now, 3 * len(BODY))) == list("ab")
    assert ids(outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 10, NOW, one=True, most_bytes=1))) == ["a"]
    outbox.acknowledge(1, 2)
    assert ids(in_window(outbox, 10, NOW, 2 * len(BODY))) == ["c", "d"]


def test_acknowledged_request_that_waits_for_its_response_takes_no_bytes_of_the_window(outbox: Outbox) -> None:
    outbox.send("request", payload=BODY, expects_response=True)
    outbox.send(*"ab", payload=BODY)
    outbox.acknowledge(1)
    rows = in_window(outbox, 10, NOW, len(BODY))
    assert [each for each in ids(rows) if each != "request"] == ["a"]


def test_rows_that_are_numbered_in_the_transaction_count_for_the_window_in_bytes(outbox: Outbox) -> None:
    outbox.send("a", payload=BODY)
    outbox.append(*"bcd", payload=BODY)

    def work(tx: Transaction) -> None:
        number_in(tx, outbox)
        assert ids(tx.rms.unsettled(outbox.record, 10, NOW, most_bytes=3 * len(BODY))) == list("abc")
        assert ids(tx.rms.unsettled(outbox.record, 10, NOW, most_bytes=len(BODY))) == ["a"]

    outbox.locked(work)


def test_messages_of_a_buffer_are_read_up_to_a_number_of_bytes_with_all_markers(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(buffer())
        tx.invoker.add([inbound(number, payload=BODY) for number in (3, 1, 2, 5)])
        tx.invoker.add([marker(InboundKind.END, 9)])
    with store.transaction() as tx:
        for most_bytes, numbers in ((3 * len(BODY), [1, 2, 3]), (3 * len(BODY) - 1, [1, 2]), (1, [1])):
            part = tx.invoker.part("urn:rmd:1", 1, 10, most_bytes)
            assert (sorted(part.messages), len(part.markers)) == (numbers, 1)
        assert sorted(tx.invoker.part("urn:rmd:1", 2, 4, 1).messages) == [2]
        assert sorted(tx.invoker.part("urn:rmd:1", 1, 10).messages) == [1, 2, 3, 5]
