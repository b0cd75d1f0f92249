"""The rows of the processes on a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete

from mercury.storage.nodes import Node
from mercury.storage.sql.errors import translated
from mercury.storage.sql.reads.operators import node_values
from mercury.storage.sql.schema import NODE

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from mercury.storage.sql.dialect import Dialect


def note(dialect: Dialect, connection: Connection, node: Node) -> None:
    """As `NodeRegistry.note_node`, in one statement."""
    values = node_values(node)
    row = dialect.upsert(NODE).values(**values)
    with translated():
        connection.execute(row.on_conflict_do_update(index_elements=[NODE.c.id], set_=values))


def forget(connection: Connection, identifier: str) -> None:
    """As `NodeRegistry.forget_node`."""
    with translated():
        connection.execute(delete(NODE).where(NODE.c.id == identifier))
