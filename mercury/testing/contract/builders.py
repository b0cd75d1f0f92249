"""Records for the tests: small ones with defaults, and one of each kind in which no field has its default."""

from __future__ import annotations

from typing import Any

from mercury.statemachine.effects import Certainty
from mercury.statemachine.events import DestinationEnd, FailureReason
from mercury.statemachine.flow import Window
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, EndpointReference, IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance, SourcePolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.retransmission import Backoff, RetransmissionPolicy
from mercury.statemachine.rmd import RMDSequence
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.round_trip import RoundTrip
from mercury.statemachine.tables import InvokerState, RmdState, RmsState
from mercury.statemachine.trace import Trace
from mercury.storage.attachments import Attachments, StoredPart
from mercury.storage.letters import DeadLetter, Direction
from mercury.storage.records import (
    Channel,
    InboundKind,
    InboundMessage,
    InvokerRecord,
    OutboundKind,
    OutboundMessage,
    RmdRecord,
    RmsRecord,
    Role,
    SequenceKey,
)

NOW = 1_000_000.0

EVERYTHING = ((1, MAX_MESSAGE_NUMBER),)


def channel(name: str = "default", *, endpoint: str = "http://peer.example/orders", **more: Any) -> Channel:
    return Channel(key=SequenceKey(endpoint, name), **more)


CHANNEL = channel()
KEY = CHANNEL.key
#: Responses come to an address, so an acknowledged request is not sent again.
LISTENING = channel("listening", reply_to=EndpointReference("http://me.example/responses"))
#: Responses come on the connection of a request, so an acknowledged request is sent again to fetch its response.
FETCHING = channel("fetching", reply_to=ANONYMOUS_ENDPOINT)


def row(message_id: str, on: Channel = CHANNEL, **more: Any) -> OutboundMessage:
    more.setdefault("action", "urn:orders/Place")
    more.setdefault("payload", b"<order/>")
    return OutboundMessage(message_id=message_id, channel=on, **more)


def rms_record(record_id: str = "rms-1", on: Channel = CHANNEL, **more: Any) -> RmsRecord:
    identifier = more.pop("identifier", None)
    more.setdefault("create_message_id", f"create {record_id}")
    machine = RMSSequence.start(RmVersion.RM11, NOW)
    machine.identifier = identifier
    return RmsRecord(id=record_id, channel=on, machine=machine, created_at=NOW, **more)


def rmd_record(identifier: str = "urn:rmd:1", **more: Any) -> RmdRecord:
    more.setdefault("acks_to", EndpointReference("http://client.example/acks"))
    ended_at = more.pop("ended_at", None)
    machine = RMDSequence(identifier=identifier, rm=RmVersion.RM11, last_heard=NOW, ended_at=ended_at)
    return RmdRecord(machine=machine, protocol=Protocol(), created_at=NOW, **more)


def made_from(message_id: str, **more: Any) -> str:
    """The key of the CreateSequence that made the sequence of `rmd_record`."""
    return rmd_record(create_message_id=message_id, **more).create_key or ""


def buffer(
    sequence: str = "urn:rmd:1",
    *,
    in_order: bool = True,
    assurance: DeliveryAssurance = DeliveryAssurance.EXACTLY_ONCE,
    behavior: IncompleteSequenceBehavior = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP,
    **more: Any,
) -> InvokerRecord:
    machine = InvokerBuffer(in_order=in_order, assurance=assurance, behavior=behavior)
    return InvokerRecord(sequence=sequence, machine=machine, **more)


def inbound(number: int, sequence: str = "urn:rmd:1", **more: Any) -> InboundMessage:
    more.setdefault("message_id", f"{sequence}/{number}")
    more.setdefault("action", "urn:orders/Place")
    more.setdefault("payload", f"<order>{number}</order>".encode())
    return InboundMessage(sequence=sequence, number=number, **more)


def marker(kind: InboundKind, number: int = 0, sequence: str = "urn:rmd:1") -> InboundMessage:
    return InboundMessage(sequence=sequence, number=number, kind=kind)


def letter(identifier: str, dead_at: float = NOW, **more: Any) -> DeadLetter:
    more.setdefault("certainty", Certainty.NOT_DELIVERED)
    return DeadLetter(id=identifier, direction=Direction.OUTBOUND, reason="given up", dead_at=dead_at, **more)


# --- all fields set --------------------------------------------------------------------------------------------------

