"""An unexpected error, in a thread that works for all peers, stops none of them; or the process shows it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mercury import Mercury
from mercury.engine.exchange import Answer, Arrival, Outgoing, Purpose
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.threads import Runtime
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire.envelope import EMPTY, Envelope, HttpMessage
from tests.acceptance.processes import eventually
from tests.patience import patience

PATIENCE = patience(30.0)
#: An HTTP message that is no envelope: the engine answers it with a fault.
ARRIVAL = Arrival(http=HttpMessage(b"<a/>", "text/xml"))
URL = "http://peer.example/desk"


class Failing:
    """Replaces a method: the first call raises, the following calls go to the method."""

    def __init__(self, error: BaseException, method: Callable[..., list[Answer]]) -> None:
        self._errors = [error]
        self._method = method

    def __call__(self, *arguments: Any, **how: Any) -> list[Answer]:
        if self._errors:
            raise self._errors.pop()
        return self._method(*arguments, **how)


class Replies:
    """The network: each post gets this reply, or raises this error."""

    def __init__(self, reply: HttpMessage | Exception) -> None:
        self._reply = reply

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        del url, message
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply

    def close(self) -> None:
        pass


def message() -> Outgoing:
    envelope = Envelope(
        soap=SoapVersion.SOAP12,
        addressing=AddressingVersion.WSA10,
        rm=RmVersion.RM11,
        action="urn:a",
        to=EndpointReference(URL),
        message_id="urn:m",
        body=EMPTY,
    )
    return Outgoing(url=URL, envelope=envelope, purpose=Purpose.MESSAGE)


def failing_at_first(error: BaseException) -> Mercury:
    """A Mercury whose engine raises at the first arrivals."""

    def made(engine: Engine, *rest: object) -> Runtime:
        engine.receive = Failing(error, engine.receive)  # type: ignore[method-assign]
        return Runtime(engine, *rest)  # type: ignore[arg-type]

    return Mercury("memory:", runtime=made)


def submitted(mercury: Mercury) -> queue.Queue[Answer]:
    """Receives the answer to an arrival."""
    answers: queue.Queue[Answer] = queue.Queue()
    assert mercury.running_runtime is not None
    mercury.running_runtime.submit(ARRIVAL, answers.put)
    return answers


def test_arrivals_after_an_unexpected_error_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    with failing_at_first(KeyError("unforeseen")) as mercury:
        assert submitted(mercury).get(timeout=PATIENCE).http == HttpMessage(b"", "", None, 500)
        following = submitted(mercury).get(timeout=PATIENCE).http
        assert b"Fault" in following.body
        assert mercury.watch.readiness()["workers"] == "ok"
        assert mercury.watch.ended_threads() == []
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


def test_answer_that_cannot_be_passed_on_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_answer: Answer) -> None:
        raise KeyError("unforeseen")

    with Mercury("memory:") as mercury:
        assert mercury.running_runtime is not None
        mercury.running_runtime.submit(ARRIVAL, refuse)
        assert submitted(mercury).get(timeout=PATIENCE).http.body
    assert "could not be passed on" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_that_ended_is_named_and_the_process_is_not_healthy() -> None:
    mercury = failing_at_first(SystemExit())
    assert mercury.watch.ended_threads() == [], "not started"
    with mercury:
        assert mercury.watch.ended_threads() == []
        submitted(mercury)
        committer = next(each for each in threading.enumerate() if each.name == "mercury-committer")
        committer.join(PATIENCE)
        assert mercury.watch.ended_threads() == ["mercury-committer"]
        assert mercury.watch.readiness()["workers"] == "not running"
    assert mercury.watch.ended_threads() == [], "stopped"


@pytest.mark.parametrize("place", ["of the reply", "of its envelope"])
def test_endpoint_whose_reply_cannot_be_read_counts_as_failing(place: str) -> None:
    ok = HttpMessage(b"<a/>", "text/xml")

    def made(engine: Engine, *rest: object) -> Runtime:
        if place == "of its envelope":
            engine.answered = Failing(KeyError("unforeseen"), lambda *_: [])  # type: ignore[method-assign, assignment]
        return Runtime(engine, *rest)  # type: ignore[arg-type]

    replies = Replies(ok if place == "of its envelope" else KeyError("unforeseen"))
    mercury = Mercury("memory:", runtime=made, transport=replies)
    with mercury:
        assert mercury.running_runtime is not None
        mercury.running_runtime.post([message()])
        eventually(lambda: "KeyError" in (mercury.last_error(URL) or ""), "it is named")
        assert mercury.running_runtime.endpoint_errors.slows(URL)


def test_target_of_a_redirect_is_named_in_the_error_of_the_endpoint_escaped_and_cut() -> None:
    target = "https://other.example/\x9b\u202e/" + "x" * 60_000
    mercury = Mercury("memory:", transport=Replies(HttpMessage(b"", "", None, 302, location=target)))
    with mercury:
        assert mercury.running_runtime is not None
        mercury.running_runtime.post([message()])
        error = eventually(lambda: mercury.last_error(URL), "it is named")
        where = r"'https://other.example/\x9b\u202e/" + "x" * 175 + "'"
        assert f"HTTP status 302 to {where}: redirects are not followed" in (error or "")


def test_long_content_type_of_a_reply_is_cut_in_the_error_of_the_endpoint() -> None:
    mercury = Mercury("memory:", transport=Replies(HttpMessage(b"<a/>", "x" * 60_000)))
    with mercury:
        assert mercury.running_runtime is not None
        mercury.running_runtime.post([message()])
        error = eventually(lambda: mercury.last_error(URL), "it is named")
        assert f"but with {'x' * 80}: that is not a SOAP endpoint" in (error or "")
