"""What the readers of all elements share: one child of a name, URIs, names in content."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.wire.cut import Allowance, cut
from mercury.wire.ns import clark, local_of
from mercury.wire.scan import Limits, Node, refused
from mercury.wire.values import BLANKS, collapse


@dataclass(frozen=True, slots=True)
class Document:
    """What is being read, and how much of everything it may have."""

    #: UTF-8; the offsets in nodes are offsets in it.
    data: bytes
    limits: Limits
    _allowance: Allowance = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allowance", Allowance(self.limits.max_declarations_bytes))

    def cut(self, node: Node) -> bytes:
        """The element as standalone XML.

        :raises MessageRefused: the declarations that the elements cut out so far need are more than the limit.
        """
        return cut(self.data, node, self._allowance)

    def uri(self, node: Node) -> str:
        """The URI in ``node`` without blanks around it (ACT-11); "" when there is none.

        :raises MessageRefused: it is longer than the limit.
        """
        text = collapse(node.text)
        if len(text.encode()) > self.limits.max_uri_length:
            raise refused(f"{node.local} is longer than {self.limits.max_uri_length} bytes")
        return text

    def required_uri(self, parent: Node, name: str) -> str:
        """The URI in the one child ``name`` of ``parent``.

        :raises MessageRefused: there is no such child, it is empty, or there are several.
        """
        node = child(parent, name)
        text = self.uri(node) if node is not None else ""
        if not text:
            raise refused(f"{parent.local} without {local_of(name)}")
        return text


def child(parent: Node, name: str) -> Node | None:
    """The one child of that name in Clark notation, wherever it stands among the others (SCH-02).

    :raises MessageRefused: there are several, and which one counts would be a guess.
    """
    found = None
    for node in parent.children:
        if node.name == name:
            if found is not None:
                raise refused(f"more than one {local_of(name)} in {parent.local}")
            found = node
    return found


def qualified_name(node: Node, text: str) -> str | None:
    """The QName ``text`` at ``node`` in Clark notation, by the declarations that hold there (FLT-13).

    ``None`` when its prefix is not declared.
    """
    prefix, _, local = text.strip(BLANKS).rpartition(":")
    uri = node.scope.resolve(prefix)
    if uri is None:
        return None if prefix else local
    return clark(uri, local)
