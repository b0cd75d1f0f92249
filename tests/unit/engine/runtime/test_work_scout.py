"""A process with nothing to do asks the store once in a while, and finds what no wake-up has announced."""

from __future__ import annotations

import threading
from typing import Any

from mercury import Mercury
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.threads import Runtime
from mercury.engine.runtime.work_scout import WorkScout
from mercury.storage.api import Topic
from tests.patience import patience

PATIENCE = patience(10.0)
NOW = 1_800_000_000.0


class Scouting:
    """A scout that polls every second, and what it does."""

    def __init__(self) -> None:
        self.due: dict[Topic, float] = {}
        self.queries = 0
        self.woken: list[Topic] = []
        self.scout = WorkScout(self._work_due, self.woken.append, 1.0)

    def _work_due(self, _now: float) -> dict[Topic, float]:
        self.queries += 1
        return self.due

    def until(self, begin: float, end: float) -> None:
        """Run whenever something is due, as the pool does."""
        now = begin
        while now < end:
            self.scout.run_once(now)
            due = self.scout.next_due()
            assert due is not None
            assert now < due <= now + 1.0
            now = due


def test_nothing_to_do_costs_one_query_a_second() -> None:
    scouting = Scouting()
    scouting.until(NOW, NOW + 60)
    assert scouting.queries == 60
    assert scouting.woken == []


def test_work_that_is_due_wakes_its_worker() -> None:
    scouting = Scouting()
    scouting.due = {Topic.RMS: NOW - 5}
    scouting.scout.run_once(NOW)
    assert scouting.woken == [Topic.RMS]
    scouting.scout.run_once(NOW + 0.5)
    assert scouting.woken == [Topic.RMS], "the worker finds all of it"
    scouting.scout.run_once(NOW + 1)
    assert scouting.woken == [Topic.RMS, Topic.RMS], "it may have failed"


def test_work_that_becomes_due_between_two_queries_is_not_late() -> None:
    scouting = Scouting()
    scouting.due = {Topic.RMD: NOW + 0.3, Topic.RMS: NOW + 7}
    scouting.scout.run_once(NOW)
    assert scouting.scout.next_due() == NOW + 0.3
    assert scouting.woken == []
    scouting.scout.run_once(NOW + 0.3)
    assert scouting.woken == [Topic.RMD]
    assert scouting.queries == 1


def test_a_clock_that_was_set_back_causes_a_query() -> None:
    scouting = Scouting()
    scouting.scout.run_once(NOW)
    scouting.scout.run_once(NOW - 3600)
    assert scouting.queries == 2
    assert scouting.scout.next_due() == NOW - 3599


def test_work_on_sources_that_is_found_is_searched_for_although_commits_name_what_they_have_appended() -> None:
    searched = threading.Event()

    def made(engine: Engine, *rest: Any) -> Runtime:
        engine.work_due = lambda now: {Topic.RMS: now}  # type: ignore[method-assign]
        engine.source.appended.search = searched.set  # type: ignore[method-assign]
        return Runtime(engine, *rest)

    with Mercury("memory:", runtime=made):
        assert searched.wait(PATIENCE)
