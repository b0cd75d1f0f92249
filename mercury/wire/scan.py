"""The one pass over what arrived, with every count checked before anything is built from it.

Expat reads the bytes once, in callbacks; the first breach of a limit ends the pass. The protocol's own elements become
`Node` objects on the way. What belongs to the application is only counted, and its place is noted in bytes, so that it
can be cut out later exactly as it came. There is no second parser whose opinion could differ.

Documents with a DOCTYPE are refused at its first character, so no entity is ever declared, expanded or fetched.
SOAP forbids processing instructions, so they are refused too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from xml.parsers import expat

from mercury.statemachine.bounds import INDEXED_BYTES, at_least, at_most
from mercury.statemachine.faults import Fault, FaultCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of everything one message may have. All of it is checked while the message is read, never after.

    :raises ConfigurationError: one is below 1; the text begins with its name.
    """

    #: Bytes of the message as it arrived, and again of its UTF-8 form.
    max_bytes: int = 8 * 1024 * 1024
    #: Elements inside each other, the Envelope included.
    max_depth: int = 64
    #: Elements in all.
    max_elements: int = 50_000
    #: Attributes of one element, namespace declarations included.
    max_attributes: int = 64
    #: Attributes of all elements together, namespace declarations included: each takes many times its bytes in memory.
    max_total_attributes: int = 200_000
    #: Bytes of one name of an element or attribute with its namespace, of one prefix, or of one namespace.
    max_name_length: int = 1024
    #: Header blocks of one envelope, and reference parameters of one endpoint reference.
    max_headers: int = 64
    #: Ranges, or Nacks, of one acknowledgement.
    max_ranges: int = 1024
    #: Bytes of UTF-8 of one URI of the protocol: an address, an action, an identifier. Every store has room for so
    #: much in an index, and not for more. A fault's reason is cut to it.
    max_uri_length: int = INDEXED_BYTES
    #: Bytes of all reference parameters of one endpoint reference: a peer makes us send them again and again.
    max_parameters_bytes: int = 64 * 1024
    #: Bytes of namespace declarations that are repeated when header blocks, reference parameters and the content of
    #: the Body are cut out of one message: each gets those around it that it uses.
    max_declarations_bytes: int = 64 * 1024

    def __post_init__(self) -> None:
        at_least(1, **{each.name: getattr(self, each.name) for each in fields(self)})
        at_most(INDEXED_BYTES, max_uri_length=self.max_uri_length)


DEFAULT_LIMITS = Limits()

#: Comments and CDATA sections, to be passed over, and as a group: a start tag with at least so many attributes.
#: It reads every byte once: no quantifier gives back what it took, and an unclosed comment reaches to the end.
_CROWDED = (
    rb"<!--(?s:.*?)(?:-->|\Z)|<!\[CDATA\[(?s:.*?)(?:\]\]>|\Z)|"
    rb"(<[^\s/>!?\"'<=]++(?:\s*+[^\s=/>\"'<]++\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+')){%d})"
)


