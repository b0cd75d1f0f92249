"""The part of the second schema that says which older versions may still use a database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def create(op: Operations) -> None:
    op.create_table(
        "mercury_compatibility",
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("oldest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("version"),
    )


def drop(op: Operations) -> None:
    op.drop_table("mercury_compatibility")
