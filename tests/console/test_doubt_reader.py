"""The count of transactions in doubt for the overview: databases that do not answer do not delay the page."""

from __future__ import annotations

import threading

from mercury.console.doubt_reader import DoubtReader
from mercury.engine.lateness import WatchSettings
from mercury.errors import TransientStorageError
from mercury.operations.overview import Severity, problems
from mercury.operations.transactions import InDoubt
from mercury.storage.searching import Count, Depth

ONE = InDoubt(many=1, oldest=140.0, away=0)
NOTHING = Depth(
    unsent=Count(0),
    unacknowledged=Count(0),
    unanswered=Count(0),
    unhandled=Count(0),
    dead_letters=Count(0),
    in_doubt=Count(0),
)


def test_a_database_that_is_slow_is_asked_once_and_the_page_does_not_wait_for_it() -> None:
    answers, asked = threading.Event(), []

    def slow() -> InDoubt:
        asked.append(1)
        answers.wait(20)
        return ONE

    reader = DoubtReader(slow, patience=0.01)
    assert [reader.now(), reader.now()] == [None, None]
    answers.set()
    assert asked == [1]


def test_databases_that_cannot_be_read_are_asked_again_the_next_time() -> None:
    answers = iter([TransientStorageError("no route to host"), ONE])

    def read() -> InDoubt:
        answer = next(answers)
        if isinstance(answer, InDoubt):
            return answer
        raise answer

    reader = DoubtReader(read)
    assert [reader.now(), reader.now()] == [None, ONE]


def test_a_transaction_in_doubt_is_the_first_problem_unless_recovery_is_about_to_finish_it() -> None:
    watch = WatchSettings()
    (found,) = problems(NOTHING, (), (), watch, 0.0, ONE)
    assert found.severity is Severity.CRITICAL
    assert found.text == "1 transaction is in doubt and holds locks in databases, the oldest for 2 min 20 s"
    assert problems(NOTHING, (), (), watch, 0.0, InDoubt(many=1, oldest=3.0, away=0)) == ()
    assert problems(NOTHING, (), (), watch, 0.0, InDoubt(many=0, oldest=0.0, away=0)) == ()
