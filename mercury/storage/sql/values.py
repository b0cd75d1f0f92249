"""Values as text: ranges, and frozen dataclasses as JSON.

Fields that have their default are omitted, which keeps rows small. A field that is added to a dataclass later must have
a default; older rows are read with it.
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
from operator import attrgetter
from typing import Any, TypeVar

from mercury.statemachine.flow import Window
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.round_trip import DOUBLED, RoundTrip
from mercury.storage.attachments import Attachments
from mercury.storage.records import Channel, SequenceKey

T = TypeVar("T")

#: Longest text in bytes whose parsed endpoint reference, or list of one channel, is cached: peers write these texts,
#: and no limit counts the cache.
CACHED = 1024


def write_ranges(ranges: RangeSet) -> str:
    """``1-7 9``; empty text for no range."""
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def read_ranges(text: str) -> RangeSet:
    """The reverse of `write_ranges`.

    :raises ValueError: the text does not have this form.
    """
    ranges = RangeSet()
    for part in text.split():
        low, _, high = part.partition("-")
        ranges.add(int(low), int(high or low))
    return ranges


def write_window(window: Window) -> str | None:
    """``1 3 64 - 64``: the size, the number of times it has shrunk, and since when; ``None`` = as at the start.

    ``- 0 0 8 128``: the fourth is the room that the destination has reported, if any; the fifth, how far the window has
    grown.
    """
    if window == Window():
        return None
    size, room = ("-" if each is None else each for each in (window.size, window.room))
    return f"{size} {window.shrinks} {window.since} {room} {window.grown}"


def read_window(text: str | None) -> Window:
    """The reverse of `write_window`.

    :raises ValueError: the text does not have this form.
    """
    if text is None:
        return Window()
    size, shrinks, since, room, grown = text.split()
    limit, stated = (None if each == "-" else int(each) for each in (size, room))
    return Window(limit, int(shrinks), int(since), stated, int(grown))


def write_round_trip(trip: RoundTrip) -> str | None:
    """``0.25 0.1 12 - 0``: the fields in their order, ``-`` for an absent one; ``None`` = nothing is known."""
    if trip == RoundTrip():
        return None
    smoothed, since = ("-" if each is None else repr(each) for each in (trip.smoothed, trip.since))
    return f"{smoothed} {trip.variation!r} {trip.number} {since} {trip.repeated}"


def read_round_trip(text: str | None) -> RoundTrip:
    """The reverse of `write_round_trip`.

    :raises ValueError: the text does not have this form.
    """
    if text is None:
        return RoundTrip()
    smoothed, variation, number, since, repeated = text.split()
    known, sent = (None if each == "-" else float(each) for each in (smoothed, since))
    if not 0 <= int(repeated) <= DOUBLED:  # a pause is computed as a power of it
        raise ValueError(f"{repeated} is not between 0 and {DOUBLED}")
    return RoundTrip(known, float(variation), int(number), sent, int(repeated))


@lru_cache(maxsize=4096)
def write_channel(channel: Channel) -> str:
    return _dumps(_plain(channel))


@lru_cache(maxsize=4096)
def read_channel(text: str) -> Channel:
    return typing.cast(Channel, _value(Channel, json.loads(text)))


#: What follows the endpoint in the text of a channel, and nowhere before: the channel's key is its first field.
ENDPOINT_END = '","name":'


def endpoint_in(beginning: str) -> str | None:
    """The endpoint of a channel, from its text up to `ENDPOINT_END`; ``None`` = the text is damaged."""
    try:
        endpoint = json.loads(f'{beginning}"}}}}')["key"]["endpoint"]
    except (ValueError, LookupError, TypeError):
        return None
    return endpoint if isinstance(endpoint, str) else None


def channel_mark(endpoint: str | None, name: str | None) -> str:
    """A text that is in each channel with an endpoint, with a name of its key, or with both, and in no other: what
    is inside of a value has its quotation marks escaped, and only a key has a name. At least one is given.
    """
    if endpoint is None:
        return f"{ENDPOINT_END}{_dumps(name)}}}"
    beginning = f'"key":{{"endpoint":{_dumps(endpoint)},"name":'
    return beginning if name is None else f"{beginning}{_dumps(name)}}}"


def write_reference(reference: EndpointReference) -> str:
    if sum(map(len, reference.parameters)) > CACHED:
        return _dumps(_plain(reference))
    return _write_short_reference(reference)


@lru_cache(maxsize=1024)
def _write_short_reference(reference: EndpointReference) -> str:
    return _dumps(_plain(reference))


def read_reference(text: str) -> EndpointReference:
    return _reference(text) if len(text) > CACHED else _read_short_reference(text)


@lru_cache(maxsize=1024)
def _read_short_reference(text: str) -> EndpointReference:
    return _reference(text)


def _reference(text: str) -> EndpointReference:
    return typing.cast(EndpointReference, _value(EndpointReference, json.loads(text)))


@lru_cache(maxsize=64)
def write_protocol(protocol: Protocol) -> str:
    return _dumps(_plain(protocol))


@lru_cache(maxsize=64)
def read_protocol(text: str) -> Protocol:
    return typing.cast(Protocol, _value(Protocol, json.loads(text)))


def write_channels(channels: tuple[Channel, ...]) -> str:
    return f"[{','.join(map(write_channel, channels))}]"


def read_channels(text: str) -> tuple[Channel, ...]:
    plain = json.loads(text)
    if len(plain) == 1 and len(text) <= CACHED:
        return (read_channel(text.strip()[1:-1]),)  # known, as the buffer's sequence has the same one
    return tuple(_value(Channel, each) for each in plain)


def write_attachments(attachments: Attachments) -> str:
    return _dumps(_plain(attachments))


def read_attachments(text: str) -> Attachments:
    return typing.cast(Attachments, _value(Attachments, json.loads(text)))


def write_parts(parts: tuple[bytes, ...]) -> str:
    """XML elements as a JSON list."""
    return _dumps([_plain(part) for part in parts]) if parts else "[]"


def read_parts(text: str) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in json.loads(text)) if text != "[]" else ()


def checksum(payload: bytes, *fields: str | float | None) -> str:
    """The checksum of a row as it is stored; it is compared before the message is delivered or sent."""
    digest = hashlib.blake2b(repr(fields).encode(), digest_size=12)
    digest.update(payload)
    return digest.hexdigest()


# --- damaged rows ----------------------------------------------------------------------------------------------------


def strictly(read: Callable[[str], T], text: str | None) -> T | None:
    return read(text) if text else None


def leniently(read: Callable[[str], T], text: str | None) -> T | None:
    """Read a column of a damaged row, which is kept for an operator; ``None`` = it cannot be read."""
    try:
        return read(text) if text else None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def key_of(key_id: str, channel: str) -> SequenceKey:
    """The key of a row, from its channel; without an endpoint if the channel is damaged."""
    return channel_of(key_id, channel).key


def channel_of(key_id: str, text: str) -> Channel:
    """The channel of a row; if it is damaged, a channel with only the digest of the key."""
    channel = leniently(read_channel, text)
    return channel if channel is not None and channel.key.digest == key_id else Channel(key=SequenceKey("", key_id))


# --- dataclasses -----------------------------------------------------------------------------------------------------


def _dumps(value: Any) -> str:
    """JSON with unescaped characters, so that texts of peers take as many bytes as in their XML."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    kind: Any = type(value)
    write = _writer(kind)
    return value if write is None else write(value)


