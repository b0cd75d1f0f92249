"""The payloads of objects: their form is checked once for each class, and is that of `check_payload`."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest

from mercury.errors import PayloadError
from mercury.wire import DEFAULT_LIMITS, check_payload
from mercury.wire.bodies import write_body
from mercury.wire.mapping import Attribute, Xml, to_xml
from mercury.wire.mapping_plan import has_single_values

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
