"""XML that other products write and expect, and XML that is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import pytest
from lxml import etree

from mercury.errors import PayloadError
from mercury.wire.mapping import Attribute, Xml, from_xml, to_xml

NS = "urn:example:orders"


@dataclass
class Item:
    sku: str
    price: Decimal
    unit: Annotated[Literal["piece", "kg"], Attribute()] = "piece"


@dataclass
class Order:
    id: int
    customer: str
    placed: datetime
    express: bool
    lead: timedelta | None
    items: list[Item]
    extra: Xml | None = None
    note: str | None = None
    codes: list[str | None] = field(default_factory=list)
    picture: bytes | None = b"\x00"


SCHEMA = """
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:example:orders"
           targetNamespace="urn:example:orders" elementFormDefault="qualified">
  <xs:element name="Order">
    <xs:complexType>
      <xs:sequence>
        <xs:element name="id" type="xs:integer"/>
        <xs:element name="customer" type="xs:string"/>
        <xs:element name="placed" type="xs:dateTime"/>
        <xs:element name="express" type="xs:boolean"/>
        <xs:element name="lead" type="xs:duration" minOccurs="0"/>
        <xs:element name="items" minOccurs="0" maxOccurs="unbounded">
          <xs:complexType>
            <xs:sequence>
              <xs:element name="sku" type="xs:string"/>
              <xs:element name="price" type="xs:decimal"/>
            </xs:sequence>
            <xs:attribute name="unit" type="xs:string"/>
          </xs:complexType>
        </xs:element>
        <xs:element name="extra" minOccurs="0">
          <xs:complexType mixed="true">
            <xs:sequence>
              <xs:any minOccurs="0" maxOccurs="unbounded" namespace="##any" processContents="skip"/>
            </xs:sequence>
          </xs:complexType>
        </xs:element>
        <xs:element name="note" type="xs:string" minOccurs="0"/>
        <xs:element name="codes" type="xs:string" minOccurs="0" maxOccurs="unbounded" nillable="true"/>
        <xs:element name="picture" type="xs:base64Binary" minOccurs="0" nillable="true"/>
      </xs:sequence>
    </xs:complexType>
  </xs:element>
