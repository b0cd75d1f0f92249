"""Acknowledged rows of source sequences: marks and deletes them, and keeps their correlations.

A statement is built once for each size in `SIZES`; shorter lists are padded with empty ranges. Building a statement
takes longer than executing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    and_,
    bindparam,
    delete,
    false,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)

from mercury.statemachine.faults import Ranges
from mercury.statemachine.ranges import RangeSet
from mercury.storage.sql.prepared import Prepared, among, sought
from mercury.storage.sql.released_rows import (
    GOING,
    RANGES,
    acknowledged_values,
    acknowledgement,
    not_gone,
    released_values,
)
from mercury.storage.sql.schema import RMS_BODY, RMS_KEPT, RMS_MESSAGE
from mercury.storage.sql.statements import Statements

ROW, BODY, KEPT = RMS_MESSAGE, RMS_BODY, RMS_KEPT
#: The columns that are kept until retention ends, of rows with a correlation.
REMEMBERED = ("message_id", "correlation", "sequence_id", "number", "created_at")
#: The rows of a sequence. The parameter is not named like the column: an update would write it as a value.
SEQUENCE = ROW.c.sequence_id == bindparam("of_sequence")
OF_SEQUENCE = and_(SEQUENCE, ROW.c.number.is_not(None))
AT = bindparam("at", type_=Double)
#: Numbers of ranges in one statement; a list is padded to the next of these sizes.
SIZES = (1, 4, 16)
NOTHING = (0, -1)

Values = Mapping[str, Any]


class AcknowledgedRows:
    """The acknowledged ranges of the sequences of one transaction, written together.

    A transaction often handles several acknowledgements of one sequence, each with a few more numbers than the one
    before.
    """

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        self._acknowledged: dict[str, RangeSet] = {}
        self._released: dict[str, RangeSet] = {}

    def __bool__(self) -> bool:
        return bool(self._acknowledged or self._released)

    def reach(self, lowest: Mapping[str, int]) -> bool:
        """Whether ranges of a sequence include its number in ``lowest``, or a higher one."""
        return any(
            ranges.highest >= lowest[name]
            for collected in (self._acknowledged, self._released)
            for name, ranges in collected.items()
            if name in lowest
        )

    def forget(self) -> None:
        """Drop what was not written: a savepoint was rolled back."""
        self._acknowledged.clear()
        self._released.clear()

    def acknowledge(self, sequence_id: str, ranges: Ranges) -> None:
        released = self._released.get(sequence_id)
        if released is not None and _overlap(released, ranges):
            self.flush()  # a release covers only rows that were acknowledged before it
        self._acknowledged.setdefault(sequence_id, RangeSet()).update(ranges)

    def release(self, sequence_id: str, ranges: Ranges) -> None:
        self._released.setdefault(sequence_id, RangeSet()).update(ranges)

    def flush(self) -> None:
        """Write the collected ranges."""
        acknowledged, released = self._acknowledged, self._released
        self._acknowledged, self._released = {}, {}
        if len(acknowledged | released) > 1 and self._tx.dialect.changes_in_queries:
            self._flush_together(acknowledged, released)
            return
        for sequence_id in acknowledged | released:
            new = acknowledged.get(sequence_id, RangeSet())
            free = released.get(sequence_id, RangeSet())
            if not free or len(new) > SIZES[-1]:
                self._acknowledge(sequence_id, new)
                new = RangeSet()
            if free and self._release(sequence_id, new, free) < new.count:
                self._acknowledge(sequence_id, new)

    def consume(self, message_ids: Sequence[str]) -> None:
        """Delete rows by their MessageID."""
        self._remove(_consumed, 0, {"names": message_ids})

    def _flush_together(self, acknowledged: dict[str, RangeSet], released: dict[str, RangeSet]) -> None:
        """Write the ranges of several sequences by one statement of each kind."""
        gone: Sequence[str] = ()
        if released:
            values = {"at": self._tx.store.clock(), **released_values(acknowledged, released)}
            (found,) = self._tx.read_changing(_removal_of_several(), values, ROW, BODY, KEPT)
            self._tx.note_unnamed(found["unnamed"] or ())
            gone = found["new"] or ()
        rest = not_gone(acknowledged, gone)
        if rest:
            self._tx.write(acknowledgement(), acknowledged_values(rest))

    # --- statements ------------------------------------------------------------------------------------------------

    def _acknowledge(self, sequence_id: str, new: RangeSet) -> None:
        for part in _parts(new):
            values = {"of_sequence": sequence_id} | _values("new", part)
            self._tx.write(_acknowledgement(len(part)), values)

    def _release(self, sequence_id: str, new: RangeSet, free: RangeSet) -> int:
        """Delete rows in ``free`` that are acknowledged already or in ``new``; returns the number of those in
        ``new``."""
        gone = 0
        (now,) = list(_parts(new)) or [(NOTHING,)]
        for part in _parts(free):
            size = max(len(part), len(now))
            values = {"of_sequence": sequence_id} | _values("free", _padded(part, size))
            gone += self._remove(_released, size, values | _values("new", _padded(now, size)))
        return gone

    def _remove(self, which: Any, size: int, values: Values) -> int:
        """Delete rows with their bodies; their correlations are kept until retention ends.

        Returns how many of the deleted rows are known to be in the ranges ``new``.
        """
        values = {"at": self._tx.store.clock(), **values}
        if self._tx.dialect.changes_in_queries:
            (found,) = self._tx.read_changing(_removal(which, size), values, ROW, BODY, KEPT)
            self._tx.note_unnamed(found["unnamed"] or ())
            return int(found["new"])
        correlations, bodies, rows = _removals(which, size)
        self._tx.write(correlations, values)
        del values["at"]
        self._tx.write(bodies, values)
        self._tx.delete_naming(rows, values)
        return 0


def _released(size: int) -> ColumnElement[bool]:
    """`OutboundMessage.may_go` as SQL, for rows in the ranges ``free``."""
    arrived = or_(ROW.c.acknowledged, _in("new", size))
    return and_(_rows_in("free", size), arrived, not_(ROW.c.expects_response))


def _consumed(_size: int) -> ColumnElement[bool]:
    return among(ROW.c.message_id, "names")


@lru_cache
def _acknowledgement(size: int) -> Prepared:
    return Prepared(update(ROW).where(_rows_in("new", size), not_(ROW.c.acknowledged)).values(acknowledged=True))


@lru_cache
def _removal(which: Any, size: int) -> Prepared:
    """One statement that deletes everything and returns the number of rows in the ranges ``new``, and the names of
    attachments in all deleted rows (``None`` = none)."""
    returned = (*(ROW.c[name] for name in REMEMBERED), ROW.c.attachments_id)
    gone = delete(ROW).where(which(size)).returning(*returned).cte("gone")
    return _with_what_belongs(gone, func.count().filter(_in("new", size, gone.c.number)))


@lru_cache
def _removal_of_several() -> Prepared:
    """The same for ranges of several sequences; ``new`` has the sequence of each row in the ranges ``new``."""
    returned = (*(ROW.c[name] for name in REMEMBERED), ROW.c.attachments_id, RANGES.c.arrived)
    gone = delete(ROW).where(GOING).returning(*returned).cte("gone")
    return _with_what_belongs(gone, func.array_agg(gone.c.sequence_id).filter(gone.c.arrived))


def _with_what_belongs(gone: CTE, new: ColumnElement[Any]) -> Prepared:
    """Delete the bodies of deleted rows, and keep their correlations. Returns ``new``, and the names of attachments."""
    bodies = delete(BODY).where(sought(BODY.c.message_id, gone.c.message_id)).cte("bodies")
    arrived = select(*(gone.c[name] for name in REMEMBERED), AT).where(gone.c.correlation.is_not(None))
    correlations = insert(KEPT).from_select([*REMEMBERED, "settled_at"], arrived, include_defaults=False).cte("kept")
    unnamed = func.array_agg(gone.c.attachments_id).filter(gone.c.attachments_id.is_not(None)).label("unnamed")
    return Prepared(select(new.label("new"), unnamed).select_from(gone).add_cte(bodies, correlations))


@lru_cache
def _removals(which: Any, size: int) -> tuple[Prepared, Prepared, Prepared]:
    """The same as three statements, for a database where a query cannot contain a change."""
    arrived = select(*(ROW.c[name] for name in REMEMBERED), AT).where(which(size), ROW.c.correlation.is_not(None))
    return (
        Prepared(insert(KEPT).from_select([*REMEMBERED, "settled_at"], arrived)),
        Prepared(delete(BODY).where(BODY.c.message_id.in_(select(ROW.c.message_id).where(which(size))))),
        Prepared(delete(ROW).where(which(size)).returning(ROW.c.attachments_id)),
    )


# --- ranges ----------------------------------------------------------------------------------------------------------


def _rows_in(name: str, size: int) -> ColumnElement[bool]:
    """The rows of a sequence in ``size`` ranges.

    The sequence is in each term, so that SQLite searches its index once for each range: with one range of several it
    would read all rows of the sequence.
    """
    return and_(ROW.c.number.is_not(None), or_(false(), *(and_(SEQUENCE, each) for each in _betweens(name, size))))


def _in(name: str, size: int, number: ColumnElement[Any] = ROW.c.number) -> ColumnElement[bool]:
    """Whether the number of a row that was found is in one of ``size`` ranges."""
    return or_(false(), *_betweens(name, size, number))


def _betweens(name: str, size: int, number: ColumnElement[Any] = ROW.c.number) -> list[ColumnElement[bool]]:
    return [
        number.between(
            bindparam(f"{name}_low_{place}", type_=BigInteger), bindparam(f"{name}_high_{place}", type_=BigInteger)
        )
        for place in range(size)
    ]


def _values(name: str, ranges: Ranges) -> dict[str, Any]:
    lows = {f"{name}_low_{place}": low for place, (low, _) in enumerate(ranges)}
    return lows | {f"{name}_high_{place}": high for place, (_, high) in enumerate(ranges)}


def _parts(ranges: RangeSet) -> list[Ranges]:
    """The ranges in lists as statements take them."""
    every = ranges.as_tuples()
    parts = [every[first : first + SIZES[-1]] for first in range(0, len(every), SIZES[-1])]
    return [_padded(part, next(size for size in SIZES if size >= len(part))) for part in parts]


def _padded(ranges: Ranges, size: int) -> Ranges:
    return (*ranges, *[NOTHING] * (size - len(ranges)))


def _overlap(known: RangeSet, ranges: Ranges) -> bool:
    return any(list(known.gaps(low, high)) != [(low, high)] for low, high in ranges)
