"""Removes rows whose retention is over, in short statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, ColumnElement, Table, delete, exists, select

from mercury.storage.nodes import PERIOD
from mercury.storage.sql.commit_markers import MARKERS_KEPT
from mercury.storage.sql.schema import (
    AUDIT,
    BULK,
    CLAIM,
    COMMIT,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    NODE,
    REPLAY,
    RMD_SEQUENCE,
    RMS_KEPT,
    RMS_KEY,
    RMS_MESSAGE,
    RMS_SEQUENCE,
    TRAFFIC,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

#: Minutes for which the traffic of a minute is kept, beside those of idle rows.
TRAFFIC_KEPT = 180


def sweep(
    connection: Connection, *, kept_before: float, idle_before: float, limit: int, audit_before: float = 0.0
) -> int:
    """As `RetentionStore.sweep`; each statement of ``connection`` is a transaction of its own."""
    buffer, key = INVOKER_BUFFER, RMS_KEY
    waiting = exists().where(INVOKER_MESSAGE.c.sequence == buffer.c.sequence)
    sequence = exists().where(RMD_SEQUENCE.c.identifier == buffer.c.sequence)
    unnumbered = exists().where(RMS_MESSAGE.c.key_id == key.c.key_id, RMS_MESSAGE.c.number.is_(None))
    sequences = exists().where(RMS_SEQUENCE.c.key_id == key.c.key_id)
    oldest = int(idle_before) // PERIOD - TRAFFIC_KEPT
    gone = (
        _delete(connection, RMS_KEPT, RMS_KEPT.c.message_id, limit, RMS_KEPT.c.settled_at < kept_before),
        _delete(connection, CLAIM, CLAIM.c.resource, limit, CLAIM.c.until < idle_before),
        _delete(connection, COMMIT, COMMIT.c.id, limit, COMMIT.c.made_at < idle_before - MARKERS_KEPT),
        _delete(connection, NODE, NODE.c.id, limit, NODE.c.seen_at < idle_before),
        _delete(connection, TRAFFIC, TRAFFIC.c.minute, limit, TRAFFIC.c.minute < oldest),
        _delete(connection, REPLAY, REPLAY.c.digest, limit, REPLAY.c.expires < idle_before),
        _delete(connection, buffer, buffer.c.sequence, limit, ~sequence, ~waiting),
        # The row is only a lock: it is inserted again when it is needed.
        _delete(connection, key, key.c.key_id, limit, ~sequences, ~unnumbered),
        _delete_audit(connection, audit_before, limit),
        _delete(connection, BULK, BULK.c.position, limit, BULK.c.changed_at < audit_before),
    )
    return max(gone)


def _delete(connection: Connection, table: Table, name: Column[Any], limit: int, *where: ColumnElement[bool]) -> int:
    # Rows that a transaction has locked are in use: skip them. SQLite has no row locks and ignores this clause.
    some = select(name).where(*where).limit(limit).with_for_update(skip_locked=True, of=table)
    return connection.execute(delete(table).where(name.in_(some))).rowcount


def _delete_audit(connection: Connection, before: float, limit: int) -> int:
    # The table has no index on the time: its rows are read in the order in which they were written.
    oldest = select(AUDIT.c.position, AUDIT.c.at).order_by(AUDIT.c.position).limit(limit).subquery("oldest_actions")
    late = select(oldest.c.position).where(oldest.c.at < before)
    return connection.execute(delete(AUDIT).where(AUDIT.c.position.in_(late))).rowcount
