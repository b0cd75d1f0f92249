"""Bulk actions of operators in SQL."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from mercury.statemachine.effects import Certainty
from mercury.storage.audit import Actor, AuditEntry, Via
from mercury.storage.bulk import Bulk, BulkAction, BulkState
from mercury.storage.letters import Direction, LetterFilter
from mercury.storage.sql.prepared import Row
from mercury.storage.sql.reads.operators import audit_values, json_text
from mercury.storage.sql.schema import AUDIT, BULK

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction


def add(tx: SqlTransaction, bulk: Bulk) -> int:
    """Insert a bulk action; returns its identifier."""
    values = _values(bulk)
    del values["position"]
    (row,) = tx.read_locked(insert(BULK).values(values).returning(BULK.c.position))
    return int(row["position"])


def note(tx: SqlTransaction, entry: AuditEntry) -> int:
    """Add the line of a bulk action to the audit; returns its position."""
    (row,) = tx.read_locked(insert(AUDIT).values(audit_values(entry)).returning(AUDIT.c.position))
    return int(row["position"])


def save(tx: SqlTransaction, bulk: Bulk) -> None:
    """Write a bulk action that was read by `locked`, and its counts to its line in the audit."""
    values = _values(bulk)
    del values["position"]
    tx.write(update(BULK).where(BULK.c.position == bulk.id).values(values))
    counts = {"done": bulk.done, "refused": bulk.refused, "state": bulk.state.value}
    tx.write(update(AUDIT).where(AUDIT.c.position == bulk.audit).values(after=json_text(counts)))


def locked(tx: SqlTransaction, identifier: int) -> Bulk | None:
    """A bulk action, whose row no other transaction changes until the end of this one."""
    rows = tx.read_locked(select(BULK).where(BULK.c.position == identifier).with_for_update())
    return _bulk(rows[0]) if rows else None


def one(tx: SqlTransaction, identifier: int) -> Bulk | None:
    """A bulk action; ``None`` = there is none."""
    rows = tx.read(select(BULK).where(BULK.c.position == identifier))
    return _bulk(rows[0]) if rows else None


def newest(tx: SqlTransaction, limit: int) -> list[Bulk]:
    """The newest bulk actions first."""
    return [_bulk(row) for row in tx.read(select(BULK).order_by(BULK.c.position.desc()).limit(limit))]


def _values(bulk: Bulk) -> dict[str, Any]:
    which = {name: value for name, value in asdict(bulk.which).items() if value is not None}
    for name in ("direction", "certainty"):
        if name in which:
            which[name] = which[name].value
    return {
        "position": bulk.id,
        "action": bulk.action.value,
        "state": bulk.state.value,
        "selection": json_text(which),
        "last_position": bulk.last_position,
        "endpoint": bulk.endpoint,
        "allow_duplicate": bulk.allow_duplicate,
        "actor": bulk.actor.name,
        "via": bulk.actor.via.value,
        "note": bulk.note,
        "started_at": bulk.started_at,
        "changed_at": bulk.changed_at,
        "total": bulk.total,
        "done": bulk.done,
        "refused": bulk.refused,
        "refusals": json.dumps(bulk.refusals, ensure_ascii=False),
        "window_start": bulk.window,
        "window_end": bulk.window_end,
        "last_letter": json.dumps(bulk.last),
        "audit": bulk.audit,
    }


def _bulk(row: Row) -> Bulk:
    which = json.loads(row["selection"])
    for name, kind in (("direction", Direction), ("certainty", Certainty)):
        if name in which:
            which[name] = kind(which[name])
    last = json.loads(row["last_letter"])
    return Bulk(
        id=row["position"],
        action=BulkAction(row["action"]),
        state=BulkState(row["state"]),
        which=LetterFilter(**which),
        last_position=row["last_position"],
        endpoint=row["endpoint"],
        allow_duplicate=bool(row["allow_duplicate"]),
        actor=Actor(row["actor"], Via(row["via"])),
        note=row["note"],
        started_at=row["started_at"],
        changed_at=row["changed_at"],
        total=row["total"],
        done=row["done"],
        refused=row["refused"],
        refusals=tuple((name, why) for name, why in json.loads(row["refusals"])),
        window=row["window_start"],
        window_end=row["window_end"],
        last=None if last is None else (last[0], last[1], last[2], last[3]),
        audit=row["audit"],
    )
