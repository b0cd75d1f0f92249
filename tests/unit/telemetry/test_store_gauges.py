"""The gauges of a store are read seldom, and by one process of those that share it."""

from __future__ import annotations

import logging

import pytest

from mercury.errors import TransientStorageError
from mercury.storage.gauges import MOST_ROWS, READER, Gauges
from mercury.storage.memory import MemoryStore
from mercury.telemetry.store_gauges import PAUSES, StoreGauges
from mercury.testing import FakeClock


class CountingStore(MemoryStore):
    """Counts the reads of its gauges, each of which takes some time; fails while ``away``."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self.reads, self.takes, self.away = 0, 0.0, False

    def gauges(self, now: float, most: int = MOST_ROWS) -> Gauges:
        if self.away:
            raise TransientStorageError("no route to the database")
        self.reads += 1
        self._clock.advance(self.takes)
        return super().gauges(now, most)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> CountingStore:
    return CountingStore(clock)


def reader(store: CountingStore, owner: str, clock: FakeClock, interval: float = 5.0) -> StoreGauges:
    return StoreGauges(store, owner, lease=30.0, interval=interval, clock=clock, monotonic=clock)


def test_gauges_are_read_again_after_the_interval(store: CountingStore, clock: FakeClock) -> None:
    gauges = reader(store, "one", clock)
    assert gauges.read() is gauges.read()
    clock.advance(4.9)
    gauges.read()
    assert store.reads == 1
    clock.advance(0.1)
    gauges.read()
    assert store.reads == 2


def test_slow_store_is_read_more_seldom(store: CountingStore, clock: FakeClock) -> None:
    store.takes = 1.0
    gauges = reader(store, "one", clock)
    gauges.read()
    clock.advance(PAUSES - 1)
    gauges.read()
    assert store.reads == 1
    clock.advance(1)
    gauges.read()
    assert store.reads == 2


def test_one_process_reads_and_another_takes_over_when_it_ends(store: CountingStore, clock: FakeClock) -> None:
    first, second = reader(store, "one", clock), reader(store, "two", clock)
    assert first.read().gauges is not None
    other = second.read()
    assert (other.gauges, other.up) == (None, True)
    first.stop()
    clock.advance(5)
    assert second.read().gauges is not None
    assert first.read().gauges is None


def test_process_that_is_read_no_longer_loses_the_claim(store: CountingStore, clock: FakeClock) -> None:
    first, second = reader(store, "one", clock), reader(store, "two", clock)
    first.read()
    clock.advance(31)
    assert second.read().gauges is not None
    clock.advance(5)
    assert first.read().gauges is None


def test_store_that_does_not_answer_is_down_and_logged_once(
    store: CountingStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    gauges = reader(store, "one", clock)
    assert gauges.read().up
    store.away = True
    with caplog.at_level(logging.WARNING, "mercury.metrics"):
        for _ in range(3):
            clock.advance(5)
            found = gauges.read()
            assert (found.gauges, found.up) == (None, False)
    assert len(caplog.records) == 1
    store.away = False
    clock.advance(5)
    assert gauges.read().up


def test_stopped_process_asks_the_store_no_more(store: CountingStore, clock: FakeClock) -> None:
    gauges = reader(store, "one", clock)
    gauges.read()
    gauges.stop()
    clock.advance(1000)
    gauges.read()
    assert store.reads == 1
    assert store.claim(READER, "two", clock.now, 1) is not None
