"""Messages from the test data of Apache CXF, Apache Sandesha2 and Eclipse Metro, with their errors."""

from __future__ import annotations

import pytest

from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.messages import (
    AckRequested,
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    MakeConnection,
    Offer,
    SequenceAcknowledgement,
    SequenceHeader,
    TerminateSequence,
)
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire import EMPTY, Envelope, Payload, canonical, decode

from .samples import RM10, refusal, soap
from .schemas import DATA

FABRIKAM = "http://fabrikam123.com/serviceB/123"
BUSINESS = "http://Business456.com/serviceA/789"
CXF_SEQUENCE = "http://Business456.com/RM/ABC"
AXIS = EndpointReference("http://localhost:8070/axis/services/TestService")
RM_SERVICE = EndpointReference("http://127.0.0.1:9070/axis/services/RMService")


def peer(name: str) -> bytes:
    return (DATA / "wire" / f"{name}.xml").read_bytes()


def test_every_message_of_a_peer_has_a_test_here() -> None:
    assert sorted(path.stem for path in (DATA / "wire").glob("*.xml")) == [
        "cxf_Acknowledgment",
        "cxf_Acknowledgment2",
        "cxf_Message1",
        "cxf_Retransmission",
        "metro_TerminateSequence_body_rm11",
        "sandesha2_AckRequested",
        "sandesha2_CreateSequence",
        "sandesha2_CreateSequenceResponse",
        "sandesha2_MakeConnection",
        "sandesha2_MessagePending",
        "sandesha2_Sequence",
        "sandesha2_SequenceAcknowledgement",
        "sandesha2_TerminateSequence",
    ]


@pytest.mark.parametrize(
    ("name", "ranges"), [("cxf_Acknowledgment", ((1, 1), (3, 3))), ("cxf_Acknowledgment2", ((1, 3),))]
)
def test_cxf_acknowledges_with_blanks_in_the_numbers(name: str, ranges: tuple[tuple[int, int], ...]) -> None:
    # IOP-CXF-01 (RM 1.0 over 2004/08), IOP-CXF-07
    assert decode(peer(name), "text/xml; charset=utf-8") == Envelope(
        soap=SoapVersion.SOAP11,
        addressing=AddressingVersion.WSA200408,
        rm=RmVersion.RM10,
        action=f"{RM10}/SequenceAcknowledgement",
        to=EndpointReference(BUSINESS),
        message_id="http://fabrikam123.com/guid/0baaf88d-483b-4ecf-a6d8-a7c2eb546810",
        from_=EndpointReference(FABRIKAM),
        acknowledgements=(SequenceAcknowledgement(CXF_SEQUENCE, ranges),),
    )


def test_cxf_sends_a_message_and_sends_it_again_with_a_request_for_an_acknowledgement() -> None:
    first, again = decode(peer("cxf_Message1"), ""), decode(peer("cxf_Retransmission"), "")
    # RM-SEQ-02: without mustUnderstand on Sequence it is read all the same.
    assert first.sequence == SequenceHeader(CXF_SEQUENCE, 1)
    assert first.ack_requests == ()
    assert again.sequence == SequenceHeader(CXF_SEQUENCE, 2)
    assert again.ack_requests == (AckRequested(CXF_SEQUENCE),)
    assert first.body == again.body == EMPTY  # there is only a comment in the Body
    assert first.action == again.action == f"{FABRIKAM}/request"


def test_metro_closes_with_the_default_namespace() -> None:
    # The file is the body alone, so it is refused; in an envelope it is read.
    body = peer("metro_TerminateSequence_body_rm11")
    assert refusal(body).fault.reason == "not a SOAP envelope"
    inside = body[body.rindex(b"-->") + 3 :].decode()
    assert decode(soap(body=inside), "").body == TerminateSequence("uuid:839aabc1-fcfd-4402-9f88-0462c01a01ed", 3)


