"""Unusual messages that are accepted, and messages that are refused, with their faults."""

from __future__ import annotations

import pytest

from mercury.statemachine.faults import FaultCode, Subcode
from mercury.statemachine.messages import (
    ANONYMOUS_ENDPOINT,
    NONE,
    EndpointReference,
)
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wire import EMPTY, Limits, Payload, Undecodable, decode

from .samples import RM10, SOAP11, SOAP12, WSA10, WSA200408, refusal, soap

ACTION = "<wsa:Action>urn:a</wsa:Action>"
IDENTIFIER = "<wsrm:Identifier>urn:s</wsrm:Identifier>"


# The envelope.


@pytest.mark.parametrize(
    ("content_type", "soap_action"),
    [
        ("", None),
        ("text/xml", '"urn:a"'),
        ("text/xml", "urn:a"),
        ("text/xml", '""'),
        ("application/soap+xml", ""),
        ("TEXT/XML ; charset=UTF-8", None),
        ('application/soap+xml;charset="utf-8";action="urn:a"', None),
        ("application/soap+xml; action=urn:a; charset=utf-8; boundary=x", None),
        ('application/soap+xml; action="urn:\\a"', '"urn:a"'),
        ("application/xml; x", None),
    ],
)
def test_http_and_ws_addressing_agree_about_the_action(content_type: str, soap_action: str | None) -> None:
    # HTTP-01, WSA-09
    assert decode(soap("<wsa:Action>\n urn:a\t</wsa:Action>"), content_type, soap_action).action == "urn:a"


@pytest.mark.parametrize(
    ("content_type", "soap_action"),
    [
        ("text/xml", '"urn:other"'),
        ('application/soap+xml; charset=utf-8; action="urn:other"', None),
        ('application/soap+xml; action="urn:a"', '"urn:other"'),
    ],
)
def test_two_actions_are_one_too_many(content_type: str, soap_action: str | None) -> None:
    # WSA-09
    fault = refusal(soap(), content_type, soap_action).fault
    assert (fault.code, fault.subcode) == (FaultCode.INVALID_ADDRESSING_HEADER, Subcode.ACTION_MISMATCH)
    assert fault.subject == f"{{{WSA10}}}Action"


def test_a_reply_is_taken_whatever_http_says_its_action_is() -> None:
    # WSA-09: Metro posts a placeholder
    content_type = 'application/soap+xml; action="urn:placeholder"'
    reply = soap("<wsa:Action>urn:a</wsa:Action><wsa:RelatesTo>urn:request</wsa:RelatesTo>")
    assert decode(reply, content_type, '"urn:placeholder"', replies=True).action == "urn:a"
    with pytest.raises(Undecodable, match="action of HTTP"):
        decode(reply, content_type)
    with pytest.raises(Undecodable, match="action of HTTP"):
        decode(soap("<wsa:Action>urn:a</wsa:Action>"), content_type, replies=True)


@pytest.mark.parametrize("content_type", ["application/json", "text/html; charset=utf-8", "multipart/related"])
def test_a_media_type_that_is_not_soap_is_refused(content_type: str) -> None:
    assert "media type" in refusal(soap(), content_type).fault.reason


def test_plain_soap_takes_its_action_from_http() -> None:
    data = soap("", "<a/>")
    assert decode(data, "text/xml", '"urn:a"').action == "urn:a"
    plain = decode(data, 'application/soap+xml; action="urn:b"')
    assert (plain.action, plain.addressing, plain.rm) == ("urn:b", None, None)
    assert plain.body == Payload(b"<a/>", "a")
    assert decode(data, "").action == ""
    assert decode(b'<Envelope xmlns="%s"><Body/></Envelope>' % SOAP11.encode(), "").body == EMPTY


