"""The Content-Type header and the encoding of what it announces (HTTP-01).

Everything behind this module is UTF-8.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from mercury.statemachine.protocol import SoapVersion
from mercury.wire.scan import MessageRefused, refused

#: The media types that may hold a SOAP envelope, and the SOAP version each is meant for.
_MEDIA_TYPES = {
    "text/xml": SoapVersion.SOAP11,
    "application/soap+xml": SoapVersion.SOAP12,
    "application/xml": None,
    "": None,
}

#: What nearly everybody sends; the long way is for the rest.
_USUAL = re.compile(r'(text/xml|application/soap\+xml)(?:; ?charset=(utf-8|UTF-8))?(?:; ?action="([^"\\]*)")?')
_PARAMETER = re.compile(r';[ \t]*([^\s=;"]{1,64})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))[ \t]*')
_ESCAPED = re.compile(r"\\(.)")

#: The encodings that are read, by the names they go by, and the codec of each.
_CODECS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "utf-16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "latin-1",
    "latin1": "latin-1",
    "windows-1252": "cp1252",
    "cp1252": "cp1252",
}

_DECLARED = re.compile(
    rb"<\?xml[ \t\r\n][^>]{0,200}?encoding[ \t\r\n]{0,9}=[ \t\r\n]{0,9}[\"']([A-Za-z0-9._-]{1,40})[\"']"
)


@dataclass(frozen=True, slots=True)
class ContentType:
    """What a Content-Type header says."""

    #: The SOAP version that the media type is for; ``None`` = it does not say.
    soap: SoapVersion | None
    #: As written, ``None`` = not given.
    charset: str | None
    #: The action parameter of application/soap+xml, "" = not given.
    action: str


def read_content_type(value: str) -> ContentType:
    """Take a Content-Type header apart. An empty one means nothing is known.

    :raises MessageRefused: the media type cannot hold an envelope that Mercury reads.
    """
    usual = _USUAL.fullmatch(value)
    if usual is not None:
        return ContentType(_MEDIA_TYPES[usual[1]], usual[2], usual[3] or "")
    media, _, rest = value.partition(";")
    media = media.strip().lower()
    if media not in _MEDIA_TYPES:
        raise refused(f"not a media type of SOAP: {media[:80]!r}")
    charset, action = None, ""
    if rest:
        for match in _PARAMETER.finditer(value, len(value) - len(rest) - 1):
            name, quoted, plain = match.groups()
            name = name.lower()
            if name == "charset":
                charset = quoted or plain
            elif name == "action":
                action = _ESCAPED.sub(r"\1", quoted) if quoted is not None else plain
    return ContentType(_MEDIA_TYPES[media], charset, action)


def to_utf8(data: bytes, charset: str | None = None) -> bytes:
    """``data`` as UTF-8 without a byte order mark.

    ``charset`` decides; without it the byte order mark, then the XML declaration, then UTF-8. An XML declaration
    stays as it is, though what it says about the encoding may have become wrong.

    :raises MessageRefused: an encoding that is not read here, or bytes that are none of that encoding.
    """
    name = charset or _detect(data)
    codec = _CODECS.get(name.strip().lower())
    if codec is None:
        raise refused(f"the encoding {name[:40]!r} is not supported")
    if codec == "utf-8":
        return data.removeprefix(codecs.BOM_UTF8)  # whether it is UTF-8 is checked by the scan
    if codec == "utf-16" and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        codec = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be"
    try:
        return data.decode(codec).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").encode()
    except UnicodeError as error:
        raise _not_in(codec) from error


def _detect(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or data[:2] in (b"<\0", b"\0<"):
        return "utf-16"
    if data.startswith(b"<?xml"):
        match = _DECLARED.match(data)
        if match:
            return match[1].decode("ascii")
    return "utf-8"


def _not_in(codec: str) -> MessageRefused:
    return refused(f"the message is not encoded in {codec}")
