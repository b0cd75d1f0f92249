"""While a runtime runs, collections leave out what existed before, and are rare; afterwards they are as before."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from mercury import Mercury
from mercury.engine.runtime.collector import YOUNG, Collector


class Circle:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def left_alone() -> weakref.ref[Circle]:
    return weakref.ref(Circle())


@pytest.fixture(autouse=True)
def _nothing_is_changed() -> Iterator[None]:
    before = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_an_older_circle_is_collected_after_the_restore_and_a_younger_one_at_once() -> None:
    collector = Collector()
    before = left_alone()
    collector.adapt()
    later = left_alone()
    gc.collect()
    assert (before() is None, later() is None) == (False, True)
    collector.restore()
    gc.collect()
    assert before() is None


def test_objects_that_the_application_has_frozen_stay_frozen() -> None:
    gc.freeze()
    collector = Collector()
    collector.adapt()
    collector.restore()
    assert gc.get_freeze_count() > 0


def test_of_two_runtimes_in_a_process_the_first_changes_and_restores_it() -> None:
    first, second = Mercury("memory:"), Mercury("memory:")
    first.start()
    assert (gc.get_freeze_count() > 0, gc.get_threshold()) == (True, (YOUNG, 10, 10))
    second.start()
    second.stop()
    assert (gc.get_freeze_count() > 0, gc.get_threshold()) == (True, (YOUNG, 10, 10))
    first.stop()
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, (700, 10, 10))


def test_threshold_that_the_application_has_set_stays() -> None:
    gc.set_threshold(5000, 5, 5)
    collector = Collector()
    collector.adapt()
    assert gc.get_threshold() == (5000, 5, 5)
    collector.restore()
    assert gc.get_threshold() == (5000, 5, 5)


def test_threshold_that_the_application_sets_meanwhile_stays() -> None:
    collector = Collector()
    collector.adapt()
    gc.set_threshold(5000, 5, 5)
    collector.restore()
    assert gc.get_threshold() == (5000, 5, 5)


def test_circles_are_collected_after_some_thousand_young_objects() -> None:
    collector = Collector()
    collector.adapt()
    circle = left_alone()
    kept: list[list[int]] = []
    while circle() is not None:
        kept.append([])
        assert len(kept) <= 2 * YOUNG, "it would never be collected"
    assert len(kept) > YOUNG // 2, "each young object would be looked at soon"
    collector.restore()
