"""Pages and groups of dead letters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import case, func, or_, select

from mercury.statemachine.effects import Certainty
from mercury.storage.bulk import LetterKey
from mercury.storage.letters import DeadLetter, Direction, LetterFilter
from mercury.storage.searching import MOST_ROWS, LetterGroup, Page, position_of
from mercury.storage.sql.codec import letter_line
from mercury.storage.sql.dead_letters import conditions
from mercury.storage.sql.overview import select_any
from mercury.storage.sql.record_columns import LETTER_BODY
from mercury.storage.sql.schema import DEAD_LETTER

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction

TABLE = DEAD_LETTER
#: The columns of a list, which has no bodies: those of one page together would be up to hundreds of MiB.
LINE = tuple(column for column in TABLE.c if column.name not in LETTER_BODY)


@dataclass(frozen=True, slots=True)
class LetterMark:
    """A dead letter without its contents."""

    position: int
    id: str
    dead_at: float
    number: int | None
    #: In bytes.
    size: int

    @property
    def key(self) -> LetterKey:
        """The sort key: messages that were dead-lettered together by number, those without a number last."""
        return self.dead_at, self.number is None, self.number or 0, self.position


def page(tx: SqlTransaction, which: LetterFilter, after: str | None, limit: int) -> Page[DeadLetter]:
    """Dead letters without their bodies, the oldest first.

    :raises UnknownPlace: ``after`` is not from a page.
    """
    by = TABLE.c.position
    window = select(*LINE).where(by > position_of(after or "0")).order_by(by).limit(MOST_ROWS).subquery("read_rows")
    query = select(window).where(*conditions(which, window)).order_by(window.c.position).limit(limit + 1)
    rows = tx.read(query)
    found = tuple(letter_line(row) for row in rows[:limit])
    if len(rows) > limit:
        return Page(found, str(rows[limit - 1]["position"]))
    last = func.max(window.c.position).label("last")
    (read,) = tx.read(select_any(last, func.count().label("many")).select_from(window))
    return Page(found, str(read["last"]) if read["many"] == MOST_ROWS else None)


def first(tx: SqlTransaction, which: LetterFilter, limit: int) -> list[DeadLetter]:
    """The first dead letters that match a filter, without their bodies, the oldest first."""
    query = select(*LINE).where(*conditions(which)).order_by(TABLE.c.position).limit(limit)
    return [letter_line(row) for row in tx.read(query)]


def marks(tx: SqlTransaction, which: LetterFilter, after: int, until: int) -> tuple[list[LetterMark], int | None]:
    """Dead letters without their bodies, of at most `MOST_ROWS` rows; and the position to go on after, if there may be
    more.

    :param after: the position behind which they are.
    :param until: the last position.
    """
    by = TABLE.c.position
    window = select(*LINE).where(by > after, by <= until).order_by(by).limit(MOST_ROWS).subquery("read_rows")
    row = window.c
    query = select(row.position, row.id, row.dead_at, row.number, row.size).where(*conditions(which, window))
    found = [LetterMark(**each) for each in tx.read(query.order_by(row.position))]
    (read,) = tx.read(select_any(func.max(row.position).label("last"), func.count().label("many")))
    return found, read["last"] if read["many"] == MOST_ROWS else None


def marks_of(tx: SqlTransaction, identifiers: Collection[str]) -> list[LetterMark]:
    """The dead letters with these identifiers, without their bodies."""
    row = TABLE.c
    query = select(row.position, row.id, row.dead_at, row.number, row.size).where(row.id.in_(sorted(identifiers)))
    return [LetterMark(**each) for each in tx.read(query)] if identifiers else []


def last_position(tx: SqlTransaction) -> int:
    """The highest position of a dead letter; 0 = there is none."""
    (row,) = tx.read(select(func.coalesce(func.max(TABLE.c.position), 0).label("last")))
    return int(row["last"])


def number_of(tx: SqlTransaction, which: LetterFilter, until: int) -> int:
    """How many dead letters match a filter. It reads every row up to a position, without the bodies."""
    query = select_any(func.count().label("many")).select_from(TABLE).where(TABLE.c.position <= until)
    (row,) = tx.read(query.where(*conditions(which)))
    return int(row["many"])


def groups(tx: SqlTransaction, which: LetterFilter, limit: int) -> Page[LetterGroup]:
    """The oldest `MOST_ROWS` dead letters, grouped by direction, endpoint, reason and certainty; the largest first.

    `Page.after` is set if there are dead letters that were not read.
    """
    window = select(*LINE).order_by(TABLE.c.position).limit(MOST_ROWS).subquery("read_rows")
    alike = (window.c.direction, window.c.endpoint, window.c.reason, window.c.certainty)
    many = func.count().label("letters")
    first, last = func.min(window.c.dead_at).label("first_at"), func.max(window.c.dead_at).label("last_at")
    unsure = or_(window.c.certainty == Certainty.UNKNOWN.value, window.c.disowned)
    may_repeat = func.sum(case((unsure, 1), else_=0)).label("may_repeat")
    grouped = select(*alike, many, first, last, may_repeat).where(*conditions(which, window)).group_by(*alike)
    rows = tx.read(grouped.order_by(many.desc(), *alike).limit(limit))
    (read,) = tx.read(select_any(func.max(window.c.position).label("last"), func.count().label("many")))
    return Page(
        tuple(
            LetterGroup(
                count=row["letters"],
                direction=Direction(row["direction"]),
                endpoint=row["endpoint"],
                reason=row["reason"],
                certainty=Certainty(row["certainty"]).value,
                first_at=row["first_at"],
                last_at=row["last_at"],
                may_repeat=int(row["may_repeat"]),
            )
            for row in rows
        ),
        str(read["last"]) if read["many"] == MOST_ROWS else None,
    )


def of_key(tx: SqlTransaction, endpoint: str, key: str, limit: int) -> list[DeadLetter]:
    """The newest dead letters that were to be sent under a key, without their bodies."""
    query = select(*LINE).where(TABLE.c.endpoint == endpoint, TABLE.c.key == key)
    return [letter_line(row) for row in tx.read(query.order_by(TABLE.c.dead_at.desc()).limit(limit))]


def of_sequence(tx: SqlTransaction, sequence: str, limit: int) -> list[DeadLetter]:
    """Dead letters of a received sequence, without their bodies."""
    query = select(*LINE).where(TABLE.c.sequence == sequence, TABLE.c.owner.is_not(None)).limit(limit)
    return [letter_line(row) for row in tx.read(query)]
