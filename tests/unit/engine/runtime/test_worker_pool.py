"""The threads of one worker: they do not poll without need, and no work is left undone."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mercury.engine.exchange import Step
from mercury.engine.runtime.worker_pool import MOST_GATHERED, WorkerPool
from mercury.errors import TransientStorageError
from tests.patience import patience

PATIENCE = patience(10.0)
NAMES = [f"worker-{number}" for number in range(3)]


class FakeWorker:
    """Reports when it looks for work, and does what the test says."""

    def __init__(self) -> None:
        self.looks: queue.Queue[str] = queue.Queue()
        self.orders: queue.Queue[Step] = queue.Queue()
        self.due: float | None = None
        self.asked = 0

    def run_once(self, now: float) -> Step:
        self.looks.put(threading.current_thread().name)
        return self.orders.get(timeout=PATIENCE)

    def next_due(self) -> float | None:
        self.asked += 1
        return self.due

    def looked(self) -> str:
        return self.looks.get(timeout=PATIENCE)


@contextmanager
def pool(worker: FakeWorker, threads: int = 3, poll: float = 3600.0) -> Iterator[WorkerPool]:
    """A pool at rest: all its threads have looked, and found nothing."""
    made = WorkerPool(NAMES[:threads], worker, lambda known: known.run_once(0.0), poll, time.time)
    made.start()
    for _ in range(threads):
        worker.looked()
    for _ in range(threads):
        worker.orders.put(Step())
    while not all(thread.waits for thread in made.threads):
        assert threading.Event().wait(0.001) is False
    try:
        yield made
    finally:
        made.stop()
        for _ in range(threads):
            worker.orders.put(Step())
        for thread in made.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_thread_that_is_woken_lets_work_gather_for_as_long_as_its_turn_took() -> None:
    made = WorkerPool([], FakeWorker(), lambda known: known.run_once(0.0), 1.0, time.time)
    assert made.gathering(Step(progress=1, more=False), 0.004) == 0.004
    assert made.gathering(Step(progress=1, more=False), 3.0) == MOST_GATHERED, "a long turn delays nothing for long"
    assert made.gathering(Step(progress=1, more=True), 0.004) == 0.0, "a backlog is worked on at once"
    assert made.gathering(Step(more=False), 0.004) == 0.0, "nothing was done: this is no stream"


def test_while_work_gathers_another_thread_is_woken_as_a_backup_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that lets it gather counts as busy."""
    made = WorkerPool(NAMES[:2], FakeWorker(), lambda known: known.run_once(0.0), 1.0, time.time)
    gathering, other = made.threads
    gathering.waits = other.waits = True
    gathering.began = time.monotonic()
    slept: list[float] = []

    def woken(seconds: float) -> None:
        slept.append(seconds)
        made.wake()

    monkeypatch.setattr("mercury.engine.runtime.worker_pool.time.sleep", woken)
    gathering.let_gather(0.004)
    assert slept == [0.004]
    assert not gathering.woken.is_set()
    assert other.is_backup
    gathering.let_gather(-0.001)
    assert len(slept) == 1, "the time has passed already"


def test_a_call_wakes_one_thread() -> None:
    worker = FakeWorker()
    with pool(worker) as made:
        made.wake()
        worker.looked()
        worker.orders.put(Step())
        assert worker.looks.empty()


def test_thread_woken_while_at_work_polls_again() -> None:
    """Even if it has found nothing: the work came after it looked."""
    worker = FakeWorker()
    with pool(worker, threads=1) as made:
        made.wake()
        name = worker.looked()
        made.wake()
        worker.orders.put(Step())
        assert worker.looked() == name
        worker.orders.put(Step())


def test_thread_that_made_progress_polls_again_at_once() -> None:
    worker = FakeWorker()
    with pool(worker, threads=1) as made:
        asked = worker.asked
        made.wake()
        worker.looked()
        worker.orders.put(Step(progress=1))
        worker.looked()
        assert worker.asked == asked
        worker.orders.put(Step())


