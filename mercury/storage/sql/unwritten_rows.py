"""Rows that got a number or were transmitted by one transaction, until they are written: once each."""

from __future__ import annotations

from collections.abc import Iterable

from mercury.storage.records import OutboundMessage, RmsRecord


class UnwrittenRows:
    """A message that gets its number and leaves in one transaction is one change of its row: the number is not
    written before the transmission is counted."""

    def __init__(self) -> None:
        self._rows: dict[int, OutboundMessage] = {}
        #: The same by the id of their sequence: a transaction has the rows of many, and looks at those of one.
        self._of_sequence: dict[str | None, dict[int, OutboundMessage]] = {}
        #: Positions of those whose number is not written yet.
        self._new: set[int] = set()
        #: The keys of the rows that got a number.
        self.keys: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._rows)

    def keep(self, rows: Iterable[OutboundMessage]) -> None:
        """Remember copies of rows."""
        for row in rows:
            self._rows[row.position] = own = row.copy()
            self._of_sequence.setdefault(row.sequence_id, {})[row.position] = own

    def keep_numbered(self, key: str, rows: Iterable[OutboundMessage]) -> None:
        """Remember rows that got a number in this transaction.

        :param key: the digest of their key.
        """
        numbered = list(rows)
        self.keep(numbered)
        self._new.update(row.position for row in numbered)
        self.keys.add(key)

    @property
    def all_new(self) -> bool:
        """Whether the number of none of them is written: a query for numbered rows finds all others as they are."""
        return self._new.issuperset(self._rows)

    def of(self, record: RmsRecord) -> list[OutboundMessage]:
        """The rows of a sequence."""
        rows = self._of_sequence.get(record.id, {}).items()
        return [row for position, row in rows if self._rows[position] is row]

    def new_numbers(self, record: RmsRecord) -> list[int]:
        """The numbers of a sequence that are not written yet."""
        return [row.number or 0 for row in self.of(record) if row.position in self._new]

    def lowest(self) -> dict[str, int]:
        """The lowest number of each sequence among the rows."""
        return {
            name: min(row.number or 0 for row in rows.values())
            for name, rows in self._of_sequence.items()
            if name is not None
        }

    def take(self) -> list[OutboundMessage]:
        """All rows, which the caller writes now."""
        rows = list(self._rows.values())
        self.forget()
        return rows

    def forget(self) -> None:
        """Drop them: a savepoint was rolled back."""
        self._rows.clear()
        self._of_sequence.clear()
        self._new.clear()
        self.keys.clear()
