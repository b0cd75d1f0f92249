"""Every object that can be written is read back equal: values of one large class, and of generated classes."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lxml import etree

from mercury.errors import PayloadError
from mercury.wire.mapping import Attribute, Xml, check_type, from_xml, to_xml

NS = "urn:example:any"


class Color(enum.Enum):
    RED = "red"
    SPACED = " two  words\n"
    EMPTY = ""


class Level(enum.IntEnum):
    LOW = -1
    HIGH = 10**20


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: Decimal = Decimal(0)
    label: Annotated[str, Attribute()] = "origin"


@dataclass
class Rich:
    number: int
    text: str
    ratio: float
    flag: bool
    amount: Decimal
    data: bytes
    day: date
    moment: datetime
    clock: time
    length: timedelta
    key: UUID
    color: Color
    level: Level
    choice: Literal["a", " b "]
    point: Point
    points: list[Point]
    names: tuple[str, ...]
    gaps: list[int | None]
    note: str | None = None
    nil_text: str | None = "default"
    nil_point: Point | None = field(default_factory=lambda: Point(1.0))
    self_: Rich | None = None
    mark: Annotated[str | None, Attribute()] = None
    count: Annotated[int, Attribute()] = 3


ALLOWED = st.characters(codec="utf-8", exclude_characters="\ufffe\uffff", min_codepoint=32) | st.sampled_from(
    "\t\r\n&<>\"'"
)
TEXTS = st.text(ALLOWED)
ZONES = st.none() | st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
ODD_ZONES = st.integers(-86399, 86399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False) | st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(), st.integers(-200, 200)
)
FLOATS = st.floats(allow_nan=False)
MOMENTS = st.datetimes(timezones=ZONES) | st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001
    max_value=datetime(9998, 1, 1),  # noqa: DTZ001
    timezones=ODD_ZONES,
)
POINTS = st.builds(Point, FLOATS, DECIMALS, TEXTS)

SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    str: TEXTS,
    float: FLOATS,
    bool: st.booleans(),
    Decimal: DECIMALS,
    bytes: st.binary(),
    date: st.dates(),
    datetime: MOMENTS,
    time: st.times(timezones=ZONES),
    timedelta: st.timedeltas(),
    UUID: st.uuids(),
    Color: st.sampled_from(Color),
    Level: st.sampled_from(Level),
    Literal["a", " b "]: st.sampled_from(["a", " b "]),
}

RICH = st.recursive(
    st.none(),
    lambda inner: st.builds(
        Rich,
        **{each.name: strategy for each, strategy in zip(dataclasses.fields(Rich), SCALARS.values(), strict=False)},
        point=POINTS,
        points=st.lists(POINTS, max_size=3),
        names=st.lists(TEXTS, max_size=3).map(tuple),
        gaps=st.lists(st.none() | st.integers(), max_size=4),
        note=st.none() | TEXTS,
        nil_text=st.none() | TEXTS,
        nil_point=st.none() | POINTS,
        self_=inner,
        mark=st.none() | TEXTS,
        count=st.integers(),
    ),
    max_leaves=3,
).filter(lambda value: value is not None)


@given(RICH)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
def test_a_rich_value_is_read_back_equal(value: Rich) -> None:
    xml = to_xml(value, NS)
    assert from_xml(xml, Rich, NS, name="Rich") == value
    assert from_xml(xml, Rich) == value


@st.composite
def shapes(draw: st.DrawFn) -> Any:
    """An object of a dataclass with fields of any types, each optional, repeated, an attribute or with a default."""
    specification: list[tuple[str, Any, Any]] = []
    values: dict[str, Any] = {}
    for number in range(draw(st.integers(0, 6))):
        name = f"f{number}"
        hint, strategy = draw(st.sampled_from([*SCALARS.items(), (Point, POINTS)]))
        shape = draw(st.sampled_from(["plain", "optional", "list", "tuple", "gaps", "attribute"]))
        default: Any = dataclasses.MISSING
        if shape == "optional":
            hint, strategy = hint | None, st.none() | strategy
        elif shape == "attribute" and hint is not Point:
            hint = Annotated[hint, Attribute()]
        elif shape in ("list", "gaps"):
            strategy = strategy if shape == "list" else st.none() | strategy
            hint, strategy = list[hint if shape == "list" else hint | None], st.lists(strategy, max_size=3)
        elif shape == "tuple":
            hint, strategy = tuple[hint, ...], st.lists(strategy, max_size=3).map(tuple)
        if draw(st.booleans()):
            default = draw(strategy)
        values[name] = draw(strategy)
        options: dict[str, Any] = {"metadata": {"name": draw(st.sampled_from([name, f"xml-{name}", f"Ä{name}"]))}}
        if default is not dataclasses.MISSING:
            options["default_factory"] = lambda default=default: default
        specification.append((name, hint, field(**options)))
    cls = dataclasses.make_dataclass(
        "Shape", specification, kw_only=True, frozen=draw(st.booleans()), slots=draw(st.booleans())
    )
    return cls(**values)


@given(shapes(), st.sampled_from(["", NS, "http://example.org/a?b=1&c=2"]))
@settings(deadline=None)
def test_a_value_of_any_shape_is_read_back_equal(value: Any, namespace: str) -> None:
    cls = type(value)
    check_type(cls)
    assert from_xml(to_xml(value, namespace), cls, namespace) == value


@dataclass
class Text:
    text: str
    mark: Annotated[str, Attribute()] = ""


@given(st.text(st.characters()), st.text(st.characters()))
@settings(deadline=None)
@example("\x00", "")
@example("", "\ud800")
def test_a_text_is_written_exactly_or_refused(text: str, mark: str) -> None:
    value = Text(text, mark)
    try:
        xml = to_xml(value, NS)
    except PayloadError:
        try:
            etree.Element("x", mark=mark).text = text
        except (ValueError, UnicodeEncodeError):
            return  # the XML library refuses it as well
        raise
    assert from_xml(xml, Text, NS) == value


@dataclass
class Raw:
    any: Xml


ELEMENTS = st.recursive(
    st.builds(lambda text: text.replace("&", "").replace("<", "").replace(">", "").replace("\r", ""), TEXTS),
    lambda inner: st.builds(
        lambda tag, content: f"<{tag}>{''.join(content)}</{tag.split()[0]}>",
        st.sampled_from(["a", 'b xmlns="urn:b"', 'c xmlns=""', 'p:d xmlns:p="urn:p"', 'm:e xmlns:m="urn:m"']),
        st.lists(inner, max_size=3),
    ),
    max_leaves=10,
)


@given(ELEMENTS, st.sampled_from(["", NS]))
@settings(deadline=None)
def test_raw_xml_means_the_same_after_a_journey(content: str, namespace: str) -> None:
    value = Raw(Xml(content.encode()))
    again = from_xml(to_xml(value, namespace), Raw, namespace)
    assert canonical(again.any) == canonical(value.any)


def canonical(raw: bytes) -> str:
    """With only those declarations of namespaces that are used."""
    return etree.canonicalize(f"<x>{raw.decode()}</x>", with_comments=True)


@given(st.binary())
@settings(deadline=None)
@example(b"<Rich/>")
def test_no_bytes_lead_to_another_error(xml: bytes) -> None:
    with pytest.raises(PayloadError):
        from_xml(xml, Rich)


@given(st.sampled_from([each.name for each in dataclasses.fields(Rich)]), TEXTS)
@settings(deadline=None)
def test_no_value_leads_to_another_error(name: str, text: str) -> None:
    element = etree.Element("Rich")
    child = etree.SubElement(element, name)
    child.text = text
    with pytest.raises(PayloadError, match=r"^Rich/"):
        from_xml(etree.tostring(element), Rich)
