"""The second pass: the rows of chosen key ranges, as canonical texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import sqlalchemy as sa

from mercury.reconcile import order, pushdown
from mercury.reconcile.checksums import NO_RANGE
from mercury.reconcile.kinds import Field, Kind, boolean, canonical, microseconds, sortable
from mercury.reconcile.plan import Plan, Ranges, Side, Slice, key_of
from mercury.reconcile.source import connected, stream, translating
from mercury.reconcile.verdicts import Judged, Key, Row, Verdict, judged

#: Key ranges that are held in memory at a time, of both sides.
RANGES_PER_QUERY = 5
#: Displaced runs of one row and of several that one statement names.
MAX_SINGLE, MAX_LONGER = 5000, 20
MICRO = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Portion:
    """What one task of the second pass reads: a slice of one side, or some key ranges of both."""

    side: int = 0
    slice: Slice | None = None
    #: Ascending.
    ranges: tuple[int, ...] = ()


@dataclass(frozen=True)
class Request:
    """Which rows are wanted."""

    plan: Plan
    #: The key ranges; ``None`` = all.
    ranges: frozenset[int] | None = None
    #: Ranges whose rows are wanted even where both sides agree.
    whole: frozenset[int] = frozenset()
    displaced: order.Displacements = field(default_factory=lambda: order.Displacements(()))

    @property
    def together(self) -> bool:
        """One task reads a key range of both sides: the databases find it by their indexes."""
        return self.ranges is not None and self.plan.ranges.low is not None and NO_RANGE not in self.ranges

    def portions(self, parallel: int) -> list[Portion]:
        """The tasks: key ranges of both sides, or else the slices of each side."""
        if not self.together:
            return [Portion(number, each) for number, side in enumerate(self.plan.sides) for each in side.slices]
        wanted = sorted(self.ranges or ())
        # In turn: faults stand together, and so would the work.
        tasks = max(1, min(parallel, -(-len(wanted) // 4)))
        return [Portion(ranges=tuple(wanted[index::tasks])) for index in range(tasks)]


def of_slice(request: Request, portion: Portion) -> Iterator[Row]:
    """The wanted rows of a slice of one side. Called by Spark.

    :raises StorageError: the database refuses.
    """
    plan, side = request.plan, request.plan.sides[portion.side]
    assert portion.slice is not None
    where = portion.slice.conditions(side.key[0].name)
    asked = plan.pushed_down and request.ranges is not None and NO_RANGE not in request.ranges
    if asked:
        numbers = "{" + ",".join(map(str, sorted(request.ranges or ()))) + "}"
        wanted = sa.any_(sa.cast(sa.literal(numbers, sa.Text), sa.dialects.postgresql.ARRAY(sa.BigInteger)))
        where = [*where, pushdown.range_of(side, plan.ranges) == wanted]
    with connected(side.place.url, side.place.snapshot) as connection, translating(side.place.table):
        for row in _read(connection, request, portion.side, where):
            # Ranges of texts that PostgreSQL hashed are not what is computed here.
            if asked or request.ranges is None or range_of(plan.ranges, row.key) in request.ranges:
                yield row


def judged_ranges(request: Request, portion: Portion) -> Iterator[Judged]:
    """The verdicts of some key ranges, a few of these at a time. Called by Spark.

    What was simply delivered is left out, but in the ranges of `Request.whole`.

    :raises StorageError: a database refuses.
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
                bounds = [ranges.bounds(*each) for each in stretches(some)]
                where = sa.or_(*(_between(key, low, high) for low, high in bounds))
                for row in _read(connection, request, number, [where]):
                    found[row.key].append(row)
            for each in judged(row for rows in found.values() for row in rows):
                if each.verdict is not Verdict.DELIVERED or range_of(ranges, each.key) in request.whole:
                    yield each


def _between(key: sa.ColumnElement[Any], low: int | None, high: int | None) -> sa.ColumnElement[bool]:
    ends = ([key >= low] if low is not None else []) + ([key < high] if high is not None else [])
    return sa.and_(*ends) if ends else sa.true()


def stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as (first, last) of neighbours."""
    start = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield numbers[start], numbers[index - 1]
            start = index


def range_of(ranges: Ranges, key: tuple[str | None, ...]) -> int:
    """The range of a key, `NO_RANGE` included."""
    number = ranges.of(key)
    return NO_RANGE if number is None else number


def displaced_ranges(plan: Plan, displaced: order.Displacements, part: Slice) -> set[int]:
    """The key ranges of the client's rows in a slice that are out of order. Called by Spark.

    :raises StorageError: the database refuses.
    """
    side = plan.client
    assert side.order is not None
    names = list(dict.fromkeys(field.name for field in (*side.key, *side.within, side.order)))
    columns: list[sa.ColumnElement[Any]] = [sa.column(name) for name in names]
    asked = plan.pushed_down and plan.ranges.low is None
    columns += [pushdown.range_of(side, plan.ranges)] if asked else []
    query = (
        sa.select(*columns)
        .select_from(side.place.from_clause())
        .where(*side.place.conditions(), *part.conditions(side.key[0].name), *_near(side.order, displaced))
    )
    found: set[int] = set()
    with connected(side.place.url, side.place.snapshot) as connection, translating(side.place.table):
        for chunk in stream(connection, query):
            for values in chunk:
                row = dict(zip(names, values, strict=False))
                at = sortable(row[side.order.name], side.order)
                if displaced.find(order.group_of(side, row), at) is not None:
                    found.add(values[-1] if asked else range_of(plan.ranges, key_of(side, row)))
    return found


def _near(field: Field, displaced: order.Displacements) -> list[sa.ColumnElement[bool]]:
    """What the database can leave out of a look for displaced rows: all but them when they are few and numbered."""
    single = [int(run.low) for run in displaced.runs if run.low == run.high]
    longer = [run for run in displaced.runs if run.low != run.high]
    if field.kind is not Kind.INTEGER or len(single) > MAX_SINGLE or len(longer) > MAX_LONGER:
        return []
    column: sa.ColumnElement[Any] = sa.column(field.name)
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
                # As wide as the column is in Spark: six digits after the point are a microsecond.
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
        return True  # a time, most likely


def _correlation(side: Side, row: dict[str, Any]) -> str | None:
    if side.correlation is None:
        return None
    return side.correlation.format(**{each.name: canonical(row[each.name], each) for each in side.correlation_fields})
