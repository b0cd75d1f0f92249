"""A sample of the matrix with each form, mode and harm, at the most important points. `make chaos` runs all of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos import experiment
from tests.chaos.cells import Cell, matrix
from tests.chaos.driver import Driver
from tests.chaos.experiment import Outcome, Plan
from tests.chaos.kinds import SAFE, Form, Mode
from tests.chaos.lanes import Lane, lane
from tests.chaos.report import errors_of

CELLS = {cell.name: cell for cell in matrix() if not cell.never}

SLICE = (
    "kill: send.commit before at the client, same database, in-only",
    "kill: invoke.commit after at the server, same database, in-out",
    "kill PostgreSQL: receive.commit before at the server, same database, in-only",
    "pause: number.commit before at the client, same database, in-out",
    "kill: decide.commit before at the client, XA, last resource, in-out",
    "kill: prepare.branch after at the server, XA, two-phase, in-only",
    "kill PostgreSQL: commit prepared.branch before at the client, XA, two-phase, in-only",
    "pause: decide.commit before at the server, XA, last resource, in-out",
)


@pytest.fixture(scope="module")
def own() -> Iterator[Lane]:
    with lane(orders=16) as made:
        yield made


@pytest.mark.parametrize("cell", [CELLS[name] for name in SLICE], ids=SLICE)
def test_every_row_arrives_once_and_in_order_whatever_is_killed(cell: Cell, own: Lane) -> None:
    result = Driver(own.site, own.forks).run(cell)
    assert result.good, f"{errors_of(result)}\n{result.output}"
    assert result.kills + result.pauses


def test_the_slice_has_every_form() -> None:
    assert {CELLS[name].form for name in SLICE} == set(SAFE)


def test_the_experiment_sees_losses_and_repetitions_where_there_are_two_commits(own: Lane) -> None:
    """The programs and faults are those of the matrix, so this shows that the driver can detect losses at all."""
    outcome = experiment.run(own, Plan(Form.PLAIN, seed=1))
    assert not outcome.error
    assert outcome.kills == 2
    assert outcome.difference.lost, "the order that was marked and not sent"
    assert outcome.difference.repeated, "what the handler had committed when it was killed"


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
def test_the_experiment_sees_none_where_there_is_one(mode: Mode, own: Lane) -> None:
    outcome = experiment.run(own, Plan(Form.SAME_DATABASE, seed=1, mode=mode))
    assert not outcome.error
    assert outcome.kills == 2
    assert not outcome.difference


def test_the_experiment_kills_the_server_of_the_memory_store_too(own: Lane) -> None:
    outcome = experiment.run(own, Plan(Form.MEMORY, seed=1))
    assert not outcome.error
    assert outcome.kills == 2
    assert outcome.difference.lost
    assert not experiment.wrong([outcome])


def test_a_run_without_its_kills_is_wrong() -> None:
    (found,) = experiment.wrong([Outcome(Plan(Form.SAME_DATABASE, seed=1), kills=1)])
    assert "1 kills, and not 2" in found
