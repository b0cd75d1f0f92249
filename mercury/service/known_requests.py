"""Headers of small requests that were parsed before: equal bytes mean the same, so they need not be parsed again.

The messages that a peer posts to one endpoint have the same header, byte for byte, apart from the length of the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

#: The most headers that are remembered, and the most bytes of one.
MOST_HEADS, LONGEST_HEAD = 64, 2048
#: The most digits of a length, which is written without leading zeros.
MOST_DIGITS = 6
_BLANK_LINE = b"\r\n\r\n"
#: The field of the length as most clients write it.
_LENGTH = b"\r\nContent-Length: "
#: A request with one of these has no plain length, or a header of its own.
_UNUSUAL = ("transfer-encoding", "expect", "traceparent")


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """What the header of a request says, which keeps its connection open."""

    url: bytes
    #: The header fields, names in lower case, and the same by name.
    fields: Sequence[tuple[bytes, bytes]]
    headers: Mapping[str, str]
    #: The place of the length among the fields.
    place: int = 0

    def fields_with(self, length: bytes) -> list[tuple[bytes, bytes]]:
        """The header fields with another length of the body."""
        fields = [*self.fields]
        fields[self.place] = (b"content-length", length)
        return fields


class KnownRequests:
    """The headers of one server's requests. Not thread-safe.

    Only a request that is received by one read, without anything before or behind it, is remembered or found: the
    parser is at the beginning of a request then, before and after it.
    """

    def __init__(self) -> None:
        #: By the bytes before and behind the length, as far as the blank line.
        self._known: dict[tuple[bytes, bytes], KnownRequest] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, data: bytes) -> tuple[KnownRequest, bytes, bytes] | None:
        """A request with the header of ``data``, apart from the length, and the length and the body of ``data``, which
        has nothing else; ``None`` = it has to be parsed."""
        parts = _parts(data)
        if parts is None:
            return None
        before, length, behind, body = parts
        known = self._known.get((before, behind))
        return None if known is None else (known, length, body)

    def learn(self, data: bytes, request: KnownRequest) -> None:
        """Remember the header of a request, which was parsed from ``data``; not if ``data`` has another header, too."""
        parts = _parts(data)
        if parts is None or any(name in request.headers for name in _UNUSUAL):
            return
        before, length, behind, _ = parts
        if _BLANK_LINE in before:  # the length is that of another request, behind the one that was parsed
            return
        if len(before) + len(behind) > LONGEST_HEAD or request.headers.get("content-length") != length.decode("ascii"):
            return
        if len(self._known) >= MOST_HEADS:
            self._known.clear()
        place = [name for name, _ in request.fields].index(b"content-length")
        self._known[before, behind] = replace(request, place=place)


def _parts(data: bytes) -> tuple[bytes, bytes, bytes, bytes] | None:
    """The bytes before the length, the length, those behind it as far as the blank line, and the body; ``None`` = it
    has no plain length, another one, or no blank line behind it."""
    begin = data.find(_LENGTH, 0, LONGEST_HEAD) + len(_LENGTH)
    if begin < len(_LENGTH):
        return None
    end = data.find(b"\r", begin, begin + MOST_DIGITS + 1)
    length = data[begin:end]
    blank = data.find(_BLANK_LINE, end)
    if end < 0 or blank < 0 or not length.isdigit() or length.startswith(b"0"):
        return None
    behind = blank + len(_BLANK_LINE)
    if len(data) != behind + int(length):
        return None
    return data[:begin], length, data[end:behind], data[behind:]
