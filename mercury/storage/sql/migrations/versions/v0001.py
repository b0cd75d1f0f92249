"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

from mercury.storage.sql.migrations import attachments, replay
from mercury.storage.sql.migrations.partial import only_where

revision = "0001"
down_revision = None


def upgrade(op: Operations) -> None:
    attachments.create(op)
    replay.create(op)
    op.create_table(
        "mercury_claim",
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("resource"),
    )
    op.create_table(
        "mercury_commit",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "mercury_dead_letter",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("certainty", sa.Text(), nullable=False),
        sa.Column("dead_at", sa.Double(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Text(), nullable=True),
        sa.Column("number", sa.BigInteger(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("to_parameters", sa.Text(), nullable=False),
        sa.Column("checksum", sa.Text(), nullable=False),
        sa.Column("is_fault", sa.Boolean(), nullable=False),
        sa.Column("correlation", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("element", sa.Text(), nullable=False),
        sa.Column("relates_to", sa.Text(), nullable=True),
        sa.Column("channel", sa.Text(), nullable=True),
        sa.Column("request", sa.Text(), nullable=True),
        sa.Column("expects_response", sa.Boolean(), nullable=False),
        sa.Column("callback", sa.Text(), nullable=True),
        sa.Column("disowned", sa.Boolean(), nullable=False),
        sa.Column("damaged", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("attachments", sa.Text(), nullable=True),
        sa.Column("attachments_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_index("mercury_dead_letter_id", "mercury_dead_letter", ["id"], unique=True)
    op.create_index("mercury_dead_letter_key", "mercury_dead_letter", ["endpoint", "key", "dead_at"], unique=False)
    op.create_index(
        "mercury_dead_letter_owner",
        "mercury_dead_letter",
        ["owner", "size"],
        **only_where("owner is not null"),
    )
    op.create_index(
        "mercury_dead_letter_sequence",
        "mercury_dead_letter",
        ["sequence", "size"],
        **only_where("owner is not null"),
    )
    op.create_table(
        "mercury_decision",
        sa.Column("gtrid", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("branches", sa.Text(), nullable=False),
        sa.Column("decided_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("gtrid"),
    )
    op.create_table(
        "mercury_heuristic",
        sa.Column("gid", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("decided", sa.Text(), nullable=False),
        sa.Column("found", sa.Text(), nullable=False),
        sa.Column("found_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("gid"),
    )
    op.create_table(
        "mercury_incarnation",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("dead", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "mercury_invoker_buffer",
        sa.Column("sequence", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("in_order", sa.Boolean(), nullable=False),
        sa.Column("assurance", sa.Text(), nullable=False),
        sa.Column("behavior", sa.Text(), nullable=False),
        sa.Column("passed", sa.Text(), nullable=False),
        sa.Column("in_progress", sa.Text(), nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.Column("passed_count", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=True),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("releases", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("retry_at", sa.Double(), nullable=True),
        sa.Column("parked", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("follows", sa.Text(), nullable=True),
        sa.Column("response_channels", sa.Text(), nullable=False),
        sa.Column("consumed_bytes", sa.BigInteger(), nullable=False),
        sa.Column("response_bytes", sa.BigInteger(), nullable=False),
        sa.Column("letter_bytes", sa.BigInteger(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sequence"),
    )
    op.create_table(
        "mercury_invoker_message",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("sequence", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("last", sa.Boolean(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("element", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("checksum", sa.Text(), nullable=False),
        sa.Column("is_fault", sa.Boolean(), nullable=False),
        sa.Column("relates_to", sa.Text(), nullable=True),
        sa.Column("reply_to", sa.Text(), nullable=True),
        sa.Column("fault_to", sa.Text(), nullable=True),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("correlation", sa.Text(), nullable=True),
        sa.Column("attachments", sa.Text(), nullable=True),
        sa.Column("attachments_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_index("mercury_invoker_message_number", "mercury_invoker_message", ["sequence", "kind", "number"])
    op.create_table(
        "mercury_rmd_sequence",
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("rm", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("used", sa.Boolean(), nullable=False),
        sa.Column("received", sa.Text(), nullable=False),
        sa.Column("consumed", sa.Text(), nullable=False),
        sa.Column("in_order_only", sa.Boolean(), nullable=False),
        sa.Column("last_number", sa.BigInteger(), nullable=True),
        sa.Column("last_heard", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("ack_due", sa.Double(), nullable=True),
        sa.Column("unacknowledged", sa.BigInteger(), nullable=False),
        sa.Column("room", sa.BigInteger(), nullable=True),
        sa.Column("own_end", sa.Text(), nullable=True),
        sa.Column("end_attempts", sa.BigInteger(), nullable=False),
        sa.Column("end_due", sa.Double(), nullable=True),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("acks_to", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("service", sa.Text(), nullable=True),
        sa.Column("create_message_id", sa.Text(), nullable=True),
        sa.Column("response_channel", sa.Text(), nullable=True),
        sa.Column("to", sa.Text(), nullable=False),
        sa.Column("peer", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=True),
        sa.Column("offered", sa.Text(), nullable=True),
        sa.Column("offered_to", sa.Text(), nullable=False),
        sa.Column("create_key", sa.Text(), nullable=True),
        sa.Column("fetched_by", sa.Text(), nullable=True),
        sa.Column("ack_failures", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.Double(), nullable=True),
        sa.Column("received_bytes", sa.BigInteger(), nullable=False),
        sa.Column("given_up", sa.Boolean(), nullable=False),
        sa.Column("source_is_mercury", sa.Boolean(), nullable=False),
        sa.Column("takes_batches", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("identifier"),
    )
    op.create_index(
        "mercury_rmd_sequence_created",
        "mercury_rmd_sequence",
        ["create_key"],
        unique=True,
        **only_where("create_key is not null"),
    )
    op.create_index("mercury_rmd_sequence_owner", "mercury_rmd_sequence", ["owner"], **only_where("ended_at is null"))
    op.create_index(
        "mercury_rmd_sequence_ended",
        "mercury_rmd_sequence",
        ["owner", "ended_at"],
        **only_where("ended_at is not null"),
    )
    op.create_index("mercury_rmd_sequence_due", "mercury_rmd_sequence", ["due"], **only_where("due is not null"))
    op.create_index(
        "mercury_rmd_sequence_fetched", "mercury_rmd_sequence", ["fetched_by"], **only_where("fetched_by is not null")
    )
    op.create_table(
        "mercury_rms_body",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("to_parameters", sa.Text(), nullable=False),
        sa.Column("checksum", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("message_id"),
    )
    op.create_table(
        "mercury_rms_kept",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("correlation", sa.Text(), nullable=False),
        sa.Column("sequence_id", sa.Text(), nullable=True),
        sa.Column("number", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("settled_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("message_id"),
    )
    op.create_index("mercury_rms_kept_correlation", "mercury_rms_kept", ["correlation"], unique=False)
    op.create_index("mercury_rms_kept_settled", "mercury_rms_kept", ["settled_at"], unique=False)
    op.create_table(
        "mercury_rms_key",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key_id"),
    )
    op.create_table(
        "mercury_rms_message",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("is_fault", sa.Boolean(), nullable=False),
        sa.Column("last", sa.Boolean(), nullable=False),
        sa.Column("relates_to", sa.Text(), nullable=True),
        sa.Column("expects_response", sa.Boolean(), nullable=False),
        sa.Column("replays", sa.Boolean(), nullable=False),
        sa.Column("callback", sa.Text(), nullable=True),
        sa.Column("request", sa.Text(), nullable=True),
        sa.Column("correlation", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("sequence_id", sa.Text(), nullable=True),
        sa.Column("number", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("acknowledged", sa.Boolean(), nullable=False),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("attachments", sa.Text(), nullable=True),
        sa.Column("attachments_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_index(
        "mercury_rms_message_abandoned",
        "mercury_rms_message",
        ["key_id"],
        **only_where("number is null and kind = 'abandon'"),
    )
    op.create_index("mercury_rms_message_id", "mercury_rms_message", ["message_id"], unique=True)
    op.create_index(
        "mercury_rms_message_number",
        "mercury_rms_message",
        ["sequence_id", "number"],
        **only_where("number is not null"),
    )
    op.create_index(
        "mercury_rms_message_owner",
        "mercury_rms_message",
        ["owner", "key_id", "size"],
        **only_where("owner is not null and not acknowledged"),
    )
    op.create_index(
        "mercury_rms_message_request",
        "mercury_rms_message",
        ["request"],
        **only_where("request is not null"),
    )
    op.create_index(
        "mercury_rms_message_waiting",
        "mercury_rms_message",
        ["key_id", "position"],
        **only_where("number is null"),
    )
    op.create_table(
        "mercury_rms_sequence",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("rm", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_heard", sa.Double(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("identifier", sa.Text(), nullable=True),
        sa.Column("last_number", sa.BigInteger(), nullable=False),
        sa.Column("highest_sent", sa.BigInteger(), nullable=False),
        sa.Column("acknowledged", sa.Text(), nullable=False),
        sa.Column("moved", sa.Text(), nullable=False),
        sa.Column("last_message", sa.BigInteger(), nullable=True),
        sa.Column("settled_at", sa.Double(), nullable=True),
        sa.Column("abandoned", sa.Boolean(), nullable=False),
        sa.Column("unanswered", sa.BigInteger(), nullable=False),
        sa.Column("flow", sa.Text(), nullable=True),
        sa.Column("round_trip", sa.Text(), nullable=True),
        sa.Column("incomplete_behavior", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("control_attempts", sa.BigInteger(), nullable=False),
        sa.Column("control_due", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("create_message_id", sa.Text(), nullable=False),
        sa.Column("offered", sa.Text(), nullable=True),
        sa.Column("offer_accepted", sa.Boolean(), nullable=False),
        sa.Column("follows", sa.Text(), nullable=True),
        sa.Column("due", sa.Double(), nullable=True),
        sa.Column("planned_at", sa.Double(), nullable=False),
        sa.Column("window_full", sa.Boolean(), nullable=False),
        sa.Column("holds_successor", sa.Boolean(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("fetch_due", sa.Double(), nullable=True),
        sa.Column("poll_due", sa.Double(), nullable=True),
        sa.Column("polls", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("batch_messages", sa.BigInteger(), nullable=False),
        sa.Column("batch_size", sa.BigInteger(), nullable=False),
        sa.Column("fetched_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_index("mercury_rms_sequence_create", "mercury_rms_sequence", ["create_message_id"], unique=False)
    op.create_index(
        "mercury_rms_sequence_due",
        "mercury_rms_sequence",
        ["due"],
        **only_where("due is not null"),
    )
    op.create_index(
        "mercury_rms_sequence_fetched",
        "mercury_rms_sequence",
        ["fetched_by", "fetch_due"],
        **only_where("fetched_by is not null"),
    )
    op.create_index("mercury_rms_sequence_id", "mercury_rms_sequence", ["id"], unique=True)
    op.create_index("mercury_rms_sequence_identifier", "mercury_rms_sequence", ["identifier"], unique=True)
    op.create_index("mercury_rms_sequence_key", "mercury_rms_sequence", ["key_id", "position"], unique=False)
    op.create_index(
        "mercury_rms_sequence_turn",
        "mercury_rms_sequence",
        ["owner", "due"],
        **only_where("due is not null"),
    )
    attachments.create_indexes(op)
    op.create_table(
        "mercury_store",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade(op: Operations) -> None:
    for name in ("store", "rms_sequence", "rms_message", "rms_key", "rms_kept", "rms_body", "rmd_sequence"):
        op.drop_table(f"mercury_{name}")
    op.drop_table("mercury_invoker_message")
    op.drop_table("mercury_invoker_buffer")
    op.drop_table("mercury_incarnation")
    op.drop_table("mercury_heuristic")
    op.drop_table("mercury_decision")
    op.drop_table("mercury_dead_letter")
    op.drop_table("mercury_claim")
    attachments.drop(op)
    replay.drop(op)
