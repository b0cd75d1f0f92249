"""Reads the requirements of a WSDL's policies, and computes a client's settings from them (POL-01 to POL-08)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.statemachine.policy import DeliveryAssurance, SourcePolicy
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.wire.ns import clark
from mercury.wsdl import names
from mercury.wsdl.alternatives import Assertions, Normal, is_ignorable, is_optional, nested, policies_by_id
from mercury.wsdl.document import name_of, parse
from mercury.wsdl.names import POLICIES, SOAP_BINDINGS, WSDL
from mercury.wsdl.security_policy import read_security

#: The shortest pause before a retransmission, in seconds, that is taken from a peer's policy.
SHORTEST_PAUSE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """One RM assertion. Times are in seconds; ``None`` = the assertion has no such value."""

    rm: RmVersion
    #: wsp:Optional: the peer accepts messages without WS-RM too. Mercury sends with WS-RM in any case.
    optional: bool = False
    assurance: DeliveryAssurance | None = None
    in_order: bool | None = None
    #: The peer ends a sequence on which it received no message for this time.
    inactivity_timeout: float | None = None
    #: The pause before the first retransmission.
    retransmission_interval: float | None = None
    exponential_backoff: bool = False
    #: The longest delay of an acknowledgement.
    acknowledgement_interval: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One alternative of a port's policy."""

    reliability: Reliability | None = None
    #: The version of WS-Addressing that is required; ``None`` = none is.
    addressing: AddressingVersion | None = None
    #: Where the peer sends responses: ``True`` = only on the connection of the request, ``False`` = only to an address,
    #: ``None`` = both are possible.
    anonymous: bool | None = None
    #: A client that cannot be reached fetches its responses by WS-MakeConnection.
    make_connection: bool = False
    #: Messages are MTOM messages.
    mtom: bool = False
    #: The fields of `MessageSecurity` that must be set for the endpoint, because WS-SecurityPolicy requires it.
    security: tuple[str, ...] = ()
    #: The required features that Mercury does not support, in words.
    unsupported: tuple[str, ...] = ()
    #: Assertions that Mercury does not know, in Clark notation.
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The requirements of one port."""

    #: The name of its binding, its address, and the version of SOAP. A document that is only a policy has none of them.
    binding: str = ""
    address: str = ""
    soap: SoapVersion | None = None
    #: Whether a policy is attached to the port, its service, its binding or its port type. Without a policy it is not
    #: known whether the peer uses WS-RM.
    attached: bool = True
    #: The alternatives in the order of the document; one without requirements is ``Alternative()``. Empty = no client
    #: can fulfil the policy.
    alternatives: tuple[Alternative, ...] = (Alternative(),)
    #: References to policies that the document does not have, so their requirements are not known.
    missing: tuple[str, ...] = ()

    def choose(self, preferred: Protocol | None = None) -> Alternative | None:
        """The alternative that Mercury uses: that with the fewest unsupported features, then the fewest unknown
        assertions, then one with WS-RM, then one with the preferred version, then one without MTOM.

        :returns: ``None`` = there is no alternative. It has unsupported features only if all alternatives have some.
        """
        rm = (preferred or Protocol()).rm

        def rank(each: Alternative) -> tuple[int, int, bool, bool, bool]:
            reliable = each.reliability
            other = reliable is not None and reliable.rm is not rm
            return len(each.unsupported), len(each.unknown), reliable is None, other, each.mtom

        return min(self.alternatives, key=rank, default=None)

    def protocol(self, preferred: Protocol | None = None) -> Protocol:
        """The protocol versions for messages to this port: those it requires, and otherwise those of ``preferred``."""
        preferred = preferred or Protocol()
        chosen = self.choose(preferred) or Alternative()
        rm = chosen.reliability.rm if chosen.reliability is not None else preferred.rm
        addressing = chosen.addressing or preferred.addressing
        found = Protocol(self.soap or preferred.soap, addressing, rm)
        return found if found.legal else replace(found, addressing=AddressingVersion.WSA10)

    def source_policy(self, base: SourcePolicy | None = None) -> SourcePolicy:
        """The settings of a `Sender` to this port: ``base``, changed as the port requires.

        The versions are those of `protocol`. The pause before the first retransmission is the peer's
        BaseRetransmissionInterval, but at least its AcknowledgementInterval. It is at least 0.1 s, or the pause of
        ``base`` if that is shorter, and at most the cap of ``base``. An idle sequence ends before the peer's
        InactivityTimeout would end it. Messages are MTOM messages if the port or ``base`` requires that.
        """
        base = base or SourcePolicy()
        chosen = self.choose(base.protocol) or Alternative()
        required = chosen.reliability or Reliability(rm=base.protocol.rm)
        backoff = base.retransmission
        pause = backoff.base if required.retransmission_interval is None else required.retransmission_interval
        if required.acknowledgement_interval is not None:
            pause = max(pause, required.acknowledgement_interval / (1 - backoff.jitter))
        pause = min(max(pause, min(SHORTEST_PAUSE, backoff.base)), backoff.cap)
        idle = base.idle_timeout
        if required.inactivity_timeout is not None:
            idle = min(required.inactivity_timeout / 2, required.inactivity_timeout if idle is None else idle)
        return replace(
            base,
            protocol=self.protocol(base.protocol),
            retransmission=replace(backoff, base=pause),
            idle_timeout=idle,
            mtom=base.mtom or chosen.mtom,
        )


def read(document: bytes, imported: Iterable[bytes] = ()) -> dict[str, Requirements]:
    """Read the requirements of each port of a WSDL, by the name of the port, in the order of the document.

    Policies are read at the service, the port, the binding and the port type, in WS-Policy 1.2 and 1.5, also by
    reference (WS-PolicyAttachment section 4.1; POL-04, POL-05).

    :param document: a WSDL 1.1, or only a policy; the result for a policy has one port, named ``""``.
    :param imported: the documents that the WSDL imports. No document is fetched.
    :raises ConfigurationError: the document is neither, is not well-formed, has a document type, or is too large; or a
        policy in it refers to itself or has too many alternatives.
    """
    root = parse(document, "the WSDL")
    roots = [root, *(parse(each, "an import of the WSDL") for each in imported)]
    normal = Normal(policies_by_id(roots))
    if root.tag in (clark(namespace, "Policy") for namespace in POLICIES):
        alternatives, missing = _alternatives_of(normal, [[root]])
        return {"": Requirements(alternatives=alternatives, missing=missing)}
    if root.tag != clark(WSDL, "definitions"):
        raise ConfigurationError(f"{root.tag} is neither a WSDL 1.1 nor a policy")
    parts = _Definitions(roots)
    found = {}
    for each in roots:
        for service in each.iterchildren(clark(WSDL, "service")):
            for port in service.iterchildren(clark(WSDL, "port")):
                found[port.get("name", "")] = _port(parts, normal, service, port)
    return found


def imports(document: bytes) -> list[str]:
    """The locations of the WSDLs that a WSDL imports, as it writes them.

    :raises ConfigurationError: the document is not well-formed, has a document type, or is too large.
    """
    root = parse(document, "the WSDL")
    places = (each.get("location", "").strip() for each in root.iterchildren(clark(WSDL, "import")))
    return [place for place in places if place]


class _Definitions:
    """Bindings and port types by their qualified names."""

    def __init__(self, roots: Iterable[etree._Element]) -> None:
        self._found: dict[tuple[str, str], etree._Element] = {}
        for root in roots:
            namespace = root.get("targetNamespace", "")
            for kind in ("binding", "portType"):
                for element in root.iterchildren(clark(WSDL, kind)):
                    self._found.setdefault((kind, clark(namespace, element.get("name", ""))), element)

    def find(self, kind: str, user: etree._Element, attribute: str) -> etree._Element | None:
        return self._found.get((kind, name_of(user, user.get(attribute, ""))))


def _port(parts: _Definitions, normal: Normal, service: etree._Element, port: etree._Element) -> Requirements:
    name = name_of(port, port.get("binding", ""))
    binding = parts.find("binding", port, "binding")
    subjects = [service, port]
    soap, address = None, ""
    if binding is not None:
        subjects.append(binding)
        port_type = parts.find("portType", binding, "type")
        subjects += [] if port_type is None else [port_type]
        soap = next((version for ns, version in SOAP_BINDINGS.items() if _has(binding, ns, "binding")), None)
    for child in port:
        address = address or child.get("location", "").strip()
    attached = [list(_attached(subject)) for subject in subjects]
    alternatives, missing = _alternatives_of(normal, attached)
    return Requirements(
        binding=name.rpartition("}")[2],
        address=address,
        soap=soap,
        attached=any(each.tag not in names.ADDRESSING_ASSERTIONS for elements in attached for each in elements),
        alternatives=alternatives,
        missing=missing if binding is not None else (*missing, f"the binding {name}"),
    )


def _has(element: etree._Element, namespace: str, local: str) -> bool:
    return next(element.iterchildren(clark(namespace, local)), None) is not None


def _attached(subject: etree._Element) -> Iterator[etree._Element]:
    """The policies and references at one element, and its assertions of WS-Addressing that are outside a policy."""
    wanted = {clark(namespace, local) for namespace in POLICIES for local in ("Policy", "PolicyReference")}
    for child in subject:
        if child.tag in wanted or child.tag in names.ADDRESSING_ASSERTIONS:
            yield child
    for namespace in POLICIES:
        for uri in subject.get(clark(namespace, "PolicyURIs"), "").split():
            yield etree.Element(clark(namespace, "PolicyReference"), URI=uri)


def _alternatives_of(
    normal: Normal, subjects: Iterable[Iterable[etree._Element]]
) -> tuple[tuple[Alternative, ...], tuple[str, ...]]:
    """The alternatives of the policies at several elements, and the references to policies that are missing."""
    normal.missing = []
    found = normal.alternatives(element for elements in subjects for element in elements)
    return tuple(dict.fromkeys(_alternative(each) for each in found)), tuple(normal.missing)


def _alternative(assertions: Assertions) -> Alternative:
    reliability, addressing, anonymous, make_connection, mtom = None, None, None, False, False
    unsupported: list[str] = []
    unknown: list[str] = []
    bound_to_token = False
    for each in assertions:
        tag, name = each.tag, etree.QName(each)
        inside = {etree.QName(one).localname for one in nested(each)}
        if tag in names.RM_ASSERTIONS:
            if reliability is None or reliability.rm is RmVersion.RM10:
                reliability = _reliability(each, assertions)
            bound_to_token |= "SequenceSTR" in inside
            if "SequenceTransportSecurity" in inside:
                unsupported.append("SequenceTransportSecurity of the RM assertion")
        elif tag in names.ADDRESSING_ASSERTIONS:
            addressing = addressing or names.ADDRESSING_ASSERTIONS[tag]
            restricted = {part: answer for part, answer in _RESPONSES.items() if part in inside}
            anonymous = next(iter(restricted.values())) if len(restricted) == 1 else anonymous
        elif tag == names.MC_SUPPORTED:
            make_connection = True
        elif tag in names.MTOM_ASSERTIONS:
            mtom = True
        elif tag in names.UNSUPPORTED:
            unsupported.append(f"{name.localname} ({names.UNSUPPORTED[tag]})")
        elif name.namespace in names.SECURITY:
            continue
        elif name.namespace not in names.VENDORS and not is_ignorable(each):
            unknown.append(tag)
    secured = read_security(assertions, bound_to_token=bound_to_token)
    unsupported += secured.unsupported
    return Alternative(
        reliability=reliability,
        addressing=addressing,
        anonymous=anonymous,
        make_connection=make_connection,
        mtom=mtom,
        security=secured.settings,
        unsupported=tuple(dict.fromkeys(unsupported)),
        unknown=tuple(dict.fromkeys(unknown)),
    )


_RESPONSES = MappingProxyType({"AnonymousResponses": True, "NonAnonymousResponses": False})


def _reliability(assertion: etree._Element, around: Assertions) -> Reliability:
    inside = [*nested(assertion), *around]
    timers = {
        etree.QName(each).localname: each for each in inside if etree.QName(each).namespace in names.TIMER_NAMESPACES
    }
    rm = names.RM_ASSERTIONS[assertion.tag]
    named = {etree.QName(each).localname for each in inside if etree.QName(each).namespace == names.RMP11}
    ordered = "InOrder" in named if "DeliveryAssurance" in named else None
    return Reliability(
        rm=rm,
        optional=is_optional(assertion),
        assurance=next((each for each in DeliveryAssurance if each.value in named), None),
        in_order=ordered,
        inactivity_timeout=_seconds(timers.get("InactivityTimeout")),
        retransmission_interval=_seconds(timers.get("BaseRetransmissionInterval")),
        exponential_backoff="ExponentialBackoff" in timers,
        acknowledgement_interval=_seconds(timers.get("AcknowledgementInterval")),
    )


def _seconds(timer: etree._Element | None) -> float | None:
    """The seconds of a timer in milliseconds; ``None`` = the timer is absent, zero, or not a number."""
    text = "" if timer is None else timer.get("Milliseconds", "").strip()
    return int(text) / 1000 if re.fullmatch("0*[1-9][0-9]{0,14}", text, re.ASCII) else None
