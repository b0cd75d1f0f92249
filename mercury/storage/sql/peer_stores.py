"""The stores of destinations, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from sqlalchemy import and_, bindparam, or_, select, update

from mercury.statemachine.tables import RmsState
from mercury.storage.peer_stores import PeerStore, digest_of
from mercury.storage.records import RmsRecord
from mercury.storage.sql.codec import rms_record
from mercury.storage.sql.prepared import Prepared, Row
from mercury.storage.sql.schema import PEER_STORE, RMS_SEQUENCE
from mercury.storage.sql.statements import Statements

TABLE = PEER_STORE
ONE = Prepared(select(TABLE).where(TABLE.c.digest == bindparam("digest")))
NO_REFUSAL = MappingProxyType({"refused": None, "refused_at": None, "refused_address": None})


class SqlPeerStores:
    """`PeerStores` of one transaction."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction
        #: What was read of destinations, until this transaction changes something: their keys are worked on together.
        self._known: dict[str, PeerStore | None] = {}

    def get(self, endpoint: str) -> PeerStore | None:
        if endpoint not in self._known:
            rows = self._tx.read(ONE, {"digest": digest_of(endpoint)})
            self._known[endpoint] = _row(rows[0]) if rows else None
        return self._known[endpoint]

    def agree(self, endpoint: str, store: str, now: float) -> str:
        self._known.clear()
        row = self._tx.dialect.upsert(TABLE).values(
            digest=digest_of(endpoint), endpoint=endpoint, store=store, since=now
        )
        # A transaction that inserts the same row is waited for: then this one reads what that one has inserted.
        if self._tx.read_locked(row.on_conflict_do_nothing().returning(TABLE.c.store)):
            return store
        known = self.get(endpoint)
        return store if known is None else known.store

    def refuse(self, endpoint: str, store: str, address: str, now: float) -> bool:
        self._known.clear()
        here = update(TABLE).where(TABLE.c.digest == digest_of(endpoint))
        other = or_(TABLE.c.refused.is_distinct_from(store), TABLE.c.refused_address.is_distinct_from(address))
        found = {"refused": store, "refused_at": now, "refused_address": address}
        if self._tx.write(here.where(other).values(**found)):
            return True
        self._tx.write(here.values(refused_at=now))
        return False

    def answers(self, endpoint: str, address: str) -> None:
        self._known.clear()
        here = TABLE.c.digest == digest_of(endpoint)
        self._tx.write(update(TABLE).where(here, TABLE.c.refused_address == address).values(**NO_REFUSAL))

    def replace(self, endpoint: str, store: str, now: float) -> None:
        self._known.clear()
        here = TABLE.c.digest == digest_of(endpoint)
        self._tx.write(update(TABLE).where(here).values(store=store, since=now, **NO_REFUSAL))

    def refused(self, limit: int) -> Sequence[PeerStore]:
        query = select(TABLE).where(TABLE.c.refused.is_not(None)).order_by(TABLE.c.refused_at.desc()).limit(limit)
        return [_row(row) for row in self._tx.read(query)]


def at_other_stores(tx: Statements, store: str, after: int, limit: int) -> tuple[Sequence[RmsRecord], int | None]:
    """Open source sequences that are at another store than this one, by position, and the place of the following ones;
    ``None`` = there are no more."""
    sequence = RMS_SEQUENCE.c
    is_open = and_(sequence.failure.is_(None), sequence.state != RmsState.ENDED.value)
    here = (sequence.position > after, sequence.store.is_not(None), sequence.store != store, is_open)
    rows = tx.read(select(RMS_SEQUENCE).where(*here).order_by(sequence.position).limit(limit))
    return [rms_record(row) for row in rows], rows[-1]["position"] if len(rows) == limit else None


def _row(row: Row) -> PeerStore:
    return PeerStore(**{column.name: row[column.name] for column in TABLE.c if column.name != "digest"})
