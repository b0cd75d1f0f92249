"""`mercury.testing.Pair`: the properties that users' tests rely on."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import text

from mercury import ApplicationFault, ConfigurationError, Receipt, SequenceFailed, Service, Transaction
from mercury.testing import FakeClock, Pair


@dataclass
class PlaceOrder:
    id: int


@dataclass
class OrderPlaced:
    id: int


class Shop:
    """A service that one would test, and what its handlers have committed."""

    def __init__(self) -> None:
        self.placed: list[int] = []
        self.calls = 0
        self.service = Service("orders")

        @self.service.operation
        def place_order(tx: Transaction, order: PlaceOrder) -> None:
            self.calls += 1
            tx.after_commit(lambda: self.placed.append(order.id))


class Desk:
    """The same with answers."""

    def __init__(self) -> None:
        self.service = Service("desk")
        self.calls = 0

        @self.service.operation
        def place_order(order: PlaceOrder) -> OrderPlaced:
            self.calls += 1
            if order.id == 13:
                raise ApplicationFault("not this one", code="Unlucky")
            return OrderPlaced(id=order.id)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def send(pair: Pair, count: int, first: int = 1) -> list[Receipt]:
    orders = pair.to()
    return [orders.send(PlaceOrder(id=number)) for number in range(first, first + count)]


ALL = [1, 2, 3, 4, 5]


# --- the wire --------------------------------------------------------------------------------------------------------


def test_everything_arrives_once_and_in_order(shop: Shop) -> None:
    pair = Pair(shop.service)
    send(pair, 5)
    assert shop.placed == [], "nothing happens by itself"
    pair.run()
    assert shop.placed == ALL
    assert pair.waiting() == []


def test_a_lost_message_is_sent_again_and_handled_once(shop: Shop) -> None:
    pair = Pair(shop.service)
    pair.wire.lose("message 3")
    send(pair, 5)
    pair.run()
    assert (shop.placed, shop.calls) == (ALL, 5)
    assert pair.wire.count("message 3") == 2


def test_a_lost_reply_does_not_repeat_what_the_handler_did(shop: Shop) -> None:
    pair = Pair(shop.service)
    pair.wire.lose("acknowledgement", times=5)
    send(pair, 5)
    pair.run()
    assert (shop.placed, shop.calls) == (ALL, 5)
    assert len([name for name in pair.wire.seen if name.startswith("message")]) > 5


def test_a_message_that_comes_twice_is_handled_once(shop: Shop) -> None:
    pair = Pair(shop.service)
    pair.wire.repeat("message *", times=5)
    send(pair, 5)
    pair.run()
    assert (shop.placed, shop.calls) == (ALL, 5)


def test_messages_that_overtake_are_handled_in_order(shop: Shop) -> None:
    pair = Pair(shop.service)
    pair.wire.hold("message *", times=5)
    send(pair, 5)
    pair.advance(0)
    assert [flight.name for flight in pair.wire.held] == [f"message {number}" for number in ALL]
    pair.wire.release(backwards=True)
    pair.advance(0)
    assert shop.placed == ALL


@pytest.mark.parametrize("seed", range(5))
def test_random_faults_of_the_wire_do_not_show(shop: Shop, seed: int) -> None:
    pair = Pair(shop.service)
    pair.wire.at_random(seed, lose=0.3, repeat=0.2, overtake=0.2)
    send(pair, 40)
    pair.run()
    assert shop.placed == list(range(1, 41))


def test_chance_is_the_same_for_the_same_seed() -> None:
    def seen(seed: int) -> list[str]:
        pair = Pair(Shop().service)
        pair.wire.at_random(seed, lose=0.3, repeat=0.2, overtake=0.2)
        send(pair, 20)
        pair.run()
        return pair.wire.seen

    assert seen(1) == seen(1) != seen(2)


def test_rules_are_used_in_the_order_in_which_they_were_made_and_can_be_forgotten(shop: Shop) -> None:
    pair = Pair(shop.service)
    pair.wire.lose("message 1")
    pair.wire.repeat("message 1")
    pair.wire.lose("message 2", times=100)
    send(pair, 2)
    pair.advance(60)
    assert shop.placed == [1]
    pair.wire.forget_rules()
    pair.run()
    assert shop.placed == [1, 2]


def test_an_altered_message_arrives_as_it_was_made(shop: Shop) -> None:
    pair = Pair(shop.service)
    pair.wire.alter("message 1", lambda http: type(http)(b"<nothing/>", http.content_type, http.soap_action))
    send(pair, 1)
    pair.run()
    assert shop.placed == [1], "what could not be read came again"


# --- time ------------------------------------------------------------------------------------------------------------


def test_time_passes_only_where_the_test_lets_it(shop: Shop) -> None:
    clock = FakeClock(start=1000.0)
    pair = Pair(shop.service, clock=clock)
    pair.wire.lose("message 1", times=1)
    send(pair, 1)
    pair.advance(0)
    assert (clock.now, shop.placed) == (1000.0, [])
    pair.advance(10)
    assert (clock.now, clock(), clock.elapsed, shop.placed) == (1010.0, 1010.0, 10.0, [1])
    assert pair.wire.when("message 1")[0] == 0.0


def test_message_that_never_arrives_is_reported_with_its_reason(shop: Shop) -> None:
    pair = Pair(shop.service)
    pair.wire.lose("*", times=100_000)
    send(pair, 2)
    with pytest.raises(AssertionError, match=r"(?s)after 60 s .* client: 2 to http://server/services/orders.*lost"):
        pair.run(within=60)
    assert pair.clock.elapsed <= 60


def test_message_that_a_handler_always_refuses_is_reported_with_its_error() -> None:
    service = Service("orders")

    @service.operation
    def place_order(order: PlaceOrder) -> None:
        raise ValueError("the table is gone")

    pair = Pair(service)
    send(pair, 1)
    with pytest.raises(AssertionError, match=r"server: 1 for service orders \(.*the table is gone"):
        pair.run(within=60)


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", [False, True])
@pytest.mark.parametrize("lost", ["message 1", "response 1", "CreateSequence", "CreateSequenceResponse"])
def test_a_request_is_answered_once_whatever_is_lost(listen: bool, lost: str) -> None:
    desk = Desk()
    pair = Pair(desk.service, listen=listen)
    pair.wire.lose(lost)
    future = pair.to().request(PlaceOrder(id=7), response=OrderPlaced)
    pair.run()
    assert future.result(timeout=0) == OrderPlaced(id=7)
    assert desk.calls == 1


def test_a_fault_of_the_application_comes_to_the_future() -> None:
    pair = Pair(Desk().service)
    future = pair.to().request(PlaceOrder(id=13), response=OrderPlaced)
    pair.run()
    with pytest.raises(ApplicationFault, match="not this one"):
        future.result(timeout=0)


def test_a_callback_gets_the_response_after_a_crash_of_the_client() -> None:
    answers: list[int] = []
    pair = Pair(Desk().service)

    @pair.client.callback("placed")
    def placed(order: OrderPlaced) -> None:
        answers.append(order.id)

    pair.to().request_with_callback(PlaceOrder(id=7), "placed")
    pair.client.crash()
    pair.run()
    assert (answers, pair.client.crashes) == ([7], 1)


def test_a_future_does_not_outlive_its_process() -> None:
    pair = Pair(Desk().service)
    future = pair.to().request(PlaceOrder(id=7), response=OrderPlaced)
    pair.client.crash()
    with pytest.raises(SequenceFailed, match="crashed"):
        future.result(timeout=0)


# --- crashes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", range(1, 7))
@pytest.mark.parametrize("when", ["crash_before", "crash_after", "fail"])
@pytest.mark.parametrize("side", ["client", "server"])
def test_each_message_is_handled_once_wherever_a_process_crashes(shop: Shop, side: str, when: str, commit: int) -> None:
    pair = Pair(shop.service)
    send(pair, 5)
    getattr(getattr(pair, side).store, when)(commit)
    pair.run()
    assert shop.placed == ALL


def test_a_crash_in_a_handler_undoes_what_it_did() -> None:
    placed: list[int] = []
    service = Service("orders")

    @service.operation
    def place_order(tx: Transaction, order: PlaceOrder) -> None:
        tx.after_commit(lambda: placed.append(order.id))
        if pair.server.crashes < 2:
            pair.server.crash()

    pair = Pair(service)
    send(pair, 2)
    pair.run()
    assert (placed, pair.server.crashes) == ([1, 2], 2)


def test_messages_wait_for_a_server_that_is_down(shop: Shop) -> None:
    pair = Pair(shop.service)
    pair.server.kill()
    send(pair, 5)
    with pytest.raises(AssertionError, match="connection refused"):
        pair.run(within=60)
    pair.server.restart()
    pair.run()
    assert shop.placed == ALL


# --- stores and nodes ------------------------------------------------------------------------------------------------


def test_a_handler_writes_to_the_database_of_its_store(tmp_path: Path) -> None:
    service = Service("orders")

    @service.operation
    def place_order(tx: Transaction, order: PlaceOrder) -> None:
        tx.connection().execute(text("create table if not exists placed (id integer)"))
        tx.connection().execute(text("insert into placed values (:id)"), {"id": order.id})

    with Pair(service, server_store=f"sqlite:///{tmp_path}/server.db") as pair:
        pair.wire.lose("message 3")
        pair.server.store.crash_before(2)
        send(pair, 5)
        pair.run()
        with pair.server.transaction() as tx:
            rows = tx.connection().execute(text("select id from placed")).scalars().all()
    assert list(rows) == ALL
    assert pair.server.crashes == 1


def test_code_under_test_is_given_a_node_and_an_url(shop: Shop) -> None:
    """A `Node` is a `Mercury`: what takes one need not know that it is tested."""
    pair = Pair(shop.service, Desk().service)
    with pair.client.transaction() as tx:
        pair.client.to(pair.url("orders")).send(PlaceOrder(id=1), tx=tx)
    pair.run()
    assert shop.placed == [1]
    assert pair.client.to(pair.url(shop.service)).wait(0)


def test_the_server_sends_to_the_client(shop: Shop) -> None:
    back = Service("back")
    heard: list[int] = []

    @back.operation
    def notify(order: OrderPlaced) -> None:
        heard.append(order.id)

    pair = Pair(shop.service, client_services=[back], listen=True)
    pair.server.to("http://client/services/back", namespace=back.namespace).send(OrderPlaced(id=1))
    pair.run()
    assert heard == [1]


def test_without_a_name_there_must_be_one_service(shop: Shop) -> None:
    pair = Pair(shop.service, Desk().service)
    with pytest.raises(ConfigurationError, match="name a service"):
        pair.to()


def test_settings_of_the_environment_do_not_count(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERCURY_STORE", "postgresql+psycopg://nobody@nowhere/none")
    pair = Pair(shop.service)
    send(pair, 1)
    pair.run()
    assert shop.placed == [1]


def test_no_thread_is_started(shop: Shop) -> None:
    before = threading.active_count()
    pair = Pair(shop.service)
    send(pair, 1)
    pair.run()
    assert threading.active_count() == before


def test_address_that_nobody_listens_at_leads_to_the_next(shop: Shop) -> None:
    pair = Pair(shop.service)
    uri = f"failover:(http://nowhere.example/services/orders,{pair.url()})?randomize=false&initialReconnectDelay=10000"
    orders = pair.client.to(uri)
    orders.send(PlaceOrder(1))
    orders.send(PlaceOrder(2))
    pair.run()
    pair.advance(60)
    assert shop.placed == [1, 2]
    assert pair.waiting() == []
