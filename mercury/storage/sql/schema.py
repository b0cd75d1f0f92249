"""The tables of a SQL store: figure 3-20 of the dissertation, with current names.

One set for each manager (RMD sequences, invoker buffers, RMS sequences, each with its messages), the internal keys,
and tables for recovery and operators: claims, incarnations, decisions, heuristic outcomes, dead letters. Times are
seconds since the epoch. The columns of records are in `record_columns`; `migrations` has the steps from older schemas.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
    literal_column,
    text,
)

from mercury.storage.sql import record_columns
from mercury.storage.sql.dialect import POSITION
from mercury.storage.sql.fields import columns

METADATA = MetaData()


def _table(name: str, *columns: Any) -> Table:
    return Table(f"mercury_{name}", METADATA, *columns)


def _text(name: str, **more: Any) -> Column[str]:
    return Column(name, Text, nullable=False, **more)


def _nullable_text(name: str) -> Column[str | None]:
    return Column(name, Text)


def _number(name: str, **more: Any) -> Column[int]:
    return Column(name, BigInteger, nullable=False, **more)


def _nullable_number(name: str) -> Column[int | None]:
    return Column(name, BigInteger)


def _time(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean(create_constraint=False), nullable=False)


def _partial(name: str, *columns: Column[Any], where: str, unique: bool = False) -> None:
    """Define a partial index."""
    Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


#: The id of the store: one row.
STORE = _table("store", _text("id", primary_key=True), _time("created_at"))

#: Since schema 0002: for each version of the schema that this database has had, the oldest one whose Mercury may still
#: use it.
COMPATIBILITY = _table("compatibility", _text("version", primary_key=True), _text("oldest"))

# --- destination: RMD sequences ----------------------------------------------------------------------------------

RMD_SEQUENCE = _table("rmd_sequence", *columns(record_columns.RMD))
_partial("mercury_rmd_sequence_created", RMD_SEQUENCE.c.create_key, where="create_key is not null", unique=True)
_partial("mercury_rmd_sequence_owner", RMD_SEQUENCE.c.owner, where="ended_at is null")
_partial("mercury_rmd_sequence_ended", RMD_SEQUENCE.c.owner, RMD_SEQUENCE.c.ended_at, where="ended_at is not null")
_partial("mercury_rmd_sequence_due", RMD_SEQUENCE.c.due, where="due is not null")
_partial("mercury_rmd_sequence_fetched", RMD_SEQUENCE.c.fetched_by, where="fetched_by is not null")

# --- destination: the buffer before the application --------------------------------------------------------------

INVOKER_BUFFER = _table("invoker_buffer", *columns(record_columns.INVOKER))

INVOKER_MESSAGE = _table("invoker_message", *columns(record_columns.INBOUND))
Index("mercury_invoker_message_number", INVOKER_MESSAGE.c.sequence, INVOKER_MESSAGE.c.kind, INVOKER_MESSAGE.c.number)

# --- source: RMS sequences and their buffers ---------------------------------------------------------------------

#: The internal keys. A row is inserted by the worker that numbers, never by `send`; transactions lock this row.
RMS_KEY = _table("rms_key", _text("key_id", primary_key=True), _text("endpoint"), _text("name"))

RMS_SEQUENCE = _table("rms_sequence", *columns(record_columns.RMS))
Index("mercury_rms_sequence_id", RMS_SEQUENCE.c.id, unique=True)
Index("mercury_rms_sequence_key", RMS_SEQUENCE.c.key_id, RMS_SEQUENCE.c.position)
#: If two transactions take the same offer, the later commit fails.
Index("mercury_rms_sequence_identifier", RMS_SEQUENCE.c.identifier, unique=True)
Index("mercury_rms_sequence_create", RMS_SEQUENCE.c.create_message_id)
_partial("mercury_rms_sequence_offered", RMS_SEQUENCE.c.offered, where="offered is not null")
_partial("mercury_rms_sequence_due", RMS_SEQUENCE.c.due, where="due is not null")
_partial("mercury_rms_sequence_urgent", RMS_SEQUENCE.c.due, where="priority > 0 and due is not null")
_partial("mercury_rms_sequence_turn", RMS_SEQUENCE.c.owner, RMS_SEQUENCE.c.due, where="due is not null")
_partial(
    "mercury_rms_sequence_fetched",
    RMS_SEQUENCE.c.fetched_by,
    RMS_SEQUENCE.c.fetch_due,
    where="fetched_by is not null",
)

#: Rows are updated when they are numbered, transmitted and acknowledged; the large columns are in `RMS_BODY`.
RMS_MESSAGE = _table("rms_message", *columns(record_columns.OUTBOUND))
Index("mercury_rms_message_id", RMS_MESSAGE.c.message_id, unique=True)
_partial("mercury_rms_message_waiting", RMS_MESSAGE.c.key_id, RMS_MESSAGE.c.position, where="number is null")
_partial("mercury_rms_message_abandoned", RMS_MESSAGE.c.key_id, where="number is null and kind = 'abandon'")
#: The condition of this index; the text must be the same in a query, or the database does not use the index.
IS_ABANDONED = and_(RMS_MESSAGE.c.number.is_(None), RMS_MESSAGE.c.kind == literal_column("'abandon'"))
_partial(
    "mercury_rms_message_expiry",
    RMS_MESSAGE.c.expires_at,
    RMS_MESSAGE.c.key_id,
    where="number is null and expires_at is not null",
)
_partial("mercury_rms_message_number", RMS_MESSAGE.c.sequence_id, RMS_MESSAGE.c.number, where="number is not null")
_partial("mercury_rms_message_request", RMS_MESSAGE.c.request, where="request is not null")

#: For sums of the bytes of each peer, without reading the rows.
SUMMED = (RMS_MESSAGE.c.owner, RMS_MESSAGE.c.key_id, RMS_MESSAGE.c.size)
#: The condition of this index; the text must be the same in a query, or the database does not use the index.
UNACKNOWLEDGED_RESPONSE = "owner is not null and not acknowledged"
_partial("mercury_rms_message_owner", *SUMMED, where=UNACKNOWLEDGED_RESPONSE)

RMS_BODY = _table("rms_body", *columns(record_columns.OUTBOUND_BODY))

#: Correlations of settled messages, until retention ends.
RMS_KEPT = _table(
    "rms_kept",
    _text("message_id", primary_key=True),
    _text("correlation"),
    _nullable_text("sequence_id"),
    _nullable_number("number"),
    _time("created_at"),
    _time("settled_at"),
)
Index("mercury_rms_kept_correlation", RMS_KEPT.c.correlation)
Index("mercury_rms_kept_settled", RMS_KEPT.c.settled_at)

# --- binary parts of messages -------------------------------------------------------------------------------------

#: One row for the parts of one message. The rows of messages and dead letters name it; the transaction that deletes the
#: last such row removes it, with the pieces, and `attachments` searches for what is left.
ATTACHMENT = _table("attachment", _text("id", primary_key=True))

ATTACHMENT_PIECE = _table(
    "attachment_piece",
    _text("attachments_id", primary_key=True),
    _number("part", primary_key=True),
    _number("number", primary_key=True),
    Column("content", LargeBinary, nullable=False),
    _text("checksum"),
)

# --- work, recovery, operators -----------------------------------------------------------------------------------

CLAIM = _table(
    "claim",
    _text("resource", primary_key=True),
    _text("owner"),
    _number("epoch"),
    _time("until"),
)

DEAD_LETTER = _table("dead_letter", *columns(record_columns.LETTER))
Index("mercury_dead_letter_id", DEAD_LETTER.c.id, unique=True)
Index("mercury_dead_letter_key", DEAD_LETTER.c.endpoint, DEAD_LETTER.c.key, DEAD_LETTER.c.dead_at)

#: The condition of these indexes: most messages have no attachments.
HAS_ATTACHMENTS = "attachments_id is not null"
_partial("mercury_invoker_message_attachments", INVOKER_MESSAGE.c.attachments_id, where=HAS_ATTACHMENTS)
_partial("mercury_rms_message_attachments", RMS_MESSAGE.c.attachments_id, where=HAS_ATTACHMENTS)
_partial("mercury_dead_letter_attachments", DEAD_LETTER.c.attachments_id, where=HAS_ATTACHMENTS)

# Two indexes: the longest owner and the longest sequence do not fit into one index row.
_partial("mercury_dead_letter_owner", DEAD_LETTER.c.owner, DEAD_LETTER.c.size, where="owner is not null")
_partial("mercury_dead_letter_sequence", DEAD_LETTER.c.sequence, DEAD_LETTER.c.size, where="owner is not null")

#: One row for each start of a process that coordinates two-phase commits (decision 17).
INCARNATION = _table(
    "incarnation",
    _text("id", primary_key=True),
    _time("started_at"),
    _time("seen_at"),
    _flag("dead"),
)

#: The arbiter of two-phase commits (decision 16).
DECISION = _table(
    "decision",
    _text("gtrid", primary_key=True),
    _text("outcome"),
    _text("incarnation"),
    #: Resource name to transaction id, JSON.
    _text("branches"),
    _time("decided_at"),
)

#: One row for each commit of the application, until the commit is answered (decision 21).
COMMIT = _table("commit", _text("id", primary_key=True), _time("made_at"))

#: Messages with WS-Security that were received, by a digest, to refuse copies of them.
REPLAY = _table("replay", _text("digest", primary_key=True), _time("expires"))
Index("mercury_replay_expires", REPLAY.c.expires)

#: Branches that were finished by hand against their decision.
HEURISTIC = _table(
    "heuristic",
    _text("gid", primary_key=True),
    _text("resource"),
    _text("decided"),
    _text("found"),
    _time("found_at"),
)

# --- operators -------------------------------------------------------------------------------------------------------

#: What each process has done in each minute, for each service; removed after hours.
TRAFFIC = _table(
    "traffic",
    _number("minute", primary_key=True),
    #: Of the node and the service: both together may be longer than what PostgreSQL indexes.
    _text("digest", primary_key=True),
    _text("node"),
    _text("service"),
    _number("transmitted"),
    _number("repeated"),
    _number("received"),
    _number("delivered"),
    _number("calls"),
    _number("failures"),
    _time("seconds"),
)

#: One row for each running process, by the owner of its claims; removed at an orderly stop.
NODE = _table(
    "node",
    _text("id", primary_key=True),
    _text("host"),
    _number("pid"),
    _text("version"),
    _time("started_at"),
    _time("seen_at"),
    #: JSON.
    _text("services"),
    _text("roles"),
    _number("threads"),
    _number("queue"),
    _nullable_text("address"),
)

#: Services whose handlers are not called in any process of the store.
PAUSED_SERVICE = _table("paused_service", _text("service", primary_key=True), _time("paused_at"), _text("paused_by"))

#: The stores of the destinations that state one: `peer_stores`.
PEER_STORE = _table(
    "peer_store",
    #: Of the endpoint.
    _text("digest", primary_key=True),
    _text("endpoint"),
    _text("store"),
    _time("since"),
    #: Another store that has answered.
    _nullable_text("refused"),
    Column("refused_at", Double),
    _nullable_text("refused_address"),
)

#: What was done by hand.
AUDIT = _table(
    "audit",
    Column("position", POSITION, primary_key=True, autoincrement=True),
    _time("at"),
    _text("actor"),
    _text("via"),
    _text("action"),
    _text("kind"),
    _text("target"),
    #: JSON: what the action has changed.
    _text("before"),
    _text("after"),
    _text("note"),
    #: The bulk action that it is a part of; null = it was done by itself.
    _nullable_number("bulk"),
)
Index("mercury_audit_target", AUDIT.c.target, AUDIT.c.position)
_partial("mercury_audit_single", AUDIT.c.position, where="bulk is null")
_partial("mercury_audit_bulk", AUDIT.c.bulk, AUDIT.c.position, where="bulk is not null")

#: Actions on many dead letters, which are made in pieces, and how far each is (decision 65).
BULK = _table(
    "bulk",
    Column("position", POSITION, primary_key=True, autoincrement=True),
    _text("action"),
    _text("state"),
    #: JSON: the filter.
    _text("selection"),
    _number("last_position"),
    _nullable_text("endpoint"),
    _flag("allow_duplicate"),
    _text("actor"),
    _text("via"),
    _text("note"),
    _time("started_at"),
    _time("changed_at"),
    _number("total"),
    _number("done"),
    _number("refused"),
    #: JSON: the first refused letters, and where in its window it is.
    _text("refusals"),
    _number("window_start"),
    _nullable_number("window_end"),
    _text("last_letter"),
    _number("audit"),
)

# Messages are searched by these, and poison messages by their buffers.
_partial(
    "mercury_rms_message_correlation",
    RMS_MESSAGE.c.correlation,
    RMS_MESSAGE.c.position,
    where="correlation is not null",
)
_partial(
    "mercury_invoker_message_correlation",
    INVOKER_MESSAGE.c.correlation,
    INVOKER_MESSAGE.c.position,
    where="correlation is not null",
)
# A peer chooses the value, which may be longer than a B-tree of PostgreSQL takes.
Index("mercury_invoker_message_id", INVOKER_MESSAGE.c.message_id, postgresql_using="hash")
_partial("mercury_invoker_buffer_failing", INVOKER_BUFFER.c.sequence, where="attempts > 0")
