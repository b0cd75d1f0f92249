"""Parses a document from outside within limits, without a document type and without access to the network."""

from __future__ import annotations

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.wire.media import to_utf8
from mercury.wire.scan import Limits, MessageRefused, Scanner, refused
from mercury.wire.xml_parser import closed_parser

#: The limits of one document, which the schemas of large industry standards need.
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
    """Scans a document, which, unlike a message, may have processing instructions; they are ignored."""

    def _doctype(self, *_: object) -> None:
        raise refused("a DOCTYPE is not accepted")

    def _instruction(self, *_: object) -> None:
        return


def parse(data: bytes, what: str = "the document", limits: Limits = LIMITS) -> etree._Element:
    """The root element of a WSDL, a schema or a policy. Comments and processing instructions are left out.

    No entity is declared, expanded or fetched, and no other document is read.

    :param data: the document in UTF-8, or in the encoding that it declares.
    :param what: the name of the document, for the text of an error.
    :raises ConfigurationError: the document is not well-formed, has a document type, or exceeds a limit.
    """
    try:
        text = to_utf8(data)
        _Scanner(text, limits, levels=1).run()
        # The scanner has checked the limits and refused a document type, so the limits of libxml2 are not needed.
        root: etree._Element = etree.fromstring(text, _parser())
    except (MessageRefused, etree.LxmlError) as error:
        raise ConfigurationError(f"{what} cannot be read: {error}") from error
    return root


def document(root: etree._Element) -> bytes:
    """Write an element as a document, in UTF-8 with an XML declaration, indented."""
    etree.indent(root)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


def standalone(element: etree._Element) -> etree._Element:
    """Copy an element with all namespace declarations that hold for it.

    A plain copy loses the declarations of prefixes that are used only in values, as in ``type="tns:Order"``.
    """
    copy: etree._Element = etree.fromstring(etree.tostring(element, with_tail=False), _parser())
    return copy


def name_of(element: etree._Element, text: str) -> str:
    """The name in Clark notation for a prefixed name at an element; without a namespace if the prefix is unknown."""
    prefix, _, local = text.strip().rpartition(":")
    namespace = element.nsmap.get(prefix or None)
    return f"{{{namespace}}}{local}" if namespace else local
