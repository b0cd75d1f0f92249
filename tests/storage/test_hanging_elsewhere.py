"""A handler that is called on arrival hangs in one process: another process on the store receives what it can."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from mercury import Mercury, Service
from mercury.engine.exchange import Answer, Arrival, OnAnswer
from mercury.wire.envelope import HttpMessage
from tests.acceptance.processes import eventually
from tests.patience import patience
from tests.scenario.foreign import RM11_SOAP12, Foreign, identifier_in
from tests.scenario.harness import NOTE, name_of

PATIENCE = patience(30.0)
FOREIGN = Foreign(RM11_SOAP12)


class Desk:
    """A process whose handler, usually quick, waits for `over` when it gets ``note slow``."""

    def __init__(self, url: str) -> None:
        self.over, self.began = threading.Event(), threading.Event()
        self.handled: list[str] = []
        service = Service("orders")

        @service.operation("Note", action=NOTE)
        def note(body: bytes) -> None:
            if b"slow" in body:
                self.began.set()
                assert self.over.wait(PATIENCE)
            self.handled.append(body.decode())

        self.mercury = Mercury(url)
        self.mercury.add_service(service)
        self.mercury.start()

    def post(self, http: HttpMessage) -> Future[Answer]:
        answer: Future[Answer] = Future()
        on_answer: OnAnswer = answer.set_result
        assert self.mercury.running_runtime is not None
        self.mercury.running_runtime.submit(Arrival(http=http, service="orders", peer="192.0.2.1"), on_answer)
        return answer

    def get(self, http: HttpMessage) -> str:
        return name_of(self.post(http).result(PATIENCE).http)

    def open(self) -> str:
        return identifier_in(self.post(FOREIGN.create()).result(PATIENCE).http)

    def know(self) -> None:
        """The handler is known to be quick, and there is another process."""
        assert self.get(FOREIGN.note(self.open(), 1, "known")) == "acknowledgement"
        assert self.mercury.running_runtime is not None
        engine = self.mercury.running_runtime._engine
        assert engine.on_arrival is not None
        times = engine.on_arrival.savepoints.times
        eventually(lambda: times.is_quick("orders"), "its time is known")
        engine.note_others(True)


@pytest.fixture
def desks(postgres_url: str) -> Iterator[tuple[Desk, Desk]]:
    first, second = Desk(postgres_url), Desk(postgres_url)
    try:
        for desk in (first, second):
            desk.know()
        yield first, second
    finally:
        first.over.set()
        second.mercury.stop()
        first.mercury.stop()


def test_process_receives_everything_else_while_a_handler_hangs_in_another_one(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    hanging = first.open()
    assert first.get(FOREIGN.note(hanging, 1)) == "acknowledgement"
    slow = first.post(FOREIGN.note(hanging, 2, "slow"))
    assert first.began.wait(PATIENCE)
    waits = second.post(FOREIGN.note(hanging, 3))
    other = second.open()
    for number in (1, 2):
        assert second.get(FOREIGN.note(other, number)) == "acknowledgement"
    assert not waits.done()
    first.over.set()
    assert name_of(slow.result(PATIENCE).http) == "acknowledgement"
    assert name_of(waits.result(PATIENCE).http) == "acknowledgement"
    eventually(lambda: len(first.handled + second.handled) == 7, "all are handled once")


def test_process_that_stops_in_time_stops_the_thread_for_postponed_arrivals(desks: tuple[Desk, Desk]) -> None:
    first, _ = desks
    before = [each for each in threading.enumerate() if each.name == "mercury-committer-3"]
    assert first.mercury.watch.ended_threads() == []
    first.mercury.stop()
    assert sum(each.is_alive() for each in before) == 1
