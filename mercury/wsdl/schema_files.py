"""The schemas of a WSDL: those in its documents, and the files that they import and include, as one schema and as
documents."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.wire.ns import clark
from mercury.wire.xml_parser import closed_parser
from mercury.wsdl.document import LIMITS, document, parse, standalone
from mercury.wsdl.folder import Folder
from mercury.wsdl.names import WSDL, XSD

#: The limits of schemas for one WSDL: their number, and the bytes of all files.
MAX_FILES = 256
MAX_BYTES = 4 * LIMITS.max_bytes
#: The beginning of the URLs of the parts of a schema, which only `_Pages` resolves.
_URL_PREFIX = "schema:"
SCHEMA = clark(XSD, "schema")
_IMPORT = clark(XSD, "import")
_REFERENCES = (_IMPORT, clark(XSD, "include"), clark(XSD, "redefine"))


def inside(wsdl: etree._Element) -> list[etree._Element]:
    """The schemas inside one document of a WSDL."""
    return [each for types in wsdl.iterchildren(clark(WSDL, "types")) for each in types.iterchildren(SCHEMA)]


class SchemaFiles:
    """The schemas of a WSDL: those in its documents, and the files that they import and include.

    Locations in them are replaced by numbers: the positions in `documents`, from 1.

    :param wsdls: the documents of the WSDL, each with the folder that its locations are relative to.
    :param folder: files are read only from this folder and below it; ``None`` = no file is read.
    :raises ConfigurationError: a file does not exist or is outside the folder, or there are too many files or bytes.
    """

    def __init__(self, wsdls: Iterable[tuple[etree._Element, Path | None]], folder: Path | None) -> None:
        self._folder = Folder(folder, "schema", MAX_BYTES)
        self._numbers: dict[Path, int] = {}
        #: The schemas, copied, with numbers as locations.
        self.documents: list[etree._Element] = []
        #: The number of schemas inside the WSDL. They are the first ones of `documents`, in the order of its documents.
        self.inside = 0
        folders = []
        for wsdl, place in wsdls:
            for each in inside(wsdl):
                self.documents.append(standalone(each))
                folders.append(place)
        self.inside = len(self.documents)
        for each, place in zip(list(self.documents), folders, strict=True):
            self._follow(each, place)

    def _follow(self, schema: etree._Element, folder: Path | None) -> None:
        for each in schema.iterchildren(*_REFERENCES):
            location = each.get("schemaLocation")
            if location is None:
                continue
            if each.tag == _IMPORT and self._is_inside(each.get("namespace", "")):
                del each.attrib["schemaLocation"]
                continue
            each.set("schemaLocation", str(self._number(location, folder)))

    def _is_inside(self, namespace: str) -> bool:
        return any(each.get("targetNamespace", "") == namespace for each in self.documents[: self.inside])

    def _number(self, location: str, folder: Path | None) -> int:
        file = self._folder.place(location, folder)
        number = self._numbers.get(file)
        if number is not None:
            return number
        if len(self.documents) >= MAX_FILES:
            raise ConfigurationError(f"more than {MAX_FILES} schemas")
        root = parse(self._folder.read(file, location), location)
        if root.tag != SCHEMA:
            raise ConfigurationError(f"{location} is not a schema: {root.tag}")
        self.documents.append(root)
        self._numbers[file] = number = len(self.documents)
        self._follow(root, file.parent)
        return number

    def published(self, address: str) -> list[etree._Element]:
        """Copies of the schemas with URLs as locations: ``address?xsd=n``."""
        found = [copy.deepcopy(each) for each in self.documents]
        for root in found:
            for each in root.iterchildren(*_REFERENCES):
                if each.get("schemaLocation") is not None:
                    each.set("schemaLocation", f"{address}?xsd={each.get('schemaLocation')}")
        return found

    def compiled(self) -> etree.XMLSchema:
        """Compile all schemas as one.

        libxml2 reads only one document for each imported namespace. So for each namespace a document is made that
        includes all schemas of the namespace.

        :raises ConfigurationError: the schemas are not valid.
        """
        pages: dict[str, bytes] = {}
        by_namespace: dict[str, list[int]] = {}
        for number, root in enumerate(self.documents, 1):
            if number <= self.inside or self._is_imported(number):
                by_namespace.setdefault(root.get("targetNamespace", ""), []).append(number)
        places = {namespace: f"{_URL_PREFIX}n{n}" for n, namespace in enumerate(by_namespace)}
        for number, root in enumerate(self.documents, 1):
            pages[f"{_URL_PREFIX}{number}"] = document(_placed(root, places))
        for namespace, numbers in by_namespace.items():
            pages[places[namespace]] = document(_including(namespace, numbers))
        top = etree.Element(SCHEMA, targetNamespace=f"{_URL_PREFIX}top")
        for namespace, place in places.items():
            each = etree.SubElement(top, _IMPORT, schemaLocation=place)
            if namespace:
                each.set("namespace", namespace)
        parser = closed_parser()
        parser.resolvers.add(_Pages(pages))
        try:
            return etree.XMLSchema(etree.fromstring(document(top), parser))
        except etree.XMLSchemaParseError as error:
            raise ConfigurationError(f"the schema of the WSDL cannot be used: {str(error)[:500]}") from error

    def _is_imported(self, number: int) -> bool:
        return any(
            each.get("schemaLocation") == str(number) for root in self.documents for each in root.iterchildren(_IMPORT)
        )


def _placed(root: etree._Element, places: Mapping[str, str]) -> etree._Element:
    """A copy of a schema whose locations are the URLs of the pages of `SchemaFiles.compiled`."""
    root = copy.deepcopy(root)
    for each in root.iterchildren(*_REFERENCES):
        place = places.get(each.get("namespace", "")) if each.tag == _IMPORT else None
        number = each.get("schemaLocation")
        if place is None and number is not None:
            place = f"{_URL_PREFIX}{number}"
        if place is not None:
            each.set("schemaLocation", place)
    return root


def _including(namespace: str, numbers: list[int]) -> etree._Element:
    """A schema of a namespace that includes the schemas with these numbers."""
    named = {"targetNamespace": namespace} if namespace else {}
    root = etree.Element(SCHEMA, named)
    for number in numbers:
        etree.SubElement(root, clark(XSD, "include"), schemaLocation=f"{_URL_PREFIX}{number}")
    return root


class _Pages(etree.Resolver):
    """Resolves the URLs of one schema's pages; any other URL is an empty document."""

    def __init__(self, pages: Mapping[str, bytes]) -> None:
        super().__init__()
        self._pages = pages

    def resolve(self, system_url: str, *rest: Any) -> Any:
        context = rest[-1]
        return self.resolve_string(self._pages.get(system_url, b"<none/>"), context, base_url=system_url)
