"""The times of a message, when it expires and before when it is not sent, and the priority of its key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

#: The columns by their tables.
COLUMNS = (
    ("mercury_rms_message", "expires_at"),
    ("mercury_rms_message", "not_before"),
    ("mercury_rms_sequence", "rows_wait_until"),
    ("mercury_invoker_message", "expires_at"),
)
#: The tables with a column for the priority.
PRIORITIES = ("mercury_rms_message", "mercury_rms_sequence")


def add(op: Operations) -> None:
    for table, name in COLUMNS:
        op.add_column(table, sa.Column(name, sa.Double(), nullable=True))
    for table in PRIORITIES:
        op.add_column(table, sa.Column("priority", sa.BigInteger(), nullable=True))


def remove(op: Operations) -> None:
    for table, name in COLUMNS:
        op.drop_column(table, name)
    for table in PRIORITIES:
        op.drop_column(table, "priority")
