"""The payloads that an application may send, and the faults that it raises on purpose."""

from __future__ import annotations

import codecs

import pytest

from mercury.errors import ApplicationFault, PayloadError
from mercury.statemachine.messages import SequenceHeader
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, SoapVersion
from mercury.wire import (
    Envelope,
    Limits,
    Payload,
    canonical,
    check_payload,
    decode,
    encode,
    read_application_fault,
    write_application_fault,
)

from .samples import SOAP11, SOAP12
from .schemas import assert_valid


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("<a/>", Payload(b"<a/>", "a")),
        (b"<a/>", Payload(b"<a/>", "a")),
        ('<p:a xmlns:p="urn:p"/>', Payload(b'<p:a xmlns:p="urn:p"/>', "{urn:p}a")),
        ("<?xml version='1.0' encoding='iso-8859-1'?>\n<ä/>\n", Payload("<ä/>".encode(), "ä")),
        ("<?xml version='1.0' encoding='iso-8859-1'?><ä/>".encode("latin-1"), Payload("<ä/>".encode(), "ä")),
        ("\N{ZERO WIDTH NO-BREAK SPACE}<a/>", Payload(b"<a/>", "a")),
        (codecs.BOM_UTF8 + b"<a/>", Payload(b"<a/>", "a")),
        ("<a>\N{SNOWMAN}</a>".encode("utf-16"), Payload("<a>\N{SNOWMAN}</a>".encode(), "a")),
        ("<!-- before --><a><!-- inside --></a><!-- after -->", Payload(b"<a><!-- inside --></a>", "a")),
        (f'<Fault xmlns="{SOAP11}"/>', Payload(f'<Fault xmlns="{SOAP11}"/>'.encode(), f"{{{SOAP11}}}Fault", True)),
    ],
)
def test_an_element_is_taken_as_it_is_but_in_utf_8(xml: bytes | str, expected: Payload) -> None:
    assert check_payload(xml) == expected


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        ("", "no element found"),
        (b"", "no element found"),
        ("text", "not well-formed"),
        ("<a/><b/>", "not well-formed"),
        ("<a>", "not well-formed"),
        ("<p:a/>", "unbound prefix"),
        ("<!DOCTYPE a><a/>", "DOCTYPE"),
        ("<a><?pi?></a>", "processing instruction"),
        ("<a>\ud800</a>", "characters"),
        (b"<a>\xff</a>", "not well-formed"),
        (b"<?xml version='1.0' encoding='ebcdic'?><a/>", "encoding"),
        ("<a>" * 100, "nested deeper"),
        ('<a xmlns="no uri"/>', "not a valid URI"),  # expat does not mind, libxml2 does
        ('<a><b xml:id="x"/><b xml:id="x"/></a>', "already defined"),
    ],
)
def test_illegal_protocol_is_refused_with_the_reason(xml: bytes | str, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        check_payload(xml)


def test_sender_with_larger_limits_may_send_more() -> None:
    xml = "<a>" * 100 + "</a>" * 100
    assert check_payload(xml, limits=Limits(max_depth=100)).xml == xml.encode()


def test_canonical_xml_is_the_same_for_what_is_the_same() -> None:
    one = canonical("<a xmlns:p='urn:p' c='2' b=\"1\"><b/><!--x--><![CDATA[<]]></a>")
    assert one == canonical(b'<a b="1"  c="2" xmlns:p="urn:p"><b></b><!--x-->&lt;</a>')
    assert one == b'<a xmlns:p="urn:p" b="1" c="2"><b></b><!--x-->&lt;</a>'
    assert canonical(b"<a/>") != canonical(b"<a> </a>")
    large = b"<a>" + b"x" * 11_000_000 + b"</a>"  # more than libxml2 takes by default
    assert canonical(large, limits=Limits(max_bytes=12_000_000)) == large


@pytest.mark.parametrize("xml", [b"", b"<a>", b"<!DOCTYPE a><a/>", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "\0"])
def test_malformed_xml_cannot_be_compared(xml: bytes | str) -> None:
    with pytest.raises(PayloadError, match="cannot be sent"):
        canonical(xml)


def test_a_relative_namespace_has_no_canonical_form() -> None:
    xml = '<a xmlns="orders"/>'
    assert check_payload(xml).name == "{orders}a"
    with pytest.raises(PayloadError, match="no canonical form"):
        canonical(xml)


# Application faults.

FAULTS = [
    ApplicationFault("sold out"),
    ApplicationFault("sold out", code="SoldOut"),
    ApplicationFault(" <sold> & out\n", code="<&>", detail=b'<o:Left xmlns:o="urn:o">s:3</o:Left>'),
    ApplicationFault("", detail=b"<left><![CDATA[s]]>:1 s1:2</left>"),
    ApplicationFault("größer", detail='<s:größer xmlns:s="urn:s"/>'.encode()),
]


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_an_application_fault_travels_as_a_message(fault: ApplicationFault, protocol: Protocol) -> None:
    payload = check_payload(write_application_fault(protocol.soap, fault))
    assert payload.is_fault
    envelope = Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action="urn:a",
        sequence=SequenceHeader("urn:s", 1),
        body=payload,
    )
    written = encode(envelope).body
    assert_valid(written)
    body = decode(written, "").body
    assert body == payload
    again = read_application_fault(payload.xml)
    assert (again.reason, again.code, again.detail) == (fault.reason, fault.code, fault.detail)


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (
            f'<e:Fault xmlns:e="{SOAP11}"><faultcode> e:Server.Busy </faultcode>'
            "<faultstring>busy</faultstring></e:Fault>",
            ("busy", "Server.Busy", b""),
        ),
        (
            f'<Fault xmlns="{SOAP11}"><faultcode xmlns="">Client</faultcode><detail xmlns=""><a/><b/></detail></Fault>',
            ("", "Client", b'<a xmlns=""/>'),
        ),
        (
            f'<s:Fault xmlns:s="{SOAP12}"><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>x:SoldOut</s:Value>'
            "</s:Subcode></s:Code><s:Reason><s:Text>out</s:Text></s:Reason><s:Detail/></s:Fault>",
            ("out", "SoldOut", b""),
        ),
        (
            f'<s:Fault xmlns:s="{SOAP12}"><s:Code><s:Value>s:Receiver</s:Value></s:Code></s:Fault>',
            ("", "Receiver", b""),
        ),
        (f'<s:Fault xmlns:s="{SOAP12}"/>', ("", "", b"")),
    ],
)
def test_faults_of_others_are_understood(xml: str, expected: tuple[str, str, bytes]) -> None:
    fault = read_application_fault(xml.encode())
    # An empty default namespace around an element without one says nothing.
    assert (fault.reason, fault.code, fault.detail.replace(b' xmlns=""', b"")) == (
        *expected[:2],
        expected[2].replace(b' xmlns=""', b""),
    )


