"""Reads a value of which only some are possible, as it comes from a file, the environment or another machine."""

from __future__ import annotations

import enum
import reprlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from mercury.errors import ConfigurationError

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)


def chosen(known: Mapping[str, T], given: object, where: str) -> T:
    """What ``known`` has for a value.

    :param given: the value, of any type; a long one is shortened in the error.
    :param where: what is read, the first words of the error.
    :raises ConfigurationError: the value is not a text of ``known``; the error lists these.
    """
    if not isinstance(given, str) or given not in known:
        raise _refusal(given, known, where)
    return known[given]


def member(kind: type[E], given: object, where: str) -> E:
    """The member of an enum by its value, or by another one that the enum takes for it.

    :raises ConfigurationError: no member has this value; see `chosen`.
    """
    try:
        return kind(given)
    except ValueError:
        raise _refusal(given, (str(each.value) for each in kind), where) from None


def _refusal(given: object, known: Iterable[str], where: str) -> ConfigurationError:
    return ConfigurationError(f"{where}: {reprlib.repr(given)} is not one of {', '.join(known)}")
