"""Writes the WSDL 1.1 of a service: document/literal wrapped, for SOAP 1.1 and 1.2, with a policy for WS-RM.

An operation has one element in the request and, if it responds, one element in the response. The operation has the name
of its request's element, as the wrapped style requires. The WSDL has no operations for WS-RM messages (POL-07).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.protocol import RmVersion, SoapVersion
from mercury.statemachine.retransmission import Backoff
from mercury.wire.mapping_plan import check_name
from mercury.wire.ns import MC, clark
from mercury.wsdl import names
from mercury.wsdl.document import document, standalone
from mercury.wsdl.names import RMP10, RMP11, SOAP_OVER_HTTP, WSAM, WSAW, WSDL, WSDL_SOAP, WSP15, WSU, XSD
from mercury.wsdl.schema import schema_of
from mercury.wsdl.write_security import RequiredSecurity, security_assertions

#: The target namespace of the WSDL of a service whose elements have no namespace.
NO_NAMESPACE = "urn:mercury:service"
#: A placeholder for the address of a service, in a document that is written once for all addresses.
PLACE = "urn:mercury:service:address"
_POLICY_ID = "Reliable"
_PREFIXES = {
    "wsdl": WSDL,
    "soap": WSDL_SOAP[SoapVersion.SOAP11],
    "soap12": WSDL_SOAP[SoapVersion.SOAP12],
    "wsp": WSP15,
    "wsu": WSU,
    "wsam": WSAM,
    "wsaw": WSAW,
    "wsrmp": RMP11,
    "wsmc": MC,
    "wsrm": RMP10,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDescription:
    """One operation for a WSDL."""

    #: Used in the WSDL only if another operation has the same element.
    name: str
    #: The local name of the request's element, and its class; ``bytes`` = any content.
    element: str
    request: type[Any]
    action: str
    #: ``None`` = one-way.
    response_action: str | None = None
    response_element: str = ""
    response: type[Any] = bytes


def describe(
    name: str,
    namespace: str,
    operations: Sequence[OperationDescription],
    policy: DestinationPolicy,
    retransmission: Backoff,
    security: RequiredSecurity | None = None,
    *,
    over_tls: bool = False,
) -> etree._Element:
    """Write the WSDL of a service with empty addresses; `with_address` sets them.

    :param namespace: the namespace of the elements; "" = none.
    :param policy: the delivery assurance, the order, and the timers for clients of WS-RM 1.0.
    :param retransmission: the retransmission timers for clients of WS-RM 1.0.
    :param security: what messages need by WS-Security; ``None`` = nothing.
    :param over_tls: the addresses are https URLs.
    :raises ConfigurationError: two operations have elements of the same name and of different classes, or a name
        cannot stand in XML.
    """
    target = namespace or NO_NAMESPACE
    title = re.sub(r"^(?=[\W\d])|[^\w.-]", "_", name)
    root = etree.Element(clark(WSDL, "definitions"), nsmap={**_PREFIXES, "tns": target}, name=title)
    root.set("targetNamespace", target)
    root.append(written_policy(policy, retransmission, security, over_tls=over_tls))
    types = etree.SubElement(root, clark(WSDL, "types"))
    types.append(schema_of(namespace, _elements(operations)))
    prefix = "tns:" if namespace else ""
    called = _unique(operations)
    named = list(zip(called, _responses(called), operations, strict=True))
    for request, response, each in named:
        _message(root, request, prefix + each.element)
        if each.response_action is not None:
            _message(root, response, prefix + each.response_element)
    port_type = etree.SubElement(root, clark(WSDL, "portType"), name=title)
    for request, response, each in named:
        operation = etree.SubElement(port_type, clark(WSDL, "operation"), name=request)
        _with_action(operation, "input", request, each.action, {})
        if each.response_action is not None:
            _with_action(operation, "output", response, each.response_action, _name(request, response))
    for soap in SoapVersion:
        _binding(root, title, soap, named)
    service = etree.SubElement(root, clark(WSDL, "service"), name=title)
    for soap in SoapVersion:
        bound = _bound(title, soap)
        port = etree.SubElement(service, clark(WSDL, "port"), name=bound, binding=f"tns:{bound}")
        etree.SubElement(port, clark(WSDL_SOAP[soap], "address"), location="")
    return root


def _elements(operations: Sequence[OperationDescription]) -> dict[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    for each in operations:
        pairs = [(each.element, each.request)]
        if each.response_action is not None:
            pairs.append((each.response_element, each.response))
        for element, cls in pairs:
            check_name(element, f"the element of {each.name}")
            if found.setdefault(element, cls) is not cls:
                raise ConfigurationError(
                    f"two classes, {found[element].__qualname__} and {cls.__qualname__}, are the element {element!r}: "
                    "a schema has one element of each name; give one of the operations another name"
                )
    return found


def _unique(operations: Sequence[OperationDescription]) -> list[str]:
    """The names of the operations: that of the element, or for a repeated element the operation's own name."""
    found: list[str] = []
    for each in operations:
        name, number = each.element, 1
        while name in found:
            name, number = (each.name if number == 1 else f"{each.name}{number}"), number + 1
        found.append(name)
    return found


