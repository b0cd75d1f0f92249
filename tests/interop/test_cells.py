"""A sample of the matrix, live: `make interop` runs all of it. See docs/interop.md."""

from __future__ import annotations

import pytest

from .cells import MERCURY, METRO, Cell, matrix, slice_of_matrix
from .stage import Stage

COUNT = 20


@pytest.mark.parametrize("cell", slice_of_matrix(), ids=lambda cell: cell.name)
def test_every_message_arrives_once_and_in_order(cell: Cell, stage: Stage) -> None:
    verdict = stage.run(cell, COUNT)
    assert verdict.good, str(verdict)


def test_a_metro_client_that_fetches_by_make_connection_gets_every_response(stage: Stage) -> None:
    # IOP-METRO-07; few messages, because the client fetches one message in 2.5 seconds
    verdict = stage.run(Cell(METRO, MERCURY, "1.1", "1.0", "1.1", "request", "make-connection"), 5)
    assert verdict.good, str(verdict)


def test_the_slice_has_forty_cells_of_the_matrix() -> None:
    assert len(slice_of_matrix()) >= 40
    assert {cell.name for cell in slice_of_matrix()} <= {cell.name for cell in matrix()}
    assert len({cell.name for cell in matrix()}) == len(matrix())
