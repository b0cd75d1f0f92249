"""A process whose handler is called on arrival, and hangs when it is told to."""

from __future__ import annotations

import queue
import threading

from mercury import Mercury, Service
from mercury.engine.delivery.call_times import CallTimes
from mercury.engine.exchange import Answer, Arrival
from mercury.engine.runtime.core import Engine
from mercury.wire.envelope import HttpMessage
from tests.acceptance.processes import eventually
from tests.patience import patience
from tests.scenario.foreign import RM11_SOAP12, Foreign, identifier_in
from tests.scenario.harness import NOTE, name_of

PATIENCE = patience(30.0)
FOREIGN = Foreign(RM11_SOAP12)


class Desk:
    """Its handler, usually quick, waits for `over` when it gets ``note slow``.

    :param url: of its store.
    """

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

    @property
    def engine(self) -> Engine:
        assert self.mercury.running_runtime is not None
        return self.mercury.running_runtime._engine

    @property
    def times(self) -> CallTimes:
        """How long the calls of its handler have taken."""
        delivery = self.engine.on_arrival
        assert delivery is not None
        return delivery.savepoints.times

    def post(self, http: HttpMessage) -> queue.Queue[Answer]:
        """Returns at once; the queue gets the answer."""
        answers: queue.Queue[Answer] = queue.Queue()
        assert self.mercury.running_runtime is not None
        self.mercury.running_runtime.submit(Arrival(http=http, service="orders", peer="192.0.2.1"), answers.put)
        return answers

    def open(self) -> str:
        return identifier_in(self.post(FOREIGN.create()).get(timeout=PATIENCE).http)

    def know(self) -> None:
        """The handler is known to be quick."""
        known = self.post(FOREIGN.note(self.open(), 1, "known")).get(timeout=PATIENCE)
        assert name_of(known.http) == "acknowledgement"
        eventually(lambda: self.handled, "it is handled")
        eventually(lambda: self.times.is_quick("orders"), "its time is known")

    def be_quick(self) -> None:
        """The handler counts as quick, however long its calls took on a busy machine."""
        for _ in range(10):
            self.times.took(["orders"], 0.0, 1, 1)
