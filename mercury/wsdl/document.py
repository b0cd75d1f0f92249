"""A document from outside as a tree: bounded before it is parsed, without a document type, without the network."""

from __future__ import annotations

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.wire.media import to_utf8
from mercury.wire.scan import Limits, MessageRefused, Scanner, refused
from mercury.wire.xml_parser import closed_parser

#: What one document may have. Schemas of whole lines of business are that large.
LIMITS = Limits(
    max_bytes=16 * 1024 * 1024,
    max_depth=128,
    max_elements=500_000,
    max_attributes=256,
    max_total_attributes=2_000_000,
)


def _parser() -> etree.XMLParser:
    return closed_parser(encoding="UTF-8", huge_tree=True, remove_comments=True, remove_pis=True)


class _Scanner(Scanner):
    """The pass over a message, for a document: it may have processing instructions; nothing comes of them."""

    def _doctype(self, *_: object) -> None:
        raise refused("a DOCTYPE is not accepted")

    def _instruction(self, *_: object) -> None:
        return


def parse(data: bytes, what: str = "the document", limits: Limits = LIMITS) -> etree._Element:
    """The root element of a WSDL, a schema or a policy. Comments and processing instructions are left out.

    :param data: in UTF-8, or in the encoding that it declares.
    :param what: what is parsed, for the text of an error.
    :raises ConfigurationError: it is not well-formed, has a document type, or passes a limit. No entity is declared,
        expanded or fetched, and nothing is read besides ``data``.
    """
    try:
        text = to_utf8(data)
        _Scanner(text, limits, levels=1).run()
        # Only what has been scanned comes here: the limits are ours, and there is no document type.
        root: etree._Element = etree.fromstring(text, _parser())
    except (MessageRefused, etree.LxmlError) as error:
        raise ConfigurationError(f"{what} cannot be read: {error}") from error
    return root


def document(root: etree._Element) -> bytes:
    """An element as a document: UTF-8 with an XML declaration, indented."""
    etree.indent(root)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


def standalone(element: etree._Element) -> etree._Element:
    """A copy of an element that stands by itself, with every prefix that is declared around it.

    Prefixes in values, as in ``type="tns:Order"``, mean the same in it; a plain copy loses their declarations.
    """
    copy: etree._Element = etree.fromstring(etree.tostring(element, with_tail=False), _parser())
    return copy


def name_of(element: etree._Element, text: str) -> str:
    """The Clark name that a prefixed name means at an element; one without a known prefix has no namespace."""
    prefix, _, local = text.strip().rpartition(":")
    namespace = element.nsmap.get(prefix or None)
    return f"{{{namespace}}}{local}" if namespace else local
