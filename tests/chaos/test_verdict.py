"""The comparison detects each kind of difference."""

from __future__ import annotations

import pytest

from tests.chaos.programs.tables import orders
from tests.chaos.verdict import Difference, Row, compare

SENT: list[Row] = [tuple(row.values()) for row in orders(6)]
ONE, TWO, THREE, FOUR, FIVE, SIX = SENT


def test_everything_once_and_in_order_is_no_difference() -> None:
    assert not compare(SENT, SENT)
    assert str(compare(SENT, SENT)) == ""


@pytest.mark.parametrize(
    ("arrived", "difference"),
    [
        pytest.param([], Difference(lost=6), id="nothing came"),
        pytest.param([ONE, TWO, FOUR, FIVE, SIX], Difference(lost=1), id="one is lost"),
        pytest.param([ONE, TWO, TWO, THREE, FOUR, FIVE, SIX], Difference(repeated=1), id="one came twice"),
        pytest.param([ONE, TWO, THREE, FOUR, ONE, ONE, FIVE, SIX], Difference(repeated=2), id="one came again late"),
        pytest.param([ONE, THREE, TWO, FOUR, FIVE, SIX], Difference(out_of_order=1), id="two are swapped"),
        pytest.param([SIX, FIVE, FOUR, THREE, TWO, ONE], Difference(out_of_order=5), id="the other way round"),
        pytest.param(
            [ONE, (2, "poison", 3), THREE, FOUR, FIVE, SIX], Difference(altered=1), id="one came with another content"
        ),
        pytest.param([*SENT, (7, "tea", 5)], Difference(altered=1), id="one came that nobody sent"),
        pytest.param([THREE, TWO, TWO], Difference(lost=4, repeated=1, out_of_order=1), id="all of it"),
    ],
)
def test_wrong_rows_are_counted(arrived: list[Row], difference: Difference) -> None:
    assert compare(SENT, arrived) == difference
    assert difference
    assert str(difference)


def test_only_rows_that_go_together_have_an_order() -> None:
    late = [THREE, TWO, ONE, FOUR, SIX, FIVE]
    assert compare(SENT, late, lambda number: number % 2) == Difference(out_of_order=1)
    assert compare(SENT, late, lambda number: number) == Difference()


def test_differences_add_up() -> None:
    assert Difference(lost=1, repeated=2) + Difference(lost=3, altered=4) == Difference(lost=4, repeated=2, altered=4)
