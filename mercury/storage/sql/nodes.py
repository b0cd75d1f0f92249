"""The rows of the processes on a store, and of what they have done in each minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from mercury.storage.nodes import PERIOD, Node, Traffic
from mercury.storage.sql.errors import translated
from mercury.storage.sql.reads.operators import node_values
from mercury.storage.sql.schema import NODE, TRAFFIC

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from mercury.storage.sql.dialect import Dialect

#: The most members that are read.
MOST_MEMBERS = 1000
#: The columns that are added to.
SUMS = tuple(each.name for each in fields(Traffic) if each.name != "service")


def note(dialect: Dialect, connection: Connection, node: Node) -> None:
    """As `NodeRegistry.note_node`, in one statement."""
    values = node_values(node)
    row = dialect.upsert(NODE).values(**values)
    with translated():
        connection.execute(row.on_conflict_do_update(index_elements=[NODE.c.id], set_=values))


def members(connection: Connection, since: float) -> list[str]:
    """As `NodeRegistry.members`."""
    found = select(NODE.c.address).where(NODE.c.address.is_not(None), NODE.c.seen_at >= since, NODE.c.services != "[]")
    with translated():
        return sorted({row.address for row in connection.execute(found.limit(MOST_MEMBERS))})


def others(connection: Connection, identifier: str, since: float) -> bool:
    """As `NodeRegistry.others`."""
    found = select(NODE.c.id).where(NODE.c.id != identifier, NODE.c.seen_at >= since)
    with translated():
        return connection.execute(found.limit(1)).first() is not None


def add_traffic(
    dialect: Dialect, connection: Connection, identifier: str, at: float, traffic: Sequence[Traffic]
) -> None:
    """As `NodeRegistry.add_traffic`, in one statement."""
    minute = int(at) // PERIOD
    rows = [
        {"minute": minute, "digest": _digest(identifier, each.service), "node": identifier, **asdict(each)}
        for each in traffic
    ]
    row = dialect.upsert(TRAFFIC).values(rows)
    key = [TRAFFIC.c.minute, TRAFFIC.c.digest]
    sums = {name: TRAFFIC.c[name] + row.excluded[name] for name in SUMS}
    with translated():
        connection.execute(row.on_conflict_do_update(index_elements=key, set_=sums))


def _digest(node: str, service: str) -> str:
    """Stands for both in the key of a row."""
    return sha256(f"{len(node)}:{node}{service}".encode()).hexdigest()


def forget(connection: Connection, identifier: str) -> None:
    """As `NodeRegistry.forget_node`."""
    with translated():
        connection.execute(delete(NODE).where(NODE.c.id == identifier))
