"""Reads documents of the mapping that hold raw XML, and cuts what an `Xml` field gets out of their bytes.

Each element of an `Xml` gets the namespace declarations from around it that it uses, as in `mercury.wire.cut`, and the
bytes of these copies are limited. lxml would write every declaration in scope into every element: a small message with
many declarations and many elements would become hundreds of megabytes.
"""

from __future__ import annotations

from collections.abc import Collection
from xml.etree import ElementTree
from xml.parsers import expat

from lxml import etree

from mercury.errors import PayloadError
from mercury.wire.cut import NAME, START_TAG, Prefixes, Steps, searchable, uses
from mercury.wire.mapping_parse import cut, parsed, refuse_doctype
from mercury.wire.mapping_types import Misfit, escape_attribute
from mercury.wire.own_thread import in_own_thread
from mercury.wire.scan import Scope

#: Bytes of namespace declarations that the `Xml` fields of one document may repeat: these, and so many times the bytes
#: of the document, but no more than the last figure.
FEW_DECLARATIONS, DECLARATIONS_PER_BYTE, MAX_DECLARATIONS = 1_000_000, 4, 10_000_000

#: Up to so many prefixes an element is searched for each of them; if there are more, it is read once for all.
_FEW_PREFIXES = 8


class Located(ElementTree.Element):
    """An element with its place in the bytes of its document."""

    __slots__ = ("end", "outer", "scope", "start")

    #: The declarations that hold in it, and those that hold around it: one object if it has none of its own.
    scope: Scope
    outer: Scope
    #: The offsets of its start tag and of its end tag. ``end`` has no meaning for an empty-element tag.
    start: int
    end: int


class Fragments:
    """A parsed document, out of which the content of elements can be cut.

    :raises PayloadError: the document is not well-formed, has a document type, or exceeds a limit of libxml2.
    """

    def __init__(self, xml: bytes) -> None:
        refuse_doctype(xml)
        try:
            # lxml is stricter than expat about namespaces, and writes CDATA and character references in one form.
            self._data: bytes = in_own_thread(lambda: etree.tostring(parsed(xml), encoding="UTF-8", with_tail=False))
        except etree.XMLSyntaxError as error:
            raise PayloadError(f"not well-formed XML: {cut(error.msg)}") from error
        self._limit = self._left = min(FEW_DECLARATIONS + DECLARATIONS_PER_BYTE * len(self._data), MAX_DECLARATIONS)
        builder = _Builder(self._data)
        self.root = builder.root
        self._names = builder.prefixes
        self._prefixes = Prefixes(self._names, Steps())
        self._attributes: dict[tuple[str, str], bytes] = {}

    def content(self, element: Located) -> bytes:
        """The content of an element of this document; each element in it declares the prefixes that it uses.

        :raises Misfit: the declarations need more than what is left of the limit.
        """
        data = self._data
        at = self._after_start_tag(element)
        if data.endswith(b"/>", 0, at):
            return b""
        pieces: list[bytes] = []
        for child in element:
            assert isinstance(child, Located)
            name = NAME.match(data, child.start)
            assert name is not None  # the document is well-formed
            pieces += (data[at : name.end()], self._declarations(child))
            at = name.end()
        pieces.append(data[at : element.end])
        return b"".join(pieces)

    def _after_start_tag(self, element: Located) -> int:
        match = START_TAG.match(self._data, element.start)
        assert match is not None  # the document is well-formed
        return match.end()

    def _declarations(self, element: Located) -> bytes:
        """The declarations from around an element that it uses, as attributes."""
        own = element.scope.declared if element.scope is not element.outer else {}
        written = []
        for prefix in ("", *sorted(self._used(element))):
            uri = element.outer.resolve(prefix)
            if uri and prefix not in own:
                written.append(self._attribute(prefix, uri))
                self._left -= len(written[-1])
                if self._left < 0:
                    raise Misfit(f"the elements need more than {self._limit} bytes of namespace declarations")
        return b"".join(written)

    def _attribute(self, prefix: str, uri: str) -> bytes:
        """A declaration, escaped only once: many elements may use it."""
        if (prefix, uri) not in self._attributes:
            name = f"xmlns:{prefix}" if prefix else "xmlns"
            self._attributes[prefix, uri] = f' {name}="{escape_attribute(uri)}"'.encode()
        return self._attributes[prefix, uri]

    def _used(self, element: Located) -> Collection[str]:
        """The prefixes of the document that ``prefix:`` may stand for anywhere in an element, in markup or in text."""
        if not self._names:
            return ()
        end = self._after_start_tag(element)
        if not self._data.endswith(b"/>", 0, end):
            end = self._data.index(b">", element.end)
        text = searchable(self._data[element.start : end])
        if len(self._names) <= _FEW_PREFIXES:
            return [prefix for prefix in self._names if uses(text, prefix)]
        return self._prefixes.used_in(text)


class _Builder:
    """Builds the tree of a document, without comments and processing instructions, with the place of each element."""

    def __init__(self, data: bytes) -> None:
        #: All prefixes that the document declares.
        self.prefixes: set[str] = set()
        self._pending: dict[str, str] = {}
        self._stack: list[Located] = []
        self._tree = tree = ElementTree.TreeBuilder(element_factory=Located)
        self._parser = parser = expat.ParserCreate("UTF-8", "}")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = tree.data
        parser.StartNamespaceDeclHandler = self._declare
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise PayloadError(f"not well-formed XML: {cut(str(error))}") from error
        finally:
            del self._parser  # its callbacks refer to this object; this frees both now
        root = tree.close()
        assert isinstance(root, Located)
        self.root = root

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        self._pending[prefix or ""] = uri or ""
        if prefix:
            self.prefixes.add(prefix)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        named = {_clark(key): value for key, value in attributes.items()}
        element = self._tree.start(_clark(name), named)
        assert isinstance(element, Located)
        element.outer = self._stack[-1].scope if self._stack else Scope({}, None)
        element.scope = Scope(self._pending, element.outer) if self._pending else element.outer
        self._pending = {}
        element.start = element.end = self._parser.CurrentByteIndex
        self._stack.append(element)

    def _end(self, name: str) -> None:
        self._tree.end(_clark(name))
        self._stack.pop().end = self._parser.CurrentByteIndex


def _clark(name: str) -> str:
    return "{" + name if "}" in name else name
