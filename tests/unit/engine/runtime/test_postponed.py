"""Arrivals whose sequence another transaction has locked are tried again, and refused as busy in the end."""

from __future__ import annotations

import queue
import threading

import pytest

from mercury.engine.exchange import Arrival, Waiting
from mercury.engine.runtime import postponed
from mercury.engine.runtime.postponed import PATIENCE as MOST_SECONDS
from mercury.engine.runtime.postponed import PostponedArrivals
from mercury.wire.envelope import HttpMessage
from tests.acceptance.processes import eventually
from tests.patience import patience

PATIENCE = patience(30.0)


def arrival(text: str) -> Waiting:
    return Arrival(http=HttpMessage(text.encode(), "", None)), None


def words(waiting: list[Waiting]) -> list[str]:
    return [each.http.body.decode() for each, _ in waiting]


class Later:
    """The thread's work, which a test does; those that are `held` cannot be handled."""

    def __init__(self, most: int = 10, together: int = 2) -> None:
        self.now = 0.0
        self.held: set[str] = set()
        #: Each transaction: what was handled, and whether none might wait longer.
        self.transactions: list[tuple[list[str], bool]] = []
        self.postponed = PostponedArrivals(most, together, self._answer, lambda: self.now)

    def _answer(self, waiting: list[Waiting], refuses: bool) -> list[Waiting]:
        self.transactions.append((words(waiting), refuses))
        return [] if refuses else [each for each in waiting if words([each])[0] in self.held]

    def put(self, *texts: str) -> None:
        self.postponed.put([arrival(text) for text in texts])

    def try_again(self) -> tuple[bool, list[tuple[list[str], bool]]]:
        self.transactions.clear()
        return self.postponed.try_again(), self.transactions


def test_all_that_can_be_handled_is_and_the_rest_waits_on() -> None:
    later = Later()
    later.put("a", "b", "c")
    later.held = {"b"}
    assert later.try_again() == (True, [(["a", "b"], False), (["c"], False)])
    assert later.postponed.length == 1
    later.put("d")
    assert later.try_again() == (True, [(["b", "d"], False)])
    assert later.try_again() == (False, [(["b"], False)])
    later.held.clear()
    assert later.try_again() == (True, [(["b"], False)])
    assert later.try_again() == (False, [])


def test_arrival_that_has_waited_for_long_is_refused() -> None:
    later = Later()
    later.put("a")
    later.held = {"a", "b"}
    later.now = MOST_SECONDS - 0.1
    later.put("b")
    assert later.try_again() == (False, [(["a", "b"], False)])
    later.now = MOST_SECONDS
    assert later.try_again() == (True, [(["a"], True), (["b"], False)])
    assert later.postponed.length == 1


def test_arrivals_above_the_most_that_may_wait_are_refused_at_once() -> None:
    later = Later(most=1)
    later.put("a", "b")
    later.held = {"a", "b"}
    assert later.try_again() == (True, [(["b"], True), (["a"], False)])


def test_arrivals_that_come_while_others_are_tried_wait_behind_them() -> None:
    later = Later()
    later.held = {"a"}
    later.put("a")
    answer = later._answer

    def meanwhile(waiting: list[Waiting], refuses: bool) -> list[Waiting]:
        later.put("b")
        return answer(waiting, refuses)

    later.postponed._answer = meanwhile
    later.try_again()
    later.postponed._answer = answer
    assert later.try_again() == (True, [(["a", "b"], False)])


# --- the thread -------------------------------------------------------------------------------------------------------


def test_thread_tries_until_nothing_waits_and_refuses_what_is_left_at_its_end() -> None:
    answers: queue.Queue[tuple[list[str], bool]] = queue.Queue()
    held = threading.Event()
    held.set()

    def answer(waiting: list[Waiting], refuses: bool) -> list[Waiting]:
        answers.put((words(waiting), refuses))
        return waiting if held.is_set() and not refuses else []

    later = PostponedArrivals(10, 10, answer)
    later.thread.start()
    later.put([arrival("a")])
    for _ in range(3):
        assert answers.get(timeout=PATIENCE) == (["a"], False)
    held.clear()
    eventually(lambda: later.length == 0, "it is handled")
    held.set()
    later.put([arrival("b")])
    later.end()
    later.thread.join(PATIENCE)
    assert not later.thread.is_alive()
    assert later.length == 0
    *_, last = iter(answers.queue)
    assert last == (["b"], True)


def test_pauses_grow_while_nothing_can_be_handled_and_begin_anew_after_something_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postponed, "LONGEST_PAUSE", 4 * postponed.FIRST_PAUSE)
    pauses: list[float] = []
    turns = iter([False, False, False, True, False])
    later = PostponedArrivals(10, 10, lambda _waiting, _refuses: [])

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return len(pauses) > 5

    monkeypatch.setattr(later, "_ended", Ended())
    monkeypatch.setattr(later, "try_again", lambda: next(turns, False))
    later.put([arrival("a")])
    later._run()
    assert [round(pause / postponed.FIRST_PAUSE) for pause in pauses] == [1, 2, 4, 4, 1, 2]
