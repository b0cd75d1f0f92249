"""The payloads of objects: their form is checked once for each class, and is that of `check_payload`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, make_dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest

from mercury.errors import ApplicationFault, PayloadError
from mercury.statemachine.messages import AckRequested, EndpointReference, SequenceAcknowledgement, SequenceHeader
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.wire import (
    DEFAULT_LIMITS,
    EMPTY,
    Envelope,
    Payload,
    check_payload,
    decode,
    encode,
    write_application_fault,
)
from mercury.wire.bodies import write_body
from mercury.wire.mapping import Attribute, Xml, to_xml
from mercury.wire.mapping_plan import has_single_values
from mercury.wire.ns import SOAP_NS
from mercury.wire.payload import check_headers
from mercury.wire.scan import limits_of_body

from .samples import SOAP11


class Colour(Enum):
    RED = "<red> & ]]>"


@dataclass
class Row:
    text: str
    number: int
    unit: Annotated[str, Attribute()] = "kg"
    colour: Colour = Colour.RED
    one: Literal["a&b"] = "a&b"
    raw: bytes = b"<&>"
    amount: Decimal | None = None
    at: datetime | None = field(default_factory=lambda: datetime(2020, 1, 1, tzinfo=UTC))


@dataclass
class Fault:
    text: str


@dataclass
class Rows:
    rows: list[Row]


@dataclass
class Texts:
    texts: list[str]


@dataclass
class Raw:
    content: Xml


NAMESPACES = ["", "urn:example:rows", "http://example.org/a-b/", "urn:a&b", SOAP11]


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize(
    "value",
    [
        Row("plain", 1),
        Row("<a/> & ]]> <!DOCTYPE a> <?pi?> \r\n\t xml:id='x' xmlns='no uri' \N{SNOWMAN}", -(10**30), 'a"<\n'),
        Row("", 0, at=None, amount=Decimal("1e-30")),
        Fault("no fault of SOAP, unless the namespace is SOAP's"),
    ],
    ids=repr,
)
def test_the_payload_of_an_object_of_single_values_is_that_which_the_check_of_its_xml_returns(
    value: object, namespace: str
) -> None:
    assert has_single_values(type(value))
    xml = to_xml(value, namespace)
    try:
        expected: object = check_payload(xml)
    except PayloadError as error:
        expected = str(error)
    for _ in range(2):
        try:
            found: object = write_body(value, namespace, attached=True)
        except PayloadError as error:
            found = str(error)
        assert found == expected


def test_an_object_that_is_larger_than_a_message_may_be_is_refused() -> None:
    write_body(Fault("a"), "urn:x")
    with pytest.raises(PayloadError, match="larger than"):
        write_body(Fault("a" * DEFAULT_LIMITS.max_bytes), "urn:x")


def test_the_limits_of_a_body_are_those_that_are_set() -> None:
    wide = replace(DEFAULT_LIMITS, max_bytes=2 * DEFAULT_LIMITS.max_bytes, max_elements=2 * DEFAULT_LIMITS.max_elements)
    long, many = "a" * DEFAULT_LIMITS.max_bytes, Texts(["a"] * DEFAULT_LIMITS.max_elements)
    for value in (Fault(long), f"<a>{long}</a>", f"<a>{long}</a>".encode(), many):
        with pytest.raises(PayloadError, match=r"larger than|elements"):
            write_body(value, "urn:x")
        assert write_body(value, "urn:x", limits=wide).xml
    with pytest.raises(PayloadError, match="larger than"):
        write_body(Fault("a" * 1000), "urn:x", limits=replace(DEFAULT_LIMITS, max_bytes=1000))


def body_of(kind: str, more: int = 0) -> bytes:
    """A body at one of the limits, or above it by ``more``."""
    most = limits_of_body(DEFAULT_LIMITS)
    if kind == "depth":
        return b"<a>" * (most.max_depth + more) + b"</a>" * (most.max_depth + more)
    if kind == "elements":
        return b"<a>" + b"<b/>" * (most.max_elements - 1 + more) + b"</a>"
    if kind == "attributes":
        each = most.max_attributes
        full, rest = divmod(most.max_total_attributes + more, each)
        named = [b" a%d=''" % number for number in range(each)]
        return b"<a>" + b"<b%b/>" % b"".join(named) * full + b"<c%b/></a>" % b"".join(named[:rest])
    return b"<a>" + b"x" * (most.max_bytes - 7 + more) + b"</a>"


@pytest.mark.parametrize("kind", ["bytes", "depth", "elements", "attributes"])
@pytest.mark.parametrize("protocol", [Protocol(), Protocol(SoapVersion.SOAP11, rm=RmVersion.RM10)], ids=str)
def test_a_body_at_its_limits_is_taken_in_a_full_envelope_and_one_above_is_not_sent(
    protocol: Protocol, kind: str
) -> None:
    # A peer with the same limits would refuse the message for ever, and those after it would wait.
    ranges = tuple((10 * number, 10 * number + 5) for number in range(1, 513))
    long = "urn:" + "a" * (DEFAULT_LIMITS.max_uri_length - 4)
    full = Envelope(
        soap=protocol.soap,
        addressing=protocol.addressing,
        rm=protocol.rm,
        action=long,
        to=EndpointReference(long),
        message_id=long,
        relates_to=long,
        reply_to=EndpointReference(long),
        fault_to=EndpointReference(long),
        from_=EndpointReference(long),
        sequence=SequenceHeader(long, 1),
        acknowledgements=(SequenceAcknowledgement(long, ranges),),
        ack_requests=(AckRequested(long),),
        expires_in=10.0,
    )
    for body in (body_of(kind), body_of(kind, -1)):
        payload = write_body(body, "urn:x")
        blocks = check_headers([b"<h/>"] * limits_of_body(DEFAULT_LIMITS).max_headers, EMPTY)
        http = encode(replace(full, body=payload, headers=blocks))
        assert decode(http.body, http.content_type, http.soap_action).body == payload
    with pytest.raises(PayloadError, match=r"larger than|deeper than|more than"):
        write_body(body_of(kind, 1), "urn:x")
    with pytest.raises(PayloadError, match=r"larger than|deeper than|more than"):
        write_application_fault(protocol.soap, ApplicationFault("no", detail=body_of(kind, 1)))


def test_header_blocks_of_the_application_are_counted_and_share_the_limits_of_the_body() -> None:
    most, payload = limits_of_body(DEFAULT_LIMITS), check_payload(body_of("elements", -3))
    blocks = [b"<h/>", "<!-- c --><k>\u00fc</k>".encode()]
    assert check_headers(blocks, payload) == (b"<h/>", "<k>\u00fc</k>".encode())
    with pytest.raises(PayloadError, match=r"with its header blocks: more than \d+ elements"):
        check_headers([*blocks, b"<h><i/></h>"], payload)
    with pytest.raises(PayloadError, match=f"more than {most.max_headers} header blocks"):
        check_headers((b"<h/>" for _ in itertools.count()), EMPTY)
    with pytest.raises(PayloadError, match=f"nested deeper than {most.max_depth}"):
        check_headers([body_of("depth", 1)], EMPTY)


def test_detail_of_a_fault_has_room_for_the_fault() -> None:
    for soap in SoapVersion:
        most = limits_of_body(DEFAULT_LIMITS).max_depth - 2
        deep = b"<a>" * most + b"</a>" * most
        fault = Payload(write_application_fault(soap, ApplicationFault("no", detail=deep)), "Fault", is_fault=True)
        message = Envelope(
            soap=soap,
            addressing=AddressingVersion.WSA10,
            rm=RmVersion.RM11,
            action="urn:a",
            sequence=SequenceHeader("urn:s", 1),
            body=fault,
        )
        http = encode(message)
        assert decode(http.body, http.content_type, http.soap_action).body == replace(
            fault, name=f"{{{SOAP_NS[soap]}}}Fault"
        )
        with pytest.raises(PayloadError, match=f"deeper than {most}"):
            write_application_fault(soap, ApplicationFault("no", detail=b"<a>" + deep + b"</a>"))


def test_a_class_with_more_attributes_or_longer_names_than_a_message_may_have_is_refused() -> None:
    attribute: Any = Annotated[int, Attribute()]
    wide = make_dataclass("Wide", [(f"a{number}", attribute) for number in range(DEFAULT_LIMITS.max_attributes + 1)])
    long = make_dataclass("Long", [("a" * (DEFAULT_LIMITS.max_name_length + 1), int)])
    for value in (wide(*range(DEFAULT_LIMITS.max_attributes + 1)), long(1)):
        assert has_single_values(type(value))
        with pytest.raises(PayloadError, match=r"attributes|name longer"):
            write_body(value, "urn:x")


def test_objects_with_lists_and_with_raw_xml_are_checked_one_by_one() -> None:
    assert not has_single_values(Rows)
    assert not has_single_values(Raw)
    most = DEFAULT_LIMITS.max_elements
    write_body(Rows([Row("a", 1)]), "urn:x")
    with pytest.raises(PayloadError, match="elements"):
        write_body(Rows([Row("a", 1)] * most), "urn:x")
    write_body(Texts(["a"]), "urn:x")
    with pytest.raises(PayloadError, match="elements"):
        write_body(Texts(["a"] * most), "urn:x")
    with pytest.raises(PayloadError, match="processing instruction"):
        write_body(Raw(Xml(b"<?pi?>")), "urn:x")
