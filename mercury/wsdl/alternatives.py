"""WS-Policy in its normal form: a list of alternatives, each a list of assertions (WS-Policy 1.5 section 4.3).

The normal form can be exponentially larger than the document, and a policy can be referred to many times. So the size
of the result and the number of steps are limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.wire.ns import XML, clark
from mercury.wsdl.names import POLICIES, WSU

#: The assertions of one alternative; a client fulfils all of them.
Assertions = tuple[etree._Element, ...]

#: The highest number of alternatives of one policy, and of elements that are visited for one document.
MAX_ALTERNATIVES = 64
MAX_STEPS = 20_000
#: The depth of nested policies, references included.
MAX_DEPTH = 64


def policies_by_id(roots: Iterable[etree._Element]) -> Mapping[str, etree._Element]:
    """The policies of documents by the URI of a reference to them: ``#id``, or their name."""
    found: dict[str, etree._Element] = {}
    for root in roots:
        for policy in root.iter(*(clark(namespace, "Policy") for namespace in POLICIES)):
            names = (policy.get(clark(WSU, "Id")), policy.get(clark(XML, "id")))
            for each in (*(f"#{name}" for name in names if name), policy.get("Name")):
                if each:
                    found.setdefault(each, policy)
    return found


class Normal:
    """Normalizes the policies of some documents, with one limit of steps for all of them."""

    def __init__(self, known: Mapping[str, etree._Element]) -> None:
        self._known = known
        self._steps = 0
        #: The URIs of references to policies that the documents do not have.
        self.missing: list[str] = []

    def alternatives(self, elements: Iterable[etree._Element], depth: int = 0) -> list[Assertions]:
        """The alternatives of several policies, references and assertions that must all be fulfilled.

        :raises ConfigurationError: there are too many alternatives, or a policy refers to itself.
        """
        if depth > MAX_DEPTH:
            raise ConfigurationError("a policy refers to itself, or policies are nested too deeply")
        found: list[Assertions] = [()]
        for element in elements:
            self._steps += 1
            choices = self._choices(element, depth)
            if len(found) * len(choices) > MAX_ALTERNATIVES:
                raise ConfigurationError(f"a policy has more than {MAX_ALTERNATIVES} alternatives")
            self._steps += sum(len(each) for each in choices) * len(found)
            if self._steps > MAX_STEPS:
                raise ConfigurationError("the policies are too large")
            found = [(*one, *other) for one in found for other in choices]
        return found

    def _choices(self, element: etree._Element, depth: int) -> list[Assertions]:
        name = etree.QName(element)
        if name.namespace not in POLICIES:
            self._steps += sum(1 for _ in element.iterdescendants())
            return [(element,), ()] if is_optional(element) else [(element,)]
        if name.localname in ("Policy", "All"):
            return self.alternatives(element, depth + 1)
        if name.localname == "ExactlyOne":
            found = [each for child in element for each in self.alternatives([child], depth + 1)]
            if len(found) > MAX_ALTERNATIVES:
                raise ConfigurationError(f"a policy has more than {MAX_ALTERNATIVES} alternatives")
            return found
        if name.localname == "PolicyReference":
            uri = element.get("URI", "").strip()
            policy = self._known.get(uri)
            if policy is not None:
                return self.alternatives([policy], depth + 1)
            if uri not in self.missing:
                self.missing.append(uri)
        return [()]  # any other element, such as wsp:UsingPolicy, requires nothing


def is_optional(assertion: etree._Element) -> bool:
    """Whether an assertion is marked with wsp:Optional."""
    return _marked(assertion, "Optional")


def is_ignorable(assertion: etree._Element) -> bool:
    """Whether an assertion is marked with wsp:Ignorable."""
    return _marked(assertion, "Ignorable")


def _marked(assertion: etree._Element, mark: str) -> bool:
    return any(assertion.get(clark(namespace, mark), "").strip() in ("true", "1") for namespace in POLICIES)


def nested(assertion: etree._Element) -> Iterator[etree._Element]:
    """All assertions inside an assertion, at every depth; policies and choices between them are skipped."""
    for element in assertion.iterdescendants():
        if etree.QName(element).namespace not in POLICIES:
            yield element
