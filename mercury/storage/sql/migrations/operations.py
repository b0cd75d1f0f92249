"""The part of the second schema for operators: nodes, what they have done, paused services and the audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

from mercury.storage.sql.dialect import POSITION


def create(op: Operations) -> None:
    op.create_table(
        "mercury_node",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("services", sa.Text(), nullable=False),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("threads", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "mercury_traffic",
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("transmitted", "repeated", "received", "delivered", "calls", "failures")
        ),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("minute", "digest"),
    )
    op.create_table(
        "mercury_paused_service",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("paused_at", sa.Double(), nullable=False),
        sa.Column("paused_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("service"),
    )
    op.create_table(
        "mercury_audit",
        sa.Column("position", POSITION, autoincrement=True, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_index("mercury_audit_target", "mercury_audit", ["target", "position"])


def drop(op: Operations) -> None:
    for name in ("audit", "paused_service", "traffic", "node"):
        op.drop_table(f"mercury_{name}")
