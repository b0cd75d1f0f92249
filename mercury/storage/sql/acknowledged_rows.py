"""Rows of source sequences that arrived: marked, deleted, and what is remembered of them.

The statements are made once for each number of ranges, padded with empty ones: making one costs more than asking it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Double,
    Executable,
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
from mercury.storage.sql.schema import RMS_BODY, RMS_KEPT, RMS_MESSAGE
from mercury.storage.sql.statements import Statements

ROW, BODY, KEPT = RMS_MESSAGE, RMS_BODY, RMS_KEPT
#: What is remembered of a row until retention ends, if the application gave it a correlation.
REMEMBERED = ("message_id", "correlation", "sequence_id", "number", "created_at")
#: The rows of a sequence; its name is not the column's, which an update would take for a value to write.
OF_SEQUENCE = and_(ROW.c.sequence_id == bindparam("of_sequence"), ROW.c.number.is_not(None))
AT = bindparam("at", type_=Double)
NAMES: BindParameter[str] = bindparam("names", expanding=True)
#: Ranges that one statement takes, and the sizes to which they are padded.
SIZES = (1, 4, 16)
NOTHING = (0, -1)

Values = Mapping[str, Any]


class AcknowledgedRows:
    """What arrived of the sequences of one transaction; all of it is written together.

    Many acknowledgements of one sequence come together, each with a little more than the one before.
    """

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        self._acknowledged: dict[str, RangeSet] = {}
        self._released: dict[str, RangeSet] = {}

    def __bool__(self) -> bool:
        return bool(self._acknowledged or self._released)

    def forget(self) -> None:
        """A savepoint is rolled back."""
        self._acknowledged.clear()
        self._released.clear()

    def acknowledge(self, sequence_id: str, ranges: Ranges) -> None:
        released = self._released.get(sequence_id)
        if released is not None and _overlap(released, ranges):
            self.flush()  # only what was acknowledged before is released
        self._acknowledged.setdefault(sequence_id, RangeSet()).update(ranges)

    def release(self, sequence_id: str, ranges: Ranges) -> None:
        self._released.setdefault(sequence_id, RangeSet()).update(ranges)

    def flush(self) -> None:
        """Write it."""
        acknowledged, released = self._acknowledged, self._released
        self._acknowledged, self._released = {}, {}
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

    # --- statements ------------------------------------------------------------------------------------------------

    def _acknowledge(self, sequence_id: str, new: RangeSet) -> None:
        for part in _parts(new):
            values = {"of_sequence": sequence_id} | _values("new", part)
            self._tx.write(_acknowledgement(len(part)), values)

    def _release(self, sequence_id: str, new: RangeSet, free: RangeSet) -> int:
        """Delete what is free of the rows that are acknowledged, or are so now; returns how many of the latter."""
        gone = 0
        (now,) = list(_parts(new)) or [(NOTHING,)]
        for part in _parts(free):
            size = max(len(part), len(now))
            values = {"of_sequence": sequence_id} | _values("free", _padded(part, size))
            gone += self._remove(_released, size, values | _values("new", _padded(now, size)))
        return gone

    def _remove(self, which: Any, size: int, values: Values) -> int:
        """Delete rows with their bodies; what they were correlated with is kept until retention ends.

        Returns of how many it is known that they were in the ranges ``new``.
        """
        values = {"at": self._tx.store.clock(), **values}
        if self._tx.dialect.changes_in_queries:
            return int(self._tx.read_locked(_removal(which, size), values)[0]["new"])
        correlations, bodies, rows = _removals(which, size)
        self._tx.write(correlations, values)
        del values["at"]
        self._tx.write(bodies, values)
        self._tx.write(rows, values)
        return 0


def _released(size: int) -> ColumnElement[bool]:
    arrived = or_(ROW.c.acknowledged, _in("new", size))
    return and_(OF_SEQUENCE, _in("free", size), arrived, not_(ROW.c.expects_response))


def _consumed(_size: int) -> ColumnElement[bool]:
    return ROW.c.message_id.in_(NAMES)


@lru_cache
def _acknowledgement(size: int) -> Executable:
    return update(ROW).where(OF_SEQUENCE, _in("new", size), not_(ROW.c.acknowledged)).values(acknowledged=True)


@lru_cache
def _removal(which: Any, size: int) -> Any:
    """All in one statement, which says how many of the rows were in the ranges ``new``."""
    gone = delete(ROW).where(which(size)).returning(*(ROW.c[name] for name in REMEMBERED)).cte("gone")
    bodies = delete(BODY).where(BODY.c.message_id == gone.c.message_id).cte("bodies")
    arrived = select(*gone.c, AT).where(gone.c.correlation.is_not(None))
    correlations = insert(KEPT).from_select([*REMEMBERED, "settled_at"], arrived, include_defaults=False).cte("kept")
    new = select(func.count().label("new")).select_from(gone).where(_in("new", size, gone.c.number))
    return new.add_cte(bodies, correlations)


@lru_cache
def _removals(which: Any, size: int) -> tuple[Executable, Executable, Executable]:
    """The same in three, for a database where a change is no part of a query."""
    arrived = select(*(ROW.c[name] for name in REMEMBERED), AT).where(which(size), ROW.c.correlation.is_not(None))
    return (
        insert(KEPT).from_select([*REMEMBERED, "settled_at"], arrived),
        delete(BODY).where(BODY.c.message_id.in_(select(ROW.c.message_id).where(which(size)))),
        delete(ROW).where(which(size)),
    )


# --- ranges ----------------------------------------------------------------------------------------------------------


def _in(name: str, size: int, number: ColumnElement[Any] = ROW.c.number) -> ColumnElement[bool]:
    """The number is in one of so many ranges."""
    return or_(
        false(),
        *(
            number.between(
                bindparam(f"{name}_low_{place}", type_=BigInteger), bindparam(f"{name}_high_{place}", type_=BigInteger)
            )
            for place in range(size)
        ),
    )


def _values(name: str, ranges: Ranges) -> dict[str, Any]:
    lows = {f"{name}_low_{place}": low for place, (low, _) in enumerate(ranges)}
    return lows | {f"{name}_high_{place}": high for place, (_, high) in enumerate(ranges)}


def _parts(ranges: RangeSet) -> list[Ranges]:
    """The ranges as statements take them."""
    every = ranges.as_tuples()
    parts = [every[first : first + SIZES[-1]] for first in range(0, len(every), SIZES[-1])]
    return [_padded(part, next(size for size in SIZES if size >= len(part))) for part in parts]


def _padded(ranges: Ranges, size: int) -> Ranges:
    return (*ranges, *[NOTHING] * (size - len(ranges)))


def _overlap(known: RangeSet, ranges: Ranges) -> bool:
    return any(list(known.gaps(low, high)) != [(low, high)] for low, high in ranges)
