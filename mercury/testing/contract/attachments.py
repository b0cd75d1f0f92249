"""The pieces of binary parts: written and removed with the rows that name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mercury.errors import Conflict, StorageError
from mercury.statemachine.effects import Certainty
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.attachments import PIECE, Attachments, StoredPart
from mercury.storage.letters import DeadLetter, inbound_letter, outbound_letter, redriven_inbound
from mercury.storage.records import Channel, InboundMessage, OutboundMessage
from mercury.testing.contract.builders import CHANNEL, EVERYTHING, NOW, buffer, channel, inbound, rms_record, row
from mercury.testing.contract.outbox import Outbox

#: The content of two parts: one of several pieces, and one of none.
LONG = bytes(range(256)) * (5 * PIECE // 512) + b"end"
PARTS = Attachments("one", (StoredPart("long", len(LONG)), StoredPart("empty", 0)))


def in_uneven_pieces() -> Iterator[bytes]:
    yield LONG[:7]
    yield b""
    yield LONG[7 : PIECE * 2 + 1]
    yield LONG[PIECE * 2 + 1 :]


def write(tx: Transaction, identifier: str = "one") -> None:
    assert tx.attachments.write(identifier, 0, in_uneven_pieces()) == len(LONG)
    assert tx.attachments.write(identifier, 1, iter(())) == 0


def received(number: int = 1) -> InboundMessage:
    return inbound(number, "urn:s", attachments=replace(PARTS, id=str(number)))


LETTER = inbound_letter(received(), "service", "letter", "reason", Certainty.NOT_DELIVERED, NOW)


def read(store: StorageManager, attachments: Attachments = PARTS) -> list[bytes]:
    with store.transaction() as tx:
        return list(tx.attachments.read(attachments, 0))


def names(store: StorageManager, *identifiers: str) -> list[str]:
    """Those of these attachments that are in the store."""
    found = []
    for identifier in identifiers:
        try:
            read(store, replace(PARTS, id=identifier))
            found.append(identifier)
        except StorageError:
            pass
    return found


def buffered(store: StorageManager, *numbers: int) -> None:
    """Store a buffer with messages that have attachments."""
    with store.transaction() as tx:
        tx.invoker.insert(buffer("urn:s"))
        for number in numbers:
            write(tx, str(number))
        tx.invoker.add([received(number) for number in numbers])


def deliver(store: StorageManager, number: int, letters: Sequence[DeadLetter] = ()) -> None:
    """Remove a message from the buffer, into its dead letter if there is one."""
    with store.transaction() as tx:
        record = tx.invoker.read("urn:s")
        assert record is not None
        tx.dead_letters.add(letters)
        tx.invoker.save_delivered(record, consumed=[number])


def send(
    store: StorageManager, outbox: Outbox, *message_ids: str, of: Channel = CHANNEL, **more: Any
) -> list[OutboundMessage]:
    """Append messages with attachments of the same names, and number them."""
    with store.transaction() as tx:
        for name in message_ids:
            write(tx, name)
            tx.rms.append(row(name, of, attachments=replace(PARTS, id=name), **more))
    return outbox.number()


def test_part_is_read_in_pieces_of_one_length(store: StorageManager) -> None:
    with store.transaction() as tx:
        write(tx)
        assert b"".join(tx.attachments.read(PARTS, 0)) == LONG  # also before the commit
    pieces = read(store)
    assert b"".join(pieces) == LONG
    assert {len(piece) for piece in pieces[:-1]} == {PIECE}
    with store.transaction() as tx:
        assert tx.attachments.piece(PARTS, 0, 1) == LONG[PIECE : 2 * PIECE]
        assert tx.attachments.piece(PARTS, 0, 3) == b""
        assert list(tx.attachments.read(PARTS, 1)) == []


def test_pieces_of_a_transaction_that_fails_are_not_kept(store: StorageManager) -> None:
    with pytest.raises(RuntimeError), store.transaction() as tx:
        write(tx)
        raise RuntimeError
    assert names(store, "one") == []


def test_pieces_of_a_savepoint_that_is_rolled_back_are_not_kept(store: StorageManager) -> None:
    with store.transaction() as tx:
        write(tx, "before")
        with pytest.raises(RuntimeError), tx.savepoint():
            write(tx, "inside")
            raise RuntimeError
    assert names(store, "before", "inside") == ["before"]


def test_pieces_of_a_commit_that_conflicts_are_not_kept(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.rms.append(row("same"))
    with pytest.raises(Conflict), store.transaction() as tx:
        write(tx)
        tx.rms.append(row("same", attachments=PARTS))
    assert names(store, "one") == []


def test_attachments_of_a_delivered_message_are_removed_with_it(store: StorageManager) -> None:
    buffered(store, 1, 2)
    assert store.has_attachments
    assert store.remove_attachments(9) == 0
    deliver(store, 1)
    assert names(store, "1", "2") == ["2"]
    assert store.remove_attachments(9) == 0  # nothing is left for a search
    assert store.has_attachments


def test_handler_reads_attachments_until_the_end_of_the_transaction_that_delivers(store: StorageManager) -> None:
    buffered(store, 1)
    with store.transaction() as tx:
        record = tx.invoker.read("urn:s")
        assert record is not None
        tx.invoker.save_delivered(record, consumed=[1])
        assert b"".join(tx.attachments.read(replace(PARTS, id="1"), 0)) == LONG
    assert names(store, "1") == []


def test_attachments_of_a_delivery_that_is_rolled_back_stay(store: StorageManager) -> None:
    buffered(store, 1)
    with pytest.raises(RuntimeError), store.transaction() as tx:
        record = tx.invoker.read("urn:s")
        assert record is not None
        tx.invoker.save_delivered(record, consumed=[1])
        raise RuntimeError
    with store.transaction() as tx:
        with pytest.raises(RuntimeError), tx.savepoint():
            record = tx.invoker.read("urn:s")
            assert record is not None
            tx.invoker.save_delivered(record, consumed=[1])
            raise RuntimeError
        write(tx, "other")
    assert names(store, "1") == ["1"]


def test_attachments_of_a_buffer_are_removed_with_it(store: StorageManager) -> None:
    buffered(store, 1, 2)
    with store.transaction() as tx:
        tx.invoker.delete("urn:s")
    assert names(store, "1", "2") == []


def test_attachments_follow_a_message_to_its_dead_letter_and_back(store: StorageManager) -> None:
    buffered(store, 1)
    deliver(store, 1, letters=[LETTER])
    assert names(store, "1") == ["1"]
    assert store.remove_attachments(9) == 0
    with store.transaction() as tx:
        taken = tx.dead_letters.delete("letter")
        assert taken is not None
        tx.invoker.insert(buffer("urn:redriven"))
        tx.invoker.add([redriven_inbound(taken, "urn:redriven", NOW)])
    assert store.remove_attachments(9) == 0
    assert names(store, "1") == ["1"]
    with store.transaction() as tx:
        assert tx.invoker.messages("urn:redriven", [1])[1].attachments == received().attachments
        tx.invoker.delete("urn:redriven")
    assert names(store, "1") == []


def test_attachments_of_a_dead_letter_are_removed_with_it(store: StorageManager) -> None:
    buffered(store, 1)
    deliver(store, 1, letters=[LETTER])
    with store.transaction() as tx:
        assert tx.dead_letters.delete("letter") is not None
    assert names(store, "1") == []


def test_attachments_of_an_acknowledged_message_are_removed_with_it(store: StorageManager, outbox: Outbox) -> None:
    sent = send(store, outbox, "a", "b", "c")
    assert [each.attachments and each.attachments.id for each in sent] == ["a", "b", "c"]
    outbox.acknowledge(1, 2)
    assert names(store, "a", "b", "c") == ["a", "b", "c"]
    outbox.release()
    assert names(store, "a", "b", "c") == ["c"]
    outbox.take()
    assert names(store, "a", "b", "c") == []
    assert store.remove_attachments(9) == 0


def test_attachments_of_a_message_that_is_acknowledged_and_released_at_once_are_removed(
    store: StorageManager, outbox: Outbox
) -> None:
    send(store, outbox, "a", "b")

    def acknowledged(tx: Transaction) -> None:
        tx.rms.acknowledge(outbox.record, ((1, 1),))
        tx.rms.release(outbox.record, EVERYTHING)

    outbox.locked(acknowledged)
    assert names(store, "a", "b") == ["b"]


def test_attachments_of_acknowledged_messages_of_two_sequences_are_removed_together(store: StorageManager) -> None:
    outboxes = [Outbox(store, rms_record(name, channel(name))) for name in ("first", "second")]
    for name, outbox in zip("ac", outboxes, strict=True):
        send(store, outbox, name, name * 2, of=outbox.record.channel)
    with store.transaction() as tx:
        tx.rms.lock([outbox.key for outbox in outboxes])
        for outbox in outboxes:
            tx.rms.acknowledge(outbox.record, ((1, 1),))
            tx.rms.release(outbox.record, EVERYTHING)
    assert names(store, "a", "aa", "c", "cc") == ["aa", "cc"]


def test_attachments_of_a_request_are_removed_when_its_response_is_consumed(
    store: StorageManager, outbox: Outbox
) -> None:
    send(store, outbox, "a", "b", expects_response=True)
    outbox.acknowledge(1, 2)
    outbox.release()
    assert names(store, "a", "b") == ["a", "b"]
    outbox.answered("a")
    assert names(store, "a", "b") == ["a", "b"]
    outbox.consumed("a")
    assert names(store, "a", "b") == ["b"]


def test_attachments_of_an_unsent_message_are_removed_or_kept_by_its_dead_letter(
    store: StorageManager, outbox: Outbox
) -> None:
    first, second = send(store, outbox, "a", "b")
    letter = outbound_letter(second, "letter", "reason", Certainty.NOT_DELIVERED, NOW)

    def discard(tx: Transaction) -> None:
        tx.rms.discard([first, second])
        tx.dead_letters.add([letter])

    outbox.locked(discard)
    assert names(store, "a", "b") == ["b"]
    with store.transaction() as tx:
        assert tx.dead_letters.delete("letter") is not None
        tx.rms.append(row("again", attachments=replace(PARTS, id="b")))
    assert names(store, "b") == ["b"]


def test_attachments_that_nothing_names_are_left_to_the_search(store: StorageManager) -> None:
    with store.transaction() as tx:
        for name in ("a", "b", "c"):
            write(tx, name)
        tx.rms.append(row("c", attachments=replace(PARTS, id="c")))
    assert store.remove_attachments(1) == 1
    assert store.remove_attachments(9) == 1
    assert store.remove_attachments(9) == 0
    assert names(store, "a", "b", "c") == ["c"]


def test_store_without_attachments_is_not_searched(store: StorageManager) -> None:
    def known() -> bool:
        return store.has_attachments

    assert not known()
    with store.transaction() as tx:
        write(tx)
    assert known()
    store.remove_attachments(9)
    assert not known()
