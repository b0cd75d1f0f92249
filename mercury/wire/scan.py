"""Scans the bytes of a message once, and checks each limit before it builds an object.

Expat parses the bytes and calls the scanner, which stops at the first limit that is exceeded. The elements of the
protocols become `Node` objects. The elements of the application are only counted, and the scanner notes their offsets
in bytes, so that `mercury.wire.cut` can cut them out unchanged. No second parser reads the message.

The scanner refuses a document at the start of a DOCTYPE, so no entity is declared, expanded or fetched. It also refuses
processing instructions, which SOAP forbids.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from xml.parsers import expat

from mercury.statemachine.bounds import INDEXED_BYTES, at_least, at_most
from mercury.statemachine.faults import Fault, FaultCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one message. All are checked while the message is parsed, and on each body before it is stored to
    be sent, because peers are taken to have the same limits. A body has somewhat less, so that its envelope has room.

    :raises ConfigurationError: a limit is below 1, or ``max_uri_length`` is too large; the text begins with its name.
    """

    #: Bytes of the message as received, and also bytes of the message in UTF-8; of an MTOM message, with the content of
    #: its parts in base64.
    max_bytes: int = 8 * 1024 * 1024
    #: Bytes of an MTOM message for an operation that takes binary content in pieces (`Attachment`); a value below
    #: ``max_bytes`` has no effect. Its envelope, without the large parts, is limited by ``max_bytes``.
    max_bytes_with_attachments: int = 8 * 1024 * 1024
    #: Depth of nested elements, the Envelope included.
    max_depth: int = 64
    #: Elements in all.
    max_elements: int = 50_000
    #: Attributes of one element, namespace declarations included.
    max_attributes: int = 64
    #: Attributes of all elements together, namespace declarations included. An attribute takes many times its bytes of
    #: memory.
    max_total_attributes: int = 200_000
    #: Bytes of one name of an element or attribute with its namespace, of one prefix, or of one namespace.
    max_name_length: int = 1024
    #: Header blocks of one envelope, and reference parameters of one endpoint reference.
    max_headers: int = 64
    #: Ranges, or Nacks, of one acknowledgement. Four times as many may be in all acknowledgements of one message.
    max_ranges: int = 1024
    #: Bytes in UTF-8 of one URI of the protocols: an address, an action, an identifier. The default is the largest
    #: value that every store can index. The reason of a fault is cut to this length.
    max_uri_length: int = INDEXED_BYTES
    #: Bytes of all reference parameters of one endpoint reference. Mercury sends them in each message to the endpoint.
    max_parameters_bytes: int = 64 * 1024
    #: Messages of one batch. The other limits hold for a batch as for one message, except that its messages may be
    #: nested two elements deeper.
    max_batch: int = 256
    #: Parts of one MTOM message, the envelope included.
    max_parts: int = 1024
    #: Bytes of namespace declarations that are added when header blocks, reference parameters and the content of the
    #: Body are cut out of one message. Each element gets a copy of the outer declarations that it uses.
    max_declarations_bytes: int = 64 * 1024

    def __post_init__(self) -> None:
        at_least(1, **{each.name: getattr(self, each.name) for each in fields(self)})
        at_most(INDEXED_BYTES, max_uri_length=self.max_uri_length)

    @property
    def largest(self) -> int:
        """Bytes of the largest message, in any form."""
        return max(self.max_bytes, self.max_bytes_with_attachments)


DEFAULT_LIMITS = Limits()
#: For elements that are read from a store: their messages were within the limits. An element that was cut out of its
#: message has more attributes than it had there, and the settings may have changed since.
NO_LIMITS = Limits(
    **{each.name: sys.maxsize for each in fields(Limits) if each.name != "max_uri_length"},
)

#: Byte order marks. Expat detects UTF-16 by them, or by a zero byte, whatever encoding it is given.
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

