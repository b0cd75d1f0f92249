"""A table is read completely or not at all, and its printed form has the same content."""

from __future__ import annotations

import copy
import enum
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from mercury.statemachine import effects, render
from mercury.statemachine.table import ImpossibleEvent, Kind, Row, Table, read_table
from mercury.statemachine.tables import ALL, INVOKER, RMD, RMS, InvokerState, RmdState, RmsEvent, RmsState
from mercury.statemachine.words import EVENTS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "state-machines.md"
BY_NAME = pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
AnyTable = Table[Any, Any, Any]


class Door(enum.Enum):
    OPEN = "1"
    SHUT = "0"


class Push(enum.Enum):
    PUSH = "push"
    PULL = "pull"


class Lock(enum.Enum):
    IS_LOCKED = "it is locked"


class Squeak:
    """An effect."""


def read(text: str) -> Table[Door, Push, Lock]:
    return read_table(
        "Door",
        factors={},
        states=Door,
        events=Push,
        guards=Lock,
        effects=(Squeak,),
        text=text,
        work={},
        start=(),
    )


# --- reading ---------------------------------------------------------------------------------------------------------


def test_a_line_is_a_row_for_each_of_its_states_and_events() -> None:
    table = read("""
    0   | push | is locked | refuse |        | R-1
    0   | push |           | 1·C    | Squeak | R-1 R-2
    0   | pull |           | -      |        | R-3
    1   | push pull |      | =      |        | R-4
    """)
    assert table.of(Door.SHUT, Push.PUSH) == (
        Row(Door.SHUT, Push.PUSH, Lock.IS_LOCKED, Kind.REFUSE, Door.SHUT, (), ("R-1",)),
        Row(Door.SHUT, Push.PUSH, None, Kind.MOVE, Door.OPEN, (Squeak,), ("R-1", "R-2"), closes=True),
    )
    assert [row.outcome for row in table.rows] == ["refuse", "1·C", "-", "1", "1"]


