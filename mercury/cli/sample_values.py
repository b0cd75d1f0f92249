"""Sample messages: values of a dataclass, made from the types of its fields."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
from typing import Any

#: How deep a dataclass may be in another one; a class that contains itself has no end.
MAX_DEPTH = 8


class NoSample(Exception):
    """There is no sample of a type; the text names it."""


def sample_of(kind: type[Any], number: int) -> Any:
    """A message of a dataclass.

    :param number: the message's number, from 1: it is in its texts and integers.
    :raises NoSample: the class is no dataclass, or a field without a default has a type that is not known here.
    """
    if not dataclasses.is_dataclass(kind):
        raise NoSample(f"{getattr(kind, '__name__', kind)} is no dataclass")
    return _message(kind, number, 0)


def _message(kind: type[Any], number: int, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise NoSample(f"{kind.__name__} contains itself")
    hints = typing.get_type_hints(kind)
    values = {}
    for each in dataclasses.fields(kind):
        if not each.init:
            continue
        try:
            values[each.name] = _value(hints[each.name], each.name, number, depth)
        except NoSample:
            if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
                raise
    return kind(**values)


def _value(kind: Any, name: str, number: int, depth: int) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _value(arguments[0], name, number, depth)
    if origin in (typing.Union, types.UnionType):
        return _value(next(each for each in arguments if each is not type(None)), name, number, depth)
    if origin in (list, tuple):
        items = [_value(arguments[0], name, number, depth)]
        return items if origin is list else tuple(items)
    if not isinstance(kind, type):
        raise NoSample(f"the field {name} is of the type {kind}")
    if dataclasses.is_dataclass(kind):
        return _message(kind, number, depth + 1)
    if issubclass(kind, enum.Enum):
        return next(iter(kind))
    today = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    plain: dict[type[Any], Any] = {
        str: f"{name} {number}",
        bool: True,
        int: number,
        float: float(number),
        decimal.Decimal: decimal.Decimal(number),
        bytes: f"{name} {number}".encode(),
        datetime.datetime: today,
        datetime.date: today.date(),
        datetime.time: today.time(),
        datetime.timedelta: datetime.timedelta(minutes=1),
    }
    if kind not in plain:
        raise NoSample(f"the field {name} is of the type {kind.__name__}")
    return plain[kind]
