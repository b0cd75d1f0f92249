"""Small differences are measured in turns: each way is the first one equally often, and ratios are of one turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from benchmarks.pairs import AGAIN, OFF, ON, TWO, compared, in_turns, summary
from benchmarks.rounds import Record
from benchmarks.targets import TARGETS, Results


def record(cpu: float, speed: float) -> Record:
    return {"cpu": {"client": cpu / 2, "server": cpu / 2, "PostgreSQL": 9.0}, "rows_per_second": speed}


def test_each_way_is_first_equally_often_and_the_first_turn_does_not_count() -> None:
    calls: list[str] = []

    def run(name: str) -> Callable[[], Record]:
        def called() -> Record:
            calls.append(name)
            return record(1.0, 1.0)

        return called

    numbers = [number for number, _ in in_turns({name: run(name) for name in (ON, OFF, AGAIN)}, 6)]
    assert numbers == list(range(6))
    assert len(calls) == 7 * 3
    assert Counter(calls[3::3]) == {ON: 2, OFF: 2, AGAIN: 2}
    assert all(set(calls[at : at + 3]) == {ON, OFF, AGAIN} for at in range(0, len(calls), 3))


def test_ratios_are_those_of_one_turn() -> None:
    turns = [compared(record(cpu, 90.0), record(1.0, 100.0)) for cpu in (1.01, 1.02, 1.03)]
    found = summary(list(turns))
    assert found["cpu_ratio"] == pytest.approx(1.02), "PostgreSQL is not counted"
    assert found["rows_ratio"] == pytest.approx(0.9)
    records = [{"part": "pairs", "what": ON, **found}, {"part": "pairs", "what": AGAIN, "cpu_ratio": 9.0}]
    records.append({"part": "pairs", "what": TWO, "rows_ratio": 1.3})
    verdicts = {target.name: target.verdict(Results(records)) for target in TARGETS}
    (cpu,) = (each for name, each in verdicts.items() if name.startswith("CPU seconds of Mercury"))
    assert cpu == (pytest.approx(1.02), "met")
    assert verdicts["the same, drains in turns"] == (1.3, "met")
