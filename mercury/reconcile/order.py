"""Finds the rows out of order: the smallest set of rows without which the others are in the order of sending.

Rows that follow each other both in the order of sending and in the order of arrival form a run. All rows of a run are
in order or none is, so it is enough to find the chain of runs, ascending in both orders, with the most rows. The runs
outside of the chain are out of order. The number of runs grows only with the number of displacements. If two chains
have the same number of rows, the late row counts as out of order, not the early one.

When the server has the order column too (it is part of the key or compared), the server computes the runs; otherwise
Spark joins the two order columns by key.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from mercury.reconcile.kinds import ORDERED, Field, canonical, sortable

if TYPE_CHECKING:
    from mercury.reconcile.plan import Plan, Side

#: Canonical values of the columns `Config.within`: order is compared among rows with the same values.
Group = tuple[str | None, ...]

#: With more runs than this, rows out of order are counted but not listed.
MAX_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class Run:
    """Rows that follow each other in both orders, within one group."""

    group: Group
    #: The order column of the first row and of the last.
    low: Decimal
    high: Decimal
    #: The positions of the first row in the order of sending and in the order of arrival, from 1.
    sent: int
    arrived: int
    length: int


def displaced(runs: Iterable[Run]) -> list[Run]:
    """The runs that are out of order. Their positions are counted among the rows in order and the row itself."""
    groups: dict[Group, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.group].append(run)
    return [run for group in groups.values() for run in _outside_the_chain(sorted(group, key=lambda run: run.sent))]


def _outside_the_chain(runs: Sequence[Run]) -> list[Run]:
    arrivals = sorted(run.arrived for run in runs)
    #: A tree of prefix maxima: (rows, index of the last run) of the longest chain up to each position of arrival.
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
    """The runs outside the chain, with their positions among the rows of the chain."""
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
    """Finds the displaced run of a row. Sent to Spark's tasks."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = sorted(runs, key=lambda run: run.low)
        self._groups: dict[Group, tuple[list[Decimal], list[int]]] = {}
        for index, run in enumerate(self.runs):
            lows, numbers = self._groups.setdefault(run.group, ([], []))
            lows.append(run.low)
            numbers.append(index)

    def find(self, group: Group, at: Decimal | None) -> int | None:
        """The index of a row's displaced run; ``None`` = the row is in order."""
        if at is None or group not in self._groups:
            return None
        lows, numbers = self._groups[group]
        number = bisect.bisect_right(lows, at) - 1
        return numbers[number] if number >= 0 and at <= self.runs[numbers[number]].high else None


# --- queries on the server -------------------------------------------------------------------------------------------


def counterparts(plan: Plan) -> tuple[Field, tuple[Field, ...]] | None:
    """The server's columns for the client's order and groups; ``None`` = the server does not have all of them, or
    would sort its order column as texts."""
    side = plan.client
    if side.order is None:
        return None
    pairs = dict(zip((*side.key, *side.compare), (*plan.server.key, *plan.server.compare), strict=True))
    theirs = {ours.name: field for ours, field in pairs.items()}
    wanted = [side.order.name, *(field.name for field in side.within)]
    if not all(name in theirs for name in wanted):
        return None
    first, *within = (theirs[name] for name in wanted)
    if plan.server.native(first.name).kind not in ORDERED:
        return None
    return first, tuple(within)


def server_has_order(plan: Plan) -> bool:
    """Whether the server's table has the client's order, so that the server can compute the runs alone."""
    return counterparts(plan) is not None


def overtaken(connection: sa.Connection, plan: Plan) -> int:
    """The number of the server's rows that arrived directly after one that was sent later; 0 = all rows are in order.

    Repeated rows count too: this is only a cheap first check.
    """
    rows = _arrivals(plan).subquery()
    groups = [rows.c[name] for name in _group_names(plan)]
    arrival = [rows.c.arrival] if plan.server.order_unique else [rows.c.arrival, rows.c.ord]  # one column: by its index
    previous = sa.func.lag(rows.c.ord).over(partition_by=groups or None, order_by=arrival)
    steps = sa.select(rows.c.ord, previous.label("previous")).subquery()
    count: int = connection.execute(
        sa.select(sa.func.count()).select_from(steps).where(steps.c.ord < steps.c.previous)
    ).scalar_one()
    return count


