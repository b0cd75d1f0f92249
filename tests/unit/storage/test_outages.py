"""A failing store is logged once when it fails, and once when it works again."""

from __future__ import annotations

import logging

import pytest

from mercury.errors import DataError, StorageError, TransientStorageError
from mercury.storage.outages import OUTAGE_PAUSES, PAUSES, REPEAT_INTERVAL, Outages
from mercury.testing.clock import FakeClock


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    return [(record.levelname, record.exc_info is not None) for record in caplog.records]


@pytest.mark.parametrize("error", [TransientStorageError("connection refused"), StorageError("malformed")])
def test_an_outage_is_one_line_when_it_begins_and_one_when_it_is_over(
    caplog: pytest.LogCaptureFixture, error: StorageError
) -> None:
    caplog.set_level(logging.INFO, "mercury.store")
    clock = FakeClock(0.0)
    outages = Outages(clock)
    outages.worked()
    for _ in range(500):
        clock.advance(0.01)
        outages.failed(error, "a worker")
        outages.worked()  # another part of it may still answer
    assert said(caplog) == [("WARNING", False)]
    assert str(error) in caplog.records[0].getMessage()
    clock.advance(REPEAT_INTERVAL)
    for _ in range(3):
        outages.worked()
    assert said(caplog) == [("WARNING", False), ("INFO", False)]
    outages.failed(error, "a worker")
    assert len(caplog.records) == 3


def test_pauses_grow_up_to_less_than_what_counts_as_calm() -> None:
    assert [PAUSES.delay(failures, 0.0) for failures in (1, 2, 3)] == [0.1, 0.2, 0.4]
    assert PAUSES.delay(10_000, 0.0) == PAUSES.cap < REPEAT_INTERVAL


def test_a_store_that_is_back_is_found_within_a_second_however_long_it_was_away() -> None:
    assert [OUTAGE_PAUSES.delay(failures, 0.0) for failures in (1, 2, 5, 10_000)] == [0.1, 0.2, 1.0, 1.0]


def test_a_refused_value_is_logged_and_hides_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mercury.store")
    outages = Outages(lambda: 0.0)
    for _ in range(3):
        outages.failed(DataError("value too long"), "the buffer of a sequence")
    assert said(caplog) == [("ERROR", False)]
    outages.failed(TransientStorageError("connection refused"), "a worker")
    assert said(caplog) == [("ERROR", False), ("WARNING", False)]
