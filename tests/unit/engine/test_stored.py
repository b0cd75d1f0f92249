"""Stored bytes, counted by one process."""

from __future__ import annotations

import pytest

from mercury.engine.stored import BYTES_PER_SECOND, StoredBytes


class Store:
    """Says how much it has, and counts how often it was read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return self.size


def test_a_total_is_read_once_a_second_and_what_this_process_adds_counts_at_once() -> None:
    stored, store = StoredBytes(10), Store(100)
    assert [stored.of("a", now, store.read) for now in (0.0, 0.5, 0.9)] == [100, 100, 100]
    stored.add("a", 7)
    assert (stored.of("a", 0.95, store.read), store.reads) == (107, 1)
    store.size = 50
    assert (stored.of("a", 1.0, store.read), store.reads) == (50, 2)


@pytest.mark.parametrize("seconds", [2, 64])
def test_a_large_total_is_read_as_much_more_rarely(seconds: int) -> None:
    stored, store = StoredBytes(10), Store(seconds * BYTES_PER_SECOND)
    for tenth in range(10 * seconds):
        stored.of(None, tenth / 10, store.read)
    assert store.reads == 1
    stored.of(None, seconds, store.read)
    assert store.reads == 2


def test_a_total_is_read_again_when_the_clock_was_set_back() -> None:
    stored, store = StoredBytes(10), Store(1)
    stored.of("a", 1000.0, store.read)
    stored.of("a", 10.0, store.read)
    assert store.reads == 2


def test_additions_under_a_name_that_was_not_read_come_with_the_first_reading() -> None:
    stored, store = StoredBytes(10), Store(30)
    stored.add("a", 30)
    assert stored.of("a", 0.0, store.read) == 30


def test_a_total_that_is_forgotten_is_read_again() -> None:
    stored, store = StoredBytes(10), Store(30)
    stored.of("a", 0.0, store.read)
    stored.forget("a")
    stored.of("a", 0.0, store.read)
    assert store.reads == 2


def test_only_the_latest_names_are_known() -> None:
    stored, store = StoredBytes(2), Store(5)
    for name in ("a", "b", "a", "c"):
        stored.of(name, 0.0, store.read)
    assert store.reads == 3
    stored.of("a", 0.0, store.read)
    assert store.reads == 3
    stored.of("b", 0.0, store.read)
    assert store.reads == 4


def test_a_total_that_additions_lift_above_a_limit_is_read_again_when_they_are_a_good_part_of_it() -> None:
    stored, store = StoredBytes(10), Store(100)
    assert stored.of("a", 0.0, store.read, 120) == 100
    stored.add("a", 20)
    assert (stored.of("a", 0.1, store.read, 120), store.reads) == (120, 1)
    stored.add("a", 5)
    assert (stored.of("a", 0.1, store.read, 120), store.reads) == (100, 2), "the rest was removed meanwhile"
    store.size = 1000
    assert stored.of("a", 1.1, store.read, 120) == 1000
    stored.add("a", 5)
    assert (stored.of("a", 1.2, store.read, 120), store.reads) == (1005, 3), "a reading costs more than was added"
