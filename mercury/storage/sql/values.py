"""Values as text: ranges, and frozen dataclasses as JSON.

A dataclass is written without the fields that have their default, so that a row stays small; a field that is added
later with a default is read as that default.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import types
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from mercury.statemachine.flow import Window
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.ranges import RangeSet
from mercury.storage.records import Channel, SequenceKey

T = TypeVar("T")


def write_ranges(ranges: RangeSet) -> str:
    """``1-7 9``; empty text for no range."""
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def read_ranges(text: str) -> RangeSet:
    """The reverse of `write_ranges`.

    :raises ValueError: the text is not that.
    """
    ranges = RangeSet()
    for part in text.split():
        low, _, high = part.partition("-")
        ranges.add(int(low), int(high or low))
    return ranges


def write_window(window: Window) -> str | None:
    """``1 3 64``: how many, how often it has shrunk, and since when; nothing for as many as the policy allows."""
    return None if window.size is None else f"{window.size} {window.shrinks} {window.since}"


def read_window(text: str | None) -> Window:
    """The reverse of `write_window`.

    :raises ValueError: the text is not that.
    """
    if text is None:
        return Window()
    size, shrinks, since = text.split()
    return Window(int(size), int(shrinks), int(since))


@lru_cache(maxsize=4096)
def write_channel(channel: Channel) -> str:
    return _dumps(_plain(channel))


@lru_cache(maxsize=4096)
def read_channel(text: str) -> Channel:
    return typing.cast(Channel, _value(Channel, json.loads(text)))


@lru_cache(maxsize=1024)
def write_reference(reference: EndpointReference) -> str:
    return _dumps(_plain(reference))


@lru_cache(maxsize=1024)
def read_reference(text: str) -> EndpointReference:
    return typing.cast(EndpointReference, _value(EndpointReference, json.loads(text)))


@lru_cache(maxsize=64)
def write_protocol(protocol: Protocol) -> str:
    return _dumps(_plain(protocol))


@lru_cache(maxsize=64)
def read_protocol(text: str) -> Protocol:
    return typing.cast(Protocol, _value(Protocol, json.loads(text)))


def write_channels(channels: tuple[Channel, ...]) -> str:
    return _dumps([_plain(channel) for channel in channels])


def read_channels(text: str) -> tuple[Channel, ...]:
    return tuple(_value(Channel, each) for each in json.loads(text))


def write_parts(parts: tuple[bytes, ...]) -> str:
    """XML elements as a JSON list."""
    return _dumps([_plain(part) for part in parts]) if parts else "[]"


def read_parts(text: str) -> tuple[bytes, ...]:
    return tuple(part.encode("latin-1") for part in json.loads(text)) if text != "[]" else ()


def checksum(payload: bytes, *fields: str | float | None) -> str:
    """Of a row as it is stored: what comes back altered is noticed before it is delivered or sent."""
    digest = hashlib.blake2b(repr(fields).encode(), digest_size=12)
    digest.update(payload)
    return digest.hexdigest()


# --- damaged rows ----------------------------------------------------------------------------------------------------


def strictly(read: Callable[[str], T], text: str | None) -> T | None:
    return read(text) if text else None


def leniently(read: Callable[[str], T], text: str | None) -> T | None:
    """What can still be read of a damaged row: it is kept for a person to look at."""
    try:
        return read(text) if text else None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def key_of(key_id: str, channel: str) -> SequenceKey:
    """The key of a row, from its channel; without an endpoint when that was altered."""
    return channel_of(key_id, channel).key


def channel_of(key_id: str, text: str) -> Channel:
    """The channel of a row; when it was altered, one of which only the digest of the key is known."""
    channel = leniently(read_channel, text)
    return channel if channel is not None and channel.key.digest == key_id else Channel(key=SequenceKey("", key_id))


# --- dataclasses -----------------------------------------------------------------------------------------------------


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != _default(field)
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _value(kind: Any, plain: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        if plain is None:
            return None
        (kind,) = (each for each in typing.get_args(kind) if each is not types.NoneType)
        return _value(kind, plain)
    if origin is tuple:
        return tuple(_value(typing.get_args(kind)[0], each) for each in plain)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _value(hints[name], each) for name, each in plain.items() if name in hints})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(plain)
    if kind is bytes:
        return plain.encode("latin-1")
    return plain


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
