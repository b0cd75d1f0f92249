"""The figures of a stage come from work that was done."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from benchmarks.rounds import GivenUp
from benchmarks.stage import Served, measured, outage
from mercury.storage.opening import open_store


def test_stage_is_measured_and_takes_messages_while_the_store_is_away(tmp_path: Path) -> None:
    numbers = itertools.count()

    def served() -> Served:
        number = next(numbers)
        return Served(open_store(f"sqlite:///{tmp_path}/store{number}.db"), tmp_path / f"stage{number}.db", 0.0)

    one = served()
    try:
        found = measured("behind a stage", one, 20, 2)
        assert float(str(found["transactions_per_1000"])) > 0
        with pytest.raises(GivenUp):
            one.all_handled(1000, patience=0.05)
    finally:
        one.stop()
    another = served()
    try:
        found = outage("behind a stage", another, 0.3, 50)
        assert int(str(found["acknowledged_while_away"])) > 0
    finally:
        another.stop()
