"""Gives one verdict for every key, by counts: rows with the same key are never paired.

A key that both sides have once is compared column by column. If a side has it several times, the counts decide first.
With equal counts, the values of each column are compared as multisets; with different counts, as sets.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby

Key = tuple[str | None, ...]
Values = tuple[str | None, ...]

#: The most characters of a value that are stored, and how many of them precede the first difference.
KEPT, LEAD = 4000, 200


class Verdict(enum.Enum):
    """The verdict on a key: the first that applies, in this order."""

    #: On the server, and not on the client.
    UNEXPECTED = "unexpected"
    #: On the client, and not, or not as often, on the server.
    MISSING = "missing"
    #: More often on the server than on the client.
    DUPLICATED = "duplicated"
    #: Equally often on both sides, with another value in a compared column.
    ALTERED = "altered"
    #: Delivered unaltered, but not in the order of sending.
    OUT_OF_ORDER = "out of order"
    DELIVERED = "delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of either side, in canonical texts."""

    #: 0 = the client's, 1 = the server's.
    side: int
    key: Key
    values: Values
    #: The value of the order column; ``None`` = there is none.
    order: Decimal | None = None
    #: Canonical values of the columns `Config.within`.
    group: Key = ()
    #: When the row was sent or arrived, in microseconds since the epoch.
    time: int | None = None
    handed_over: bool | None = None
    correlation: str | None = None
    #: The index of the client row's displaced run; ``None`` = it is in order, or a server's row.
    run: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A key with its verdict."""

    key: Key
    verdict: Verdict
    client_count: int
    server_count: int
    #: Indexes of the compared columns that differ.
    altered: tuple[int, ...] = ()
    client: Values | None = None
    server: Values | None = None
    handed_over: bool | None = None
    correlation: str | None = None
    run: int | None = None
    order: Decimal | None = None
    #: Microseconds from sent to arrived; ``None`` = not known.
    latency: int | None = None


@dataclass(slots=True)
class _Column:
    """A summary, of fixed size, of one side's values in a column."""

    #: The sum of the values' hashes, which does not depend on their order.
    total: int = 0
    #: The least value, as (is not null, text): null sorts before every text.
    least: tuple[bool, str] | None = None
    greatest: tuple[bool, str] | None = None

    def add(self, value: str | None) -> None:
        self.total += hash(value)
        ranked = (value is not None, value or "")
        if self.least is None or ranked < self.least:
            self.least = ranked
        if self.greatest is None or ranked > self.greatest:
            self.greatest = ranked

    def differs(self, other: _Column, *, as_often: bool) -> bool:
        occurring = (self.least, self.greatest) != (other.least, other.greatest)
        return occurring or (as_often and self.total != other.total)


@dataclass(slots=True)
class _Side:
    """A summary, of fixed size, of one side's rows with the same key."""

    count: int = 0
    columns: list[_Column] = field(default_factory=list)
    values: Values | None = None
    time: int | None = None

    def add(self, row: Row, other: Values | None) -> None:
        self.count += 1
        if not self.columns:
            self.columns = [_Column() for _ in row.values]
        for column, value in zip(self.columns, row.values, strict=True):
            column.add(value)
        # Show a row that differs from the other side's, if there is one.
        if self.values is None or self.values == other:
            self.values = row.values
        if row.time is not None and (self.time is None or row.time < self.time):
            self.time = row.time


def judged(rows: Iterable[Row]) -> Iterator[Judged]:
    """A verdict for each key.

    :param rows: sorted so that the rows of a key are consecutive, the client's first.
    """
    for key, group in groupby(rows, key=lambda row: row.key):
        yield _judge(key, group)


def _judge(key: Key, rows: Iterable[Row]) -> Judged:
    client, server = _Side(), _Side()
    first: Row | None = None
    for row in rows:
        if row.side:
            server.add(row, client.values)
        else:
            first = first or row
            client.add(row, None)
    altered: tuple[int, ...] = ()
    if client.count and server.count:
        as_often = client.count == server.count
        pairs = enumerate(zip(client.columns, server.columns, strict=True))
        altered = tuple(index for index, (ours, theirs) in pairs if ours.differs(theirs, as_often=as_often))
    known = client.time is not None and server.time is not None
    verdict = _verdict(client.count, server.count, altered, None if first is None else first.run)
    # Values are reported for differences only.
    ours, theirs = (None, None) if verdict is Verdict.DELIVERED else shortened(client.values, server.values)
    return Judged(
        key=key,
        verdict=verdict,
        client_count=client.count,
        server_count=server.count,
        altered=altered,
        client=ours,
        server=theirs,
        handed_over=None if first is None else first.handed_over,
        correlation=None if first is None else first.correlation,
        run=None if first is None else first.run,
        order=None if first is None else first.order,
        latency=(server.time or 0) - (client.time or 0) if known else None,
    )


def shortened(client: Values | None, server: Values | None) -> tuple[Values | None, Values | None]:
    """The values as they are stored: long ones are cut to `KEPT` characters from a little before the first
    difference."""
    if client is None or server is None:
        return _cut(client), _cut(server)
    from_here = [
        max(0, common_start(ours, theirs) - LEAD) if ours is not None and theirs is not None else 0
        for ours, theirs in zip(client, server, strict=True)
    ]
    return _cut(client, from_here), _cut(server, from_here)


def common_start(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (mine, its) in pairs if mine != its), min(len(one), len(other)))


def _cut(values: Values | None, from_here: Sequence[int] = ()) -> Values | None:
    if values is None:
        return None
    return tuple(
        value if value is None or len(value) <= KEPT else _part(value, from_here[index] if from_here else 0)
        for index, value in enumerate(values)
    )


def _part(value: str, start: int) -> str:
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    end = "…" if start + KEPT < len(value) else ""
    return f"{'…' if start else ''}{value[start : start + KEPT]}{end} ({len(value):,} characters, SHA-256 {digest}…)"


def _verdict(client: int, server: int, altered: Sequence[int], run: int | None) -> Verdict:
    if not client:
        return Verdict.UNEXPECTED
    if server < client:
        return Verdict.MISSING
    if server > client:
        return Verdict.DUPLICATED
    if altered:
        return Verdict.ALTERED
    return Verdict.DELIVERED if run is None else Verdict.OUT_OF_ORDER