#: XML characters of one to four bytes, and characters that need quoting.
TEXT = "Zoë ☃ 𝄞 'quoted' \"twice\" \\ % ; -- <&>"
PROTOCOL = Protocol(SoapVersion.SOAP11, AddressingVersion.WSA200408, RmVersion.RM10)
ENDPOINT = EndpointReference(
    "http://peer.example/täg?a=1&b=2#c", (b"<p xmlns='urn:p'>\xc3\xab</p>", b"<q/>"), via="http://gate.example/é"
)

FULL_POLICY = SourcePolicy(
    protocol=PROTOCOL,
    retransmission=RetransmissionPolicy(base=0.25, factor=1.5, cap=7.0, jitter=0.0, max_attempts=9, max_age=3600.5),
    window=5,
    max_unanswered=5,
    expires=86400.25,
    inactivity_timeout=601.5,
    idle_timeout=None,
    offer=False,
    close=False,
    end_attempts=3,
    close_unacknowledged_after=33.0,
    tombstone=17.0,
    make_connection=True,
    polling=Backoff(base=0.75, factor=1.25, cap=9.0, jitter=0.1),
    mtom=True,
    batch=12,
    batch_bytes=4321,
    batch_wait=1.5,
)

FULL_CHANNEL = Channel(
    key=SequenceKey(ENDPOINT.address, TEXT),
    policy=FULL_POLICY,
    reply_to=ENDPOINT,
    role=Role.RESPONSE,
    pair="urn:uuid:pair",
    identity="CN=täg",
    wsa_to="urn:täg",
    priority=7,
)


#: A trace with a state.
FULL_TRACE = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=<a&b>")
FULL_ATTACHMENTS = Attachments("urn:uuid:attachments", (StoredPart("scän@example", 2**40), StoredPart(TEXT, 0)))


def full_row() -> OutboundMessage:
    """A row with all fields that `append` takes. The store sets the others."""
    return OutboundMessage(
        message_id="urn:uuid:full",
        channel=FULL_CHANNEL,
        kind=OutboundKind.ABANDON,
        action="urn:ä/Action",
        payload=f"<a>{TEXT.encode()!r}</a>".encode() + b"\x00\xff\r\n",
        is_fault=True,
        last=True,
        headers=(b"<h1/>", b"<h2>\xe2\x98\x83</h2>"),
        to_parameters=(b"<reference/>",),
        relates_to="urn:uuid:request",
        expects_response=True,
        callback=TEXT,
        request="9 urn:uuid:pair",
        correlation="order:17",
        created_at=NOW + 0.123456,
        expires_at=NOW + 60.5,
        not_before=NOW + 30.25,
        owner="CN=täg",
        attachments=FULL_ATTACHMENTS,
        trace=FULL_TRACE,
        in_doubt=True,
    )


def full_rms() -> RmsRecord:
    """A source sequence with all fields set."""
    return RmsRecord(
        id="rms-full",
        channel=FULL_CHANNEL,
        machine=RMSSequence(
            rm=RmVersion.RM10,
            state=RmsState.SENDING_LAST,
            last_heard=NOW + 1.5,
            closed=True,
            failure=FailureReason.GIVEN_UP,
            identifier="urn:uuid:rms",
            last_number=MAX_MESSAGE_NUMBER,
            highest_sent=2**40,
            acknowledged=RangeSet([(1, 5), (9, 9), (2**40, 2**41)]),
            moved=RangeSet([(6, 7)]),
            last_message=MAX_MESSAGE_NUMBER - 1,
            settled_at=NOW + 2.25,
            abandoned=True,
            flow=Window(4, 2, 17, 3, 128),
            round_trip=RoundTrip(0.25, 0.125, 17, 1_800_000_000.5, 2),
            unanswered=3,
            incomplete_behavior=IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE,
            expires_at=NOW + 3.125,
            control_attempts=4,
            control_due=NOW + 4.0625,
        ),
        created_at=NOW + 0.5,
        create_message_id="urn:uuid:create",
        offered="urn:uuid:offered",
        offer_accepted=True,
        follows="urn:uuid:before",
        due=NOW + 5.5,
        planned_at=NOW + 4.5,
        rows_wait_until=NOW + 90.0,
        store="5c0f2a9b71d4",
        window_full=True,
        holds_successor=True,
        ended_at=NOW + 6.5,
        last_error=TEXT,
        fetch_due=NOW + 7.5,
        owner="CN=täg",
        poll_due=NOW + 8.5,
        polls=4,
        batch_messages=128,
        batch_size=65536,
    )


