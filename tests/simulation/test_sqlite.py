"""The same worlds with SQLite files: the SQL store with crashes before each of its statements."""

from __future__ import annotations

import pytest

from mercury.simulation.run import SeedReport, run_seed
from mercury.simulation.scenario import scenario_of
from mercury.statemachine.protocol import RmVersion

#: Worlds in which nodes crash at statements, as many as fit into the tests.
SEEDS = [seed for seed in range(40) if scenario_of(seed, statements=True).node.crash_at_statement][:5]


@pytest.fixture(scope="module")
def reports() -> list[SeedReport]:
    return [run_seed(seed, messages=30, sqlite=True) for seed in SEEDS]


def test_worlds_over_files_show_no_violation(reports: list[SeedReport]) -> None:
    assert [(report.seed, report.violations) for report in reports if report.violations] == []
    assert all(report.messages >= 30 for report in reports)


def test_in_worlds_over_files_nodes_do_crash(reports: list[SeedReport]) -> None:
    """In one of them chance may spare every statement; in none of them all."""
    assert sum(report.crashes for report in reports) >= 10
    assert sum(report.crashes > 0 for report in reports) >= 2


def test_worlds_over_files_meet_both_generations() -> None:
    """Only WS-RM 1.0 has a message that the application's end becomes."""
    flows = [flow for seed in SEEDS for flow in scenario_of(seed, messages=30, statements=True).flows]
    assert {flow.policy.protocol.rm for flow in flows} == set(RmVersion)


def test_the_same_seed_replays_the_same_trace() -> None:
    first, second = (run_seed(SEEDS[0], messages=15, sqlite=True).digest for _ in range(2))
    assert first == second
