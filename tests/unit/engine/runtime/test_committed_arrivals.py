"""What the committer's thread does behind its commit: it answers, then posts, and keeps nothing of the arrivals."""

from __future__ import annotations

import gc
import queue
import weakref
from collections.abc import Sequence
from typing import Any

from mercury import Mercury
from mercury.engine.exchange import Answer, Arrival, Outgoing
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.threads import Runtime
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


def test_an_empty_answer_leaves_before_the_reply_that_is_posted() -> None:
    """CXF takes an empty answer that comes behind the reply for the reply (docs/interop.md): its call fails."""
    happened: queue.Queue[str] = queue.Queue()
    reply: Any = "reply"

    def answered(arrivals: Sequence[Arrival], *_: object, **__: object) -> list[Answer]:
        return [Answer(http=HttpMessage(b"", "", None, 202), posts=(reply,)) for _ in arrivals]

    class Recording(Runtime):
        """Notes posts instead of sending them."""

        def post(self, posts: list[Outgoing]) -> None:
            for each in posts:
                happened.put(str(each))

    def made(engine: Engine, *rest: Any) -> Runtime:
        engine.receive = answered  # type: ignore[method-assign]
        return Recording(engine, *rest)

    with Mercury("memory:", runtime=made) as mercury:
        assert mercury.running_runtime is not None
        mercury.running_runtime.submit(Arrival(http=Request(b"<a/>", "text/xml")), lambda _: happened.put("answer"))
        assert [happened.get(timeout=30), happened.get(timeout=30)] == ["answer", "reply"]
