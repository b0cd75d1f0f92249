"""Reads the fields of addresses and forms."""

from __future__ import annotations

import datetime
import enum
import math
from typing import TypeVar

from mercury import choices
from mercury.console.visits import BadRequest, Visit
from mercury.errors import ConfigurationError

E = TypeVar("E", bound=enum.Enum)

#: The formats of a time that a field may have.
FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


def member(visit: Visit, name: str, kind: type[E]) -> E | None:
    """The member of an enum by its value; ``None`` = the field is empty.

    :raises BadRequest: there is no such value.
    """
    text = visit.text(name)
    if not text:
        return None
    try:
        return choices.member(kind, text, name)
    except ConfigurationError as error:
        raise BadRequest(f"{error}.") from error


def moment(visit: Visit, name: str, zone: datetime.tzinfo) -> float | None:
    """A time in seconds since the epoch; ``None`` = the field is empty.

    :param zone: the time zone of the text.
    :raises BadRequest: it is not a time.
    """
    text = visit.text(name)
    if not text:
        return None
    for each in FORMATS:
        try:
            return datetime.datetime.strptime(text, each).replace(tzinfo=zone).timestamp()
        except ValueError:
            continue
    raise BadRequest(f"{name}: {text!r} is not a time of the form 2026-11-24 13:30 (zone {zone}).")


def seconds(visit: Visit, name: str) -> float | None:
    """A time as a number of seconds since the epoch; ``None`` = the field is empty.

    :raises BadRequest: it is none.
    """
    text = visit.text(name)
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise BadRequest(f"{name}: {text!r} is not a time in seconds.")
    return found


def number(visit: Visit, name: str) -> int:
    """A whole number.

    :raises BadRequest: it is none.
    """
    text = visit.text(name)
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadRequest(f"{name}: {text!r} is not a number.")
    return int(text)
