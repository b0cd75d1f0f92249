"""The lexical forms of single values, written and read."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from mercury.errors import PayloadError
from mercury.wire.mapping import from_xml, to_xml
from mercury.wire.mapping_types import SCALARS, Misfit, Scalar, enumeration, escape_attribute, escape_text, shown

EAST = timezone(timedelta(hours=5, minutes=30))
ODD = timezone(timedelta(minutes=19, seconds=32))


class Color(enum.StrEnum):
    RED = "red"
    DEEP_BLUE = "deep blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = -2


WRITTEN = [
    (int, 0, "0"),
    (int, -(10**30), "-1" + "0" * 30),
    (int, Level.HIGH, "-2"),
    (str, Color.RED, "red"),
    (float, 0.1, "0.1"),
    (float, 1e300, "1e+300"),
    (float, math.inf, "INF"),
    (float, -math.inf, "-INF"),
    (float, math.nan, "NaN"),
    (float, 3, "3.0"),
    (bool, True, "true"),
    (bool, False, "false"),
    (Decimal, Decimal("1.50"), "1.50"),
    (Decimal, Decimal("1E+3"), "1000"),
    (Decimal, Decimal("1E-7"), "0.0000001"),
    (bytes, b"", ""),
    (bytes, b"\x00\xff", "AP8="),
    (date, date(1, 2, 3), "0001-02-03"),
    (datetime, datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),  # noqa: DTZ001
    (datetime, datetime(2024, 1, 2, 3, 4, 5, 60, UTC), "2024-01-02T03:04:05.000060Z"),
    (datetime, datetime(2024, 1, 2, 3, 4, 5, tzinfo=EAST), "2024-01-02T03:04:05+05:30"),
    (datetime, datetime(2024, 1, 2, 3, 19, 32, tzinfo=ODD), "2024-01-02T03:00:00Z"),
    (time, time(1, 2, 3), "01:02:03"),
    (time, time(1, 2, 3, 4000, UTC), "01:02:03.004000Z"),
    (time, time(1, 2, 3, tzinfo=EAST), "01:02:03+05:30"),
    (timedelta, timedelta(0), "PT0S"),
    (timedelta, timedelta(days=400), "P400D"),
    (timedelta, timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=50), "P1DT2H3M4.00005S"),
    (timedelta, timedelta(microseconds=-1), "-PT0.000001S"),
    (timedelta, timedelta(hours=1), "PT1H"),
    (timedelta, timedelta.min, "-P999999999D"),
    (UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
]

READ = [
    (str, "", ""),
    (str, " a ", " a "),
    (int, "\n +17\t", 17),
    (int, "-0", 0),
    (int, "007", 7),
    (float, " 1 ", 1.0),
    (float, "-.5E-1", -0.05),
    (float, "5.", 5.0),
    (float, "INF", math.inf),
    (float, "+INF", math.inf),
    (float, " -INF", -math.inf),
    (float, "1e999", math.inf),
    (bool, " true ", True),
    (bool, "1", True),
    (bool, "false", False),
    (bool, "0", False),
    (Decimal, " +1.50", Decimal("1.50")),
    (Decimal, "-.5", Decimal("-0.5")),
    (bytes, " A P8\r\n= ", b"\x00\xff"),
    (bytes, "", b""),
    (date, " 2024-02-29 ", date(2024, 2, 29)),
    (date, "2024-02-29Z", date(2024, 2, 29)),
    (date, "2024-02-29-14:00", date(2024, 2, 29)),
    (datetime, "2024-01-02T03:04:05.5", datetime(2024, 1, 2, 3, 4, 5, 500000)),  # noqa: DTZ001
    (datetime, "2024-01-02T03:04:05.1234567Z", datetime(2024, 1, 2, 3, 4, 5, 123456, UTC)),
    (datetime, "2024-01-02T03:04:05.123456789+05:30", datetime(2024, 1, 2, 3, 4, 5, 123456, EAST)),
    (datetime, "2024-01-02T03:04:05-00:00", datetime(2024, 1, 2, 3, 4, 5, 0, UTC)),
    (datetime, "2024-12-31T24:00:00.000Z", datetime(2025, 1, 1, tzinfo=UTC)),
    (time, "24:00:00", time(0)),
    (time, "23:59:59.9999999Z", time(23, 59, 59, 999999, UTC)),
    (timedelta, " P0Y0M1DT0H0M0.000S ", timedelta(days=1)),
    (timedelta, "PT36H", timedelta(hours=36)),
    (timedelta, "-PT0.0000019S", timedelta(microseconds=-1)),
    (timedelta, "PT90M", timedelta(minutes=90)),
    (UUID, " 0000000A-0000-0000-0000-00000000000b", UUID(int=(10 << 96) + 11)),
]

REFUSED = [
    *[(int, text) for text in ("", "1.0", "1e3", "0x1", "1_000", "\u0661", "\u00a01", "--1", "one", "9" * 5000)],
    *[(float, text) for text in ("", "inf", "nan", "Infinity", "1_0.0", "1e", ".", "0x1p3", "\u0661.0")],
    *[(bool, text) for text in ("", "True", "yes", "2")],
    *[(Decimal, text) for text in ("", "1e3", "NaN", "INF", "1_0", ".", "\u0661")],
    *[(bytes, text) for text in ("A", "AP8", "AP8=AP8=", "=AP8", "A-_8", "\u00c4AAA", "AP8=\u00a0")],
    *[(date, text) for text in ("", "2023-02-29", "24-01-01", "2024-1-1", "12024-01-01", "-0001-01-01", "20240101")],
    *[(date, text) for text in ("2024-01-01T00:00:00", "2024-01-01+15:00", "2024-W01-1", "0000-01-01")],
    *[(datetime, text) for text in ("2024-01-01", "2024-01-01 00:00:00", "2024-01-01T00:00", "2024-01-01T25:00:00")],
    *[(datetime, text) for text in ("2024-01-01T24:00:01", "2024-01-01T24:00:00.01", "9999-12-31T24:00:00")],
    *[(datetime, text) for text in ("2024-01-01T00:00:60", "2024-01-01T00:00:00z", "2024-01-01T00:00:00+0100")],
    *[(time, text) for text in ("", "1:02:03", "24:00:01", "00:00", "00:00:00+14:01", "00:00:00,5")],
    *[(timedelta, text) for text in ("", "P", "PT", "P1DT", "1D", "P1S", "PT1.S", "P-1D", "+P1D", "P999999999999D")],
    *[(timedelta, text) for text in ("P1W", "PT1H1H", "P" + "9" * 5000 + "D")],
]


@pytest.mark.parametrize(("cls", "value", "text"), WRITTEN)
def test_a_value_is_written_in_its_lexical_form_and_read_back(cls: type, value: Any, text: str) -> None:
    assert SCALARS[cls].write(value) == text
    assert type(SCALARS[cls].write(value)) is str
    again = SCALARS[cls].read(text)
    assert type(again) is cls
    assert again == value or (again != again and value != value)  # NaN


@pytest.mark.parametrize(("cls", "text", "value"), READ)
def test_every_lexical_form_is_read(cls: type, text: str, value: Any) -> None:
    assert SCALARS[cls].read(text) == value
    if isinstance(value, datetime | time):
        again: Any = SCALARS[cls].read(text)
        assert again.utcoffset() == value.utcoffset()


@pytest.mark.parametrize(("cls", "text"), REFUSED)
def test_other_forms_are_refused(cls: type, text: str) -> None:
    with pytest.raises((ValueError, OverflowError, Misfit)):
        SCALARS[cls].read(text)


@pytest.mark.parametrize("text", ["P1Y", "P1M", "-P0Y3M1D"])
def test_a_duration_of_years_or_months_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(Misfit, match=f"'{text}' has years or months, which have no fixed length"):
        SCALARS[timedelta].read(text)


@pytest.mark.parametrize("text", ["", "{00000000-0000-0000-0000-000000000001}", "0" * 32, "00000000_0000"])
def test_only_the_common_form_of_a_uuid_is_read(text: str) -> None:
    with pytest.raises(Misfit, match="is not a UUID"):
        SCALARS[UUID].read(text)


@pytest.mark.parametrize("cls", list(SCALARS))
def test_no_type_takes_the_values_of_another(cls: type) -> None:
    samples = {other: value for other, value, _ in WRITTEN if type(value) is other} | {str: "x", object: object()}
    for other, value in samples.items():
        if other is cls or (cls is float and other is int):
            continue
        with pytest.raises(Misfit, match=f"^: expected {cls.__name__}, not {other.__name__} "):
            SCALARS[cls].write(value)


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), Decimal("sNaN")])
def test_a_decimal_that_is_no_number_is_not_written(value: Decimal) -> None:
    with pytest.raises(Misfit, match="has no form in xs:decimal"):
        SCALARS[Decimal].write(value)


@pytest.mark.parametrize("value", [Decimal("1E+5000"), Decimal("1E-5000"), Decimal("1E+1000000")])
def test_a_decimal_that_would_fill_the_memory_is_not_written(value: Decimal) -> None:
    with pytest.raises(Misfit, match="beyond 10 to the power of 5000"):
        SCALARS[Decimal].write(value)


def test_a_time_with_an_offset_the_schema_does_not_have_is_not_written() -> None:
    for offset in (timedelta(seconds=1), timedelta(hours=15)):
        with pytest.raises(Misfit, match="has no form in xs:time"):
            SCALARS[time].write(time(1, tzinfo=timezone(offset)))


def test_a_moment_that_has_no_form_in_utc_either_is_refused() -> None:
    @dataclass
    class Event:
        at: datetime

    with pytest.raises(PayloadError, match=r"^Event/at: .* cannot be written as xs:dateTime"):
        to_xml(Event(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=15)))), "")


def test_enumerations_are_written_by_value_and_read_with_or_without_whitespace() -> None:
    colors, levels = enumeration(Color, "x"), enumeration(Level, "x")
    assert colors.write(Color.DEEP_BLUE) == "deep blue"
    assert colors.read("\n deep blue ") is Color.DEEP_BLUE
    assert levels.write(Level.HIGH) == "-2"
    assert levels.read(" -2 ") is Level.HIGH
    assert levels.read("+1") is Level.LOW


@pytest.mark.parametrize(("cls", "text"), [(Color, "RED"), (Color, ""), (Level, "3"), (Level, "LOW"), (Level, "")])
def test_value_outside_an_enumeration_is_refused_with_the_allowed_ones(cls: type[enum.Enum], text: str) -> None:
    listed = "'red', 'deep blue'" if cls is Color else "1, -2"
    with pytest.raises(Misfit, match=f"'{text}' is not one of {listed}"):
        enumeration(cls, "x").read(text)


def test_the_plain_value_of_an_enumeration_is_not_taken_for_a_member() -> None:
    with pytest.raises(Misfit, match="expected Color, not str 'red'"):
        enumeration(Color, "x").write("red")
    with pytest.raises(Misfit, match="expected Level, not int 1"):
        enumeration(Level, "x").write(1)


def test_a_long_enumeration_is_listed_in_part() -> None:
    many = enum.Enum("many", {f"m{n}": f"value{n}" for n in range(100)})
    with pytest.raises(Misfit) as caught:
        enumeration(many, "x").read("other")
    assert str(caught.value).endswith("...")
    assert len(str(caught.value)) < 160


def test_a_member_of_an_enumeration_is_a_plain_value_in_a_field_that_is_no_enumeration() -> None:
    class Old(str, enum.Enum):  # noqa: UP042  (such enumerations format as their name)
        A = "a<"

    class Number(int, enum.Enum):
        ONE = 1

    @dataclass
    class Holder:
        text: str
        number: int

    xml = to_xml(Holder(Old.A, Number.ONE), "")
    assert xml == b"<Holder><text>a&lt;</text><number>1</number></Holder>"
    assert from_xml(xml, Holder) == Holder("a<", 1)


def test_escaping_touches_only_what_it_must() -> None:
    assert escape_text("a\tb\nc\"'") == "a\tb\nc\"'"
    assert escape_text("<&>\r") == "&lt;&amp;&gt;&#13;"
    assert escape_attribute("<&>\r\n\t\"'") == "&lt;&amp;&gt;&#13;&#10;&#9;&quot;'"


@pytest.mark.parametrize("code", [0x00, 0x08, 0x0B, 0x0C, 0x0E, 0x1F, 0xD800, 0xDFFF, 0xFFFE, 0xFFFF])
def test_no_illegal_character_is_escaped(code: int) -> None:
    for escape in (escape_text, escape_attribute):
        with pytest.raises(Misfit, match=rf"U\+{code:04X} at position 2 "):
            escape(f"<>{chr(code)}")
        with pytest.raises(Misfit, match=rf"U\+{code:04X} at position 0 "):
            escape(chr(code))


def test_values_are_shown_short_and_even_when_they_do_not_want_to_be() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown("x" * 41) == repr("x" * 40) + "..."
    assert shown(b"x") == "b'x'"
    assert shown(list(range(100))).endswith("...")
    assert shown(Shy()) == "?"


def test_every_form_names_its_schema_type() -> None:
    assert all(isinstance(scalar, Scalar) and scalar.xsd.startswith("xs:") for scalar in SCALARS.values())
