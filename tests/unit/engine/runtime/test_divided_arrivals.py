"""Arrivals are divided into transactions by the time that their calls take: what there is no time for is stored."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

import pytest

from mercury import Mercury
from mercury.engine.exchange import Answer, Arrival
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.group_commit import GROUP_COMMIT_CALLS
from mercury.engine.runtime.threads import Runtime
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage
from tests.patience import patience
from tests.scenario.desk import Desk

PATIENCE = patience(30.0)


def arrived(desk: Desk, sequence: str, http: HttpMessage | None = None) -> Arrival:
    """A message of a sequence to the desk's service, decoded, as the endpoint passes it."""
    http = http or desk.foreign.note(sequence, 1)
    envelope = decode(http.body, http.content_type, http.soap_action)
    assert isinstance(envelope, Envelope)
    return Arrival(http=http, envelope=envelope, service=desk.node.service_url.partition("/services/")[2])


def taking(desk: Desk, seconds: float) -> str:
    """A sequence of which one message was delivered on arrival, whose handler took so long."""

    def take(*_: object) -> None:
        desk.world.now += seconds

    sequence = desk.open()
    desk.node.on_call = take
    desk.note(sequence, 1)
    assert desk.called == [1]
    return sequence


def test_calls_of_an_arrival_take_as_long_as_those_before() -> None:
    desk = Desk()
    sequence = taking(desk, 0.004)
    assert desk.node.engine.call_seconds(arrived(desk, sequence)) == pytest.approx(0.002), "weighs as much as the first"


def test_arrival_without_messages_needs_no_calls() -> None:
    desk = Desk()
    sequence = taking(desk, 0.004)
    end = desk.foreign.terminate(sequence)
    assert desk.node.engine.call_seconds(arrived(desk, sequence, end)) == 0.0


def test_messages_that_are_stored_need_no_calls_when_they_arrive() -> None:
    desk = Desk(known=False)
    assert desk.node.engine.call_seconds(arrived(desk, desk.open())) == 0.0


def test_arrivals_that_need_more_calls_than_there_is_time_for_have_transactions_of_their_own() -> None:
    transactions: list[int] = []

    def made(engine: Engine, *rest: Any) -> Runtime:
        receive = engine.receive

        def received(arrivals: Sequence[Arrival], now: float, **how: bool) -> list[Answer]:
            transactions.append(len(arrivals))
            return receive(arrivals, now, **how)

        engine.receive = received  # type: ignore[method-assign, assignment]
        engine.call_seconds = lambda _: GROUP_COMMIT_CALLS * 0.4  # type: ignore[method-assign]
        return Runtime(engine, *rest)

    answers: queue.Queue[Answer] = queue.Queue()
    mercury = Mercury("memory:", runtime=made)
    with mercury:
        runtime = mercury.running_runtime
        assert runtime is not None
        runtime._arrivals.put([(Arrival(http=HttpMessage(b"<a/>", "text/xml")), answers.put)] * 5)
        assert all(b"Fault" in answers.get(timeout=PATIENCE).http.body for _ in range(5))
    assert transactions == [2, 2, 1]
