"""A process that stops while its committer is busy answers what the committer postpones then."""

from __future__ import annotations

import queue
import threading

from mercury import Mercury
from mercury.engine.exchange import Answer, Arrival
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.threads import Runtime
from mercury.wire.envelope import HttpMessage
from tests.patience import patience

PATIENCE = patience(30.0)
BUSY = HttpMessage(b"", "", None, 503)
#: Seconds in which a thread that was told to end has ended.
SOON = 0.5


def test_arrival_that_is_postponed_while_the_process_stops_is_refused() -> None:
    began, stopping = threading.Event(), threading.Event()
    later: list[threading.Thread] = []

    def receive(arrivals: list[Arrival], _now: float, *, delivers: bool, postpones: bool) -> list[Answer]:
        if delivers:
            began.set()
            assert stopping.wait(PATIENCE)
            later[0].join(SOON)  # it would end now if it were told to
        return [Answer(http=BUSY, postponed=postpones) for _ in arrivals]

    def made(engine: Engine, *rest: object) -> Runtime:
        engine.receive = receive  # type: ignore[method-assign, assignment]
        return Runtime(engine, *rest)  # type: ignore[arg-type]

    mercury = Mercury("memory:", runtime=made)
    answers: queue.Queue[Answer] = queue.Queue()
    mercury.start()
    runtime = mercury.running_runtime
    assert runtime is not None
    later += [each for each in runtime._committers if each.name == "mercury-committer-3"]
    runtime.submit(Arrival(http=HttpMessage(b"<a/>", "text/xml")), answers.put)
    assert began.wait(PATIENCE)
    close = runtime._arrivals.close
    runtime._arrivals.close = lambda: (close(), stopping.set())  # type: ignore[method-assign, assignment, func-returns-value]
    mercury.stop()
    assert answers.get(timeout=SOON).http == BUSY
    assert not later[0].is_alive()