@lru_cache(maxsize=128)
def _writer(kind: type) -> Callable[[Any], Any] | None:
    """Writes values of a type for JSON; ``None`` = they are as in JSON."""
    if dataclasses.is_dataclass(kind):
        get, defaults = _attributes(kind), tuple(_defaults(kind).items())
        return lambda value: {
            name: _plain(each)
            for (name, default), each in zip(defaults, get(value), strict=True)
            if each is not default and each != default
        }
    if issubclass(kind, enum.Enum):
        return attrgetter("_value_")
    if issubclass(kind, bytes):
        return kind.decode
    return (lambda value: [_plain(each) for each in value]) if issubclass(kind, tuple) else None


def _attributes(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """The values of the fields of a dataclass."""
    names = tuple(_defaults(kind))
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)


@lru_cache(maxsize=64)
def _defaults(kind: type) -> dict[str, Any]:
    """The defaults of a frozen dataclass by the names of its fields, which are as immutable as its values."""
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(kind)
    }


def _value(kind: Any, plain: Any) -> Any:
    read = _reader(kind)
    return plain if read is None else read(plain)


@lru_cache(maxsize=128)
def _reader(kind: Any) -> Callable[[Any], Any] | None:
    """Reads a value of a type from JSON; ``None`` = it is as in JSON."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        (some,) = (each for each in typing.get_args(kind) if each is not types.NoneType)
        return lambda plain: None if plain is None else _value(some, plain)
    if origin is tuple:
        item = typing.get_args(kind)[0]
        return lambda plain: tuple([_value(item, each) for each in plain])
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        # One object for all values: to make a policy with its defaults takes longer than to read a row.
        shared = {name: each for name, each in _defaults(kind).items() if dataclasses.is_dataclass(each)}
        return lambda plain: kind(
            **(shared | {name: _value(hints[name], each) for name, each in plain.items() if name in hints})
        )
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    return str.encode if kind is bytes else None
