"""A Mercury that was not started, and messages that will never arrive: waiting calls fail at once, with the reason."""

from __future__ import annotations

import http.client
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi import FastAPI

from mercury import (
    LetterFilter,
    Mercury,
    MercuryError,
    RetransmissionPolicy,
    Service,
    Settings,
    SourcePolicy,
)
from mercury.service.serving import BackgroundServer
from tests.acceptance.app import Ask, Note, Said
from tests.acceptance.processes import PATIENCE

NOWHERE = "http://127.0.0.1:1/services/desk"
TWICE = SourcePolicy(retransmission=RetransmissionPolicy(base=0.02, max_attempts=2))
#: For a peer that answers: its answer comes before the second attempt.
TWICE_SLOWLY = SourcePolicy(retransmission=RetransmissionPolicy(base=3.0, max_attempts=2))


def desk() -> Service:
    service = Service("desk")

    @service.operation
    def note(what: Note) -> None: ...

    return service


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    settings = Settings()
    server = BackgroundServer("127.0.0.1", 0, settings.tls)
    server.start(app, settings.http)
    try:
        yield server.url.removeprefix("http://")
    finally:
        server.stop()


def posted(netloc: str, path: str) -> int:
    connection = http.client.HTTPConnection(netloc, timeout=PATIENCE)
    try:
        connection.request("POST", path, b"<a/>")
        return connection.getresponse().status
    finally:
        connection.close()


# --- not started ---------------------------------------------------------------------------------------------------


def test_a_mounted_application_says_once_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    mercury = Mercury("memory:")
    outer = FastAPI()
    outer.mount("/inner", mercury.app(desk()))
    with serving(outer) as server:
        assert [posted(server, "/inner/services/desk") for _ in range(3)] == [503, 503, 503]
    mercury.stop()
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "503" in errors[0]
    assert "lifespan=mercury.lifespan" in errors[0]
    assert "mounted" in errors[0]


def test_arrival_after_an_orderly_stop_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    mercury = Mercury("memory:")
    with serving(mercury.app(desk())) as server:
        mercury.stop()
        assert posted(server, "/services/desk") == 503
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_sender_that_is_used_before_the_start_says_so_instead_of_a_time_out() -> None:
    mercury = Mercury("memory:")
    orders = mercury.to(NOWHERE)
    assert orders.wait(timeout=0), "nothing was sent yet"
    orders.send(Note("kept for the start"))
    future = orders.request(Ask("too soon"), response=Said)
    begun = time.monotonic()
    with pytest.raises(MercuryError, match=r"not started.*mercury\.start\(\)"):
        orders.wait(timeout=PATIENCE)
    with pytest.raises(MercuryError, match=r"not started.*mercury\.start\(\)"):
        future.result(timeout=PATIENCE)
    assert time.monotonic() - begun < PATIENCE / 2
    assert "not started" in (orders.last_error or "")
    mercury.stop()


# --- dead letters --------------------------------------------------------------------------------------------------


def test_waiting_is_no_success_when_messages_became_dead_letters() -> None:
    with Mercury("memory:") as mercury:
        orders = mercury.to(NOWHERE, policy=TWICE)
        orders.send(Note("one"))
        orders.send(Note("two"))
        waited = orders.wait(timeout=PATIENCE)
        assert not waited
        assert (waited.settled, waited.dead, waited.left) == (True, 2, 0)
        assert "2 dead" in str(waited)
        assert "Connection refused" in str(waited)
        assert mercury.to(NOWHERE).wait(timeout=PATIENCE), "what died before a sender was made is not its business"


def test_waiting_too_short_says_what_waits_and_why() -> None:
    with Mercury("memory:") as mercury:
        orders = mercury.to(NOWHERE)
        orders.send(Note("one"))
        waited = orders.wait(timeout=0.5)
        assert not waited
        assert (waited.settled, waited.dead, waited.left) == (False, 0, 1)
        assert "1 still wait" in str(waited)
        assert "Connection refused" in str(waited)


def test_a_dead_letter_says_why_nobody_could_be_reached() -> None:
    with Mercury("memory:") as mercury:
        orders = mercury.to(NOWHERE, policy=TWICE)
        orders.send(Note("one"))
        orders.wait(timeout=PATIENCE)
        (letter,) = mercury.dead_letters(LetterFilter(key="default"))
    assert letter.reason.startswith("given up, never sent: no sequence was made in 2 attempts: ")
    assert "http://127.0.0.1:1/services/desk" in letter.reason
    assert "Connection refused" in letter.reason


def test_a_dead_letter_says_how_often_it_was_sent_and_what_came_back() -> None:
    with Mercury("memory:") as server:
        url = server.listen(desk())
        with Mercury("memory:") as mercury:
            orders = mercury.to(f"{url}/services/desk", policy=TWICE_SLOWLY)
            orders.send(Note("one"))
            assert orders.wait(timeout=PATIENCE)
            server.stop()
            orders.send(Note("two"))
            assert not orders.wait(timeout=PATIENCE)
            (letter,) = mercury.dead_letters()
    assert letter.reason.startswith(f"given up after 2 transmissions: {url}/services/desk: ")
