"""The time limit of a handler: what takes longer has no effect, counts as a failed attempt, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from mercury import ConfigurationError, Mercury, MessageContext, Service
from mercury.engine.application import Operation
from mercury.engine.delivery.time_limit import HandlerTooSlow, within_limit
from mercury.statemachine.policy import DestinationPolicy, OnFailure
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.opening import open_store
from mercury.testing.contract.builders import rmd_record
from tests.acceptance.processes import PATIENCE, eventually

from .shop import Order, settings

#: Less time than any call takes.
NO_TIME = 1e-9
TWICE = DestinationPolicy(
    redelivery=RetransmissionPolicy(base=0.01, cap=0.01, jitter=0.0), on_failure=OnFailure.SKIP, max_attempts=2
)


@pytest.fixture
def memory() -> Iterator[Mercury]:
    """A process that is not started."""
    mercury = Mercury("memory:", settings=settings())
    yield mercury
    mercury.stop()


def placing(calls: list[int], **limits: float) -> Service:
    """A shop whose handler writes the order in its transaction."""
    shop = Service("shop", policy=TWICE, **limits)

    @shop.operation("put")
    def put(order: Order, context: MessageContext) -> None:
        calls.append(order.id)
        context.transaction.connection().execute(text("insert into placed values (:id)"), {"id": order.id})

    @shop.operation("patient", time_limit=PATIENCE)
    def patient(order: Order, context: MessageContext) -> None:
        put(order, context)

    return shop


def test_work_of_a_handler_that_took_too_long_is_rolled_back_and_the_next_message_goes_on(sql_url: str) -> None:
    engine = create_engine(sql_url)
    with engine.begin() as connection:
        connection.execute(text("create table placed (id integer)"))
    calls: list[int] = []
    server = Mercury(sql_url, settings=settings())
    try:
        url = server.listen(placing(calls, time_limit=NO_TIME))
        with Mercury("memory:", settings=settings()) as client:
            orders = client.to(f"{url}/services/shop")
            orders.send(Order(1), operation="put")
            orders.send(Order(2), operation="patient")
            assert orders.wait(PATIENCE)
            (letter,) = eventually(server.dead_letters, "order 1 is given up")
            assert "HandlerTooSlow: it took" in letter.reason
            assert "its time limit is 1e-09 s" in letter.reason
            eventually(lambda: 2 in calls, "the next one is handled")
    finally:
        server.stop()
    with engine.connect() as connection:
        assert connection.execute(text("select id from placed")).scalars().all() == [2]
    engine.dispose()
    assert calls == [1, 1, 2]


@pytest.mark.parametrize(("took", "late"), [(4.9, False), (5.0, False), (5.1, True)])
def test_a_call_may_take_as_long_as_its_limit_and_no_longer(memory: Mercury, took: float, late: bool) -> None:
    operation = Operation(name="put", action="urn:put", response_action=None, call=lambda *_: None, time_limit=5.0)
    times, never = iter([0.0, took]), iter(())
    with memory.transaction() as tx:
        if late:
            with pytest.raises(HandlerTooSlow, match=r"it took 5.1 s, and its time limit is 5 s"):
                within_limit(operation, tx, lambda: next(times), lambda: "done")
        else:
            assert within_limit(operation, tx, lambda: next(times), lambda: "done") == "done"
        assert within_limit(replace(operation, time_limit=None), tx, lambda: next(never), lambda: "done") == "done"


def test_a_call_that_fails_in_time_fails_with_its_own_error_and_one_that_fails_late_is_too_slow(
    memory: Mercury,
) -> None:
    operation = Operation(name="put", action="urn:put", response_action=None, call=lambda *_: None, time_limit=5.0)

    def fails() -> None:
        raise LookupError("no such order")

    with memory.transaction() as tx:
        in_time, late = iter([0.0, 4.0]), iter([0.0, 6.0])
        with pytest.raises(LookupError):
            within_limit(operation, tx, lambda: next(in_time), fails)
        with pytest.raises(HandlerTooSlow) as raised:
            within_limit(operation, tx, lambda: next(late), fails)
    assert isinstance(raised.value.__cause__, LookupError)


def test_a_statement_that_outlasts_the_limit_is_ended_and_the_sequence_goes_on(postgres_url: str) -> None:
    """A statement in the database would wait for ever: PostgreSQL ends it, and the next message is handled."""
    shop, limits = Service("shop", policy=replace(TWICE, max_attempts=1)), []

    @shop.operation("put", time_limit=0.2)
    def put(order: Order, context: MessageContext) -> None:
        connection = context.transaction.connection()
        limits.append(connection.scalar(text("show statement_timeout")))
        if order.id == 1:
            connection.execute(text("select pg_sleep(3600)"))

    @shop.operation("unlimited")
    def unlimited(order: Order, context: MessageContext) -> None:
        limits.append(context.transaction.connection().scalar(text("show statement_timeout")))

    server = Mercury(postgres_url, settings=settings())
    try:
        url = server.listen(shop)
        with Mercury("memory:", settings=settings()) as client:
            orders = client.to(f"{url}/services/shop")
            with client.transaction() as tx:
                for number, operation in ((1, "put"), (2, "put"), (3, "unlimited")):
                    orders.send(Order(number), operation=operation, tx=tx)
            (letter,) = eventually(server.dead_letters, "order 1 is given up")
            assert "HandlerTooSlow" in letter.reason
            eventually(lambda: len(limits) == 3, "the others are handled")
    finally:
        server.stop()
    assert limits == ["200ms", "200ms", "0"], "the limit is that of the handler, and ends with it"


@pytest.mark.parametrize(("set_before", "during"), [("50ms", "50ms"), ("10s", "200ms"), ("0", "200ms")])
def test_the_limit_leaves_a_shorter_one_and_restores_what_was_set(
    postgres_url: str, set_before: str, during: str
) -> None:
    store = open_store(postgres_url)
    show = text("show statement_timeout")
    try:
        with store.transaction() as tx:
            connection = tx.connection()
            connection.execute(text(f"set local statement_timeout = '{set_before}'"))
            with tx.savepoint(), tx.limited_statements(0.2):
                assert tx.connection().scalar(show) == during
            assert connection.scalar(show) == set_before
            with pytest.raises(LookupError), tx.savepoint(), tx.limited_statements(0.2):
                tx.connection()
                raise LookupError
            assert connection.scalar(show) == set_before
    finally:
        store.close()


def test_a_limit_that_no_call_keeps_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="time_limit"):
        Service("shop", time_limit=0)
    with pytest.raises(ConfigurationError, match="time_limit"):
        Service("shop").operation("put", time_limit=-1)


@pytest.mark.parametrize("written", [True, False], ids=["behind a change", "at first"])
def test_handler_that_catches_the_error_of_its_savepoint_ends_within_its_limit(
    postgres_url: str, written: bool
) -> None:
    """The rollback to the savepoint has restored the limit from before; the next statement is limited again."""
    setting = text("select current_setting('statement_timeout')")
    with closing(open_store(postgres_url)) as store, store.transaction() as tx:
        if written:
            tx.rmd.insert(rmd_record("urn:1"))
        with tx.limited_statements(5.0):
            with pytest.raises(ProgrammingError), tx.savepoint():
                tx.connection().execute(text("select nothing"))
            if written:
                assert tx.connection().execute(setting).scalar_one() == "5s"
        assert tx.connection().execute(setting).scalar_one() == "0"


def test_limit_that_was_rolled_back_is_not_restored_again(postgres_url: str) -> None:
    """What an application rolls back by itself takes the limit with it, without a word to Mercury."""
    setting = text("select current_setting('statement_timeout')")
    with closing(open_store(postgres_url)) as store, store.transaction() as tx:
        with tx.limited_statements(5.0):
            tx.connection().execute(text("set mercury.statement_timeout = ''"))
        assert tx.connection().execute(setting).scalar_one() == "5s"
