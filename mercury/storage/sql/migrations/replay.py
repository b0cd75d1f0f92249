"""The part of the first schema for messages with WS-Security that were received."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def create(op: Operations) -> None:
    op.create_table(
        "mercury_replay",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("mercury_replay_expires", "mercury_replay", ["expires"])


def drop(op: Operations) -> None:
    op.drop_table("mercury_replay")
