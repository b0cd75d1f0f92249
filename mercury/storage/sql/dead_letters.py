"""Dead letters in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from mercury.storage.records import DeadLetter
from mercury.storage.sql.codec import dead_letter, letter_values
from mercury.storage.sql.schema import DEAD_LETTER

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction

TABLE = DEAD_LETTER


class SqlDeadLetters:
    """`DeadLetterManager` of one transaction."""

    def __init__(self, transaction: SqlTransaction) -> None:
        self._tx = transaction

    def add(self, letters: Sequence[DeadLetter]) -> None:
        self._tx.insert(TABLE, [letter_values(letter) for letter in letters])

    def all(self) -> list[DeadLetter]:
        return [dead_letter(row) for row in self._tx.read(select(TABLE).order_by(TABLE.c.position))]

    def delete(self, identifier: str) -> DeadLetter | None:
        rows = self._tx.read_locked(select(TABLE).where(TABLE.c.id == identifier))
        if not rows:
            return None
        self._tx.write(delete(TABLE).where(TABLE.c.id == identifier))
        return dead_letter(rows[0])