def test_the_first_row_whose_guard_holds_is_the_one() -> None:
    table = read("""
    0 | push pull | is locked | refuse | | R-1
    0 | push      |           | 1      | | R-1
    1 | push pull |           | =      | | R-1
    """)
    assert table.row(Door.SHUT, Push.PUSH, lambda _guard: True).kind is Kind.REFUSE
    assert table.row(Door.SHUT, Push.PUSH, lambda _guard: False).next is Door.OPEN
    with pytest.raises(ImpossibleEvent, match="Door: PULL in state 0"):
        table.row(Door.SHUT, Push.PULL, lambda _guard: False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 | push | | 1 | ", "not a row"),
        ("0 | push | | 1 | | ", "no rule"),
        ("0 | push | is open | 1 | | R-1", "no guard"),
        ("0 | push | | 1 | Bang | R-1", "no effect"),
        ("0 | push | | maybe | | R-1", "maybe"),
        ("2 | push | | 1 | | R-1", "'2' is not a valid Door"),
        ("0 | kick | | 1 | | R-1", "'kick' is not a valid Push"),
        ("0 1 | push | | 1 | | R-1", "PULL in state 1 has no row"),
        ("0 1 | push pull | | 1 | | R-1\n0 | push | is locked | 1 | | R-1", "never tried"),
        ("0 1 | push pull | | 1 | | R-1\n0 | push | | 1 | | R-1", "two rows with the same guard"),
    ],
)
def test_a_table_that_is_not_whole_is_not_read(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        read(text)


# --- the three tables ------------------------------------------------------------------------------------------------


@BY_NAME
def test_every_state_has_its_work_and_as_many_digits_as_there_are_factors(table: AnyTable) -> None:
    assert set(table.work) == set(table.states)
    assert {len(state.value) for state in table.states if state is not RmsState.FAILED} == {len(table.factors)}
    assert {(row.state, row.event) for row in table.rows} == {(s, e) for s in table.states for e in table.events}


@BY_NAME
def test_every_guard_is_a_row_s(table: AnyTable) -> None:
    assert {row.guard for row in table.rows} - {None} == set(table.guards)


@BY_NAME
def test_every_rule_that_a_row_names_is_on_the_page_of_the_protocol(table: AnyTable) -> None:
    known = set(
        re.findall(r"^\| ([A-Z0-9]+(?:-[A-Z]+)*-[A-Z]?\d\d) \|", (DOCS / "protocol.md").read_text(), re.MULTILINE)
    )
    named = {rule for row in table.rows for rule in row.specification}
    assert sorted(named - known) == []


def test_every_effect_that_there_is_is_a_row_s() -> None:
    kinds = {each for each in vars(effects).values() if isinstance(each, type) and each.__module__ == effects.__name__}
    assert {effect for table in ALL for row in table.rows for effect in row.effects} == kinds - {effects.Certainty}


@BY_NAME
def test_an_ignored_event_asks_for_nothing(table: AnyTable) -> None:
    assert not any(row.effects for row in table.rows if row.kind is Kind.IGNORE)


@BY_NAME
def test_every_state_is_reached_from_a_start(table: AnyTable) -> None:
    reached = {table.states(start.rpartition(": ")[2]) for start in table.start}
    while True:
        further = {row.next for row in table.rows if row.state in reached}
        if further <= reached:
            break
        reached |= further
    assert reached == set(table.states)


def test_only_the_final_word_closes_and_it_always_leads_to_the_end() -> None:
    closing = [row for row in RMS.rows if row.closes]
    assert {row.event for row in closing} == {RmsEvent.FIN}
    assert {row.next for row in closing} == {RmsState.ENDING}


@BY_NAME
def test_a_factor_that_has_come_true_stays_true_except_messages_in_the_buffer(table: AnyTable) -> None:
    lost = {
        factor
        for row in table.rows
        if row.next is not RmsState.FAILED
        for factor, before, after in zip(table.factors, row.state.value, row.next.value, strict=False)
        if before > after
    }
    assert lost <= {"MIB"}


# --- printing --------------------------------------------------------------------------------------------------------


def test_the_printed_page_is_not_stale() -> None:
    assert PAGE.read_text(encoding="utf-8") == render.render_all(), (
        "docs/state-machines.md is stale: run `mercury tables > docs/state-machines.md`"
    )


@BY_NAME
def test_every_row_is_printed_with_all_that_it_carries(table: AnyTable) -> None:
    lines = [line.strip("| ").split(" | ") for line in render.render_rows(table).splitlines()[2:]]
    printed = {(state, *line[1:]) for line in lines for state in line[0].split()}
    for row in table.rows:
        stays = row.kind is Kind.MOVE and row.next is row.state and not row.closes
        carried = (
            row.state.value,
            row.event.value,
            row.guard.value if row.guard else "",
            "the same" if stays else row.outcome,
            ", ".join(effect.__name__ for effect in row.effects),
            " ".join(row.specification),
        )
        assert carried in printed
    assert len(printed) == len(table.rows)


@BY_NAME
def test_every_outcome_of_an_event_in_a_state_is_in_the_grid(table: AnyTable) -> None:
    lines = render.render_table(table).splitlines()
    header = f"| event | {' | '.join(state.value for state in table.states)} |"
    rows = lines[lines.index(header) + 2 :][: len(table.events)]
    for event, line in zip(table.events, rows, strict=True):
        cells = line.strip("| ").split(" | ")
        assert cells[0] == event.value
        for state, cell in zip(table.states, cells[1:], strict=True):
            assert set(cell.split(" or ")) == {row.outcome for row in table.of(state, event)}


@BY_NAME
def test_every_event_has_a_meaning(table: AnyTable) -> None:
    assert all(EVENTS[event] for event in table.events)


def test_every_state_of_the_two_ends_has_its_other_names() -> None:
    assert set(render.OTHER_NAMES) == {*RmsState, *RmdState}


def test_every_kind_of_row_has_its_legend() -> None:
    assert set(render.LEGEND) == set(Kind)


@BY_NAME
def test_the_diagram_has_one_arrow_for_each_pair_of_states_and_no_loops(table: AnyTable) -> None:
    arrows = re.findall(r"^    (\w+) --> (\w+): (.+)$", render.render_diagram(table), re.MULTILINE)
    pairs = [(source, target) for source, target, _ in arrows]
    assert len(set(pairs)) == len(pairs)
    moves: dict[tuple[str, str], set[str]] = {}
    for row in table.rows:
        if row.next is not row.state:
            moves.setdefault((row.state.name, row.next.name), set()).add(row.event.value)
    drawn = {(source, target): set(labels.replace("·C", "").split(", ")) for source, target, labels in arrows}
    assert drawn == moves


@BY_NAME
def test_the_diagram_lists_what_stays_in_its_state_below_it(table: AnyTable) -> None:
    below = render.render_diagram(table).partition("Stay in the same state: ")[2].strip().removesuffix(".")
    listed = {
        (value, label.removesuffix("·C"))
        for part in below.split("; ")
        for value, _, labels in [part.partition(": ")]
        for label in labels.split(", ")
    }
    stay = (row for row in table.rows if row.kind is Kind.MOVE and row.next is row.state)
    loops = {(row.state.value, row.event.value) for row in stay}
    assert listed == loops


def test_a_state_that_is_never_left_is_drawn_as_an_end() -> None:
    assert "    ENDED --> [*]" in render.render_diagram(RMS)
    assert "    FAILED --> [*]" in render.render_diagram(RMS)
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
    pickled = pickle.loads(pickle.dumps(RmsState.SENDING)), copy.deepcopy(RmsEvent.AMR)
    assert RMS.of(*pickled) is RMS.of(RmsState.SENDING, RmsEvent.AMR)


@BY_NAME
def test_a_look_into_a_table_runs_no_python_to_hash_its_key(table: AnyTable) -> None:
    for kind in (table.states, table.events):
        assert kind.__hash__ is object.__hash__
