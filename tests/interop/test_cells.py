"""A sample of the matrix, live: `make interop` runs all of it. See docs/interop.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cells import Cell, matrix, slice_of_matrix
from .peers import why_not
from .stage import Stage

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(why_not() is not None, reason=f"other stacks need Java and Maven: {why_not()}"),
]

COUNT = 20


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("interop")) as made:
        yield made
        assert made.later() == []


@pytest.mark.parametrize("cell", slice_of_matrix(), ids=lambda cell: cell.name)
def test_every_message_arrives_once_and_in_order(cell: Cell, stage: Stage) -> None:
    verdict = stage.run(cell, COUNT)
    assert verdict.good, str(verdict)


def test_the_slice_has_forty_cells_of_the_matrix() -> None:
    assert len(slice_of_matrix()) >= 40
    assert {cell.name for cell in slice_of_matrix()} <= {cell.name for cell in matrix()}
    assert len({cell.name for cell in matrix()}) == len(matrix())
