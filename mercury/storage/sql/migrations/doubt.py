"""Whether a message that waits may have been delivered already, by a sequence that was given up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations


def add(op: Operations) -> None:
    op.add_column("mercury_rms_message", sa.Column("in_doubt", sa.Boolean(), nullable=True))


def remove(op: Operations) -> None:
    op.drop_column("mercury_rms_message", "in_doubt")
