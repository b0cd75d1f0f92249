"""The trace context of a message, as W3C Trace Context writes it (https://www.w3.org/TR/trace-context/)."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The only length of a ``traceparent`` of version 00, and the longest ``tracestate`` that is kept, in characters.
PARENT_LENGTH, MOST_STATE = 55, 512
#: The most entries of a ``tracestate``.
MOST_ENTRIES = 32

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
#: A key is a name, or ``tenant@system``: OpenTelemetry logs a warning for any other. A value has no comma, no equals
#: sign, and no control character: nothing that ends a header or a value.
_ENTRY = re.compile(
    r"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_ZEROS = re.compile("0*")


@dataclass(frozen=True, slots=True)
class Trace:
    """The span that a message was sent in. Made by `read_trace`, which checks its parts."""

    #: ``traceparent`` of version 00: the trace, the span, and whether it is sampled.
    parent: str
    #: ``tracestate``: what tracing systems add; may be empty.
    state: str = ""

    @property
    def id(self) -> str:
        """The identifier of the trace: 32 hexadecimal digits."""
        return self.parent[3:35]

    @property
    def text(self) -> str:
        """Both parts as one text, which `trace_of` reads."""
        return f"{self.parent} {self.state}" if self.state else self.parent


def read_trace(parent: str | None, state: str | None = None) -> Trace | None:
    """Check a ``traceparent`` and a ``tracestate`` of a peer.

    :returns: ``None`` = ``parent`` is no valid one: there is no trace then, which is no error. An invalid or too long
        ``state`` is left out.
    """
    if parent is None or len(parent) < PARENT_LENGTH:
        return None
    found = _PARENT.fullmatch(parent[:PARENT_LENGTH])
    if found is None or found[1] == "ff" or _ZEROS.fullmatch(found[2]) or _ZEROS.fullmatch(found[3]):
        return None
    more = parent[PARENT_LENGTH:]
    if more and (found[1] == "00" or more[0] != "-"):  # only a later version may append parts
        return None
    return Trace(f"00-{found[2]}-{found[3]}-{found[4]}", _state(state) if state else "")


def trace_of(text: str) -> Trace | None:
    """Read `Trace.text`; ``None`` = it is none."""
    parent, _, state = text.partition(" ")
    return read_trace(parent, state)


def _state(state: str) -> str:
    if len(state) > MOST_STATE:
        return ""
    entries = [entry.strip(" \t") for entry in state.split(",")]
    entries = [entry for entry in entries if entry]
    if len(entries) > MOST_ENTRIES or not all(map(_ENTRY.fullmatch, entries)):
        return ""
    return ",".join(entries)