def test_sandesha2_asks_for_a_sequence_and_offers_one() -> None:
    # IOP-SAND-01
    # NS-19: RM 1.0 over WS-Addressing 1.0
    envelope = decode(peer("sandesha2_CreateSequence"), "text/xml")
    assert (envelope.rm, envelope.addressing) == (RmVersion.RM10, AddressingVersion.WSA10)
    client = EndpointReference("http://127.0.0.1:9090/axis/services/RMService")
    offer = Offer(identifier="uuid:c3671020-15e0-11da-9b3b-f0439d4867bd")
    assert envelope.body == CreateSequence(acks_to=client, offer=offer)
    assert envelope.reply_to == client
    assert envelope.from_ == EndpointReference("http://192.168.1.4:9090/axis/services/RMService")


def test_sandesha2_answers_with_a_relationship_of_its_own() -> None:
    envelope = decode(peer("sandesha2_CreateSequenceResponse"), "")
    assert envelope.relates_to == "uuid:872e4c10-161a-11da-9ef7-bd9ad94438a3"
    identifier = "uuid:88754b00-161a-11da-b6d6-8198de3c47c5"
    assert envelope.body == CreateSequenceResponse(identifier=identifier, accept_acks_to=AXIS)


def test_sandesha2_sends_a_message_with_soap_encoding() -> None:
    envelope = decode(peer("sandesha2_Sequence"), "")
    assert envelope.sequence == SequenceHeader("uuid:879da420-1624-11da-bed9-84d13db13902", 1)
    assert envelope.relates_to == "uuid:87a0b160-1624-11da-bed9-84d13db13902"  # RelationshipType="wsa:Reply"
    assert isinstance(envelope.body, Payload)
    assert envelope.body.name == "{http://tempuri.org/}echoStringResponse"
    # The prefixes that the payload leans on came along: it can be read by itself.
    assert b'xsi:type="soapenc:string"' in canonical(envelope.body.xml)


def test_sandesha2_puts_the_identifier_of_an_acknowledgement_last_and_nacks_beside_ranges() -> None:
    # SCH-02 accepts the order, RM-ACK-03 does not accept the mixture; RM-ACK-09: the message is still good.
    envelope = decode(peer("sandesha2_SequenceAcknowledgement"), "")
    assert envelope.acknowledgements == ()
    [problem] = envelope.problems
    assert problem == Fault(
        code=FaultCode.INVALID_ACKNOWLEDGEMENT,
        reason=problem.reason,
        identifier="uuid:897ee740-1624-11da-a28e-b3b9c4e71445",
        ranges=((1, 2), (4, 6), (8, 10)),
    )


def test_sandesha2_asks_for_an_acknowledgement_with_must_understand() -> None:
    envelope = decode(peer("sandesha2_AckRequested"), "")
    assert envelope.ack_requests == (AckRequested("uuid:897ee740-1624-11da-a28e-b3b9c4e71445"),)
    assert envelope.to == RM_SERVICE


def test_sandesha2_terminates_with_the_action_of_the_other_generation() -> None:
    # NS-18: the namespace of the body decides, not the action.
    envelope = decode(peer("sandesha2_TerminateSequence"), "")
    assert envelope.rm is RmVersion.RM11
    assert envelope.action == f"{RM10}/TerminateSequence"
    assert envelope.body == TerminateSequence("uuid:59b0c910-1625-11da-bdfc-b09ed76a1f06", 1)


def test_sandesha2_polls_with_the_identifier_first_and_breaks_its_action_over_two_lines() -> None:
    # IOP-SAND-02, ACT-11
    envelope = decode(peer("sandesha2_MakeConnection"), "")
    assert envelope.body == MakeConnection(
        address="http://docs.oasis-open.org/wsrx/wsrm/200702/anonymous?id=550e8400-e29b-11d4-a716-446655440000",
        identifier="urn:uuid:6367739C8350488CD411576188379313",
    )
    assert envelope.action == "http://docs.oasis-open.org/wsrx/ wsrm/200608/MakeConnection"
    assert envelope.to == EndpointReference("http://example.org/subscriptionService")
    assert envelope.rm is RmVersion.RM11


def test_sandesha2_forgets_the_message_number() -> None:
    error = refusal(peer("sandesha2_MessagePending"))
    assert error.fault.code is FaultCode.SENDER
    assert "MessageNumber" in error.fault.reason
    assert (error.soap, error.addressing, error.rm) == (
        SoapVersion.SOAP11,
        AddressingVersion.WSA10,
        RmVersion.RM11,
    )