def server_runs(connection: sa.Connection, plan: Plan) -> list[Run] | None:
    """The runs of the server's rows; ``None`` = more than `MAX_RUNS`.

    The server returns only the first and last row of each run. A repeated row is a run too; its key gets
    the verdict duplicated anyway.
    """
    found = counterparts(plan)
    assert found is not None
    order, within = found
    names = _group_names(plan)
    rows = _arrivals(plan).subquery()
    groups = [rows.c[name] for name in names]
    sent = sa.func.row_number().over(partition_by=groups or None, order_by=(rows.c.ord, rows.c.arrival))
    numbered = sa.select(*rows.c, sent.label("sent")).subquery()
    by_arrival: dict[str, Any] = {
        "partition_by": [numbered.c[name] for name in names] or None,
        "order_by": (numbered.c.arrival, numbered.c.ord),
    }
    places = sa.select(
        *(numbered.c[name] for name in names),
        *(numbered.c.ord, numbered.c.sent),
        sa.func.row_number().over(**by_arrival).label("arrived"),
        sa.func.lag(numbered.c.sent).over(**by_arrival).label("before"),
        sa.func.lead(numbered.c.sent).over(**by_arrival).label("after"),
    ).subquery()
    begins = places.c.before.is_distinct_from(places.c.sent - 1)
    ends = places.c.after.is_distinct_from(places.c.sent + 1)
    taken = connection.execute(sa.select(places).where(sa.or_(begins, ends)).limit(2 * MAX_RUNS + 1)).all()
    if len(taken) > 2 * MAX_RUNS:
        return None
    edges = [
        (tuple(canonical(value, field) for value, field in zip(row, within, strict=False)), *row[len(within) :])
        for row in taken
    ]
    return list(_between_edges(edges, order))


def _between_edges(edges: list[Any], order: Field) -> Iterator[Run]:
    """The runs, from their first and last rows.

    :param edges: for each row its group, the value of its order column, its positions in the orders of sending and of
        arrival, and the sending positions of the rows that arrived before and after it.
    """
    first: Any = None
    for group, value, sent, arrived, before, after in sorted(edges, key=lambda edge: (repr(edge[0]), edge[2])):
        if before is None or before != sent - 1:
            first = (value, sent, arrived)
        if after is None or after != sent + 1:
            low, high = sortable(first[0], order), sortable(value, order)
            if low is not None and high is not None:
                yield Run(group, low, high, first[1], first[2], sent - first[1] + 1)


def _group_names(plan: Plan) -> list[str]:
    return [f"g{index}" for index in range(len(plan.client.within))]


def _arrivals(plan: Plan) -> sa.Select[Any]:
    """Group, order of sending and arrival of the server's rows."""
    found, side = counterparts(plan), plan.server
    assert found is not None
    assert side.order is not None
    order, within = found
    groups: list[sa.ColumnElement[Any]] = [
        sa.column(field.name).label(name) for field, name in zip(within, _group_names(plan), strict=True)
    ]
    sent: sa.ColumnElement[Any] = sa.column(order.name)
    arrival: sa.ColumnElement[Any] = sa.column(side.order.name)
    return (
        sa.select(*groups, sent.label("ord"), arrival.label("arrival"))
        .select_from(side.place.from_clause())
        .where(sent.is_not(None), arrival.is_not(None), *side.place.conditions())
    )


def group_of(side: Side, row: dict[str, Any]) -> Group:
    """A row's canonical values of the columns `Config.within`."""
    return tuple(canonical(row[field.name], field) for field in side.within)
