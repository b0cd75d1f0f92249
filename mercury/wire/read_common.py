"""Functions that the readers of all elements share: finding a child, reading URIs and qualified names."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.wire.cut import Allowance, cut
from mercury.wire.ns import clark, local_of
from mercury.wire.scan import Limits, Node, refused
from mercury.wire.values import BLANKS, collapse


@dataclass(frozen=True, slots=True)
class Document:
    """The message that is read, with its limits."""

    #: The message in UTF-8; nodes have offsets in these bytes.
    data: bytes
    limits: Limits
    allowance: Allowance = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowance", Allowance(self.limits.max_declarations_bytes))

    def cut(self, node: Node) -> bytes:
        """The element as XML with all declarations that it uses.

        :raises MessageRefused: the declarations added to the elements cut out so far are above the limit.
        """
        return cut(self.data, node, self.allowance)

    def uri(self, node: Node) -> str:
        """The URI in ``node`` without blanks around it (ACT-11); "" if ``node`` is empty.

        :raises MessageRefused: the URI is longer than the limit.
        """
        text = collapse(node.text)
        if len(text.encode()) > self.limits.max_uri_length:
            raise refused(f"{node.local} is longer than {self.limits.max_uri_length} bytes")
        return text

    def required_uri(self, parent: Node, name: str) -> str:
        """The URI in the one child ``name`` of ``parent``.

        :raises MessageRefused: the child is missing or empty, or there are several.
        """
        node = child(parent, name)
        text = self.uri(node) if node is not None else ""
        if not text:
            raise refused(f"{parent.local} without {local_of(name)}")
        return text


def child(parent: Node, name: str) -> Node | None:
    """The one child with a name in Clark notation, at any place among the children (SCH-02); ``None`` = there is none.

    :raises MessageRefused: there are several.
    """
    found = None
    for node in parent.children:
        if node.name == name:
            if found is not None:
                raise refused(f"more than one {local_of(name)} in {parent.local}")
            found = node
    return found


def qualified_name(node: Node, text: str) -> str | None:
    """The QName ``text`` in Clark notation, resolved by the declarations at ``node`` (FLT-13).

    ``None`` = its prefix is not declared.
    """
    prefix, _, local = text.strip(BLANKS).rpartition(":")
    uri = node.scope.resolve(prefix)
    if uri is None:
        return None if prefix else local
    return clark(uri, local)
