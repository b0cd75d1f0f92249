"""The part of the second schema for operators: nodes, what they have done, paused services, the audit, and
actions on many dead letters."""

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
        sa.Column("address", sa.Text(), nullable=True),
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
        sa.Column("bulk", sa.BigInteger()),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_index("mercury_audit_target", "mercury_audit", ["target", "position"])
    op.create_index("mercury_audit_bulk", "mercury_audit", ["bulk", "position"])
    op.create_table(
        "mercury_bulk",
        sa.Column("position", POSITION, autoincrement=True, nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("last_position", sa.BigInteger(), nullable=False),
        sa.Column("endpoint", sa.Text()),
        sa.Column("allow_duplicate", sa.Boolean(create_constraint=False), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("actor", "via", "note")),
        *(sa.Column(name, sa.Double(), nullable=False) for name in ("started_at", "changed_at")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("total", "done", "refused")),
        sa.Column("refusals", sa.Text(), nullable=False),
        sa.Column("window_start", sa.BigInteger(), nullable=False),
        sa.Column("window_end", sa.BigInteger()),
        sa.Column("last_letter", sa.Text(), nullable=False),
        sa.Column("audit", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
    )


def drop(op: Operations) -> None:
    for name in ("bulk", "audit", "paused_service", "traffic", "node"):
        op.drop_table(f"mercury_{name}")
