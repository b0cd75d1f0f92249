"""The WSDL that a service publishes: toolkits fetch it, and zeep calls the service with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
import zeep
from fastapi import FastAPI, Request
from lxml import etree
from starlette.types import ASGIApp, Message

from mercury import Attribute, DeliveryAssurance, DestinationPolicy, Mercury, NotAuthenticated, Sender, Service
from mercury.statemachine.protocol import AddressingVersion, RmVersion, SoapVersion
from mercury.wsdl.policy import Reliability, read
from tests.acceptance.processes import PATIENCE, get

NS = "urn:example:shop"
WSDL = "{http://schemas.xmlsoap.org/wsdl/}"
XS = "{http://www.w3.org/2001/XMLSchema}"


@dataclass
class Line:
    sku: str
    amount: Decimal
    unit: Annotated[str, Attribute()] = "piece"


@dataclass
class PlaceOrder:
    number: int
    lines: list[Line]
    note: str | None = None


@dataclass
class OrderPlaced:
    number: int
    total: Decimal


@dataclass
class Cancel:
    number: int


@dataclass
class Shop:
    """A service, and what its handlers were given."""

    service: Service = field(default_factory=lambda: Service("shop", namespace=NS))
    placed: list[PlaceOrder] = field(default_factory=list)
    cancelled: list[Cancel] = field(default_factory=list)
    told: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        @self.service.operation
        def place(order: PlaceOrder) -> OrderPlaced:
            self.placed.append(order)
            return OrderPlaced(order.number, sum((line.amount for line in order.lines), Decimal(0)))

        @self.service.operation
        def cancel(what: Cancel) -> None:
            self.cancelled.append(what)
            self.told.set()


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()


class Client:
    """Asks an application without a socket between, so that any Host header reaches it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def ask(self, url: str, method: str = "GET", **headers: str) -> Reply:
        path, _, query = url.partition("?")
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        named = {"host": "shop.example", **headers}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 80),
        }
        asyncio.run(self._app(scope, receive, send))
        start, *rest = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], found, b"".join(each.get("body", b"") for each in rest))