def test_another_soap_is_a_version_mismatch() -> None:
    assert refusal(soap(ns="http://www.w3.org/2002/06/soap-envelope")).fault.code is FaultCode.VERSION_MISMATCH
    assert refusal(b"<Envelope/>").fault.code is FaultCode.VERSION_MISMATCH
    assert refusal(b"<html/>").fault.code is FaultCode.SENDER


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<s:Header/>",
        "<s:Body/><s:Header/>",
        "<s:Header/><s:Header/><s:Body/>",
        "<s:Body/><s:Body/>",
        "<s:Body/><extra/>",
        "<s:Header/>text<s:Body/>",
        "<s:Body>text</s:Body>",
        "<s:Body><a/><b/></s:Body>",
    ],
)
def test_an_envelope_that_is_put_together_wrongly_is_refused(inside: str) -> None:
    fault = refusal(f'<s:Envelope xmlns:s="{SOAP12}">{inside}</s:Envelope>'.encode()).fault
    assert fault.code is FaultCode.SENDER


# mustUnderstand.


@pytest.mark.parametrize(
    ("ns", "attributes"),
    [
        (SOAP11, 's:mustUnderstand="1"'),
        (SOAP12, 's:mustUnderstand="true"'),
        (SOAP11, 's:mustUnderstand="1" s:actor="http://schemas.xmlsoap.org/soap/actor/next"'),
        (SOAP12, f's:mustUnderstand=" 1 " s:role=" {SOAP12}/role/next "'),
        (SOAP12, f's:mustUnderstand="1" s:role="{SOAP12}/role/ultimateReceiver"'),
        (SOAP12, 's:mustUnderstand="1" wsa:IsReferenceParameter="true"'),
    ],
)
def test_unknown_must_understand_header_is_refused_first(ns: str, attributes: str) -> None:
    # FLT-15: even though two Actions and a Sequence without a number would be faults, too.
    header = (
        f'<h:Pay xmlns:h="urn:h" {attributes}/>{ACTION}{ACTION}<wsrm:Sequence/><wsa:MessageID>urn:m</wsa:MessageID>'
    )
    error = refusal(soap(header, ns=ns))
    assert (error.fault.code, error.fault.subject) == (FaultCode.MUST_UNDERSTAND, "{urn:h}Pay")
    assert (error.addressing, error.rm, error.message_id) == (AddressingVersion.WSA10, RmVersion.RM11, "urn:m")
    assert decode(
        soap(header.replace(ACTION, "", 1), ns=ns).replace(b"<wsrm:Sequence/>", b""), "", understands={"{urn:h}Pay"}
    )


@pytest.mark.parametrize(
    ("ns", "attributes"),
    [
        (SOAP11, 's:mustUnderstand="0"'),
        (SOAP12, 's:mustUnderstand="false"'),
        (SOAP11, f'xmlns:o="{SOAP12}" o:mustUnderstand="1"'),
        (SOAP11, 's:mustUnderstand="1" s:actor="urn:somebody/else"'),
        (SOAP12, f's:mustUnderstand="1" s:role="{SOAP12}/role/none"'),
    ],
)
def test_optional_header_blocks_are_passed_to_the_application(ns: str, attributes: str) -> None:
    [header] = decode(soap(f'{ACTION}<h:Pay xmlns:h="urn:h" {attributes}/>', ns=ns), "").headers
    assert header.startswith(b"<h:Pay ")


def test_a_header_for_another_role_is_not_read() -> None:
    other = '<wsa:To s:role="urn:somebody/else">http://their.example/</wsa:To>'
    envelope = decode(soap(f"{ACTION}<wsa:To>http://our.example/</wsa:To>{other}"), "")
    assert envelope.to == EndpointReference("http://our.example/")
    assert len(envelope.headers) == 1


def test_an_echoed_parameter_is_never_taken_for_a_header_of_ours() -> None:
    # WSA-03: a block that comes back marked is one that a party put into an endpoint reference.
    echoed = f'<wsrm:AckRequested wsa:IsReferenceParameter="1">{IDENTIFIER}</wsrm:AckRequested>'
    envelope = decode(soap(ACTION + echoed), "")
    assert envelope.ack_requests == ()
    assert len(envelope.headers) == 1


# WS-Addressing.


@pytest.mark.parametrize("wsa", [WSA10, WSA200408])
@pytest.mark.parametrize("name", ["Action", "To", "MessageID", "ReplyTo", "FaultTo", "From"])
def test_a_second_header_of_ws_addressing_is_one_too_many(wsa: str, name: str) -> None:
    # WSA-05
    header = ACTION if name != "Action" else ""
    block = f"<wsa:{name}><wsa:Address>urn:x</wsa:Address></wsa:{name}>"
    fault = refusal(soap(header + block + block, wsa=wsa)).fault
    assert (fault.code, fault.subcode) == (FaultCode.INVALID_ADDRESSING_HEADER, Subcode.INVALID_CARDINALITY)
    assert fault.subject == f"{{{wsa}}}{name}"


