"""Reads and writes MTOM messages (SOAP MTOM 1.0, XOP 1.0; HTTP-01).

An MTOM message is a package of an envelope and of parts with binary content. An element of the envelope that has such
a content holds only an ``xop:Include``, which names its part. `unpack` replaces each by the base64 text of the part, so
that all other modules read the same envelope as without MTOM. `pack` does the reverse for text in canonical base64:
the reader gets the same characters back, whatever the type of the element.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mercury.statemachine.protocol import SoapVersion
from mercury.wire.attachment import XOP, LargePart, content_id
from mercury.wire.cut import START_TAG
from mercury.wire.media import XOP_TYPE, ContentType, Package, one_action, read_root_type, to_utf8
from mercury.wire.multipart import Part, split
from mercury.wire.scan import Limits, MessageRefused, Scanner, refused
from mercury.wire.spool import Spool
from mercury.wire.values import BLANKS

#: The envelope that is read from an MTOM message may have so many times the bytes of the message. Parts that are named
#: once need four thirds at most; the rest is for parts that are named more than once.
GROWTH = 2
#: Content of at least so many bytes is written as a part of its own, and at most so many parts are written.
SMALLEST_PART = 1024
#: A part of a message in a file stays in the file if it has more bytes.
LARGE = 64 * 1024
MOST_PARTS = 256

_BLANKS = BLANKS.encode()
_INCLUDE = f"{XOP}}}Include"
_END_TAG = re.compile(rb"[ \t\r\n]*+</")

#: Matches comments and CDATA sections, which are skipped, and an element whose content is one long text of letters of
#: base64. It is matched only against well-formed XML, whose attribute values have no "<", so it reads each byte twice
#: at most.
_LONG_TEXT = re.compile(
    rb"<!--(?s:.*?)-->|<!\[CDATA\[(?s:.*?)\]\]>|"
    rb"<[^\s/!?<>\"'][^\"'<>]*+(?:(?:\"[^\"]*+\"|'[^']*+')[^\"'<>]*+)*+(?<!/)>([A-Za-z0-9+/]{%d,}+={0,2}+)</"
    % (SMALLEST_PART * 4 // 3)
)


# --- reading -------------------------------------------------------------------------------------------------------


class Unpackable(MessageRefused):
    """An MTOM message cannot be used, but its envelope was found; ``root`` is the envelope in UTF-8."""

    def __init__(self, error: MessageRefused, root: bytes) -> None:
        super().__init__(error.fault)
        self.root = root


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The envelope of an MTOM message."""

    #: In UTF-8, with the content of the parts that are not in ``parts``.
    envelope: bytes
    #: Its media type without MTOM.
    kind: ContentType
    #: The parts that stay outside: the ``xop:Include`` elements that name them are in the envelope.
    parts: tuple[LargePart, ...] = ()


def unpack(data: bytes | Spool, kind: ContentType, package: Package, limits: Limits) -> Unpacked:
    """Put the content of the parts of an MTOM message into its envelope.

    Parts that no ``xop:Include`` names are ignored. The sizes are checked before the content is inserted. Of a message
    in a file, which is larger than ``limits.max_bytes``, the parts of more than `LARGE` bytes stay in the file.

    :raises Unpackable: the envelope does not fit the parts.
    :raises MessageRefused: the package is not well-formed, has too many parts, or has no envelope.
    """
    parts = split(data, package.boundary, limits.max_parts)
    root, named = _by_id(parts, package.start)
    inner = read_root_type(root.content_type)
    if kind.soap is not None and inner.soap is not None and kind.soap is not inner.soap:
        raise refused("the headers of the MTOM message name two versions of SOAP")
    if len(root) > limits.max_bytes:
        raise refused(f"the envelope of the MTOM message is larger than {limits.max_bytes} bytes")
    envelope = to_utf8(bytes(root.content()), inner.charset)
    result = ContentType(kind.soap or inner.soap, "utf-8", one_action(kind.action, inner.action))
    try:
        whole, large = _with_parts(envelope, named, limits, len(data), LARGE if isinstance(data, Spool) else None)
        return Unpacked(whole, result, large)
    except MessageRefused as error:
        raise Unpackable(error, envelope) from error


def _by_id(parts: list[Part], start: str | None) -> tuple[Part, dict[str, Part]]:
    """The root, and the other parts by their Content-ID."""
    named: dict[str, Part] = {}
    for part in parts:
        if part.content_id and named.setdefault(part.content_id, part) is not part:
            raise refused(f"two parts of the MTOM message have the Content-ID {part.content_id[:80]!r}")
    if not parts:
        raise refused("the MTOM message has no parts")
    if start is None:
        root = parts[0]
        named.pop(root.content_id, None)
        return root, named
    found = named.pop(start, None) if start else None
    if found is None:
        raise refused(f"no part of the MTOM message is its root {start[:80]!r}")
    return found, named


