"""Binary content that is sent and received in pieces, as a part of an MTOM message (decision 36)."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from mercury.errors import PayloadError

XOP = "http://www.w3.org/2004/08/xop/include"

#: The most bytes that are read from a file at once.
PIECE = 256 * 1024


@dataclass(frozen=True, slots=True)
class LargePart:
    """A part of an MTOM message whose content is not in memory."""

    #: Without angle brackets.
    content_id: str
    #: Bytes.
    size: int
    #: Returns the content in pieces, from its beginning at every call.
    pieces: Callable[[], Iterator[bytes]]


class Attachment:
    """The binary content of an element (``xs:base64Binary``) that need not be in memory.

    A field of this type in a dataclass makes the element a part of an MTOM message. A handler gets one whose pieces are
    read from the store, or from memory if the message was small; it can be read until the handler returns.

    :param content: the content.
    :param size: its length in bytes, where it is known.
    """

    __slots__ = ("_content", "size")

    def __init__(self, content: bytes | Path | IO[bytes] | Iterable[bytes], size: int | None = None) -> None:
        self._content = content
        #: The length in bytes; ``None`` = it is not known before the content is read.
        self.size = len(content) if isinstance(content, bytes) else size

    def __iter__(self) -> Iterator[bytes]:
        """The content in pieces, none of them empty.

        :raises PayloadError: the content is not bytes.
        :raises OSError: the file cannot be read.
        """
        content = self._content
        if isinstance(content, bytes):
            yield from (content[at : at + PIECE] for at in range(0, len(content), PIECE))
        elif isinstance(content, Path):
            with content.open("rb") as file:
                yield from _read(file.read)
        elif (read := getattr(content, "read", None)) is not None:
            yield from _read(read)
        else:
            for piece in content:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    raise PayloadError(f"the content of an attachment is bytes, not {type(piece).__name__}")
                if piece:
                    yield bytes(piece)

    def read(self) -> bytes:
        """The whole content, in memory. Raises the same errors as the iteration."""
        return b"".join(self)

    def __repr__(self) -> str:
        return f"Attachment(size={self.size})"


def _read(read: Callable[[int], object]) -> Iterator[bytes]:
    while piece := read(PIECE):
        if not isinstance(piece, bytes):
            raise PayloadError("the file of an attachment is open in text mode: open it in binary mode")
        yield piece


def to_base64(value: object) -> str:
    """The content of an attachment as the text of an element.

    :raises ValueError: the value is not an attachment.
    """
    if not isinstance(value, Attachment):
        raise ValueError("it is not an Attachment")
    return binascii.b2a_base64(value.read(), newline=False).decode("ascii")


def from_base64(text: str) -> Attachment:
    """The attachment whose content is the text of an element.

    :raises ValueError: the text is not base64.
    """
    return Attachment(binascii.a2b_base64(text.encode().translate(None, b" \t\r\n"), strict_mode=True))


def content_id(href: str) -> str:
    """The Content-ID in a cid URL (RFC 2392).

    :raises UnicodeError: its escaped characters are not UTF-8.
    """
    return unquote(href[4:], errors="strict")
