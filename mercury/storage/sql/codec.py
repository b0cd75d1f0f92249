"""Rows of the tables and records of the storage API: one function each way for each kind."""

from __future__ import annotations

from typing import Any

from sqlalchemy import RowMapping

from mercury.statemachine.events import FailureReason
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.tables import InvokerState, RmdState, RmsState
from mercury.storage.records import (
    InboundKind,
    InboundMessage,
    InvokerRecord,
    OutboundKind,
    OutboundMessage,
    RmdRecord,
    RmsRecord,
)
from mercury.storage.sql.schema import INVOKER_MESSAGE
from mercury.storage.sql.values import (
    channel_of,
    checksum,
    leniently,
    read_channel,
    read_channels,
    read_parts,
    read_protocol,
    read_ranges,
    read_reference,
    read_window,
    strictly,
    write_channel,
    write_channels,
    write_parts,
    write_protocol,
    write_ranges,
    write_reference,
    write_window,
)

Values = dict[str, Any]
Row = RowMapping

#: Which waiting messages a buffer releases: the next number, any, or all of them together once all are here.
NEXT, ANY, ALL = "next", "any", "all"


# --- destination -----------------------------------------------------------------------------------------------------


def rmd_values(record: RmdRecord) -> Values:
    machine = record.machine
    return {
        "identifier": machine.identifier,
        "rm": machine.rm.value,
        "state": machine.state.value,
        "closed": machine.closed,
        "used": machine.used,
        "received": write_ranges(machine.received),
        "consumed": write_ranges(machine.consumed),
        "in_order_only": machine.in_order_only,
        "last_number": machine.last_number,
        "last_heard": machine.last_heard,
        "ended_at": machine.ended_at,
        "expires_at": machine.expires_at,
        "ack_due": machine.ack_due,
        "unacknowledged": machine.unacknowledged,
        "protocol": write_protocol(record.protocol),
        "acks_to": write_reference(record.acks_to),
        "created_at": record.created_at,
        "service": record.service,
        "create_message_id": record.create_message_id,
        "response_channel": write_channel(record.response_channel) if record.response_channel else None,
        "to": record.to,
        "peer": record.peer,
        "identity": record.identity,
        "owner": record.owner,
        "offered": record.offered,
        "offered_to": record.offered_to,
        "create_key": record.create_key,
        "ack_failures": record.ack_failures,
        "due": record.due,
        "received_bytes": record.received_bytes,
        "given_up": record.given_up,
    }


def rmd_record(row: Row) -> RmdRecord:
    return RmdRecord(
        machine=RMDSequence(
            identifier=row["identifier"],
            rm=RmVersion(row["rm"]),
            last_heard=row["last_heard"],
            state=RmdState(row["state"]),
            closed=row["closed"],
            used=row["used"],
            received=read_ranges(row["received"]),
            consumed=read_ranges(row["consumed"]),
            in_order_only=row["in_order_only"],
            last_number=row["last_number"],
            ended_at=row["ended_at"],
            expires_at=row["expires_at"],
            ack_due=row["ack_due"],
            unacknowledged=row["unacknowledged"],
        ),
        protocol=read_protocol(row["protocol"]),
        acks_to=read_reference(row["acks_to"]),
        created_at=row["created_at"],
        service=row["service"],
        create_message_id=row["create_message_id"],
        response_channel=read_channel(row["response_channel"]) if row["response_channel"] else None,
        to=row["to"],
        peer=row["peer"],
        identity=row["identity"],
        offered=row["offered"],
        offered_to=row["offered_to"],
        ack_failures=row["ack_failures"],
        due=row["due"],
        received_bytes=row["received_bytes"],
        given_up=row["given_up"],
    )


def invoker_values(record: InvokerRecord) -> Values:
    machine = record.machine
    return {
        "sequence": record.sequence,
        "state": machine.state.value,
        "in_order": machine.in_order,
        "assurance": machine.assurance.value,
        "behavior": machine.behavior.value,
        "passed": write_ranges(machine.passed),
        "in_progress": write_ranges(machine.in_progress),
        # Behind the highest number there is none, and no column has room for it.
        "next": min(machine.next, MAX_MESSAGE_NUMBER),
        "passed_count": machine.passed.count,
        "last": machine.last,
        "cut": machine.cut,
        "releases": _releases(machine),
        "service": record.service,
        "version": record.version,
        "attempts": record.attempts,
        "retry_at": record.retry_at,
        "parked": record.parked,
        "last_error": record.last_error,
        "follows": record.follows,
        "response_channels": write_channels(record.response_channels),
        "consumed_bytes": record.consumed_bytes,
        "response_bytes": record.response_bytes,
        "letter_bytes": record.letter_bytes,
    }


