"""Creates parsers of libxml2 that read only the document that they are given."""

from __future__ import annotations

from typing import Any

from lxml import etree


def closed_parser(**options: Any) -> etree.XMLParser:
    """A parser that resolves no entities, loads no document type and opens no network connection.

    :param options: further options of `lxml.etree.XMLParser`.
    """
    return etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, **options)
