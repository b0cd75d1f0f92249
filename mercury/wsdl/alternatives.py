"""WS-Policy in its normal form: a list of alternatives, each a list of assertions (WS-Policy 1.5 section 4.3).

The normal form can be exponentially larger than what is written, and a reference can be repeated: both are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.wire.ns import XML, clark
from mercury.wsdl.names import POLICIES, WSU

#: One of the choices that a policy leaves.
Assertions = tuple[etree._Element, ...]

#: More alternatives than these are not made of one policy; nor are more elements looked at.
MAX_ALTERNATIVES = 64
MAX_STEPS = 20_000
#: Policies inside policies, references included.
MAX_DEPTH = 64


def policies_by_id(roots: Iterable[etree._Element]) -> Mapping[str, etree._Element]:
    """The policies of documents by what a reference calls them: ``#id``, or their name."""
    found: dict[str, etree._Element] = {}
    for root in roots:
        for policy in root.iter(*(clark(namespace, "Policy") for namespace in POLICIES)):
            names = (policy.get(clark(WSU, "Id")), policy.get(clark(XML, "id")))
            for each in (*(f"#{name}" for name in names if name), policy.get("Name")):
                if each:
                    found.setdefault(each, policy)
    return found


class Normal:
    """Normalises the policies of some documents, with one bound for all of them."""

    def __init__(self, known: Mapping[str, etree._Element]) -> None:
        self._known = known
        self._steps = 0
        #: References that lead nowhere; what they stand for is not known.
        self.missing: list[str] = []

    def alternatives(self, elements: Iterable[etree._Element], depth: int = 0) -> list[Assertions]:
        """What several policies, references and assertions leave to choose when all of them hold.

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
        return [()]  # wsp:UsingPolicy and the like ask for nothing


def is_optional(assertion: etree._Element) -> bool:
    """Whether an assertion is marked with wsp:Optional."""
    return _marked(assertion, "Optional")


def is_ignorable(assertion: etree._Element) -> bool:
    """Whether an assertion is marked with wsp:Ignorable."""
    return _marked(assertion, "Ignorable")


def _marked(assertion: etree._Element, mark: str) -> bool:
    return any(assertion.get(clark(namespace, mark), "").strip() in ("true", "1") for namespace in POLICIES)


def nested(assertion: etree._Element) -> Iterator[etree._Element]:
    """All assertions inside one, through policies and choices, at every depth."""
    for element in assertion.iterdescendants():
        if etree.QName(element).namespace not in POLICIES:
            yield element
