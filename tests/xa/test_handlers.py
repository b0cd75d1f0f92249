"""A handler's work and the consumption of its message are committed together, in each form, with real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from mercury import ApplicationFault, DestinationPolicy, Mercury, MessageContext, OnFailure, Service, Transaction
from mercury.settings import load
from mercury.statemachine.retransmission import Backoff, RetransmissionPolicy
from tests.acceptance.processes import PATIENCE, eventually

from .places import Places

AGAIN = Backoff(base=0.01, cap=0.05)
SOON = RetransmissionPolicy(base=0.05, cap=0.2)


@dataclass
class Place:
    id: int


@dataclass
class IsPlaced:
    id: int


@contextmanager
def served(places: Places, *services: Service) -> Iterator[tuple[str, Mercury]]:
    """A server over these databases, and a client in memory."""
    settings = replace(load(environment={}), source=replace(load(environment={}).source, retransmission=SOON))
    with Mercury(
        places.store,
        resources={"app": places.app},
        decision_log=places.log,
        settings=settings,
        allow=["http://127.0.0.1:*"],
    ) as server:
        url = f"{server.listen(*services)}/services/{services[0].name}"
        with Mercury("memory:", settings=settings) as client:
            yield url, client


def test_handler_work_commits_with_consumption_and_response(any_places: Places) -> None:
    orders = Service("orders")

    @orders.operation
    def place(order: Place, tx: Transaction) -> IsPlaced:
        tx.connection("app").execute(text("insert into placed values (:id)"), {"id": order.id})
        return IsPlaced(order.id)

    with served(any_places, orders) as (url, client):
        sender = client.to(url)
        futures = [sender.request(Place(number), response=IsPlaced) for number in range(5)]
        assert [future.result(PATIENCE).id for future in futures] == [0, 1, 2, 3, 4]
        assert any_places.placed() == [0, 1, 2, 3, 4]
    assert any_places.prepared() == []


def test_a_handler_that_fails_leaves_nothing_and_is_tried_again(any_places: Places) -> None:
    orders = Service("orders", policy=DestinationPolicy(redelivery=AGAIN))
    attempts: list[tuple[int, int]] = []

    @orders.operation
    def place(order: Place, context: MessageContext) -> None:
        attempts.append((order.id, context.attempt))
        context.transaction.connection("app").execute(text("insert into placed values (:id)"), {"id": order.id})
        if order.id == 1 and context.attempt < 3:
            raise ValueError("not yet")

    with served(any_places, orders) as (url, client):
        with client.transaction() as tx:
            for number in range(3):
                client.to(url).send(Place(number), tx=tx)
        eventually(lambda: any_places.placed() == [0, 1, 2], "three orders")
    assert [attempt for number, attempt in attempts if number == 1][-3:] == [1, 2, 3]
    assert any_places.prepared() == []


def test_an_application_fault_undoes_the_work_and_answers_the_request(any_places: Places) -> None:
    orders = Service("orders")

    @orders.operation
    def place(order: Place, tx: Transaction) -> IsPlaced:
        tx.connection("app").execute(text("insert into placed values (:id)"), {"id": order.id})
        if order.id == 1:
            raise ApplicationFault("no more", code="OutOfStock")
        return IsPlaced(order.id)

    with served(any_places, orders) as (url, client):
        sender = client.to(url)
        futures = [sender.request(Place(number), response=IsPlaced) for number in range(3)]
        assert futures[0].result(PATIENCE) == IsPlaced(0)
        with pytest.raises(ApplicationFault, match="no more"):
            futures[1].result(PATIENCE)
        assert futures[2].result(PATIENCE) == IsPlaced(2)
    assert any_places.placed() == [0, 2]


def test_a_message_that_breaks_a_deferred_constraint_is_skipped_alone(any_places: Places) -> None:
    policy = DestinationPolicy(redelivery=AGAIN, on_failure=OnFailure.SKIP, max_attempts=2)
    orders = Service("orders", policy=policy)

    @orders.operation
    def place(order: Place, tx: Transaction) -> None:
        tx.connection("app").execute(text("insert into placed values (:id)"), {"id": order.id})
        if order.id == 1:
            tx.connection("app").execute(text("insert into child values (7)"))

    with served(any_places, orders) as (url, client):
        with client.transaction() as tx:
            for number in range(3):
                client.to(url).send(Place(number), tx=tx)
        eventually(lambda: any_places.placed() == [0, 2], "the others")
    assert any_places.prepared() == []


@pytest.mark.parametrize("goes_on", [True, False], ids=["next statement", "end"])
def test_handler_that_catches_the_loss_of_a_named_database_is_called_again_without_a_failed_attempt(
    any_places: Places, goes_on: bool
) -> None:
    orders = Service("orders", policy=DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))
    calls: list[int] = []

    @orders.operation
    def place(order: Place, tx: Transaction) -> None:
        insert, own = text("insert into placed values (:id)"), tx.connection("app")
        calls.append(order.id)
        if calls == [1]:
            with suppress(DBAPIError):
                own.execute(text("select pg_terminate_backend(pg_backend_pid())"))
            if not goes_on:
                return
        own.execute(insert, {"id": order.id})

    with served(any_places, orders) as (url, client):
        client.to(url).send(Place(1))
        eventually(lambda: len(calls) == 2, "a second call")
        eventually(lambda: any_places.placed() == [1], "the order")
    assert any_places.prepared() == []