def test_a_backup_replaces_a_late_thread() -> None:
    """A handler may take long; other sequences do not wait for it."""
    worker = FakeWorker()
    with pool(worker) as made:
        made.wake()
        late = worker.looked()
        made.wake()
        assert worker.looked() != late
        for _ in range(2):
            worker.orders.put(Step())


def test_more_work_than_one_can_do_wakes_another_at_once() -> None:
    worker = FakeWorker()
    with pool(worker) as made:
        made.wake()
        first = worker.looked()
        made.wake_one()
        assert worker.looked() != first
        for _ in range(2):
            worker.orders.put(Step())


def test_sequences_claimed_by_others_are_skipped() -> None:
    """They look again when they have done: to ask the store when that is would be in vain."""
    worker = FakeWorker()
    with pool(worker, threads=1) as made:
        worker.due = 0.0
        asked = worker.asked
        made.wake()
        worker.looked()
        worker.orders.put(Step(shared=True))
        made.wake()
        worker.looked()
        assert worker.asked == asked
        worker.due = None
        worker.orders.put(Step())


def fail_once(worker: FakeWorker, failure: Exception) -> None:
    """A pool of one thread, which polls, fails in its next turn and goes on."""
    with pool(worker, threads=1, poll=0.01) as made:
        worker.looked()
        failures = iter([failure])

        def turn(known: object) -> Step:
            for each in failures:
                raise each
            return worker.run_once(0.0)

        made.turn = turn
        worker.orders.put(Step())
        worker.looked()
        assert next(failures, None) is None
        worker.orders.put(Step())


def test_failed_work_is_retried() -> None:
    fail_once(FakeWorker(), RuntimeError("broken"))


def test_a_store_that_is_away_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Every try of every thread fails: the reason is logged once."""
    fail_once(FakeWorker(), TransientStorageError("connection refused"))
    (line,) = [each for each in caplog.records if each.name == "mercury.store"]
    assert (line.getMessage(), line.exc_info) == (
        "the store fails: connection refused; worker-0 waits, like all work, until the store answers",
        None,
    )


def test_thread_that_has_left_nothing_rests_without_asking_the_store() -> None:
    worker = FakeWorker()
    with pool(worker, threads=1) as made:
        asked = worker.asked
        made.wake()
        worker.looked()
        worker.orders.put(Step(progress=1, more=False, drained=True))
        made.wake()
        worker.looked()
        assert worker.asked == asked
        worker.orders.put(Step())


def test_store_is_asked_after_a_turn_that_may_have_postponed_something_even_if_the_next_has_left_nothing() -> None:
    """A handler has failed, and nothing else is due now: when is it called again?"""
    worker = FakeWorker()
    with pool(worker, threads=1) as made:
        asked = worker.asked
        made.wake()
        worker.looked()
        worker.orders.put(Step(progress=1))
        worker.looked()
        worker.orders.put(Step(more=False, drained=True))
        made.wake()
        worker.looked()
        assert worker.asked == asked + 1
        worker.orders.put(Step())


def test_thread_rests_on_if_the_work_that_would_be_due_now_is_done() -> None:
    """A message would be sent again now, and its acknowledgement has come."""
    worker = FakeWorker()
    seen: queue.Queue[float | None] = queue.Queue()
    times: list[float | None] = [None, time.time() + 0.02]

    def due() -> float | None:
        found = times.pop() if times else None
        seen.put(found)
        return found

    with pool(worker, threads=1) as made:
        asked = worker.asked
        made.wake()
        worker.looked()
        worker.orders.put(Step(progress=1, more=False, drained=True, due=due))
        assert seen.get(timeout=PATIENCE) is not None
        assert seen.get(timeout=PATIENCE) is None
        assert worker.looks.empty()
        assert worker.asked == asked
        made.wake()
        worker.looked()
        worker.orders.put(Step())


def test_thread_looks_when_the_work_that_it_has_planned_is_due() -> None:
    worker = FakeWorker()
    with pool(worker, threads=1) as made:
        made.wake()
        worker.looked()
        soon = time.time() + 0.02
        worker.orders.put(Step(progress=1, more=False, drained=True, due=lambda: soon))
        worker.looked()
        worker.orders.put(Step())
