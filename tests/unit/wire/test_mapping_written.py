"""Elements that `to_xml` wrote are read without a parser, and mean exactly what a parser finds in them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mercury.errors import PayloadError
from mercury.wire.mapping import Attribute, from_xml, to_xml
from mercury.wire.mapping_written import MOST_BYTES, written_anywhere, written_values

NS = "urn:example:a.b&c"


@dataclass
class Row:
    number: int
    text: str
    note: str | None = None
    amount: Decimal | None = Decimal(1)
    count: int = 3


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


class Unreadable(ValueError):
    def __str__(self) -> str:
        raise self


@dataclass
class Silent:
    """It refuses values by an error without a text."""

    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise Unreadable


@dataclass
class Marked:
    text: str
    mark: Annotated[str, Attribute()]


@dataclass
class Several:
    texts: list[str]


def by_parser(xml: bytes, cls: type[Any], namespace: str = NS) -> object:
    """What the parser reads: an element behind a comment is not as it was written."""
    try:
        return from_xml(b"<!---->" + xml, cls, namespace, name=cls.__name__)
    except PayloadError as error:
        return str(error).partition(": line")[0]


def read(xml: bytes, cls: type[Any], namespace: str = NS) -> object:
    try:
        return from_xml(xml, cls, namespace, name=cls.__name__)
    except PayloadError as error:
        return str(error).partition(": line")[0]


WRITTEN = [
    Row(17, "x" * 300),
    Row(-1, "", note=""),
    Row(0, " é \t\n \U0001f600 \ud7ff\ue000\ufffd ", note="\n", amount=Decimal("1.50")),
]


@pytest.mark.parametrize("row", WRITTEN)
@pytest.mark.parametrize("namespace", ["", NS])
def test_an_element_as_it_is_written_needs_no_parser(row: Row, namespace: str) -> None:
    xml = to_xml(row, namespace)
    assert written_values(xml, Row, namespace, "Row") == vars(row)
    assert read(xml, Row, namespace) == by_parser(xml, Row, namespace) == row


@pytest.mark.parametrize(
    "xml",
    [
        to_xml(Row(1, "x", amount=None), NS),
        to_xml(Row(1, "a&b"), NS),
        to_xml(Row(1, "a\rb"), NS),
        to_xml(Row(1, "x"), "urn:example:other"),
        to_xml(Row(1, "x"), NS, "Other"),
        to_xml(Row(1, "x" * MOST_BYTES), NS),
        to_xml(Row(1, "x"), NS) + b" ",
        to_xml(Row(1, "x"), NS).replace(b"<count>3</count>", b""),
        to_xml(Row(1, "x"), NS).replace(b"<count>3</count>", b"<count>3</count><count>4</count>"),
        to_xml(Row(1, "x"), NS).replace(b"<amount>1</amount>", b""),
        to_xml(Row(1, "x"), NS).replace(b"<text>", b'<text xmlns="urn:x">'),
        to_xml(Row(1, "x"), NS).replace(b">1<", b">one<"),
    ],
)
def test_everything_else_is_left_to_the_parser(xml: bytes) -> None:
    assert written_values(xml, Row, NS, "Row") is None
    assert read(xml, Row) == by_parser(xml, Row)


def test_classes_with_attributes_or_lists_and_odd_namespaces_are_left_to_the_parser() -> None:
    assert written_values(to_xml(Marked("x", "m"), NS), Marked, NS, "Marked") is None
    unmarked = to_xml(Marked("x", "m"), NS).replace(b' mark="m"', b"")
    assert read(unmarked, Marked) == by_parser(unmarked, Marked) == "Marked/@mark: missing"
    assert written_values(to_xml(Several(["x"]), NS), Several, NS, "Several") is None
    assert written_values(b"<Row/>", Row, "\0", "Row") is None


def test_values_that_the_class_refuses_are_refused_as_they_are_after_the_parser() -> None:
    assert read(to_xml(Even(2), NS), Even) == Even(2)
    xml = to_xml(Even(2), NS).replace(b"2", b"3")
    assert read(xml, Even) == by_parser(xml, Even) == "Even: Even refuses the values: 3 is odd"


def test_class_that_refuses_values_by_an_error_without_a_text_is_named() -> None:
    xml = to_xml(Silent(2), NS).replace(b"2", b"3")
    assert read(xml, Silent) == by_parser(xml, Silent)
    assert read(xml, Silent) == "Silent: Silent refuses the values: (its text cannot be read)"


# --- any name in any namespace, as callbacks read responses -----------------------------------------------------------


def anywhere(xml: bytes, cls: type[Any], before: bytes = b"") -> object:
    """What a callback reads.

    :param before: a comment, so that a parser reads it.
    """
    try:
        return from_xml(before + xml, cls)
    except PayloadError as error:
        return str(error).partition(": line")[0].partition(", column")[0]


@pytest.mark.parametrize("row", WRITTEN)
@pytest.mark.parametrize("namespace", ["", "urn:example:a.b", "http://example.org/rows?x=(1)#y"])
@pytest.mark.parametrize("name", ["Row", "placed-row.2"])
def test_an_element_of_any_name_needs_no_parser_as_it_is_written(row: Row, namespace: str, name: str) -> None:
    xml = to_xml(row, namespace, name)
    assert written_anywhere(xml, Row) == (name, vars(row))
    assert anywhere(xml, Row) == anywhere(xml, Row, b"<!---->") == row


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"<Row xmlns", b'<Row xmlns:p="urn:p" xmlns'),
        (b"<Row xmlns", b'<Row a="b" xmlns'),
        (b"<Row xmlns", b"<p:Row xmlns"),
        (b"</Row>", b"</Other>"),
        (b"</Row>", b"</Row><Row/>"),
        (b"urn:there", b"a&amp;b"),
        (b"urn:there", b"a&b"),
        (b"urn:there", b"a}b"),
        (b"urn:there", b"a<b"),
        (b"urn:there", b"http://www.w3.org/XML/1998/namespace"),
        (b"urn:there", b"http://www.w3.org/2000/xmlns/"),
        (b"urn:there", b"urn:\xc3\xa9"),
        (b"urn:there", b""),
        (b"<text>x</text>", b""),
        (b"<text>x</text>", b"<p:text xmlns:p='urn:p'>x</p:text>"),
        (b"<number>", b'<number xmlns="urn:other">'),
        (b"<Row xmlns", b"<2Row xmlns"),
        (b">1<", b">one<"),
        (b">x<", b">" + b"x" * MOST_BYTES + b"<"),
    ],
)
def test_every_other_element_is_left_to_the_parser_that_reads_or_refuses_it(before: bytes, after: bytes) -> None:
    xml = to_xml(Row(1, "x"), "urn:there")
    assert before in xml
    changed = xml.replace(before, after)
    assert written_anywhere(changed, Row) is None
    assert anywhere(changed, Row) == anywhere(changed, Row, b"<!---->")


def test_classes_that_need_a_parser_need_it_for_elements_of_any_name() -> None:
    assert written_anywhere(to_xml(Marked("x", "m"), NS), Marked) is None
    unmarked = to_xml(Marked("x", "m"), NS).replace(b' mark="m"', b"")
    assert anywhere(unmarked, Marked) == anywhere(unmarked, Marked, b"<!---->") == "Marked/@mark: missing"
    assert written_anywhere(to_xml(Several(["x"]), NS), Several) is None


def test_error_names_the_element_as_it_is_named_there() -> None:
    xml = to_xml(Even(2), "urn:there", "placed").replace(b"2", b"3")
    assert anywhere(xml, Even) == anywhere(xml, Even, b"<!---->") == "placed: Even refuses the values: 3 is odd"


#: Pieces of texts that a parser changes, refuses, or reads as something else.
ODD = [b"&amp;", b"&#13;", b"\r", b"\r\n", b"]]>", b">", b"<![CDATA[x]]>", b"<!--x-->", b"<?x?>", b"</text><text>"]
INVALID = [
    b"&",
    b"<",
    b"\0",
    b"\x0b",
    b"\x1f",
    b"\x7f",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbf\xbe",
    b"\xef\xbf\xbf",
    b"\xc0\xaf",
]


@given(
    text=st.lists(
        st.sampled_from([*ODD, *INVALID]) | st.text(max_size=3).map(lambda text: text.encode(errors="replace"))
    ).map(b"".join)
    | st.binary(max_size=8),
    number=st.sampled_from([b"1", b" 1\n", b"+1", b"", b"1.0", b"\xd9\xa1", b"&#49;"]),
)
@example(text=b"a]]>b", number=b"1")
@example(text=b"a\rb", number=b"1")
@example(text=b"\xef\xbf\xbf", number=b"1")
def test_any_text_means_what_a_parser_finds_in_it(text: bytes, number: bytes) -> None:
    xml = to_xml(Row(1, "TEXT"), NS).replace(b"TEXT", text).replace(b">1<", b">" + number + b"<", 1)
    assert read(xml, Row) == by_parser(xml, Row)


@given(
    scope=st.lists(
        st.sampled_from([*ODD, *INVALID, b'"', b"'", b"}", b"{", b" ", b"\t"])
        | st.text(max_size=3).map(lambda text: text.encode(errors="replace"))
    ).map(b"".join),
    text=st.sampled_from([b"x", b"&amp;", b"\r", b"]]>"]),
    name=st.sampled_from([b"Row", b"-Row", b"R:w", b"\xc3\xa9", b"R\xb7w", b"", b"R w", b"xmlns"]),
)
@example(scope=b"a}b", text=b"x", name=b"Row")
@example(scope=b"a&b", text=b"x", name=b"Row")
@example(scope=b"urn:x", text=b"\r", name=b"Row")
def test_any_root_means_what_a_parser_finds_in_it(scope: bytes, text: bytes, name: bytes) -> None:
    xml = to_xml(Row(1, "TEXT"), "urn:there").replace(b"Row", name).replace(b"urn:there", scope)
    xml = xml.replace(b"TEXT", text)
    assert anywhere(xml, Row) == anywhere(xml, Row, b"<!---->")
