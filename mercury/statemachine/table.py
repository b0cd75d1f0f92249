"""Transition tables as data: the one form in which the three machines, the tests and the documentation know them.

Theory: a *state* is an enum member whose value spells the factors that have come true (``"1100"``). A *cell* says
what an event does in a state. Most cells name one next state; some name several, and then the counters of the
machine decide which. Nothing is undefined: a cell that cannot happen is written down as such, and meeting one is
a defect of Mercury, never of a peer.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


class Kind(enum.Enum):
    """What an event means in a state."""

    #: The event is taken; the state becomes one of the cell's next states (often the same one: a repeat).
    MOVE = "move"
    #: The machine answers no; nothing changes.
    REFUSE = "refuse"
    #: The event ends the machine with a failure beside the tuple, which freezes.
    FAIL = "F"
    #: The event says nothing any more; nothing changes.
    IGNORE = "-"
    #: Cannot happen: the caller that raises the event has checked the counters first.
    IMPOSSIBLE = "x"


class ImpossibleEvent(AssertionError):
    """An event was raised in a state where the table says it cannot happen: a defect of Mercury."""


@dataclass(frozen=True, slots=True)
class Cell(Generic[S]):
    """One cell of a table."""

    kind: Kind
    #: The states it may lead to; empty unless ``kind`` is ``MOVE``.
    next: tuple[S, ...] = ()
    #: Sets the factor C beside the tuple.
    closes: bool = False

    def __str__(self) -> str:
        if self.kind is not Kind.MOVE:
            return str(self.kind.value)
        return " or ".join(str(state.value) for state in self.next) + ("·C" if self.closes else "")


@dataclass(frozen=True)
class Table(Generic[S, E]):
    """A transition table, complete over states and events.

    :ivar name: the machine's name.
    :ivar factors: the factors of the tuple in the order of the digits, each with its meaning.
    :ivar work: what the machine keeps doing while it is in a state.
    """

    name: str
    factors: Mapping[str, str]
    states: type[S]
    events: type[E]
    cells: Mapping[tuple[S, E], Cell[S]]
    work: Mapping[S, str]
    #: Where a machine starts, and by which event.
    start: tuple[str, ...]

    def __getitem__(self, at: tuple[S, E]) -> Cell[S]:
        return self.cells[at]

    def move(self, state: S, event: E) -> Cell[S]:
        """The cell of an event that is about to be taken.

        :raises ImpossibleEvent: the table says the event cannot happen here.
        """
        cell = self.cells[state, event]
        if cell.kind is Kind.IMPOSSIBLE:
            raise ImpossibleEvent(f"{self.name}: {event.name} in state {state.value}")
        return cell


def read_table(
    name: str,
    *,
    factors: Mapping[str, str],
    states: type[S],
    events: type[E],
    text: str,
    work: Mapping[S, str],
    start: tuple[str, ...],
) -> Table[S, E]:
    """Read a table written with one line a state; the first line names the events by their values.

    A cell is a state's value, several with ``/`` between, ``·C`` behind where it closes, or a `Kind`'s value.

    :raises ValueError: a cell is missing, doubled or not understood.
    """
    lines = [line.split() for line in text.strip().splitlines()]
    columns = [events(label) for label in lines[0][1:]]
    if set(columns) != set(events):
        raise ValueError(f"{name}: the columns are not the events")
    cells: dict[tuple[S, E], Cell[S]] = {}
    kinds = {kind.value: kind for kind in Kind}
    for label, *row in lines[1:]:
        if len(row) != len(columns):
            raise ValueError(f"{name}: state {label} has {len(row)} cells")
        for event, written in zip(columns, row, strict=True):
            if written in kinds:
                cell: Cell[S] = Cell(kinds[written])
            else:
                closes = written.endswith("·C")
                nexts = tuple(states(value) for value in written.removesuffix("·C").split("/"))
                cell = Cell(Kind.MOVE, nexts, closes)
            cells[states(label), event] = cell
    missing = [(s, e) for s in states for e in events if (s, e) not in cells]
    if missing:
        raise ValueError(f"{name}: no cell for {missing}")
    return Table(name, factors, states, events, cells, work, start)
