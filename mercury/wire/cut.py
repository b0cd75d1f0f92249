"""Cutting an element out of a document so that it stands by itself, and putting one in unharmed.

The bytes stay as they are. Only the namespace declarations that the element leaned on are added to its start tag:
the default namespace, and every prefix that is used in it. A prefix may hide in content (``xsi:type="p:Order"``, an
XPath), so one counts as used wherever ``prefix:`` stands, in markup or in text; a declaration too many does no harm
to exclusive canonical XML. Mercury's own envelopes use prefixes that do not occur in what they carry, so what is cut
out of them is what was put in, byte by byte.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from mercury.wire.scan import Node, refused
from mercury.wire.values import escape_attribute

#: A whole start tag; only used on bytes that are known to be well-formed.
_START_TAG = re.compile(rb"<[^\"'>]*+(?:(?:\"[^\"]*\"|'[^']*')[^\"'>]*+)*+>")
_NAME = re.compile(rb"<[^\s/>]+")

#: What keeps characters that stand side by side for a reader apart in the bytes.
_DISGUISE = re.compile(rb"<!\[CDATA\[(.*?)\]\]>|<!--.*?-->|&#(?:x([0-9A-Fa-f]+)|([0-9]+));", re.DOTALL)

_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")

#: After so many hits that are the end of a longer word a prefix counts as used: it is not worth looking further.
_PATIENCE = 1000


class Allowance:
    """How many bytes of namespace declarations may still be repeated for elements that are cut out of one document.

    Every element gets a copy of those it leans on: without a limit a small message with long namespaces and many
    header blocks becomes a large one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def take(self, size: int) -> None:
        """:raises MessageRefused: that is more than is left."""
        self._left -= size
        if self._left < 0:
            raise refused(f"header blocks and body need more than {self._limit} bytes of namespace declarations")


def cut(data: bytes, node: Node, allowance: Allowance | None = None) -> bytes:
    """The element of ``node`` out of the document ``data``, standing by itself.

    :param allowance: what the declarations that are added count against; ``None`` = they are not limited.
    :raises MessageRefused: they are more than is left of it.
    """
    xml = data[node.start : _end(data, node)]
    needed = {}
    plain = None
    for prefix, uri in node.outer.all().items():
        if node.scope is not node.outer and prefix in node.scope.declared:
            continue
        if not prefix:
            if uri:
                needed["xmlns"] = uri
            continue
        if plain is None:
            plain = undisguised(xml)
        if uses(plain, prefix):
            needed[f"xmlns:{prefix}"] = uri
    if not needed:
        return xml
    if allowance is not None:
        # Escaped they are longer still, and escaping costs time: what is too much as it is need not be escaped first.
        allowance.take(sum(len(name) + len(uri) for name, uri in needed.items()))
    return with_attributes(xml, needed)


def _end(data: bytes, node: Node) -> int:
    match = _START_TAG.match(data, node.start)
    assert match is not None  # the document is well-formed
    return match.end() if match[0].endswith(b"/>") else data.index(b">", node.end) + 1


def with_attributes(xml: bytes, attributes: Mapping[str, str]) -> bytes:
    """``xml`` with more attributes on its root element, which must not have them yet."""
    match = _NAME.match(xml)
    assert match is not None
    written = "".join(f' {name}="{escape_attribute(value)}"' for name, value in attributes.items())
    return xml[: match.end()] + written.encode() + xml[match.end() :]


def undisguised(xml: bytes) -> bytes:
    """``xml`` with everything side by side that is so for a reader: no comments, CDATA sections, character references.

    Not XML any more; only good for `uses`.
    """
    if b"<!" in xml or b"&#" in xml:
        return _DISGUISE.sub(_plain, xml)
    return xml


def _plain(match: re.Match[bytes]) -> bytes:
    content, hexadecimal, decimal = match.groups()
    if content is not None:
        return bytes(content)
    if hexadecimal is not None:
        return chr(int(hexadecimal, 16)).encode()
    if decimal is not None:
        return chr(int(decimal)).encode()
    return b""


def uses(plain: bytes, prefix: str) -> bool:
    """Whether ``prefix:`` may stand for a namespace anywhere in ``plain``; in doubt it may.

    :param plain: what `undisguised` returned for an element, so it begins with "<".
    """
    needle = prefix.encode() + b":"
    at = plain.find(needle)
    for _ in range(_PATIENCE):
        if at < 0:
            return False
        if plain[at - 1] not in _LETTERS:
            return True
        at = plain.find(needle, at + 1)
    return True


def free_prefix(wanted: str, embedded: Sequence[bytes]) -> str:
    """A prefix like ``wanted`` that is safe to declare around, and to use on, what is put in.

    :param embedded: what `undisguised` returned for each element that stands by itself and will be put in.
    """
    if not any(uses(text, wanted) or b"xmlns:" + wanted.encode() in text for text in embedded):
        return wanted
    numbered = re.compile(wanted.encode() + rb"([0-9]+)")
    taken = {int(number) for text in embedded for number in numbered.findall(text) if len(number) < 9}
    return next(f"{wanted}{number}" for number in itertools.count(1) if number not in taken)
