"""The same worlds over SQLite files: the SQL store's own logic, with crashes before any of its statements."""

from __future__ import annotations

import pytest

from mercury.simulation.run import run_seed
from mercury.simulation.scenario import scenario_of

#: Worlds in which nodes crash at statements.
SEEDS = [seed for seed in range(12) if scenario_of(seed, statements=True).node.crash_at_statement == 0.001][:1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_over_files_shows_no_violation(seed: int) -> None:
    report = run_seed(seed, messages=30, sqlite=True)
    assert report.violations == ()
    assert report.messages >= 30
    assert report.crashes > 0


def test_the_same_seed_replays_the_same_trace() -> None:
    first, second = (run_seed(SEEDS[0], messages=15, sqlite=True).digest for _ in range(2))
    assert first == second
