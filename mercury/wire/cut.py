"""Cuts an element out of a document as a document of its own, and chooses prefixes for a document around an element.

The bytes of the element stay as they are. Its start tag gets the namespace declarations of the elements around it that
it uses: the default namespace, and every prefix that is used in it. A prefix may be used in content
(``xsi:type="p:Order"``, an XPath), so a prefix counts as used wherever ``prefix:`` stands, in markup or in text. A
declaration that is not needed does not change exclusive canonical XML. Mercury's envelopes use prefixes that do not
occur in the elements that are put into them. So an element that is cut out of them has the bytes that were put in.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mercury.wire.scan import Node, refused
from mercury.wire.values import escape_attribute

#: A whole start tag. It is matched only against bytes that are known to be well-formed.
START_TAG = re.compile(rb"<[^\"'>]*+(?:(?:\"[^\"]*\"|'[^']*')[^\"'>]*+)*+>")
NAME = re.compile(rb"<[^\s/>]+")

#: CDATA sections, comments and character references: a reader does not see them, but they separate characters in bytes.
#: A reference may have any number of leading zeros; they are no part of the groups, for `int` has a limit on digits.
_SEPARATORS = re.compile(rb"<!\[CDATA\[(.*?)\]\]>|<!--.*?-->|&#(?:x0*+([0-9A-Fa-f]{1,6})|0*+([0-9]{1,7}));", re.DOTALL)

#: Directly after one of these no prefix begins; after others one may: the text around a prefix need not be XML.
LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")

#: What may end with a prefix: the characters of a name before a colon. A match begins only where a name can begin, so
#: that no byte is read twice.
WORD_BEFORE_COLON = re.compile(rb"(?<![A-Za-z0-9_.\-\x80-\xff])([A-Za-z0-9_.\-\x80-\xff]++):")

#: Up to so many prefixes an element is searched for each of them; if there are more, it is read once for all of them,
#: which takes as long as twenty or thirty searches.
FEW_PREFIXES = 16
#: Bytes of an element whose words are in memory at once.
_PIECE = 64 * 1024

#: After so many places where a prefix is the end of a longer word, `uses` stops searching, and returns ``True``.
_MAX_SEARCHES = 1000
#: After so many ends of words before colons in one document all prefixes count as used: a word of a message that means
#: no good has as many ends as there are prefixes.
MAX_STEPS = 500_000


@dataclass(slots=True)
class Steps:
    """How long all elements of one document may still be searched for prefixes: a batch has hundreds of elements."""

    left: int = MAX_STEPS


class Allowance:
    """Limits the bytes of namespace declarations that are added to the elements cut out of one document, and the search
    for the prefixes that they use.

    Each element gets a copy of the declarations that it uses. Without a limit, a small message with long namespaces
    and many header blocks would become a large one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self.steps = Steps()

    def take(self, size: int) -> None:
        """Use up ``size`` bytes.

        :raises MessageRefused: ``size`` is more than what is left.
        """
        self._left -= size
        if self._left < 0:
            raise refused(f"header blocks and body need more than {self._limit} bytes of namespace declarations")


def cut(data: bytes, node: Node, allowance: Allowance | None = None) -> bytes:
    """The element of ``node``, cut out of the document ``data``, with all declarations that it uses.

    :param allowance: the limits for what is cut out of the document; ``None`` = the declarations that are added have no
        limit, and the search for prefixes has one of its own.
    :raises MessageRefused: the declarations need more than what is left of the allowance.
    """
    xml = data[node.start : _end(data, node)]
    around = node.outer.all()
    if node.scope is not node.outer:
        around = {prefix: uri for prefix, uri in around.items() if prefix not in node.scope.declared}
    steps = allowance.steps if allowance is not None else Steps()
    used = _used(xml, [prefix for prefix in around if prefix], steps)
    needed = {}
    for prefix, uri in around.items():
        if not prefix:
            if uri:
                needed["xmlns"] = uri
        elif prefix in used:
            needed[f"xmlns:{prefix}"] = uri
    if not needed:
        return xml
    if allowance is not None:
        # Counted before they are escaped: escaping makes them longer and costs time.
        allowance.take(sum(len(name) + len(uri) for name, uri in needed.items()))
    return with_attributes(xml, needed)


