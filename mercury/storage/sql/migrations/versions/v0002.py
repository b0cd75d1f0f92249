"""The second schema: additions only, so that a process of the version before can go on writing to it.

An addition is a new table, or a new column that is nullable or has a server default. An index on a table of the first
schema is not made here: it is only defined in `schema`, and `indexes` creates it without keeping writers waiting. Each
subject has a file beside `replay.py`, which `upgrade` calls.
"""

from __future__ import annotations

from alembic.operations import Operations

from mercury.storage.sql.migrations import compatibility, doubt, life, operations, peer_stores, traces

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    compatibility.create(op)
    operations.create(op)
    life.add(op)
    traces.add(op)
    peer_stores.create(op)
    doubt.add(op)


def downgrade(op: Operations) -> None:
    doubt.remove(op)
    peer_stores.drop(op)
    traces.remove(op)
    life.remove(op)
    operations.drop(op)
    compatibility.drop(op)
