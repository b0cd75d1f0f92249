"""Each minimal message of tests/data/messages is read correctly, value by value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    AckRequested,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    MakeConnection,
    Offer,
    SequenceAcknowledgement,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.wire import Envelope, Payload, decode

from .samples import CALLBACK, MC, OFFERED, REPLY, REQUEST, RM10, RM11, SEQUENCE, SERVICE, refusal
from .schemas import DATA, assert_valid

MESSAGES = sorted(path.stem for path in (DATA / "messages").glob("*.xml"))
NOT_UNDERSTOOD = ("rm11_CreateSequence_SSL", "rm11_CreateSequence_STR")

APP = Payload(b'<app:op xmlns:app="urn:app"/>', "{urn:app}op")
ANONYMOUS = {"to": ANONYMOUS_ENDPOINT, "message_id": REPLY}
ANSWER = {**ANONYMOUS, "relates_to": REQUEST}
CALLED_BACK = {**ANSWER, "to": CALLBACK}
ONE_WAY = {"to": SERVICE, "message_id": REQUEST}
ASKS = {**ONE_WAY, "reply_to": ANONYMOUS_ENDPOINT}
FINAL = {"acknowledgements": (SequenceAcknowledgement(SEQUENCE, ((1, 3),), final=True),)}


def acks(**values: object) -> dict[str, object]:
    return {**ANONYMOUS, "acknowledgements": (SequenceAcknowledgement(SEQUENCE, **values),)}  # type: ignore[arg-type]


#: After the version in its name: the last step of the action, or all of it, and what else the envelope has.
PREFETCHED: dict[str, tuple[str, dict[str, object]]] = {
    "rm10_AckRequested_standalone": ("AckRequested", {**ONE_WAY, "ack_requests": (AckRequested(SEQUENCE),)}),
    "rm10_CreateSequenceResponse_accept": (
        "CreateSequenceResponse",
        {
            **CALLED_BACK,
            "body": CreateSequenceResponse(identifier=SEQUENCE, expires=3600.0, accept_acks_to=SERVICE),
        },
    ),
    "rm10_CreateSequenceResponse_noOffer": (
        "CreateSequenceResponse",
        {**ANSWER, "body": CreateSequenceResponse(identifier=SEQUENCE)},
    ),
    "rm10_CreateSequence_full": (
        "CreateSequence",
        {
            **ONE_WAY,
            "reply_to": CALLBACK,
            "body": CreateSequence(acks_to=CALLBACK, expires=3600.0, offer=Offer(identifier=OFFERED, expires=3600.0)),
        },
    ),
    "rm10_CreateSequence_min": ("CreateSequence", {**ASKS, "body": CreateSequence(acks_to=ANONYMOUS_ENDPOINT)}),
    # RM10-SEQ-08: an application's message may be the last one, or an empty one with a number of its own.
    "rm10_LastMessage_on_app": ("urn:app:op", {**ASKS, "sequence": SequenceHeader(SEQUENCE, 3, True), "body": APP}),
    "rm10_LastMessage_standalone": ("LastMessage", {**ASKS, "sequence": SequenceHeader(SEQUENCE, 3, True)}),
    # RM-ACK-04: the range 0-0 is how 1.0 says that there is nothing yet.
    "rm10_SequenceAcknowledgement_empty_0_0": ("SequenceAcknowledgement", acks()),
    "rm10_SequenceAcknowledgement_nack": ("SequenceAcknowledgement", acks(nacks=(3,))),
    "rm10_SequenceAcknowledgement_netrm": (
        "SequenceAcknowledgement",
        acks(ranges=((1, 2),), buffer_remaining=8),  # FC-01
    ),
    "rm10_SequenceAcknowledgement_ranges": ("SequenceAcknowledgement", acks(ranges=((1, 2), (4, 6)))),
    "rm10_Sequence_AckRequested": (
        "urn:app:op",
        {**ASKS, "sequence": SequenceHeader(SEQUENCE, 2), "ack_requests": (AckRequested(SEQUENCE),), "body": APP},
    ),
    "rm10_Sequence_app": ("urn:app:op", {**ASKS, "sequence": SequenceHeader(SEQUENCE, 1), "body": APP}),
    "rm10_TerminateSequence": ("TerminateSequence", {**ONE_WAY, "body": TerminateSequence(SEQUENCE)}),
    "rm11_CloseSequence": ("CloseSequence", {**ASKS, "body": CloseSequence(SEQUENCE, 3)}),
    "rm11_CloseSequenceResponse": (
        "CloseSequenceResponse",
        {**ANSWER, **FINAL, "body": CloseSequenceResponse(SEQUENCE)},
    ),
    "rm11_CloseSequence_by_RMD": (
        "CloseSequence",
        {
            "to": CALLBACK,
            "message_id": REQUEST,
            "reply_to": SERVICE,
            "acknowledgements": (SequenceAcknowledgement(SEQUENCE, ((1, 2),), final=True),),
            "body": CloseSequence(SEQUENCE, 3),
        },
    ),
    "rm11_CloseSequence_empty": ("CloseSequence", {**ASKS, "body": CloseSequence(SEQUENCE)}),
    "rm11_CreateSequence_full": (
        "CreateSequence",
        {
            **ONE_WAY,
            "reply_to": CALLBACK,
            "body": CreateSequence(
                acks_to=CALLBACK,
                expires=3600.0,
                offer=Offer(identifier=OFFERED, endpoint=CALLBACK, expires=3600.0),
            ),
        },
    ),
    "rm11_SequenceAcknowledgement_final": ("SequenceAcknowledgement", {**ANONYMOUS, **FINAL}),
    "rm11_SequenceAcknowledgement_none": ("SequenceAcknowledgement", acks()),
    "rm11_TerminateSequence": ("TerminateSequence", {**ASKS, "body": TerminateSequence(SEQUENCE, 3)}),
    "rm11_TerminateSequenceResponse": (
        "TerminateSequenceResponse",
        {**ANSWER, **FINAL, "body": TerminateSequenceResponse(SEQUENCE)},
    ),
    "rm11_TerminateSequence_empty": ("TerminateSequence", {**ASKS, "body": TerminateSequence(SEQUENCE)}),
    "mc11_MakeConnection_address": (
        "MakeConnection",
        {
            **ONE_WAY,
            "rm": None,
            "body": MakeConnection(address=f"{MC}/anonymous?id=550e8400-e29b-41d4-a716-446655440000"),
        },
    ),
    "mc11_MakeConnection_identifier": ("MakeConnection", {**ONE_WAY, "body": MakeConnection(identifier=SEQUENCE)}),
    "mc11_reply_with_MessagePending": (
        "urn:app:opResponse",
        {
            **ANSWER,
            "to": replace(SERVICE, address=f"{MC}/anonymous?id=550e8400-e29b-41d4-a716-446655440000"),
            "sequence": SequenceHeader(OFFERED, 1),
            "message_pending": True,
            "body": Payload(b'<app:opResponse xmlns:app="urn:app"/>', "{urn:app}opResponse"),
        },
    ),
}
# These say the same in both generations.
for same in (
    "AckRequested_standalone",
    "CreateSequenceResponse_accept",
    "CreateSequenceResponse_noOffer",
    "CreateSequence_min",
    "SequenceAcknowledgement_nack",
    "SequenceAcknowledgement_netrm",
    "SequenceAcknowledgement_ranges",
    "Sequence_AckRequested",
    "Sequence_app",
):
    PREFETCHED[f"rm11_{same}"] = PREFETCHED[f"rm10_{same}"]

REASONS = {
    "CreateSequenceRefused": "Sequence creation refused.",
    "InvalidAcknowledgement": "Acknowledgement breaks the cumulative rule.",
    "LastMessageNumberExceeded": "Number is above the last message.",
    "MessageNumberRollover": "Largest message number exceeded.",
    "SequenceTerminated": "Sequence ended by an unrecoverable error.",
    "SequenceClosed": "Sequence is closed to new messages.",
    "UnknownSequence": "Identifier does not name a known sequence.",
    "WSRMRequired": "Reliable messaging is required here.",
    "MissingSelection": "No selection criteria given.",
    "UnsupportedSelection": "Selection extension not supported.",
}


def versions(stem: str) -> Protocol:
    """The minimal messages are in SOAP 1.1 and 2004/08 for 1.0, in SOAP 1.2 and 1.0 for 1.1, unless the name says."""
    rm = RmVersion.RM10 if stem.startswith("rm10") else RmVersion.RM11
    old = rm is RmVersion.RM10 and "fault" not in stem
    soap11 = stem.endswith("soap11") or old
    return Protocol(
        SoapVersion.SOAP11 if soap11 else SoapVersion.SOAP12,
        AddressingVersion.WSA200408 if old else AddressingVersion.WSA10,
        rm,
    )


def expected_fault(stem: str) -> Envelope:
    """The fault of FLT-01 to FLT-10 that the name says, with the detail that its versions can carry."""
    protocol = versions(stem)
    code = FaultCode(stem.split("_")[2])
    soap11 = protocol.soap is SoapVersion.SOAP11
    told = not (soap11 and protocol.rm is RmVersion.RM10)  # RM10-SCH-08: these minimal ones say nothing more
    fault = Fault(code=code, reason=REASONS[code.value])
    if code in (FaultCode.CREATE_SEQUENCE_REFUSED, FaultCode.WSRM_REQUIRED):
        fault = replace(fault, sender=soap11 or code is FaultCode.WSRM_REQUIRED)
    elif stem.startswith("mc11"):
        subject = "{urn:x}Filter" if code is FaultCode.UNSUPPORTED_SELECTION else None  # FLT-13
        fault = replace(fault, sender=False, subject=subject)
    elif told:
        fault = replace(fault, identifier=SEQUENCE)
        if code is FaultCode.INVALID_ACKNOWLEDGEMENT:
            fault = replace(fault, ranges=((1, 99),))
        if code is FaultCode.MESSAGE_NUMBER_ROLLOVER and protocol.rm is RmVersion.RM11:
            fault = replace(fault, max_message_number=MAX_MESSAGE_NUMBER)
    rm: RmVersion | None = protocol.rm
    action = f"{RM11}/fault"
    if stem.startswith("mc11"):
        rm, action = None, f"{MC}/fault"  # ACT-10
    elif rm is RmVersion.RM10:
        action = "http://www.w3.org/2005/08/addressing/soap/fault"  # ACT-09
    return Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=rm,
        action=action,
        body=fault,
        **ANSWER,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("stem", [stem for stem in MESSAGES if stem not in NOT_UNDERSTOOD])
def test_a_published_message_is_read_as_what_its_name_says(stem: str) -> None:
    data = (DATA / "messages" / f"{stem}.xml").read_bytes()
    if "fault" in stem:
        expected = expected_fault(stem)
    else:
        action, values = PREFETCHED[stem]
        protocol = versions(stem)
        base = MC if action == "MakeConnection" else (RM10 if protocol.rm is RmVersion.RM10 else RM11)
        expected = Envelope(
            **{  # type: ignore[arg-type]
                "soap": protocol.soap,
                "addressing": protocol.addressing,
                "rm": protocol.rm,
                "action": action if ":" in action else f"{base}/{action}",
                **values,
            }
        )
    assert decode(data, "") == expected


@pytest.mark.parametrize("stem", NOT_UNDERSTOOD)
def test_a_secure_sequence_is_refused_because_its_header_is_not_understood(stem: str) -> None:
    # RM11-CS-16, FLT-15
    error = refusal((DATA / "messages" / f"{stem}.xml").read_bytes())
    assert error.fault.code is FaultCode.MUST_UNDERSTAND
    assert error.fault.subject == f"{{{RM11}}}UsesSequence{stem[-3:]}"
    # A reply can be made all the same.
    assert (error.soap, error.addressing) == (SoapVersion.SOAP12, AddressingVersion.WSA10)
    assert error.message_id == REQUEST


def test_a_security_layer_can_say_that_it_understands_the_header() -> None:
    data = (DATA / "messages" / "rm11_CreateSequence_STR.xml").read_bytes()
    envelope = decode(data, "", understands={f"{{{RM11}}}UsesSequenceSTR"})
    assert envelope.body == CreateSequence(acks_to=ANONYMOUS_ENDPOINT)
    assert [header.partition(b" ")[0] for header in envelope.headers] == [b"<wsrm:UsesSequenceSTR"]


@pytest.mark.parametrize("stem", MESSAGES)
def test_the_published_messages_themselves_are_valid(stem: str) -> None:
    # The validator the other tests rely on accepts what it should accept.
    assert_valid((DATA / "messages" / f"{stem}.xml").read_bytes())
