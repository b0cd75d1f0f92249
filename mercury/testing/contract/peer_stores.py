"""What is kept of the stores of destinations: the first answer decides, and another store is refused until replaced."""

from __future__ import annotations

import contextlib

import pytest

from mercury.errors import Conflict
from mercury.storage.api import StorageManager
from mercury.storage.peer_stores import PeerStore
from mercury.testing.contract.builders import NOW
from mercury.testing.contract.threads import Threads, result, waits

E, A = "http://peer.example/svc", "http://member.example/svc"


def agreed(store: StorageManager, name: str, endpoint: str = E) -> str:
    with store.transaction() as tx:
        return tx.peer_stores.agree(endpoint, name, NOW)


def known(store: StorageManager, endpoint: str = E) -> PeerStore | None:
    with store.transaction() as tx:
        return tx.peer_stores.get(endpoint)


def test_first_store_of_a_destination_stays(store: StorageManager) -> None:
    assert known(store) is None
    assert agreed(store, "s1") == "s1"
    assert agreed(store, "s2") == "s1"
    assert agreed(store, "s2", "http://other.example/") == "s2"
    assert known(store) == PeerStore(endpoint=E, store="s1", since=NOW)


def test_what_a_transaction_that_was_rolled_back_has_noted_is_not_known(store: StorageManager) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        assert tx.peer_stores.agree(E, "s1", NOW) == "s1"
        assert tx.peer_stores.agree(E, "s2", NOW) == "s1"
        raise ZeroDivisionError
    with store.transaction() as tx:
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.peer_stores.agree(E, "s1", NOW)
            raise ZeroDivisionError
        assert tx.peer_stores.get(E) is None
    assert agreed(store, "s2") == "s2"


def test_two_transactions_do_not_give_a_destination_two_stores(store: StorageManager, threads: Threads) -> None:
    got: list[str | None] = []
    with contextlib.suppress(Conflict):
        with store.transaction() as tx:
            first = tx.peer_stores.agree(E, "s1", NOW)
            other = threads.start(lambda: agrees(store, "s2"))
            waits(other)
        got.append(first)
    got.append(result(other))
    found = known(store)
    assert found is not None
    assert {each for each in got if each is not None} == {found.store}


def agrees(store: StorageManager, name: str) -> str | None:
    """The store that a transaction gets; ``None`` = it was rolled back."""
    try:
        return agreed(store, name)
    except Conflict:
        return None


def test_refusal_is_news_once_for_each_store_and_address(store: StorageManager) -> None:
    def refuse(name: str, address: str, at: float = NOW) -> bool:
        with store.transaction() as tx:
            return tx.peer_stores.refuse(E, name, address, at)

    assert not refuse("s2", A), "of an unknown destination nothing can be refused"
    agreed(store, "s1")
    assert refuse("s2", A)
    assert not refuse("s2", A, NOW + 1)
    assert refuse("s3", A)
    assert refuse("s3", E, NOW + 2)
    found = known(store)
    assert found is not None
    assert (found.store, found.refused, found.refused_address, found.refused_at) == ("s1", "s3", E, NOW + 2)


def test_refusal_ends_when_the_store_answers_at_that_address_or_is_replaced(store: StorageManager) -> None:
    for endpoint in (E, A):
        agreed(store, "s1", endpoint)
        with store.transaction() as tx:
            tx.peer_stores.refuse(endpoint, "s2", A, NOW)
    with store.transaction() as tx:
        assert {each.endpoint for each in tx.peer_stores.refused(10)} == {E, A}
        tx.peer_stores.answers(E, "http://elsewhere.example/")
        assert len(tx.peer_stores.refused(10)) == 2
        tx.peer_stores.answers(E, A)
        tx.peer_stores.replace(A, "s2", NOW + 1)
        tx.peer_stores.replace("http://unknown.example/", "s2", NOW)
        assert tx.peer_stores.refused(10) == []
    assert known(store) == PeerStore(endpoint=E, store="s1", since=NOW)
    assert known(store, A) == PeerStore(endpoint=A, store="s2", since=NOW + 1)
    assert known(store, "http://unknown.example/") is None
