"""The tables are read whole, or not at all; and what is printed of them is what they hold."""

from __future__ import annotations

import copy
import enum
import pickle
import re
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from mercury.statemachine import render
from mercury.statemachine.table import Cell, ImpossibleEvent, Kind, Table, read_table
from mercury.statemachine.tables import ALL, INVOKER, RMD, RMS, InvokerState, RmdState, RmsEvent, RmsState

PAGE = Path(__file__).parents[3] / "docs" / "state-machines.md"
BY_NAME = pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)


class Door(enum.Enum):
    OPEN = "1"
    SHUT = "0"


class Push(enum.Enum):
    PUSH = "push"
    PULL = "pull"


def read(text: str) -> Table[Door, Push]:
    return read_table("Door", factors={}, states=Door, events=Push, text=text, work={}, start=())


# --- reading ---------------------------------------------------------------------------------------------------------


def test_a_cell_is_a_state_or_several_or_a_kind() -> None:
    table = read("""
    state push pull
    0     1·C  refuse
    1     0/1  x
    """)
    assert table[Door.SHUT, Push.PUSH] == Cell(Kind.MOVE, (Door.OPEN,), closes=True)
    assert table[Door.SHUT, Push.PULL] == Cell(Kind.REFUSE)
    assert table[Door.OPEN, Push.PUSH] == Cell(Kind.MOVE, (Door.SHUT, Door.OPEN))
    assert [str(cell) for cell in table.cells.values()] == ["1·C", "refuse", "0 or 1", "x"]


