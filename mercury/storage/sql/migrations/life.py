"""The times of a message: when it expires, and before when it is not sent."""

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


def add(op: Operations) -> None:
    for table, name in COLUMNS:
        op.add_column(table, sa.Column(name, sa.Double(), nullable=True))


def remove(op: Operations) -> None:
    for table, name in COLUMNS:
        op.drop_column(table, name)
