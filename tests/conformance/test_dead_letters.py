"""Dead letters: kept until somebody takes them."""

from __future__ import annotations

from mercury.storage.api import StorageManager

from .builders import NOW, letter


def found(store: StorageManager) -> list[str]:
    with store.transaction() as tx:
        return [each.id for each in tx.dead_letters.all()]


def test_letters_are_told_oldest_first(store: StorageManager) -> None:
    for number in range(12):
        with store.transaction() as tx:
            tx.dead_letters.add([letter(f"letter {number}", NOW + number)])
    assert found(store) == [f"letter {number}" for number in range(12)]


def test_letters_of_one_moment_keep_their_order(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add([letter("c"), letter("a")])
        tx.dead_letters.add([letter("b")])
        tx.dead_letters.add([])
    assert found(store) == ["c", "a", "b"]


def test_who_takes_a_letter_gets_it_and_nobody_else_does(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add([letter("a", payload=b"<a/>"), letter("b")])
    with store.transaction() as tx:
        taken = tx.dead_letters.delete("a")
        assert tx.dead_letters.delete("a") is None
        assert tx.dead_letters.delete("c") is None
    assert taken is not None
    assert taken.payload == b"<a/>"
    assert found(store) == ["b"]
    with store.transaction() as tx:
        assert tx.dead_letters.delete("a") is None


def test_two_letters_may_be_about_one_message(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add([letter("a", message_id="message"), letter("b", message_id="message")])
    assert found(store) == ["a", "b"]