def _responses(requests: Sequence[str]) -> list[str]:
    """The names of the messages of responses to these requests: none is that of a request too."""
    found: list[str] = []
    for each in requests:
        name, number = f"{each}Response", 2
        while name in requests or name in found:
            name, number = f"{each}Response{number}", number + 1
        found.append(name)
    return found


def _name(request: str, response: str) -> dict[str, str]:
    """The attribute of an output whose default name (WSDL 1.1 section 2.4.5) another operation's input has."""
    return {} if response == f"{request}Response" else {"name": response}


def _message(root: etree._Element, name: str, element: str) -> None:
    message = etree.SubElement(root, clark(WSDL, "message"), name=name)
    etree.SubElement(message, clark(WSDL, "part"), name="parameters", element=element)


def _with_action(operation: etree._Element, kind: str, message: str, action: str, name: dict[str, str]) -> None:
    written = etree.SubElement(operation, clark(WSDL, kind), name, message=f"tns:{message}")
    written.set(clark(WSAM, "Action"), action)
    written.set(clark(WSAW, "Action"), action)


def _bound(title: str, soap: SoapVersion) -> str:
    return title + ("Soap11" if soap is SoapVersion.SOAP11 else "Soap12")


def _binding(
    root: etree._Element, title: str, soap: SoapVersion, named: Sequence[tuple[str, str, OperationDescription]]
) -> None:
    ns = WSDL_SOAP[soap]
    binding = etree.SubElement(root, clark(WSDL, "binding"), name=_bound(title, soap), type=f"tns:{title}")
    binding.append(policy_reference())
    etree.SubElement(binding, clark(ns, "binding"), style="document", transport=SOAP_OVER_HTTP)
    for request, response, each in named:
        operation = etree.SubElement(binding, clark(WSDL, "operation"), name=request)
        etree.SubElement(operation, clark(ns, "operation"), soapAction=each.action, style="document")
        for kind in ("input", "output") if each.response_action is not None else ("input",):
            body = etree.SubElement(operation, clark(WSDL, kind), _name(request, response) if kind == "output" else {})
            etree.SubElement(body, clark(ns, "body"), use="literal")


# --- the policy ------------------------------------------------------------------------------------------------------


def policy_reference() -> etree._Element:
    """A reference to `written_policy`, for a binding."""
    return etree.Element(clark(WSP15, "PolicyReference"), URI=f"#{_POLICY_ID}")


