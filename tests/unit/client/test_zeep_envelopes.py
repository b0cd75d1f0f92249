"""Parses zeep's envelopes, and makes envelopes that zeep reads."""

from __future__ import annotations

import pytest
from lxml import etree

from mercury.client.zeep.envelopes import fault_reply, read_envelope, reply
from mercury.errors import ApplicationFault, ConfigurationError
from mercury.statemachine.protocol import SoapVersion
from mercury.wire.application_fault import read_application_fault, write_application_fault
from mercury.wire.ns import SOAP_NS

S11, S12 = SOAP_NS[SoapVersion.SOAP11], SOAP_NS[SoapVersion.SOAP12]
WSA = "http://www.w3.org/2005/08/addressing"
RM = "http://docs.oasis-open.org/ws-rx/wsrm/200702"


def envelope(body: str, header: str = "", soap: str = S12) -> etree._Element:
    return etree.fromstring(
        f'<s:Envelope xmlns:s="{soap}" xmlns:o="urn:o"><s:Header>{header}</s:Header>{body}</s:Envelope>'
    )


def test_body_and_header_blocks_stand_alone() -> None:
    found = read_envelope(
        envelope('<s:Body> <o:Do kind="o:K"/> </s:Body>', "<o:who/> <!-- nobody --> "),
        {"SOAPAction": '"urn:do"', "Content-Type": "x/y"},
    )
    assert (found.soap, found.soap_action, found.element) == (SoapVersion.SOAP12, "urn:do", "{urn:o}Do")
    assert found.body is not None
    assert etree.fromstring(found.body).nsmap["o"] == "urn:o"
    assert [etree.fromstring(each).tag for each in found.headers] == ["{urn:o}who"]


def test_action_of_soap12_may_be_in_the_content_type() -> None:
    headers = {"content-type": 'application/soap+xml; charset=utf-8; action="urn:do"'}
    assert read_envelope(envelope("<s:Body/>"), headers).soap_action == "urn:do"


def test_header_blocks_of_addressing_and_rm_are_left_out_and_the_last_action_counts() -> None:
    ours = "".join(f'<a:{name} xmlns:a="{WSA}">urn:{n}</a:{name}>' for n in (1, 2) for name in ("Action", "To"))
    ours += f'<a:MessageID xmlns:a="{WSA}">urn:id</a:MessageID><r:AckRequested xmlns:r="{RM}"/>'
    found = read_envelope(envelope("<s:Body/>", ours), {})
    assert (found.action, found.to, found.headers, found.body) == ("urn:2", "urn:2", (), None)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (etree.fromstring("<a/>"), "not a SOAP envelope"),
        (etree.fromstring(f'<s:Envelope xmlns:s="{S12}"/>'), "no Body"),
        (envelope("<s:Body><o:A/><o:B/></s:Body>"), "more than one element"),
        (envelope('<s:Body id="signed"><o:A/></s:Body>'), "signed or encrypted"),
    ],
)
def test_envelope_that_cannot_travel_is_refused(given: etree._Element, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        read_envelope(given, {})


def test_response_has_its_header_blocks_and_its_prefixes() -> None:
    made = reply(SoapVersion.SOAP12, b'<s:Done xmlns:s="urn:s"/>', [b'<h xmlns="urn:h"/>'])
    root = etree.fromstring(made.content)
    assert [[each.tag for each in part] for part in root] == [["{urn:h}h"], ["{urn:s}Done"]]
    assert made.status_code == 200


def test_fault_keeps_its_element() -> None:
    element = f'<e:Fault xmlns:e="{S11}"><faultcode>e:Server.Full</faultcode><faultstring>x</faultstring></e:Fault>'
    made = fault_reply(SoapVersion.SOAP11, read_application_fault(element.encode()))
    assert etree.fromstring(made.content).findtext(".//faultcode") == "e:Server.Full"
    assert made.status_code == 500


def test_fault_of_the_other_soap_version_is_written_anew() -> None:
    fault = ApplicationFault("no", code="Full", detail=b"<why/>")
    came = read_application_fault(write_application_fault(SoapVersion.SOAP11, fault))
    root = etree.fromstring(fault_reply(SoapVersion.SOAP12, came).content)
    assert root.findtext(f".//{{{S12}}}Fault/{{{S12}}}Reason/{{{S12}}}Text") == "no"
    assert root.find(f".//{{{S12}}}Detail/why") is not None
