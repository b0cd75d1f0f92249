"""Rows out of order: compared with an exhaustive search, and in cases that can be checked by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from mercury.reconcile.order import Displacements, Run, displaced


def runs_of(arrival: Sequence[int], group: tuple[str | None, ...] = ()) -> list[Run]:
    """The runs of rows 1..n that arrived in this order, found row by row."""
    place = {row: index for index, row in enumerate(arrival, 1)}
    found: list[list[int]] = []
    for row in sorted(arrival):
        if found and place[row] == place[found[-1][-1]] + 1:
            found[-1].append(row)
        else:
            found.append([row])
    sent = {row: index for index, row in enumerate(sorted(arrival), 1)}
    return [Run(group, Decimal(run[0]), Decimal(run[-1]), sent[run[0]], place[run[0]], len(run)) for run in found]


def out_of_order(arrival: Sequence[int]) -> set[int]:
    return {row for run in displaced(runs_of(arrival)) for row in range(int(run.low), int(run.high) + 1)}


def fewest(arrival: Sequence[int]) -> int:
    """How many rows must go until the rest ascends, by trying."""
    for gone in range(len(arrival) + 1):
        for kept in itertools.combinations(arrival, len(arrival) - gone):
            if all(one < other for one, other in itertools.pairwise(kept)):
                return gone
    raise AssertionError


@given(st.permutations(range(1, 9)))
def test_remaining_rows_ascend_and_the_displaced_ones_are_fewest(arrival: list[int]) -> None:
    gone = out_of_order(arrival)
    left = [row for row in arrival if row not in gone]
    assert left == sorted(left)
    assert len(gone) == fewest(arrival)


@given(st.lists(st.integers(1, 10**6), unique=True, max_size=60))
def test_numbers_with_gaps_make_no_difference(arrival: list[int]) -> None:
    dense = {row: index for index, row in enumerate(sorted(arrival), 1)}
    gone = {row for run in displaced(runs_of(arrival)) for row in arrival if run.low <= row <= run.high}
    assert {dense[row] for row in gone} == out_of_order([dense[row] for row in arrival])


def test_the_row_that_came_late_is_out_of_order_not_those_that_passed_it() -> None:
    assert out_of_order([1, 3, 4, 5, 2, 6]) == {2}
    assert out_of_order([2, 1]) == {1}
    assert out_of_order([1, 2, 4, 3, 5]) == {3}


def test_the_row_that_came_early_is_out_of_order_not_those_that_it_passed() -> None:
    assert out_of_order([1, 5, 2, 3, 4, 6]) == {5}


def test_two_rows_far_from_each_other_that_changed_places_are_both() -> None:
    assert out_of_order([1, 6, 3, 4, 5, 2, 7]) == {2, 6}


def test_the_smaller_of_two_blocks_is_out_of_order() -> None:
    assert out_of_order([*range(50, 60), *range(1, 50)]) == set(range(50, 60))


def test_places_are_those_among_the_rows_in_order() -> None:
    (run,) = displaced(runs_of([1, 2, 4, 5, 6, 3, 7]))
    assert (run.sent, run.arrived, run.length) == (3, 6, 1)
    # 9 came early as well; it does not make 3 later than it was.
    runs = {int(run.low): run for run in displaced(runs_of([1, 9, 2, 4, 5, 6, 3, 7, 8]))}
    assert {row: (run.sent, run.arrived) for row, run in runs.items()} == {3: (3, 6), 9: (8, 2)}


def test_nothing_is_out_of_order_where_nothing_is() -> None:
    assert displaced([]) == []
    assert displaced(runs_of(range(1, 100))) == []


def test_groups_have_orders_of_their_own() -> None:
    runs = [*runs_of([1, 3, 2], ("a",)), *runs_of([1, 2, 3], ("b",)), *runs_of([2, 1], (None,))]
    assert {(run.group, int(run.low)) for run in displaced(runs)} == {(("a",), 2), ((None,), 1)}


def test_a_row_is_looked_up_in_its_own_group() -> None:
    runs = [Run(("a",), Decimal(5), Decimal(7), 1, 1, 3), Run(("b",), Decimal(6), Decimal(6), 1, 1, 1)]
    found = Displacements(runs)
    assert [found.find(("a",), Decimal(at)) for at in (4, 5, 7, 8)] == [None, 0, 0, None]
    assert found.find(("b",), Decimal(6)) == 1
    assert [found.find(("b",), Decimal(5)), found.find(("c",), Decimal(6)), found.find(("a",), None)] == [None] * 3