def _end(data: bytes, node: Node) -> int:
    match = START_TAG.match(data, node.start)
    assert match is not None  # the document is well-formed
    return match.end() if match[0].endswith(b"/>") else data.index(b">", node.end) + 1


def with_attributes(xml: bytes, attributes: Mapping[str, str]) -> bytes:
    """``xml`` with more attributes on its root element, which must not have them yet."""
    match = NAME.match(xml)
    assert match is not None
    written = "".join(f' {name}="{escape_attribute(value)}"' for name, value in attributes.items())
    return xml[: match.end()] + written.encode() + xml[match.end() :]


def searchable(xml: bytes) -> bytes:
    """``xml`` without comments, with CDATA sections and character references replaced by their characters.

    The result is not XML; `uses` searches it.
    """
    if b"<!" not in xml and b"&#" not in xml:
        return xml
    # Put together at once: `re.sub` would keep an object for each of up to millions of references.
    plain, at = bytearray(), 0
    for match in _SEPARATORS.finditer(xml):
        plain += xml[at : match.start()]
        plain += _characters(match)
        at = match.end()
    plain += xml[at:]
    return bytes(plain)


def _characters(match: re.Match[bytes]) -> bytes:
    content, hexadecimal, decimal = match.groups()
    if content is not None:
        return bytes(content)
    if hexadecimal is not None:
        return chr(int(hexadecimal, 16)).encode()
    if decimal is not None:
        return chr(int(decimal)).encode()
    return b""


def uses(plain: bytes, prefix: str) -> bool:
    """Whether ``prefix:`` may stand for a namespace anywhere in ``plain``; ``True`` where that is not clear.

    :param plain: what `searchable` returned for an element, so it begins with "<".
    """
    needle = prefix.encode() + b":"
    at = plain.find(needle)
    for _ in range(_MAX_SEARCHES):
        if at < 0:
            return False
        if plain[at - 1] not in LETTERS:
            return True
        at = plain.find(needle, at + 1)
    return True


class Prefixes:
    """Many prefixes, each of which `uses` could be asked about: an element is read once for all of them.

    :param steps: the limit of the document that the elements are in.
    """

    def __init__(self, prefixes: Collection[str], steps: Steps) -> None:
        self._steps = steps
        self._sought = {prefix.encode(): prefix for prefix in prefixes}
        self._lengths = sorted({len(prefix) for prefix in self._sought})

    def used_in(self, plain: bytes) -> Collection[str]:
        """Those of the prefixes that ``plain`` uses; all of them if there are too many words to find that.

        :param plain: what `searchable` returned for an element, so it begins with "<".
        """
        found: set[str] = set()
        at = 0
        while at < len(plain) and self._steps.left >= 0:
            end = plain.find(b":", at + _PIECE) + 1 or len(plain)  # no word goes on behind its colon
            for word in set(WORD_BEFORE_COLON.findall(plain, at, end)):
                for length in self._lengths:
                    begin = len(word) - length
                    if begin < 0:
                        break
                    self._steps.left -= 1
                    if (begin == 0 or word[begin - 1] not in LETTERS) and word[begin:] in self._sought:
                        found.add(self._sought[word[begin:]])
            at = end
        return found if self._steps.left >= 0 else self._sought.values()


def _used(xml: bytes, prefixes: Collection[str], steps: Steps) -> Collection[str]:
    """Those of the prefixes declared around an element that it uses."""
    if not prefixes:
        return ()
    plain = searchable(xml)
    if len(prefixes) > FEW_PREFIXES:
        return Prefixes(prefixes, steps).used_in(plain)
    return [prefix for prefix in prefixes if uses(plain, prefix)]


def free_prefix(wanted: str, embedded: Sequence[bytes]) -> str:
    """A prefix that begins with ``wanted`` and that no embedded element uses or declares.

    :param embedded: what `searchable` returned for each element that is put into the document.
    """
    name = wanted.encode()
    if not any(name in text for text in embedded):  # most elements do not have it at all
        return wanted
    if not any(uses(text, wanted) or b"xmlns:" + name in text for text in embedded):
        return wanted
    numbered = re.compile(name + rb"([0-9]+)")
    taken = {int(number) for text in embedded for number in numbered.findall(text) if len(number) < 9}
    return next(f"{wanted}{number}" for number in itertools.count(1) if number not in taken)
