"""The stores of destinations, and the store that a sequence is at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def create(op: Operations) -> None:
    op.create_table(
        "mercury_peer_store",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("refused", sa.Text(), nullable=True),
        sa.Column("refused_at", sa.Double(), nullable=True),
        sa.Column("refused_address", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.add_column("mercury_rms_sequence", sa.Column("store", sa.Text(), nullable=True))


def drop(op: Operations) -> None:
    op.drop_column("mercury_rms_sequence", "store")
    op.drop_table("mercury_peer_store")