def _with_parts(
    envelope: bytes, named: dict[str, Part], limits: Limits, received: int, large: int | None
) -> tuple[bytes, tuple[LargePart, ...]]:
    """The envelope with the content of its parts, and those parts that stay outside.

    :param large: parts with more bytes stay outside; ``None`` = none does.
    """
    if b"Include" not in envelope:
        return envelope, ()
    scanner = _Includes(envelope, limits)
    scanner.run()
    contents: dict[str, memoryview | bytes] = {}
    outside: dict[str, LargePart] = {}
    size = len(envelope)
    for each in scanner.found:
        part = named.get(each.content_id)
        if part is None:
            raise refused(f"no part of the MTOM message has the Content-ID {each.content_id[:80]!r}")
        if large is not None and len(part) > large:
            if part.base64:
                raise refused(f"a part of more than {large} bytes is in base64: send it as it is")
            outside[each.content_id] = LargePart(each.content_id, len(part), part.pieces)
            continue
        if each.content_id not in contents:
            contents[each.content_id] = part.content()
        size += (len(contents[each.content_id]) + 2) // 3 * 4 - (each.end - each.start)
    if size > limits.max_bytes:
        raise refused(f"the message is larger than {limits.max_bytes} bytes with the content of its parts")
    if size > max(GROWTH * received, len(envelope)):
        raise refused(f"the message is more than {GROWTH} times as large with the content of its parts")
    texts = {name: binascii.b2a_base64(content, newline=False) for name, content in contents.items()}
    pieces, at = list[bytes](), 0
    for each in scanner.found:
        if each.content_id in outside:
            continue
        pieces += (envelope[at : each.start], texts[each.content_id])
        at = each.end
    return b"".join((*pieces, envelope[at:])), tuple(outside.values())


@dataclass(frozen=True, slots=True)
class _Include:
    """An ``xop:Include``: its offsets in bytes, and the part that it names."""

    start: int
    end: int
    content_id: str


