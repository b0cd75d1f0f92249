"""How two tables are compared: kinds, key ranges, slices. Made once in the driver, sent to every task."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mercury.reconcile.kinds import Field, Kind, canonical
from mercury.reconcile.source import Native, Place

#: Key ranges beyond this many do not pay: their checksums would be more than the rows they save.
MAX_RANGES = 65_536
#: Rows in a key range, if there are enough ranges.
RANGE_ROWS = 200
#: An integer key is sparse when fewer than one of so many numbers is used.
SPARSE = 1000
#: Rows in a slice, if there are enough slices.
SLICE_ROWS = 250_000
MAX_SLICES = 256
#: Checksums that slices may return to the driver altogether.
MAX_CHECKSUMS = 2_000_000


@dataclass(frozen=True, slots=True)
class Ranges:
    """How keys are put into ranges: the same on both sides.

    A single integer key is cut into ranges of equal width, which a database finds by its index, with one more range
    (-1) for all keys below and one (``count``) for all above: a strange key far away does not make them wide. Every
    other key is put into ranges of its hash, because texts have no order that two databases agree on; and so is an
    integer key that is so sparse that ranges of equal width would be either empty or full.
    """

    count: int
    #: Of an integer key: where the first range begins, and how wide each is.
    low: int | None = None
    width: int = 1

    def of(self, key: tuple[str | None, ...]) -> int | None:
        """The range of a canonical key, computed here. ``None``: an integer key that is null or no integer."""
        if self.low is None:
            digest = hashlib.blake2b(key_text(key).encode(), digest_size=8).digest()
            return int.from_bytes(digest, "big") % self.count
        try:
            number = (int(key[0] or "") - self.low) // self.width
        except ValueError:
            return None
        return max(-1, min(self.count, number))

    @property
    def end(self) -> int:
        """The integer key behind the last range of full width."""
        return (self.low or 0) + self.count * self.width

    def bounds(self, first: int, last: int) -> tuple[int | None, int | None]:
        """The integer keys of the ranges from ``first`` to ``last``: from, and up to but not including."""
        low = self.low or 0
        return (
            None if first < 0 else low + first * self.width,
            None if last >= self.count else low + (last + 1) * self.width,
        )


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a side's table that one task reads. Slices of one side cover its table once; sides need not agree."""

    #: ``all``, ``ctid`` (blocks of a PostgreSQL table) or ``key`` (values of the first key column).
    by: str = "all"
    low: Any = None
    high: Any = None
    #: Rows whose first key column is null belong here too.
    nulls: bool = False

    def conditions(self, first_key: str) -> list[sa.ColumnElement[bool]]:
        if self.by == "all":
            return []
        if self.by == "ctid":
            return [sa.text(f"ctid >= '({self.low},0)'::tid and ctid < '({self.high},0)'::tid")]  # type: ignore[list-item]
        column: sa.ColumnElement[Any] = sa.column(first_key)
        within = [column >= self.low] if self.low is not None else []
        within += [column < self.high] if self.high is not None else []
        inside = sa.and_(*within) if within else sa.true()
        return [sa.or_(inside, column.is_(None)) if self.nulls and within else inside]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of the comparison, as a task needs it."""

    place: Place
    key: tuple[Field, ...]
    compare: tuple[Field, ...]
    natives: tuple[tuple[str, Native], ...]
    slices: tuple[Slice, ...]
    order: Field | None = None
    within: tuple[Field, ...] = ()
    time: Field | None = None
    handed_over: str | None = None
    correlation: str | None = None
    correlation_fields: tuple[Field, ...] = ()

    def native(self, name: str) -> Native:
        return dict(self.natives)[name]

    def columns(self) -> list[str]:
        """Every column that is read row by row, once."""
        fields = [*self.key, *self.compare, *self.within, *self.correlation_fields]
        fields += [field for field in (self.order, self.time) if field is not None]
        names = [field.name for field in fields] + ([self.handed_over] if self.handed_over else [])
        return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole comparison."""

    client: Side
    server: Side
    ranges: Ranges
    #: Checksums are computed by the two databases; otherwise by Spark's tasks.
    pushed_down: bool
    #: Why they are not.
    reason: str = ""
    #: Seconds: width of a bin of the plots of sent and arrived.
    bin_width: int = 1

    @property
    def sides(self) -> tuple[Side, Side]:
        return (self.client, self.server)


def key_text(key: tuple[str | None, ...]) -> str:
    """A key as one text, unmistakable also when it has several columns."""
    if len(key) == 1 and key[0] is not None:
        return key[0]
    return json.dumps(key, ensure_ascii=False)


def key_of(side: Side, row: dict[str, Any]) -> tuple[str | None, ...]:
    return tuple(canonical(row[field.name], field) for field in side.key)


def is_integer_key(side: Side) -> bool:
    return len(side.key) == 1 and side.key[0].kind is Kind.INTEGER