@pytest.mark.parametrize("header", ["<wsa:To>urn:to</wsa:To>", "<wsa:Action> </wsa:Action>"])
def test_a_message_with_ws_addressing_needs_an_action(header: str) -> None:
    # WSA-01
    error = refusal(soap(f"<wsa:MessageID>urn:m</wsa:MessageID>{header}"))
    assert error.fault.code is FaultCode.ADDRESSING_HEADER_REQUIRED
    assert error.fault.subject == f"{{{WSA10}}}Action"
    assert error.message_id == "urn:m"


@pytest.mark.parametrize(
    ("inside", "subcode"),
    [
        ("", Subcode.MISSING_ADDRESS_IN_EPR),
        ("<wsa:ReferenceParameters/>", Subcode.MISSING_ADDRESS_IN_EPR),
        ("<wsa:Address/>", Subcode.INVALID_ADDRESS),
        ("<wsa:Address>urn:a</wsa:Address><wsa:Address>urn:b</wsa:Address>", Subcode.INVALID_EPR),
        (
            "<wsa:Address>urn:a</wsa:Address><wsa:ReferenceParameters><wsa:To>urn:c</wsa:To></wsa:ReferenceParameters>",
            Subcode.INVALID_EPR,
        ),
        (
            "<wsa:Address>urn:a</wsa:Address><wsa:ReferenceParameters><wsrm:Sequence/></wsa:ReferenceParameters>",
            Subcode.INVALID_EPR,
        ),
    ],
)
def test_an_endpoint_reference_that_is_none_is_refused(inside: str, subcode: Subcode) -> None:
    # WSA-06; a reference parameter comes back as a header block, so it must not look like one of ours.
    fault = refusal(soap(f"{ACTION}<wsa:ReplyTo>{inside}</wsa:ReplyTo>")).fault
    assert (fault.code, fault.subcode) == (FaultCode.INVALID_ADDRESSING_HEADER, subcode)
    assert fault.subject == f"{{{WSA10}}}ReplyTo"


def test_an_endpoint_reference_keeps_its_parameters_and_properties() -> None:
    # WSA-03; Metadata and whatever else is there are not needed for a reply (IOP-WLS-01).
    inside = (
        "<wsa:Metadata><x/></wsa:Metadata>"
        '<wsa:ReferenceParameters><c:P xmlns:c="urn:c">1</c:P></wsa:ReferenceParameters>'
        "<wsa:ReferenceProperties><c:Q/></wsa:ReferenceProperties><wsa:Address> urn:x </wsa:Address>"
    )
    header = f'{ACTION}<wsa:ReplyTo xmlns:c="urn:d">{inside}</wsa:ReplyTo>'
    expected = EndpointReference("urn:x", (b'<c:P xmlns:c="urn:c">1</c:P>', b'<c:Q xmlns:c="urn:d"/>'))
    for wsa in (WSA10, WSA200408):
        assert decode(soap(header, wsa=wsa), "").reply_to == expected


@pytest.mark.parametrize("wsa", [WSA10, WSA200408])
def test_every_form_of_anonymous_and_none_is_neutral(wsa: str) -> None:
    # NS-08 to NS-10: 2004/08 has no "none", CXF sends one all the same.
    header = (
        f"{ACTION}<wsa:To>{WSA10}/anonymous</wsa:To><wsa:From><wsa:Address>{WSA10}/none</wsa:Address></wsa:From>"
        f"<wsa:ReplyTo><wsa:Address>{WSA200408}/role/anonymous</wsa:Address></wsa:ReplyTo>"
        f"<wsa:FaultTo><wsa:Address>{WSA200408}/role/none</wsa:Address></wsa:FaultTo>"
    )
    envelope = decode(soap(header, wsa=wsa), "")
    assert envelope.to == envelope.reply_to == ANONYMOUS_ENDPOINT
    assert envelope.from_ == envelope.fault_to == EndpointReference(NONE)


