"""Dead letters: stored until they are redriven or deleted."""

from __future__ import annotations

from concurrent.futures import Future

from mercury.storage.api import StorageManager
from mercury.storage.letters import EVERY_LETTER, LetterFilter
from mercury.testing.contract.builders import NOW, letter
from mercury.testing.contract.locking import attempt
from mercury.testing.contract.threads import Threads, result, waits


def found(store: StorageManager) -> list[str]:
    with store.transaction() as tx:
        return [each.id for each in tx.dead_letters.all()]


def test_letters_are_listed_oldest_first(store: StorageManager) -> None:
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


def test_letter_is_taken_by_one_transaction_only(store: StorageManager) -> None:
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


def test_oldest_letters_of_a_filter_are_discarded(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add([letter(each, NOW + number) for number, each in enumerate("abcd")])
    which = LetterFilter(dead_before=NOW + 3)
    for left, gone in ((["c", "d"], 2), (["d"], 1), (["d"], None)):
        with store.transaction() as tx:
            assert tx.dead_letters.discard(which, 2) == gone
        assert found(store) == left


def test_letter_that_another_transaction_takes_is_discarded_by_one_of_them(
    store: StorageManager, threads: Threads
) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add([letter("dead")])
    gone: list[int] = []
    second: list[Future[str]] = []

    def discard() -> None:
        with store.transaction() as tx:
            count = tx.dead_letters.discard(EVERY_LETTER, 10)
        gone.append(count or 0)

    def take() -> None:
        with store.transaction() as tx:
            assert tx.dead_letters.delete("dead") is not None
            second.append(threads.start(lambda: attempt(discard)))
            waits(second[0])  # it may end before this transaction, or wait for its end
        gone.append(1)

    attempt(take)
    result(second[0])
    assert sum(gone) == 1
    assert found(store) == []


def test_two_letters_may_be_about_one_message(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.dead_letters.add([letter("a", message_id="message"), letter("b", message_id="message")])
    assert found(store) == ["a", "b"]


def test_bytes_of_letters_caused_by_peers_are_summed_for_a_sequence_an_owner_and_all(
    store: StorageManager,
) -> None:
    def taken(sequence: str = "urn:s", owner: str = "192.0.2.1") -> tuple[int, int, int]:
        with store.transaction() as tx:
            return tx.dead_letters.bytes_of(sequence), tx.dead_letters.bytes(owner), tx.dead_letters.bytes()

    assert taken() == (0, 0, 0)
    body = b"x" * 1000
    with store.transaction() as tx:
        tx.dead_letters.add([letter("unknown", payload=body)])
        mine = [letter(each, payload=body, owner="192.0.2.1", sequence="urn:s") for each in ("a", "b")]
        tx.dead_letters.add([*mine, letter("c", owner="192.0.2.1"), letter("d", owner="192.0.2.2", sequence="urn:s")])
    small, large = letter("c").size, letter("c", payload=body).size
    assert (small >= 1024, large) == (True, small + 1000)
    assert taken() == (2 * large + small, 2 * large + small, 2 * large + 2 * small)
    assert taken("urn:t", "192.0.2.3") == (0, 0, 2 * large + 2 * small)
    with store.transaction() as tx:
        assert tx.dead_letters.delete("a") is not None
    assert taken() == (large + small, large + small, large + 2 * small)
