"""Nodes, paused services and the audit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from mercury.storage.audit import AuditEntry, AuditFilter, TargetKind, Via
from mercury.storage.nodes import Node
from mercury.storage.searching import MOST_ROWS, Page, position_of
from mercury.storage.sql.overview import select_any
from mercury.storage.sql.prepared import Row
from mercury.storage.sql.schema import AUDIT, CLAIM, NODE, PAUSED_SERVICE

if TYPE_CHECKING:
    from mercury.storage.sql.transaction import SqlTransaction

#: The most nodes that are listed.
MOST_NODES = 1000


def nodes(tx: SqlTransaction) -> list[Node]:
    """The nodes that have not stopped in an orderly way, the newest first."""
    return [node_of(row) for row in tx.read(select(NODE).order_by(NODE.c.started_at.desc()).limit(MOST_NODES))]


def node_of(row: Row) -> Node:
    """A row of `NODE`."""
    known: dict[str, Any] = {column.name: row[column.name] for column in NODE.c}
    return Node(**known | {name: tuple(json.loads(row[name])) for name in ("services", "roles")})


def node_values(node: Node) -> dict[str, object]:
    """The columns of a node."""
    return asdict(node) | {"services": json.dumps(node.services), "roles": json.dumps(node.roles)}


def node(tx: SqlTransaction, identifier: str) -> Node | None:
    """The node that owns claims under this name."""
    rows = tx.read(select(NODE).where(NODE.c.id == identifier))
    return node_of(rows[0]) if rows else None


def hosting_nodes(tx: SqlTransaction) -> dict[str, int]:
    """How many nodes host each service."""
    return Counter(service for each in nodes(tx) for service in each.services)


def claims_by_owner(tx: SqlTransaction, now: float) -> dict[str, tuple[int, float]]:
    """How many claims each owner has, and when the last of them expires; of a very large store, among `MOST_ROWS`."""
    window = (
        select(CLAIM.c.owner, CLAIM.c.until)
        .where(CLAIM.c.owner != "", CLAIM.c.until > now)
        .limit(MOST_ROWS)
        .subquery("held")
    )
    last = func.max(window.c.until).label("last")
    query = select(window.c.owner, func.count().label("many"), last).group_by(window.c.owner)
    return {row["owner"]: (row["many"], row["last"]) for row in tx.read(query)}


def paused_services(tx: SqlTransaction) -> dict[str, tuple[float, str]]:
    """When, and by whom, each paused service was paused."""
    rows = tx.read(select(PAUSED_SERVICE).order_by(PAUSED_SERVICE.c.service))
    return {row["service"]: (row["paused_at"], row["paused_by"]) for row in rows}


def audit(tx: SqlTransaction, which: AuditFilter, after: str | None, limit: int) -> Page[AuditEntry]:
    """The actions, the newest first.

    :raises UnknownPlace: ``after`` is not from a page.
    """
    by = AUDIT.c.position
    read = select(AUDIT).order_by(by.desc()).limit(MOST_ROWS)
    read = read.where(by < position_of(after)) if after is not None else read
    if which.target is not None:
        read = read.where(AUDIT.c.target == which.target)
    else:
        # The letters of bulk actions are many; the line of the bulk action stands for them.
        read = read.where(AUDIT.c.bulk == which.bulk if which.bulk is not None else AUDIT.c.bulk.is_(None))
    window = read.subquery("read_rows")
    criteria = (
        (window.c.actor, which.actor),
        (window.c.action, which.action),
        (window.c.kind, which.kind.value if which.kind is not None else None),
    )
    query = select(window).where(*(column == value for column, value in criteria if value is not None))
    query = query.where(window.c.at >= which.since) if which.since is not None else query
    rows = tx.read(query.order_by(window.c.position.desc()).limit(limit + 1))
    found = tuple(_entry(row) for row in rows[:limit])
    if len(rows) > limit:
        return Page(found, str(found[-1].position))
    last = func.min(window.c.position).label("last")
    (ends,) = tx.read(select_any(last, func.count().label("many")).select_from(window))
    return Page(found, str(ends["last"]) if ends["many"] == MOST_ROWS else None)


def audit_values(entry: AuditEntry) -> dict[str, object]:
    """The columns of an action."""
    return {
        "at": entry.at,
        "actor": entry.actor,
        "via": entry.via.value,
        "action": entry.action,
        "kind": entry.kind.value,
        "target": entry.target,
        "before": json_text(entry.before),
        "after": json_text(entry.after),
        "note": entry.note,
        "bulk": entry.bulk,
    }


def json_text(values: Mapping[str, object]) -> str:
    """Values as the tables of operators keep them."""
    return json.dumps(dict(values), ensure_ascii=False, sort_keys=True, default=str)


def _entry(row: Row) -> AuditEntry:
    return AuditEntry(
        at=row["at"],
        actor=row["actor"],
        via=Via(row["via"]),
        action=row["action"],
        kind=TargetKind(row["kind"]),
        target=row["target"],
        before=json.loads(row["before"]),
        after=json.loads(row["after"]),
        note=row["note"],
        bulk=row["bulk"],
        position=row["position"],
    )
