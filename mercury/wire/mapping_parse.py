"""Parses the XML that the mapping reads, without keeping the names that a peer wrote in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from lxml import etree

from mercury.errors import PayloadError
from mercury.wire.own_thread import in_own_thread
from mercury.wire.xml_parser import closed_parser

#: The start of a document type, with everything that may stand before it. The parser gets no document with one.
_DOCTYPE = re.compile(rb"(?:\xef\xbb\xbf)?(?>[ \t\r\n]+|<\?.*?\?>|<!--.*?-->)*+<!DOCTYPE", re.DOTALL)

#: The limits of libxml2: the depth of nested elements, and the bytes of one text.
MAX_ELEMENT_DEPTH, MAX_TEXT = 256, 10_000_000

#: The bytes that expat is given at once: it copies them, and would have a copy of a whole large document.
FED_AT_ONCE = 256 * 1024


class _Target:
    """Builds the tree of a document, without a method for comments and for processing instructions.

    `ElementTree.TreeBuilder` has such methods. It would join the text of an element at each comment with all text
    before it, in a time that grows with the square of the size, while no other thread of the process runs. Without them
    the pieces of a text are joined once, at the next tag.
    """

    def __init__(self) -> None:
        builder = ElementTree.TreeBuilder()
        self.start, self.data, self.end, self.close = builder.start, builder.data, builder.end, builder.close


def parse_values(xml: bytes) -> ElementTree.Element:
    """Parse a document for its values with expat, which is faster than libxml2 and keeps no names."""
    refuse_doctype(xml)
    view = memoryview(xml)
    parser = ElementTree.XMLParser(target=_Target(), encoding="UTF-8")  # noqa: S314  there are no entities: no DOCTYPE
    try:
        for at in range(0, len(xml), FED_AT_ONCE):
            parser.feed(view[at : at + FED_AT_ONCE])
        root = parser.close()
    except ElementTree.ParseError as error:
        raise PayloadError(f"not well-formed XML: {cut(str(error))}") from error
    if xml.count(b"</") > MAX_ELEMENT_DEPTH and _deeper(root):
        raise PayloadError(f"not well-formed XML: elements nested deeper than {MAX_ELEMENT_DEPTH}")
    if len(xml) > MAX_TEXT and any(len(text.encode()) > MAX_TEXT for each in root.iter() for text in _texts(each)):
        raise PayloadError(f"not well-formed XML: a text is too long, with more than {MAX_TEXT} bytes")
    return root


def _deeper(root: ElementTree.Element) -> bool:
    level = [root]
    for _ in range(MAX_ELEMENT_DEPTH):
        level = [child for each in level for child in each]
        if not level:
            return False
    return True


def _texts(element: ElementTree.Element) -> Iterable[str]:
    return (element.text or "", element.tail or "", *element.attrib.values())


def parse(xml: bytes) -> etree._Element:
    """Parse a document with libxml2, which refuses more than expat."""
    refuse_doctype(xml)
    try:
        return in_own_thread(lambda: parsed(xml))
    except etree.XMLSyntaxError as error:
        raise PayloadError(f"not well-formed XML: {cut(error.msg)}") from error


def refuse_doctype(xml: bytes) -> None:
    """Refuse a document with a document type, which no parser gets to see.

    :raises PayloadError: there is one, or a NUL, as in UTF-16.
    """
    if b"\0" in xml:
        raise PayloadError("not well-formed XML: not in UTF-8")
    if _DOCTYPE.match(xml) is not None:
        raise PayloadError("a document type is not accepted")


def parsed(xml: bytes) -> etree._Element:
    """Parse a document without a document type with libxml2, in this thread, which keeps the names in it."""
    root: etree._Element = etree.fromstring(xml, closed_parser(encoding="UTF-8"))
    return root


def cut(text: str) -> str:
    """The first 200 characters of a peer's text, for the text of an error."""
    return text if len(text) <= 200 else f"{text[:200]}..."