def _releases(machine: InvokerBuffer) -> str:
    if machine.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE and not machine.cut:
        return ANY if machine.in_progress else ALL
    in_turn = machine.in_order or machine.behavior is IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
    return NEXT if in_turn and not (machine.may_skip_gaps or machine.in_progress) else ANY


def invoker_record(row: Row) -> InvokerRecord:
    return InvokerRecord(
        sequence=row["sequence"],
        machine=InvokerBuffer(
            in_order=row["in_order"],
            assurance=DeliveryAssurance(row["assurance"]),
            behavior=IncompleteSequenceBehavior(row["behavior"]),
            state=InvokerState(row["state"]),
            passed=read_ranges(row["passed"]),
            in_progress=read_ranges(row["in_progress"]),
            buffered=RangeSet(),
            last=row["last"],
            cut=row["cut"],
        ),
        service=row["service"],
        version=row["version"],
        attempts=row["attempts"],
        retry_at=row["retry_at"],
        parked=row["parked"],
        last_error=row["last_error"],
        follows=row["follows"],
        response_channels=read_channels(row["response_channels"]),
        consumed_bytes=row["consumed_bytes"],
        response_bytes=row["response_bytes"],
        letter_bytes=row["letter_bytes"],
    )


def inbound_values(message: InboundMessage) -> Values:
    values = {
        "sequence": message.sequence,
        "number": message.number,
        "kind": message.kind.value,
        "last": message.last,
        "message_id": message.message_id,
        "action": message.action,
        "element": message.element,
        "payload": message.payload,
        "headers": write_parts(message.headers),
        "is_fault": message.is_fault,
        "relates_to": message.relates_to,
        "reply_to": write_reference(message.reply_to) if message.reply_to else None,
        "fault_to": write_reference(message.fault_to) if message.fault_to else None,
        "received_at": message.received_at,
        "correlation": message.correlation,
    }
    values["checksum"] = _inbound_checksum(values)
    return values


#: Every column of a row of the inbound buffer but its payload, and what the store gives it.
INBOUND_FIELDS = tuple(
    column.name for column in INVOKER_MESSAGE.columns if column.name not in ("position", "payload", "checksum")
)


def _inbound_checksum(row: Row | Values) -> str:
    return checksum(row["payload"], *(row[name] for name in INBOUND_FIELDS))


def inbound_message(row: Row) -> InboundMessage:
    damaged = row["checksum"] != _inbound_checksum(row)
    read = leniently if damaged else strictly
    is_message = row["kind"] == InboundKind.MESSAGE.value
    return InboundMessage(
        sequence=row["sequence"],
        number=row["number"],
        # What its kind was nobody knows any more: it is not looked for among the messages.
        kind=InboundKind(row["kind"]) if is_message or not damaged else InboundKind.END,
        last=row["last"],
        message_id=row["message_id"],
        action=row["action"],
        payload=row["payload"],
        element=row["element"],
        is_fault=row["is_fault"],
        headers=read(read_parts, row["headers"]) or (),
        relates_to=row["relates_to"],
        reply_to=read(read_reference, row["reply_to"]),
        fault_to=read(read_reference, row["fault_to"]),
        received_at=row["received_at"],
        correlation=row["correlation"],
        position=row["position"] if damaged or not is_message else 0,
        damaged=damaged,
    )


# --- source ----------------------------------------------------------------------------------------------------------


def rms_values(record: RmsRecord) -> Values:
    machine = record.machine
    return {
        "id": record.id,
        "key_id": record.channel.key.digest,
        "channel": write_channel(record.channel),
        "rm": machine.rm.value,
        "state": machine.state.value,
        "last_heard": machine.last_heard,
        "closed": machine.closed,
        "failure": machine.failure.value if machine.failure else None,
        "identifier": machine.identifier,
        "last_number": machine.last_number,
        "highest_sent": machine.highest_sent,
        "acknowledged": write_ranges(machine.acknowledged),
        "moved": write_ranges(machine.moved),
        "last_message": machine.last_message,
        "settled_at": machine.settled_at,
        "abandoned": machine.abandoned,
        "unanswered": machine.unanswered,
        "flow": write_window(machine.flow),
        "incomplete_behavior": machine.incomplete_behavior.value,
        "expires_at": machine.expires_at,
        "control_attempts": machine.control_attempts,
        "control_due": machine.control_due,
        "created_at": record.created_at,
        "create_message_id": record.create_message_id,
        "offered": record.offered,
        "offer_accepted": record.offer_accepted,
        "follows": record.follows,
        "due": record.due,
        "planned_at": record.planned_at,
        "holds": record.holds,
        "ended_at": record.ended_at,
        "last_error": record.last_error,
    }


