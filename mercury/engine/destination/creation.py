"""CreateSequence and CreateSequenceResponse, received as destination and as source."""

from __future__ import annotations

import logging
from dataclasses import replace

from mercury.engine.addresses import server_of
from mercury.engine.batches import agree, taken_batches
from mercury.engine.channels import response_channel
from mercury.engine.destination.batch import Batch
from mercury.engine.destination.ends import _reply
from mercury.engine.destination.inbound_exchange import InboundExchange, Reply
from mercury.engine.destination.ownership import may_follow
from mercury.engine.destination.quota import make_room
from mercury.engine.emission import emit_source_created
from mercury.engine.exchange import Purpose
from mercury.engine.failover_uri import is_failover
from mercury.engine.source.peer_store import is_made_there
from mercury.statemachine import events
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import (
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    IncompleteSequenceBehavior,
    Offer,
)
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.storage.records import Channel, InvokerRecord, RmdRecord, RmsRecord
from mercury.wire.ns import RmMessage

log = logging.getLogger("mercury.engine.lifecycle")


# --- CreateSequence ------------------------------------------------------------------------------------------------


def create(batch: Batch, exchange: InboundExchange, body: CreateSequence) -> None:
    """CreateSequence: create a sequence, or repeat the answer to a repetition (RM-CS-13)."""
    message_id = exchange.envelope.message_id
    if message_id is None:  # RM-CS-02
        exchange.fault = Fault(
            code=FaultCode.ADDRESSING_HEADER_REQUIRED, reason="CreateSequence needs a MessageID.", subject="MessageID"
        )
        return
    if body.oneway:
        exchange.reply_to = body.acks_to
    reason = _refusal_reason(batch, exchange, body)
    if reason is not None:
        exchange.fault = _refused(reason)
        return
    record = batch.made.by(exchange.create_key)
    if record is not None:
        if not record.machine.tombstone:
            exchange.reply = _created_reply(batch, exchange, body, record)
        return
    full = make_room(batch, exchange.arrival.owner)
    if full is not None:
        exchange.fault = _refused(full, busy=True)
        return
    before = batch.rmds.get(body.follows or "")
    if before is not None and not may_follow(exchange.arrival, before):
        batch.warn(exchange, "Follows is ignored: it names a sequence of another peer", sequence=body.follows)
        body = replace(body, follows=None)
    record = _make(batch, exchange, body, message_id)
    _end_predecessor(batch, body.follows)
    exchange.reply = _created_reply(batch, exchange, body, record)


def _refusal_reason(batch: Batch, exchange: InboundExchange, body: CreateSequence) -> str | None:
    """The reason to refuse a CreateSequence, also a repeated one; ``None`` = it is valid."""
    addresses = batch.context.settings.addresses
    request = exchange.arrival.request
    if request is not None and not exchange.arrival.fetched:
        return "a reply is no place for CreateSequence"
    if body.oneway and exchange.arrival.service is not None:
        return "CreateSequenceOneway is taken only for responses"
    if body.oneway and not body.acks_to.addressable:
        return "its response goes to AcksTo, which is no address"
    if not exchange.protocol.legal:
        return f"this pair of versions is not spoken here: {exchange.protocol}"
    if body.acks_to.none:
        return "AcksTo must be an address where acknowledgements can go"  # RM-CS-05
    named = (
        ("AcksTo", body.acks_to),
        ("ReplyTo", exchange.reply_to),
        ("the offer's Endpoint", body.offer.endpoint if body.offer else None),
    )
    known = request.url if request is not None else None  # this side already posts to the URL that it was fetched from
    refusals = (
        addresses.refusal(what, endpoint, polls=exchange.polls)
        for what, endpoint in named
        if endpoint is None or endpoint.address != known
    )
    return next((refusal for refusal in refusals if refusal is not None), None)


def _refused(reason: str, *, busy: bool = False) -> Fault:
    return Fault(
        code=FaultCode.CREATE_SEQUENCE_REFUSED,
        reason=f"The sequence is not made: {reason}.",
        sender=not busy,
        busy=busy,
    )


