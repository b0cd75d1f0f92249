"""The envelopes that Mercury sends, made from committed records."""

from __future__ import annotations

from collections.abc import Sequence

from mercury.errors import ApplicationFault
from mercury.statemachine.events import DestinationEnd
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    AckRequested,
    BatchLimits,
    CloseSequence,
    CreateSequence,
    EndpointReference,
    MakeConnection,
    Offer,
    SequenceAcknowledgement,
    SequenceHeader,
    TerminateSequence,
)
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.protocol import Protocol, RmVersion
from mercury.statemachine.trace import Trace
from mercury.storage.records import OutboundMessage, RmdRecord, RmsRecord
from mercury.wire import ns
from mercury.wire.application_fault import write_application_fault
from mercury.wire.attachment import LargePart
from mercury.wire.encode import fault_action
from mercury.wire.envelope import EMPTY, BatchedMessage, Body, Envelope, MessageBatch, Payload
from mercury.wire.ns import RmMessage
from mercury.wire.origin import Origin

Acknowledgements = tuple[SequenceAcknowledgement, ...]


def _envelope(
    protocol: Protocol,
    action: str,
    to: EndpointReference,
    message_id: str,
    body: Body,
    *,
    reply_to: EndpointReference | None = None,
    relates_to: str | None = None,
    sequence: SequenceHeader | None = None,
    acknowledgements: Acknowledgements = (),
    ack_requests: tuple[AckRequested, ...] = (),
    headers: tuple[bytes, ...] = (),
    mtom: bool = False,
    parts: tuple[LargePart, ...] = (),
    expires_in: float | None = None,
    origin: Origin | None = None,
    trace: Trace | None = None,
) -> Envelope:
    return Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action=action,
        to=to,
        message_id=message_id,
        reply_to=reply_to,
        relates_to=relates_to,
        sequence=sequence,
        acknowledgements=expressible(protocol, acknowledgements),
        ack_requests=ack_requests,
        headers=headers,
        expires_in=expires_in,
        origin=origin,
        trace=trace,
        mtom=mtom,
        parts=parts,
        body=body,
    )


def expressible(protocol: Protocol, acknowledgements: Acknowledgements) -> Acknowledgements:
    """The acknowledgements that the protocol can express: WS-RM 1.0 cannot say that nothing was received.

    .NET writes the range 0-0 for this, which other stacks refuse (RM-ACK-04, LIVE-09).
    """
    if protocol.rm is RmVersion.RM11:
        return acknowledgements
    return tuple([each for each in acknowledgements if each.ranges or each.nacks])


def create_sequence(
    record: RmsRecord,
    destination: DestinationPolicy,
    acknowledgements: Acknowledgements = (),
    batch: BatchLimits | None = None,
) -> Envelope:
    """CreateSequence; repeated with the same MessageID and offer (RM-CS-13).

    :param destination: how this side treats an offered sequence.
    :param batch: the batches that this side takes on an offered sequence.
    """
    channel, policy = record.channel, record.channel.policy
    offer = None
    if record.offered is not None:
        # RM-CS-09: one and the same address for AcksTo, ReplyTo and the offer's endpoint.
        endpoint = channel.reply_to if policy.protocol.rm is RmVersion.RM11 else None
        offer = Offer(
            identifier=record.offered,
            endpoint=endpoint,
            expires=policy.expires,
            incomplete_behavior=destination.advertised_behavior,
        )
    body = CreateSequence(
        acks_to=channel.reply_to,
        expires=policy.expires,
        offer=offer,
        follows=record.follows,
        mercury=policy.protocol.rm is RmVersion.RM10,
        mercury_behavior=destination.behavior if policy.protocol.rm is RmVersion.RM11 else None,
        batch=batch,
    )
    return _envelope(
        policy.protocol,
        ns.rm_action(policy.protocol.rm, RmMessage.CREATE_SEQUENCE),
        EndpointReference(channel.to),
        record.create_message_id,
        body,
        reply_to=channel.reply_to,
        acknowledgements=acknowledgements,
        mtom=policy.mtom,
    )


