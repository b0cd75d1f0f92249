"""The trace context of a message, and when its sender has sent it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

#: The tables of messages.
TABLES = ("mercury_rms_message", "mercury_invoker_message", "mercury_dead_letter")


def add(op: Operations) -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("trace", sa.Text(), nullable=True))
    op.add_column("mercury_invoker_message", sa.Column("sent_at", sa.Double(), nullable=True))


def remove(op: Operations) -> None:
    op.drop_column("mercury_invoker_message", "sent_at")
    for table in TABLES:
        op.drop_column(table, "trace")