@pytest.mark.parametrize(
    ("relationships", "relates_to"),
    [
        ((None,), "urn:0"),
        (("urn:other",), None),
        (("urn:other", None), "urn:1"),
        (("http://www.w3.org/2005/08/addressing/reply",), "urn:0"),
        (("wsa:Reply",), "urn:0"),
        ((f"{WSA10}/unspecified", "x:Reply"), "urn:1"),
    ],
)
def test_only_the_relationship_reply_counts(relationships: tuple[str | None, ...], relates_to: str | None) -> None:
    # WSA-02
    kinds = ["" if kind is None else f' RelationshipType="{kind}"' for kind in relationships]
    blocks = [f"<wsa:RelatesTo{kind}>urn:{index}</wsa:RelatesTo>" for index, kind in enumerate(kinds)]
    assert decode(soap(ACTION + "".join(blocks)), "").relates_to == relates_to


# Versions.


def test_two_versions_of_ws_addressing_are_refused() -> None:
    # NS-18
    old = f'<o:To xmlns:o="{WSA200408}">urn:x</o:To>'
    assert "WS-Addressing" in refusal(soap(ACTION + old)).fault.reason
    acks_to = f'<wsrm:AcksTo><o:Address xmlns:o="{WSA200408}">urn:x</o:Address></wsrm:AcksTo>'
    body = f"<wsrm:CreateSequence>{acks_to}</wsrm:CreateSequence>"
    assert "WS-Addressing" in refusal(soap(ACTION, body)).fault.reason  # IOP-SAND-04


def test_two_versions_of_ws_rm_are_refused() -> None:
    # NS-18
    old = f'<o:AckRequested xmlns:o="{RM10}"><o:Identifier>urn:s</o:Identifier></o:AckRequested>'
    new = f"<wsrm:AckRequested>{IDENTIFIER}</wsrm:AckRequested>"
    body = f"<wsrm:CloseSequence>{IDENTIFIER}</wsrm:CloseSequence>"
    for data in (soap(ACTION + old + new), soap(ACTION + old, body)):
        error = refusal(data)
        assert "WS-ReliableMessaging" in error.fault.reason
        assert error.fault.code is FaultCode.SENDER
    assert decode(soap(ACTION + old), "").rm is RmVersion.RM10


def test_the_namespace_decides_about_the_version_and_not_the_action() -> None:
    # NS-18
    header = f"<wsa:Action>{RM10}/TerminateSequence</wsa:Action>"
    assert (
        decode(soap(header, f"<wsrm:TerminateSequence>{IDENTIFIER}</wsrm:TerminateSequence>"), "").rm is RmVersion.RM11
    )
    assert decode(soap(header, "<a/>"), "").rm is None


# What a reply to a bad message needs.


@pytest.mark.parametrize("broken", ["<a>", "<a></b>", "<?pi?>", "<a/><b/>", "&lol;"])
def test_a_reply_can_be_related_to_a_message_that_broke_off_in_its_body(broken: str) -> None:
    header = f"{ACTION}<wsa:MessageID> urn:m </wsa:MessageID><wsrm:AckRequested>{IDENTIFIER}</wsrm:AckRequested>"
    error = refusal(soap(header, broken, ns=SOAP11), "application/soap+xml")
    assert (error.soap, error.addressing, error.rm, error.message_id) == (
        SoapVersion.SOAP11,
        AddressingVersion.WSA10,
        RmVersion.RM11,
        "urn:m",
    )


@pytest.mark.parametrize(
    ("content_type", "version"),
    [("text/xml", SoapVersion.SOAP11), ("application/soap+xml", SoapVersion.SOAP12), ("", SoapVersion.SOAP11)],
)
def test_where_nothing_can_be_read_the_media_type_says_which_soap_to_answer_in(
    content_type: str, version: SoapVersion
) -> None:
    error = refusal(b"no XML at all", content_type)
    assert (error.soap, error.addressing, error.rm, error.message_id) == (version, None, None, None)


def test_limits_can_be_set() -> None:
    data = soap()
    assert decode(data, "", limits=Limits(max_bytes=len(data))).action == "urn:a"
    assert str(len(data) - 1) in refusal(data, limits=Limits(max_bytes=len(data) - 1)).fault.reason
