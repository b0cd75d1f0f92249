"""Dead letters in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, delete, func, select

from mercury.statemachine.effects import Certainty
from mercury.storage.letters import EVERY_LETTER, DeadLetter, Direction, LetterCount, LetterFilter
from mercury.storage.sql.codec import dead_letter, letter_values
from mercury.storage.sql.schema import DEAD_LETTER
from mercury.storage.sql.statements import Statements

TABLE = DEAD_LETTER
#: Answered from one of two indexes, without reading the rows.
BYTES = select(func.coalesce(func.sum(TABLE.c.size), 0).label("bytes")).where(TABLE.c.owner.is_not(None))


class SqlDeadLetters:
    """`DeadLetterManager` of one transaction."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction

    def add(self, letters: Sequence[DeadLetter]) -> None:
        self._tx.insert(TABLE, [letter_values(letter) for letter in letters])

    def all(self) -> list[DeadLetter]:
        return self.find(EVERY_LETTER)

    def find(self, which: LetterFilter, limit: int | None = None) -> list[DeadLetter]:
        query = select(TABLE).where(*conditions(which)).order_by(TABLE.c.position).limit(limit)
        return [dead_letter(row) for row in self._tx.read(query)]

    def count(self, which: LetterFilter) -> list[LetterCount]:
        alike = (TABLE.c.direction, TABLE.c.endpoint, TABLE.c.key, TABLE.c.reason, TABLE.c.certainty)
        query = select(func.count().label("letters"), *alike).where(*conditions(which)).group_by(*alike)
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
        self._tx.delete_naming(delete(TABLE).where(TABLE.c.id == identifier).returning(TABLE.c.attachments_id))
        return dead_letter(rows[0])

    def discard(self, which: LetterFilter, limit: int) -> int | None:
        query = select(TABLE.c.id).order_by(TABLE.c.position)
        found = self._tx.read(query.where(*conditions(which)).limit(limit))
        if not found:
            return None
        names = TABLE.c.id.in_([row["id"] for row in found])
        taken = [row["id"] for row in self._tx.read_locked(query.where(names).with_for_update())]
        self.remove(taken)
        return len(taken)

    def locked(self, identifiers: Sequence[str]) -> list[DeadLetter]:
        """The dead letters with these identifiers, locked for this transaction; the oldest first."""
        query = select(TABLE).where(TABLE.c.id.in_(identifiers)).order_by(TABLE.c.position).with_for_update()
        return [dead_letter(row) for row in self._tx.read_locked(query)] if identifiers else []

    def remove(self, identifiers: Sequence[str]) -> None:
        """Delete dead letters that are locked."""
        if identifiers:
            gone = delete(TABLE).where(TABLE.c.id.in_(identifiers))
            self._tx.delete_naming(gone.returning(TABLE.c.attachments_id))

    def bytes(self, owner: str | None = None) -> int:
        return self._sum(BYTES if owner is None else BYTES.where(TABLE.c.owner == owner))

    def bytes_of(self, sequence: str) -> int:
        return self._sum(BYTES.where(TABLE.c.sequence == sequence))

    def _sum(self, query: Select[Any]) -> int:
        return int(self._tx.read(query)[0]["bytes"])


def conditions(which: LetterFilter, rows: FromClause = TABLE) -> list[ColumnElement[bool]]:
    """The conditions of a filter as SQL, on the table or on a query of it."""
    row = rows.c
    criteria = (
        (row.direction, which.direction.value if which.direction else None),
        (row.certainty, which.certainty.value if which.certainty else None),
        (row.endpoint, which.endpoint),
        (row.key, which.key),
        (row.message_id, which.message_id),
        (row.correlation, which.correlation),
    )
    found: list[ColumnElement[bool]] = [column == value for column, value in criteria if value is not None]
    if which.ids is not None:
        found.append(row.id.in_(sorted(which.ids)))
    if which.reason is not None:
        found.append(func.lower(row.reason).contains(which.reason.lower(), autoescape=True))
    if which.dead_before is not None:
        found.append(row.dead_at < which.dead_before)
    if which.dead_since is not None:
        found.append(row.dead_at >= which.dead_since)
    return found
