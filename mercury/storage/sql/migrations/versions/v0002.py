"""The second schema: additions only, so that a process of the version before can go on writing to it.

An addition is a new table, a new index, or a new column that is nullable or has a server default. Each subject has a
file beside `replay.py`, which `upgrade` calls.
"""

from __future__ import annotations

from alembic.operations import Operations

from mercury.storage.sql.migrations import operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    operations.create(op)


def downgrade(op: Operations) -> None:
    operations.drop(op)
