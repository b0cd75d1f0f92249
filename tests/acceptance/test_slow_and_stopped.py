"""A process with a slow handler, and its log lines when it ends with unfinished work."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

import pytest

from mercury import Mercury, Service
from tests.acceptance.processes import PATIENCE, eventually


@dataclass(frozen=True)
class Note:
    text: str


def test_a_slow_handler_stops_neither_reception_nor_acknowledgements() -> None:
    service = Service("desk")
    begun, may_go_on, handled = threading.Event(), threading.Event(), []

    @service.operation
    def note(what: Note) -> None:
        begun.set()
        assert may_go_on.wait(PATIENCE)
        handled.append(what.text)

    server = Mercury("memory:")
    url = server.listen(service) + "/services/desk"
    try:
        with Mercury("memory:") as client:
            desk, other = client.to(url), client.to(url, key="other")
            desk.send(Note("one"))
            assert begun.wait(PATIENCE)
            for text in ("two", "three"):
                desk.send(Note(text))
            other.send(Note("four"))
            # Acknowledged: the wait ends while the first is still in its handler.
            assert desk.wait(PATIENCE)
            assert other.wait(PATIENCE)
            assert handled == []
            may_go_on.set()
            eventually(lambda: len(handled) == 4, "the rest is handled")
    finally:
        may_go_on.set()
        server.stop()
    assert [text for text in handled if text != "four"] == ["one", "two", "three"]


def test_messages_lost_with_a_memory_store_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="mercury"), Mercury("memory:") as client:
        desk = client.to("http://127.0.0.1:1/services/desk")
        for text in ("one", "two"):
            desk.send(Note(text))
    (said,) = [record.getMessage() for record in caplog.records if "lost with the store" in record.getMessage()]
    assert said.endswith("2 sent and not done, 0 received and not consumed")


def test_nothing_is_counted_when_nothing_is_left(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="mercury"), Mercury("memory:"):
        pass
    assert caplog.records == []