def test_an_impossible_event_is_an_error_that_names_machine_event_and_state() -> None:
    table = read("""
    state push pull
    0     1    -
    1     0    x
    """)
    assert table.move(Door.SHUT, Push.PULL).kind is Kind.IGNORE
    with pytest.raises(ImpossibleEvent, match="Door: PULL in state 1"):
        table.move(Door.OPEN, Push.PULL)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("state push\n0 1\n1 0", "the columns are not the events"),
        ("state push pull\n0 1 1\n1 0", "state 1 has 1 cells"),
        ("state push pull\n0 1 1", "no cell for"),
        ("state push pull\n0 1 1\n1 0 maybe", "maybe"),
        ("state push pull\n0 1 1\n2 0 0", "'2' is not a valid Door"),
        ("state push kick\n0 1 1\n1 0 0", "'kick' is not a valid Push"),
    ],
)
def test_a_table_that_is_not_whole_is_not_read(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        read(text)


# --- the three tables ------------------------------------------------------------------------------------------------


@BY_NAME
def test_every_state_has_its_work_and_as_many_digits_as_there_are_factors(table: Table[Any, Any]) -> None:
    assert set(table.work) == set(table.states)
    assert {len(state.value) for state in table.states} == {len(table.factors)}
    assert set(table.cells) == {(state, event) for state in table.states for event in table.events}


@BY_NAME
def test_every_state_is_reached_from_a_start(table: Table[Any, Any]) -> None:
    reached = {table.states(start.rpartition(": ")[2]) for start in table.start}
    while True:
        further = {target for (state, _), cell in table.cells.items() if state in reached for target in cell.next}
        if further <= reached:
            break
        reached |= further
    assert reached == set(table.states)


def test_only_the_final_word_closes_and_it_always_leads_to_the_end() -> None:
    closing = {at: cell.next for at, cell in RMS.cells.items() if cell.closes}
    assert {event for _, event in closing} == {RmsEvent.FIN}
    assert set(closing.values()) == {(RmsState.ENDING,)}


@BY_NAME
def test_a_factor_that_has_come_true_stays_true_except_messages_in_the_buffer(table: Table[Any, Any]) -> None:
    lost = {
        factor
        for (state, _), cell in table.cells.items()
        for target in cell.next
        for factor, before, after in zip(table.factors, state.value, target.value, strict=True)
        if before > after
    }
    assert lost <= {"MIB"}


# --- printing --------------------------------------------------------------------------------------------------------


def test_the_printed_page_is_not_stale() -> None:
    assert PAGE.read_text(encoding="utf-8") == render.render_all(), (
        "docs/state-machines.md is stale: run `mercury tables > docs/state-machines.md`"
    )


@BY_NAME
def test_every_cell_is_printed_in_the_row_of_its_state(table: Table[Any, Any]) -> None:
    lines = render.render_table(table).splitlines()
    header = f"| state | {' | '.join(event.value for event in table.events)} |"
    rows = lines[lines.index(header) + 2 :][: len(table.states)]
    for state, row in zip(table.states, rows, strict=True):
        assert row.strip("| ").split(" | ") == [state.value, *(str(table[state, event]) for event in table.events)]


@BY_NAME
def test_every_event_has_a_meaning(table: Table[Any, Any]) -> None:
    assert all(render.MEANINGS[event] for event in table.events)


def test_every_state_of_the_two_ends_has_its_other_names() -> None:
    assert set(render.OTHER_NAMES) == {*RmsState, *RmdState}


def test_every_kind_of_cell_but_a_move_has_its_legend() -> None:
    assert set(render.LEGEND) == set(Kind) - {Kind.MOVE}


@BY_NAME
def test_the_diagram_has_one_arrow_for_each_pair_of_states_and_no_loops(table: Table[Any, Any]) -> None:
    arrows = re.findall(r"^    (\w+) --> (\w+): (.+)$", render.render_diagram(table), re.MULTILINE)
    pairs = [(source, target) for source, target, _ in arrows]
    assert len(set(pairs)) == len(pairs)
    moves: dict[tuple[str, str], set[str]] = {}
    for (state, event), cell in table.cells.items():
        targets: list[Enum | None] = [*cell.next, *([None] if cell.kind is Kind.FAIL else [])]
        for target in targets:
            if target is not state:
                name = target.name if target else "F"
                moves.setdefault((state.name, name), set()).add(event.value)
    drawn = {(source, target): set(labels.replace("·C", "").split(", ")) for source, target, labels in arrows}
    assert drawn == moves


@BY_NAME
def test_the_diagram_lists_what_stays_in_its_state_below_it(table: Table[Any, Any]) -> None:
    below = render.render_diagram(table).partition("Stay in the same state: ")[2].strip().removesuffix(".")
    listed = {
        (value, label.removesuffix("·C"))
        for part in below.split("; ")
        for value, _, labels in [part.partition(": ")]
        for label in labels.split(", ")
    }
    loops = {(state.value, event.value) for (state, event), cell in table.cells.items() if state in cell.next}
    assert listed == loops


def test_a_state_that_is_never_left_is_drawn_as_an_end() -> None:
    assert "    ENDED --> [*]" in render.render_diagram(RMS)
    assert render.render_diagram(RMD).count("--> [*]") == 3
    assert f"    {InvokerState.DONE.name} --> [*]" in render.render_diagram(INVOKER)


def test_a_diagram_is_a_fenced_mermaid_block() -> None:
    diagram = render.render_diagram(RMS)
    assert diagram.startswith("```mermaid\nstateDiagram-v2\n")
    assert "\n```\n" in diagram


def test_the_page_has_every_machine_and_no_trailing_blanks() -> None:
    page = render.render_all()
    for table in ALL:
        assert page.count(f"\n## {table.name}: (") == 1
    assert page.endswith("\n")
    assert not page.endswith("\n\n")
    assert not any(line != line.rstrip() for line in page.splitlines())


# --- members as keys -------------------------------------------------------------------------------------------------


def test_a_member_that_was_pickled_is_still_the_same_key() -> None:
    assert (
        RMS[pickle.loads(pickle.dumps(RmsState.SENDING)), copy.deepcopy(RmsEvent.AMR)]
        is RMS[RmsState.SENDING, RmsEvent.AMR]
    )


@BY_NAME
def test_a_look_into_a_table_runs_no_python_to_hash_its_key(table: Table[Any, Any]) -> None:
    for kind in (table.states, table.events):
        assert kind.__hash__ is object.__hash__
