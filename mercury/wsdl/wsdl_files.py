"""The documents of a WSDL: the WSDL itself and those that it imports, as one set of definitions.

Toolkits write the service and its interface into different documents when their namespaces differ (CXF, Metro, .NET).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.wire.ns import clark
from mercury.wsdl.document import LIMITS, name_of, parse
from mercury.wsdl.folder import Folder
from mercury.wsdl.names import WSDL

#: The limits of documents for one WSDL: their number, how many imports lead to one, and their bytes in all.
MAX_DOCUMENTS = 32
MAX_DEPTH = 8
MAX_BYTES = 4 * LIMITS.max_bytes
_IMPORT = clark(WSDL, "import")


@dataclass(frozen=True, slots=True)
class WsdlFile:
    """One document."""

    root: etree._Element
    #: The folder that locations in it are relative to; ``None`` = it was not read from a file.
    folder: Path | None

    @property
    def namespace(self) -> str:
        return self.root.get("targetNamespace", "")

    def children(self, kind: str) -> Iterator[etree._Element]:
        return self.root.iterchildren(clark(WSDL, kind))


class WsdlFiles:
    """A WSDL and all documents that it imports, directly or through others; the WSDL itself is the first.

    Locations of imports are replaced by numbers: the positions in `documents`, from 0. An import without a location
    is left as it is.

    :param source: the file, or the document itself, which then can import nothing.
    :param folder: imports are read from this folder and below it only; by default from the folder of the file.
    :raises ConfigurationError: a document cannot be read, is no WSDL 1.1, or is outside the folder, or there are too
        many; the text names the document.
    """

    def __init__(self, source: str | Path | bytes, folder: str | Path | None = None) -> None:
        self._numbers: dict[Path, int] = {}
        self.documents: list[WsdlFile] = []
        #: The folder that imports are read from; ``None`` = there is none.
        self.folder: Path | None = None if folder is None else Path(folder)
        if isinstance(source, bytes):
            self.what = "the WSDL"
            self._reader = Folder(self.folder, "WSDL", MAX_BYTES)
            self.documents.append(WsdlFile(_definitions(source, self.what), None))
        else:
            self.what, file = str(source), Path(source)
            self.folder = self.folder or file.parent
            self._reader = Folder(self.folder, "WSDL", MAX_BYTES)
            self._add(file.resolve(), self.what)
        self._follow(self.documents[0], 0)

    def named(self, kind: str, user: etree._Element, attribute: str) -> tuple[WsdlFile, etree._Element] | None:
        """The definition that an attribute of an element refers to, with its document; ``None`` = there is none."""
        wanted = name_of(user, user.get(attribute, ""))
        for document in self.documents:
            for each in document.children(kind):
                if clark(document.namespace, each.get("name", "")) == wanted:
                    return document, each
        return None

    def _add(self, file: Path, what: str) -> WsdlFile:
        data = self._reader.read(file, what)
        if len(self.documents) >= MAX_DOCUMENTS:
            raise ConfigurationError(f"{self.what} imports more than {MAX_DOCUMENTS} documents")
        self._numbers[file] = len(self.documents)
        self.documents.append(document := WsdlFile(_definitions(data, what), file.parent))
        return document

    def _follow(self, document: WsdlFile, depth: int) -> None:
        for each in document.root.iterchildren(_IMPORT):
            location = each.get("location", "").strip()
            if location:
                each.set("location", str(self._number(location, document, depth)))

    def _number(self, location: str, document: WsdlFile, depth: int) -> int:
        file = self._reader.place(location, document.folder)
        if file in self._numbers:
            return self._numbers[file]
        if depth >= MAX_DEPTH:
            raise ConfigurationError(f"the WSDL {location} is not read: more than {MAX_DEPTH} imports lead to it")
        self._follow(self._add(file, location), depth + 1)
        return self._numbers[file]


def _definitions(data: bytes, what: str) -> etree._Element:
    root = parse(data, what)
    if root.tag != clark(WSDL, "definitions"):
        raise ConfigurationError(f"{what}: {root.tag} is not a WSDL 1.1")
    return root
