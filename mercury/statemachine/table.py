"""Transition tables as data, for the three machines, the tests and the documentation.

Theory: a *state* is an enum member whose value spells the factors that have come true (``"1100"``). A *row* says what
an event does in a state while its guard holds: the next state, the effects that it may have, and the rule it comes
from. Rows of one state and event are in the order in which their guards are tried; the last one may have no guard.
Every input of a machine is looked up in every state: an event without meaning in a state has a row of the kind IGNORE.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)
G = TypeVar("G", bound=enum.Enum)


class Kind(enum.Enum):
    """What an event means in a state."""

    #: The event is accepted, and the next state is that of the row: often the same, if only a counter changes.
    MOVE = "move"
    #: The machine refuses the event; nothing changes.
    REFUSE = "refuse"
    #: The event has no meaning in this state; nothing changes.
    IGNORE = "-"


class ImpossibleEvent(AssertionError):
    """An event for which no row's guard holds: a defect of Mercury, never of a peer."""


@dataclass(frozen=True, slots=True)
class Row(Generic[S, E, G]):
    """One row of a table."""

    state: S
    event: E
    #: Holds when the row is chosen; ``None`` = the rows before it did not hold.
    guard: G | None
    kind: Kind
    #: The state afterwards; that of the row unless ``kind`` is ``MOVE``.
    next: S
    #: The effects that the row may have: classes of `mercury.statemachine.effects`.
    effects: tuple[type, ...]
    #: The rules it comes from, by their ids (docs/protocol.md).
    specification: tuple[str, ...]
    #: Sets the factor C beside the tuple.
    closes: bool = False

    @property
    def outcome(self) -> str:
        """The text of the next state in the documentation."""
        if self.kind is not Kind.MOVE:
            return str(self.kind.value)
        return str(self.next.value) + ("·C" if self.closes else "")


@dataclass(frozen=True)
class Table(Generic[S, E, G]):
    """A transition table, complete over states and events.

    :ivar name: the machine's name.
    :ivar factors: the factors of the tuple in the order of the digits, each with its meaning.
    :ivar work: the work that is due while the machine is in a state.
    :ivar start: the states in which a machine starts, with their events.
    """

    name: str
    factors: Mapping[str, str]
    states: type[S]
    events: type[E]
    guards: type[G]
    rows: tuple[Row[S, E, G], ...]
    work: Mapping[S, str]
    start: tuple[str, ...]
    _found: Mapping[tuple[S, E], tuple[Row[S, E, G], ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found: dict[tuple[S, E], tuple[Row[S, E, G], ...]] = {}
        for row in self.rows:
            found[row.state, row.event] = (*found.get((row.state, row.event), ()), row)
        object.__setattr__(self, "_found", MappingProxyType(found))

    def of(self, state: S, event: E) -> tuple[Row[S, E, G], ...]:
        """The rows of an event in a state, in the order in which they are tried."""
        return self._found[state, event]

    def row(self, state: S, event: E, holds: Callable[[G], bool]) -> Row[S, E, G]:
        """The row of an event that happens now.

        :param holds: whether a guard holds, by the counters before the event.
        :raises ImpossibleEvent: no row's guard holds: the event cannot happen here.
        """
        for row in self._found[state, event]:
            if row.guard is None or holds(row.guard):
                return row
        raise ImpossibleEvent(f"{self.name}: {event.name} in state {state.value}")


def read_table(
    name: str,
    *,
    factors: Mapping[str, str],
    states: type[S],
    events: type[E],
    guards: type[G],
    effects: Iterable[type],
    text: str,
    work: Mapping[S, str],
    start: tuple[str, ...],
) -> Table[S, E, G]:
    """Read a table: lines of ``states | events | guard | next | effects | specification``.

    A line with several states or events is a row for each of them. The next state is a state's value, or ``=`` for the
    same state, followed by ``·C`` if the row sets C, or the value of a `Kind` that changes nothing. A guard is written
    by its name in lower case, with spaces.

    :raises ValueError: a line cannot be parsed; a state has no row for an event; rows of one state and event have the
        same guard, or stand behind one without a guard; a row names no rule.
    """
    kinds = {kind.value: kind for kind in (Kind.REFUSE, Kind.IGNORE)}
    known = {effect.__name__: effect for effect in effects}
    rows: list[Row[S, E, G]] = []
    for line in text.strip().splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 6:
            raise ValueError(f"{name}: not a row: {line.strip()}")
        written = parts[2].replace(" ", "_").upper()
        if written and written not in guards.__members__:
            raise ValueError(f"{name}: no guard: {line.strip()}")
        guard = guards[written] if written else None
        kind = kinds.get(parts[3], Kind.MOVE)
        closes, target = parts[3].endswith("·C"), parts[3].removesuffix("·C")
        if set(parts[4].split()) - known.keys():
            raise ValueError(f"{name}: no effect: {line.strip()}")
        requested, rules = tuple(known[each] for each in parts[4].split()), tuple(parts[5].split())
        if not rules:
            raise ValueError(f"{name}: no rule: {line.strip()}")
        for event in map(events, parts[1].split()):
            for state in map(states, parts[0].split()):
                following = state if kind is not Kind.MOVE or target == "=" else states(target)
                rows.append(Row(state, event, guard, kind, following, requested, rules, closes))
    table = Table(name, factors, states, events, guards, tuple(rows), work, start)
    _check(table)
    return table


def _check(table: Table[S, E, G]) -> None:
    for state in table.states:
        for event in table.events:
            guards = [row.guard for row in table.rows if (row.state, row.event) == (state, event)]
            where = f"{table.name}: {event.name} in state {state.value}"
            if not guards:
                raise ValueError(f"{where} has no row")
            if len(set(guards)) != len(guards):
                raise ValueError(f"{where} has two rows with the same guard")
            if None in guards[:-1]:
                raise ValueError(f"{where} has a row that is never tried")
