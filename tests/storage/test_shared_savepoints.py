"""Handlers of a run share a savepoint; when one fails, all of them are called again, each in its own."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest
from sqlalchemy import Connection, text

from mercury import ApplicationFault, MessageContext, Service, Settings, Transaction
from mercury.engine.delivery import shared
from mercury.engine.events import Delivered, HandlerFailed
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy, OnFailure
from mercury.storage.sql.postgres_dialect import Postgres
from mercury.testing import Pair
from tests.storage.placed_orders import INSERT, Order, PairOf, Placed, placed, send
from tests.unreadable import Unreadable

LIMIT = Settings().engine.invoke_batch


class Shop:
    """A service whose handlers insert their order, and then may fail."""

    def __init__(self, policy: DestinationPolicy | None = None) -> None:
        self.calls: list[int] = []
        #: Is called with each order, after its insert.
        self.check: Callable[[int, Transaction], object] = lambda _number, _tx: None
        self.service = Service("orders", policy=policy)

        @self.service.operation("Place")
        def place(order: Order, context: MessageContext, tx: Transaction) -> None:
            self._insert(order, tx)

        @self.service.operation("Ask")
        def ask(order: Order, tx: Transaction) -> Placed:
            self._insert(order, tx)
            return Placed(order.id)

    def _insert(self, order: Order, tx: Transaction) -> None:
        self.calls.append(order.id)
        tx.connection().execute(INSERT, {"id": order.id})
        self.check(order.id, tx)

    def refuse(self, *numbers: int, error: Exception | None = None) -> None:
        def check(number: int, _tx: Transaction) -> None:
            if number in numbers:
                raise error or ValueError("not this one")

        self.check = check


@pytest.fixture(autouse=True)
def _whole_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a savepoint lasts for the whole run."""
    monkeypatch.setattr(shared, "SHARED_SECONDS", 3600.0)


