"""The rows without a number of source sequences; those of several keys are read together where a query can do that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import BigInteger, and_, cast, func, select, true

from mercury.storage.records import OutboundMessage
from mercury.storage.sizes import within
from mercury.storage.sql.codec import outbound_message
from mercury.storage.sql.dialect import Dialect
from mercury.storage.sql.prepared import Prepared, sought
from mercury.storage.sql.rms_statements import ABANDONED, BODY, BODY_COLUMNS, ROW
from mercury.storage.sql.statements import Question, Statements
from mercury.storage.sql.window import UNNUMBERED

#: So many rows of each key are read together, and bodies of so many bytes.
AHEAD, AHEAD_BYTES = 8, 128 * 1024


@lru_cache
def _first_of_each(dialect: Dialect) -> Prepared:
    """The first rows of each key, with the bodies that fit."""
    each = dialect.each("keys")
    upto = cast(func.sum(ROW.c.size).over(order_by=ROW.c.position), BigInteger).label("upto")
    waiting = select(ROW, upto).where(ROW.c.key_id == each.c.value, ROW.c.number.is_(None))
    first = waiting.order_by(ROW.c.position).limit(AHEAD).lateral("first_rows")
    body = and_(sought(BODY.c.message_id, first.c.message_id), first.c.upto <= AHEAD_BYTES)
    rows = select(first, *BODY_COLUMNS).select_from(each).join(first, true()).join(BODY, body, isouter=True)
    return Prepared(rows.order_by(first.c.position))


@dataclass(frozen=True, slots=True)
class _Ahead:
    rows: list[OutboundMessage]
    #: There are no others.
    complete: bool


class WaitingRows:
    """Reads rows without a number, in order of insertion."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        #: By key: what was read together, and is not changed by this transaction since.
        self._ahead: dict[str, _Ahead] = {}
        #: Keys none of whose rows without a number expires, as far as this transaction has asked.
        self.lasting: set[str] = set()

    def read_ahead(self, keys: Iterable[str]) -> None:
        """Read the first rows of these keys together, if the database can."""
        names = list(keys)
        if names and self._tx.dialect.changes_in_queries:
            self._take(names)

    def questions(self, keys: Sequence[str]) -> list[Question]:
        """What `take_ahead` of these keys reads, to be sent ahead."""
        if not keys or not self._tx.dialect.changes_in_queries:
            return []
        return [(_first_of_each(self._tx.dialect), {"keys": list(keys)})]

    def take_ahead(self, keys: Sequence[str]) -> None:
        """As `read_ahead`, if the rows were read ahead."""
        if all(self._tx.is_ahead(question) for question in self.questions(keys)):
            self.read_ahead(keys)

    def _take(self, names: list[str]) -> None:
        found: dict[str, list[OutboundMessage]] = {name: [] for name in names}
        cut = set()
        for row in self._tx.read(_first_of_each(self._tx.dialect), {"keys": names}):
            if row["checksum"] is None:
                cut.add(row["key_id"])
            else:
                found[row["key_id"]].append(outbound_message(row))
        self._ahead = {
            name: _Ahead(rows, complete=name not in cut and len(rows) < AHEAD) for name, rows in found.items()
        }

    def read(self, key: str, limit: int, most_bytes: int) -> list[OutboundMessage]:
        """See `RMSSequenceManager.unnumbered`."""
        ahead = self._ahead.pop(key, None)
        if ahead is not None and (ahead.complete or len(ahead.rows) >= limit):
            return list(within(ahead.rows[:limit], lambda row: len(row.payload), most_bytes))
        values = {"key_id": key, "limit": limit, "most_bytes": most_bytes}
        return [outbound_message(row) for row in self._tx.read(UNNUMBERED, values)]

    def abandoned(self, key: str) -> bool:
        """See `RMSSequenceManager.abandoned`."""
        found = self._tx.read(ABANDONED, {"key_id": key})[0]
        if not found["expires"]:
            self.lasting.add(key)
        return bool(found["abandoned"])

    def forget(self) -> None:
        """Rows have changed."""
        self._ahead.clear()