def test_fault_that_grew_when_it_was_cut_out_of_its_message_can_be_read() -> None:
    declared = "".join(f' xmlns:p{number}="urn:p{number}"' for number in range(10))
    used = "".join(f"<p{number}:x/>" for number in range(10))
    attributes = "".join(f' a{number}="1"' for number in range(60))
    xml = (
        f'<e:Envelope xmlns:e="{SOAP11}"{declared}><e:Body><e:Fault{attributes}><faultcode>e:Server</faultcode>'
        f"<faultstring>busy</faultstring><detail><d>{used}</d></detail></e:Fault></e:Body></e:Envelope>"
    )
    raw = decode(xml.encode(), "text/xml").fault
    assert raw is not None
    fault = read_application_fault(raw.xml)
    assert (fault.reason, fault.detail.count(b"urn:p")) == ("busy", 10)
    with pytest.raises(PayloadError, match="more than 64 attributes"):
        read_application_fault(raw.xml, limits=Limits())


@pytest.mark.parametrize("xml", [b"", b"<Fault/>", b"<!DOCTYPE a><a/>", f'<a xmlns="{SOAP11}"/>'.encode()])
def test_body_that_is_no_fault_is_not_read_as_one(xml: bytes) -> None:
    with pytest.raises(PayloadError, match="not a SOAP fault"):
        read_application_fault(xml)


@pytest.mark.parametrize("version", SoapVersion)
def test_a_detail_that_is_not_one_element_is_refused(version: SoapVersion) -> None:
    with pytest.raises(PayloadError, match="not well-formed"):
        write_application_fault(version, ApplicationFault("x", detail=b"<a/><b/>"))
