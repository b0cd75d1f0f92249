"""A message with WS-Security is recorded once; copies of it are found until the record expires."""

from __future__ import annotations

import contextlib

import pytest

from mercury.errors import Conflict
from mercury.storage.api import StorageManager
from mercury.testing.contract.builders import NOW
from mercury.testing.contract.threads import Threads, result, waits


def added(store: StorageManager, *digests: str, expires: float = NOW) -> frozenset[str]:
    with store.transaction() as tx:
        return tx.replay.add(dict.fromkeys(digests, expires))


def test_digest_is_new_once(store: StorageManager) -> None:
    assert added(store) == frozenset()
    assert added(store, "b", "a") == frozenset()
    assert added(store, "a", "c") == {"a"}
    assert added(store, "a", "b", "c") == {"a", "b", "c"}


def test_digest_is_found_again_in_its_own_transaction(store: StorageManager) -> None:
    with store.transaction() as tx:
        assert tx.replay.add({"a": NOW}) == frozenset()
        assert tx.replay.add({"a": NOW, "b": NOW}) == {"a"}


def test_digest_of_a_transaction_that_was_rolled_back_is_new(store: StorageManager) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.replay.add({"a": NOW})
        raise ZeroDivisionError
    assert added(store, "a") == frozenset()


def test_digest_of_a_savepoint_that_was_rolled_back_is_new(store: StorageManager) -> None:
    with store.transaction() as tx:
        tx.replay.add({"a": NOW})
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.replay.add({"b": NOW})
            raise ZeroDivisionError
        assert tx.replay.add({"a": NOW, "b": NOW}) == {"a"}


def test_two_transactions_with_the_same_digest_do_not_both_record_it(store: StorageManager, threads: Threads) -> None:
    recorded = []
    with contextlib.suppress(Conflict):
        with store.transaction() as tx:
            first = tx.replay.add({"a": NOW})
            other = threads.start(lambda: records(store, "a"))
            waits(other)
        recorded.append(not first)
    recorded.append(result(other))
    assert recorded.count(True) == 1
    assert added(store, "a") == {"a"}


def records(store: StorageManager, digest: str) -> bool:
    """Whether a transaction records the digest as a new one."""
    try:
        return not added(store, digest)
    except Conflict:
        return False


def test_expired_digests_are_removed(store: StorageManager) -> None:
    added(store, "old", expires=NOW - 1)
    added(store, "young", expires=NOW)
    assert store.sweep(kept_before=NOW, idle_before=NOW, limit=10) == 1
    assert added(store, "old", "young") == {"young"}