</xs:schema>
"""

FULL = Order(
    id=10**20,
    customer="A & B",
    placed=datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    express=True,
    lead=timedelta(days=-1, microseconds=5),
    items=[Item("a", Decimal("0E-10")), Item("b", Decimal("-1.10"), "kg")],
    extra=Xml(b"<any><thing/></any>"),
    note="",
    codes=["x", None, ""],
    picture=None,
)
MINIMAL = Order(-1, "", datetime(2024, 1, 1, tzinfo=UTC), False, None, [])


@pytest.mark.parametrize("order", [FULL, MINIMAL], ids=["full", "minimal"])
def test_written_xml_is_valid_under_a_schema_of_the_same_shape(order: Order) -> None:
    schema = etree.XMLSchema(etree.fromstring(SCHEMA))
    document = etree.fromstring(to_xml(order, NS))
    assert schema.validate(document), schema.error_log
    assert document.find(f"{{{NS}}}items/{{{NS}}}sku") is not None or not order.items


def test_an_order_as_a_data_contract_serializer_writes_it() -> None:
    xml = b"""<?xml version="1.0" encoding="utf-8"?>
    <s:Order xmlns:s="urn:example:orders" xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:type="s:Order">
      <s:ExtensionData i:nil="true"/>
      <s:customer>ACME</s:customer>
      <s:express>true</s:express>
      <s:id>17</s:id>
      <s:items>
        <s:price>1.50</s:price>
        <s:sku>A1</s:sku>
      </s:items>
      <s:items unit="kg">
        <s:price>2</s:price>
        <s:sku>B2</s:sku>
      </s:items>
      <s:lead>P1DT12H</s:lead>
      <s:note i:nil="true"/>
      <s:picture i:nil="true"/>
      <s:placed>2024-01-02T03:04:05.1234567+01:00</s:placed>
    </s:Order>"""
    assert from_xml(xml, Order, NS, name="Order") == Order(
        id=17,
        customer="ACME",
        placed=datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=timezone(timedelta(hours=1))),
        express=True,
        lead=timedelta(days=1, hours=12),
        items=[Item("A1", Decimal("1.50")), Item("B2", Decimal(2), "kg")],
        picture=None,
    )


def test_members_in_a_namespace_of_their_own_are_read_by_local_names() -> None:
    xml = b"""<Order xmlns="urn:example:service">
      <b:id xmlns:b="urn:example:types">1</b:id><b:customer xmlns:b="urn:example:types">c</b:customer>
      <b:express xmlns:b="urn:example:types">0</b:express>
      <b:placed xmlns:b="urn:example:types">2024-01-01T00:00:00Z</b:placed></Order>"""
    assert from_xml(xml, Order, None, name="Order") == Order(1, "c", datetime(2024, 1, 1, tzinfo=UTC), False, None, [])


def test_an_order_as_older_stacks_write_it_with_unqualified_members() -> None:
    xml = b"""<ns1:Order xmlns:ns1="urn:example:orders" xmlns:xsd="http://www.w3.org/2001/XMLSchema"
        xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
        ><id xsi:type="xsd:integer"> 1 </id><customer xsi:type="xsd:string">c</customer
        ><placed>2024-01-01T00:00:00.000Z</placed><express>1</express><lead xsi:nil="1"/><note/><codes>a</codes
        ><codes xsi:nil="true"></codes><picture>
          AA
          ==
        </picture></ns1:Order>"""
    assert from_xml(xml, Order, NS, name="Order") == Order(
        1, "c", datetime(2024, 1, 1, tzinfo=UTC), True, None, [], note="", codes=["a", None], picture=b"\x00"
    )


# Values that no peer should send.


@dataclass
class Text:
    text: str


def refusal(xml: bytes) -> str:
    with pytest.raises(PayloadError) as caught:
        from_xml(xml, Text)
    return str(caught.value)


@pytest.mark.parametrize(
    "prolog",
    [
        b"<!DOCTYPE Text>",
        b'<!DOCTYPE Text [<!ENTITY a "b">]>',
        b'<!DOCTYPE Text SYSTEM "http://example.org/x.dtd">',
        b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- <Text/> --><?pi?>  <!DOCTYPE Text>',
        b"<!-- a -->" * 5000 + b"<!DOCTYPE Text>",
    ],
)
def test_a_document_type_is_refused_before_it_is_parsed(prolog: bytes) -> None:
    assert refusal(prolog + b"<Text><text>&a;</text></Text>") == "a document type is not accepted"


def test_looking_for_a_document_type_takes_no_time_even_when_it_is_searched_for_in_vain() -> None:
    for xml in (b"<!--" * 100_000, b"<!-- -->" * 50_000 + b"<!DOCTYP", b" " * 500_000, b"<??>" * 50_000):
        assert refusal(xml).startswith("not well-formed XML: ")


def test_a_document_type_as_text_is_only_text() -> None:
    xml = b"<Text><!--<!DOCTYPE a>--><text><![CDATA[<!DOCTYPE html><p>&x;</p>]]></text></Text>"
    assert from_xml(xml, Text) == Text("<!DOCTYPE html><p>&x;</p>")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_cannot_hide_a_document_type(encoding: str) -> None:
    xml = '<!DOCTYPE Text [<!ENTITY a "b">]><Text><text>&a;</text></Text>'.encode(encoding)
    assert refusal(xml) == "not well-formed XML: not in UTF-8"


@pytest.mark.parametrize(
    "xml",
    [
        b"",
        b" ",
        b"text",
        b"<Text>",
        b"<Text/><Text/>",
        b"<Text><text>&undefined;</text></Text>",
        b"<Text><text>&#0;</text></Text>",
        b"<Text><text>\x01</text></Text>",
        b"<Text><text>\xff</text></Text>",
        b'<?xml version="1.0" encoding="ISO-8859-1"?><Text><text>\xe4</text></Text>',
        b"<p:Text/>",
        b"<Text a='1' a='2'/>",
        b"<a>" * 300 + b"</a>" * 300,
        b"<Text></" + b"x" * 1000 + b">",
    ],
)
def test_malformed_xml_is_refused(xml: bytes) -> None:
    text = refusal(xml)
    assert text.startswith("not well-formed XML: ")
    assert len(text) < 250


def test_a_text_beyond_the_limit_is_refused() -> None:
    assert "too long" in refusal(b"<Text><text>" + b"x" * 10_000_001 + b"</text></Text>")


def test_long_names_do_not_make_long_errors() -> None:
    name = "x" * 10_000
    for xml in (f"<{name}/>", f"<Text><text><{name}/></text></Text>"):
        assert len(refusal(xml.encode())) < 300
    with pytest.raises(PayloadError, match=r"the element is x+[.]{3}, expected Text$"):
        from_xml(f"<{name}/>".encode(), Text, name="Text")


def test_nothing_outside_is_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    include = f'<i:include xmlns:i="http://www.w3.org/2001/XInclude" href="{secret.as_uri()}" parse="text"/>'
    text = refusal(f"<Text><text>{include}</text></Text>".encode())
    assert text == "Text/text: there is an element include where a value should be"
    stylesheet = f'<?xml-stylesheet href="{secret.as_uri()}"?><Text><text/></Text>'
    assert from_xml(stylesheet.encode(), Text) == Text("")
