"""Handlers that take lists: one call and one savepoint for many messages, and each message alone after a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest
from sqlalchemy import Connection

from mercury import (
    ApplicationFault,
    ConfigurationError,
    Contract,
    MessageContext,
    Service,
    Settings,
    Transaction,
    operation,
)
from mercury.engine.events import Delivered, HandlerFailed
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy, OnFailure
from mercury.storage.sql.postgres_dialect import Postgres
from mercury.testing import Pair
from tests.storage.placed_orders import INSERT, Order, PairOf, Placed, placed, send
from tests.unreadable import Unreadable


class Shop:
    """A service whose handlers take lists. Each call inserts all its orders, and then may fail."""

    def __init__(self, batch: int = 100, policy: DestinationPolicy | None = None) -> None:
        #: The ids of each call.
        self.calls: list[list[int]] = []
        self.attempts: list[int] = []
        #: Is called with each order of a call, after the inserts.
        self.check: Callable[[Order], object] = lambda _order: None
        self.service = Service("orders", policy=policy)

        @self.service.operation("Place", batch=batch)
        def place(orders: list[Order], contexts: list[MessageContext], tx: Transaction) -> None:
            self.attempts += [context.attempt for context in contexts]
            assert [context.number for context in contexts] == sorted(context.number for context in contexts)
            self._insert(orders, tx)

        @self.service.operation("Ask", batch=batch)
        def ask(orders: Sequence[Order], tx: Transaction) -> list[Placed]:
            self._insert(orders, tx)
            return [Placed(order.id) for order in orders if order.id >= 0]

        @self.service.operation("One")
        def one(order: Order, tx: Transaction) -> None:
            self._insert([order], tx)

    def _insert(self, orders: Sequence[Order], tx: Transaction) -> None:
        self.calls.append([order.id for order in orders])
        for order in orders:
            tx.connection().execute(INSERT, {"id": order.id})
        for order in orders:
            self.check(order)


def refuse(number: int, error: Exception) -> Callable[[Order], None]:
    def check(order: Order) -> None:
        if order.id == number:
            raise error

    return check


def test_handler_gets_the_messages_of_a_sequence_in_order_in_lists(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(batch=40)
    pair = pair_of(shop, sql_url)
    seen: list[object] = []
    pair.server.subscribe(seen.append)
    send(pair, range(1, 101))
    pair.run()
    assert placed(pair) == list(range(1, 101))
    assert max(map(len, shop.calls)) == 40
    assert len(shop.calls) < 10
    assert set(shop.attempts) == {1}
    assert sum(isinstance(event, Delivered) for event in seen) == 100


def test_list_is_larger_than_invoke_batch_if_the_operation_says_so(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(batch=100)
    pair = pair_of(shop, sql_url)
    send(pair, [1])
    pair.run()
    send(pair, range(2, 202))
    pair.run()
    assert placed(pair) == list(range(1, 202))
    assert max(map(len, shop.calls)) > Settings().engine.invoke_batch


def test_one_of_a_hundred_that_fails_is_tried_again_alone_and_the_others_stay(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    failures: list[HandlerFailed] = []
    pair.server.subscribe(lambda event: failures.append(event) if isinstance(event, HandlerFailed) else None)
    shop.check = refuse(50, ValueError("not this one"))
    send(pair, range(1, 101))
    pair.advance(5)
    assert placed(pair) == list(range(1, 50))
    assert {(failure.number, failure.attempt) for failure in failures} == {
        (50, attempt) for attempt in range(1, len(failures) + 1)
    }
    assert len(failures) > 1
    assert all(call == [50] for call in [call for call in shop.calls if 50 in call][1:])
    shop.check = lambda _order: None
    pair.run()
    assert placed(pair) == list(range(1, 101))


def test_message_that_is_skipped_after_its_attempts_is_the_only_dead_letter(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(policy=DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=2))
    pair = pair_of(shop, sql_url)
    shop.check = refuse(50, ValueError("not this one"))
    send(pair, range(1, 101))
    pair.run()
    assert placed(pair) == [number for number in range(1, 101) if number != 50]
    assert len(pair.server.dead_letters()) == 1


def test_exception_without_a_text_is_a_failed_attempt_of_its_message_only(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(policy=DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=2))
    pair = pair_of(shop, sql_url)
    shop.check = refuse(5, Unreadable())
    send(pair, range(1, 11))
    pair.run()
    assert placed(pair) == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert [letter.reason for letter in pair.server.dead_letters()] == [
        "given up: Unreadable: (its text cannot be read)"
    ]


def test_fault_is_the_answer_to_one_request_and_the_others_get_their_responses(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    shop.check = refuse(7, ApplicationFault("not this one", code="Refused"))
    sender = pair.to()
    futures: dict[int, Future[Placed]] = {}
    with pair.client.transaction() as tx:
        for number in range(1, 31):
            futures[number] = sender.request(Order(number), response=Placed, operation="Ask", tx=tx)
    pair.run()
    assert placed(pair) == [number for number in range(1, 31) if number != 7]
    with pytest.raises(ApplicationFault, match="not this one"):
        futures.pop(7).result(0)
    assert {number: future.result(0).id for number, future in futures.items()} == {number: number for number in futures}


def test_unreadable_body_is_refused_alone(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    sender = pair.to()
    with pair.client.transaction() as tx:
        sender.send(Order(1), operation="Place", tx=tx)
        sender.send(b'<Place xmlns="urn:mercury:app"><id>two</id></Place>', operation="Place", tx=tx)
        sender.send(Order(3), operation="Place", tx=tx)
    pair.run()
    assert placed(pair) == [1, 3]
    (letter,) = pair.server.dead_letters()
    assert "cannot be read" in letter.reason


def test_wrong_number_of_responses_is_an_error_of_the_handler(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(policy=DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    pair = pair_of(shop, sql_url)
    sender = pair.to()
    with pair.client.transaction() as tx:
        futures = [sender.request(Order(number), response=Placed, operation="Ask", tx=tx) for number in (1, -2, 3)]
    pair.run(within=60.0)  # one attempt each
    assert placed(pair) == [1, 3]
    assert [futures[0].result(0).id, futures[2].result(0).id] == [1, 3]
    with pytest.raises(ApplicationFault):
        futures[1].result(0)


@pytest.mark.parametrize("assurance", list(DeliveryAssurance))
def test_every_delivery_assurance_delivers_in_order(
    sql_url: str, pair_of: PairOf, assurance: DeliveryAssurance
) -> None:
    shop = Shop(policy=DestinationPolicy(assurance=assurance))
    pair = pair_of(shop, sql_url)
    send(pair, range(1, 61))
    pair.run()
    assert placed(pair) == list(range(1, 61))
    longest = max(map(len, shop.calls))
    assert longest == 1 if assurance is DeliveryAssurance.AT_MOST_ONCE else longest > 1


def test_under_at_most_once_no_message_is_handled_twice_although_one_fails(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(policy=DestinationPolicy(assurance=DeliveryAssurance.AT_MOST_ONCE))
    pair = pair_of(shop, sql_url)
    shop.check = refuse(5, ValueError("not this one"))
    send(pair, range(1, 11))
    pair.run()
    assert Counter(number for call in shop.calls for number in call) == Counter(range(1, 11))


def test_other_operations_of_the_service_end_a_list(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    sender = pair.to()
    with pair.client.transaction() as tx:
        for number in range(1, 31):
            sender.send(Order(number), operation="One" if number % 10 == 0 else "Place", tx=tx)
    pair.run()
    assert placed(pair) == list(range(1, 31))
    assert max(map(len, shop.calls)) > 1
    assert all(len(call) == 1 or not any(number % 10 == 0 for number in call) for call in shop.calls)


def test_list_has_one_savepoint(postgres_url: str, pair_of: PairOf, monkeypatch: pytest.MonkeyPatch) -> None:
    trips: list[Sequence[str]] = []
    execute_all = Postgres.execute_all

    def counting(self: Postgres, connection: Connection, statements: Sequence[str]) -> None:
        trips.append(statements)
        execute_all(self, connection, statements)

    monkeypatch.setattr(Postgres, "execute_all", counting)

    def savepoints(name: str, ids: Sequence[int]) -> int:
        trips.clear()
        send(pair, ids, name)
        pair.run()
        return len(trips)

    shop = Shop()
    pair = pair_of(shop, postgres_url)
    send(pair, [1])
    pair.run()
    assert savepoints("Place", range(2, 102)) <= len(shop.calls)


def test_process_that_dies_in_a_list_handles_all_of_it_again(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    died: list[int] = []

    def die(order: Order) -> None:
        if order.id == 20 and not died:
            died.append(order.id)
            pair.server.crash()

    shop.check = die
    send(pair, range(1, 31))
    pair.run()
    assert died == [20]
    assert placed(pair) == list(range(1, 31))


class Orders(Contract):
    @operation
    def place(self, order: Order) -> None: ...

    @operation(action="urn:orders:Ask")
    def ask(self, order: Order) -> Placed:
        raise NotImplementedError


def test_contract_has_handlers_for_lists() -> None:
    orders = Orders("orders")
    calls: list[list[int]] = []

    @orders.place.handler(batch=10)
    def place(given: list[Order]) -> None:
        calls.append([order.id for order in given])

    @orders.ask.handler(batch=10)
    def ask(given: list[Order]) -> list[Placed]:
        return [Placed(order.id) for order in given]

    with Pair(orders) as pair:
        client = pair.client.to(pair.url(orders), service=orders)
        with pair.client.transaction() as tx:
            for number in range(1, 6):
                client.place(Order(number), tx=tx)
            answer = client.ask(Order(6), tx=tx)
        pair.run()
    assert [number for call in calls for number in call] == [1, 2, 3, 4, 5]
    assert len(calls) < 5
    assert answer.result(0) == Placed(6)


@pytest.mark.parametrize("batch", [0, -1])
def test_batch_is_at_least_one(batch: int) -> None:
    with pytest.raises(ConfigurationError, match="batch"):

        @Service("orders").operation(batch=batch)
        def place(orders: list[Order]) -> None: ...


def test_types_of_a_handler_for_lists_are_lists() -> None:
    service = Service("orders")
    with pytest.raises(ConfigurationError, match="parameter 'order': with batch= it is a list"):

        @service.operation(batch=10)
        def place(order: Order) -> None: ...

    with pytest.raises(ConfigurationError, match="the result: with batch= it is a list"):

        @service.operation(batch=10)
        def ask(orders: list[Order]) -> Placed:
            raise NotImplementedError
