"""Which rows are out of order: the fewest that would have to move for the rest to stand in the order of sending.

Both orders are cut into runs: rows that follow each other in the order of sending and in the order of arrival. What
holds for the place of one row of a run holds for all of it, so the heaviest ascending chain of runs is exact for rows
too, and there are only as many runs as something is displaced. What is not in the chain is out of order. Where two
answers are as good, the row that came late is named, not the one that came early.

When the server has the order column too (it is part of the key or compared), the server computes the runs; otherwise
Spark joins the two order columns by key.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from mercury.reconcile.kinds import Field, canonical, sortable

if TYPE_CHECKING:
    from mercury.reconcile.plan import Plan, Side

#: Canonical values of the columns within which order counts.
Group = tuple[str | None, ...]

#: More runs than this are not attributed to rows: nothing that could be called an order is left.
MAX_RUNS = 500_000


@dataclass(frozen=True, slots=True)
class Run:
    """Rows that follow each other in both orders, within one group."""

    group: Group
    #: The order column of the first row and of the last.
    low: Decimal
    high: Decimal
    #: The places of the first row in the order of sending and in that of arrival, from 1.
    sent: int
    arrived: int
    length: int


def displaced(runs: Iterable[Run]) -> list[Run]:
    """The runs that are out of order. Their places are then those among the rows that are in order, and their own."""
    groups: dict[Group, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.group].append(run)
    return [run for group in groups.values() for run in _outside_the_chain(sorted(group, key=lambda run: run.sent))]


def _outside_the_chain(runs: Sequence[Run]) -> list[Run]:
    arrivals = sorted(run.arrived for run in runs)
    #: A tree of prefix maxima: (weight, index) of the heaviest chain that ends at or before a place of arrival.
    best: list[tuple[int, int]] = [(0, -1)] * (len(runs) + 1)
    before: list[int] = []
    for index, run in enumerate(runs):
        place = bisect.bisect_left(arrivals, run.arrived) + 1
        chain, at = (0, -1), place - 1
        while at:
            chain = max(chain, best[at])
            at &= at - 1
        before.append(chain[1])
        chain, at = (chain[0] + run.length, index), place
        while at <= len(runs):
            best[at] = max(best[at], chain)
            at += at & -at
    kept: set[int] = set()
    at, last = len(runs), (0, -1)
    while at:
        last = max(last, best[at])
        at &= at - 1
    index = last[1]
    while index >= 0:
        kept.add(index)
        index = before[index]
    return _placed(runs, kept)


def _placed(runs: Sequence[Run], kept: set[int]) -> list[Run]:
    """The runs outside the chain, with their places among the rows of the chain: what they overtook, or the reverse."""
    places = []
    for by in (lambda index: runs[index].sent, lambda index: runs[index].arrived):
        passed, found = 0, {}
        for index in sorted(range(len(runs)), key=by):
            found[index] = passed + 1
            passed += runs[index].length if index in kept else 0
        places.append(found)
    sent, arrived = places
    return [
        replace(run, sent=sent[index], arrived=arrived[index]) for index, run in enumerate(runs) if index not in kept
    ]


class Displacements:
    """Looks rows up among displaced runs. Sent to Spark's tasks."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = sorted(runs, key=lambda run: run.low)
        self._groups: dict[Group, tuple[list[Decimal], list[int]]] = {}
        for index, run in enumerate(self.runs):
            lows, numbers = self._groups.setdefault(run.group, ([], []))
            lows.append(run.low)
            numbers.append(index)

    def find(self, group: Group, at: Decimal | None) -> int | None:
        """The index of the displaced run that a row belongs to."""
        if at is None or group not in self._groups:
            return None
        lows, numbers = self._groups[group]
        number = bisect.bisect_right(lows, at) - 1
        return numbers[number] if number >= 0 and at <= self.runs[numbers[number]].high else None


# --- asked of the server ---------------------------------------------------------------------------------------------


def counterparts(plan: Plan) -> tuple[Field, tuple[Field, ...]] | None:
    """The server's columns for the client's order and groups, when it has them all."""
    side = plan.client
    if side.order is None:
        return None
    pairs = dict(zip((*side.key, *side.compare), (*plan.server.key, *plan.server.compare), strict=True))
    theirs = {ours.name: field for ours, field in pairs.items()}
    wanted = [side.order.name, *(field.name for field in side.within)]
    if not all(name in theirs for name in wanted):
        return None
    first, *within = (theirs[name] for name in wanted)
    return first, tuple(within)


