"""The plan of a comparison: kinds, key ranges, slices. The driver makes it once and sends it to every task."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mercury.reconcile.kinds import Field, Kind, canonical
from mercury.reconcile.source import Native, Place

#: The most key ranges. With more, transferring the checksums would cost more than reading the rows saves.
MAX_RANGES = 65_536
#: The number of rows in a key range, unless `MAX_RANGES` makes it larger.
RANGE_ROWS = 200
#: An integer key is sparse if less than one in `SPARSE` numbers between the least and the greatest is used.
SPARSE = 1000
#: The number of rows in a slice, unless `MAX_SLICES` makes it larger.
SLICE_ROWS = 250_000
MAX_SLICES = 256
#: The most checksums that all slices together return to the driver.
MAX_CHECKSUMS = 2_000_000


@dataclass(frozen=True, slots=True)
class Ranges:
    """The assignment of keys to key ranges, the same on both sides.

    A single integer key is divided into ranges of equal width, which a database finds by its index. Two more ranges, -1
    and ``count``, hold all keys below and above, so that a single key far away does not widen the others. All other
    keys are divided by their hash, because two databases may sort texts differently; so is an integer key that is so
    sparse that ranges of equal width would be either empty or full.
    """

    count: int
    #: For an integer key: the first key of the first range, and the width of each range; ``None`` = divided by hash.
    low: int | None = None
    width: int = 1

    def of(self, key: tuple[str | None, ...]) -> int | None:
        """The range of a canonical key; ``None`` = with integer ranges, the key is null or not an integer."""
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
        """The first integer key after the last range of full width."""
        return (self.low or 0) + self.count * self.width

    def bounds(self, first: int, last: int) -> tuple[int | None, int | None]:
        """The integer keys of the ranges ``first`` to ``last``: the first key, and the first key after them."""
        low = self.low or 0
        return (
            None if first < 0 else low + first * self.width,
            None if last >= self.count else low + (last + 1) * self.width,
        )


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a side's table that one task reads. The slices of one side cover its table once; the two sides may be
    sliced differently."""

    #: ``all``, ``ctid`` (blocks of a PostgreSQL table) or ``key`` (values of the first key column).
    by: str = "all"
    low: Any = None
    high: Any = None
    #: Whether this slice includes the rows whose first key column is null.
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
    """One side of the comparison, with all that a task needs."""

    place: Place
    key: tuple[Field, ...]
    compare: tuple[Field, ...]
    natives: tuple[tuple[str, Native], ...]
    slices: tuple[Slice, ...]
    order: Field | None = None
    #: Whether no two rows have the same value in the order column.
    order_unique: bool = False
    within: tuple[Field, ...] = ()
    time: Field | None = None
    handed_over: str | None = None
    correlation: str | None = None
    correlation_fields: tuple[Field, ...] = ()

    def native(self, name: str) -> Native:
        return dict(self.natives)[name]

    def columns(self) -> list[str]:
        """The names of the columns that are read, each once."""
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
    #: Whether the two databases compute the checksums; otherwise Spark's tasks do.
    pushed_down: bool
    #: Why the databases do not; empty = they do.
    reason: str = ""
    #: The width of a bin of the plots over time, in seconds.
    bin_width: int = 1

    @property
    def sides(self) -> tuple[Side, Side]:
        return (self.client, self.server)


def key_text(key: tuple[str | None, ...]) -> str:
    """A key as one text, different for different keys also when they have several columns."""
    if len(key) == 1 and key[0] is not None:
        return key[0]
    return json.dumps(key, ensure_ascii=False)


def key_of(side: Side, row: dict[str, Any]) -> tuple[str | None, ...]:
    return tuple(canonical(row[field.name], field) for field in side.key)


def is_integer_key(side: Side) -> bool:
    """Whether the key is one column that the database itself compares and sorts as integers."""
    return len(side.key) == 1 and has_integers(side, side.key[0])


def has_integers(side: Side, field: Field) -> bool:
    """Whether a column is compared as integers and holds integers; texts of digits are sorted as texts."""
    return field.kind is Kind.INTEGER and side.native(field.name).kind is Kind.INTEGER