#: Matches comments and CDATA sections, which are skipped, and as a group a start tag with at least so many attributes.
#: It reads each byte once: the quantifiers do not backtrack, and an unclosed comment matches up to the end.
_TOO_MANY_ATTRIBUTES = (
    rb"<!--(?s:.*?)(?:-->|\Z)|<!\[CDATA\[(?s:.*?)(?:\]\]>|\Z)|"
    rb"(<[^\s/>!?\"'<=]++(?:\s*+[^\s=/>\"'<]++\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+')){%d})"
)

#: All bytes but "<" and "=".
_NO_MARKS = bytes(each for each in range(256) if each not in b"<=")

#: The messages of a container are nested so much deeper than a single message.
NESTED = 2


#: What the envelope around a body may take: bytes, elements and attributes; and header blocks that are not the
#: application's. It has acknowledgements of hundreds of ranges at most.
_ROOM_BYTES, _ROOM_ELEMENTS, _ROOM_ATTRIBUTES, _ROOM_HEADERS = 64 * 1024, 1024, 2048, 16
#: It takes no more than one of so many parts of a limit.
_LEAST_PART = 8


@lru_cache(maxsize=64)  # called for each message that is sent
def limits_of_body(limits: Limits, levels: int = 2) -> Limits:
    """The limits of what an application gives for one message, its body and its header blocks together: with the
    envelope around it, a peer with the limits of a message must still take it. No peer would take it later, and the
    messages after it would wait for ever.

    :param limits: those of a message.
    :param levels: the elements around it.
    """

    def less(limit: int, room: int) -> int:
        return max(1, limit - min(room, limit // _LEAST_PART))

    return replace(
        limits,
        max_bytes=less(limits.max_bytes, _ROOM_BYTES),
        max_depth=max(1, limits.max_depth - levels),
        max_elements=less(limits.max_elements, _ROOM_ELEMENTS),
        max_total_attributes=less(limits.max_total_attributes, _ROOM_ATTRIBUTES),
        max_headers=max(1, limits.max_headers - min(_ROOM_HEADERS, limits.max_headers // 2)),
    )


class MessageRefused(Exception):
    """A message cannot be used; ``fault`` gives the reason. The package does not raise this error to its callers."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


def refused(reason: str) -> MessageRefused:
    """The error for a mistake of the sender for which the specifications have no special code."""
    return MessageRefused(Fault(code=FaultCode.SENDER, reason=reason))


class Scope:
    """The namespace declarations of one element, with a reference to those of the elements around it. They stay as they
    are."""

    __slots__ = ("_all", "declared", "outer")

    def __init__(self, declared: dict[str, str], outer: Scope | None) -> None:
        #: Prefix to namespace. The prefix "" is the default namespace; the namespace "" cancels an outer declaration.
        self.declared = declared
        self.outer = outer
        #: What `all` returns, once it is made.
        self._all: Mapping[str, str] | None = None

    def resolve(self, prefix: str) -> str | None:
        """The namespace that ``prefix`` stands for here; ``None`` = the prefix is not declared."""
        scope: Scope | None = self
        while scope is not None:
            if prefix in scope.declared:
                return scope.declared[prefix]
            scope = scope.outer
        return None

    def all(self) -> Mapping[str, str]:
        """All declarations that hold here, the outermost ones first."""
        if self._all is None:  # made once: hundreds of elements of one message may be cut out of one scope
            chain = []
            scope: Scope | None = self
            while scope is not None:
                chain.append(scope.declared)
                scope = scope.outer
            self._all = {prefix: uri for declared in reversed(chain) for prefix, uri in declared.items()}
        return self._all


class Node:
    """One element of the protocols, or the outermost element of a part that belongs to the application."""

    __slots__ = (
        "attributes",
        "children",
        "end",
        "local",
        "name",
        "namespace",
        "outer",
        "scope",
        "start",
        "text",
        "text_start",
    )

    def __init__(
        self, name: str, attributes: dict[str, str], scope: Scope, outer: Scope, start: int, text_start: int
    ) -> None:
        self.namespace, brace, self.local = name.rpartition("}")
        #: The name in Clark notation; so are the names of the attributes.
        self.name = "{" + name if brace else name
        self.attributes = attributes
        self.children: list[Node] = []
        #: The character data of this element, without that of its children.
        self.text = ""
        #: The index of the first piece of its text in the scanner's list.
        self.text_start = text_start
        #: The declarations that hold in it, and those that hold around it: one object if it declares no prefix.
        self.scope = scope
        self.outer = outer
        #: The offsets of its start tag and of its end tag, in bytes. ``end`` has no meaning for an empty-element tag.
        self.start = start
        self.end = start


class Scanner:
    """Scans one document.

    :param data: the document in UTF-8; its XML declaration is ignored.
    :param levels: elements down to this depth become nodes.
    :param inside: the content of an element at that depth becomes nodes if the element is in one of these namespaces.
    :param container: the name of an element at that depth, in Clark notation, that contains messages: they and their
        bodies become nodes.
    """

    def __init__(
        self,
        data: bytes,
        limits: Limits,
        *,
        levels: int,
        inside: frozenset[str] = frozenset(),
        container: str | None = None,
    ) -> None:
        self.data = data
        #: The root element. If the scan ends early, it has the children that were read before.
        self.root: Node | None = None
        self._limits = limits
        self._levels = levels
        self._inside = inside
        self._container = container
        #: The depth of the messages' bodies while a container is open; else 0.
        self._bodies = 0
        self._floor = levels
        self._depth = 0
        self._elements = self._attributes = 0
        self._pending: dict[str, str] = {}
        self._stack: list[Node] = []
        # The character data of the open elements; the pieces of an element are removed at its end tag.
        self._texts: list[str] = []
        self._scope = Scope({}, None)
        # A character has at most four bytes, so the bytes of a shorter text need not be counted.
        self._short = limits.max_name_length // 4
        self._max_depth = limits.max_depth
        self._max_elements = limits.max_elements
        # The encoding given here overrides the XML declaration.
        self._parser = parser = expat.ParserCreate("UTF-8", "}")
        parser.buffer_text = True
        parser.ordered_attributes = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._texts.append
        parser.StartNamespaceDeclHandler = self._declare
        parser.StartDoctypeDeclHandler = self._doctype
        parser.ProcessingInstructionHandler = self._instruction

    def run(self) -> Node:
        """Scan the whole document, and return the root element.

        :raises MessageRefused: the document is not well-formed, or exceeds a limit.
        """
        limit = self._limits.max_bytes
        if len(self.data) > limit:
            raise refused(f"the message is larger than {limit} bytes")
        if b"\0" in self.data[:2] or self.data[:2] in _UTF16:
            raise refused("the message is not encoded in utf-8")
        try:
            excess = self._find_excess()
            if excess is not None:
                self._parser.Parse(self.data[:excess], False)  # the start may have another error, or the MessageID
                raise self._too_many_attributes()
            self._parser.Parse(self.data, True)
        except expat.ExpatError as error:
            raise refused(f"the message is not well-formed XML: {error}") from error
        finally:
            del self._parser  # its callbacks refer to this object; this frees both now
        assert self.root is not None  # a document without a root is not well-formed
        return self.root

    def _find_excess(self) -> int | None:
        """The offset of the first start tag with too many attributes; ``None`` = a well-formed document has none.

        Expat reads a whole start tag before its first callback. For a message full of attributes that takes a second.
        """
        data, limit = self.data, self._limits.max_attributes
        if data.count(b"=") <= limit:
            return None
        # Within a start tag there is no other "<"; all start tags of a batch together have more than enough "=".
        if b"=" * (limit + 1) not in data.translate(None, _NO_MARKS):
            return None
        for match in re.finditer(_TOO_MANY_ATTRIBUTES % (limit + 1), data):
            if match.lastindex is not None:
                return match.start()
        return None

    def _too_many_attributes(self) -> MessageRefused:
        return refused(f"more than {self._limits.max_attributes} attributes on one element")

    def _start(self, name: str, attributes: list[str]) -> None:
        self._depth = depth = self._depth + 1
        self._elements += 1
        pending = self._pending
        if attributes or depth > self._max_depth or self._elements > self._max_elements or len(name) > self._short:
            self._check(name, attributes, pending)
        if pending:
            self._pending = {}
        if depth > self._floor:
            return
        stack = self._stack
        outer = stack[-1].scope if stack else self._scope
        scope = Scope(pending, outer) if pending else outer
        named = {}
        if attributes:
            for key, value in zip(attributes[::2], attributes[1::2], strict=True):
                named["{" + key if "}" in key else key] = value
        node = Node(name, named, scope, outer, self._parser.CurrentByteIndex, len(self._texts))
        if stack:
            parent = stack[-1]
            parent.children.append(node)
            if depth == 3 and len(parent.children) > self._limits.max_headers and parent.local == "Header":
                raise refused(f"more than {self._limits.max_headers} header blocks")
            if self._bodies == depth + 1 and len(parent.children) > self._limits.max_batch:
                raise refused(f"more than {self._limits.max_batch} messages in a batch")
        else:
            self.root = node
        stack.append(node)
        if depth == self._bodies:
            self._parser.CharacterDataHandler = None
        elif depth == self._levels:
            if node.name == self._container:
                self._floor = self._bodies = depth + NESTED
                self._max_depth = self._limits.max_depth + NESTED
            elif node.namespace in self._inside:
                self._floor = self._max_depth
            else:
                self._parser.CharacterDataHandler = None

    def _end(self, _name: str) -> None:
        depth = self._depth
        self._depth = depth - 1
        if depth > self._floor:
            return
        node = self._stack.pop()
        node.end = self._parser.CurrentByteIndex
        texts = self._texts
        if len(texts) > node.text_start:
            node.text = "".join(texts[node.text_start :])
            del texts[node.text_start :]
        if depth == self._levels:
            self._floor, self._bodies, self._max_depth = depth, 0, self._limits.max_depth
            self._parser.CharacterDataHandler = texts.append
        elif depth == self._bodies:
            self._parser.CharacterDataHandler = texts.append

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        pending = self._pending
        pending[prefix or ""] = uri or ""
        self._count_attributes(1)
        if len(pending) > self._limits.max_attributes:
            raise self._too_many_attributes()
        for text in (prefix, uri):
            if text and len(text) > self._short:
                self._check_length(text)

    def _check(self, name: str, attributes: list[str], pending: dict[str, str]) -> None:
        """Check the limits at a start tag; the caller skips this for an element that cannot exceed one."""
        limits = self._limits
        if self._elements > limits.max_elements:
            raise refused(f"more than {limits.max_elements} elements")
        if self._depth > self._max_depth:
            raise refused(f"elements nested deeper than {self._max_depth}")
        if len(attributes) // 2 + len(pending) > limits.max_attributes:
            raise self._too_many_attributes()
        self._count_attributes(len(attributes) // 2)
        short = self._short
        for text in (name, *attributes[::2]):
            if len(text) > short:
                self._check_length(text)

    def _count_attributes(self, count: int) -> None:
        self._attributes += count
        if self._attributes > self._limits.max_total_attributes:
            raise refused(f"more than {self._limits.max_total_attributes} attributes")

    def _check_length(self, name: str) -> None:
        limit = self._limits.max_name_length
        if len(name.encode()) > limit:
            raise refused(f"a name longer than {limit} bytes")

    def _doctype(self, *_: object) -> None:
        raise refused("a DOCTYPE is not allowed in a SOAP message")

    def _instruction(self, *_: object) -> None:
        raise refused("a processing instruction is not allowed in a SOAP message")
