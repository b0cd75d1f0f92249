"""A full garbage collection leaves out what existed when the runtime started, and nothing once it has stopped."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from mercury import Mercury
from mercury.engine.runtime.collector import FrozenObjects


class Circle:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def left_alone() -> weakref.ref[Circle]:
    return weakref.ref(Circle())


@pytest.fixture(autouse=True)
def _nothing_is_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_an_older_circle_is_collected_after_the_thaw_and_a_younger_one_at_once() -> None:
    frozen = FrozenObjects()
    before = left_alone()
    frozen.freeze()
    later = left_alone()
    gc.collect()
    assert (before() is None, later() is None) == (False, True)
    frozen.thaw()
    gc.collect()
    assert before() is None


def test_objects_that_the_application_has_frozen_stay_frozen() -> None:
    gc.freeze()
    frozen = FrozenObjects()
    frozen.freeze()
    frozen.thaw()
    assert gc.get_freeze_count() > 0


def test_of_two_runtimes_in_a_process_the_first_freezes_and_thaws() -> None:
    first, second = Mercury("memory:"), Mercury("memory:")
    first.start()
    assert gc.get_freeze_count() > 0
    second.start()
    second.stop()
    assert gc.get_freeze_count() > 0
    first.stop()
    assert gc.get_freeze_count() == 0