def message(
    record: RmsRecord,
    row: OutboundMessage,
    now: float = 0.0,
    request_ack: bool = False,
    acknowledgements: Acknowledgements = (),
    parts: tuple[LargePart, ...] = (),
    *,
    to: EndpointReference | None = None,
    timed: bool = False,
) -> Envelope:
    """A message of a sequence. At every transmission its number, MessageID and body are the same (RM-SEQ-04).

    Through a plain channel it travels outside any sequence.

    :param now: seconds since the epoch; what is left of its time to live goes with the message.
    :param to: the endpoint; by default the channel's endpoint with the row's reference parameters.
    :param request_ack: add AckRequested.
    :param parts: those of `OutboundMessage.attachments`.
    :param timed: tell a destination that is Mercury when the message was sent.
    """
    protocol = record.channel.policy.protocol
    identifier = record.machine.identifier or ""
    if row.damaged and row.is_response:
        row = _lost(protocol, row)
    bare, plain = is_bare_last(row), record.channel.plain
    header = SequenceHeader(identifier, row.number or 0, row.last and protocol.rm is RmVersion.RM10)
    return _envelope(
        protocol,
        ns.rm_action(protocol.rm, RmMessage.LAST_MESSAGE) if bare else row.action,
        to or EndpointReference(record.channel.to, row.to_parameters),
        row.message_id,
        Payload(row.payload, is_fault=row.is_fault) if row.payload else EMPTY,
        reply_to=reply_to_of(record, row),
        relates_to=row.relates_to,
        sequence=None if plain else header,
        acknowledgements=acknowledgements,
        ack_requests=(AckRequested(identifier),) if request_ack and not plain else (),
        headers=row.headers,
        mtom=record.channel.policy.mtom,
        parts=parts,
        expires_in=None if row.expires_at is None else left(row.expires_at, now),
        origin=_origin(record, row, timed=timed),
        trace=row.trace,
    )


def _origin(record: RmsRecord, row: OutboundMessage, *, timed: bool) -> Origin | None:
    """Where a message comes from, for a destination that has stated to be Mercury: that takes batches. A message is the
    same at every transmission (RM-SEQ-04), so it is when the application has sent it."""
    if not record.batch_messages or not (timed or row.trace is not None):
        return None
    return Origin(row.trace, row.created_at if timed else None)


def left(expires_at: float, now: float) -> float:
    """Seconds that are left of a time to live; 0 = none. Relative, so that the clocks of both sides may differ."""
    return max(0.0, expires_at - now)


def batch(
    record: RmsRecord,
    rows: Sequence[OutboundMessage],
    message_id: str,
    now: float = 0.0,
    request_ack: bool = False,
    acknowledgements: Acknowledgements = (),
    *,
    timed: bool = False,
) -> Envelope:
    """Several messages of a sequence in one envelope (`MessageBatch`), with the content of single messages.

    :param rows: with consecutive numbers; see `mercury.engine.source.batching`.
    :param timed: see `message`.
    """
    protocol, first = record.channel.policy.protocol, rows[0]
    identifier = record.machine.identifier or ""
    messages = [
        BatchedMessage(
            row.message_id,
            row.action,
            Payload(row.payload, is_fault=row.is_fault) if row.payload else EMPTY,
            row.relates_to,
            None if row.expires_at is None else left(row.expires_at, now),
            _origin(record, row, timed=timed),
        )
        for row in rows
    ]
    return _envelope(
        protocol,
        ns.BATCH_ACTION,
        EndpointReference(record.channel.to),
        message_id,
        MessageBatch(tuple(messages)),
        reply_to=reply_to_of(record, first),
        sequence=SequenceHeader(identifier, first.number or 0),
        acknowledgements=acknowledgements,
        ack_requests=(AckRequested(identifier),) if request_ack else (),
    )


def reply_to_of(record: RmsRecord, row: OutboundMessage) -> EndpointReference | None:
    """ReplyTo of a message; ``None`` if it expects no response (WSA Core section 3.1: optional).

    LIVE-13: if ReplyTo and AcksTo are the same address, some destinations delay acknowledgements until the response.
    """
    if row.relates_to is not None or (row.callback is None and not record.channel.reply_to.anonymous):
        return None
    return record.channel.reply_to


def _lost(protocol: Protocol, row: OutboundMessage) -> OutboundMessage:
    """The fault that is sent instead of a damaged response, because its number must not stay unused."""
    fault = ApplicationFault("The response was damaged in the store and is lost.", code="Lost")
    lost = row.copy()
    lost.payload, lost.is_fault = write_application_fault(protocol.soap, fault), True
    lost.action = fault_action(FaultCode.SENDER, protocol.soap, protocol.addressing, protocol.rm)
    lost.headers = lost.to_parameters = ()
    return lost


def is_bare_last(row: OutboundMessage) -> bool:
    """Whether a row is the empty LastMessage of WS-RM 1.0, which only states the last number (RM10-SEQ-08)."""
    return row.last and not row.action


def close_sequence(record: RmsRecord, message_id: str, acknowledgements: Acknowledgements) -> Envelope:
    """CloseSequence, WS-RM 1.1 only. Carries the acknowledgement of the paired sequence (ST-W02)."""
    machine = record.machine
    body = CloseSequence(machine.identifier or "", machine.last_number or None)
    return _ending(record, RmMessage.CLOSE_SEQUENCE, message_id, body, acknowledgements)


