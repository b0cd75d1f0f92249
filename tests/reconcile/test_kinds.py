"""Canonical texts: equal values have equal texts, in every database."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercury.reconcile.kinds import Field, Kind, canonical, common, sortable

NOON = datetime.datetime(2026, 7, 1, 12, 0, 0, 500_000, tzinfo=datetime.UTC)
ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")

EQUAL: tuple[tuple[Kind, tuple[Any, ...]], ...] = (
    (Kind.INTEGER, (7, "7", " 7 ", Decimal("7.00"), 7.0, "007")),
    (Kind.DECIMAL, (1.5, "1.50", Decimal("1.500"), Decimal("15e-1"))),
    (Kind.DECIMAL, (0, "-0.00", Decimal("-0"), 0.0)),
    (Kind.DECIMAL, (10**30, Decimal(10) ** 30, "1e30")),
    (Kind.FLOAT, (0.1, "0.1", Decimal("0.1"))),
    (Kind.FLOAT, (0.0, -0.0, "0", 0)),
    (Kind.TEXT, ("é", "é".encode(), memoryview("é".encode()))),
    (Kind.BOOLEAN, (True, 1, "t", "TRUE", "yes", 5)),
    (Kind.BOOLEAN, (False, 0, "f", "No", "")),
    (Kind.DATE, (datetime.date(2026, 7, 1), "2026-07-01", NOON, "2026-07-01 00:00:00")),
    (Kind.TIMESTAMP, (NOON, NOON.astimezone(ZoneInfo("Asia/Tokyo")), "2026-07-01T12:00:00.5", 1782907200.5)),
    (Kind.TIMESTAMP, (datetime.date(1969, 7, 20), "1969-07-20", "1969-07-20T02:00+02:00")),
    (Kind.UUID, (ID, str(ID).upper(), ID.bytes, f"{{{ID}}}", ID.hex)),
    (Kind.BYTES, (b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff"))),
    (Kind.JSON, ({"b": [1, None], "a": "é"}, '{"a": "\\u00e9",\n "b": [1,null]}', b'{"b":[1,null],"a":"\xc3\xa9"}')),
    (Kind.JSON, ("[1.50, 0, 100]", "[1.5, -0, 1e2]", [1.5, -0.0, Decimal("100.0")])),
)

#: Never equal, though close.
DIFFERENT: tuple[tuple[Kind, tuple[Any, ...]], ...] = (
    (Kind.INTEGER, (7, 8, -7, "7.5", None)),
    (Kind.DECIMAL, ("0.1", "0.10000000000000000001", "1e-20", "NaN", "Infinity", "ten", None)),
    (Kind.FLOAT, (0.1, math.nextafter(0.1, 1), math.nan, math.inf, -math.inf, None)),
    (Kind.TEXT, ("a", "a ", "A", "", None, "null", "None")),
    (Kind.BOOLEAN, (True, False, "maybe", None)),
    (Kind.TIMESTAMP, (NOON, NOON + datetime.timedelta(microseconds=1), "2026-07-01", "soon", None)),
    (Kind.UUID, (ID, uuid.UUID(int=0), "not one", None)),
    (Kind.INTEGER, (1000, "1_000")),
    (Kind.DECIMAL, (1000, "1_000")),
    (Kind.FLOAT, (1000.0, "1_000")),
    (Kind.DATE, ("2026-01-01", "2026-01-01xyz", "2026-01-01x12:00", "2026-01-011", "2026-01-01 soon", None)),
    (Kind.TIMESTAMP, ("2026-01-01 12:00", "2026-01-01x12:00", "2026-01-01512:00", "2026-01-01 12:00xyz")),
    (Kind.UUID, (uuid.UUID(int=1), "0_" + "1".zfill(30))),
    (Kind.JSON, ("1", '"1"', "[1]", "{}", "{", "[]", "[{}]", "[[]]", "true", "null", '["1.5"]', "[1.5]", None)),
    (Kind.JSON, ("9007199254740992.5", "9007199254740992.25", "0.1", "0.10000000000000000001", "1e400", "1e401")),
)


@pytest.mark.parametrize(("kind", "values"), EQUAL)
def test_equal_values_have_one_text(kind: Kind, values: tuple[Any, ...]) -> None:
    assert len({canonical(value, Field(name="x", kind=kind)) for value in values}) == 1


@pytest.mark.parametrize(("kind", "values"), DIFFERENT)
def test_different_values_have_different_texts(kind: Kind, values: tuple[Any, ...]) -> None:
    assert len({canonical(value, Field(name="x", kind=kind)) for value in values}) == len(values)


@pytest.mark.parametrize("kind", [Kind.DECIMAL, Kind.JSON])
def test_a_short_number_does_not_fill_the_memory(kind: Kind) -> None:
    """A peer may have written it."""
    field = Field(name="x", kind=kind)
    huge = canonical("1e999999999", field)
    assert huge == canonical("10.0e999999998", field)
    assert len(huge or "") < 100


def test_json_with_half_a_character_can_be_written_and_equals_no_other() -> None:
    field = Field(name="x", kind=Kind.JSON)
    halves = ['["\\ud800"]', '["\\udc00"]', '["\\\\ud800"]', '{"\\ud800": 1}', '{"\\\\ud800": 1}']
    texts = [canonical(each, field) for each in halves]
    assert len({(text or "").encode() for text in texts}) == len(halves)
    assert canonical('["\\uD800"]', field) == texts[0]
    assert canonical('"\\ud83d\\ude00"', field) == canonical('"\U0001f600"', field), "two halves are a character"


def test_json_that_is_nested_too_deeply_keeps_its_text() -> None:
    text = "[" * 100_000
    assert canonical(text, Field(name="x", kind=Kind.JSON)) == text


@pytest.mark.parametrize("kind", Kind)
def test_null_equals_only_null(kind: Kind) -> None:
    assert canonical(None, Field(name="x", kind=kind)) is None
    assert canonical("", Field(name="x", kind=kind)) is not None


@pytest.mark.parametrize(
    ("kind", "scale", "value", "text"),
    [
        (Kind.DECIMAL, 2, "1.005", "1.01"),
        (Kind.DECIMAL, 2, "-1.005", "-1.01"),
        (Kind.DECIMAL, 0, "0.4", "0"),
        (Kind.FLOAT, 3, 0.12349, "0.123"),
        (Kind.FLOAT, 2, 2.675, "2.68"),
        (Kind.FLOAT, 0, -2.5, "-3"),
        (Kind.TIMESTAMP, 0, NOON, "2026-07-01T12:00:01Z"),
        (Kind.TIMESTAMP, 3, NOON + datetime.timedelta(microseconds=499), "2026-07-01T12:00:00.5Z"),
        (Kind.TIMESTAMP, 6, NOON, "2026-07-01T12:00:00.5Z"),
        (Kind.TIMESTAMP, 0, "1999-12-31 23:59:58.5", "1999-12-31T23:59:58Z"),
        (Kind.TIMESTAMP, 0, "1969-12-31 23:59:58.500001", "1969-12-31T23:59:59Z"),
        (Kind.TIMESTAMP, 1, "1969-12-31 23:59:58.25", "1969-12-31T23:59:58.2Z"),
    ],
)
def test_a_scale_rounds_half_away(kind: Kind, scale: int, value: Any, text: str) -> None:
    assert canonical(value, Field(name="x", kind=kind, scale=scale)) == text


def test_a_time_without_a_zone_is_one_of_its_columns_zone() -> None:
    field = Field(name="x", kind=Kind.TIMESTAMP, zone="Europe/Berlin")
    assert canonical("2026-07-01 14:00", field) == "2026-07-01T12:00:00Z"
    assert canonical("2026-01-01 13:00", field) == "2026-01-01T12:00:00Z"
    assert canonical("2026-01-01 13:00+00:00", field) == "2026-01-01T13:00:00Z"


def test_blanks_at_the_end_count_unless_the_column_is_padded() -> None:
    assert canonical("a  ", Field(name="x", kind=Kind.TEXT, trim=True)) == "a"
    assert canonical(" a", Field(name="x", kind=Kind.TEXT, trim=True)) == " a"


#: Each pair of different kinds that is not compared as text.
COMMON = {
    frozenset((Kind.INTEGER, Kind.DECIMAL)): Kind.DECIMAL,
    # Neither of the two: a float does not hold every integer, nor an integer every float.
    frozenset((Kind.INTEGER, Kind.FLOAT)): Kind.DECIMAL,
    frozenset((Kind.INTEGER, Kind.TEXT)): Kind.INTEGER,
    frozenset((Kind.INTEGER, Kind.BOOLEAN)): Kind.BOOLEAN,
    frozenset((Kind.DECIMAL, Kind.FLOAT)): Kind.DECIMAL,
    frozenset((Kind.DECIMAL, Kind.TEXT)): Kind.DECIMAL,
    frozenset((Kind.TEXT, Kind.BOOLEAN)): Kind.BOOLEAN,
    frozenset((Kind.TEXT, Kind.DATE)): Kind.DATE,
    frozenset((Kind.TEXT, Kind.TIMESTAMP)): Kind.TIMESTAMP,
    frozenset((Kind.TEXT, Kind.UUID)): Kind.UUID,
    frozenset((Kind.TEXT, Kind.JSON)): Kind.JSON,
    frozenset((Kind.DATE, Kind.TIMESTAMP)): Kind.TIMESTAMP,
    frozenset((Kind.UUID, Kind.BYTES)): Kind.UUID,
}


@pytest.mark.parametrize("client", Kind)
@pytest.mark.parametrize("server", Kind)
def test_two_kinds_are_compared_by_the_more_specific_one(client: Kind, server: Kind) -> None:
    expected = client if client is server else COMMON.get(frozenset((client, server)), Kind.TEXT)
    assert common(client, server) is expected


def test_a_kind_that_one_database_does_not_know_is_that_of_the_other() -> None:
    for kind in Kind:
        assert common(None, kind) is common(kind, None) is kind
    assert common(None, None) is Kind.TEXT


def test_integers_beside_texts_are_not_truth_values() -> None:
    """As truth values 5 would be 1, and 7 would not be 7."""
    field = Field(name="x", kind=common(Kind.INTEGER, Kind.TEXT))
    assert canonical(5, field) != canonical("1", field)
    assert canonical(7, field) == canonical("7", field)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12)))
def test_numbers_are_sorted_as_numbers(numbers: list[Decimal]) -> None:
    field = Field(name="x", kind=Kind.DECIMAL)
    assert sorted(numbers) == sorted(numbers, key=lambda each: sortable(str(each), field) or Decimal(0))


def test_times_are_sorted_by_the_moment() -> None:
    field = Field(name="x", kind=Kind.TIMESTAMP)
    moments = ["2026-07-01 14:00+02:00", "2026-07-01 12:00:00.000001", NOON]
    found = [sortable(each, field) for each in moments]
    assert None not in found
    assert found == sorted(found, key=lambda each: each or Decimal(0))
    assert [sortable(each, field) for each in (None, "soon")] == [None, None]
