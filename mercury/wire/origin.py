"""When and in which span a message was sent: Mercury's extension, in a header block, or in the attributes of a batch.

A peer may write anything here. What is not valid is left out, and the message is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mercury.statemachine.trace import Trace, read_trace
from mercury.wire import ns
from mercury.wire.scan import Node
from mercury.wire.values import escape_attribute

#: The local name of the header block.
SENT = "Sent"
#: Seconds since the epoch, as they are written; and as this side writes the whole block, without a ``tracestate``.
_SECONDS = re.compile(r"[0-9]{1,11}(?:\.[0-9]{1,6})?")
_SHAPED = re.compile(
    rb'<m:Sent xmlns:m="urn:mercury:rm"(?: at="([0-9.]{1,18})")?(?: traceparent="(00-[0-9a-f-]{52})")?/>'
)
_AT, _PARENT = re.compile(rb"[0-9]{1,11}\.[0-9]{1,6}"), re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
#: The names of the values in `shaped`.
AT, PARENT = "sent at", "traceparent"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message comes from."""

    #: The span that it was sent in; ``None`` = none is known.
    trace: Trace | None = None
    #: When it was sent, in seconds since the epoch by the sender's clock; ``None`` = unknown.
    at: float | None = None


def write_attributes(origin: Origin, at: str = "at") -> str:
    """The attributes, with a space before each.

    :param at: the name of the attribute for the time.
    """
    written = "" if origin.at is None else f' {at}="{origin.at:.3f}"'
    if origin.trace is not None:
        written += f' traceparent="{origin.trace.parent}"'
        if origin.trace.state:
            written += f' tracestate="{escape_attribute(origin.trace.state)}"'
    return written


def write_origin(origin: Origin) -> str:
    """The header block. It has no mustUnderstand: a node that does not know it ignores it."""
    return f'<m:{SENT} xmlns:m="{ns.MERCURY}"{write_attributes(origin)}/>'


def read_origin(attributes: Mapping[str, str], at: str = "at") -> Origin | None:
    """The origin in these attributes; ``None`` = there is none, or none that can be read."""
    seconds, parent = attributes.get(at), attributes.get("traceparent")
    if seconds is None and parent is None:
        return None
    return origin_of(seconds, parent, attributes.get("tracestate"))


def origin_of(seconds: str | None, parent: str | None, state: str | None = None) -> Origin | None:
    """The origin with these values; ``None`` = none of them is valid."""
    trace = read_trace(parent, state)
    when = float(seconds) if seconds is not None and _SECONDS.fullmatch(seconds) else None
    return None if trace is None and when is None else Origin(trace, when)


def shaped(data: bytes, block: Node) -> Iterator[tuple[int, int, str, re.Pattern[bytes]]] | None:
    """The places of the values of a header block that differ from message to message: see `shapes.shape_of`.

    :returns: ``None`` = it is written in another way, so that messages with it have no shape.
    """
    written = _SHAPED.match(data, block.start)
    if written is None:
        return None
    places = ((1, AT, _AT), (2, PARENT, _PARENT))
    return iter([(*written.span(group), name, pattern) for group, name, pattern in places if written[group]])