def terminate_sequence(record: RmsRecord, message_id: str, acknowledgements: Acknowledgements) -> Envelope:
    """TerminateSequence. Carries the acknowledgement of the paired sequence (ST-W02)."""
    machine = record.machine
    last = (machine.last_number or None) if machine.rm is RmVersion.RM11 else None
    body = TerminateSequence(machine.identifier or "", last)
    return _ending(record, RmMessage.TERMINATE_SEQUENCE, message_id, body, acknowledgements)


def _ending(
    record: RmsRecord, name: RmMessage, message_id: str, body: Body, acknowledgements: Acknowledgements
) -> Envelope:
    protocol = record.channel.policy.protocol
    return _envelope(
        protocol,
        ns.rm_action(protocol.rm, name),
        EndpointReference(record.channel.to),
        message_id,
        body,
        reply_to=record.channel.reply_to,
        acknowledgements=acknowledgements,
        mtom=record.channel.policy.mtom,
    )


def end_by_destination(
    record: RmdRecord,
    end: DestinationEnd,
    message_id: str,
    acknowledgement: SequenceAcknowledgement,
    reply_to: EndpointReference,
) -> Envelope:
    """CloseSequence or TerminateSequence of the destination, to AcksTo (RM11-CLS-03, RM11-TRM-02). Only the source
    knows LastMsgNumber.

    :param acknowledgement: the final one.
    """
    closes = end is DestinationEnd.CLOSE
    body = CloseSequence(record.identifier) if closes else TerminateSequence(record.identifier)
    name = RmMessage.CLOSE_SEQUENCE if closes else RmMessage.TERMINATE_SEQUENCE
    action = ns.rm_action(record.protocol.rm, name)
    acknowledgements = (acknowledgement,)
    return _envelope(
        record.protocol,
        action,
        record.acks_to,
        message_id,
        body,
        reply_to=reply_to,
        acknowledgements=acknowledgements,
    )


def make_connection(record: RmsRecord, message_id: str) -> Envelope:
    """MakeConnection by the address that comes back to this side's sequence (MC-01); in no sequence itself (MC-09)."""
    channel = record.channel
    body = MakeConnection(address=channel.reply_to.address)
    to = EndpointReference(channel.to)
    protocol, mtom = channel.policy.protocol, channel.policy.mtom
    return _envelope(protocol, ns.MAKE_CONNECTION_ACTION, to, message_id, body, mtom=mtom)


def acknowledgement_alone(
    protocol: Protocol,
    to: EndpointReference,
    message_id: str,
    acknowledgements: Acknowledgements,
    ack_requests: tuple[AckRequested, ...] = (),
) -> Envelope:
    """A stand-alone SequenceAcknowledgement (ACT-06)."""
    action = ns.rm_action(protocol.rm, RmMessage.SEQUENCE_ACKNOWLEDGEMENT)
    return _envelope(
        protocol, action, to, message_id, EMPTY, acknowledgements=acknowledgements, ack_requests=ack_requests
    )


def ack_requested_alone(record: RmsRecord, message_id: str, acknowledgements: Acknowledgements) -> Envelope:
    """A stand-alone AckRequested (ACT-07, FC-02). Carries the acknowledgement of the paired sequence."""
    protocol = record.channel.policy.protocol
    return _envelope(
        protocol,
        ns.rm_action(protocol.rm, RmMessage.ACK_REQUESTED),
        EndpointReference(record.channel.to),
        message_id,
        EMPTY,
        acknowledgements=acknowledgements,
        ack_requests=(AckRequested(record.machine.identifier or ""),),
        mtom=record.channel.policy.mtom,
    )


def answer(
    protocol: Protocol,
    name: RmMessage,
    body: Body,
    *,
    to: EndpointReference,
    message_id: str,
    relates_to: str | None,
    acknowledgements: Acknowledgements = (),
) -> Envelope:
    """The answer to a protocol message."""
    return _envelope(
        protocol,
        ns.rm_action(protocol.rm, name),
        to,
        message_id,
        body,
        relates_to=relates_to,
        acknowledgements=acknowledgements,
    )


def fault(
    protocol: Protocol,
    fault: Fault,
    *,
    to: EndpointReference = ANONYMOUS_ENDPOINT,
    message_id: str,
    relates_to: str | None,
    acknowledgements: Acknowledgements = (),
    ack_requests: tuple[AckRequested, ...] = (),
) -> Envelope:
    """A fault, with the final acknowledgement where one belongs to it."""
    return _envelope(
        protocol,
        fault_action(fault.code, protocol.soap, protocol.addressing, protocol.rm),
        to,
        message_id,
        fault,
        relates_to=relates_to,
        acknowledgements=acknowledgements,
        ack_requests=ack_requests,
    )
