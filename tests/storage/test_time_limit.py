"""The time limit of a handler: what takes longer has no effect, counts as a failed attempt, and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text

from mercury import ConfigurationError, Mercury, MessageContext, Service
from mercury.engine.application import Operation
from mercury.engine.delivery.time_limit import HandlerTooSlow, within_limit
from mercury.statemachine.policy import DestinationPolicy, OnFailure
from mercury.statemachine.retransmission import RetransmissionPolicy
from tests.acceptance.processes import PATIENCE, eventually

from .shop import Order, settings

#: Less time than any call takes.
NO_TIME = 1e-9
TWICE = DestinationPolicy(
    redelivery=RetransmissionPolicy(base=0.01, cap=0.01, jitter=0.0), on_failure=OnFailure.SKIP, max_attempts=2
)


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
def test_a_call_may_take_as_long_as_its_limit_and_no_longer(took: float, late: bool) -> None:
    operation = Operation(name="put", action="urn:put", response_action=None, call=lambda *_: None, time_limit=5.0)
    times = iter([0.0, took])
    if late:
        with pytest.raises(HandlerTooSlow, match=r"it took 5.1 s, and its time limit is 5 s"):
            within_limit(operation, lambda: next(times), lambda: "done")
    else:
        assert within_limit(operation, lambda: next(times), lambda: "done") == "done"
    never = iter(())
    assert within_limit(replace(operation, time_limit=None), lambda: next(never), lambda: "done") == "done"


def test_a_limit_that_no_call_keeps_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="time_limit"):
        Service("shop", time_limit=0)
    with pytest.raises(ConfigurationError, match="time_limit"):
        Service("shop").operation("put", time_limit=-1)
