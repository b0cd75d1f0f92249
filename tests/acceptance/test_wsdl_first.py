"""Services that are made from a WSDL: handlers by name, and bodies that are valid by its schema in both directions."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from mercury import ApplicationFault, ConfigurationError, DeadLetter, Mercury, PayloadError, Sender, Service
from mercury.cli.documents import fetch_all
from mercury.settings import Settings
from mercury.statemachine.protocol import RmVersion
from mercury.wire import DEFAULT_LIMITS
from mercury.wsdl import schema_files, wsdl_files
from mercury.wsdl.contract import WsdlContract
from mercury.wsdl.policy import imports, read
from tests.acceptance.processes import PATIENCE, ROOT, eventually, get

ORDERS = ROOT / "tests/data/wsdl/orders.wsdl"
NS = "urn:mercury:orders"
PLACE = b'<o:Place xmlns:o="urn:mercury:orders"><o:sku>A1</o:sku><o:qty>3</o:qty></o:Place>'


@dataclass
class Place:
    sku: str
    qty: int


@dataclass
class PlaceResponse:
    id: int


@dataclass
class Notify:
    text: str


def notify(what: Notify) -> None:
    del what


def made(handler: Any, source: Any = ORDERS) -> Service:
    service = Service.from_wsdl(source, "orders")
    service.operation("Place")(handler)
    service.operation(notify)
    return service


@pytest.fixture
def sending() -> Iterator[Mercury]:
    with Mercury("memory:") as mercury:
        yield mercury


def asked(sending: Mercury, server: Mercury, service: Service, body: bytes = PLACE) -> bytes:
    """The response to one request."""
    return to(sending, server, service).request(body, action=f"{NS}/Place").result(PATIENCE)


def to(sending: Mercury, server: Mercury, service: Service) -> Sender:
    return sending.to(server.listen(service) + "/services/orders")


# --- what handlers take and give -------------------------------------------------------------------------------------


def by_classes(order: Place) -> PlaceResponse:
    return PlaceResponse(order.qty + 1)


def by_bytes(order: bytes) -> bytes:
    quantity = int(etree.fromstring(order).findtext(f"{{{NS}}}qty"))
    return b'<PlaceResponse xmlns="%b"><id>%d</id></PlaceResponse>' % (NS.encode(), quantity + 1)


def by_zeep(order: Any) -> Any:
    return {"id": order.qty + 1}


def by_zeep_to_class(order: Any) -> PlaceResponse:
    return PlaceResponse(order.qty + len(order.sku) - 1)


@pytest.mark.parametrize("handler", [by_classes, by_bytes, by_zeep, by_zeep_to_class])
def test_handler_takes_and_gives_what_its_types_say(sending: Mercury, handler: Any) -> None:
    with Mercury("memory:") as server:
        response = etree.fromstring(asked(sending, server, made(handler)))
    assert response.tag == f"{{{NS}}}PlaceResponse"
    assert response.findtext(f"{{{NS}}}id") == "4"


def test_element_of_a_class_is_that_of_the_wsdl_whatever_the_class_is_called(sending: Mercury) -> None:
    @dataclass
    class Reply:
        id: int

    def handler(order: Place) -> Any:
        return Reply(order.qty)

    handler.__annotations__ = {"order": Place, "return": Reply}
    with Mercury("memory:") as server:
        assert etree.fromstring(asked(sending, server, made(handler))).tag == f"{{{NS}}}PlaceResponse"


# --- what is not valid -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (PLACE.replace(b"3", b"many"), "'many' is not a valid value of the atomic type 'xs:int'"),
        (PLACE.replace(b"<o:qty>3</o:qty>", b""), "Missing child element(s). Expected is ( {urn:mercury:orders}qty )"),
        (
            PLACE.replace(b"o:Place", b"o:Order"),
            "the element is {urn:mercury:orders}Order, expected {urn:mercury:order",
        ),
        (PLACE.replace(b"</o:Place>", b"<more/></o:Place>"), "Element 'more': This element is not expected"),
    ],
)
def test_request_that_is_not_valid_is_answered_with_a_fault_and_not_handled(
    sending: Mercury, body: bytes, reason: str
) -> None:
    def handler(order: Place) -> PlaceResponse:
        raise AssertionError(order)

    with Mercury("memory:") as server, pytest.raises(ApplicationFault) as caught:
        asked(sending, server, made(handler), body)
    assert caught.value.code == "BadRequest"
    assert reason in caught.value.reason


def test_one_way_request_that_is_not_valid_becomes_a_dead_letter(sending: Mercury) -> None:
    with Mercury("memory:") as server:
        sender = to(sending, server, made(by_classes))
        sender.send(b'<Notify xmlns="urn:mercury:orders"/>', action=f"{NS}/Notify")

        def letters() -> list[DeadLetter]:
            return server.dead_letters()

        (letter,) = eventually(letters, "a dead letter")
    assert "Missing child element" in letter.reason


def test_result_that_is_not_valid_is_an_error_of_the_handler(
    sending: Mercury, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(order: Place) -> Place:
        return order

    with Mercury("memory:") as server:
        to(sending, server, made(handler)).request(PLACE, action=f"{NS}/Place")
        eventually(lambda: "the response of Place is not valid by its schema" in caplog.text, "a line in the log")


def test_other_element_is_refused_by_a_service_of_typed_functions_too(sending: Mercury) -> None:
    service = Service("orders", namespace=NS)
    service.operation(by_classes)
    body = PLACE.replace(b"o:Place", b"o:Order")
    with Mercury("memory:") as server, pytest.raises(ApplicationFault) as caught:
        asked(sending, server, service, body)
    assert caught.value.code == "BadRequest"
    assert f"the element is {{{NS}}}Order, expected {{{NS}}}Place" in caught.value.reason


# --- registration ----------------------------------------------------------------------------------------------------


def test_operations_are_found_by_the_names_of_functions_and_keep_those_of_the_wsdl() -> None:
    service = made(by_classes)
    assert [(each.name, each.action, each.response_action) for each in service.operations] == [
        ("Place", f"{NS}/Place", f"{NS}/PlaceResponse"),
        ("Notify", f"{NS}/Notify", None),
    ]


def test_name_and_namespace_are_those_of_the_wsdl() -> None:
    service = Service.from_wsdl(ORDERS)
    assert (service.name, service.namespace) == ("Orders", NS)


def test_wrong_registrations_are_refused() -> None:
    service = Service.from_wsdl(ORDERS.read_bytes())
    with pytest.raises(ConfigurationError, match="has no operation 'Cancel'; it has Place, Notify"):
        service.operation("Cancel")(by_classes)
    with pytest.raises(ConfigurationError, match="Place of the WSDL has a result"):
        service.operation("Place")(notify)
    with pytest.raises(ConfigurationError, match="Notify of the WSDL has no result: it is one-way"):
        service.operation("Notify")(by_classes)
    with pytest.raises(ConfigurationError, match="its actions are those of the WSDL"):
        service.operation("Place", action="urn:mine")(by_classes)
    service.operation("Place")(by_classes)
    with pytest.raises(ConfigurationError, match="no handler for Notify, which its WSDL has"):
        Mercury("memory:").add_service(service)


def test_body_of_any_type_needs_zeep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeep", None)
    with pytest.raises(ConfigurationError, match=r"needs the extra zeep: pip install mercury-rm\[zeep\]"):
        Service.from_wsdl(ORDERS).operation("Place")(by_zeep)
    with pytest.raises(ConfigurationError, match="Any is not a dataclass"):
        Service("plain").operation("Place")(by_zeep)


def test_response_by_the_schema_has_the_limits_that_are_set() -> None:
    wsdl = made(by_classes).wsdl
    assert wsdl is not None
    write = wsdl.writer(wsdl.operation("Place"), PlaceResponse)
    assert write(PlaceResponse(1), DEFAULT_LIMITS).xml
    with pytest.raises(PayloadError, match="larger than 9 bytes"):
        write(PlaceResponse(1), replace(DEFAULT_LIMITS, max_bytes=10))


# --- documents -------------------------------------------------------------------------------------------------------


def test_given_wsdl_is_published_with_its_own_policy_at_the_address_of_the_endpoint() -> None:
    with Mercury("memory:") as server:
        url = server.listen(made(by_classes)) + "/services/orders"
        found = read(get(url.split("/")[2], "/services/orders?wsdl")[1].encode())
    assert {port: each.address for port, each in found.items()} == {"P11": url, "P12": url}
    assert [len(each.alternatives) for each in found.values()] == [1, 1]


SPLIT = """<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap12/"
  xmlns:t="urn:mercury:orders" xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:w="urn:wsdl"
  targetNamespace="urn:wsdl">
 <d:types>
  <xs:schema targetNamespace="urn:mercury:orders" xmlns:y="urn:types" elementFormDefault="qualified">
   <xs:import namespace="urn:types" schemaLocation="xsd/types.xsd"/>
   <xs:element name="Place"><xs:complexType><xs:sequence>
    <xs:element name="sku" type="y:Sku"/><xs:element name="qty" type="xs:int"/>
   </xs:sequence></xs:complexType></xs:element>
  </xs:schema>
  <xs:schema targetNamespace="urn:mercury:orders" elementFormDefault="qualified">
   <xs:element name="PlaceResponse"><xs:complexType><xs:sequence><xs:element name="id" type="t:Number"/></xs:sequence>
   </xs:complexType></xs:element><xs:simpleType name="Number"><xs:restriction base="xs:int"/></xs:simpleType>
  </xs:schema>
 </d:types>
 <d:message name="in"><d:part name="p" element="t:Place"/></d:message>
 <d:message name="out"><d:part name="p" element="t:PlaceResponse"/></d:message>
 <d:portType name="T"><d:operation name="Place"><d:input message="w:in"/><d:output message="w:out"/></d:operation>
 </d:portType>
 <d:binding name="B" type="w:T"><s:binding transport="http://schemas.xmlsoap.org/soap/http"/>
  <d:operation name="Place"><s:operation soapAction=""/><d:input><s:body use="literal"/></d:input>
   <d:output><s:body use="literal"/></d:output></d:operation></d:binding>
 <d:service name="S"><d:port name="P" binding="w:B"><s:address location="http://a/"/></d:port></d:service>
