"""Dataclasses to XML and back, as applications use them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Literal, NewType

import pytest

from mercury.errors import ConfigurationError, PayloadError
from mercury.wire import mapping
from mercury.wire.mapping import MAX_DEPTH, Attribute, Xml, element_name, from_xml, to_xml

NS = "urn:example:orders"

CustomerName = NewType("CustomerName", str)


class Priority(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclass
class Line:
    sku: str
    quantity: int = 1


@dataclass
class PlaceOrder:
    id: int
    customer: CustomerName
    lines: list[Line]
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    number: Annotated[int, Attribute()]
    carrier: Annotated[Literal["air", "sea"] | None, Attribute()] = None
    order_id: str = field(metadata={"name": "orderID"})
    priority: Priority = Priority.LOW
    tags: tuple[str, ...] = ()
    weight: Decimal | None = Decimal("1.0")
    packed: datetime | None = None
    label: str = field(init=False, default="made here")


@dataclass
class Everything:
    numbers: list[int | None] = field(default_factory=lambda: [1])
    flags: tuple[bool, ...] = (True,)
    any: Xml | None = None
    parts: list[Xml] = field(default_factory=list)


@dataclass
class Outer:
    inner: list[Everything]


@dataclass
class Tree:
    name: str
    branches: list[Tree] = field(default_factory=list)


@dataclass
class Texts:
    text: str
    other: str | None = None
    mark: Annotated[str, Attribute()] = ""


@dataclass
class Measured:
    value: float


@dataclass
class Nothing:
    pass


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("the number is odd")


ORDER = PlaceOrder(17, CustomerName("ACME"), [Line("A1"), Line("B2", 3)])
ORDER_XML = (
    b'<PlaceOrder xmlns="urn:example:orders"><id>17</id><customer>ACME</customer>'
    b"<lines><sku>A1</sku><quantity>1</quantity></lines><lines><sku>B2</sku><quantity>3</quantity></lines></PlaceOrder>"
)


def read(content: str, cls: type, namespace: str | None = NS) -> object:
    """What ``content`` in an element of the class's name and the namespace is read as."""
    return from_xml(f'<{cls.__name__} xmlns="{NS}">{content}</{cls.__name__}>'.encode(), cls, namespace)


def refusal(content: str, cls: type) -> str:
    with pytest.raises(PayloadError) as caught:
        read(content, cls)
    return str(caught.value)


def unwritable(value: object) -> str:
    with pytest.raises(PayloadError) as caught:
        to_xml(value, NS)
    return str(caught.value)


# Writing.


def test_an_order_is_written_in_the_order_of_its_fields_and_read_back() -> None:
    assert to_xml(ORDER, NS) == ORDER_XML
    assert from_xml(ORDER_XML, PlaceOrder, NS) == ORDER
    assert from_xml(ORDER_XML, PlaceOrder) == ORDER


def test_attributes_other_names_and_enumerations_find_their_way() -> None:
    shipment = Shipment(number=4, carrier="sea", order_id="o-1", priority=Priority.HIGH, tags=("x", "y"))
    xml = to_xml(shipment, "")
    assert xml == (
        b'<Shipment number="4" carrier="sea"><orderID>o-1</orderID><priority>2</priority>'
        b"<tags>x</tags><tags>y</tags><weight>1.0</weight></Shipment>"
    )
    assert from_xml(xml, Shipment, "") == shipment


def test_none_is_written_as_nil_only_where_absence_means_a_default() -> None:
    shipment = Shipment(number=4, order_id="o", weight=None, packed=None)
    xml = to_xml(shipment, NS)
    assert xml.count(b'xsi:nil="true"') == 1
    assert b"<packed" not in xml
    assert from_xml(xml, Shipment, NS) == shipment


def test_none_in_a_list_and_a_list_that_is_emptier_than_its_default_are_kept() -> None:
    for value in (Everything([None, 2, None], ()), Everything([], (False,))):
        assert from_xml(to_xml(value, NS), Everything, NS) == value


def test_a_field_that_is_not_in_the_constructor_is_neither_written_nor_read() -> None:
    assert b"label" not in to_xml(Shipment(number=1, order_id="o"), NS)
    xml = b'<Shipment number="1"><orderID>o</orderID><label>forged</label></Shipment>'
    assert from_xml(xml, Shipment).label == "made here"


def test_another_name_may_be_given_to_the_element() -> None:
    xml = to_xml(Nothing(), NS, "Ping")
    assert xml == b'<Ping xmlns="urn:example:orders"></Ping>'
    assert from_xml(xml, Nothing, NS, name="Ping") == Nothing()


