"""All messages that Mercury sends are valid by the published schemas, in each protocol, and are decoded unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lxml import etree

from mercury.statemachine.messages import (
    ANONYMOUS,
    ANONYMOUS_ENDPOINT,
    NONE,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    EndpointReference,
    MakeConnection,
    Offer,
    SequenceAcknowledgement,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import ALL_PROTOCOLS, AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.wire import Envelope, Payload, RmMessage, decode, encode, rm_action

from .samples import (
    CALLBACK,
    MC,
    NETRM,
    OFFERED,
    RM10,
    RM11,
    SEQUENCE,
    SERVICE,
    SOAP11,
    SOAP12,
    WSA10,
    WSA200408,
    every_message,
)
from .schemas import assert_valid

EVERY_MESSAGE = [
    pytest.param(protocol, name, envelope, id=f"{protocol}: {name}")
    for protocol in ALL_PROTOCOLS
    for name, envelope in every_message(protocol)
]
protocols = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)


def message(protocol: Protocol, **values: object) -> Envelope:
    versions = {"soap": protocol.soap, "addressing": protocol.addressing, "rm": protocol.rm, "action": "urn:a"}
    return Envelope(**{**versions, **values})  # type: ignore[arg-type]


def tree(envelope: Envelope) -> etree._Element:
    return etree.fromstring(encode(envelope).body)


def names(element: etree._Element) -> list[str]:
    return [etree.QName(child).localname for child in element]


@pytest.mark.parametrize(("protocol", "name", "envelope"), EVERY_MESSAGE)
def test_every_kind_of_message_is_valid_and_comes_back_equal(protocol: Protocol, name: str, envelope: Envelope) -> None:
    # RM10-SCH-01 to -07, RM11-SCH-01 to -06, RM11-SCH-08
    written = encode(envelope)
    assert_valid(written.body)
    assert decode(written.body, written.content_type, written.soap_action) == envelope


@protocols
def test_the_namespaces_are_those_of_the_protocol(protocol: Protocol) -> None:
    # NS-01, NS-02, NS-06, NS-07, NS-12
    root = tree(message(protocol, to=SERVICE, sequence=SequenceHeader(SEQUENCE, 1)))
    header = root[0]
    assert etree.QName(root).namespace == (SOAP11 if protocol.soap is SoapVersion.SOAP11 else SOAP12)
    old = protocol.addressing is AddressingVersion.WSA200408
    assert etree.QName(header[0]).namespace == (WSA200408 if old else WSA10)
    assert etree.QName(header[-1]).namespace == (RM10 if protocol.rm is RmVersion.RM10 else RM11)


@protocols
def test_http_carries_the_action_as_the_version_of_soap_requires(protocol: Protocol) -> None:
    # HTTP-01
    written = encode(message(protocol, action="urn:app:op"))
    assert written.status == 200
    if protocol.soap is SoapVersion.SOAP11:
        assert (written.content_type, written.soap_action) == ("text/xml; charset=utf-8", '"urn:app:op"')
    else:
        assert written.content_type == 'application/soap+xml; charset=utf-8; action="urn:app:op"'
        assert written.soap_action is None


@protocols
@pytest.mark.parametrize("action", ['urn:"quoted"', "urn:a\r\nX-Injected: 1", "urn:größe", "urn:back\\slash", ""])
def test_an_action_that_http_cannot_carry_is_left_to_ws_addressing(protocol: Protocol, action: str) -> None:
    written = encode(message(protocol, action=action))
    assert written.soap_action in (None, '""')
    assert "action" not in written.content_type


@protocols
def test_only_what_must_be_understood_says_so(protocol: Protocol) -> None:
    # RM-SEQ-02: Sequence must, SequenceAcknowledgement and AckRequested should not.
    [envelope] = [envelope for name, envelope in every_message(protocol) if name == "message with everything"]
    header = tree(envelope)[0]
    marked = {
        etree.QName(block).localname
        for block in header
        if any(str(key).endswith("}mustUnderstand") and value == "1" for key, value in block.attrib.items())
    }
    assert marked == {"To", "Action", "Sequence"}


@protocols
def test_a_reply_without_an_address_is_written_to_the_anonymous_one(protocol: Protocol) -> None:
    # RM-CS-03, NS-08, NS-09
    written = encode(message(protocol)).body
    old = protocol.addressing is AddressingVersion.WSA200408
    address = f"{WSA200408}/role/anonymous" if old else f"{WSA10}/anonymous"
    assert f">{address}</wsa:To>".encode() in written
    assert decode(written, "").to == ANONYMOUS_ENDPOINT


@protocols
def test_neutral_addresses_become_those_of_the_version_everywhere(protocol: Protocol) -> None:
    # NS-08 to NS-10
    body = CreateSequence(acks_to=ANONYMOUS_ENDPOINT)
    envelope = message(protocol, to=SERVICE, reply_to=EndpointReference(NONE), body=body)
    written = encode(envelope).body
    assert ANONYMOUS.encode() not in written
    assert NONE.encode() not in written
    assert decode(written, "") == envelope


@protocols
def test_reference_parameters_go_back_as_header_blocks(protocol: Protocol) -> None:
    # WSA-03
    parameters = (b'<c:Chan xmlns:c="urn:c"><c:id>1</c:id></c:Chan>', b'<wsa xmlns="urn:wsa" x="1"/>')
    envelope = message(protocol, to=EndpointReference(SERVICE.address, parameters))
    written = encode(envelope).body
    assert_valid(written)
    blocks = [block for block in etree.fromstring(written)[0] if "urn:" in block.tag]
    assert [block.tag for block in blocks] == ["{urn:c}Chan", "{urn:wsa}wsa"]
    marks = [block.get(f"{{{WSA10}}}IsReferenceParameter") for block in blocks]
    assert marks == ([None, None] if protocol.addressing is AddressingVersion.WSA200408 else ["true", "true"])
    # On the way back they are header blocks: only who made them can tell what they mean.
    again = decode(written, "")
    assert again.to == SERVICE
    assert len(again.headers) == 2


def test_a_parameter_that_carries_the_mark_already_gets_no_second_one() -> None:
    marked = f'<c:Chan xmlns:c="urn:c" xmlns:a="{WSA10}" a:IsReferenceParameter="true"/>'.encode()
    envelope = message(Protocol(), to=EndpointReference(SERVICE.address, (marked,)))
    assert decode(encode(envelope).body, "").headers == (marked,)


@pytest.mark.parametrize("soap", SoapVersion)
def test_a_message_without_ws_addressing_is_plain_soap(soap: SoapVersion) -> None:
    plain = Envelope(soap=soap, addressing=None, rm=None, action="urn:a", body=Payload(b"<a/>", "a"))
    written = encode(plain)
    assert b"Header" not in written.body
    assert decode(written.body, written.content_type, written.soap_action) == plain


@pytest.mark.parametrize("addressing", AddressingVersion)
def test_ws_rm_10_says_nothing_yet_as_the_range_0_0(addressing: AddressingVersion) -> None:
    # RM-ACK-04, RM10-SCH-02
    protocol = Protocol(SoapVersion.SOAP11, addressing, RmVersion.RM10)
    nothing = message(protocol, acknowledgements=(SequenceAcknowledgement(SEQUENCE, final=True),))
    [block] = [block for block in tree(nothing)[0] if block.tag == f"{{{RM10}}}SequenceAcknowledgement"]
    assert names(block) == ["Identifier", "AcknowledgementRange"]
    assert (block[1].get("Lower"), block[1].get("Upper")) == ("0", "0")


def test_ws_rm_10_leaves_out_what_it_does_not_have() -> None:
    # RM10-SCH-05 to -07
    protocol = Protocol(SoapVersion.SOAP12, AddressingVersion.WSA10, RmVersion.RM10)
    create = CreateSequence(acks_to=CALLBACK, offer=Offer(identifier=OFFERED, endpoint=CALLBACK))
    offer = tree(message(protocol, body=create))[1][0][1]
    assert names(offer) == ["Identifier"]
    terminate = tree(message(protocol, body=TerminateSequence(SEQUENCE, 3)))[1][0]
    assert names(terminate) == ["Identifier"]
    sequence = message(Protocol(), sequence=SequenceHeader(SEQUENCE, 3, last=True))
    assert b"LastMessage" not in encode(sequence).body  # nor has 1.1 a LastMessage


def test_an_offer_without_an_endpoint_uses_acks_to_in_ws_rm_11() -> None:
    # RM11-SCH-05, RM-CS-09, IOP-WCF-02
    create = CreateSequence(acks_to=CALLBACK, offer=Offer(identifier=OFFERED))
    written = encode(message(Protocol(), body=create)).body
    assert_valid(written)
    body = decode(written, "").body
    assert isinstance(body, CreateSequence)
    assert body.offer is not None
    assert body.offer.endpoint == CALLBACK


@pytest.mark.parametrize(
    "body", [CloseSequence(SEQUENCE), CloseSequenceResponse(SEQUENCE), TerminateSequenceResponse("x")]
)
def test_ws_rm_10_has_no_close_and_no_responses_to_the_end(body: CloseSequence) -> None:
    # ACT-04, ACT-05
    protocol = Protocol(SoapVersion.SOAP11, AddressingVersion.WSA200408, RmVersion.RM10)
    with pytest.raises(ValueError, match=r"WS-RM 1\.0 has no"):
        encode(message(protocol, body=body))
    with pytest.raises(ValueError, match=r"WS-RM 1\.1 has no LastMessage"):
        rm_action(RmVersion.RM11, RmMessage.LAST_MESSAGE)


@pytest.mark.parametrize(
    "values", [{"sequence": SequenceHeader(SEQUENCE, 1)}, {"body": CreateSequenceResponse(identifier=SEQUENCE)}]
)
def test_reliable_messages_need_a_version(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="without"):
        encode(replace(message(Protocol()), rm=None, **values))  # type: ignore[arg-type]


def test_endpoint_references_need_a_version() -> None:
    with pytest.raises(ValueError, match="without a version of WS-Addressing"):
        encode(replace(message(Protocol()), addressing=None, body=CreateSequence(acks_to=CALLBACK)))


def test_an_acknowledgement_says_what_was_accepted_rather_than_what_is_missing() -> None:
    # RM11-SCH-02: Nack cannot stand beside ranges or Final.
    both = SequenceAcknowledgement(SEQUENCE, ((1, 2), (4, 4)), nacks=(3,))
    written = encode(message(Protocol(), acknowledgements=(both,))).body
    assert_valid(written)
    assert decode(written, "").acknowledgements == (replace(both, nacks=()),)
    final = SequenceAcknowledgement(SEQUENCE, nacks=(3,), final=True)
    written = encode(message(Protocol(), acknowledgements=(final,))).body
    assert_valid(written)
    assert decode(written, "").acknowledgements == (replace(final, nacks=()),)


def test_buffer_remaining_stays_within_what_may_be_sent() -> None:
    # FC-01, NS-13, IOP-WCF-07
    full = SequenceAcknowledgement(SEQUENCE, ((1, 1),), buffer_remaining=1_000_000)
    written = encode(message(Protocol(), acknowledgements=(full,))).body
    assert f'xmlns:netrm="{NETRM}">4096</netrm:BufferRemaining>'.encode() in written


def test_values_from_the_tables_are_escaped() -> None:
    evil = 'urn:<x>&"]]>\r\x00'
    envelope = message(Protocol(), to=EndpointReference(evil), message_id=evil, sequence=SequenceHeader(evil, 1))
    again = decode(encode(envelope).body, "")
    assert again.message_id == 'urn:<x>&"]]> \N{REPLACEMENT CHARACTER}'  # the line break collapses, as in any URI
    assert again.sequence is not None
    assert again.sequence.identifier == again.message_id


@pytest.mark.parametrize(("rm", "uri"), [(None, RM11), (RmVersion.RM11, RM11), (RmVersion.RM10, RM10)])
def test_make_connection_selects_a_sequence_of_the_version_in_use(rm: RmVersion | None, uri: str) -> None:
    polled = replace(message(Protocol()), rm=rm, body=MakeConnection(identifier=SEQUENCE))
    assert tree(polled)[1][0][0].tag == f"{{{uri}}}Identifier"


def test_only_what_is_known_of_make_connection_is_declared() -> None:
    [polled] = [envelope for name, envelope in every_message(Protocol()) if name == "MakeConnection"]
    assert names(tree(polled)[1][0]) == ["Address", "Identifier"]  # MC-SCH-01: in this order
    assert tree(polled)[1][0].tag == f"{{{MC}}}MakeConnection"