def server_can_tell(plan: Plan) -> bool:
    """Whether the server's table alone shows if rows arrived in the order of sending."""
    return counterparts(plan) is not None


def overtaken(connection: sa.Connection, plan: Plan) -> int:
    """How many rows of the server arrived right after one that was sent later: 0 = all is in order.

    Repeated rows count too: it is only a first look, and the cheapest there is.
    """
    rows = _arrivals(plan, first=False).subquery()
    groups = [rows.c[name] for name in _group_names(plan)]
    previous = sa.func.lag(rows.c.ord).over(partition_by=groups or None, order_by=(rows.c.arrival, rows.c.ord))
    steps = sa.select(rows.c.ord, previous.label("previous")).subquery()
    count: int = connection.execute(
        sa.select(sa.func.count()).select_from(steps).where(steps.c.ord < steps.c.previous)
    ).scalar_one()
    return count


def server_runs(connection: sa.Connection, plan: Plan) -> list[Run] | None:
    """The runs of the server's rows, each key counted when it came first; ``None`` = more than `MAX_RUNS`."""
    found = counterparts(plan)
    assert found is not None
    order, within = found
    names = _group_names(plan)
    rows = _arrivals(plan).subquery()
    groups = [rows.c[name] for name in names]
    places = sa.select(
        *groups,
        rows.c.ord,
        sa.func.row_number().over(partition_by=groups or None, order_by=(rows.c.ord, rows.c.arrival)).label("sent"),
        sa.func.row_number().over(partition_by=groups or None, order_by=(rows.c.arrival, rows.c.ord)).label("arrived"),
    ).subquery()
    groups = [places.c[name] for name in names]
    previous = sa.func.lag(places.c.arrived).over(partition_by=groups or None, order_by=places.c.sent)
    begins = sa.case((places.c.arrived == previous + 1, 0), else_=1)
    marked = sa.select(*places.c, begins.label("begins")).subquery()
    groups = [marked.c[name] for name in names]
    number = sa.func.sum(marked.c.begins).over(partition_by=groups or None, order_by=marked.c.sent)
    numbered = sa.select(*marked.c, number.label("run")).subquery()
    groups = [numbered.c[name] for name in names]
    aggregates: list[sa.ColumnElement[Any]] = [sa.func.min(numbered.c.ord), sa.func.max(numbered.c.ord)]
    aggregates += [sa.func.min(numbered.c.sent), sa.func.min(numbered.c.arrived), sa.func.count()]
    query = sa.select(*groups, *aggregates).group_by(*groups, numbered.c.run).limit(MAX_RUNS + 1)
    runs = []
    for row in connection.execute(query):
        group = tuple(canonical(value, field) for value, field in zip(row, within, strict=False))
        low, high, sent, arrived, length = row[len(within) :]
        begin, end = sortable(low, order), sortable(high, order)
        if begin is not None and end is not None:
            runs.append(Run(group, begin, end, int(sent), int(arrived), int(length)))
    return runs if len(runs) <= MAX_RUNS else None


def _group_names(plan: Plan) -> list[str]:
    return [f"g{index}" for index in range(len(plan.client.within))]


def _arrivals(plan: Plan, *, first: bool = True) -> sa.Select[Any]:
    """Group, order of sending and arrival of the server's rows, or of the first row of each key."""
    found, side = counterparts(plan), plan.server
    assert found is not None
    assert side.order is not None
    order, within = found
    groups: list[sa.ColumnElement[Any]] = [
        sa.column(field.name).label(name) for field, name in zip(within, _group_names(plan), strict=True)
    ]
    order_column: sa.ColumnElement[Any] = sa.column(order.name)
    arrival: sa.ColumnElement[Any] = sa.column(side.order.name)
    query = (
        sa.select(*groups, order_column.label("ord"), (sa.func.min(arrival) if first else arrival).label("arrival"))
        .select_from(side.place.from_clause())
        .where(order_column.is_not(None), arrival.is_not(None), *side.place.conditions())
    )
    names = dict.fromkeys(field.name for field in (*side.key, *within, order))
    return query.group_by(*map(sa.column, names)) if first else query


def group_of(side: Side, row: dict[str, Any]) -> Group:
    """The canonical values within which a row's order counts."""
    return tuple(canonical(row[field.name], field) for field in side.within)
