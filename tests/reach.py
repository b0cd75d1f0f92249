"""Searches the states of a machine from its start states: which rows of its table are taken, and with which effects.

The search is exhaustive for the given inputs: it applies each input in each state that was reached, breadth first. It
ends when all rows were taken with all their effects and no new state is reached, or at a limit of states.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.table import Kind, Row, Table


class Machine(Protocol):
    def copy(self) -> Any: ...

    def predicate(self) -> str: ...


M = TypeVar("M", bound=Machine)
AnyRow = Row[Any, Any, Any]
AnyTable = Table[Any, Any, Any]


class Spy:
    """A table that remembers which rows were looked up."""

    def __init__(self, table: AnyTable) -> None:
        self.table = table
        self.found: list[AnyRow] = []

    def row(self, state: Any, event: Any, holds: Callable[[Any], bool]) -> AnyRow:
        row = self.table.row(state, event, holds)
        self.found.append(row)
        return row


@dataclasses.dataclass
class Search(Generic[M]):
    """One search.

    :param step: let a machine take an input; returns the effects.
    :param inputs: what may come in a state.
    :param at: the state of the table that a machine is in.
    """

    spy: Spy
    step: Callable[[M, Any], Iterable[object]]
    inputs: Callable[[M], Iterable[Any]]
    at: Callable[[M], Any]
    #: The rows that were taken, with the effects that were asked for.
    taken: dict[AnyRow, set[type]] = dataclasses.field(default_factory=dict)

    def run(self, starts: Iterable[M], most: int) -> None:
        """Take every input in every state that is reached, up to a number of states."""
        waiting = deque(starts)
        seen = {counters(machine) for machine in waiting}
        while waiting:
            machine = waiting.popleft()
            before = counters(machine)
            for given in self.inputs(machine):
                after = machine.copy()
                key = self._take(after, given, before)
                if key not in seen and len(seen) < most:
                    seen.add(key)
                    waiting.append(after)

    def _take(self, machine: M, given: object, before: tuple[Any, ...]) -> tuple[Any, ...]:
        """Let a machine take an input; returns what it knows then.

        :param before: what it knows.
        """
        state = self.at(machine)
        self.spy.found.clear()
        asked = {type(effect) for effect in self.step(machine, given)}
        rows = list(self.spy.found)
        assert rows, f"{given} was not looked up"
        assert rows[0].state is state
        allowed = {effect for row in rows for effect in row.effects}
        assert asked <= allowed, f"{given} asks in {state} for {asked - allowed}"
        after = counters(machine)
        if all(row.kind is not Kind.MOVE for row in rows):
            assert after == before, f"{given} has changed something in {state}"
        assert self.at(machine) is rows[-1].next
        if self.at(machine).value != "F":
            assert machine.predicate() == self.at(machine).value, f"{given} in {state}: {machine}"
        for row in rows:
            self.taken.setdefault(row, set()).update(asked & set(row.effects))
        return after

    def unreached(self) -> list[str]:
        """The rows that were never taken, and the effects that were never asked for."""
        found = []
        for row in self.spy.table.rows:
            name = f"{row.state.value} {row.event.value} {row.guard.name if row.guard else ''}".strip()
            if row not in self.taken:
                found.append(name)
            else:
                found += [f"{name}: {effect.__name__}" for effect in row.effects if effect not in self.taken[row]]
        return found


def counters(machine: object) -> tuple[Any, ...]:
    """Everything that a machine knows."""
    values = _fields(type(machine))(machine)  # type: ignore[arg-type]
    return tuple([value.as_tuples() if isinstance(value, RangeSet) else value for value in values])


@functools.cache
def _fields(kind: type) -> attrgetter[tuple[Any, ...]]:
    """Gets the values of all fields of a dataclass: to look them up for each machine took longer than the machines."""
    return attrgetter(*(field.name for field in dataclasses.fields(kind)))
