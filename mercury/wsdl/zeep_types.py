"""Reads and writes bodies with zeep by the schema of a WSDL, for handlers whose bodies are ``Any``.

zeep is an optional dependency. It is imported when such a handler is registered.
"""

from __future__ import annotations

import importlib
from typing import Any

from lxml import etree

from mercury.errors import ConfigurationError, PayloadError
from mercury.wire.ns import clark, local_of
from mercury.wire.own_thread import in_own_thread
from mercury.wsdl.contract import WsdlContract

#: The URL of the documents for zeep; `_Pages` resolves it, and no document is fetched.
_URL = "http://wsdl.invalid/service"


class ZeepTypes:
    """The elements of one WSDL as zeep's types.

    :raises ConfigurationError: zeep is not installed, or cannot read the WSDL.
    """

    def __init__(self, contract: WsdlContract) -> None:
        try:
            zeep: Any = importlib.import_module("zeep")
        except ImportError as error:
            raise ConfigurationError(
                "a handler whose body is Any needs the extra zeep: pip install mercury-rm[zeep]"
            ) from error
        first, *imported = contract.published(_URL)
        pages = {_URL: first, f"{_URL}?wsdl": first}
        pages |= {f"{_URL}?wsdl={number}": wsdl for number, wsdl in enumerate(imported, 1)}
        for number, schema in enumerate(contract.schemas.published(_URL), 1):
            pages[f"{_URL}?xsd={number}"] = etree.tostring(schema)
        try:
            self._types: Any = zeep.wsdl.Document(_URL, _Pages(pages)).types
        except Exception as error:  # zeep and its libraries raise errors of many classes
            raise ConfigurationError(f"zeep cannot read the WSDL: {type(error).__name__}: {error}") from error

    def read(self, root: etree._Element) -> Any:
        """The value of a body that is valid by the schema.

        :raises PayloadError: zeep cannot read it.
        """
        try:
            return in_own_thread(lambda: self._types.get_element(root.tag).parse(root, self._types))
        except Exception as error:  # zeep and its libraries raise errors of many classes
            raise PayloadError(f"{local_of(root.tag)}: {type(error).__name__}: {error}") from error

    def write(self, value: object, element: str) -> bytes:
        """Write a body.

        :param value: a value of zeep's, or a dictionary with the names of the elements as keys.
        :param element: the name of the body's element in Clark notation.
        :raises PayloadError: the value does not fit the element's type.
        """

        def written() -> bytes:
            parent = etree.Element(clark("", "body"))
            known = self._types.get_element(element)
            made = known(**value) if isinstance(value, dict) else value
            known.render(parent, made)
            return etree.tostring(parent[0], with_tail=False)

        try:
            return in_own_thread(written)  # the value may contain elements with a peer's names
        except Exception as error:  # zeep and its libraries raise errors of many classes
            raise PayloadError(f"{local_of(element)}: {type(error).__name__}: {error}") from error


class _Pages:
    """A transport for zeep that returns the documents of one WSDL."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        self._pages = pages

    def load(self, url: str) -> bytes:
        """The document at a URL.

        :raises ConfigurationError: the URL is not that of a document of the WSDL.
        """
        if url not in self._pages:
            raise ConfigurationError(f"{url} is not part of the WSDL")
        return self._pages[url]