</d:definitions>"""
TYPES = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:types">'
    '<xs:include schemaLocation="../xsd/sku.xsd"/></xs:schema>'
)
SKU = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:types"><xs:simpleType name="Sku">'
    '<xs:restriction base="xs:string"><xs:pattern value="[A-Z][0-9]"/></xs:restriction></xs:simpleType></xs:schema>'
)


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """A WSDL with two schemas of one namespace, one of which imports a file that includes another one."""
    (tmp_path / "xsd").mkdir()
    (tmp_path / "xsd/types.xsd").write_text(TYPES)
    (tmp_path / "xsd/sku.xsd").write_text(SKU)
    (tmp_path / "s.wsdl").write_text(SPLIT)
    return tmp_path / "s.wsdl"


@pytest.mark.parametrize("handler", [by_classes, by_zeep])
def test_schemas_of_files_hold_and_are_published_with_a_policy(sending: Mercury, split: Path, handler: Any) -> None:
    service = Service.from_wsdl(split, "orders")
    service.operation(name := "Place")(handler)
    (operation,) = service.operations
    assert (operation.name, operation.action) == (name, "urn:wsdl:T:PlaceRequest")
    with Mercury("memory:") as server:
        sender = to(sending, server, service)
        assert b">4<" in sender.request(PLACE, action=operation.action).result(PATIENCE)
        with pytest.raises(ApplicationFault, match="not accepted by the pattern"):
            sender.request(PLACE.replace(b"A1", b"nothing"), action=operation.action).result(PATIENCE)
        pages = [
            get(sender.endpoint.split("/")[2], f"/services/orders?{query}") for query in ("wsdl", "xsd=3", "xsd=4")
        ]
        assert [status for status, _ in pages] == [200, 200, 200]
        assert f'schemaLocation="{sender.endpoint}?xsd=3"' in pages[0][1]
        assert f'schemaLocation="{sender.endpoint}?xsd=4"' in pages[1][1]
        assert "[A-Z][0-9]" in pages[2][1]
        assert get(sender.endpoint.split("/")[2], "/services/orders?xsd=5")[0] == 404
    (port,) = read(pages[0][1].encode()).values()
    assert [each.reliability.rm for each in port.alternatives if each.reliability is not None] == [
        RmVersion.RM11,
        RmVersion.RM11,
        RmVersion.RM10,
    ]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("<d:definitions", '<!DOCTYPE d [<!ENTITY a "a">]><d:definitions', "a DOCTYPE is not accepted"),
        ("xsd/types.xsd", "../types.xsd", "is not below the folder"),
        ("xsd/types.xsd", "http://127.0.0.1:1/types.xsd", "only files below the folder"),
        ("xsd/types.xsd", "file:///etc/passwd", "only files below the folder"),
        ("xsd/types.xsd", "gone.xsd", "gone.xsd cannot be read"),
        ("xsd/types.xsd", "s.wsdl", "s.wsdl is not a schema"),
        ("y:Sku", "y:Skew", "the schema of the WSDL cannot be used"),
        ('name="p" element="t:Place"', 'name="p" type="xs:string"', "only document/literal with one element"),
        (' binding="w:B"', ' binding="w:C"', "no port bound to SOAP"),
        ('type="w:T"', 'type="w:U"', "the WSDL has no portType {urn:wsdl}U"),
        ("<d:types>", '<d:import namespace="urn:o" location="gone.wsdl"/><d:types>', "gone.wsdl cannot be read"),
        (
            "<d:types>",
            '<d:import namespace="urn:o" location="../s.wsdl"/><d:types>',
            "../s.wsdl is not below the folder",
        ),
        ("<d:types>", '<d:import namespace="urn:o" location="http://a/"/><d:types>', "http://a/ is not read"),
        ("<d:types>", '<d:import namespace="urn:o" location="xsd/sku.xsd"/><d:types>', "schema is not a WSDL 1.1"),
    ],
)
def test_wsdl_that_cannot_be_served_is_refused(split: Path, before: str, after: str, reason: str) -> None:
    split.write_text(SPLIT.replace(before, after, 1))
    with pytest.raises(ConfigurationError) as caught:
        Service.from_wsdl(split)
    assert reason in str(caught.value)


TWO = SPLIT.partition(" <d:binding")
INTERFACE = TWO[0].replace("xsd/types.xsd", "../xsd/types.xsd") + "</d:definitions>"
SERVICE = """<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap12/"
  xmlns:w="urn:service" xmlns:i="urn:wsdl" targetNamespace="urn:service">
 <d:import namespace="urn:wsdl" location="parts/interface.wsdl"/>""" + (TWO[1] + TWO[2]).replace(
    'type="w:T"', 'type="i:T"'
)


@pytest.fixture
def two(split: Path) -> Path:
    """A service in one document and its interface in another, in other namespaces, as CXF and Metro write them."""
    (split.parent / "parts").mkdir()
    (split.parent / "parts/interface.wsdl").write_text(INTERFACE)
    (split.parent / "service.wsdl").write_text(SERVICE)
    return split.parent / "service.wsdl"


@pytest.mark.parametrize("handler", [by_classes, by_zeep])
def test_wsdl_of_two_documents_is_served_and_published_as_two(sending: Mercury, two: Path, handler: Any) -> None:
    service = Service.from_wsdl(two, "orders")
    service.operation("Place")(handler)
    (operation,) = service.operations
    assert operation.action == "urn:wsdl:T:PlaceRequest", "the default action has the namespace of the interface"
    with Mercury("memory:") as server:
        sender = to(sending, server, service)
        assert b">4<" in sender.request(PLACE, action=operation.action).result(PATIENCE)
        with pytest.raises(ApplicationFault, match="not accepted by the pattern"):
            sender.request(PLACE.replace(b"A1", b"nothing"), action=operation.action).result(PATIENCE)
        netloc = sender.endpoint.split("/")[2]
        outer, inner = (get(netloc, f"/services/orders?{query}") for query in ("wsdl", "wsdl=1"))
        assert get(netloc, "/services/orders?wsdl=2")[0] == 404
        published = fetch_all(f"{sender.endpoint}?wsdl", Settings(), imports)
        client = importlib.import_module("zeep").Client(f"{sender.endpoint}?wsdl")
    assert f'location="{sender.endpoint}?wsdl=1"' in outer[1]
    assert f'schemaLocation="{sender.endpoint}?xsd=3"' in inner[1]
    assert client.get_element("{urn:mercury:orders}Place") is not None
    (port,) = read(published[0], published[1:]).values()
    assert port.address == sender.endpoint
    assert len(port.alternatives) == 3, "the policy is in the document of the binding"


def test_documents_that_import_each_other_are_read_once(two: Path) -> None:
    back = '<d:import namespace="urn:service" location="../service.wsdl"/><d:types>'
    (two.parent / "parts/interface.wsdl").write_text(INTERFACE.replace("<d:types>", back))
    assert [len(WsdlContract(two).operations), len(WsdlContract(two).published("http://a/"))] == [1, 2]


def test_imports_outside_the_folder_are_read_with_permission_only(two: Path) -> None:
    moved = two.parent / "parts/service.wsdl"
    moved.write_text(SERVICE.replace("parts/interface", "interface"))
    with pytest.raises(ConfigurationError, match=r"\.\./xsd/types\.xsd is not below the folder"):
        Service.from_wsdl(moved)
    assert Service.from_wsdl(moved, folder=two.parent).name == "S"
    with pytest.raises(ConfigurationError, match="name the file of the WSDL that imports it"):
        Service.from_wsdl(two.read_bytes())


def test_chains_and_crowds_and_masses_of_documents_are_refused(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = '<d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/">{}</d:definitions>'
    one = '<d:import namespace="urn:o" location="{}.wsdl"/>'
    for n in range(40):
        (two.parent / f"{n}.wsdl").write_text(chain.format(one.format(n + 1)))
        (two.parent / f"leaf{n}.wsdl").write_text(chain.format(""))
    with pytest.raises(ConfigurationError, match=r"9\.wsdl is not read: more than 8 imports lead to it"):
        Service.from_wsdl(two.parent / "0.wsdl")
    crowd = two.parent / "crowd.wsdl"
    crowd.write_text(chain.format("".join(one.format(f"leaf{n}") for n in range(40))))
    with pytest.raises(ConfigurationError, match=r"crowd\.wsdl imports more than 32 documents"):
        Service.from_wsdl(crowd)
    monkeypatch.setattr(wsdl_files, "MAX_BYTES", len(SERVICE) + len(INTERFACE) - 1)
    with pytest.raises(ConfigurationError, match="together the WSDLs have more than"):
        Service.from_wsdl(two)
    monkeypatch.undo()
    monkeypatch.setattr(schema_files, "MAX_BYTES", len(TYPES) + len(SKU) - 1)
    with pytest.raises(ConfigurationError, match="together the schemas have more than"):
        Service.from_wsdl(two)


def test_schema_that_includes_itself_without_end_is_read_once(split: Path) -> None:
    (split.parent / "xsd/sku.xsd").write_text(
        SKU.replace("<xs:simple", '<xs:include schemaLocation="types.xsd"/><xs:simple', 1)
    )
    assert Service.from_wsdl(split).name == "S"


def test_port_is_chosen_by_its_name() -> None:
    assert Service.from_wsdl(ORDERS, port="P12").name == "Orders"
    with pytest.raises(ConfigurationError, match="has no port 'P13'"):
        Service.from_wsdl(ORDERS, port="P13")
