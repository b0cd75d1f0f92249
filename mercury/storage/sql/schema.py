"""The tables of a SQL store: figure 3-20 of the dissertation, under today's names.

One set for each manager (RMD sequences, invoker buffers, RMS sequences, each with its messages), the internal keys,
and what recovery and operators need: claims, incarnations, decisions, heuristic outcomes, dead letters. Times are
seconds since the epoch. What changes is here; `migrations` has every step that led to it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
    literal_column,
    text,
)

METADATA = MetaData()

#: Numbers of rows: SQLite counts by itself only in an INTEGER primary key.
Position = BigInteger().with_variant(Integer, "sqlite")


def _table(name: str, *columns: Any) -> Table:
    return Table(f"mercury_{name}", METADATA, *columns)


def _text(name: str, **more: Any) -> Column[str]:
    return Column(name, Text, nullable=False, **more)


def _maybe_text(name: str) -> Column[str | None]:
    return Column(name, Text)


def _number(name: str, **more: Any) -> Column[int]:
    return Column(name, BigInteger, nullable=False, **more)


def _maybe_number(name: str) -> Column[int | None]:
    return Column(name, BigInteger)


def _time(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _maybe_time(name: str) -> Column[float | None]:
    return Column(name, Double)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean(create_constraint=False), nullable=False)


def _partial(name: str, *columns: Column[Any], where: str, unique: bool = False) -> None:
    """An index of some rows."""
    Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


def _position() -> Column[int]:
    return Column("position", Position, primary_key=True, autoincrement=True)


#: Whose store this is: one row.
STORE = _table("store", _text("id", primary_key=True), _time("created_at"))

# --- destination: RMD sequences ----------------------------------------------------------------------------------

RMD_SEQUENCE = _table(
    "rmd_sequence",
    _text("identifier", primary_key=True),
    _text("rm"),
    _text("state"),
    _flag("closed"),
    _flag("used"),
    #: Ranges of numbers, ``1-7 9``: never one row a number.
    _text("received"),
    _text("consumed"),
    _flag("in_order_only"),
    _maybe_number("last_number"),
    _time("last_heard"),
    _maybe_time("ended_at"),
    _maybe_time("expires_at"),
    _maybe_time("ack_due"),
    _number("unacknowledged"),
    _text("protocol"),
    _text("acks_to"),
    _time("created_at"),
    _maybe_text("service"),
    _maybe_text("create_message_id"),
    _maybe_text("response_channel"),
    _text("to"),
    _text("peer"),
    _maybe_text("identity"),
    #: The identity, or else the network address.
    _text("owner"),
    _maybe_text("offered"),
    _text("offered_to"),
    #: Two CreateSequences with the same key ask for the same sequence.
    _maybe_text("create_key"),
    _number("ack_failures"),
    _maybe_time("due"),
    #: What this is more than its buffer's `consumed_bytes` waits for the application.
    _number("received_bytes"),
    #: This side has ended it to make room: of what has ended it is forgotten last.
    _flag("given_up"),
)
_partial("mercury_rmd_sequence_created", RMD_SEQUENCE.c.create_key, where="create_key is not null", unique=True)
_partial("mercury_rmd_sequence_owner", RMD_SEQUENCE.c.owner, where="ended_at is null")
_partial("mercury_rmd_sequence_ended", RMD_SEQUENCE.c.owner, RMD_SEQUENCE.c.ended_at, where="ended_at is not null")
_partial("mercury_rmd_sequence_due", RMD_SEQUENCE.c.due, where="due is not null")

# --- destination: the buffer before the application --------------------------------------------------------------

INVOKER_BUFFER = _table(
    "invoker_buffer",
    _text("sequence", primary_key=True),
    _text("state"),
    _flag("in_order"),
    _text("assurance"),
    _text("behavior"),
    _text("passed"),
    #: What the application was given and has not done with, at most once.
    _text("in_progress"),
    #: The lowest number not yet passed, and how many were passed.
    _number("next"),
    _number("passed_count"),
    _maybe_number("last"),
    _flag("cut"),
    #: Which of the waiting messages may be delivered; see `codec.Release`.
    _text("releases"),
    _maybe_text("service"),
    _number("version"),
    _number("attempts"),
    _maybe_time("retry_at"),
    _maybe_number("parked"),
    _maybe_text("last_error"),
    _maybe_text("follows"),
    _text("response_channels"),
    _number("consumed_bytes"),
    _number("response_bytes"),
    _number("letter_bytes"),
    #: The newest message that there was at its last turn: whose turn is longest ago comes next.
    _number("turn"),
)

INVOKER_MESSAGE = _table(
    "invoker_message",
    _position(),
    _text("sequence"),
    _number("number"),
    _text("kind"),
    _flag("last"),
    _maybe_text("message_id"),
    _text("action"),
    _text("element"),
    Column("payload", LargeBinary, nullable=False),
    _text("headers"),
    _text("checksum"),
    _flag("is_fault"),
    _maybe_text("relates_to"),
    _maybe_text("reply_to"),
    _maybe_text("fault_to"),
    _time("received_at"),
    _maybe_text("correlation"),
)
Index("mercury_invoker_message_number", INVOKER_MESSAGE.c.sequence, INVOKER_MESSAGE.c.kind, INVOKER_MESSAGE.c.number)

# --- source: RMS sequences and their buffers ---------------------------------------------------------------------

#: The internal keys. A row is made by the worker that numbers, never by `send`; it is what is locked.
RMS_KEY = _table("rms_key", _text("key_id", primary_key=True), _text("endpoint"), _text("name"))

RMS_SEQUENCE = _table(
    "rms_sequence",
    _position(),
    _text("id"),
    _text("key_id"),
    _text("channel"),
    _text("rm"),
    _text("state"),
    _time("last_heard"),
    _flag("closed"),
    _maybe_text("failure"),
    _maybe_text("identifier"),
    _number("last_number"),
    _number("highest_sent"),
    _text("acknowledged"),
    _text("moved"),
    _maybe_number("last_message"),
    _maybe_time("settled_at"),
    _flag("abandoned"),
    _number("unanswered"),
    #: The window, when the destination takes less than the policy allows; see `values.write_window`.
    _maybe_text("flow"),
    _text("incomplete_behavior"),
    _maybe_time("expires_at"),
    _number("control_attempts"),
    _time("control_due"),
    _time("created_at"),
    _text("create_message_id"),
    _maybe_text("offered"),
    _flag("offer_accepted"),
    _maybe_text("follows"),
    _maybe_time("due"),
    #: When `due` was worked out: in the future only when the clock was set back since.
    _time("planned_at"),
    _flag("holds"),
    _maybe_time("ended_at"),
    _maybe_text("last_error"),
)
Index("mercury_rms_sequence_id", RMS_SEQUENCE.c.id, unique=True)
Index("mercury_rms_sequence_key", RMS_SEQUENCE.c.key_id, RMS_SEQUENCE.c.position)
#: Two processes may take the same offer at once: the later commit fails.
Index("mercury_rms_sequence_identifier", RMS_SEQUENCE.c.identifier, unique=True)
Index("mercury_rms_sequence_create", RMS_SEQUENCE.c.create_message_id)
_partial("mercury_rms_sequence_due", RMS_SEQUENCE.c.due, where="due is not null")

#: Rows change when they are numbered, transmitted and acknowledged; what is large stands in `RMS_BODY`.
RMS_MESSAGE = _table(
    "rms_message",
    _position(),
    _text("message_id"),
    _text("key_id"),
    _text("channel"),
    _text("kind"),
    _text("action"),
    _flag("is_fault"),
    _flag("last"),
    _maybe_text("relates_to"),
    _flag("expects_response"),
    #: It is repeated until it is answered (HTTP-05).
    _flag("replays"),
    _maybe_text("callback"),
    #: By what a response is found that its client fetches; see `names.request_name`.
    _maybe_text("request"),
    _maybe_text("correlation"),
    _time("created_at"),
    _maybe_text("sequence_id"),
    _maybe_number("number"),
    _number("attempts"),
    _time("due"),
    _flag("acknowledged"),
    _flag("answered"),
    #: Of a response to a peer: whose limits it counts for, and how much.
    _maybe_text("owner"),
    _number("size"),
)
Index("mercury_rms_message_id", RMS_MESSAGE.c.message_id, unique=True)
_partial("mercury_rms_message_waiting", RMS_MESSAGE.c.key_id, RMS_MESSAGE.c.position, where="number is null")
_partial("mercury_rms_message_abandoned", RMS_MESSAGE.c.key_id, where="number is null and kind = 'abandon'")
#: A row of this index; the words are written out, or else the database does not find it.
IS_ABANDONED = and_(RMS_MESSAGE.c.number.is_(None), RMS_MESSAGE.c.kind == literal_column("'abandon'"))
_partial("mercury_rms_message_number", RMS_MESSAGE.c.sequence_id, RMS_MESSAGE.c.number, where="number is not null")
_partial("mercury_rms_message_request", RMS_MESSAGE.c.request, where="request is not null")

#: What a store keeps of a peer is summed without a look at the rows.
SUMMED = (RMS_MESSAGE.c.owner, RMS_MESSAGE.c.key_id, RMS_MESSAGE.c.size)
#: Rows of this index; the words are written out, or else the database does not find it.
UNACKNOWLEDGED_RESPONSE = "owner is not null and not acknowledged"
_partial("mercury_rms_message_owner", *SUMMED, where=UNACKNOWLEDGED_RESPONSE)

RMS_BODY = _table(
    "rms_body",
    _text("message_id", primary_key=True),
    Column("payload", LargeBinary, nullable=False),
    _text("headers"),
    _text("to_parameters"),
    _text("checksum"),
)

#: What is left of messages that arrived: their correlation, until retention ends.
RMS_KEPT = _table(
    "rms_kept",
    _text("message_id", primary_key=True),
    _text("correlation"),
    _maybe_text("sequence_id"),
    _maybe_number("number"),
    _time("created_at"),
    _time("settled_at"),
)
Index("mercury_rms_kept_correlation", RMS_KEPT.c.correlation)
Index("mercury_rms_kept_settled", RMS_KEPT.c.settled_at)

# --- work, recovery, operators -----------------------------------------------------------------------------------

CLAIM = _table(
    "claim",
    _text("resource", primary_key=True),
    _text("owner"),
    _number("epoch"),
    _time("until"),
)

DEAD_LETTER = _table(
    "dead_letter",
    _position(),
    _text("id"),
    _text("direction"),
    _text("reason"),
    _text("certainty"),
    _time("dead_at"),
    _maybe_text("message_id"),
    _text("endpoint"),
    _text("key"),
    _maybe_text("sequence"),
    _maybe_number("number"),
    _text("action"),
    Column("payload", LargeBinary, nullable=False),
    _text("headers"),
    _text("to_parameters"),
    _text("checksum"),
    _flag("is_fault"),
    _maybe_text("correlation"),
    _time("created_at"),
    _text("element"),
    _maybe_text("relates_to"),
    _maybe_text("channel"),
    _maybe_text("request"),
    _flag("expects_response"),
    _maybe_text("callback"),
    _flag("disowned"),
    _flag("damaged"),
    #: The peer that has caused it, whose limits it counts for, and how much.
    _maybe_text("owner"),
    _number("size"),
)
Index("mercury_dead_letter_id", DEAD_LETTER.c.id, unique=True)
Index("mercury_dead_letter_key", DEAD_LETTER.c.endpoint, DEAD_LETTER.c.key, DEAD_LETTER.c.dead_at)

SUMMED_LETTERS = (DEAD_LETTER.c.owner, DEAD_LETTER.c.sequence, DEAD_LETTER.c.size)
_partial("mercury_dead_letter_owner", *SUMMED_LETTERS, where="owner is not null")

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

#: One for each commit of an application's, until its answer has arrived (decision 21).
COMMIT = _table("commit", _text("id", primary_key=True), _time("made_at"))

#: Branches that were finished by hand against their decision.
HEURISTIC = _table(
    "heuristic",
    _text("gid", primary_key=True),
    _text("resource"),
    _text("decided"),
    _text("found"),
    _time("found_at"),
)
