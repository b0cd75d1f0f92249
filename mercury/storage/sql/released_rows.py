"""Acknowledged rows of several source sequences, marked and deleted together, where a query can contain changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Boolean, Text, and_, bindparam, cast, column, func, not_, or_, update

from mercury.statemachine.ranges import RangeSet
from mercury.storage.sql.prepared import ListOf, Prepared, sought
from mercury.storage.sql.schema import RMS_MESSAGE

ROW = RMS_MESSAGE


def _list(name: str, kind: Any) -> Any:
    return cast(bindparam(name, type_=ListOf()), ARRAY(kind))


#: Ranges of numbers, each of one sequence; ``arrived``: its rows are acknowledged by this transaction.
RANGES = (
    func.unnest(_list("sequences", Text), _list("lows", BigInteger), _list("highs", BigInteger), _list("news", Boolean))
    .table_valued(
        column("of_sequence", Text), column("low", BigInteger), column("high", BigInteger), column("arrived", Boolean)
    )
    .render_derived(name="ranges")
)
IN_RANGES = and_(sought(ROW.c.sequence_id, RANGES.c.of_sequence), ROW.c.number.between(RANGES.c.low, RANGES.c.high))
#: `OutboundMessage.may_go` as SQL, for rows in these ranges.
GOING = and_(IN_RANGES, or_(ROW.c.acknowledged, RANGES.c.arrived), not_(ROW.c.expects_response))

Sets = Mapping[str, RangeSet]


@lru_cache
def acknowledgement() -> Prepared:
    """Mark the rows in these ranges as acknowledged."""
    return Prepared(update(ROW).where(IN_RANGES, not_(ROW.c.acknowledged)).values(acknowledged=True))


def acknowledged_values(acknowledged: Sets) -> dict[str, Any]:
    """The parameters of `acknowledgement`."""
    return _values((name, low, high, True) for name, ranges in acknowledged.items() for low, high in ranges)


def released_values(acknowledged: Sets, released: Sets) -> dict[str, Any]:
    """The parameters of a deletion of `GOING`: of each sequence the ranges that are released, split by whether this
    transaction acknowledges them."""
    return _values(
        (name, *piece) for name, free in released.items() for piece in _pieces(free, acknowledged.get(name, RangeSet()))
    )


def not_gone(acknowledged: Sets, gone: Iterable[str]) -> dict[str, RangeSet]:
    """The sequences of which fewer rows are deleted than were acknowledged.

    :param gone: the sequence of each deleted row that was acknowledged by this transaction.
    """
    counts = Counter(gone)
    return {name: ranges for name, ranges in acknowledged.items() if counts[name] < ranges.count}


def _pieces(free: RangeSet, new: RangeSet) -> Iterable[tuple[int, int, bool]]:
    for low, high in free:
        before = list(new.gaps(low, high))
        yield from ((*each, False) for each in before)
        yield from ((*each, True) for each in RangeSet(before).gaps(low, high))


def _values(ranges: Iterable[tuple[str, int, int, bool]]) -> dict[str, Any]:
    every = list(ranges)
    names = ("sequences", "lows", "highs", "news")
    return {name: [each[place] for each in every] for place, name in enumerate(names)}
