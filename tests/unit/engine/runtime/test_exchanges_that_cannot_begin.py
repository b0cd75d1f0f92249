"""An exchange that cannot begin ends with an error, and stops no other: what has no end is in flight forever."""

from __future__ import annotations

import queue
import threading

import pytest

from mercury.engine.runtime.exchange_loop import ExchangeLoop
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.http_exchange import Post, Posted
from mercury.engine.runtime.transport import HttpTransport
from mercury.errors import TransportError
from mercury.wire.envelope import HttpMessage
from tests.acceptance.processes import eventually
from tests.unit.engine.runtime.test_transport import MESSAGE, OK, PATIENCE, serving


def ends_of(transport: HttpTransport, *urls: str) -> list[HttpMessage | Exception]:
    """Begin exchanges in one list; their ends."""
    ends: queue.Queue[Posted] = queue.Queue()
    posts = [Post(url, MESSAGE, number) for number, url in enumerate(urls)]
    transport.begin(posts, lambda posted: [ends.put(each) for each in posted])
    found = {each.about: each.result for each in (ends.get(timeout=PATIENCE) for _ in urls)}
    return [found[number] for number in range(len(urls))]


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example"])
def test_name_that_no_name_server_can_know_ends_its_exchange_and_no_other(host: str) -> None:
    with serving(OK) as (server, transport):
        wrong, right = ends_of(transport, f"http://{host}/", server.url)
    assert isinstance(wrong, TransportError)
    assert "is no name of a host" in str(wrong)
    assert isinstance(right, HttpMessage)


def test_unexpected_error_at_the_begin_of_an_exchange_ends_it_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with serving(OK) as (server, transport), monkeypatch.context() as patch:
        patch.setattr(HelperThreads, "run", refuse)
        wrong, right = ends_of(transport, "https://127.0.0.1:1/", server.url)
    assert isinstance(wrong, RuntimeError)
    assert isinstance(right, HttpMessage)


def test_thread_that_cannot_be_started_is_started_for_the_next_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with serving(OK) as (server, transport):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start"):
                transport.post("http://127.0.0.1:1/", MESSAGE)
        assert transport.post(server.url, MESSAGE).body == b"<b/>"


def test_call_made_while_the_thread_is_being_started_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper thread may be done with the first exchange before `Thread.start` has returned."""
    loop = HttpTransport().loop
    helper_asked, called = threading.Event(), threading.Event()
    start, start_loop = threading.Thread.start, loop._start

    def slow_start(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "mercury-exchanges":
            assert helper_asked.wait(PATIENCE)

    def asked_to_start() -> None:
        helper_asked.set()
        start_loop()

    def help_when_it_waits() -> None:
        eventually(lambda: loop._waits, "the loop waits")
        monkeypatch.setattr(ExchangeLoop, "_start", lambda _: asked_to_start())
        loop.run(called.set)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", slow_start)
        loop.run(threading.Thread(target=help_when_it_waits, daemon=True).start)
        assert called.wait(PATIENCE / 4)
    loop.close()
