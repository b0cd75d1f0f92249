"""A handler that is called on arrival hangs in one process: another process on the store receives what it can."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from mercury.engine.exchange import Answer
from tests.acceptance.processes import eventually
from tests.hanging_desk import FOREIGN, PATIENCE, Desk
from tests.scenario.harness import name_of


def reply(answers: queue.Queue[Answer]) -> str:
    """The name of the reply, once it has come."""
    return name_of(answers.get(timeout=PATIENCE).http)


@pytest.fixture
def desks(postgres_url: str) -> Iterator[tuple[Desk, Desk]]:
    first, second = Desk(postgres_url), Desk(postgres_url)
    try:
        first.mercury.start()
        first.know()
        second.mercury.start()
        # Either of them handles it: the second one need not know that the handler is quick.
        assert reply(second.post(FOREIGN.note(second.open(), 1, "known"))) == "acknowledgement"
        for desk in (first, second):
            desk.engine.note_others(True)
        yield first, second
    finally:
        first.over.set()
        second.mercury.stop()
        first.mercury.stop()


def test_process_receives_everything_else_while_a_handler_hangs_in_another_one(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    hanging = first.open()
    first.be_quick()
    assert reply(first.post(FOREIGN.note(hanging, 1))) == "acknowledgement"
    first.be_quick()
    slow = first.post(FOREIGN.note(hanging, 2, "slow"))
    assert first.began.wait(PATIENCE)
    waits = second.post(FOREIGN.note(hanging, 3))
    other = second.open()
    for number in (1, 2):
        assert reply(second.post(FOREIGN.note(other, number))) == "acknowledgement"
    assert waits.empty()
    first.over.set()
    assert reply(slow) == "acknowledgement"
    assert reply(waits) == "acknowledgement"
    eventually(lambda: len(first.handled + second.handled) == 7, "all are handled once")


def test_process_that_stops_in_time_stops_the_thread_for_postponed_arrivals(desks: tuple[Desk, Desk]) -> None:
    first, _ = desks
    before = [each for each in threading.enumerate() if each.name == "mercury-committer-3"]
    assert first.mercury.watch.ended_threads() == []
    first.mercury.stop()
    assert sum(each.is_alive() for each in before) == 1