class Carried:
    """A transport of zeep's that sends what zeep has written by Mercury, and gives it the response."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._fetch = zeep.Transport()

    def load(self, url: str) -> Any:
        return self._fetch.load(url)

    def post_xml(self, address: str, envelope: etree._Element, headers: dict[str, str]) -> Any:
        assert address == self._sender.endpoint
        body = next(envelope.iterchildren("{*}Body"))
        action = next(envelope.iter("{http://www.w3.org/2005/08/addressing}Action")).text
        xml = etree.tostring(body[0])
        if body[0].tag == f"{{{NS}}}Cancel":
            self._sender.send(xml, action=action)
            return SimpleNamespace(status_code=202, headers={}, content=b"", encoding="utf-8")
        response = self._sender.request(xml, action=action).result(PATIENCE)
        soap = etree.QName(envelope).namespace or ""
        content = b'<e:Envelope xmlns:e="%b"><e:Body>%b</e:Body></e:Envelope>' % (soap.encode(), response)
        return SimpleNamespace(status_code=200, headers={}, content=content, encoding="utf-8")


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def url(shop: Shop) -> Iterator[str]:
    with Mercury("memory:") as server:
        yield server.listen(shop.service) + "/services/shop"


# --- zeep ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["shopSoap11", "shopSoap12"])
def test_zeep_calls_both_kinds_of_operations_by_the_wsdl_alone(shop: Shop, url: str, port: str) -> None:
    with Mercury("memory:") as sending:
        client = zeep.Client(f"{url}?wsdl", transport=Carried(sending.to(url)), port_name=port)
        lines = [{"sku": "A1", "amount": Decimal("2.50")}, {"sku": "B2", "amount": Decimal(4), "unit": "kg"}]
        answer = client.service.PlaceOrder(number=7, lines=lines)
        assert (answer.number, answer.total) == (7, Decimal("6.50"))
        assert shop.placed == [PlaceOrder(7, [Line("A1", Decimal("2.50")), Line("B2", Decimal(4), "kg")])]
        assert client.service.Cancel(number=7) is None
        assert shop.told.wait(PATIENCE)
        assert shop.cancelled == [Cancel(7)]


# --- the document ----------------------------------------------------------------------------------------------------


def test_policy_of_the_wsdl_says_both_generations_with_their_addressing(url: str) -> None:
    # POL-01, POL-02, POL-06
    found = read(fetch(f"{url}?wsdl"))
    assert {port: (each.soap, each.address) for port, each in found.items()} == {
        "shopSoap11": (SoapVersion.SOAP11, url),
        "shopSoap12": (SoapVersion.SOAP12, url),
    }
    for each in found.values():
        fetching, newer, older = each.alternatives
        # MC-SCH-04, MC-08: a client that does not know the assertion takes the second alternative
        assert fetching == replace(newer, make_connection=True)
        assert newer.addressing is older.addressing is AddressingVersion.WSA10
        assert newer.reliability == Reliability(
            rm=RmVersion.RM11, assurance=DeliveryAssurance.EXACTLY_ONCE, in_order=True
        )
        assert older.reliability == Reliability(
            rm=RmVersion.RM10,
            inactivity_timeout=7 * 86400.0,
            retransmission_interval=1.0,
            exponential_backoff=True,
            acknowledgement_interval=0.1,
        )
        assert (newer.make_connection, newer.unsupported, newer.unknown) == (False, (), ())


def test_policy_of_the_wsdl_follows_the_policy_of_the_service() -> None:
    given = DestinationPolicy(assurance=DeliveryAssurance.AT_MOST_ONCE, in_order=False, inactivity_timeout=None)
    service = Service("notes", policy=given)
    service.operation(lambda_of(Cancel))
    with Mercury("memory:") as server:
        _, newer, older = read(fetch(server.listen(service) + "/services/notes?wsdl"))["notesSoap12"].alternatives
    assert newer.reliability == Reliability(rm=RmVersion.RM11, assurance=DeliveryAssurance.AT_MOST_ONCE, in_order=False)
    assert older.reliability is not None
    assert older.reliability.inactivity_timeout is None


@pytest.mark.parametrize("mtom", [False, True])
def test_wsdl_says_that_clients_may_use_mtom_if_the_service_answers_with_it(mtom: bool) -> None:
    service = Service("notes", policy=DestinationPolicy(mtom=mtom))
    service.operation(lambda_of(Cancel))
    with Mercury("memory:") as server:
        document = fetch(server.listen(service) + "/services/notes?wsdl")
    assert (b"OptimizedMimeSerialization" in document) is mtom
    requirements = read(document)["notesSoap12"]
    assert any(each.mtom for each in requirements.alternatives) is mtom
    assert not requirements.source_policy().mtom


def lambda_of(kind: type[Any]) -> Any:
    def handler(what: Any) -> None:
        del what

    handler.__annotations__ = {"what": kind, "return": None}
    return handler


def test_operations_of_ws_rm_are_not_in_the_wsdl_and_actions_are_in_both_namespaces(url: str) -> None:
    # POL-07
    root = etree.fromstring(fetch(f"{url}?wsdl"))
    (port_type,) = root.iterchildren(f"{WSDL}portType")
    actions = {
        operation.get("name"): [
            (etree.QName(way).localname, set(way.attrib.values()) - {way.get("message")}, len(way.attrib))
            for way in operation
        ]
        for operation in port_type
    }
    assert actions == {
        "PlaceOrder": [("input", {f"{NS}/PlaceOrder"}, 3), ("output", {f"{NS}/PlaceOrderResponse"}, 3)],
        "Cancel": [("input", {f"{NS}/Cancel"}, 3)],
    }


def test_schema_of_the_query_is_the_one_inside_the_wsdl(url: str) -> None:
    schema = etree.fromstring(fetch(f"{url}?xsd=1"))
    assert schema.tag == f"{XS}schema"
    inside = next(etree.fromstring(fetch(f"{url}?wsdl")).iter(f"{XS}schema"))
    names = [[each.get("name") for each in one] for one in (schema, inside)]
    assert names[0] == names[1] == ["PlaceOrder", "OrderPlaced", "Cancel", *names[0][3:]]
    cancel = etree.fromstring(f'<Cancel xmlns="{NS}"><number>1</number></Cancel>')
    assert etree.XMLSchema(schema).validate(cancel), "it stands by itself"
    assert get_url(f"{url}?xsd=2") == (404, "There is no schema 2.\n")


@pytest.mark.parametrize("query", ["wsdl", "WSDL", "wsdl=", "xsd=1", "XSD=1"])
def test_query_is_understood_in_every_case(url: str, query: str) -> None:
    assert get_url(f"{url}?{query}")[0] == 200


@pytest.mark.parametrize("query", ["", "?", "?wsdl2", "?xsd", "?xsd=a", "?xsd=1&a=b"])
def test_other_questions_are_refused_as_before(url: str, query: str) -> None:
    assert get_url(f"{url}{query}")[0] == 405


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused_with_the_query_too(shop: Shop, method: str) -> None:
    client = Client(Mercury("memory:").app(shop.service))
    reply = client.ask("/services/shop?wsdl", method)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


def test_endpoint_of_responses_has_no_wsdl(shop: Shop) -> None:
    client = Client(Mercury("memory:").app(shop.service))
    assert client.ask("/mercury/responses?wsdl").status == 405


# --- the address -----------------------------------------------------------------------------------------------------


def address_in(client: Client, path: str = "/services/shop", **headers: str) -> str:
    reply = client.ask(f"{path}?wsdl", **headers)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/xml; charset=utf-8")
    (address,) = {each.address for each in read(reply.content).values()}
    return address


def test_address_is_that_of_the_settings_whatever_the_request_says(shop: Shop) -> None:
    client = Client(Mercury("memory:", address="https://shop.example/gateway/").app(shop.service))
    assert address_in(client, host="elsewhere.example") == "https://shop.example/gateway/services/shop"


def test_address_is_the_host_of_the_request_where_none_is_set(shop: Shop) -> None:
    client = Client(Mercury("memory:").app(shop.service))
    assert address_in(client, host="shop.example:8080") == "http://shop.example:8080/services/shop"
    assert address_in(client, host="[::1]:80") == "http://[::1]:80/services/shop"


@pytest.mark.parametrize("host", ["", "a/b", "a b", "user@shop.example", "a:b", "[a", ":80"])
def test_host_that_is_none_is_refused(shop: Shop, host: str) -> None:
    client = Client(Mercury("memory:").app(shop.service))
    reply = client.ask("/services/shop?wsdl", host=host)
    assert (reply.status, reply.text) == (
        400,
        "The Host header names no host, and the setting address is not set.\n",
    )


def test_host_that_xml_has_to_escape_changes_nothing_but_the_address(shop: Shop) -> None:
    client = Client(Mercury("memory:").app(shop.service))
    assert address_in(client, host='a"><evil') == 'http://a"><evil/services/shop'


def test_address_has_the_prefix_that_a_router_and_a_mounted_application_are_below(shop: Shop) -> None:
    mercury = Mercury("memory:")
    inner, outer = FastAPI(), FastAPI()
    inner.include_router(mercury.router(shop.service), prefix="/api")
    outer.mount("/v1", inner)
    assert address_in(Client(outer), "/v1/api/services/shop") == "http://shop.example/v1/api/services/shop"


# --- who may read it -------------------------------------------------------------------------------------------------


def test_wsdl_is_refused_to_those_whose_messages_would_be_refused(shop: Shop) -> None:
    def authenticate(request: Any) -> str | None:
        if request.headers.get("authorization") != "Bearer good":
            raise NotAuthenticated("no token")
        return "till"

    client = Client(Mercury("memory:", authenticate=authenticate).app(shop.service))
    refused = client.ask("/services/shop?wsdl")
    assert (refused.status, refused.headers["www-authenticate"], refused.text) == (401, "Bearer", "no token\n")
    assert client.ask("/services/shop?wsdl", authorization="Bearer good").status == 200


def test_dependencies_of_a_route_protect_its_wsdl(shop: Shop) -> None:
    from fastapi import Depends, HTTPException  # noqa: PLC0415  beside its use

    def check(request: Request) -> None:
        if "x-token" not in request.headers:
            raise HTTPException(403)

    app = FastAPI()
    app.include_router(Mercury("memory:").router(shop.service), dependencies=[Depends(check)])
    client = Client(app)
    assert client.ask("/services/shop?wsdl").status == 403
    assert client.ask("/services/shop?wsdl", **{"x-token": "1"}).status == 200


# --- services that are hard to describe ------------------------------------------------------------------------------


def test_two_classes_for_one_element_are_reported_and_the_service_works(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("odd")
    service.operation("Same", action="urn:one")(lambda_of(Cancel))
    service.operation("Same", action="urn:two")(lambda_of(Line))
    client = Client(Mercury("memory:").app(service))
    reply = client.ask("/services/odd?wsdl")
    assert reply.status == 500
    assert "two classes, Cancel and Line, are the element 'Same'" in reply.text
    assert client.ask("/services/odd?wsdl").text == reply.text
    assert caplog.text.count("the WSDL of odd cannot be written") == 1
    assert client.ask("/services/odd", "POST").status == 503, "it only has not been started"


def test_raw_bodies_may_have_any_content_and_shared_elements_are_two_operations(url: str) -> None:
    service = Service("1 raw".replace(" ", "-"), namespace="")

    @service.operation
    def echo(body: bytes) -> bytes:
        return body

    service.operation(action="urn:one")(lambda_of(Cancel))
    service.operation(action="urn:two")(lambda_of(Cancel))
    with Mercury("memory:") as server:
        document = fetch(server.listen(service) + "/services/1-raw?wsdl")
    root = etree.fromstring(document)
    assert root.get("name") == "_1-raw"
    (port_type,) = root.iterchildren(f"{WSDL}portType")
    assert [each.get("name") for each in port_type] == ["echo", "Cancel", "handler"]
    schema = etree.XMLSchema(next(root.iter(f"{XS}schema")))
    assert schema.validate(etree.fromstring("<echo><x/>and<y/></echo>"))
    assert schema.validate(etree.fromstring("<echoResponse/>"))
    assert schema.validate(etree.fromstring("<Cancel><number>1</number></Cancel>"))


def get_url(url: str) -> tuple[int, str]:
    netloc, path = url.removeprefix("http://").split("/", 1)
    return get(netloc, f"/{path}")


def fetch(url: str) -> bytes:
    status, text = get_url(url)
    assert status == 200, text
    return text.encode()
