"""Dead letters in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, literal, select

from mercury.statemachine.effects import Certainty
from mercury.storage.letters import EVERY_LETTER, LetterBytes, LetterCount, LetterFilter
from mercury.storage.records import DeadLetter, Direction
from mercury.storage.sql.codec import dead_letter, letter_values
from mercury.storage.sql.schema import DEAD_LETTER
from mercury.storage.sql.statements import Statements

TABLE = DEAD_LETTER
OF_OWNER, OF_SEQUENCE = TABLE.c.owner == bindparam("owner_name"), TABLE.c.sequence == bindparam("sequence_name")


def _sum(much: ColumnElement[Any], which: ColumnElement[bool] | None = None) -> ColumnElement[Any]:
    """What the letters take that peers have caused, all of them or some."""
    of_peers = select(func.coalesce(func.sum(much), 0)).where(TABLE.c.owner.is_not(None))
    return (of_peers if which is None else of_peers.where(which)).scalar_subquery()


#: Each sum by an index of its own.
BYTES = select(
    _sum(TABLE.c.size, OF_SEQUENCE).label("of_sequence"),
    _sum(literal(1), OF_OWNER).label("count"),
    _sum(TABLE.c.size, OF_OWNER).label("of_owner"),
    _sum(TABLE.c.size).label("every"),
)


class SqlDeadLetters:
    """`DeadLetterManager` of one transaction."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction

    def add(self, letters: Sequence[DeadLetter]) -> None:
        self._tx.insert(TABLE, [letter_values(letter) for letter in letters])

    def all(self) -> list[DeadLetter]:
        return self.find(EVERY_LETTER)

    def find(self, which: LetterFilter, limit: int | None = None) -> list[DeadLetter]:
        query = select(TABLE).where(*_conditions(which)).order_by(TABLE.c.position).limit(limit)
        return [dead_letter(row) for row in self._tx.read(query)]

    def count(self, which: LetterFilter) -> list[LetterCount]:
        alike = (TABLE.c.direction, TABLE.c.endpoint, TABLE.c.key, TABLE.c.reason, TABLE.c.certainty)
        query = select(func.count().label("letters"), *alike).where(*_conditions(which)).group_by(*alike)
        found = [
            LetterCount(
                count=row["letters"],
                direction=Direction(row["direction"]),
                endpoint=row["endpoint"],
                key=row["key"],
                reason=row["reason"],
                certainty=Certainty(row["certainty"]),
            )
            for row in self._tx.read(query)
        ]
        return sorted(found, key=LetterCount.order)

    def delete(self, identifier: str) -> DeadLetter | None:
        rows = self._tx.read_locked(select(TABLE).where(TABLE.c.id == identifier).with_for_update())
        if not rows:
            return None
        self._tx.write(delete(TABLE).where(TABLE.c.id == identifier))
        return dead_letter(rows[0])

    def bytes(self, sequence: str, owner: str) -> LetterBytes:
        row = self._tx.read(BYTES, {"sequence_name": sequence, "owner_name": owner})[0]
        return LetterBytes(**{name: int(row[name]) for name in ("of_sequence", "count", "of_owner", "every")})


def _conditions(which: LetterFilter) -> list[ColumnElement[bool]]:
    """What a filter asks for."""
    criteria = (
        (TABLE.c.direction, which.direction.value if which.direction else None),
        (TABLE.c.certainty, which.certainty.value if which.certainty else None),
        (TABLE.c.endpoint, which.endpoint),
        (TABLE.c.key, which.key),
        (TABLE.c.message_id, which.message_id),
        (TABLE.c.correlation, which.correlation),
    )
    found: list[ColumnElement[bool]] = [column == value for column, value in criteria if value is not None]
    if which.ids is not None:
        found.append(TABLE.c.id.in_(sorted(which.ids)))
    if which.reason is not None:
        found.append(func.lower(TABLE.c.reason).contains(which.reason.lower(), autoescape=True))
    if which.dead_before is not None:
        found.append(TABLE.c.dead_at < which.dead_before)
    if which.dead_since is not None:
        found.append(TABLE.c.dead_at >= which.dead_since)
    return found