def test_the_namespace_is_escaped() -> None:
    assert to_xml(Nothing(), "urn:a?x=1&y=2").startswith(b'<Nothing xmlns="urn:a?x=1&amp;y=2">')


@pytest.mark.parametrize("namespace", ["not a uri", "urn:\x01", "http://www.w3.org/2000/xmlns/"])
def test_a_namespace_that_no_reader_would_accept_is_a_mistake_of_the_program(namespace: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the namespace .* cannot stand in XML"):
        to_xml(ORDER, namespace)


@pytest.mark.parametrize("name", ["", "two words", "p:Order", "1st", 'a b="c"'])
def test_a_name_that_is_none_in_xml_is_a_mistake_of_the_program(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a name in XML"):
        to_xml(ORDER, NS, name)


def test_every_character_of_a_text_survives() -> None:
    text = " \t\r\n a\r\nb\rc \u0085\u2028 <&>\"']]> \U0001f600 \ufdd0"
    value = Texts(text, other="", mark=text)
    xml = to_xml(value, NS)
    assert b"&#13;" in xml
    assert from_xml(xml, Texts, NS) == value


def test_illegal_characters_are_refused_with_the_path() -> None:
    order = PlaceOrder(1, CustomerName("x"), [Line("ok"), Line("a\x00b")])
    assert unwritable(order) == ("PlaceOrder/lines[2]/sku: the character U+0000 at position 1 cannot be written in XML")
    assert "Texts/mark: the character U+FFFE" in unwritable(Texts("", mark="\ufffe"))
    assert "Texts/text: the character U+D800" in unwritable(Texts("\ud800"))


def test_values_of_another_type_than_their_field_are_refused() -> None:
    assert unwritable(Line("a", "3")) == "Line/quantity: expected int, not str '3'"  # type: ignore[arg-type]
    assert unwritable(Line("a", True)) == "Line/quantity: expected int, not bool True"
    assert unwritable(Line(None)) == "Line/sku: expected str, not NoneType None"  # type: ignore[arg-type]
    assert "Shipment/number: expected int, not NoneType" in unwritable(Shipment(number=None, order_id=""))  # type: ignore[arg-type]
    assert "PlaceOrder/lines: expected list, not tuple" in unwritable(PlaceOrder(1, CustomerName(""), ()))  # type: ignore[arg-type]
    assert "Shipment/carrier: expected one of 'air', 'sea', not str 'mud'" in unwritable(
        Shipment(number=1, order_id="", carrier="mud")  # type: ignore[arg-type]
    )


def test_a_subclass_is_refused_where_its_fields_would_be_lost() -> None:
    @dataclass
    class GiftLine(Line):
        ribbon: str = "red"

    order = PlaceOrder(1, CustomerName(""), [Line("a"), GiftLine("b")])
    assert unwritable(order).startswith("PlaceOrder/lines[2]: expected exactly Line, not GiftLine")


def test_an_integer_may_stand_for_a_float_unless_it_is_too_large() -> None:
    assert from_xml(to_xml(Measured(2), NS), Measured, NS) == Measured(2.0)
    assert "Measured/value: 1000" in unwritable(Measured(10**400))


def test_only_dataclasses_are_written() -> None:
    with pytest.raises(ConfigurationError, match="int is not a dataclass"):
        to_xml(17, NS)
    with pytest.raises(ConfigurationError, match=r"PlaceOrder.* is not a dataclass"):
        element_name(ORDER)  # type: ignore[arg-type]
    assert element_name(PlaceOrder) == "PlaceOrder"


def test_trees_may_be_nested_to_the_limit_and_no_deeper() -> None:
    tree = Tree("leaf")
    for _ in range(MAX_DEPTH - 1):
        tree = Tree("x", [tree])
    xml = to_xml(tree, NS)
    assert from_xml(xml, Tree, NS) == tree
    text = unwritable(Tree("x", [tree]))
    assert text.startswith("Tree/branches[1]/branches[1]/branches[1]/.../branches[1]")
    assert text.endswith(f": nested deeper than {MAX_DEPTH}")
    deeper = b'<Tree xmlns="urn:example:orders"><name>x</name>' + xml.replace(b"Tree", b"branches") + b"</Tree>"
    with pytest.raises(PayloadError, match=f"nested deeper than {MAX_DEPTH}"):
        from_xml(deeper, Tree, NS)


def test_an_object_that_holds_itself_is_refused() -> None:
    tree = Tree("x")
    tree.branches.append(tree)
    assert "nested deeper" in unwritable(tree)


# Raw XML.


def test_raw_xml_keeps_its_namespaces_comments_and_text() -> None:
    raw = Xml(b'text &amp; <a x="p:q" xmlns:p="urn:p">1</a><!-- c --><?pi x?><b xmlns="urn:b"><c xmlns=""/></b> tail')
    xml = to_xml(Everything(any=raw), NS)
    assert raw in xml
    again = from_xml(xml, Everything, NS).any
    assert again is not None
    assert again.startswith(b"text &amp; <a ")
    assert b"<!-- c --><?pi x?><b " in again
    assert again.endswith(b" tail")
    # An element without a namespace has not fallen into that of the payload, nor does it the second time.
    assert b'xmlns=""' in again
    assert from_xml(to_xml(Everything(any=again), NS), Everything, NS).any == again


def test_raw_xml_brings_the_declarations_it_needs_from_around_it() -> None:
    xml = b'<m:Everything xmlns:m="urn:example:orders" xmlns:p="urn:p"><m:any><p:a/></m:any></m:Everything>'
    raw = from_xml(xml, Everything, NS).any
    assert raw is not None
    assert b'xmlns:p="urn:p"' in raw
    assert raw in to_xml(Everything(any=raw), NS)


def test_raw_xml_in_a_class_of_a_field_is_read() -> None:
    raw = Xml(b'<a xmlns="urn:a"/>')
    again = from_xml(to_xml(Outer([Everything(any=raw)]), NS), Outer, NS).inner[0].any
    assert again is not None
    assert again.startswith(b'<a xmlns="urn:a"')


def test_raw_xml_may_be_empty_or_absent_or_many_or_in_no_namespace() -> None:
    for value in (Everything(any=Xml(b"")), Everything(parts=[Xml(b"<a></a>"), Xml(b"")]), Everything()):
        again = from_xml(to_xml(value, ""), Everything, "")
        assert again.any == value.any
        assert len(again.parts) == len(value.parts)
    assert to_xml(Everything([], (), any=Xml(b"<a/>")), "") == b"<Everything><any><a/></any></Everything>"


@pytest.mark.parametrize(
    "raw",
    [
        b"<a>",
        b"</x><x>",
        b"</any>",
        b"<p:a/>",
        b"\xff",
        b"<?xml version='1.0'?><a/>",
        b"<!DOCTYPE a><a/>",
        b"&x;",
        b"\0",
    ],
)
def test_raw_xml_that_is_not_well_formed_by_itself_is_refused(raw: bytes) -> None:
    assert unwritable(Everything(any=Xml(raw))).startswith("Everything/any: ")


def test_plain_bytes_are_not_taken_for_raw_xml() -> None:
    assert "expected Xml, not bytes b'<a/>'" in unwritable(Everything(any=b"<a/>"))  # type: ignore[arg-type]
    assert repr(Xml(b"<a/>")) == "Xml(b'<a/>')"


# Reading.


def test_elements_come_in_any_order_and_unknown_ones_are_passed_over() -> None:
    content = """
        <note>n</note> <!-- hm --> <lines color="red"><quantity> 2 </quantity><sku>A</sku></lines> <new><id>5</id></new>
        <customer>c</customer> stray text <lines><sku>B</sku></lines> <id>1</id> <x:id xmlns:x="urn:other">9</x:id>"""
    assert read(content, PlaceOrder) == PlaceOrder(1, CustomerName("c"), [Line("A", 2), Line("B")], "n")


def test_unqualified_elements_are_read_where_no_qualified_one_is() -> None:
    assert read('<sku xmlns="">a</sku><quantity xmlns="">2</quantity>', Line) == Line("a", 2)
    assert read('<sku xmlns="">a</sku><sku>b</sku>', Line) == Line("b")
    assert read('<sku>b</sku><sku xmlns="">a</sku>', Line) == Line("b")
    assert refusal('<sku xmlns="">a</sku><sku xmlns="">b</sku>', Line) == "Line/sku: there is more than one"


def test_another_namespace_is_read_only_when_none_is_given() -> None:
    content = '<x:sku xmlns:x="urn:other">a</x:sku>'
    assert refusal(content, Line) == f"Line/sku: missing; there is {{urn:other}}sku, expected {{{NS}}}sku"
    assert read(content, Line, None) == Line("a")
    with pytest.raises(PayloadError, match="Line/sku: missing"):
        read(content, Line, "")


def test_absent_member_gets_its_default_none_or_an_empty_list() -> None:
    assert read("<id>1</id><customer/>", PlaceOrder) == PlaceOrder(1, CustomerName(""), [], None)
    xml = b'<Shipment number="1"><orderID/></Shipment>'
    assert from_xml(xml, Shipment) == Shipment(number=1, order_id="")


def test_missing_element_is_named_with_its_path() -> None:
    text = refusal("<id>1</id><customer/><lines><sku/></lines><lines><quantity>1</quantity></lines>", PlaceOrder)
    assert text == "PlaceOrder/lines[2]/sku: missing"
    assert refusal("<orderID/>", Shipment) == "Shipment/@number: missing"


def test_element_in_place_of_a_missing_one_is_named() -> None:
    assert refusal("<SKU>a</SKU>", Line) == f"Line/sku: missing; there is {{{NS}}}SKU, expected {{{NS}}}sku"
    assert refusal(f"<{'x' * 300}/><!-- sku --><skus/>", Line) == "Line/sku: missing"
    with pytest.raises(PayloadError, match=r"^Line/sku: missing; there is Sku, expected sku$"):
        read('<Sku xmlns="">a</Sku>', Line, None)


def test_a_repeated_value_is_refused() -> None:
    assert refusal("<sku>a</sku><sku>a</sku>", Line) == "Line/sku: there is more than one"


def test_a_wrong_value_is_named_with_its_path_and_its_beginning() -> None:
    text = refusal("<id>1</id><customer/><lines><sku/><quantity>two</quantity></lines>", PlaceOrder)
    assert text == "PlaceOrder/lines[1]/quantity: 'two' is not a valid xs:integer"
    text = refusal(f"<sku/><quantity>{'9x' * 1000}</quantity>", Line)
    assert text == f"Line/quantity: '{'9x' * 20}'... is not a valid xs:integer"
    with pytest.raises(PayloadError, match=r"^Shipment/@number: 'x' is not a valid xs:integer$"):
        from_xml(b'<Shipment number="x"/>', Shipment)
    with pytest.raises(PayloadError, match=r"^Shipment/@carrier: 'mud' is not one of 'air', 'sea'$"):
        from_xml(b'<Shipment number="1" carrier="mud"/>', Shipment)


def test_elements_where_a_value_should_be_are_refused_but_comments_are_not() -> None:
    assert refusal("<sku>a<b/></sku>", Line) == "Line/sku: there is an element b where a value should be"
    assert read("<sku>a<!-- x -->b<?pi?>c</sku>", Line) == Line("abc")


def test_nil_is_none_and_nothing_else() -> None:
    nil = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil'
    assert read(f'<text/><other {nil}="true"/>', Texts) == Texts("", None)
    assert read(f'<text/><other {nil}=" 1 "> </other>', Texts) == Texts("", None)
    assert read(f'<text/><other {nil}="false"/>', Texts) == Texts("", "")
    assert refusal(f'<text {nil}="true"/>', Texts) == "Texts/text: nil, but there must be a value"
    with pytest.raises(PayloadError, match=r"^Nothing: nil, but there must be a value$"):
        from_xml(f'<Nothing {nil}="true"/>'.encode(), Nothing)


def test_a_class_may_refuse_the_values_it_is_given() -> None:
    assert refusal("<number>3</number>", Even) == "Even: Even refuses the values: the number is odd"


def test_the_name_of_the_element_is_checked_when_given() -> None:
    other = ORDER_XML.replace(b"PlaceOrder", b"Order")
    assert from_xml(other, PlaceOrder, NS) == ORDER
    with pytest.raises(PayloadError) as caught:
        from_xml(other, PlaceOrder, NS, name="PlaceOrder")
    assert str(caught.value) == f"the element is {{{NS}}}Order, expected {{{NS}}}PlaceOrder"
    with pytest.raises(PayloadError, match="the element is"):
        from_xml(ORDER_XML, PlaceOrder, "urn:other", name="PlaceOrder")
    assert from_xml(ORDER_XML, PlaceOrder, None, name="PlaceOrder") == ORDER
    assert from_xml(b"<Line><sku/></Line>", Line, NS, name="Line") == Line("")


def test_an_error_of_reading_keeps_its_cause_and_is_a_payload_error() -> None:
    with pytest.raises(PayloadError) as caught:
        read("<sku/><quantity>two</quantity>", Line)
    assert caught.value.__cause__ is not None


def test_a_text_that_python_cannot_take_as_a_number_is_refused() -> None:
    assert "is not a valid xs:integer" in refusal(f"<sku/><quantity>{'9' * 5000}</quantity>", Line)
    assert "cannot be written as xs:integer" in unwritable(Line("", 10**5000))


def test_times_with_a_zone_are_written_in_utc_form() -> None:
    value = Shipment(number=1, order_id="", packed=datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert b"<packed>2024-01-02T03:04:05Z</packed>" in to_xml(value, NS)


def test_the_public_names_are_sorted_and_exist() -> None:
    names = mapping.__all__
    assert sorted(names) == names
    assert all(hasattr(mapping, name) for name in names)
