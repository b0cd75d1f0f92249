"""Observers of a running Mercury: their names, the threads that call them, and observers that raise."""

from __future__ import annotations

import threading

import pytest

from mercury import DestinationPolicy, Mercury, OnFailure, Service, events
from mercury.errors import ConfigurationError
from tests.acceptance.app import Note
from tests.acceptance.processes import eventually


def desk(*, fails: bool = False) -> Service:
    """A service with one operation."""
    service = Service("desk", policy=DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=1))

    @service.operation
    def note(what: Note) -> None:
        if fails:
            raise LookupError(what.text)

    return service


def test_observers_see_every_kind_of_event_of_a_message_in_threads_of_mercury() -> None:
    seen: list[tuple[events.Event, str]] = []
    lock = threading.Lock()

    def watch(event: events.Event) -> None:
        with lock:
            seen.append((event, threading.current_thread().name))

    with Mercury("memory:", observers=[watch]) as mercury:
        sender = mercury.to(f"{mercury.listen(desk())}/services/desk", listen=False)
        receipt = sender.send(Note("hello"))
        sender.close()
        assert sender.wait(30)
        eventually(lambda: sum(type(event) is events.SequenceEnded for event, _ in seen) >= 2, "both sides end")
    kinds = [type(event) for event, _ in seen]
    for kind in (events.Transmitted, events.Accepted, events.Delivered, events.Acknowledged):
        assert kinds.count(kind) == 1
    assert [event.message_id for event, _ in seen if isinstance(event, events.Delivered)] == [receipt.message_id]
    assert {thread for _, thread in seen if not thread.startswith("mercury-")} == set()


def test_subscription_takes_one_kind_and_ends_when_it_is_called() -> None:
    seen: list[events.Delivered] = []
    with Mercury("memory:") as mercury:
        sender = mercury.to(f"{mercury.listen(desk())}/services/desk", listen=False)
        end = mercury.subscribe(seen.append, events.Delivered)
        sender.send(Note("one"))
        eventually(lambda: len(seen) == 1, "it is seen")
        end()
        sender.send(Note("two"))
        assert sender.wait(30)
    assert [(event.service, event.handler) for event in seen] == [("desk", "note")]
    with pytest.raises(ConfigurationError):
        Mercury("memory:").subscribe(print, str)  # type: ignore[type-var]


def test_error_callback_is_an_observer_of_dead_letters_refusals_and_failed_sequences() -> None:
    seen: list[events.Event] = []
    with Mercury("memory:") as mercury:
        sender = mercury.to(f"{mercury.listen(desk(fails=True))}/services/desk", listen=False)

        @mercury.on_error
        def problem(event: events.SequenceFailed | events.MessageRefused | events.DeadLettered) -> None:
            seen.append(event)

        receipt = sender.send(Note("lost"))
        eventually(lambda: seen, "it is seen")
        sender.send("<a/>", action="urn:nothing")
        eventually(lambda: len(seen) > 1, "it is seen")
    dead, refused = seen[0], seen[1]
    assert isinstance(dead, events.DeadLettered)
    assert [letter.message_id for letter in dead.letters] == [receipt.message_id]
    assert "lost" in dead.reason
    assert isinstance(refused, events.MessageRefused)


def test_observer_that_raises_harms_neither_the_message_nor_the_next_observer(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[events.Event] = []

    class Stumbling:
        def __call__(self, event: events.Event) -> None:
            raise ZeroDivisionError

        def __repr__(self) -> str:
            return "<the stumbling one>"

    with Mercury("memory:", observers=[Stumbling(), seen.append]) as mercury:
        sender = mercury.to(f"{mercury.listen(desk())}/services/desk", listen=False)
        sender.send(Note("one"))
        sender.send(Note("two"))
        assert sender.wait(30)
        eventually(lambda: sum(isinstance(event, events.Delivered) for event in seen) == 2, "both are seen")
    lines = [record.getMessage() for record in caplog.records if "stumbling" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("the observer <the stumbling one> failed with ")
