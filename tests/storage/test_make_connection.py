"""A client that cannot listen fetches its responses by MakeConnection, with every kind of store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from mercury import ConfigurationError, Protocol, RmVersion, Service, Settings, SourcePolicy, Transaction
from mercury.engine.source.polled import PolledWork
from mercury.storage.opening import open_store
from mercury.testing import Pair
from mercury.testing.contract.builders import NOW
from mercury.testing.contract.outbox import Outbox

#: Requests of a test.
COUNT = 12


@dataclass
class Order:
    id: int


@dataclass
class Placed:
    id: int


class Orders:
    """The server's service, and what was committed on both sides."""

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.answered: list[int] = []
        self.service = Service("orders")

        @self.service.operation
        def order(tx: Transaction, wanted: Order) -> Placed:
            tx.after_commit(lambda: self.handled.append(wanted.id))
            return Placed(wanted.id)

    def pair(self, client_store: str, server_store: str) -> Pair:
        settings = Settings(source=SourcePolicy(make_connection=True))
        pair = Pair(self.service, settings=settings, client_store=client_store, server_store=server_store)

        @pair.client.callback("placed")
        def placed(tx: Transaction, answer: Placed) -> None:
            tx.after_commit(lambda: self.answered.append(answer.id))

        return pair


def through_loss_and_crashes(orders: Orders, pair: Pair, seed: int) -> None:
    pair.wire.at_random(seed, lose=0.2, repeat=0.1, overtake=0.1)
    for number in range(COUNT):
        pair.to().request_with_callback(Order(number), "placed")
        pair.advance(1)
        if number % 5 == 2:
            pair.client.crash()
        if number % 5 == 4:
            pair.server.crash()
    pair.run()
    assert orders.handled == list(range(COUNT))
    assert orders.answered == list(range(COUNT))
    assert "MakeConnection" in pair.wire.seen


@pytest.mark.parametrize("side", ["client", "server"])
def test_responses_are_fetched_once_and_in_order_with_every_store(any_url: str, tmp_path: Path, side: str) -> None:
    # MC-05, MC-06: what is expected, and what waits, outlives the processes
    other = f"sqlite:///{tmp_path}/other.db" if any_url != "memory:" else "memory:"
    orders = Orders()
    stores = (any_url, other) if side == "client" else (other, any_url)
    with orders.pair(*stores) as pair:
        through_loss_and_crashes(orders, pair, seed=7)


def test_a_sender_that_speaks_ws_rm_1_0_cannot_fetch() -> None:
    pair = Orders().pair("memory:", "memory:")
    with pytest.raises(ConfigurationError, match=r"make_connection needs WS-RM 1\.1"):
        pair.to(policy=SourcePolicy(protocol=Protocol(rm=RmVersion.RM10), make_connection=True))


def test_of_the_due_messages_the_body_of_one_is_read_for_a_make_connection(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    try:
        outbox = Outbox(store)
        outbox.send("a", "b", "c", payload=b"x" * 1000)
        rows = outbox.locked(lambda tx: tx.rms.unsettled(outbox.record, 10, NOW, one=True))
        assert [(row.message_id, len(row.payload), row.unread) for row in rows] == [("a", 1000, False), ("b", 0, True)]
    finally:
        store.close()
    assert PolledWork._one_message
