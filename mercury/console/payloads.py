"""Payloads for people: XML with an element a line, or the text as it is; and as a text that they change."""

from __future__ import annotations

from dataclasses import dataclass
from xml.parsers import expat

from mercury.errors import PayloadError
from mercury.texts import printable
from mercury.wire.payload import canonical

#: Bytes of a payload that a page shows, and the depth of its elements up to which it is indented.
MOST, DEEPEST = 128 * 1024, 60
INDENT = "  "


@dataclass(frozen=True, slots=True)
class Shown:
    """A payload as a page shows it."""

    text: str
    #: Its whole size in bytes.
    size: int
    #: Only its beginning is shown.
    cut: bool = False


def shown(payload: bytes) -> Shown:
    """A payload, indented if it is XML."""
    if len(payload) > MOST:
        return Shown(_safe(payload[:MOST]), len(payload), cut=True)
    return Shown(printable(indented(payload) or _safe(payload), lines=True), len(payload))


def editable(payload: bytes) -> str:
    """A stored payload as the text of a form: sent back unchanged, it is the same document.

    So it is not indented: blanks between elements may mean something, and a signature covers them. Invisible characters
    and direction marks are character references, unless they stand where XML has none, as in a comment.
    """
    text = payload.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")  # as XML and browsers read them
    if printable(text, lines=True) == text:
        return text
    written = "".join(_referenced(each) for each in text)
    try:
        return written if canonical(written) == canonical(text) else text
    except PayloadError:
        return text


def _referenced(character: str) -> str:
    return character if printable(character, lines=True) == character else f"&#x{ord(character):X};"


def indented(payload: bytes) -> str | None:
    """XML with an element a line; ``None`` = it is not XML of one element, or has a document type."""
    if not payload.lstrip().startswith(b"<"):
        return None
    lines = _Lines()
    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.buffer_text = True
    parser.StartElementHandler = lines.start
    parser.EndElementHandler = lines.end
    parser.CharacterDataHandler = lines.text
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(payload, True)
    except (expat.ExpatError, ValueError):
        return None
    return "\n".join(lines.done)


def _refuse(*_: object) -> None:
    raise ValueError("a document type")


class _Lines:
    """Collects the lines of a document. An element with text only stays on one line."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._depth = 0
        #: The start tag and the text that are not written yet.
        self._open = ""
        self._text = ""

    def start(self, name: str, attributes: list[str]) -> None:
        self._flush()
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        written = "".join(f' {key}="{_escaped(value, quotes=True)}"' for key, value in pairs)
        self._open = f"<{name}{written}"
        self._depth += 1

    def text(self, data: str) -> None:
        self._text += data

    def end(self, name: str) -> None:
        self._depth -= 1
        if self._open:
            content = _escaped(self._text)
            self._line(f"{self._open}>{content}</{name}>" if content else f"{self._open}/>")
        else:
            self._mixed()
            self._line(f"</{name}>")
        self._open = self._text = ""

    def _flush(self) -> None:
        """Write a start tag whose element has elements."""
        if self._open:
            self._depth -= 1
            self._line(f"{self._open}>")
            self._depth += 1
            self._open = ""
        self._mixed()

    def _mixed(self) -> None:
        if self._text.strip():
            self._line(_escaped(self._text.strip()))
        self._text = ""

    def _line(self, text: str) -> None:
        self.done.append(INDENT * min(self._depth, DEEPEST) + text)


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;") if quotes else text


def _safe(payload: bytes) -> str:
    return printable(payload.decode("utf-8", "replace"), lines=True)