def _make(batch: Batch, exchange: InboundExchange, body: CreateSequence, message_id: str) -> RmdRecord:
    context, now, service, verified = batch.context, batch.now, exchange.arrival.service, exchange.envelope.verified
    policy = context.application.policy(service)
    identifier = context.ids.new()
    is_mercury = body.mercury or body.mercury_behavior is not None or body.follows is not None
    expires = _shorter(body.expires, policy.max_expires)
    record = RmdRecord(
        machine=RMDSequence(
            identifier=identifier,
            rm=exchange.protocol.rm,
            last_heard=now,
            expires_at=None if expires is None else now + expires,
            in_order_only=policy.acknowledges_in_order(
                exchange.protocol.rm, source_knows=body.mercury_behavior is not None, expires=expires is not None
            ),
        ),
        protocol=exchange.protocol,
        acks_to=body.acks_to,
        created_at=now,
        service=service,
        create_message_id=message_id,
        to=_own_address(exchange),
        peer=exchange.arrival.peer,
        identity=exchange.arrival.identity,
        token=verified.bound_to if verified is not None else None,
        offered=body.offer.identifier if body.offer is not None else None,
        offered_to=exchange.arrival.request.url if exchange.arrival.request is not None else "",
        source_is_mercury=is_mercury,
        takes_batches=is_mercury and taken_batches(context.settings.limits, policy) is not None,
    )
    if body.offer is not None:
        record.response_channel = _accept(batch, exchange, body.offer, body, record)
    channels = (record.response_channel,) if record.response_channel else ()
    buffer = InvokerRecord(
        sequence=identifier,
        machine=_buffer_machine(batch, exchange, policy, record),
        service=service,
        owner=record.owner,
        follows=body.follows,
        response_channels=channels,
    )
    batch.add_rmd(record, buffer)
    return record


def _buffer_machine(
    batch: Batch, exchange: InboundExchange, policy: DestinationPolicy, record: RmdRecord
) -> InvokerBuffer:
    if batch.context.stage is None:
        return InvokerBuffer.for_policy(policy, exchange.protocol.rm, in_order_only=record.machine.in_order_only)
    # Everything leaves a stage at once. The buffer in the store has the choices of the policy.
    return InvokerBuffer(in_order=False, assurance=policy.assurance, behavior=IncompleteSequenceBehavior.NO_DISCARD)


def _accept(
    batch: Batch, exchange: InboundExchange, offer: Offer, body: CreateSequence, record: RmdRecord
) -> Channel | None:
    """The channel of the offered sequence for responses; ``None`` = refused, by an answer without Accept (RM-CS-07)."""
    # WS-RM 1.0 has no Offer/Endpoint: responses go to ReplyTo, which may differ from AcksTo (LIVE-09).
    endpoint = offer.endpoint or exchange.reply_to
    if endpoint.none or record.service is None or batch.context.stage is not None or _is_taken(batch, offer.identifier):
        return None
    channel = response_channel(record, endpoint)
    expires_at = None if offer.expires is None else batch.now + offer.expires
    behavior = body.mercury_behavior or offer.incomplete_behavior
    machine = RMSSequence.offered(record.protocol.rm, offer.identifier, expires_at, batch.now, behavior)
    offered = RmsRecord(
        id=batch.context.ids.new(),
        channel=channel,
        machine=machine,
        created_at=batch.now,
        create_message_id=batch.context.ids.new(),
        due=expires_at,
        owner=record.owner,
    )
    agree(offered, body.batch)
    batch.add_offered(offered, offer.identifier)
    return channel


def _created_reply(batch: Batch, exchange: InboundExchange, requested: CreateSequence, record: RmdRecord) -> Reply:
    policy = batch.context.application.policy(record.service)
    expires_at = record.machine.expires_at
    accepted = EndpointReference(record.to) if record.response_channel is not None else None
    body = CreateSequenceResponse(
        identifier=record.identifier,
        expires=None if expires_at is None else max(0.0, expires_at - batch.now),
        incomplete_behavior=policy.advertised_behavior,
        accept_acks_to=accepted,
        mercury_behavior=policy.behavior if requested.mercury_behavior is not None else None,
        batch=taken_batches(batch.context.settings.limits, policy) if record.takes_batches else None,
        store=batch.context.store_id if record.source_is_mercury else None,
        oneway=requested.oneway,
    )
    return _reply(exchange, RmMessage.CREATE_SEQUENCE_RESPONSE, body)


def _end_predecessor(batch: Batch, follows: str | None) -> None:
    """End the predecessor of a new sequence: its source sends no more messages of it."""
    before = batch.rmds.get(follows or "")
    if before is not None and not before.machine.tombstone:
        batch.raise_rmd(before, events.TerminateReceived(before.machine.last_number))


def _own_address(exchange: InboundExchange) -> str:
    to = exchange.envelope.to
    return to.address if to is not None and to.addressable else exchange.arrival.url


def _shorter(requested: float | None, most: float | None) -> float | None:
    times = [time for time in (requested, most) if time is not None]
    return min(times) if times else None


def _is_taken(batch: Batch, offered: str) -> bool:
    """Whether an offered identifier is that of another sequence, for responses or created by a client.

    What this side signs on a sequence of responses must not look like what it signs for another client's sequence.
    """
    if batch.rms_identifier_taken(offered):
        return True
    created = batch.created_with(offered)
    return created is not None and created.service is not None


