"""Splits the package of an MTOM message into its parts (RFC 2046, RFC 2387).

The standard library's parser of mails takes eight times as long for a large message, and ten times its size of memory.
This one reads only what MTOM needs, searches the boundary once, and copies no content. The package may be in a file,
of which only pieces are in memory. It refuses what two readers
could split differently.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mercury.wire.media import bare_id
from mercury.wire.scan import refused
from mercury.wire.values import BLANKS

#: The most bytes of the header of one part.
MAX_HEAD = 8 * 1024
#: The most bytes that are read at once from a part that stays in its file.
PIECE = 256 * 1024

_REST_OF_LINE = re.compile(rb"[ \t]*+\r\n")
_FOLD = re.compile(r"\r\n[ \t]")
_FIELD = re.compile(r"([!-9;-~]+)[ \t]*:([^\r\n\x00]*)")
#: Encodings that leave the content as it is. A part without a header for it is 7bit.
_AS_IT_IS = frozenset({"7bit", "8bit", "binary"})
_READ = frozenset({"content-id", "content-type", "content-transfer-encoding"})


class Package(Protocol):
    """The bytes of a package: ``bytes``, or a file (`mercury.wire.spool`)."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice, /) -> bytes: ...

    def find(self, sought: bytes, start: int = ..., end: int = ..., /) -> int:
        """As ``bytes.find``."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a package."""

    #: Without angle brackets; "" = the part has none.
    content_id: str
    #: "" = the part has none.
    content_type: str
    #: Whether the content was sent in base64.
    base64: bool
    #: The package, and the offsets in it between which the content was sent.
    package: Package
    start: int
    end: int

    def __len__(self) -> int:
        """The bytes that were sent."""
        return self.end - self.start

    def content(self) -> memoryview | bytes:
        """The content of the part.

        :raises MessageRefused: it is not in the encoding that the part names.
        """
        if not self.base64:
            if isinstance(self.package, bytes):
                return memoryview(self.package)[self.start : self.end]
            return self.package[self.start : self.end]
        sent = self.package[self.start : self.end]
        try:
            return binascii.a2b_base64(sent.translate(None, BLANKS.encode()), strict_mode=True)
        except binascii.Error as error:
            raise refused(f"the part {self.content_id[:80]!r} is not in base64: {error}") from error

    def pieces(self) -> Iterator[bytes]:
        """The bytes that were sent, in pieces of at most `PIECE` bytes."""
        for at in range(self.start, self.end, PIECE):
            yield self.package[at : min(at + PIECE, self.end)]


def split(data: Package, boundary: str, most: int) -> list[Part]:
    """The parts of a package, in time linear in its length.

    :param most: the most parts.
    :raises MessageRefused: the package is not well-formed, or has more parts.
    """
    line = b"--" + boundary.encode("ascii")
    delimiter = b"\r\n" + line
    at = 0 if data[: len(line)] == line else data.find(delimiter) + 2
    if at == 1:
        raise refused("the MTOM message does not have the boundary that its media type names")
    parts = list[Part]()
    while True:
        at += len(line)
        if data[at : at + 2] == b"--":
            return parts
        end_of_line = _REST_OF_LINE.match(data[at : at + MAX_HEAD])
        if end_of_line is None:
            raise refused("a line of the MTOM message begins with the boundary and continues with other text")
        if len(parts) == most:
            raise refused(f"the MTOM message has more than {most} parts")
        start = at + end_of_line.end()
        end = data.find(delimiter, start - 2)
        if end < 0:
            raise refused("the MTOM message ends before its last boundary")
        parts.append(_part(data, start, end))
        at = end + 2


def _part(data: Package, start: int, end: int) -> Part:
    if start <= end and data[start : start + 2] == b"\r\n":
        head, content = b"", start + 2
    else:
        # The line end of the next boundary may be the empty line after the header.
        blank = data.find(b"\r\n\r\n", start, min(end + 2, start + MAX_HEAD + 4))
        if blank < 0:
            raise refused(f"a part of the MTOM message has no header of at most {MAX_HEAD} bytes")
        head, content = data[start:blank], blank + 4
    fields = _fields(head)
    kind = fields.get("content-type", "")
    if kind.lower().startswith("multipart/"):
        raise refused("a part of the MTOM message has parts itself")
    encoding = fields.get("content-transfer-encoding", "7bit").lower()
    if encoding not in _AS_IT_IS and encoding != "base64":
        raise refused(f"the Content-Transfer-Encoding {encoding[:40]!r} is not supported")
    return Part(bare_id(fields.get("content-id", "")), kind, encoding == "base64", data, min(content, end), end)


def _fields(head: bytes) -> dict[str, str]:
    """The fields of a header that MTOM needs, by their names in lower case."""
    try:
        lines = _FOLD.sub(" ", head.decode()).split("\r\n") if head else []
    except UnicodeError as error:
        raise refused("the header of a part of the MTOM message is not UTF-8") from error
    found: dict[str, str] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise refused("the header of a part of the MTOM message is not well-formed")
        name = field[1].lower()
        if name in _READ:
            if name in found:
                raise refused(f"a part of the MTOM message has {name} twice")
            found[name] = field[2].strip(BLANKS)
    return found
