"""What the committer's thread keeps of an arrival that it has answered: nothing."""

from __future__ import annotations

import gc
import queue
import weakref

from mercury import Mercury
from mercury.engine.exchange import Answer, Arrival
from mercury.wire.envelope import HttpMessage
from tests.acceptance.processes import eventually


class Request(HttpMessage):
    """One that a weak reference can name."""


def test_answered_request_stays_in_memory_no_longer_although_no_other_one_comes() -> None:
    request = Request(b"<a/>", "text/xml")
    reference = weakref.ref(request)
    answers: queue.Queue[Answer] = queue.Queue()
    with Mercury("memory:") as mercury:
        assert mercury.running_runtime is not None
        mercury.running_runtime.submit(Arrival(http=request), answers.put)
        answers.get(timeout=30)
        del request
        # The fault for what is no envelope is an exception, whose traceback is part of a reference cycle.
        eventually(lambda: gc.collect() >= 0 and reference() is None, "the request is forgotten", 30)
