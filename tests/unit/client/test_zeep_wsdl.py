"""The operation that an envelope of zeep calls, found in the loaded WSDL documents."""

from __future__ import annotations

import pytest

from mercury.client.zeep.wsdl import Operation, Wsdl
from mercury.errors import ConfigurationError
from mercury.statemachine.protocol import SoapVersion

SOAP11, SOAP12 = SoapVersion.SOAP11, SoapVersion.SOAP12
HEAD = (
    '<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/"'
    ' xmlns:wsaw="http://www.w3.org/2006/05/addressing/wsdl" xmlns:t="{target}" targetNamespace="{target}">'
)


def wsdl(
    operation: str,
    *,
    target: str = "urn:t",
    messages: str = '<w:message name="in"><w:part name="p" element="t:In"/></w:message>',
    soap: str = '<s:operation soapAction=""/>',
    body: str = '<s:body use="literal"/>',
    style: str = "document",
    address: str = "http://here/",
    name: str = "Port",
) -> bytes:
    """A WSDL with one operation ``Do``, of which this is what stands in the port type."""
    return (
        HEAD.format(target=target)
        + messages
        + f'<w:portType name="{name}"><w:operation name="Do">{operation}</w:operation></w:portType>'
        + f'<w:binding name="B" type="t:{name}"><s:binding style="{style}" transport="x"/>'
        + f'<w:operation name="Do">{soap}<w:input>{body}</w:input></w:operation></w:binding>'
        + f'<w:service name="S"><w:port name="P" binding="t:B"><s:address location="{address}"/></w:port></w:service>'
        + "</w:definitions>"
    ).encode()


IN, OUT = '<w:input message="t:in"/>', '<w:output message="t:in"/>'


def found(*documents: bytes, element: str = "{urn:t}In", action: str = "", address: str = "http://here/") -> Operation:
    loaded = Wsdl()
    for document in documents:
        loaded.add(document)
    return loaded.find(address, SOAP11, action, element)


@pytest.mark.parametrize(("operation", "one_way"), [(IN, True), (IN + OUT, False)])
def test_operation_without_an_output_is_one_way(operation: str, one_way: bool) -> None:
    assert found(wsdl(operation)).one_way is one_way


@pytest.mark.parametrize(
    ("document", "action", "said"),
    [
        (wsdl('<w:input message="t:in" wsaw:Action="urn:explicit"/>'), "", "urn:explicit"),
        (wsdl(IN, soap='<s:operation soapAction="urn:soap"/>'), "urn:soap", "urn:soap"),
        (wsdl(IN), "", "urn:t:Port:Do"),
        (wsdl(IN + OUT), "", "urn:t:Port:DoRequest"),
        (wsdl('<w:input name="Asked" message="t:in"/>' + OUT), "", "urn:t:Port:Asked"),
    ],
    ids=["explicit", "soapAction", "one-way", "request", "named input"],
)
def test_action_is_that_of_the_metadata(document: bytes, action: str, said: str) -> None:
    assert found(document, action=action).action == said


@pytest.mark.parametrize("target", ["http://t/orders", "http://t/orders/"])
def test_default_action_of_a_url_has_slashes(target: str) -> None:
    document = wsdl(IN, target=target)
    assert found(document, element=f"{{{target}}}In").action == "http://t/orders/Port/Do"


def test_style_rpc_has_the_operations_name_in_the_body() -> None:
    body = '<s:body use="literal" namespace="urn:rpc"/>'
    assert found(wsdl(IN, body=body, style="rpc"), element="{urn:rpc}Do").name == "Do"


def test_only_listed_parts_are_in_the_body() -> None:
    parts = '<w:part name="h" element="t:Head"/><w:part name="p" element="t:In"/>'
    document = wsdl(IN, messages=f'<w:message name="in">{parts}</w:message>', body='<s:body use="literal" parts="p"/>')
    assert found(document).name == "Do"
    with pytest.raises(ConfigurationError, match="no WSDL that this transport has loaded"):
        found(document, element="{urn:t}Head")


def test_message_without_a_part_has_an_empty_body() -> None:
    assert found(wsdl(IN, messages='<w:message name="in"/>'), element="").name == "Do"


def test_parts_of_a_wsdl_may_be_in_several_documents() -> None:
    whole = wsdl(IN)
    head, rest = HEAD.format(target="urn:t").encode(), whole.removeprefix(HEAD.format(target="urn:t").encode())
    at = rest.index(b"<w:binding")
    assert found(head + rest[at:], head + rest[:at] + b"</w:definitions>").addresses == {"http://here/"}


def test_address_decides_between_services_with_the_same_element() -> None:
    one = wsdl(IN, address="http://one/", name="One")
    two = wsdl(IN + OUT, address="http://two/", name="Two").replace(b'name="B"', b'name="C"').replace(b"t:B", b"t:C")
    assert found(one, two, address="http://one/").one_way
    assert not found(one, two, address="http://two/").one_way
    with pytest.raises(ConfigurationError, match=r"may call any of Do of \{urn:t\}B, Do of \{urn:t\}C, which differ"):
        found(one, two, address="http://elsewhere/")


def test_other_soap_version_or_action_is_another_operation() -> None:
    document = wsdl(IN, soap='<s:operation soapAction="urn:soap"/>')
    loaded = Wsdl()
    loaded.add(document)
    loaded.add(b"<schema/>")
    loaded.add(b"no XML")
    for soap, action in ((SOAP12, "urn:soap"), (SOAP11, "urn:other")):
        with pytest.raises(ConfigurationError, match="no WSDL that this transport has loaded"):
            loaded.find("http://here/", soap, action, "{urn:t}In")


def test_policy_is_that_of_the_port_at_the_address() -> None:
    policy = (
        '<p:Policy xmlns:p="http://www.w3.org/ns/ws-policy"><r:RMAssertion xmlns:r="{}"/></p:Policy><s:address'.format(
            "http://docs.oasis-open.org/ws-rx/wsrmp/200702"
        )
    ).encode()
    plain = wsdl(IN, address="http://plain/")
    second = plain.replace(b"urn:t", b"urn:u").replace(b"http://plain/", b"http://rm/").replace(b"<s:address", policy)
    loaded = Wsdl()
    loaded.add(plain)
    loaded.add(second)
    for address, element, attached in (("http://plain/", "{urn:t}In", False), ("http://rm/", "{urn:u}In", True)):
        operation = loaded.find(address, SOAP11, "", element)
        requirements = loaded.requirements(operation, address)
        assert requirements is not None
        assert requirements.attached is attached
        assert (requirements.alternatives[0].reliability is not None) is attached
