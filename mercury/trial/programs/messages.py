"""The messages of the built-in programs: one for each kind of content, and the answer."""

from __future__ import annotations

import enum
import hashlib
import random
from dataclasses import dataclass
from decimal import Decimal

from mercury.wire.attachment import Attachment


class Kind(enum.Enum):
    """The kind of a message's content."""

    TEXT = "text"
    #: Characters of several scripts, with markup and white space that XML could alter.
    UNICODE = "unicode"
    BINARY = "binary"
    #: Fields of several types.
    RECORD = "record"
    #: A part of an MTOM message, sent and received in pieces.
    ATTACHMENT = "attachment"


@dataclass(frozen=True)
class Text:
    marker: str
    text: str


@dataclass(frozen=True)
class Binary:
    marker: str
    content: bytes


@dataclass(frozen=True)
class Record:
    marker: str
    amount: Decimal
    many: list[int]
    given: bool | None
    text: str


@dataclass(frozen=True)
class File:
    marker: str
    content: Attachment


@dataclass(frozen=True)
class Answer:
    marker: str
    checksum: str


UNUSUAL = "äß€\u0416\u4e2d\U0001f600<&>\"' \t\n]]>"


def content(branch: str, number: int, kind: Kind, size: int) -> bytes:
    """The content of a message, ``size`` bytes, the same at every call."""
    chance = random.Random(f"{branch} {number}")  # noqa: S311 - not for secrets
    if kind in (Kind.BINARY, Kind.ATTACHMENT):
        return chance.randbytes(size)
    letters = UNUSUAL if kind is Kind.UNICODE else "abcdefghijklmnopqrstuvwxyz 0123456789"
    block = "".join(chance.choice(letters) for _ in range(min(size, 1000)))
    text = (block * (size // max(len(block), 1) + 1))[:size]
    return text.encode()


def checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:24]


def marker(branch: str, number: int) -> str:
    """What a link recognises a message by: ``branch`` has no blanks."""
    return f"{branch}#{number};"


def parsed(text: str) -> tuple[str, int]:
    """The branch and the number of a marker."""
    branch, _, number = text.rstrip(";").rpartition("#")
    return branch, int(number)


def message(branch: str, number: int, kind: Kind, size: int) -> Text | Binary | Record | File:
    data, mark = content(branch, number, kind, size), marker(branch, number)
    match kind:
        case Kind.BINARY:
            return Binary(mark, data)
        case Kind.ATTACHMENT:
            return File(mark, Attachment(data, len(data)))
        case Kind.RECORD:
            return Record(mark, Decimal(number) / 4, [number] * 3, None, data.decode())
        case _:
            return Text(mark, data.decode())


def received(found: Text | Binary | Record | File) -> bytes:
    """The content of a message as it has arrived. A record with another value has other bytes than were sent."""
    match found:
        case Binary():
            return found.content
        case File():
            return b"".join(found.content)
        case Record():
            number = parsed(found.marker)[1]
            right = (found.amount, found.many, found.given) == (Decimal(number) / 4, [number] * 3, None)
            return found.text.encode() if right else repr(found).encode()
        case _:
            return found.text.encode()
