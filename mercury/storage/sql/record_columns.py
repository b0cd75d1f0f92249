"""One description of each kind of record: its fields, their columns, and the conversions between them.

The tables (`schema`), the conversions between rows and records, and the checksums (`codec`) are derived from it. A new
column is a field of the record (`mercury.storage.records`), one line here, and a migration.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from sqlalchemy import BigInteger, Column, Text

from mercury.statemachine.effects import Certainty
from mercury.statemachine.events import DestinationEnd, FailureReason
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.tables import InvokerState, RmdState, RmsState
from mercury.statemachine.trace import Trace, trace_of
from mercury.storage.letters import Direction
from mercury.storage.records import InboundKind, InvokerRecord, OutboundKind, OutboundMessage
from mercury.storage.sql.fields import (
    Described,
    binary,
    choice,
    flag,
    nullable,
    nullable_choice,
    number,
    position,
    ranges,
    structure,
    text,
    time,
)
from mercury.storage.sql.values import (
    leniently,
    read_attachments,
    read_channel,
    read_channels,
    read_parts,
    read_protocol,
    read_reference,
    read_round_trip,
    read_window,
    write_attachments,
    write_channel,
    write_channels,
    write_parts,
    write_protocol,
    write_reference,
    write_round_trip,
    write_window,
)


def _next(record: InvokerRecord) -> int:
    """The next number to deliver; limited to the highest message number, which is the largest that fits the column."""
    return min(record.machine.next, MAX_MESSAGE_NUMBER)


def _counted(message: OutboundMessage) -> int:
    return len(message.payload) if message.owner is None else message.size


def _id_of_attachments(record: Any) -> str | None:
    return None if record.attachments is None else record.attachments.id


def _outbound_kind(text: str) -> OutboundKind:
    return leniently(OutboundKind, text) or OutboundKind.MESSAGE


def _letters_channel(text: str) -> Any:
    return leniently(read_channel, text)


def _checksum() -> Column[str]:
    return Column("checksum", Text, nullable=False)


def _headers(name: str, **more: Any) -> Described:
    return structure(name, write_parts, read_parts, unreadable=(), **more)


def _attachments(**more: Any) -> Described:
    return structure("attachments", write_attachments, read_attachments, nullable=True, **more)


def _attachments_id(**more: Any) -> Described:
    """The name of the pieces, by which `retention` finds out whether a row still needs them."""
    return nullable(text, "attachments_id", derived=_id_of_attachments, **more)


def _trace() -> Described:
    """`Trace.text`. A text that is none is no trace: no message is damaged by it."""
    return nullable(text, "trace", write=_written_trace, read=trace_of, unchecked=True)


def _written_trace(trace: Trace | None) -> str | None:
    return None if trace is None else trace.text


#: A sequence at its destination: `RmdRecord`.
RMD: tuple[Described, ...] = (
    text("identifier", "machine.identifier", primary_key=True),
    choice("rm", RmVersion, "machine.rm", constant=True),
    choice("state", RmdState, "machine.state"),
    flag("closed", "machine.closed"),
    flag("used", "machine.used"),
    ranges("received", "machine.received"),
    ranges("consumed", "machine.consumed"),
    flag("in_order_only", "machine.in_order_only", constant=True),
    nullable(number, "last_number", "machine.last_number"),
    time("last_heard", "machine.last_heard"),
    nullable(time, "ended_at", "machine.ended_at"),
    nullable(time, "expires_at", "machine.expires_at"),
    nullable(time, "ack_due", "machine.ack_due"),
    number("unacknowledged", "machine.unacknowledged"),
    #: BufferRemaining of the newest acknowledgement.
    nullable(number, "room", "machine.room"),
    #: The end that this side begins, and its CloseSequence or TerminateSequence.
    nullable_choice("own_end", DestinationEnd, "machine.own_end"),
    number("end_attempts", "machine.end_attempts"),
    nullable(time, "end_due", "machine.end_due"),
    structure("protocol", write_protocol, read_protocol, constant=True),
    structure("acks_to", write_reference, read_reference, constant=True),
    time("created_at", constant=True),
    nullable(text, "service", constant=True),
    nullable(text, "create_message_id", constant=True),
    structure("response_channel", write_channel, read_channel, nullable=True, constant=True),
    text("to", constant=True),
    text("peer", constant=True),
    nullable(text, "identity"),
    #: The owner: the identity, or else the network address.
    text("owner", derived=attrgetter("owner")),
    nullable(text, "token", constant=True),
    nullable(text, "offered", constant=True),
    text("offered_to", constant=True),
    #: CreateSequence messages with the same key are repetitions of one.
    nullable(text, "create_key", derived=attrgetter("create_key")),
    #: The name by which a MakeConnection finds a waiting acknowledgement.
    nullable(text, "fetched_by", derived=attrgetter("fetched_by")),
    number("ack_failures"),
    nullable(time, "due"),
    #: Minus the `consumed_bytes` of its buffer: the bytes that wait for the application.
    number("received_bytes"),
    #: This side has ended the sequence to make room: its tombstone is removed last.
    flag("given_up"),
    flag("source_is_mercury", constant=True),
    flag("takes_batches", constant=True),
)

#: The buffer between a destination sequence and the application: `InvokerRecord`.
INVOKER: tuple[Described, ...] = (
    text("sequence", primary_key=True),
    choice("state", InvokerState, "machine.state"),
    flag("in_order", "machine.in_order"),
    choice("assurance", DeliveryAssurance, "machine.assurance"),
    choice("behavior", IncompleteSequenceBehavior, "machine.behavior"),
    ranges("passed", "machine.passed"),
    #: With assurance AtMostOnce: the messages whose delivery has begun and not ended.
    ranges("in_progress", "machine.in_progress"),
    #: The lowest number that is not passed yet, and the number of passed messages.
    number("next", derived=_next),
    number("passed_count", derived=attrgetter("machine.passed.count")),
    nullable(number, "last", "machine.last"),
    flag("cut", "machine.cut"),
    #: Which of the waiting messages may be delivered: a `Release`.
    text("releases", derived=attrgetter("machine.work.value")),
    nullable(text, "service"),
    text("owner"),
    number("version"),
    number("attempts"),
    nullable(time, "retry_at"),
    nullable(number, "parked"),
    nullable(text, "last_error"),
    nullable(text, "follows"),
    structure("response_channels", write_channels, read_channels),
    number("consumed_bytes"),
    number("response_bytes"),
    number("letter_bytes"),
    #: The position of the newest message at its last turn. Fair scheduling: the buffer served longest ago comes first.
    Column("turn", BigInteger, nullable=False),
)

#: A row of the invoker buffer: `InboundMessage`. Every column is in the checksum, in this order, the payload first; not
#: one that is `unchecked`, as each column since schema 0002 is.
INBOUND: tuple[Described, ...] = (
    position(),
    text("sequence"),
    number("number"),
    choice("kind", InboundKind, unreadable=InboundKind.END),
    flag("last"),
    nullable(text, "message_id"),
    text("action"),
    text("element"),
    binary("payload"),
    _headers("headers"),
    _checksum(),
    flag("is_fault"),
    nullable(text, "relates_to"),
    structure("reply_to", write_reference, read_reference, nullable=True),
    structure("fault_to", write_reference, read_reference, nullable=True),
    time("received_at"),
    nullable(text, "correlation"),
    _attachments(),
    _attachments_id(),
    nullable(time, "expires_at", unchecked=True),
    _trace(),
    nullable(time, "sent_at", unchecked=True),
)

#: A sequence at its source: `RmsRecord`.
RMS: tuple[Described, ...] = (
    position(),
    text("id"),
    text("key_id", derived=attrgetter("channel.key.digest"), constant=True),
    structure("channel", write_channel, read_channel, constant=True),
    choice("rm", RmVersion, "machine.rm", constant=True),
    choice("state", RmsState, "machine.state"),
    time("last_heard", "machine.last_heard"),
    flag("closed", "machine.closed"),
    nullable_choice("failure", FailureReason, "machine.failure"),
    nullable(text, "identifier", "machine.identifier"),
    number("last_number", "machine.last_number"),
    number("highest_sent", "machine.highest_sent"),
    ranges("acknowledged", "machine.acknowledged"),
    ranges("moved", "machine.moved"),
    nullable(number, "last_message", "machine.last_message"),
    nullable(time, "settled_at", "machine.settled_at"),
    flag("abandoned", "machine.abandoned"),
    number("unanswered", "machine.unanswered"),
    #: The window, if it is smaller than the policy allows.
    nullable(text, "flow", "machine.flow", write=write_window, read=read_window, reads_null=True),
    nullable(text, "round_trip", "machine.round_trip", write=write_round_trip, read=read_round_trip, reads_null=True),
    choice("incomplete_behavior", IncompleteSequenceBehavior, "machine.incomplete_behavior"),
    nullable(time, "expires_at", "machine.expires_at"),
    number("control_attempts", "machine.control_attempts"),
    time("control_due", "machine.control_due"),
    time("created_at", constant=True),
    #: These two change when CreateSequence becomes another message; see `SqlRms.save`.
    text("create_message_id", constant=True),
    nullable(text, "offered", constant=True),
    flag("offer_accepted"),
    nullable(text, "follows"),
    nullable(time, "due"),
    #: When `due` was computed: it is in the future only if the clock was set back since.
    time("planned_at"),
    flag("window_full"),
    flag("holds_successor"),
    nullable(time, "ended_at"),
    nullable(text, "last_error"),
    nullable(time, "fetch_due"),
    nullable(time, "poll_due"),
    number("polls"),
    text("owner", constant=True),
    #: The batches that the destination takes.
    number("batch_messages"),
    number("batch_size"),
    #: The name by which a MakeConnection finds it.
    nullable(text, "fetched_by", derived=attrgetter("fetched_by")),
    nullable(time, "rows_wait_until", unchecked=True),
    nullable(number, "priority", derived=attrgetter("channel.priority"), unchecked=True),
    nullable(text, "store", unchecked=True),
)

#: A row of the RMS buffer: `OutboundMessage` without its large fields. Constant columns are in the checksum, in this
#: order, unless they are `unchecked`, as each column since schema 0002 is.
OUTBOUND: tuple[Described, ...] = (
    position(),
    text("message_id", constant=True),
    text("key_id", derived=attrgetter("channel.key.digest"), constant=True),
    #: Read with the key's digest: see `values.channel_of`.
    text("channel", write=write_channel, constant=True),
    choice("kind", OutboundKind, read=_outbound_kind, constant=True),
    text("action", constant=True),
    flag("is_fault", constant=True),
    flag("last"),
    nullable(text, "relates_to", constant=True),
    flag("expects_response"),
    #: The request is repeated until its response arrives (HTTP-05).
    flag("replays", derived=attrgetter("replays")),
    nullable(text, "callback", constant=True),
    #: The name by which a response that its client fetches is found; see `names.request_name`.
    nullable(text, "request", constant=True),
    nullable(text, "correlation", constant=True),
    time("created_at", constant=True),
    nullable(text, "sequence_id"),
    nullable(number, "number"),
    number("attempts"),
    time("due"),
    flag("acknowledged"),
    flag("answered"),
    #: Of a response: the peer whose limits it counts for, and its bytes. Of other messages: the bytes of the body.
    nullable(text, "owner"),
    number("size", derived=_counted),
    _attachments(constant=True),
    _attachments_id(constant=True),
    nullable(time, "expires_at", unchecked=True),
    nullable(time, "not_before", unchecked=True),
    nullable(number, "priority", derived=attrgetter("channel.priority"), unchecked=True),
    _trace(),
    #: Null in a row of the version before, which knows no doubt.
    nullable(flag, "in_doubt", read=bool, reads_null=True, unchecked=True),
)

#: The large fields of an `OutboundMessage`.
OUTBOUND_BODY: tuple[Described, ...] = (
    text("message_id", primary_key=True),
    binary("payload"),
    _headers("headers"),
    _headers("to_parameters"),
    _checksum(),
)

#: The contents of a dead letter, which are up to the limits of a body large.
LETTER_BODY = frozenset(("payload", "headers", "to_parameters", "attachments"))

#: `DeadLetter`.
LETTER: tuple[Described, ...] = (
    position(),
    text("id"),
    choice("direction", Direction),
    text("reason"),
    choice("certainty", Certainty),
    time("dead_at"),
    nullable(text, "message_id"),
    text("endpoint"),
    text("key"),
    nullable(text, "sequence"),
    nullable(number, "number"),
    text("action"),
    binary("payload"),
    _headers("headers"),
    _headers("to_parameters"),
    _checksum(),
    flag("is_fault"),
    nullable(text, "correlation"),
    time("created_at"),
    text("element"),
    nullable(text, "relates_to"),
    structure("channel", write_channel, _letters_channel, nullable=True),
    nullable(text, "request"),
    flag("expects_response"),
    nullable(text, "callback"),
    flag("disowned"),
    flag("damaged"),
    #: The peer whose limits it counts for, and its bytes.
    nullable(text, "owner"),
    number("size", derived=attrgetter("size")),
    _attachments(),
    _attachments_id(),
    _trace(),
)