def failures(pair: Pair) -> list[tuple[int, int]]:
    """Number and attempt of each failure that observers see from now on."""
    seen: list[tuple[int, int]] = []
    pair.server.subscribe(
        lambda event: seen.append((event.number, event.attempt)) if isinstance(event, HandlerFailed) else None
    )
    return seen


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The round trips for savepoints in PostgreSQL."""
    seen: list[Sequence[str]] = []
    execute_all = Postgres.execute_all

    def counting(self: Postgres, connection: Connection, statements: Sequence[str]) -> None:
        seen.append(statements)
        execute_all(self, connection, statements)

    monkeypatch.setattr(Postgres, "execute_all", counting)
    return seen


def test_a_run_without_a_failure_has_one_savepoint(postgres_url: str, pair_of: PairOf, trips: list[object]) -> None:
    shop = Shop()
    pair = pair_of(shop, postgres_url)
    send(pair, range(1, LIMIT + 1))
    pair.run()
    assert placed(pair) == shop.calls == list(range(1, LIMIT + 1))
    assert len(trips) == 1


def test_only_the_message_that_fails_is_undone_and_tried_again(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    seen = failures(pair)
    shop.refuse(30)
    send(pair, range(1, 41))
    pair.advance(5)
    assert placed(pair) == list(range(1, 30))
    assert shop.calls[:60] == [*range(1, 31), *range(2, 31), 30], "together, and then each in its own savepoint"
    assert set(shop.calls[59:]) == {30}
    assert seen == [(30, attempt) for attempt in range(1, len(seen) + 1)], "what is undone for others is no attempt"
    shop.refuse()
    pair.run()
    assert placed(pair) == list(range(1, 41))


def test_the_first_call_in_a_savepoint_is_not_made_again_because_it_fails(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    pair = pair_of(shop, sql_url)
    seen = failures(pair)
    shop.refuse(2)
    send(pair, range(1, 11))
    pair.run()
    assert shop.calls == list(range(1, 11))
    assert placed(pair) == [1, *range(3, 11)]
    assert seen == [(2, 1)]
    assert len(pair.server.dead_letters()) == 1


def test_exception_without_a_text_is_a_failed_attempt_of_its_message_only(
    sql_url: str, pair_of: PairOf, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mercury")
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=2))
    pair = pair_of(shop, sql_url)
    shop.refuse(5, error=Unreadable())
    send(pair, range(1, 11))
    pair.run()
    assert placed(pair) == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert shop.calls.count(5) == 3, "in the shared savepoint, which is no attempt, and twice in its own"
    no_text = "Unreadable: (its text cannot be read)"
    assert [letter.reason for letter in pair.server.dead_letters()] == [f"given up: {no_text}"]
    again = [line for line in caplog.messages if "is called again after the" in line]
    assert [line.rpartition("savepoint: ")[2] for line in again] == [repr(no_text)]


def test_slow_handler_is_not_called_again_for_another_message(
    sql_url: str, pair_of: PairOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "SHARED_SECONDS", 0.0)
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    pair = pair_of(shop, sql_url)
    shop.refuse(8)
    send(pair, range(1, 11))
    pair.run()
    assert shop.calls == list(range(1, 11))
    assert placed(pair) == [1, 2, 3, 4, 5, 6, 7, 9, 10]


def test_handler_that_uses_no_database_is_called_once_for_each_attempt(sql_url: str) -> None:
    calls: list[int] = []
    service = Service("orders", policy=DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))

    @service.operation("Place")
    def place(order: Order) -> None:
        calls.append(order.id)
        if order.id == 8:
            raise ValueError("not this one")

    with Pair(service, server_store=sql_url) as pair:
        send(pair, range(1, 11))
        pair.run()
        assert calls == list(range(1, 11))
        assert len(pair.server.dead_letters()) == 1


def test_each_message_is_reported_as_delivered_once_although_its_call_was_repeated(
    sql_url: str, pair_of: PairOf
) -> None:
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    pair = pair_of(shop, sql_url)
    delivered: list[int] = []
    hooks: list[int] = []
    pair.server.subscribe(lambda event: delivered.append(event.number) if isinstance(event, Delivered) else None)

    def check(number: int, tx: Transaction) -> None:
        tx.after_commit(lambda: hooks.append(number))
        if number == 7:
            raise ValueError("not this one")

    shop.check = check
    send(pair, range(1, 11))
    pair.run()
    others = [1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert placed(pair) == delivered == hooks == others
    assert len(pair.server.dead_letters()) == 1


def test_fault_is_the_answer_to_one_request_and_the_others_get_one_response_each(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    shop.refuse(7, error=ApplicationFault("not this one", code="Refused"))
    futures: dict[int, Future[Placed]] = {}
    with pair.client.transaction() as tx:
        for number in range(1, 21):
            futures[number] = pair.to().request(Order(number), response=Placed, operation="Ask", tx=tx)
    pair.run()
    assert placed(pair) == [number for number in range(1, 21) if number != 7]
    with pytest.raises(ApplicationFault, match="not this one"):
        futures.pop(7).result(0)
    assert {number: future.result(0).id for number, future in futures.items()} == {number: number for number in futures}
    assert pair.client.dead_letters() == pair.server.dead_letters() == []


def test_under_at_most_once_no_message_is_handled_twice_although_one_fails(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(DestinationPolicy(assurance=DeliveryAssurance.AT_MOST_ONCE))
    pair = pair_of(shop, sql_url)
    shop.refuse(5)
    send(pair, range(1, 11))
    pair.run()
    assert Counter(shop.calls) == Counter(range(1, 11))
    assert placed(pair) == [1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_runs_after_a_failure_repeat_no_call_for_another(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    pair = pair_of(shop, sql_url)
    shop.refuse(*range(10, 1000, 10))
    runs = shared.SEPARATE_RUNS + 2
    repeated = []
    for first in range(1, 20 * runs, 20):
        shop.calls.clear()
        send(pair, range(first, first + 20))
        pair.run()
        repeated.append(len(shop.calls) - 20)
    assert repeated == [9] + [0] * shared.SEPARATE_RUNS + [9]
    assert placed(pair) == [number for number in range(1, 20 * runs + 1) if number % 10]


def test_message_that_breaks_a_deferred_constraint_is_skipped_alone(postgres_url: str, pair_of: PairOf) -> None:
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    pair = pair_of(shop, postgres_url)
    with pair.server.transaction() as tx:
        constraint = "alter table placed add constraint once unique (id) deferrable initially deferred"
        tx.connection().execute(text(constraint))
    send(pair, [1, 2, 3, 2, 4])
    pair.run()
    assert placed(pair) == [1, 2, 3, 4]
    assert len(pair.server.dead_letters()) == 1


def test_message_whose_left_statement_fails_is_skipped_alone(postgres_url: str, pair_of: PairOf) -> None:
    shop = Shop(DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    pair = pair_of(shop, postgres_url)

    def leave(number: int, tx: Transaction) -> None:
        tx.execute_later("insert into placed(id) select 100 / :divisor", {"divisor": number - 3})

    send(pair, [0])
    pair.run()  # a handler that uses the database
    shop.check = leave
    send(pair, [1, 2, 3, 4])
    pair.run()
    assert placed(pair) == [0, 1, -50, 2, -100, 4, 100]
    (letter,) = pair.server.dead_letters()
    assert "division by zero" in letter.reason


def test_session_of_a_handler_ends_with_its_call(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    sessions: list[object] = []

    def check(number: int, tx: Transaction) -> None:
        session = tx.session()
        sessions.append(session)
        session.execute(INSERT, {"id": 100 + number})
        if number == 2:
            session.rollback()

    shop.check = check
    send(pair, [1, 2, 3])
    pair.run()
    assert placed(pair) == [1, 101, 2, 3, 103]
    assert len(set(map(id, sessions))) == 3


def test_savepoints_that_handlers_leave_open_end_with_their_calls(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    nested: list[bool] = []

    def check(number: int, tx: Transaction) -> None:
        nested.append(tx.connection().in_nested_transaction())
        tx.connection().begin_nested()
        tx.connection().execute(INSERT, {"id": 100 + number})

    shop.check = check
    send(pair, [1, 2, 3])
    pair.run()
    assert placed(pair) == [1, 101, 2, 102, 3, 103]
    assert nested == [False, False, False]


def test_savepoint_of_a_handler_undoes_its_own_work_only(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)

    def check(number: int, tx: Transaction) -> None:
        with pytest.raises(LookupError), tx.savepoint():
            tx.connection().execute(INSERT, {"id": 100 + number})
            raise LookupError

    shop.check = check
    send(pair, [1, 2, 3])
    pair.run()
    assert placed(pair) == shop.calls == [1, 2, 3]


def test_process_that_dies_in_a_run_handles_all_of_it_again(sql_url: str, pair_of: PairOf) -> None:
    shop = Shop()
    pair = pair_of(shop, sql_url)
    died: list[int] = []

    def die(number: int, _tx: Transaction) -> None:
        if number == 20 and not died:
            died.append(number)
            pair.server.crash()

    shop.check = die
    send(pair, range(1, 41))
    pair.run()
    assert died == [20]
    assert placed(pair) == list(range(1, 41))