class _Includes(Scanner):
    """Finds the elements ``xop:Include`` of a document; each must be the only content of its element."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        super().__init__(data, limits, levels=1)
        self.found: list[_Include] = []
        #: The offset of the latest tag, if it is a start tag; otherwise -1.
        self._opened = -1
        #: The ``xop:Include`` that is open: the offset and the end of its start tag, and the part.
        self._open: tuple[int, int, str] | None = None

    def _start(self, name: str, attributes: list[str]) -> None:
        super()._start(name, attributes)
        at = self._parser.CurrentByteIndex
        if self._open is not None:
            raise refused("an xop:Include has content")
        if name == _INCLUDE:
            before = START_TAG.match(self.data, self._opened) if self._opened >= 0 else None
            if before is None or self.data[before.end() : at].strip(_BLANKS):
                raise _not_alone()
            tag = START_TAG.match(self.data, at)
            assert tag is not None  # expat has read it
            self._open = at, tag.end(), _content_id(dict(zip(attributes[::2], attributes[1::2], strict=True)))
        self._opened = at

    def _end(self, name: str) -> None:
        if self._open is not None:
            start, end, content_id = self._open
            if not self.data.startswith(b"/>", end - 2):
                closed = self._parser.CurrentByteIndex
                if self.data[end:closed].strip(_BLANKS):
                    raise refused("an xop:Include has content")
                end = self.data.index(b">", closed) + 1
            if _END_TAG.match(self.data, end) is None:
                raise _not_alone()
            self.found.append(_Include(start, end, content_id))
            self._open = None
        self._opened = -1
        super()._end(name)


def _not_alone() -> MessageRefused:
    return refused("an xop:Include is not the only content of its element")


def _content_id(attributes: dict[str, str]) -> str:
    href = attributes.get("href", "").strip(BLANKS)
    if href[:4].lower() != "cid:":
        raise refused(f"an xop:Include does not name a part by a cid URL: {href[:80]!r}")
    try:
        return content_id(href)
    except UnicodeError as error:
        raise refused(f"an xop:Include names its part by an invalid URL: {href[:80]!r}") from error


# --- writing -------------------------------------------------------------------------------------------------------


def pack(
    before: bytes, content: bytes, after: bytes, soap: SoapVersion, action: str | None
) -> tuple[bytes, str] | None:
    """Write an envelope as an MTOM message; the same envelope gives the same bytes.

    Each element in the content of the Body whose text is canonical base64 of at least `SMALLEST_PART` bytes becomes a
    part, up to `MOST_PARTS`.

    :param before: the envelope up to the content of the Body.
    :param content: the content of the Body.
    :param after: the rest of the envelope.
    :param action: the action for the media type of SOAP 1.2; ``None`` = none.
    :returns: the package and its media type; ``None`` = the envelope has an ``xop:Include`` already, so XOP does not
        allow to write it as MTOM.
    """
    if _may_include(before) or _may_include(content):
        return None
    found = [match for match in _LONG_TEXT.finditer(content) if match[1] is not None]
    parts, pieces, at = list[tuple[str, bytes]](), [before], 0
    for match in found:
        binary = _canonical(match[1])
        if binary is None or len(parts) == MOST_PARTS:
            continue
        name = f"{len(parts) + 1}.{hashlib.blake2b(binary, digest_size=12).hexdigest()}@mercury"
        parts.append((name, binary))
        pieces += (content[at : match.start(1)], f'<xop:Include xmlns:xop="{XOP}" href="cid:{name}"/>'.encode())
        at = match.end(1)
    root = b"".join((*pieces, content[at:], after))
    boundary = _boundary(root, parts)
    written = [_root_head(boundary, soap), root]
    for name, binary in parts:
        written += (b"\r\n", _head(boundary, "application/octet-stream", name), binary)
    written.append(_end(boundary))
    return b"".join(written), _content_type(boundary, soap, action)


@dataclass(frozen=True, slots=True)
class Packed:
    """An MTOM message whose parts are not in memory."""

    content_type: str
    #: The envelope, with its header.
    start: bytes
    #: The parts, with the header of each and the end of the package.
    parts: tuple[tuple[bytes, LargePart], ...]
    end: bytes

    @property
    def size(self) -> int:
        """The bytes of `pieces`."""
        return sum(len(head) + part.size for head, part in self.parts) + len(self.end)

    def pieces(self) -> Iterator[bytes]:
        """What comes after ``start``. Raises what reading a part raises."""
        for head, part in self.parts:
            yield head
            yield from part.pieces()
        yield self.end


def pack_parts(root: bytes, parts: Sequence[LargePart], soap: SoapVersion, action: str | None) -> Packed:
    """Write an envelope that has the ``xop:Include`` elements of its parts as an MTOM message.

    :param action: as for `pack`.
    """
    # The parts are not searched for the boundary. It is a digest of the MessageID among others, a random UUID, and so
    # cannot be in content that was made before.
    boundary = f"mercury-{hashlib.blake2b(root, digest_size=24).hexdigest()}"
    heads = (b"\r\n" + _head(boundary, "application/octet-stream", part.content_id) for part in parts)
    return Packed(
        _content_type(boundary, soap, action),
        _root_head(boundary, soap) + root,
        tuple(zip(heads, parts, strict=True)),
        _end(boundary),
    )


def _media(soap: SoapVersion) -> str:
    return "text/xml" if soap is SoapVersion.SOAP11 else "application/soap+xml"


def _root_head(boundary: str, soap: SoapVersion) -> bytes:
    return _head(boundary, f'{XOP_TYPE}; charset=utf-8; type="{_media(soap)}"', "root@mercury")


def _end(boundary: str) -> bytes:
    return f"\r\n--{boundary}--\r\n".encode()


def _content_type(boundary: str, soap: SoapVersion, action: str | None) -> str:
    kind = f'multipart/related; type="{XOP_TYPE}"; start="<root@mercury>"; start-info="{_media(soap)}"'
    kind = f'{kind}; boundary="{boundary}"'
    return kind if action is None else f'{kind}; action="{action}"'


def _may_include(xml: bytes) -> bool:
    """Whether an ``xop:Include`` may be in it; ``True`` if that is not clear."""
    return b"Include" in xml and (XOP.encode() in xml or b"&#" in xml)


def _canonical(text: bytes) -> bytes | None:
    """What ``text`` encodes, if `unpack` would write exactly the same text for it; else ``None``."""
    try:
        binary = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return None
    canonical = len(binary) >= SMALLEST_PART and binascii.b2a_base64(binary, newline=False) == text
    return binary if canonical else None


def _boundary(root: bytes, parts: list[tuple[str, bytes]]) -> str:
    """A boundary that the content does not have. It is computed, so that a repeated message has the same bytes."""
    digest = hashlib.blake2b(root, digest_size=16)
    while True:
        boundary = f"mercury-{digest.hexdigest()}"
        if not any(boundary.encode() in each for each in (root, *(binary for _, binary in parts))):
            return boundary
        digest.update(b"-")


def _head(boundary: str, media: str, name: str) -> bytes:
    return (
        f"--{boundary}\r\nContent-Type: {media}\r\nContent-Transfer-Encoding: binary\r\nContent-ID: <{name}>\r\n\r\n"
    ).encode()
