"""The second pass: reads the rows of chosen key ranges, as canonical texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from mercury.reconcile import order, pushdown
from mercury.reconcile.checksums import NO_RANGE
from mercury.reconcile.kinds import boolean, canonical, microseconds, sortable
from mercury.reconcile.plan import Plan, Ranges, Side, Slice, has_integers, key_of
from mercury.reconcile.source import connected, stream, translating
from mercury.reconcile.verdicts import Judged, Key, Row, Verdict, judged

#: The number of key ranges, of both sides, that one task has in memory at a time.
RANGES_PER_QUERY = 5
#: The most displaced runs of one row, and of several rows, in the conditions of one statement.
MAX_SINGLE, MAX_LONGER = 5000, 20
MICRO = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Portion:
    """The work of one task of the second pass: a slice of one side, or some key ranges of both."""

    side: int = 0
    slice: Slice | None = None
    #: Ascending.
    ranges: tuple[int, ...] = ()


@dataclass(frozen=True)
class Request:
    """The rows that the second pass reads."""

    plan: Plan
    #: The key ranges to read; ``None`` = all.
    ranges: frozenset[int] | None = None
    #: Of these, the ranges whose delivered keys are reported too.
    whole: frozenset[int] = frozenset()
    displaced: order.Displacements = field(default_factory=lambda: order.Displacements(()))

    @property
    def both_sides(self) -> bool:
        """Whether one task reads a key range of both sides, because the databases find the range by their indexes."""
        return self.ranges is not None and self.plan.ranges.low is not None and NO_RANGE not in self.ranges

    def portions(self, parallel: int) -> list[Portion]:
        """The tasks: some key ranges of both sides each, or else one slice of one side each."""
        if not self.both_sides:
            return [Portion(number, each) for number, side in enumerate(self.plan.sides) for each in side.slices]
        wanted = sorted(self.ranges or ())
        # Neighbouring ranges go to different tasks: differences often cluster, and so would the work.
        tasks = max(1, min(parallel, -(-len(wanted) // 4)))
        return [Portion(ranges=tuple(wanted[index::tasks])) for index in range(tasks)]


def of_slice(request: Request, portion: Portion) -> Iterator[Row]:
    """The requested rows of a slice of one side. Called by Spark.

    :raises StorageError: the database fails.
    """
    plan, side = request.plan, request.plan.sides[portion.side]
    assert portion.slice is not None
    where = portion.slice.conditions(side.key[0].name)
    by_database = plan.pushed_down and request.ranges is not None and NO_RANGE not in request.ranges
    if by_database:
        numbers = "{" + ",".join(map(str, sorted(request.ranges or ()))) + "}"
        wanted = sa.any_(sa.cast(sa.literal(numbers, sa.Text), ARRAY(sa.BigInteger)))
        where = [*where, pushdown.range_of(side, plan.ranges) == wanted]
    with connected(side.place.url, side.place.snapshot) as connection, translating(side.place.table):
        for row in _read(connection, request, portion.side, where):
            # PostgreSQL's hash ranges differ from those of `range_of`, so a query by its ranges is not filtered again.
            if by_database or request.ranges is None or range_of(plan.ranges, row.key) in request.ranges:
                yield row


def judged_ranges(request: Request, portion: Portion) -> Iterator[Judged]:
    """The verdicts of some key ranges, `RANGES_PER_QUERY` at a time. Called by Spark.

    Delivered keys are left out, except in the ranges of `Request.whole`.

    :raises StorageError: a database fails.
    """
    ranges = request.plan.ranges
    client, server = (side.place for side in request.plan.sides)
    with (
        translating(f"{client.table}, {server.table}"),
        connected(client.url, client.snapshot) as ours,
        connected(server.url, server.snapshot) as theirs,
    ):
        for start in range(0, len(portion.ranges), RANGES_PER_QUERY):
            some = portion.ranges[start : start + RANGES_PER_QUERY]
            found: dict[Key, list[Row]] = defaultdict(list)
            for number, connection in enumerate((ours, theirs)):
                key: sa.ColumnElement[Any] = sa.column(request.plan.sides[number].key[0].name)
                bounds = [ranges.bounds(*each) for each in consecutive(some)]
                where = sa.or_(*(_between(key, low, high) for low, high in bounds))
                for row in _read(connection, request, number, [where]):
                    found[row.key].append(row)
            for each in judged(row for rows in found.values() for row in rows):
                if each.verdict is not Verdict.DELIVERED or range_of(ranges, each.key) in request.whole:
                    yield each


def _between(key: sa.ColumnElement[Any], low: int | None, high: int | None) -> sa.ColumnElement[bool]:
    ends = ([key >= low] if low is not None else []) + ([key < high] if high is not None else [])
    return sa.and_(*ends) if ends else sa.true()


def consecutive(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Groups of consecutive numbers as (first, last), from ascending numbers."""
    start = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield numbers[start], numbers[index - 1]
            start = index


