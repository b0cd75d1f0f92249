"""Reads the Content-Type header, and converts the message to UTF-8 (HTTP-01).

All other modules of this package get UTF-8.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mercury.statemachine.protocol import SoapVersion
from mercury.wire.scan import MessageRefused, refused

#: The media types of a SOAP envelope, and the SOAP version of each.
_MEDIA_TYPES = {
    "text/xml": SoapVersion.SOAP11,
    "application/soap+xml": SoapVersion.SOAP12,
    "application/xml": None,
    "": None,
}

#: The media type of the envelope in an MTOM message.
XOP_TYPE = "application/xop+xml"

#: The forms that most clients send; `_PARAMETER` reads all others.
_USUAL = re.compile(r'(text/xml|application/soap\+xml)(?:; ?charset=(utf-8|UTF-8))?(?:; ?action="([^"\\]*)")?')
#: A boundary of RFC 2046.
_BOUNDARY = re.compile(r"[!-~ ]{0,69}[!-~]")
_PARAMETER = re.compile(r';[ \t]*([^\s=;"]{1,64})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))[ \t]*')
_ESCAPED = re.compile(r"\\(.)")

#: The codec for each name of a supported encoding.
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
class Package:
    """The parameters of an MTOM message: a multipart/related package whose root is application/xop+xml."""

    boundary: str
    #: The Content-ID of the root without angle brackets; ``None`` = the root is the first part.
    start: str | None


@dataclass(frozen=True, slots=True)
class ContentType:
    """The parts of a Content-Type header."""

    #: The SOAP version of the media type; ``None`` = the media type is not that of one version.
    soap: SoapVersion | None
    #: The charset parameter as written, ``None`` = not given.
    charset: str | None
    #: The action parameter of application/soap+xml, "" = not given.
    action: str
    #: Set if the envelope is the root of an MTOM message.
    package: Package | None = None


def read_content_type(value: str) -> ContentType:
    """Parse a Content-Type header. With "", every part of the result is unknown.

    :raises MessageRefused: the media type cannot hold an envelope that Mercury reads.
    """
    usual = _USUAL.fullmatch(value)
    if usual is not None:
        return ContentType(_MEDIA_TYPES[usual[1]], usual[2], usual[3] or "")
    media, _, rest = value.partition(";")
    media = media.strip().lower()
    if media == "multipart/related":
        return _read_package(value)
    if media not in _MEDIA_TYPES:
        raise refused(f"not a media type of SOAP: {media[:80]!r}")
    given = dict(_pairs(value)) if rest else {}
    return ContentType(_MEDIA_TYPES[media], given.get("charset"), given.get("action", ""))


def soap_version(content_type: str) -> SoapVersion | None:
    """The version of SOAP that a Content-Type header names; ``None`` = it names none."""
    try:
        return read_content_type(content_type).soap
    except MessageRefused:
        return None


def is_package(content_type: str) -> bool:
    """Whether a Content-Type header names a package of parts."""
    return content_type.partition(";")[0].strip().lower() == "multipart/related"


def _read_package(value: str) -> ContentType:
    parameters = _parameters(value)
    kind = parameters.get("type", "").strip().lower()
    if kind != XOP_TYPE:
        raise refused(f"not a media type of SOAP: 'multipart/related' of the type {kind[:80]!r}, which is not MTOM")
    boundary = parameters.get("boundary", "")
    if _BOUNDARY.fullmatch(boundary) is None:
        raise refused("the boundary of the MTOM message is missing or is not one")
    start = parameters.get("start")
    soap, action = read_start_info(parameters.get("start-info", ""))
    return ContentType(
        soap,
        None,
        one_action(action, parameters.get("action", "")),
        Package(boundary, None if start is None else bare_id(start)),
    )


def read_root_type(value: str) -> ContentType:
    """Parse the Content-Type of the root of an MTOM message.

    :raises MessageRefused: it is not application/xop+xml, or it names a type that is not SOAP.
    """
    media = value.partition(";")[0].strip().lower()
    if media != XOP_TYPE:
        raise refused(f"the root of the MTOM message is {media[:80]!r}, not {XOP_TYPE}")
    parameters = _parameters(value)
    soap, action = read_start_info(parameters.get("type", ""))
    return ContentType(soap, parameters.get("charset"), one_action(action, parameters.get("action", "")))


def read_start_info(value: str) -> tuple[SoapVersion | None, str]:
    """The version of SOAP, and the action, of the media type that the root would have without MTOM."""
    media = value.partition(";")[0].strip().lower()
    if media not in _MEDIA_TYPES:
        raise refused(f"not a media type of SOAP in an MTOM message: {media[:80]!r}")
    return _MEDIA_TYPES[media], _parameters(value).get("action", "")


def one_action(*given: str) -> str:
    """The action that several headers of one message name; "" = none names one.

    :raises MessageRefused: two of them name different actions.
    """
    actions = sorted({each for each in given if each})
    if len(actions) > 1:
        raise refused("the headers of the MTOM message name two actions")
    return actions[0] if actions else ""


def bare_id(value: str) -> str:
    """A Content-ID without its angle brackets."""
    return value.strip().removeprefix("<").removesuffix(">")


def _parameters(value: str) -> dict[str, str]:
    """The parameters of a media type by their names in lower case.

    :raises MessageRefused: two have the same name.
    """
    found: dict[str, str] = {}
    for name, text in _pairs(value):
        if name in found:
            raise refused(f"the media type has two parameters {name[:40]!r}")
        found[name] = text
    return found


def _pairs(value: str) -> Iterator[tuple[str, str]]:
    """The names, in lower case, and the texts of the parameters of a media type."""
    for match in _PARAMETER.finditer(value):
        name, quoted, plain = match.groups()
        yield name.lower(), plain if quoted is None else _ESCAPED.sub(r"\1", quoted)


def to_utf8(data: bytes, charset: str | None = None) -> bytes:
    """``data`` as UTF-8 without a byte order mark.

    The encoding is ``charset``, or else that of the byte order mark, or else that of the XML declaration, or else
    UTF-8. The XML declaration stays unchanged, and may then name another encoding than UTF-8.

    :raises MessageRefused: the encoding is not supported, or the bytes are not valid in it.
    """
    name = charset or _detect(data)
    codec = _CODECS.get(name.strip().lower())
    if codec is None:
        raise refused(f"the encoding {name[:40]!r} is not supported")
    if codec == "utf-8":
        return data.removeprefix(codecs.BOM_UTF8)  # the scanner checks that the rest is valid UTF-8
    if codec == "utf-16" and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        codec = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be"
    try:
        return data.decode(codec).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").encode()
    except UnicodeError as error:
        raise _not_in(codec) from error


def is_plain_utf8(data: bytes, charset: str | None) -> bool:
    """Whether `to_utf8` leaves ``data`` as it is, without a check."""
    name = charset or _detect(data)
    return _CODECS.get(name.strip().lower()) == "utf-8" and not data.startswith(codecs.BOM_UTF8)


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
