"""The first pass: a row count and a checksum for each key range of each side, from slices that are read in parallel."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from mercury.reconcile import order, pushdown
from mercury.reconcile.kinds import Field, canonical, microseconds
from mercury.reconcile.plan import Plan, Side, Slice, key_of
from mercury.reconcile.source import connected, stream, translating

#: Stands for no key range: the key is null or, with integer ranges, not an integer.
NO_RANGE = -(2**62)


@dataclass(frozen=True, slots=True)
class Job:
    """One task of the first pass: the checksums of a slice, or the count of rows that were overtaken."""

    side: int
    slice: Slice | None


@dataclass(slots=True)
class Sums:
    """The first pass's result for one side."""

    rows: int = 0
    #: Key range -> rows, sum of the rows' hashes.
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Bin of time (see `Plan.bin_width`) -> rows.
    times: Counter[int] = field(default_factory=Counter)

    def add(self, other: Sums) -> None:
        self.rows += other.rows
        self.times.update(other.times)
        for number, (count, total) in other.ranges.items():
            before = self.ranges.get(number, (0, 0))
            self.ranges[number] = (before[0] + count, before[1] + total)


@dataclass(slots=True)
class FirstPass:
    """Both sides' sums."""

    client: Sums = field(default_factory=Sums)
    server: Sums = field(default_factory=Sums)
    #: Rows on the server that arrived before one that was sent earlier; ``None`` = the server's table has no order
    #: column.
    overtaken: int | None = None

    def add(self, side: int, answer: Sums | int) -> None:
        """Add the answer of a `Job`."""
        if isinstance(answer, int):
            self.overtaken = answer
        else:
            (self.server if side else self.client).add(answer)

    def differing(self) -> list[int]:
        """The key ranges that are not equal, ascending."""
        numbers = self.client.ranges.keys() | self.server.ranges.keys()
        return sorted(each for each in numbers if self.client.ranges.get(each) != self.server.ranges.get(each))


def jobs(plan: Plan) -> list[Job]:
    """The tasks of the first pass, alternating between the sides so that both databases work all the time."""
    sides = [[Job(number, each) for each in side.slices] for number, side in enumerate(plan.sides)]
    found = [Job(1, None)] if order.server_has_order(plan) else []
    for index in range(max(map(len, sides))):
        found += [jobs[index] for jobs in sides if index < len(jobs)]
    return found


def run(plan: Plan, job: Job) -> Sums | int:
    """Run one task on a connection of its own. Called by Spark.

    :raises StorageError: the database fails.
    """
    place = plan.sides[job.side].place
    with connected(place.url, place.snapshot) as connection:
        return _run(connection, plan, job)


def _run(connection: sa.Connection, plan: Plan, job: Job) -> Sums | int:
    side = plan.sides[job.side]
    with translating(side.place.table):
        if job.slice is None:
            return order.overtaken(connection, plan)
        if plan.pushed_down:
            return _by_database(connection, plan, side, job.slice)
        return _by_task(connection, plan, side, job.slice)


class Connections:
    """Connections to both sides, each used by one thread at a time and kept for its next task.

    Used as a context manager, which closes them all.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._free: tuple[list[sa.Connection], ...] = ([], [])
        self._all = contextlib.ExitStack()

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *error: object) -> None:
        self._all.close()

    def run(self, job: Job) -> Sums | int:
        """Run one task.

        :raises StorageError: the database fails.
        """
        free, place = self._free[job.side], self._plan.sides[job.side].place
        connection = free.pop() if free else self._all.enter_context(connected(place.url, place.snapshot))
        answer = _run(connection, self._plan, job)
        free.append(connection)
        return answer


def _by_database(connection: sa.Connection, plan: Plan, side: Side, part: Slice) -> Sums:
    """The checksums of a slice, computed by the database."""
    sums = Sums()
    where = [*side.place.conditions(), *part.conditions(side.key[0].name)]
    rows = (
        sa.select(
            pushdown.range_of(side, plan.ranges).label("number"),
            pushdown.row_hash(side, (*side.key, *side.compare)).label("hash"),
        )
        .select_from(side.place.from_clause())
        .where(*where)
        .subquery()
    )
    totals = sa.select(rows.c.number, sa.func.count(), sa.func.sum(rows.c.hash)).group_by(rows.c.number)
    for number, count, total in connection.execute(totals):
        sums.ranges[NO_RANGE if number is None else number] = (count, int(total))
        sums.rows += count
    if side.time is not None:
        moment = pushdown.value(side.time, side.native(side.time.name))
        seconds = sa.func.floor(sa.extract("epoch", moment) / plan.bin_width)
        bins = sa.select(seconds, sa.func.count()).select_from(side.place.from_clause()).where(*where).group_by(seconds)
        sums.times.update({int(number): count for number, count in connection.execute(bins) if number is not None})
    return sums


def _by_task(connection: sa.Connection, plan: Plan, side: Side, part: Slice) -> Sums:
    """The checksums of a slice, computed here from its rows, because the two databases would compute different ones."""
    fields = (*side.key, *side.compare)
    names = list(dict.fromkeys([each.name for each in fields] + ([side.time.name] if side.time else [])))
    columns: list[sa.ColumnElement[Any]] = [sa.column(name) for name in names]
    query = (
        sa.select(*columns)
        .select_from(side.place.from_clause())
        .where(*side.place.conditions(), *part.conditions(side.key[0].name))
    )
    sums = Sums()
    totals: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for chunk in stream(connection, query):
        for values in chunk:
            row = dict(zip(names, values, strict=True))
            number = plan.ranges.of(key_of(side, row))
            total = totals[NO_RANGE if number is None else number]
            total[0] += 1
            total[1] += row_hash(row, fields)
            if side.time is not None and (second := _second(row[side.time.name], side.time)) is not None:
                sums.times[second // plan.bin_width] += 1
        sums.rows += len(chunk)
    sums.ranges = {number: (count, total) for number, (count, total) in totals.items()}
    return sums


def row_hash(row: dict[str, Any], fields: Iterable[Field]) -> int:
    """A 64-bit hash of a row's canonical texts. Their lengths are hashed too, so that different rows have different
    input."""
    digest = hashlib.blake2b(digest_size=8)
    for each in fields:
        text = canonical(row[each.name], each)
        encoded = b"" if text is None else text.encode("utf-8", "surrogatepass")
        digest.update(b"-" if text is None else b"%d:" % len(encoded))
        digest.update(encoded)
    return int.from_bytes(digest.digest(), "big")


def _second(value: Any, field: Field) -> int | None:
    try:
        return None if value is None else microseconds(value, field) // 1_000_000
    except (ValueError, TypeError, ArithmeticError):
        return None
