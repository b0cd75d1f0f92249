"""What is remembered of peers is bounded: they choose how many names they have."""

from __future__ import annotations

import pytest

from mercury.bounded import BoundedDict


@pytest.fixture
def full() -> BoundedDict[str, int]:
    made: BoundedDict[str, int] = BoundedDict(3)
    for number, name in enumerate("abc"):
        made[name] = number
    return made


def test_the_entry_that_was_set_longest_ago_is_dropped(full: BoundedDict[str, int]) -> None:
    full["d"] = 3
    assert full == {"b": 1, "c": 2, "d": 3}


def test_an_entry_that_is_set_again_is_the_newest_and_drops_none(full: BoundedDict[str, int]) -> None:
    full["a"] = 9
    assert list(full.items()) == [("b", 1), ("c", 2), ("a", 9)]
    full["d"] = 3
    assert list(full) == ["c", "a", "d"]


def test_an_entry_that_is_moved_is_the_newest(full: BoundedDict[str, int]) -> None:
    full.move_to_end("a")
    full["d"] = 3
    assert list(full) == ["c", "a", "d"]
