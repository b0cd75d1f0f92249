"""What a transaction has appended can be worked on at its end, under the lock of its key, if that is free."""

from __future__ import annotations

import pytest

from mercury.errors import Conflict
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.claims import Claim
from mercury.testing.contract.builders import KEY, NOW, row
from mercury.testing.contract.ending import ending
from mercury.testing.contract.outbox import Outbox, ids, number_in
from mercury.testing.contract.stores import needs
from mercury.testing.contract.threads import Threads, result

LEASE = 30.0


def claim(store: StorageManager, owner: str = "me") -> Claim:
    taken = store.claim(f"rms {KEY.digest}", owner, NOW, LEASE)
    assert taken is not None
    return taken


def test_end_of_a_transaction_is_told_before_its_commit(store: StorageManager) -> None:
    outbox, happened = Outbox(store), list[object]()

    def last(tx: Transaction) -> None:
        happened.append(ids(tx.rms.appended))
        tx.rms.append(row("b"))

    with store.transaction(last) as tx:
        tx.after_commit(lambda: happened.append("committed"))
        tx.rms.append(row("a"))
        assert happened == []
    assert happened == [["a"], "committed"]
    assert outbox.waiting() == ["a", "b"]


def test_error_before_the_commit_rolls_back(store: StorageManager) -> None:
    outbox = Outbox(store)

    def fail(_tx: Transaction) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), store.transaction(fail) as tx:
        tx.rms.append(row("a"))
    assert outbox.waiting() == []


def test_transaction_that_fails_is_not_told_of_its_end(store: StorageManager) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction(lambda _: pytest.fail("it is not committed")) as tx:
        tx.rms.append(row("a"))
        raise ZeroDivisionError


def test_rows_get_numbers_in_the_transaction_that_appends_them(store: StorageManager) -> None:
    outbox, held = Outbox(store), claim(store)
    outbox.append("a")
    with store.transaction() as tx:
        tx.rms.append(row("b"))
        assert tx.rms.lock_appended(KEY, held)
        assert ids(number_in(tx, outbox)) == ["a", "b"]
    assert outbox.unsettled() == ["a", "b"]
    assert outbox.waiting() == []


def test_rows_that_got_no_number_wait(store: StorageManager) -> None:
    outbox, held = Outbox(store), claim(store)
    with store.transaction() as tx:
        tx.rms.append(row("a"))
        assert tx.rms.lock_appended(KEY, held)
    assert outbox.waiting() == ["a"]


def test_work_on_appended_rows_is_undone_alone(store: StorageManager) -> None:
    outbox, held = Outbox(store), claim(store)
    with store.transaction() as tx:
        tx.rms.append(row("a"))
        assert tx.rms.lock_appended(KEY, held)
        with pytest.raises(ZeroDivisionError), tx.savepoint(waits=True):
            number_in(tx, outbox)
            raise ZeroDivisionError
    assert outbox.waiting() == ["a"]
    assert outbox.unsettled() == []


def test_rows_that_a_roll_back_removes_are_gone_although_their_key_was_locked(store: StorageManager) -> None:
    outbox, held = Outbox(store), claim(store)
    with ending(store.transaction(), ZeroDivisionError) as tx:
        tx.rms.append(row("a"))
        assert tx.rms.lock_appended(KEY, held)
        number_in(tx, outbox)
        raise ZeroDivisionError
    assert outbox.here("a") == []


def test_message_that_exists_already_is_refused_although_its_key_was_locked(store: StorageManager) -> None:
    outbox, held = Outbox(store), claim(store)
    outbox.append("a")
    with pytest.raises(Conflict), store.transaction() as tx:
        tx.rms.append(row("a"))
        tx.rms.lock_appended(KEY, held)
    assert outbox.waiting() == ["a"]


def test_key_under_a_claim_that_is_lost_is_not_locked(store: StorageManager) -> None:
    outbox, lost = Outbox(store), claim(store)
    store.release(lost)
    claim(store, "another")
    with store.transaction() as tx:
        tx.rms.append(row("a"))
        assert not tx.rms.lock_appended(KEY, lost)
    assert outbox.waiting() == ["a"]


@needs("writes_side_by_side")
def test_key_that_another_transaction_has_locked_is_not_waited_for(store: StorageManager, threads: Threads) -> None:
    outbox, held = Outbox(store), claim(store)

    def append() -> bool:
        with store.transaction() as tx:
            tx.rms.append(row("a"))
            return tx.rms.lock_appended(KEY, held)

    with store.transaction() as tx:
        tx.rms.lock([KEY])
        assert not result(threads.start(append))
    assert outbox.waiting() == ["a"]
    with store.transaction() as tx:
        tx.rms.append(row("b"))
        assert tx.rms.lock_appended(KEY, held), "it is free again"
