"""Calls that block have threads of their own."""

from __future__ import annotations

import logging
import queue
import threading
from functools import partial

import pytest

from mercury.engine.runtime.helper_threads import HelperThreads
from tests.acceptance.processes import PATIENCE


def test_calls_for_which_no_thread_can_be_started_run_when_one_can(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    helpers, done = HelperThreads("helper"), queue.SimpleQueue[int]()
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(threading.Thread, "start", refuse)
        for number in (1, 2):
            helpers.run(partial(done.put, number))
    assert "can't start new thread" in caplog.text
    helpers.run(lambda: done.put(3))
    assert [done.get(timeout=PATIENCE) for _ in range(3)] == [1, 2, 3]


def test_call_that_finds_no_thread_runs_in_one_that_is_busy_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    helpers, done, go_on = HelperThreads("helper"), queue.SimpleQueue[str](), threading.Event()
    helpers.run(lambda: go_on.wait(PATIENCE))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        helpers.run(lambda: done.put(threading.current_thread().name))
    go_on.set()
    assert done.get(timeout=PATIENCE) == "helper-1"
