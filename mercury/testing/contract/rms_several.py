"""Rows of several source sequences in one transaction: what is read and written together is as if each was alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from mercury.storage.api import StorageManager, Transaction
from mercury.testing.contract.builders import EVERYTHING, LISTENING, NOW, channel, rms_record
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


def in_transmission(store: StorageManager) -> dict[str, Outbox]:
    """Twelve sequences with 1 to 12 numbered rows, of which the second waits for its retransmission, and whose records
    say so."""
    several = sequences(store)
    for place, (name, outbox) in enumerate(several.items()):
        machine = outbox.record.machine
        outbox.send(*(f"{name}{number}" for number in range(1, place + 2)))
        machine.identifier, machine.last_number = f"urn:{name}", place + 1

        def work(tx: Transaction, outbox: Outbox = outbox) -> None:
            tx.rms.save(outbox.record)
            for row in tx.rms.unsettled(outbox.record, 1000)[1:2]:
                row.attempts, row.due = 1, NOW + 5
                tx.rms.transmitted([row])

        outbox.locked(work)
    return several


def windows(tx: Transaction, several: dict[str, Outbox], limit: int, now: float | None) -> dict[str, list[object]]:
    """What `unsettled` returns for each sequence: MessageID, attempts, bytes of the body if it was asked for."""
    return {
        name: [
            (row.message_id, row.attempts, row.unread, len(row.payload) if now is None or row.due <= now else 0)
            for row in tx.rms.unsettled(outbox.record, limit, now)
        ]
        for name, outbox in several.items()
    }


@pytest.mark.parametrize("now", [None, NOW, NOW + 9])
@pytest.mark.parametrize("limit", [1, 7, 8, 9, 30])
def test_windows_that_are_read_ahead_are_those_that_are_read_alone(
    store: StorageManager, limit: int, now: float | None
) -> None:
    several = in_transmission(store)
    alone = together(several, lambda tx: windows(tx, several, limit, now))

    def ahead(tx: Transaction) -> dict[str, list[object]]:
        tx.rms.read_ahead([outbox.key for outbox in several.values()])
        return windows(tx, several, limit, now)

    assert together(several, ahead) == alone
    assert [len(rows) for rows in alone.values()][-1] == (min(limit, 12))


def test_large_bodies_in_windows_are_read_after_all(store: StorageManager) -> None:
    several = sequences(store)
    for name, outbox in several.items():
        outbox.append(f"{name}1", payload=b"<small/>")
        outbox.append(f"{name}2", payload=b"x" * 300_000)
        outbox.number()
        outbox.record.machine.identifier, outbox.record.machine.last_number = f"urn:{name}", 2

    def work(tx: Transaction) -> dict[str, list[int]]:
        for outbox in several.values():
            tx.rms.save(outbox.record)
        tx.rms.read_ahead([outbox.key for outbox in several.values()])
        return {
            name: [len(row.payload) for row in tx.rms.unsettled(box.record, 9, NOW)] for name, box in several.items()
        }

    assert together(several, work) == {name: [8, 300_000] for name in NAMES}


def test_windows_that_have_changed_since_they_were_read_are_read_again(store: StorageManager) -> None:
    several = in_transmission(store)

    def work(tx: Transaction) -> dict[str, list[str]]:
        tx.rms.read_ahead([outbox.key for outbox in several.values()])
        b, c, d, e, f = (several[name] for name in "bcdef")
        tx.rms.acknowledge(b.record, single([1]))
        tx.rms.take(c.record, single([1]))
        tx.rms.unnumber(d.record, single([4]))
        tx.rms.resend(e.record, [2], NOW)
        sent = tx.rms.unsettled(f.record, 1)
        sent[0].attempts = 3
        tx.rms.transmitted(sent)
        found = {each.record.id: ids(tx.rms.unsettled(each.record, 9)) for each in (b, c, d)}
        found["e"] = [str(row.due - NOW) for row in tx.rms.unsettled(e.record, 3)]
        return found | {"f": [str(row.attempts) for row in tx.rms.unsettled(f.record, 3)]}

    assert together(several, work) == {
        "b": ["b2"],
        "c": ["c2", "c3"],
        "d": ["d1", "d2", "d3"],
        "e": ["0.0", "0.0", "0.0"],
        "f": ["3", "1", "0"],
    }


def test_what_gets_a_number_follows_the_window_that_was_read_ahead(store: StorageManager) -> None:
    several = in_transmission(store)
    several["c"].append("c4", "c5")

    def work(tx: Transaction) -> list[str]:
        tx.rms.read_ahead([outbox.key for outbox in several.values()])
        number_in(tx, several["c"])
        return ids(tx.rms.unsettled(several["c"].record, 4))

    assert together(several, work) == ["c1", "c2", "c3", "c4"]
