"""Rows of several source sequences in one transaction: what is read and written together is as if each was alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from mercury.storage.api import StorageManager, Transaction
from mercury.testing.contract.builders import EVERYTHING, LISTENING, channel, rms_record
from mercury.testing.contract.outbox import Outbox, ids, number_in, single

T = TypeVar("T")
NAMES = tuple("abcdefghijkl")


def sequences(store: StorageManager) -> dict[str, Outbox]:
    """Twelve sequences without rows."""
    return {name: Outbox(store, rms_record(name, channel(name, reply_to=LISTENING.reply_to))) for name in NAMES}


def together(several: dict[str, Outbox], work: Callable[[Transaction], T]) -> T:
    """Run ``work`` in a transaction that has locked all keys."""
    (store, *_) = (outbox.store for outbox in several.values())
    with store.transaction() as tx:
        tx.rms.lock([outbox.key for outbox in several.values()])
        return work(tx)


def settle(several: dict[str, Outbox], *numbers: int) -> None:
    """Acknowledge and release these numbers of all sequences in one transaction."""

    def work(tx: Transaction) -> None:
        for outbox in several.values():
            tx.rms.acknowledge(outbox.record, single(numbers))
            tx.rms.release(outbox.record, EVERYTHING)

    together(several, work)


def test_what_arrived_of_several_sequences_is_deleted_and_nothing_else(store: StorageManager) -> None:
    several = sequences(store)
    for name, outbox in several.items():
        outbox.send(*(f"{name}{number}" for number in range(1, 5)))
    settle(several, 1, 3)
    for name, outbox in several.items():
        assert outbox.unsettled() == [f"{name}2", f"{name}4"]
        assert outbox.here(*(f"{name}{number}" for number in range(1, 5))) == [f"{name}2", f"{name}4"]


def test_a_request_that_arrived_among_others_stays_until_its_response_is_consumed(store: StorageManager) -> None:
    several = sequences(store)
    for name, outbox in several.items():
        outbox.send(f"{name}1", expects_response=name in "ac")
    settle(several, 1)
    assert {name: outbox.here(f"{name}1") for name, outbox in several.items()} == {
        name: [f"{name}1"] if name in "ac" else [] for name in NAMES
    }
    request = several["a"].row("a1")
    assert request is not None
    assert request.acknowledged
    several["a"].consumed("a1")
    assert several["a"].here("a1") == []


def test_what_was_acknowledged_before_is_released_beside_what_is_acknowledged_now(store: StorageManager) -> None:
    several = sequences(store)
    for name, outbox in several.items():
        outbox.send(f"{name}1", f"{name}2", f"{name}3")
        outbox.acknowledge(1)
    settle(several, 2)
    assert all(outbox.here(f"{name}1", f"{name}2", f"{name}3") == [f"{name}3"] for name, outbox in several.items())


def test_what_is_acknowledged_of_several_sequences_is_not_deleted_before_it_is_released(store: StorageManager) -> None:
    several = sequences(store)
    for name, outbox in several.items():
        outbox.send(f"{name}1", f"{name}2")

    def work(tx: Transaction) -> None:
        for outbox in several.values():
            tx.rms.acknowledge(outbox.record, single([1]))

    together(several, work)
    for name, outbox in several.items():
        assert outbox.unsettled() == [f"{name}2"]
        assert outbox.here(f"{name}1") == [f"{name}1"]


@pytest.mark.parametrize("limit", [1, 8, 9, 30])
def test_rows_that_are_read_ahead_are_those_that_wait(store: StorageManager, limit: int) -> None:
    several = sequences(store)
    for place, (name, outbox) in enumerate(several.items()):
        outbox.append(*(f"{name}{number}" for number in range(2 * place)))

    def work(tx: Transaction) -> dict[str, list[str]]:
        tx.rms.read_ahead([outbox.key for outbox in several.values()])
        return {name: ids(tx.rms.unnumbered(outbox.key, limit)) for name, outbox in several.items()}

    assert together(several, work) == {
        name: [f"{name}{number}" for number in range(2 * place)][:limit] for place, name in enumerate(NAMES)
    }


def test_large_bodies_are_read_after_all(store: StorageManager) -> None:
    several = sequences(store)
    for name, outbox in several.items():
        outbox.append(f"{name}1", payload=b"<small/>")
        outbox.append(f"{name}2", payload=b"x" * 300_000)
        outbox.append(f"{name}3", payload=b"<small/>")

    def work(tx: Transaction) -> dict[str, list[int]]:
        tx.rms.read_ahead([outbox.key for outbox in several.values()])
        return {name: [len(row.payload) for row in tx.rms.unnumbered(box.key, 3)] for name, box in several.items()}

    assert together(several, work) == {name: [8, 300_000, 8] for name in NAMES}


def test_rows_that_got_a_number_or_were_discarded_are_not_read_again(store: StorageManager) -> None:
    several = sequences(store)
    for name, outbox in several.items():
        outbox.append(f"{name}1", f"{name}2")

    def work(tx: Transaction) -> dict[str, list[str]]:
        tx.rms.read_ahead([outbox.key for outbox in several.values()])
        number_in(tx, several["a"], 1)
        tx.rms.discard(tx.rms.unnumbered(several["b"].key, 1))
        return {name: ids(tx.rms.unnumbered(outbox.key, 10)) for name, outbox in several.items()}

    expected = {name: [f"{name}1", f"{name}2"] for name in NAMES} | {"a": ["a2"], "b": ["b2"]}
    assert together(several, work) == expected