# --- CreateSequenceResponse ----------------------------------------------------------------------------------------


def created(batch: Batch, exchange: InboundExchange, body: CreateSequenceResponse) -> None:
    """CreateSequenceResponse: the sequence is created; with Accept, the offered sequence too."""
    relates_to, request = exchange.envelope.relates_to, exchange.arrival.request
    record = batch.rms_by_create(exchange, relates_to)
    if record is None and relates_to is None and request is not None and request.purpose is Purpose.CREATE:
        record = batch.rms_by_id(request.record_id or "")
    if record is None or record.machine.identifier is not None:
        return
    if not record.machine.alive and record.machine.failure is not FailureReason.REPLACED:
        return
    if batch.rms_identifier_taken(body.identifier):
        # An identifier that is not unique must not block messages, neither those of this peer nor those of another.
        text = "CreateSequenceResponse has the identifier of another sequence: a new sequence is requested"
        log.warning(text, extra={"sequence": body.identifier, "endpoint": record.channel.endpoint})
        batch.raise_rms(record, events.IdentifierTaken())
        return
    if record.machine.failure is FailureReason.REPLACED:
        _end_orphan(batch, record, body.identifier)
        return
    if request is None and exchange.arrival.identity is not None and record.channel.identity is None:
        # Only the receiver of CreateSequence knows its MessageID: from now on this identity owns the sequence.
        batch.tx.rms.delete(record)
        record.channel = replace(record.channel, identity=exchange.arrival.identity)
        batch.tx.rms.insert(record)
    address = request.url if request is not None else record.channel.endpoint
    if not is_made_there(batch.tx, batch.context, record, body.store, address, batch.now):
        batch.change_rms(record)
        return
    expires_at = None if body.expires is None else batch.now + body.expires
    behavior = body.mercury_behavior or body.incomplete_behavior
    agree(record, body.batch)
    batch.raise_rms(
        record, events.Created(identifier=body.identifier, expires_at=expires_at, incomplete_behavior=behavior)
    )
    if body.accept_acks_to is not None and record.offered is not None:
        source_knows = body.mercury_behavior is not None
        _open_offered(batch, record, record.offered, body.accept_acks_to, source_knows=source_knows)
    emit_source_created(batch.tx, batch.context.observers, record, body.identifier, batch.now)


def _end_orphan(batch: Batch, record: RmsRecord, identifier: str) -> None:
    """RM-CS-13: end the sequence of a late response to a CreateSequence that was replaced, because it is not used."""
    record.machine = RMSSequence.orphan(record.machine.rm, identifier, batch.now)
    record.ended_at = None
    batch.change_rms(record)
    emit_source_created(batch.tx, batch.context.observers, record, identifier, batch.now)
    log.info("a sequence that was replaced is ended", extra={"sequence": identifier})


def _open_offered(
    batch: Batch, record: RmsRecord, identifier: str, acks_to: EndpointReference, *, source_knows: bool
) -> None:
    channel, policy = record.channel, batch.context.application.policy(None)
    if acks_to.address == channel.to:
        acks_to = replace(acks_to, via=channel.wsa_to and channel.endpoint)
    elif is_failover(channel.endpoint):  # the address of the member that answered: any of them takes it
        acks_to = EndpointReference(channel.to, via=channel.wsa_to and channel.endpoint)
    elif (acks_to.addressable or acks_to.polled) and acks_to.address != channel.endpoint:
        refused = batch.context.settings.addresses.refusal("Accept/AcksTo", acks_to)
        if refused is not None:
            log.warning("%s: acknowledgements go to the endpoint instead", refused)
            acks_to = EndpointReference(channel.to, via=channel.wsa_to and channel.endpoint)
    record.offer_accepted = True
    expires = channel.policy.expires
    responses = RmdRecord(
        machine=RMDSequence(
            identifier=identifier,
            rm=channel.policy.protocol.rm,
            last_heard=batch.now,
            expires_at=None if expires is None else batch.now + expires,
        ),
        protocol=channel.policy.protocol,
        acks_to=acks_to,
        created_at=batch.now,
        peer=server_of(channel.endpoint),
        identity=channel.identity,
        offered_to=channel.endpoint,
        takes_batches=taken_batches(batch.context.settings.limits, policy) is not None,
    )
    buffer = InvokerRecord(
        sequence=identifier,
        machine=InvokerBuffer.for_policy(policy, channel.policy.protocol.rm, source_knows=source_knows),
        owner=responses.owner,
        response_channels=(channel,),
    )
    batch.add_rmd(responses, buffer)