def range_of(ranges: Ranges, key: tuple[str | None, ...]) -> int:
    """The range of a key; `NO_RANGE` if it has none."""
    number = ranges.of(key)
    return NO_RANGE if number is None else number


def displaced_ranges(plan: Plan, displaced: order.Displacements, part: Slice) -> set[int]:
    """The key ranges of the rows out of order in a slice of the client's table. Called by Spark.

    :raises StorageError: the database fails.
    """
    side = plan.client
    assert side.order is not None
    names = list(dict.fromkeys(field.name for field in (*side.key, *side.within, side.order)))
    columns: list[sa.ColumnElement[Any]] = [sa.column(name) for name in names]
    by_database = plan.pushed_down and plan.ranges.low is None
    columns += [pushdown.range_of(side, plan.ranges)] if by_database else []
    query = (
        sa.select(*columns)
        .select_from(side.place.from_clause())
        .where(*side.place.conditions(), *part.conditions(side.key[0].name), *_near(side, displaced))
    )
    found: set[int] = set()
    with connected(side.place.url, side.place.snapshot) as connection, translating(side.place.table):
        for chunk in stream(connection, query):
            for values in chunk:
                row = dict(zip(names, values, strict=False))
                at = sortable(row[side.order.name], side.order)
                if displaced.find(order.group_of(side, row), at) is not None:
                    found.add(values[-1] if by_database else range_of(plan.ranges, key_of(side, row)))
    return found


def _near(side: Side, displaced: order.Displacements) -> list[sa.ColumnElement[bool]]:
    """Conditions that select the displaced rows, if the runs are few and their order column is a number; otherwise
    none."""
    assert side.order is not None
    single = [int(run.low) for run in displaced.runs if run.low == run.high]
    longer = [run for run in displaced.runs if run.low != run.high]
    if not has_integers(side, side.order) or len(single) > MAX_SINGLE or len(longer) > MAX_LONGER:
        return []
    column: sa.ColumnElement[Any] = sa.column(side.order.name)
    return [sa.or_(column.in_(single), *(column.between(int(run.low), int(run.high)) for run in longer))]


# --- one row ---------------------------------------------------------------------------------------------------------


def _read(
    connection: sa.Connection, request: Request, number: int, where: Iterable[sa.ColumnElement[bool]]
) -> Iterator[Row]:
    side = request.plan.sides[number]
    names = side.columns()
    columns: list[sa.ColumnElement[Any]] = [sa.column(name) for name in names]
    query = sa.select(*columns).select_from(side.place.from_clause()).where(*side.place.conditions(), *where)
    for chunk in stream(connection, query):
        for values in chunk:
            row = dict(zip(names, values, strict=True))
            group = order.group_of(side, row)
            at = None if side.order is None else sortable(row[side.order.name], side.order)
            yield Row(
                side=number,
                key=key_of(side, row),
                values=tuple(canonical(row[each.name], each) for each in side.compare),
                # Spark's column has six digits after the point, a microsecond.
                order=None if at is None else at.quantize(MICRO, context=Context(prec=38)),
                group=group,
                time=_time(side, row),
                handed_over=_handed_over(side, row),
                correlation=_correlation(side, row),
                run=None if number or not request.displaced.runs else request.displaced.find(group, at),
            )


def _time(side: Side, row: dict[str, Any]) -> int | None:
    if side.time is None or row[side.time.name] is None:
        return None
    try:
        return microseconds(row[side.time.name], side.time)
    except (ValueError, TypeError, ArithmeticError):
        return None


def _handed_over(side: Side, row: dict[str, Any]) -> bool | None:
    if side.handed_over is None:
        return None
    value = row[side.handed_over]
    try:
        return value is not None and boolean(value)
    except ValueError:
        return True  # any other value that is not null, such as a time


def _correlation(side: Side, row: dict[str, Any]) -> str | None:
    if side.correlation is None:
        return None
    return side.correlation.format(**{each.name: canonical(row[each.name], each) for each in side.correlation_fields})
