"""The rows in transmission of several source sequences, read together where a query can do that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from sqlalchemy import BigInteger, and_, cast, func, not_, select, true

from mercury.storage.records import OutboundMessage, RmsRecord
from mercury.storage.sizes import within
from mercury.storage.sql.codec import outbound_message
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.prepared import Prepared, sought
from mercury.storage.sql.rms_statements import BODY, BODY_COLUMNS, ROW, SETTLED
from mercury.storage.sql.statements import Question, Statements
from mercury.storage.sql.waiting_rows import AHEAD, AHEAD_BYTES
from mercury.storage.sql.window import UNACKNOWLEDGED_BYTES


@lru_cache
def _first_of_each(dialect: Dialect) -> Prepared:
    """The first unsettled rows of each sequence, with the bodies that fit."""
    each = dialect.each("sequences")
    upto = cast(func.sum(UNACKNOWLEDGED_BYTES).over(order_by=ROW.c.number), BigInteger).label("upto")
    numbered = and_(ROW.c.sequence_id == each.c.value, ROW.c.number.is_not(None), not_(SETTLED))
    first = select(ROW, upto).where(numbered).order_by(ROW.c.number).limit(AHEAD).lateral("first_rows")
    body = and_(sought(BODY.c.message_id, first.c.message_id), first.c.upto <= AHEAD_BYTES)
    rows = select(first, *BODY_COLUMNS).select_from(each).join(first, true()).join(BODY, body, isouter=True)
    return Prepared(rows.order_by(first.c.number))


class WindowsAhead:
    """Rows as the database has them, until their transaction changes them: it tells by `forget`."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        #: By the id of their sequence: all its unsettled rows, in order, with their bodies.
        self._ahead: dict[str, list[OutboundMessage]] = {}

    def of_interest(self, records: Iterable[RmsRecord]) -> list[str]:
        """The ids of those of these sequences that may have rows to be sent, if the database can read them together."""
        if not self._tx.dialect.changes_in_queries:
            return []
        return [record.id for record in records if _is_sending(record)]

    def questions(self, sequences: Sequence[str]) -> list[Question]:
        """What `take_ahead` of these sequences reads, to be sent ahead."""
        return [(_first_of_each(self._tx.dialect), {"sequences": list(sequences)})] if sequences else []

    def take_ahead(self, sequences: Sequence[str]) -> None:
        """Read the first rows of these sequences; those of a sequence with more of them, or with large ones, are not
        kept."""
        found: dict[str, list[OutboundMessage]] = {name: [] for name in sequences}
        partial = set()
        for question in self.questions(sequences):
            for row in self._tx.read(*question):
                rows = found[row["sequence_id"]]
                rows.append(outbound_message(row))
                if row["checksum"] is None or len(rows) == AHEAD:
                    partial.add(row["sequence_id"])
        self._ahead = {name: rows for name, rows in found.items() if name not in partial}

    def take(
        self,
        record: RmsRecord,
        limit: int,
        now: float | None,
        size: Callable[[OutboundMessage], int],
        most_bytes: int,
    ) -> tuple[list[OutboundMessage], int, int] | None:
        """The rows of `RMSSequenceManager.unsettled`, and how many rows and bytes the window has.

        ``None`` = they were not read, or have changed since."""
        every = self._ahead.pop(record.id, None)
        if every is None:
            return None
        window = list(within(every[:limit], size, most_bytes))
        counted = len(every[:limit]), sum(size(row) for row in every[:limit])
        if now is None:
            return window, *counted
        later = [row for row in window if row.due > now]
        soonest = min(later, key=lambda row: (row.due, row.number), default=None)
        rows = [row for row in window if row.due <= now or row is window[0] or row is soonest]
        return rows, *counted

    def forget(self, sequences: Iterable[str | None] | None = None) -> None:
        """Rows of these sequences, or of any, have changed."""
        if sequences is None:
            self._ahead.clear()
        elif self._ahead:
            for name in sequences:
                self._ahead.pop(name or "", None)


def _is_sending(record: RmsRecord) -> bool:
    """Whether a sequence may have rows that are sent, or sent again."""
    machine = record.machine
    if machine.identifier is None or not machine.alive or not machine.last_number:
        return False
    return machine.unanswered > 0 or not machine.acknowledged.covers(1, machine.last_number)
