"""The pieces of binary parts: written and removed with the rows that name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mercury.errors import Conflict, StorageError
from mercury.statemachine.effects import Certainty
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.attachments import PIECE, Attachments, StoredPart
from mercury.storage.letters import inbound_letter, redriven_inbound
from mercury.storage.records import InboundMessage
from mercury.testing.contract.builders import NOW, buffer, inbound, row
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


def test_attachments_of_a_delivered_message_are_removed(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.invoker.insert(buffer("urn:s"))
        for number in (1, 2):
            write(tx, str(number))
        tx.invoker.add([received(1), received(2)])
    assert store.has_attachments
    assert store.remove_attachments(9) == 0
    with store.transaction() as tx:
        record = tx.invoker.read("urn:s")
        assert record is not None
        tx.invoker.save_delivered(record, consumed=[1])
    assert store.remove_attachments(9) == 1
    assert names(store, "1", "2") == ["2"]
    assert store.has_attachments


def test_attachments_follow_a_message_to_its_dead_letter_and_back(store: StorageManager) -> None:
    letter = inbound_letter(received(), "service", "letter", "reason", Certainty.NOT_DELIVERED, NOW)
    with store.transaction() as tx:
        write(tx, "1")
        tx.dead_letters.add([letter])
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
    assert store.remove_attachments(9) == 1
    assert names(store, "1") == []


def test_attachments_of_an_acknowledged_message_are_removed(store: StorageManager, outbox: Outbox) -> None:
    for name in ("a", "b", "c"):
        with store.transaction() as tx:
            write(tx, name)
            tx.rms.append(row(name, attachments=replace(PARTS, id=name)))
    sent = outbox.number()
    assert [each.attachments and each.attachments.id for each in sent] == ["a", "b", "c"]
    assert store.remove_attachments(9) == 0
    outbox.acknowledge(1, 2)
    assert store.remove_attachments(9) == 0
    outbox.release()
    assert store.remove_attachments(1) == 1
    assert store.remove_attachments(1) == 1
    assert names(store, "a", "b", "c") == ["c"]
    outbox.take()
    assert store.remove_attachments(9) == 1
    assert names(store, "a", "b", "c") == []


def test_store_without_attachments_is_not_searched(store: StorageManager) -> None:
    def known() -> bool:
        return store.has_attachments

    assert not known()
    with store.transaction() as tx:
        write(tx)
    assert known()
    store.remove_attachments(9)
    assert not known()