def written_policy(
    policy: DestinationPolicy,
    retransmission: Backoff,
    security: RequiredSecurity | None = None,
    *,
    over_tls: bool = False,
) -> etree._Element:
    """Write the policy of a service, with an alternative for each version of WS-RM (POL-06).

    It offers WS-MakeConnection to clients that cannot listen. The last parameters are those of `describe`.
    """
    required = security or RequiredSecurity()
    written = etree.Element(clark(WSP15, "Policy"), {clark(WSU, "Id"): _POLICY_ID})
    choice = etree.SubElement(written, clark(WSP15, "ExactlyOne"))
    newer = etree.SubElement(choice, clark(WSP15, "All"))
    _nested(etree.SubElement(newer, clark(WSAM, "Addressing")))
    assurance = _nested(etree.SubElement(newer, clark(RMP11, "RMAssertion")))
    promise = _nested(etree.SubElement(assurance, clark(RMP11, "DeliveryAssurance")))
    etree.SubElement(promise, clark(RMP11, policy.assurance.value))
    if policy.in_order:
        etree.SubElement(promise, clark(RMP11, "InOrder"))
    # MC-08: a toolkit that does not know the assertion would refuse the alternative if it were not optional.
    etree.SubElement(newer, names.MC_SUPPORTED, {clark(WSP15, "Optional"): "true"})
    _mtom(newer, policy)
    newer.extend(security_assertions(required, RmVersion.RM11, over_tls=over_tls))
    older = etree.SubElement(choice, clark(WSP15, "All"))
    etree.SubElement(older, clark(WSAW, "UsingAddressing"))
    assertion = etree.SubElement(older, clark(RMP10, "RMAssertion"))
    # POL-01: the schema requires this order of the elements.
    _timer(assertion, "InactivityTimeout", policy.inactivity_timeout)
    _timer(assertion, "BaseRetransmissionInterval", retransmission.base)
    if retransmission.factor > 1:
        etree.SubElement(assertion, clark(RMP10, "ExponentialBackoff"))
    _timer(assertion, "AcknowledgementInterval", policy.acknowledgement_interval)
    _mtom(older, policy)
    older.extend(security_assertions(required, RmVersion.RM10, over_tls=over_tls))
    return written


def _mtom(alternative: etree._Element, policy: DestinationPolicy) -> None:
    """Clients may send MTOM messages, and then get MTOM responses."""
    if policy.mtom:
        etree.SubElement(alternative, names.OPTIMIZED, {clark(WSP15, "Optional"): "true"}, {"wsoma": names.WSOMA})


def _nested(assertion: etree._Element) -> etree._Element:
    return etree.SubElement(assertion, clark(WSP15, "Policy"))


def _timer(assertion: etree._Element, name: str, seconds: float | None) -> None:
    if seconds:
        etree.SubElement(assertion, clark(RMP10, name), Milliseconds=str(max(1, round(seconds * 1000))))


# --- the documents ---------------------------------------------------------------------------------------------------


def with_address(wsdl: etree._Element, address: str) -> bytes:
    """Write a WSDL as a document, with ``address`` at each port that is bound to SOAP.

    :raises ConfigurationError: the address cannot stand in XML.
    """
    wsdl = copy.deepcopy(wsdl)
    try:
        for each in wsdl.iter(*(clark(ns, "address") for ns in names.SOAP_BINDINGS)):
            each.set("location", address)
    except ValueError as error:
        raise ConfigurationError(f"the address {address!r} cannot stand in XML") from error
    return document(wsdl)


def placed(written: bytes, address: str) -> bytes:
    """Replace the address `PLACE` in a document.

    :raises ConfigurationError: the address cannot stand in XML.
    """
    try:
        attribute = etree.tostring(etree.Element("a", b=address), encoding="UTF-8", xml_declaration=False)
    except ValueError as error:
        raise ConfigurationError(f"the address {address!r} cannot stand in XML") from error
    return written.replace(PLACE.encode(), attribute.removeprefix(b'<a b="').removesuffix(b'"/>'))


def schemas(wsdl: etree._Element) -> list[bytes]:
    """The schemas inside a WSDL, each as a document of its own."""
    return [
        document(standalone(schema))
        for types in wsdl.iterchildren(clark(WSDL, "types"))
        for schema in types.iterchildren(clark(XSD, "schema"))
    ]
