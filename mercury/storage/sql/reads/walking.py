"""Pages over one or more parts of a table, each in the order of an indexed column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, ColumnElement, Select, Subquery, func, select

from mercury.storage.searching import MOST_ROWS, UnknownPlace
from mercury.storage.sql.overview import select_any
from mercury.storage.sql.prepared import Row

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction

#: The place of the rows that come after those of all sequences.
LAST_PART = 2**62


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that meet conditions of an index, in the order of its column."""

    #: The place among the parts.
    place: int
    where: tuple[ColumnElement[bool], ...]
    by: Column[Any]


@dataclass(frozen=True, slots=True)
class Walk:
    """A way through the parts of a table.

    :param columns: the columns of the rows that are read.
    :param conditions: the conditions that no index answers; empty = none.
    :param finish: makes the query of a page from the read rows.
    """

    columns: Sequence[Column[Any]]
    parts: Sequence[Part]
    conditions: Callable[[Subquery], list[ColumnElement[bool]]]
    finish: Callable[[Subquery], Select[Any]]

    def page(self, tx: SqlTransaction, after: str | None, limit: int) -> tuple[list[Row], str | None]:
        """The rows of a page, and the argument for the following one."""
        place, value = _cursor(after)
        found: list[Row] = []
        for part in self.parts:
            if part.place < place:
                continue
            room = limit - len(found)
            rows, last = self._rows(tx, part, value if part.place == place else 0, room)
            found += rows[:room]
            if len(rows) > room:
                return found, f"{part.place}.{rows[room - 1][part.by.name]}"
            if last is not None:
                return found, f"{part.place}.{last}"
        return found, None

    def _rows(self, tx: SqlTransaction, part: Part, low: int, room: int) -> tuple[Sequence[Row], int | None]:
        """At most one row more than ``room``; and the last value that was read, if there may be more rows."""
        query = select(*self.columns).where(*part.where, part.by > low).order_by(part.by)
        window = query.limit(MOST_ROWS).subquery("read_rows")
        conditions = self.conditions(window)
        if not conditions:
            window = query.limit(room + 1).subquery("read_rows")
        by = window.c[part.by.name]
        rows = tx.read(self.finish(window).where(*conditions).order_by(by).limit(room + 1))
        if not conditions or len(rows) > room:
            return rows, None
        (read,) = tx.read(select_any(func.max(by).label("last"), func.count().label("many")).select_from(window))
        return rows, read["last"] if read["many"] == MOST_ROWS else None


def _cursor(after: str | None) -> tuple[int, int]:
    """The part and the value after which a page begins.

    :raises UnknownPlace: the text is not from a page.
    """
    if after is None:
        return -1, 0
    place, _, value = after.partition(".")
    if not place.isdigit() or not value.isdigit() or not after.isascii() or len(after) > 40:
        raise UnknownPlace(after)
    return int(place), int(value)


def position_at(tx: SqlTransaction, position: Column[Any], time: Column[Any], at: float) -> int:
    """The lowest position from which on the times are not before ``at``, nearly: times grow with positions except for
    transactions that took long."""
    # Two subqueries: SQLite answers each from the index, and would read the whole table for both at once.
    low_end, high_end = (select(each(position)).scalar_subquery() for each in (func.min, func.max))
    (ends,) = tx.read(select_any(low_end.label("low"), high_end.label("high")))
    if ends["low"] is None:
        return 0
    low, high = int(ends["low"]), int(ends["high"]) + 1
    while low < high:
        middle = (low + high) // 2
        rows = tx.read(select(position, time).where(position >= middle).order_by(position).limit(1))
        if rows and rows[0][time.name] < at:
            low = int(rows[0][position.name]) + 1
        else:
            high = middle
    return low
