"""Conversions between rows of the tables and records of the storage API: one function each way for each kind."""

from __future__ import annotations

from operator import itemgetter

from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.storage.letters import DeadLetter
from mercury.storage.records import (
    InboundKind,
    InboundMessage,
    InvokerRecord,
    OutboundKind,
    OutboundMessage,
    RmdRecord,
    RmsRecord,
)
from mercury.storage.sql import record_columns
from mercury.storage.sql.fields import Fields, Values
from mercury.storage.sql.prepared import Row
from mercury.storage.sql.values import channel_of, checksum

RMD = Fields.of(record_columns.RMD)
INVOKER = Fields.of(record_columns.INVOKER)
INBOUND = Fields.of(record_columns.INBOUND)
RMS = Fields.of(record_columns.RMS)
OUTBOUND = Fields.of(record_columns.OUTBOUND)
OUTBOUND_BODY = Fields.of(record_columns.OUTBOUND_BODY)
LETTER = Fields.of(record_columns.LETTER)
LETTER_LINE = Fields.of([each for each in record_columns.LETTER if each.name not in record_columns.LETTER_BODY])

# --- destination -----------------------------------------------------------------------------------------------------


def rmd_values(record: RmdRecord) -> Values:
    return RMD.values(record)


def rmd_changes(record: RmdRecord) -> Values:
    return RMD.changing(record)


def rmd_record(row: Row) -> RmdRecord:
    return RmdRecord(machine=RMDSequence(**RMD.of_machine(row)), **RMD.of_record(row))


def invoker_values(record: InvokerRecord) -> Values:
    return INVOKER.values(record)


def invoker_record(row: Row) -> InvokerRecord:
    return InvokerRecord(machine=InvokerBuffer(**INVOKER.of_machine(row)), **INVOKER.of_record(row))


def inbound_values(message: InboundMessage) -> Values:
    values = INBOUND.values(message)
    values["checksum"] = _inbound_checksum(values)
    return values


#: The columns that the checksum of a row of the inbound buffer covers, beside its payload: all but those that the store
#: assigns and those that are newer than the checksum.
INBOUND_FIELDS = tuple(name for name in INBOUND.names if name != "payload" and name not in INBOUND.unchecked)
_inbound_fields = itemgetter(*INBOUND_FIELDS)


def _inbound_checksum(row: Row | Values) -> str:
    return checksum(row["payload"], *_inbound_fields(row))


def inbound_message(row: Row) -> InboundMessage:
    damaged = row["checksum"] != _inbound_checksum(row)
    fields = INBOUND.of_record(row, damaged=damaged)
    is_message = fields["kind"] is InboundKind.MESSAGE
    if damaged or not is_message:
        fields |= {"damaged": damaged, "position": row["position"]}
    if damaged and not is_message:
        fields["kind"] = InboundKind.END  # the real kind is lost: as a marker it is never looked up by a message number
    return InboundMessage(**fields)


# --- source ----------------------------------------------------------------------------------------------------------


def rms_values(record: RmsRecord) -> Values:
    return RMS.values(record)


def rms_changes(record: RmsRecord) -> Values:
    return RMS.changing(record)


def rms_record(row: Row) -> RmsRecord:
    return RmsRecord(machine=RMSSequence(**RMS.of_machine(row)), **RMS.of_record(row))


def outbound_values(message: OutboundMessage) -> Values:
    return OUTBOUND.values(message)


def body_values(message: OutboundMessage, row: Values) -> Values:
    """The columns of the body of a message.

    :param row: its `outbound_values`.
    """
    values = OUTBOUND_BODY.values(message)
    values["checksum"] = _outbound_checksum(row, values)
    return values


#: The columns of a row of the outbound buffer that the checksum of its body covers.
OUTBOUND_FIELDS = tuple(name for name in OUTBOUND.constant if name not in OUTBOUND.unchecked)
_outbound_fields = itemgetter(*OUTBOUND_FIELDS)


def _outbound_checksum(row: Row | Values, body: Row | Values) -> str:
    # The application's end of a key becomes the last message of a sequence when it gets a number (WS-RM 1.0).
    last = row["last"] and row["kind"] != OutboundKind.END.value
    # The checksum covers only columns that never change: not the state of transmission.
    return checksum(body["payload"], body["headers"], body["to_parameters"], last, *_outbound_fields(row))


def outbound_message(row: Row) -> OutboundMessage:
    """A row of RMS_MESSAGE. If it is not joined with its body, ``payload``, the headers and parameters are empty."""
    fields = OUTBOUND.of_record(row)
    fields |= {"channel": channel_of(row["key_id"], row["channel"]), "position": row["position"]}
    if row.get("checksum") is not None:
        fields["damaged"] = row["checksum"] != _outbound_checksum(row, row)
        fields |= OUTBOUND_BODY.of_record(row, damaged=fields["damaged"])
    return OutboundMessage(**fields)


# --- dead letters ----------------------------------------------------------------------------------------------------


def letter_values(letter: DeadLetter) -> Values:
    values = LETTER.values(letter)
    values["checksum"] = _letter_checksum(values)
    return values


def dead_letter(row: Row) -> DeadLetter:
    fields = LETTER.of_record(row)
    fields["damaged"] |= row["checksum"] != _letter_checksum(row)
    return DeadLetter(**fields)


def letter_line(row: Row) -> DeadLetter:
    """A row of DEAD_LETTER without the columns of its body. ``payload``, the headers, parameters and attachments are
    empty, and ``damaged`` is what was known when the letter was added: there is no body to compare the checksum with.
    """
    return DeadLetter(**LETTER_LINE.of_record(row))


def _letter_checksum(row: Row | Values) -> str:
    return checksum(row["payload"], row["action"], row["headers"], row["to_parameters"])
