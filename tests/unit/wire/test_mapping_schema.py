"""The schema of a class accepts the XML of its objects, and no XML that the reader refuses."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from mercury.errors import ConfigurationError, PayloadError
from mercury.wire.attachment import Attachment
from mercury.wire.mapping import Attribute, Xml, from_xml, to_xml
from mercury.wsdl.schema import schema_of

from .test_mapping_roundtrip import ELEMENTS, NS, RICH, Raw, Rich, shapes

XS = "{http://www.w3.org/2001/XMLSchema}"


def schema(cls: type[Any], namespace: str = NS) -> etree.XMLSchema:
    return etree.XMLSchema(schema_of(namespace, {cls.__name__: cls}))


def errors(xml: bytes, cls: type[Any], namespace: str = NS) -> list[str]:
    checked = schema(cls, namespace)
    checked.validate(etree.fromstring(xml))
    return [each.message for each in checked.error_log]


@given(RICH)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
def test_a_rich_value_is_valid_by_the_schema_of_its_class(value: Rich) -> None:
    assert errors(to_xml(value, NS), Rich) == []


@given(shapes(), st.sampled_from(["", NS, "http://example.org/a?b=1&c=2"]))
@settings(deadline=None)
def test_a_value_of_any_shape_is_valid_by_the_schema_of_its_class(value: Any, namespace: str) -> None:
    assert errors(to_xml(value, namespace), type(value), namespace) == []


@given(ELEMENTS, st.sampled_from(["", NS]))
@settings(deadline=None)
def test_raw_xml_is_valid_whatever_it_is(content: str, namespace: str) -> None:
    assert errors(to_xml(Raw(Xml(content.encode())), namespace), Raw, namespace) == []


ZERO = UUID(int=0)


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Rank(enum.IntEnum):
    FIRST = 1


@dataclass
class Inner:
    size: Size


@dataclass
class Small:
    number: int
    mark: Annotated[int, Attribute()]
    size: Size = Size.SMALL
    rank: Rank = Rank.FIRST
    word: Literal["a", "b"] = "a"
    key: UUID = ZERO
    length: timedelta = timedelta(0)
    inner: Inner | None = None
    other: list[Inner | None] = ()  # type: ignore[assignment]
    nil: int | None = 5


def document(content: str, mark: str = 'mark="1"') -> bytes:
    return (
        f'<Small xmlns="{NS}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" {mark}>{content}</Small>'.encode()
    )


@pytest.mark.parametrize(
    "content",
    [
        "<number>1</number>",
        "<number> 1 </number><size>l</size>",
        f"<number>1</number><key>{UUID(int=5)}</key><length>P1DT2H3M4.5S</length>",
        '<number>1</number><other xsi:nil="true"/><other><size>s</size></other><nil xsi:nil="true"/>',
    ],
)
def test_a_document_that_is_valid_is_read(content: str) -> None:
    xml = document(content)
    assert errors(xml, Small) == []
    assert from_xml(xml, Small, NS, name="Small").number == 1


@pytest.mark.parametrize(
    "xml",
    [
        document(""),
        document("<number>1</number>", mark=""),
        document("<number>1</number>", mark='mark="x"'),
        document("<number>x</number>"),
        document('<number xsi:nil="true"/>'),
        document("<number>1</number><number>1</number>"),
        document("<number>1</number><size>xl</size>"),
        document("<number>1</number><rank>2</rank>"),
        document("<number>1</number><word>c</word>"),
        document("<number>1</number><key>5</key>"),
        document("<number>1</number><length>P1Y</length>"),
        document("<number>1</number><length>P1M</length>"),
        document("<number>1</number><inner/>"),
    ],
)
def test_a_document_that_is_not_read_is_not_valid(xml: bytes) -> None:
    with pytest.raises(PayloadError):
        from_xml(xml, Small, NS, name="Small")
    assert errors(xml, Small) != []


def test_a_field_with_a_default_may_be_absent_and_one_without_must_be_there() -> None:
    root = schema_of(NS, {"Small": Small})
    (small,) = (each for each in root.iter(f"{XS}complexType") if each.get("name") == "Small")
    occurs = {
        each.get("name"): (each.get("minOccurs"), each.get("maxOccurs"), each.get("nillable"))
        for each in small.iter(f"{XS}element")
    }
    assert occurs["number"] == (None, None, None)
    assert occurs["inner"] == ("0", None, None)
    assert occurs["other"] == ("0", "unbounded", "true")
    assert occurs["nil"] == ("0", None, "true")
    assert [each.get("use") for each in small.iter(f"{XS}attribute")] == ["required"]


def test_an_enumeration_is_one_type_however_often_it_is_used() -> None:
    root = schema_of(NS, {"Small": Small})
    assert [each.get("name") for each in root.iterchildren(f"{XS}simpleType")] == ["Size", "Rank"]


def test_classes_of_the_same_name_are_types_of_different_names() -> None:
    @dataclass
    class Other:
        here: int

    Other.__name__ = "Inner"

    @dataclass
    class Both:
        one: Inner
        other: Other

    Both.__annotations__ = {"one": Inner, "other": Other}
    root = schema_of(NS, {"Both": Both})
    assert [each.get("name") for each in root.iterchildren(f"{XS}complexType")] == ["Both", "Inner", "Inner2"]
    assert errors(to_xml(Both(Inner(Size.LARGE), Other(1)), NS), Both) == []


def test_a_pydantic_model_has_a_schema_with_its_aliases() -> None:
    class Order(pydantic.BaseModel):
        number: int = pydantic.Field(alias="orderNumber")
        note: str | None = None

    assert errors(to_xml(Order(orderNumber=3), NS), Order) == []
    assert errors(b'<Order xmlns="%b"><number>3</number></Order>' % NS.encode(), Order) != []


def test_a_value_that_xml_cannot_carry_has_no_schema() -> None:
    class Bad(enum.Enum):
        BELL = "\a"

    made: Any = dataclass(type("Broken", (), {"__annotations__": {"bad": Bad}}))
    with pytest.raises(ConfigurationError, match="no schema can be written"):
        schema_of(NS, {"Broken": made})


def test_an_element_of_raw_xml_may_have_any_content() -> None:
    made = etree.XMLSchema(schema_of(NS, {"Anything": bytes}))
    assert made.validate(etree.fromstring(f'<Anything xmlns="{NS}"><x xmlns="urn:y">text</x></Anything>'))
    assert not made.validate(etree.fromstring(f'<Something xmlns="{NS}"/>'))


def test_attachment_is_base64_in_the_schema() -> None:
    @dataclass
    class Scan:
        image: Attachment
        others: list[Attachment]

    (element,) = [each for each in schema_of(NS, {"Scan": Scan}).iter(XS + "element") if each.get("name") == "image"]
    assert element.get("type") == "xs:base64Binary"
    assert errors(to_xml(Scan(Attachment(b"1"), [Attachment(b"2")]), NS), Scan) == []
