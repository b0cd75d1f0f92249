"""Writes and reads single values as text, in the lexical forms of XML Schema.

Writing refuses a value that has another type than its field, or that XML cannot carry. Reading accepts every lexical
form of the schema type, with whitespace around it where the schema type allows that.
"""

from __future__ import annotations

import binascii
import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

from mercury.errors import ConfigurationError

#: Decimals of 10 to this power and above are not written: without an exponent they have too many digits for memory.
MAX_DECIMAL_EXPONENT = 5000

#: The whitespace of XML; Python's ``str.strip`` would remove more characters.
SPACE = " \t\r\n"

_SHORT = 40
_MANY = 120


class Misfit(Exception):
    """A value does not fit its type. Each level of the mapping adds its part of the path while the error passes."""

    def __init__(self, reason: str, *path: str) -> None:
        super().__init__(reason)
        self.reason = reason
        #: The names of the elements, the innermost first.
        self.path = list(path)

    def __str__(self) -> str:
        parts = self.path[::-1]
        if len(parts) > 12:
            parts = [*parts[:4], "...", *parts[-4:]]
        return f"{'/'.join(parts)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """How the values of one type are written and read as the text of an element or attribute."""

    #: The schema type, with the prefix ``xs``.
    xsd: str
    #: Returns the text of a value. Raises `Misfit`, `ValueError` or `OverflowError`.
    write: Callable[[object], str]
    #: Returns the value of a text. Raises `Misfit`, `ValueError` or `OverflowError`.
    read: Callable[[str], object]
    #: The text may hold any character and has to be escaped.
    escaped: bool = False
    #: For a schema: the allowed texts, the pattern of a text, and the name of the type.
    values: tuple[str, ...] = ()
    pattern: str = ""
    name: str = ""


def shown(value: object) -> str:
    """A value for the text of an error: its ``repr``, shortened."""
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= _SHORT else f"{value[:_SHORT]!r}..."
    try:
        text = repr(value)
    except Exception:  # an error in repr must not hide the error that is reported
        return "?"
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


def mismatch(expected: str, value: object) -> Misfit:
    """The error for a value of another type than its field."""
    return Misfit(f"expected {expected}, not {type(value).__name__} {shown(value)}")


# Escaping. XML 1.0 cannot carry most control characters, not even as character references.

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TEXT = re.compile("[&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ATTRIBUTE = re.compile('[&<>"\r\n\t\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]')
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = _IN_TEXT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


def escape_text(text: str) -> str:
    """Escape a text for the content of an element, so that every character is read back unchanged.

    :raises Misfit: the text holds a character that XML 1.0 cannot carry.
    """
    return text if _TEXT.search(text) is None else _escaped(text, _IN_TEXT)


def escape_attribute(text: str) -> str:
    """Escape a text for an attribute value in double quotes, so that every character is read back unchanged.

    :raises Misfit: the text holds a character that XML 1.0 cannot carry.
    """
    return text if _ATTRIBUTE.search(text) is None else _escaped(text, _IN_ATTRIBUTE)


def _escaped(text: str, replacements: Mapping[int, str]) -> str:
    illegal = _ILLEGAL.search(text)
    if illegal is not None:
        raise Misfit(f"the character U+{ord(illegal[0]):04X} at position {illegal.start()} cannot be written in XML")
    return text.translate(replacements)


# Text, numbers and booleans.


def _write_str(value: object) -> str:
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise mismatch("str", value)


def _write_int(value: object) -> str:
    if isinstance(value, int) and value is not True and value is not False:
        return int.__repr__(value)
    raise mismatch("int", value)


def _read_int(text: str) -> int:
    return int(_matching(_INTEGER, text))


def _write_float(value: object) -> str:
    if type(value) is not float:
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise mismatch("float", value)
        value = float(value)
    return _FLOAT_NAMES.get(text := float.__repr__(value), text)


def _read_float(text: str) -> float:
    text = text.strip(SPACE)
    if text in ("NaN", "INF", "-INF", "+INF"):
        return float(text)
    return float(_matching(_FLOAT, text))


def _write_bool(value: object) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    raise mismatch("bool", value)


def _read_bool(text: str) -> bool:
    text = text.strip(SPACE)
    if text in ("true", "1"):
        return True
    if text in ("false", "0"):
        return False
    raise ValueError


def _write_decimal(value: object) -> str:
    if not isinstance(value, Decimal):
        raise mismatch("Decimal", value)
    if not value.is_finite():
        raise Misfit(f"{value} has no form in xs:decimal")
    if abs(value.adjusted()) >= MAX_DECIMAL_EXPONENT:
        raise Misfit(f"a decimal beyond 10 to the power of {MAX_DECIMAL_EXPONENT} is not written")
    return format(value, "f")


def _read_decimal(text: str) -> Decimal:
    return Decimal(_matching(_DECIMAL, text))


def _write_bytes(value: object) -> str:
    if isinstance(value, bytes):
        return binascii.b2a_base64(value, newline=False).decode("ascii")
    raise mismatch("bytes", value)


def _read_bytes(text: str) -> bytes:
    return binascii.a2b_base64(text.encode().translate(None, SPACE.encode()), strict_mode=True)


def _write_uuid(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    raise mismatch("UUID", value)


def _read_uuid(text: str) -> UUID:
    stripped = text.strip(SPACE)
    if _UUID.fullmatch(stripped) is None:
        raise Misfit(f"{shown(text)} is not a UUID")
    return UUID(stripped)


# Dates and times.


def _write_date(value: object) -> str:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise mismatch("date", value)


def _read_date(text: str) -> date:
    return date.fromisoformat(_matching(_DATE, text)[:10])


def _write_datetime(value: object) -> str:
    if not isinstance(value, datetime):
        raise mismatch("datetime", value)
    offset = value.utcoffset()
    if offset is None:
        return value.isoformat()
    if not _has_form(offset):
        value, offset = value.astimezone(UTC), timedelta(0)
    return value.isoformat() if offset else value.replace(tzinfo=None).isoformat() + "Z"


def _read_datetime(text: str) -> datetime:
    text = _matching(_DATETIME, text)
    if text[11:13] != "24":
        return datetime.fromisoformat(text)
    return datetime.fromisoformat(f"{text[:11]}{_midnight(text[11:])}") + timedelta(days=1)


def _write_time(value: object) -> str:
    if not isinstance(value, time):
        raise mismatch("time", value)
    offset = value.utcoffset()
    if offset is None:
        return value.isoformat()
    if not _has_form(offset):
        raise Misfit(f"the offset {offset} from UTC has no form in xs:time")
    return value.isoformat() if offset else value.replace(tzinfo=None).isoformat() + "Z"


def _read_time(text: str) -> time:
    text = _matching(_TIME, text)
    return time.fromisoformat(_midnight(text) if text.startswith("24") else text)


def _has_form(offset: timedelta) -> bool:
    """Whether XML Schema can express an offset from UTC: whole minutes, at most 14 hours."""
    return abs(offset) <= timedelta(hours=14) and not offset % timedelta(minutes=1)


def _midnight(text: str) -> str:
    """``24:00:00`` as ``00:00:00``, with the rest of the text unchanged.

    :raises ValueError: the time is later than ``24:00:00``.
    """
    if re.match(r"24:00:00(?:\.0+)?(?![0-9.])", text) is None:
        raise ValueError
    return f"00{text[2:]}"


def _write_timedelta(value: object) -> str:
    if not isinstance(value, timedelta):
        raise mismatch("timedelta", value)
    sign, length = ("-", -value) if value < timedelta(0) else ("", value)
    minutes, seconds = divmod(length.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"T{hours}H" if hours else "T"
    if minutes:
        text += f"{minutes}M"
    if length.microseconds:
        text += f"{seconds}.{length.microseconds:06}".rstrip("0") + "S"
    elif seconds or not length:
        text += f"{seconds}S"
    days = f"{length.days}D" if length.days else ""
    return f"{sign}P{days}{text if text != 'T' else ''}"


def _read_timedelta(text: str) -> timedelta:
    text = text.strip(SPACE)
    match = _DURATION.fullmatch(text)
    if match is None or text[-1] in "PT":
        raise ValueError
    sign, years, months, days, hours, minutes, seconds, fraction = match.groups("0")
    if int(years) or int(months):
        raise Misfit(f"{shown(text)} has years or months, which have no fixed length")
    length = timedelta(int(days), int(seconds), int(fraction[:6].ljust(6, "0")), 0, int(minutes), int(hours))
    return -length if sign == "-" else length


# The lexical forms, and the table of all types.

_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_FLOAT = re.compile(_DECIMAL.pattern + r"(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(_DAY + _ZONE)
_TIME = re.compile(_CLOCK + _ZONE)
_DATETIME = re.compile(f"{_DAY}T{_CLOCK}{_ZONE}")
_DURATION = re.compile(
    r"(-)?P(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?"
    r"(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]+))?S)?)?"
)
_UUID_FORM = "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_UUID = re.compile(_UUID_FORM)
_FLOAT_NAMES = MappingProxyType({"nan": "NaN", "inf": "INF", "-inf": "-INF"})


def _matching(form: re.Pattern[str], text: str) -> str:
    text = text.strip(SPACE)
    if form.fullmatch(text) is None:
        raise ValueError
    return text


#: All types of a single value, except enumerations and literals: each of those has its own `Scalar`.
SCALARS: Mapping[type, Scalar] = MappingProxyType(
    {
        str: Scalar("xs:string", _write_str, str, escaped=True),
        int: Scalar("xs:integer", _write_int, _read_int),
        float: Scalar("xs:double", _write_float, _read_float),
        bool: Scalar("xs:boolean", _write_bool, _read_bool),
        Decimal: Scalar("xs:decimal", _write_decimal, _read_decimal),
        bytes: Scalar("xs:base64Binary", _write_bytes, _read_bytes),
        date: Scalar("xs:date", _write_date, _read_date),
        datetime: Scalar("xs:dateTime", _write_datetime, _read_datetime),
        time: Scalar("xs:time", _write_time, _read_time),
        timedelta: Scalar("xs:duration", _write_timedelta, _read_timedelta, pattern="[^YMT]*(T[^Y]*)?"),
        UUID: Scalar("xs:string", _write_uuid, _read_uuid, pattern=rf"[ \t\r\n]*{_UUID_FORM}[ \t\r\n]*"),
    }
)


def enumeration(cls: type[enum.Enum], where: str) -> Scalar:
    """The form of an enumeration: the members by their values.

    :raises ConfigurationError: the values are not all strings or all integers, or members can be combined.
    """
    values = [member.value for member in cls]
    if issubclass(cls, enum.Flag):
        raise ConfigurationError(f"{where}: {cls.__name__} is a Flag; its combinations have no form in XML; use an int")
    if values and all(isinstance(value, str) for value in values):
        choice = _choice({member.value: member for member in cls}, cls.__name__, lambda value: isinstance(value, cls))
        return replace(choice, name=cls.__name__)
    if values and all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return _numbered(cls)
    raise ConfigurationError(f"{where}: the values of {cls.__name__} must be all str or all int, and at least one")


def _numbered(cls: type[enum.Enum]) -> Scalar:
    members = {int(member.value): member for member in cls}

    def write(value: object) -> str:
        if isinstance(value, cls):
            return int.__repr__(value.value)
        raise mismatch(cls.__name__, value)

    def read(text: str) -> enum.Enum:
        stripped = text.strip(SPACE)
        member = members.get(int(stripped)) if _INTEGER.fullmatch(stripped) else None
        if member is None:
            raise _none_of(text, members)
        return member

    return Scalar("xs:integer", write, read, values=tuple(str(value) for value in members), name=cls.__name__)


def literal(values: tuple[object, ...], where: str) -> Scalar:
    """The form of a ``Literal`` of strings.

    :raises ConfigurationError: one of the values is not a string.
    """
    for value in values:
        if type(value) is not str:
            raise ConfigurationError(f"{where}: a Literal may have only strings, not {shown(value)}")
    texts = {value: value for value in values if isinstance(value, str)}
    return _choice(texts, f"one of {_listed(texts)}", lambda value: isinstance(value, str) and value in texts)


def _choice(values: Mapping[str, object], name: str, accepts: Callable[[object], bool]) -> Scalar:
    """The form of a type whose values are written as one of the given strings."""

    def write(value: object) -> str:
        if accepts(value):
            return str.__str__(value.value if isinstance(value, enum.Enum) else value)
        raise mismatch(name, value)

    def read(text: str) -> Any:
        for candidate in (text, text.strip(SPACE)):
            if candidate in values:
                return values[candidate]
        raise _none_of(text, values)

    texts = tuple(str.__str__(value) for value in values)
    return Scalar("xs:string", write, read, escaped=True, values=texts)


def _none_of(text: str, values: Mapping[Any, object]) -> Misfit:
    return Misfit(f"{shown(text)} is not one of {_listed(values)}")


def _listed(values: Mapping[Any, object]) -> str:
    text = ", ".join(repr(value) for value in values)
    return text if len(text) <= _MANY else f"{text[:_MANY]}..."