class MessageRefused(Exception):
    """What arrived cannot be used; ``fault`` says why. Never leaves this package."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


def refused(reason: str) -> MessageRefused:
    """The sender made a mistake that no specification has a finer code for."""
    return MessageRefused(Fault(code=FaultCode.SENDER, reason=reason))


class Scope:
    """The namespace declarations of one element on top of those around it."""

    __slots__ = ("declared", "outer")

    def __init__(self, declared: dict[str, str], outer: Scope | None) -> None:
        #: Prefix to namespace; "" is the default namespace, and the namespace "" takes a declaration back.
        self.declared = declared
        self.outer = outer

    def resolve(self, prefix: str) -> str | None:
        """The namespace that ``prefix`` stands for here; ``None`` when it is not declared."""
        scope: Scope | None = self
        while scope is not None:
            if prefix in scope.declared:
                return scope.declared[prefix]
            scope = scope.outer
        return None

    def all(self) -> dict[str, str]:
        """Every declaration that holds here."""
        chain = []
        scope: Scope | None = self
        while scope is not None:
            chain.append(scope.declared)
            scope = scope.outer
        return {prefix: uri for declared in reversed(chain) for prefix, uri in declared.items()}


class Node:
    """One element of the protocol, or the outermost element of something that is not."""

    __slots__ = (
        "attributes",
        "children",
        "end",
        "local",
        "mark",
        "name",
        "namespace",
        "outer",
        "scope",
        "start",
        "text",
    )

    def __init__(
        self, name: str, attributes: dict[str, str], scope: Scope, outer: Scope, start: int, mark: int
    ) -> None:
        self.namespace, brace, self.local = name.rpartition("}")
        #: Clark notation, the attributes' too.
        self.name = "{" + name if brace else name
        self.attributes = attributes
        self.children: list[Node] = []
        #: Its own character data, without its children's.
        self.text = ""
        #: Where in the scanner's list the pieces of its text begin.
        self.mark = mark
        #: The declarations that hold inside, and those that hold around it: the same object when it declares none.
        self.scope = scope
        self.outer = outer
        #: Where its start tag begins and where its end tag begins; the latter means nothing for an empty-element tag.
        #: In bytes.
        self.start = start
        self.end = start


class Scanner:
    """Scans one document.

    :param data: UTF-8, whatever its XML declaration says.
    :param levels: elements down to this depth become nodes.
    :param inside: the content of an element at that depth becomes nodes when the element is in one of these namespaces.
    """

    def __init__(self, data: bytes, limits: Limits, *, levels: int, inside: frozenset[str] = frozenset()) -> None:
        self.data = data
        #: The root element, also when the scan ends early: then with what had been read of it.
        self.root: Node | None = None
        self._limits = limits
        self._levels = levels
        self._inside = inside
        self._floor = levels
        self._depth = 0
        self._elements = self._attributes = 0
        self._pending: dict[str, str] = {}
        self._stack: list[Node] = []
        # Character data of the elements that are open, theirs alone: what belongs to an element leaves with it.
        self._texts: list[str] = []
        self._scope = Scope({}, None)
        # A character is at most four bytes long, so a shorter text needs no counting of bytes.
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
        """Read all of it; returns the root element.

        :raises MessageRefused: it is not well-formed, or a limit is passed.
        """
        limit = self._limits.max_bytes
        if len(self.data) > limit:
            raise refused(f"the message is larger than {limit} bytes")
        try:
            crowded = self._crowded()
            if crowded is not None:
                self._parser.Parse(self.data[:crowded], False)  # what comes before may be wrong, or name the message
                raise self._too_many_attributes()
            self._parser.Parse(self.data, True)
        except expat.ExpatError as error:
            raise refused(f"the message is not well-formed XML: {error}") from error
        finally:
            del self._parser  # its callbacks refer to this object: free both now
        assert self.root is not None  # a document without a root is not well-formed
        return self.root

    def _crowded(self) -> int | None:
        """Where the first start tag with too many attributes is; ``None`` = there is none, if this is XML at all.

        Expat reads a start tag whole before it calls anybody: a second for a message full of attributes.
        """
        data, limit = self.data, self._limits.max_attributes
        if data.count(b"=") <= limit:
            return None
        for match in re.finditer(_CROWDED % (limit + 1), data):
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
        else:
            self.root = node
        stack.append(node)
        if depth == self._levels:
            if node.namespace in self._inside:
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
        if len(texts) > node.mark:
            node.text = "".join(texts[node.mark :])
            del texts[node.mark :]
        if depth == self._levels:
            self._floor = depth
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
        """One look at what may be too much; the caller knows when none is needed."""
        limits = self._limits
        if self._elements > limits.max_elements:
            raise refused(f"more than {limits.max_elements} elements")
        if self._depth > limits.max_depth:
            raise refused(f"elements nested deeper than {limits.max_depth}")
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