def full_rmd() -> RmdRecord:
    """A destination sequence with all fields set."""
    return RmdRecord(
        machine=RMDSequence(
            identifier="urn:uuid:rmd",
            rm=RmVersion.RM10,
            last_heard=NOW + 1.5,
            state=RmdState.ENDED_INCOMPLETE,
            closed=True,
            used=True,
            received=RangeSet([(1, 3), (5, 2**50)]),
            consumed=RangeSet([(1, 2)]),
            in_order_only=True,
            last_number=2**51,
            ended_at=NOW + 2.5,
            expires_at=NOW + 3.5,
            ack_due=NOW + 4.5,
            unacknowledged=6,
            room=7,
            own_end=DestinationEnd.TERMINATE,
            end_attempts=8,
            end_due=NOW + 6.5,
        ),
        protocol=PROTOCOL,
        acks_to=ENDPOINT,
        created_at=NOW + 0.25,
        service=TEXT,
        create_message_id="urn:uuid:create-rmd",
        response_channel=FULL_CHANNEL,
        to="http://me.example/services/täg",
        peer="192.0.2.7",
        identity="CN=täg",
        token="x509:täg",
        offered="urn:uuid:offered",
        offered_to="http://server.example/täg",
        ack_failures=2,
        received_bytes=2**40 + 1,
        given_up=True,
        source_is_mercury=True,
        takes_batches=True,
        due=NOW + 5.25,
    )


def full_buffer() -> InvokerRecord:
    """An InvokerBuffer with all fields set."""
    return InvokerRecord(
        sequence="urn:uuid:rmd",
        machine=InvokerBuffer(
            in_order=True,
            assurance=DeliveryAssurance.AT_MOST_ONCE,
            behavior=IncompleteSequenceBehavior.NO_DISCARD,
            state=InvokerState.RELEASING_LAST,
            passed=RangeSet([(1, 4), (6, 2**45)]),
            in_progress=RangeSet([(3, 4), (8, 8)]),
            last=2**46,
            cut=True,
        ),
        service=TEXT,
        owner="CN=täg",
        version=7,
        attempts=3,
        retry_at=NOW + 1.25,
        last_error=TEXT,
        follows="urn:uuid:before",
        response_channels=(FULL_CHANNEL, CHANNEL),
        consumed_bytes=2**40,
        response_bytes=2**40 + 2,
        letter_bytes=2**40 + 3,
        parked=9,
    )


FULL_INBOUND = InboundMessage(
    sequence="urn:uuid:rmd",
    number=MAX_MESSAGE_NUMBER,
    last=True,
    message_id="urn:uuid:inbound",
    action="urn:ä/Action",
    payload=b"<a>\xc3\xab</a>\x00\xff\r\n",
    element="{urn:ä}ö",
    is_fault=True,
    headers=(b"<h1/>", b"<h2/>"),
    relates_to="urn:uuid:request",
    reply_to=ENDPOINT,
    fault_to=EndpointReference(ANONYMOUS_ENDPOINT.address, (b"<r/>",), via="http://gate.example/"),
    received_at=NOW + 0.75,
    expires_at=NOW + 61.125,
    correlation=TEXT,
    attachments=FULL_ATTACHMENTS,
    trace=FULL_TRACE,
    sent_at=NOW + 0.25,
)

FULL_LETTER = DeadLetter(
    id="urn:uuid:letter",
    direction=Direction.INBOUND,
    reason=TEXT,
    certainty=Certainty.UNKNOWN,
    dead_at=NOW + 0.875,
    message_id="urn:uuid:dead",
    endpoint=ENDPOINT.address,
    key=TEXT,
    sequence="urn:uuid:rms",
    number=MAX_MESSAGE_NUMBER,
    action="urn:ä/Action",
    payload=b"<a>\xc3\xab</a>\x00\xff\r\n",
    is_fault=True,
    correlation=TEXT,
    created_at=NOW + 0.0625,
    element="{urn:ä}ö",
    headers=(b"<h1/>", b"<h2>\xe2\x98\x83</h2>"),
    relates_to="urn:uuid:request",
    channel=FULL_CHANNEL,
    request="9 urn:uuid:pair",
    to_parameters=(b"<reference/>",),
    expects_response=True,
    callback=TEXT,
    disowned=True,
    damaged=True,
    owner="CN=täg",
    attachments=FULL_ATTACHMENTS,
    trace=FULL_TRACE,
)