def rms_record(row: Row) -> RmsRecord:
    return RmsRecord(
        id=row["id"],
        channel=read_channel(row["channel"]),
        machine=RMSSequence(
            rm=RmVersion(row["rm"]),
            state=RmsState(row["state"]),
            last_heard=row["last_heard"],
            closed=row["closed"],
            failure=FailureReason(row["failure"]) if row["failure"] else None,
            identifier=row["identifier"],
            last_number=row["last_number"],
            highest_sent=row["highest_sent"],
            acknowledged=read_ranges(row["acknowledged"]),
            moved=read_ranges(row["moved"]),
            last_message=row["last_message"],
            settled_at=row["settled_at"],
            abandoned=row["abandoned"],
            unanswered=row["unanswered"],
            flow=read_window(row["flow"]),
            incomplete_behavior=IncompleteSequenceBehavior(row["incomplete_behavior"]),
            expires_at=row["expires_at"],
            control_attempts=row["control_attempts"],
            control_due=row["control_due"],
        ),
        created_at=row["created_at"],
        create_message_id=row["create_message_id"],
        offered=row["offered"],
        offer_accepted=row["offer_accepted"],
        follows=row["follows"],
        due=row["due"],
        planned_at=row["planned_at"],
        holds=row["holds"],
        ended_at=row["ended_at"],
        last_error=row["last_error"],
    )


def outbound_values(message: OutboundMessage) -> Values:
    return {
        "message_id": message.message_id,
        "key_id": message.channel.key.digest,
        "channel": write_channel(message.channel),
        "kind": message.kind.value,
        "action": message.action,
        "is_fault": message.is_fault,
        "last": message.last,
        "relates_to": message.relates_to,
        "expects_response": message.expects_response,
        "replays": message.expects_response and message.channel.reply_to.anonymous,
        "callback": message.callback,
        "request": message.request,
        "correlation": message.correlation,
        "created_at": message.created_at,
        "sequence_id": message.sequence_id,
        "number": message.number,
        "attempts": message.attempts,
        "due": message.due,
        "acknowledged": message.acknowledged,
        "answered": message.answered,
        "owner": message.owner,
        "size": 0 if message.owner is None else message.size,
    }


def body_values(message: OutboundMessage) -> Values:
    row = outbound_values(message)
    headers, parameters = write_parts(message.headers), write_parts(message.to_parameters)
    return {
        "message_id": message.message_id,
        "payload": message.payload,
        "headers": headers,
        "to_parameters": parameters,
        "checksum": _outbound_checksum(
            row | {"payload": message.payload, "headers": headers, "to_parameters": parameters}
        ),
    }


#: The columns of an outbound row that never change: its state in transmission is not what it says.
OUTBOUND_FIELDS = (
    "message_id", "key_id", "channel", "kind", "action", "is_fault", "relates_to", "callback", "request",
    "correlation", "created_at",
)  # fmt: skip


def _outbound_checksum(row: Row | Values) -> str:
    # The application's end of a key becomes the last message of a sequence when it gets a number (WS-RM 1.0).
    last = row["last"] and row["kind"] != OutboundKind.END.value
    fields = (row[name] for name in OUTBOUND_FIELDS)
    return checksum(row["payload"], row["headers"], row["to_parameters"], last, *fields)


def outbound_message(row: Row) -> OutboundMessage:
    """A row of RMS_MESSAGE, joined with its body or not: then ``payload``, the headers and parameters are empty."""
    message = OutboundMessage(
        message_id=row["message_id"],
        channel=channel_of(row["key_id"], row["channel"]),
        kind=leniently(OutboundKind, row["kind"]) or OutboundKind.MESSAGE,
        action=row["action"],
        is_fault=row["is_fault"],
        last=row["last"],
        relates_to=row["relates_to"],
        expects_response=row["expects_response"],
        callback=row["callback"],
        request=row["request"],
        correlation=row["correlation"],
        created_at=row["created_at"],
        position=row["position"],
        sequence_id=row["sequence_id"],
        number=row["number"],
        attempts=row["attempts"],
        due=row["due"],
        acknowledged=row["acknowledged"],
        answered=row["answered"],
        owner=row["owner"],
    )
    if row.get("checksum") is not None:
        message.payload = row["payload"]
        message.damaged = row["checksum"] != _outbound_checksum(row)
        read = leniently if message.damaged else strictly
        message.headers = read(read_parts, row["headers"]) or ()
        message.to_parameters = read(read_parts, row["to_parameters"]) or ()
    return message
