"""Values that several test modules share: identifiers, short envelopes, and a message of each kind that is sent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    AckRequested,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    IncompleteSequenceBehavior,
    MakeConnection,
    Offer,
    SequenceAcknowledgement,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, Protocol, RmVersion
from mercury.wire import (
    EMPTY,
    MAKE_CONNECTION_ACTION,
    MC_ANONYMOUS,
    Envelope,
    Payload,
    RmMessage,
    Undecodable,
    decode,
    rm_action,
)

#: Identifiers of the minimal messages.
SEQUENCE = "urn:uuid:11111111-1111-4111-8111-111111111111"
OFFERED = "urn:uuid:22222222-2222-4222-8222-222222222222"
REQUEST = "urn:uuid:aaaaaaaa-0000-4000-8000-000000000001"
REPLY = "urn:uuid:aaaaaaaa-0000-4000-8000-000000000002"
SERVICE = EndpointReference("http://dest.example/svc")
CALLBACK = EndpointReference("http://src.example/cb")

SOAP11 = "http://schemas.xmlsoap.org/soap/envelope/"
SOAP12 = "http://www.w3.org/2003/05/soap-envelope"
WSA200408 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
WSA10 = "http://www.w3.org/2005/08/addressing"
RM10 = "http://schemas.xmlsoap.org/ws/2005/02/rm"
RM11 = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
MC = "http://docs.oasis-open.org/ws-rx/wsmc/200702"
NETRM = "http://schemas.microsoft.com/ws/2006/05/rm"


def soap(
    headers: str = "<wsa:Action>urn:a</wsa:Action>",
    body: str = "",
    *,
    ns: str = SOAP12,
    wsa: str = WSA10,
    rm: str = RM11,
    declare: str = "",
) -> bytes:
    """An envelope with the prefixes s, wsa, wsrm and wsmc declared."""
    return (
        f'<s:Envelope xmlns:s="{ns}" xmlns:wsa="{wsa}" xmlns:wsrm="{rm}" xmlns:wsmc="{MC}" {declare}>'
        f"<s:Header>{headers}</s:Header><s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


def refusal(data: bytes, content_type: str = "", soap_action: str | None = None, **options: object) -> Undecodable:
    """How ``data`` is refused; fails when it is not, or not at once."""
    started = time.thread_time()
    try:
        envelope = decode(data, content_type, soap_action, **options)  # type: ignore[arg-type]
    except Undecodable as error:
        assert time.thread_time() - started < 5
        return error
    raise AssertionError(f"was accepted: {envelope}")


def every_message(protocol: Protocol) -> Iterator[tuple[str, Envelope]]:
    """One of every kind of message in ``protocol``, each with what belongs to it; not the faults."""
    rm = protocol.rm
    new = rm is RmVersion.RM11
    base = Envelope(soap=protocol.soap, addressing=protocol.addressing, rm=rm, action="urn:app:op", to=SERVICE)
    asks = replace(base, message_id=REQUEST, reply_to=CALLBACK)
    answers = replace(base, message_id=REPLY, relates_to=REQUEST, to=CALLBACK)
    with_parameters = EndpointReference(
        "http://src.example/cb?a=1&b=2", (b'<c:Chan xmlns:c="urn:c">1</c:Chan>', b"<plain/>")
    )
    order = Payload(b'<o:Order xmlns:o="urn:o"><o:id>1</o:id></o:Order>', "{urn:o}Order")
    final = SequenceAcknowledgement(SEQUENCE, ((1, 3),), final=new)

    action = rm_action(rm, RmMessage.CREATE_SEQUENCE)
    yield "CreateSequence", replace(asks, action=action, body=CreateSequence(acks_to=CALLBACK))
    offer = Offer(
        identifier=OFFERED,
        endpoint=with_parameters if new else None,
        expires=90.5,
        incomplete_behavior=IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
        if new
        else IncompleteSequenceBehavior.NO_DISCARD,
    )
    full = CreateSequence(acks_to=with_parameters, expires=3600.0, offer=offer, follows="urn:before", mercury=True)
    yield "CreateSequence with everything", replace(asks, action=action, reply_to=with_parameters, body=full)

    action = rm_action(rm, RmMessage.CREATE_SEQUENCE_RESPONSE)
    yield "CreateSequenceResponse", replace(answers, action=action, body=CreateSequenceResponse(identifier=SEQUENCE))
    accepted = CreateSequenceResponse(
        identifier=SEQUENCE,
        expires=86400.0,
        incomplete_behavior=IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
        if new
        else IncompleteSequenceBehavior.NO_DISCARD,
        accept_acks_to=SERVICE,
    )
    yield "CreateSequenceResponse that accepts", replace(answers, action=action, body=accepted)

    yield "message", replace(asks, sequence=SequenceHeader(SEQUENCE, 1), body=order)
    yield (
        "message with everything",
        replace(
            asks,
            from_=SERVICE,
            fault_to=EndpointReference("http://src.example/faults"),
            sequence=SequenceHeader(SEQUENCE, MAX_MESSAGE_NUMBER, last=not new),
            ack_requests=(AckRequested(SEQUENCE), AckRequested(OFFERED)),
            acknowledgements=(
                SequenceAcknowledgement(OFFERED, ((1, 2), (4, 6)), buffer_remaining=8),
                SequenceAcknowledgement("urn:third", nacks=(3, 7)),
            ),
            headers=(b'<t:Trace xmlns:t="urn:t">42</t:Trace>',),
            body=order,
        ),
    )
    yield "reply with an empty Body", replace(answers, sequence=SequenceHeader(OFFERED, 2), body=EMPTY)
    yield (
        "reply on a back-channel",
        replace(answers, to=ANONYMOUS_ENDPOINT, acknowledgements=(final,), message_pending=True, body=order),
    )
    alone = rm_action(rm, RmMessage.SEQUENCE_ACKNOWLEDGEMENT)
    for name, acknowledgement in (
        ("final", final),
        ("none", SequenceAcknowledgement(SEQUENCE)),
        ("Nack", SequenceAcknowledgement(SEQUENCE, nacks=(3,))),
    ):
        yield (
            f"acknowledgement, {name}",
            replace(base, to=ANONYMOUS_ENDPOINT, action=alone, acknowledgements=(acknowledgement,)),
        )
    action = rm_action(rm, RmMessage.ACK_REQUESTED)
    yield "AckRequested", replace(base, action=action, ack_requests=(AckRequested(SEQUENCE),))
    action = rm_action(rm, RmMessage.TERMINATE_SEQUENCE)
    ending = TerminateSequence(SEQUENCE, 3 if new else None)
    yield "TerminateSequence", replace(asks, action=action, acknowledgements=(final,), body=ending)
    if not new:
        action = rm_action(rm, RmMessage.LAST_MESSAGE)
        yield "LastMessage", replace(asks, action=action, sequence=SequenceHeader(SEQUENCE, 3, last=True))
        return
    for message, body, envelope in (
        (RmMessage.CLOSE_SEQUENCE, CloseSequence(SEQUENCE, 3), asks),
        (RmMessage.CLOSE_SEQUENCE, CloseSequence(SEQUENCE), asks),
        (RmMessage.CLOSE_SEQUENCE_RESPONSE, CloseSequenceResponse(SEQUENCE), answers),
        (RmMessage.TERMINATE_SEQUENCE_RESPONSE, TerminateSequenceResponse(SEQUENCE), answers),
    ):
        yield (
            message.value,
            replace(envelope, action=rm_action(rm, message), acknowledgements=(final,), body=body),
        )
    polled = MakeConnection(address=MC_ANONYMOUS + "1", identifier=SEQUENCE)
    yield "MakeConnection", replace(base, action=MAKE_CONNECTION_ACTION, body=polled)
    polled = MakeConnection(address=MC_ANONYMOUS + "1")
    yield "MakeConnection by address", replace(base, rm=None, action=MAKE_CONNECTION_ACTION, body=polled)
