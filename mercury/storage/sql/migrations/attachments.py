"""The part of the first schema for binary parts of messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

from mercury.storage.sql.migrations.partial import only_where

#: The tables whose rows name attachments.
NAMING = ("mercury_dead_letter", "mercury_invoker_message", "mercury_rms_message")


def create(op: Operations) -> None:
    op.create_table(
        "mercury_attachment",
        sa.Column("id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "mercury_attachment_piece",
        sa.Column("attachments_id", sa.Text(), nullable=False),
        sa.Column("part", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("attachments_id", "part", "number"),
    )


def create_indexes(op: Operations) -> None:
    for table in NAMING:
        op.create_index(
            f"{table}_attachments",
            table,
            ["attachments_id"],
            **only_where("attachments_id is not null"),
        )


def drop(op: Operations) -> None:
    op.drop_table("mercury_attachment_piece")
    op.drop_table("mercury_attachment")
