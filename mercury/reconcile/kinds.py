"""The canonical text of a value, the same from every database.

Two values are equal when their canonical texts are. A value that does not fit its kind keeps its own text:
it equals only the same text, and raises no error in the middle of a table.
"""

from __future__ import annotations

import datetime
import enum
import json
import math
import re
import uuid
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)
#: The time from which PostgreSQL counts, in microseconds since the epoch.
Y2000 = (datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC) - EPOCH) // MICROSECOND

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
#: Digits of precision, more than any database's decimals have.
_WIDE = 1000


class Kind(enum.Enum):
    """How values of a column are compared."""

    INTEGER = "integer"
    #: Exact; 1.50 equals 1.5. ``scale`` rounds both sides, halves away from zero.
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    #: A point in time. A side that stores no zone is read in the zone that the column names for it.
    TIMESTAMP = "timestamp"
    UUID = "uuid"
    BYTES = "bytes"
    #: Equal as values: order of members and blanks do not count.
    JSON = "json"


#: The kinds that an order column may have.
ORDERED = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of one side, and how its values are compared."""

    name: str
    kind: Kind
    #: DECIMAL and FLOAT: digits after the point; TIMESTAMP: digits of a second's fraction; ``None`` = all.
    scale: int | None = None
    zone: str = "UTC"
    #: TEXT: blanks at the end do not count (CHAR columns).
    trim: bool = False


def canonical(value: Any, field: Field) -> str | None:
    """The text by which a value is compared; ``None`` = null."""
    if value is None:
        return None
    try:
        match field.kind:
            case Kind.INTEGER:
                return str(_integer(value))
            case Kind.DECIMAL:
                return _decimal_text(decimal(value), field.scale)
            case Kind.FLOAT:
                return _float_text(float(_plain(value) if isinstance(value, str) else value), field.scale)
            case Kind.TEXT:
                text = bytes(value).decode() if isinstance(value, bytes | memoryview) else str(value)
                return text.rstrip(" ") if field.trim else text
            case Kind.BOOLEAN:
                return "true" if boolean(value) else "false"
            case Kind.DATE:
                return _date(value).isoformat()
            case Kind.TIMESTAMP:
                return instant_text(microseconds(value, field))
            case Kind.UUID:
                return str(uuid.UUID(bytes=bytes(value)) if isinstance(value, bytes) else uuid.UUID(_plain(str(value))))
            case Kind.BYTES:
                return (value.encode() if isinstance(value, str) else bytes(value)).hex()
            case Kind.JSON:
                return _json_text(_json(value) if isinstance(value, str | bytes) else value)
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return str(value)


def boolean(value: Any) -> bool:
    """The truth value of a number or of a usual word, for databases without a boolean type.

    :raises ValueError: the value is neither.
    """
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("true", "t", "yes", "y", "1"):
            return True
        if word in ("false", "f", "no", "n", "0", ""):
            return False
        raise ValueError(value)
    return bool(value)


def decimal(value: Any) -> Decimal:
    """A value as a decimal number.

    :raises ValueError: it is not a number.
    :raises InvalidOperation: likewise.
    """
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(_plain(str(value).strip()))


def microseconds(value: Any, field: Field) -> int:
    """A point in time as microseconds since the epoch, rounded to the field's digits, with halves away from 2000 as
    PostgreSQL rounds.

    :raises ValueError: the value is not a time.
    """
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        count = int((decimal(value) * 1_000_000).to_integral_value(ROUND_HALF_UP))
    else:
        count = max((moment - EPOCH) // MICROSECOND for moment in _zoned(_moment(value), field.zone))
    if field.scale is None or field.scale >= 6:
        return count
    step: int = 10 ** (6 - field.scale)
    past = (abs(count - Y2000) + step // 2) // step * step
    return Y2000 + (past if count >= Y2000 else -past)


def _zoned(moment: datetime.datetime, zone: str) -> tuple[datetime.datetime, ...]:
    """The moments that a time may be. One without a zone may be two where the zone's clock was changed; PostgreSQL
    takes the later one, both of a time that there was twice and of one that was skipped.
    """
    if moment.tzinfo is not None:
        return (moment,)
    return tuple(moment.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1))


def instant_text(count: int) -> str:
    """Microseconds since the epoch as a UTC time, without trailing zeros in the fraction."""
    text = (EPOCH + count * MICROSECOND).isoformat().removesuffix("+00:00")
    return (text.rstrip("0") if "." in text else text) + "Z"


def sortable(value: Any, field: Field) -> Decimal | None:
    """A number by which values of a number or time column are sorted; ``None`` = null, or neither number nor time."""
    if value is None:
        return None
    try:
        if field.kind is Kind.TIMESTAMP:
            return Decimal(microseconds(value, field))
        if field.kind is Kind.DATE:
            return Decimal(_date(value).toordinal())
        number = decimal(value)
    except (ValueError, InvalidOperation):
        return None
    return number if number.is_finite() else None


def common(client: Kind | None, server: Kind | None) -> Kind:
    """The kind by which two columns are compared.

    :param client: the kind of the client's column; ``None`` = its type is not known.
    :param server: the kind of the server's column, likewise.
    """
    found = {kind for kind in (client, server) if kind is not None}
    if len(found) <= 1:
        return found.pop() if found else Kind.TEXT
    if found == {Kind.FLOAT, Kind.INTEGER}:
        return Kind.DECIMAL
    for kind, others in _SPECIFIC:
        if kind in found and found <= {kind, *others}:
            return kind
    return Kind.TEXT


#: A kind, and the kinds with which it is compared as itself.
_SPECIFIC: tuple[tuple[Kind, tuple[Kind, ...]], ...] = (
    (Kind.BOOLEAN, (Kind.INTEGER, Kind.TEXT)),
    (Kind.DECIMAL, (Kind.INTEGER, Kind.FLOAT, Kind.TEXT)),
    (Kind.TIMESTAMP, (Kind.DATE, Kind.TEXT)),
    (Kind.DATE, (Kind.TEXT,)),
    (Kind.UUID, (Kind.TEXT, Kind.BYTES)),
    (Kind.JSON, (Kind.TEXT,)),
    (Kind.INTEGER, (Kind.TEXT,)),
)


def _plain(text: str) -> str:
    """A text without the underscores that Python, and no database, reads over in a number.

    :raises ValueError: it has some.
    """
    if "_" in text:
        raise ValueError(text)
    return text


def _integer(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    number = decimal(value)
    if number != number.to_integral_value():
        raise ValueError(value)
    return int(number)


def _decimal_text(number: Decimal, scale: int | None) -> str:
    if not number.is_finite():
        return str(number)
    if scale is not None:
        number = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=_WIDE))
    if not number:
        return "0"
    if abs(number.adjusted()) > _WIDE:
        # Written out, 1e999999999 would take all memory.
        return str(number.normalize(Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)))
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _float_text(number: float, scale: int | None) -> str:
    if not math.isfinite(number):
        return str(number)
    # The shortest text of a float is what a database rounds too.
    return repr(number + 0.0) if scale is None else _decimal_text(decimal(number), scale)


def _json(text: str | bytes) -> Any:
    """A JSON value whose numbers are exact."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=Decimal)


def _json_text(value: Any) -> str:
    """A JSON value as one text, with its members sorted and its numbers in one notation.

    `json.dumps` writes no decimal as a number.
    """
    if isinstance(value, dict):
        members = (f"{_json_text(str(name))}:{_json_text(value[name])}" for name in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_json_text, value)) + "]"
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _decimal_text(decimal(value), None)
    # A lone surrogate stays an escape sequence: it has no UTF-8, so no file could hold it.
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace").decode()


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    return value if isinstance(value, datetime.date) else _moment(value).date()


def _moment(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)  # noqa: DTZ001  the caller gives the zone
    text = str(value).strip()
    if _DAY.match(text) and text[10:11] not in ("", " ", "T", "t"):
        raise ValueError(text)  # Python takes any character there
    return datetime.datetime.fromisoformat(text)
