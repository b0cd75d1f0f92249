"""The table of crash points is correct: each function exists, and each point is reached exactly where the table
says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.chaos import hook
from tests.chaos.cells import Cell, in_turn, matrix
from tests.chaos.driver import POLL_INTERVAL, Pair
from tests.chaos.kinds import SAFE, Form, Harm, Mode, Moment, Side, Way
from tests.chaos.lanes import Lane, lane
from tests.chaos.points import POINTS, Function, functions, point
from tests.chaos.verdict import Witness

#: The steps of a message, and of a two-phase commit.
STEPS = (
    *("send", "number", "transmit", "receive", "acknowledge", "invoke", "respond", "call back"),
    *("prepare", "decide", "commit prepared", "forget", "recover"),
)


@pytest.fixture(scope="module")
def own() -> Iterator[Lane]:
    with lane(orders=6) as made:
        yield made


# --- the table -----------------------------------------------------------------------------------------------------


def test_there_is_a_point_at_every_step() -> None:
    steps = {each.step for each in POINTS}
    assert steps == {*STEPS, "sequence"}


def test_names_are_unique() -> None:
    assert len({each.name for each in POINTS}) == len(POINTS)


@pytest.mark.parametrize("function", dict.fromkeys(functions()), ids=lambda function: function.attribute)
def test_every_function_is_there(function: Function) -> None:
    assert callable(hook.find(function)[2])


def test_a_function_that_is_not_there_is_noticed() -> None:
    with pytest.raises(AttributeError, match="no function"):
        hook.find(Function("mercury.client.sender", "Sender._nothing_like_it"))


def test_every_point_is_reached_somewhere_and_what_cannot_happen_has_a_reason() -> None:
    cells = list(matrix())
    assert {cell.point.name for cell in cells if not cell.never} == {each.name for each in POINTS}
    assert len({cell.name for cell in cells}) == len(cells)
    assert sum(not cell.never for cell in cells) >= 300
    for form in SAFE:
        for mode in Mode:
            for harm in Harm:
                tried = [cell for cell in cells if (cell.form, cell.mode, cell.harm) == (form, mode, harm)]
                assert any(not cell.never for cell in tried), (form, mode, harm)


def test_follow_up_points_name_an_existing_point() -> None:
    for each in POINTS:
        if each.after is not None:
            assert point(each.after[0]).after is None


# --- against an undisturbed run ------------------------------------------------------------------------------------


WAYS = [(mode, way) for mode in Mode for way in Way if (mode, way) != (Mode.IN_ONLY, Way.CREATED)]


@pytest.mark.parametrize("form", SAFE, ids=lambda form: form.value)
@pytest.mark.parametrize(("mode", "way"), WAYS, ids=lambda each: each.value)
def test_points_are_visited_where_the_table_says_so(form: Form, mode: Mode, way: Way, own: Lane) -> None:
    visits = undisturbed(own, form, mode, way)
    for each in POINTS:
        for side in Side:
            never = each.never(side, form, mode, way)
            for moment in Moment:
                seen = visits[side].get(f"{each.name} {moment.value}", 0)
                if never is None and each.after is None:
                    assert seen, f"{side.value} never comes {moment.value} {each.name}"
                elif never != each.elsewhere and each.after is None:
                    assert not seen, f"{side.value} comes {moment.value} {each.name}, although: {never}"


def undisturbed(lane: Lane, form: Form, mode: Mode, way: Way) -> dict[Side, dict[str, int]]:
    """The number of visits to each point in a run without faults."""
    databases = lane.site.databases(form)
    with Witness(databases, mode) as witness:
        pair = Pair(lane.forks, databases, form, mode, way, count=True)
        try:
            both = {side: pair.start(side) for side in (Side.SERVER, Side.CLIENT)}
            both[Side.CLIENT].until(witness.is_over, "everything is done", POLL_INTERVAL)
            for fork in both.values():
                fork.terminate()
                fork.ends()
            assert not witness.difference()
            assert not witness.errors()
            visits = {side: re.search(r"^visits (.*)$", fork.out, re.MULTILINE) for side, fork in both.items()}
        finally:
            pair.end()
    assert all(visits.values()), "both print their visits at an orderly end"
    return {side: json.loads(found[1]) for side, found in visits.items() if found is not None}


def test_run_that_was_broken_off_goes_on_where_it_stopped() -> None:
    every = [cell for cell in matrix() if not cell.never]
    first, rest = in_turn(every, 3)[:100], in_turn(matrix_again(), 3)[100:]
    assert first != every[:100]
    assert {cell.name for cell in (*first, *rest)} == {cell.name for cell in every}
    assert len(first) + len(rest) == len(every)


def matrix_again() -> Iterator[Cell]:
    return (cell for cell in matrix() if not cell.never)
