"""Operations and policies of a client's WSDL documents; zeep passes neither of them to its transport."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree

from mercury.errors import ConfigurationError
from mercury.statemachine.protocol import SoapVersion
from mercury.wire.ns import WSA200408, clark
from mercury.wire.xml_parser import closed_parser
from mercury.wsdl import policy
from mercury.wsdl.document import name_of
from mercury.wsdl.names import SOAP_BINDINGS, WSAM, WSAW, WSDL
from mercury.wsdl.policy import Requirements

#: wsam:Action and its predecessors.
_ACTIONS = tuple(clark(uri, "Action") for uri in (WSAM, WSAW, WSA200408))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The data of a binding's operation that are needed to send its requests."""

    name: str
    #: The binding's name in Clark notation, and the addresses of its ports.
    binding: str
    addresses: frozenset[str]
    soap: SoapVersion
    soap_action: str
    #: The elements that may be in the Body, in Clark notation; "" = it may be empty.
    elements: frozenset[str]
    #: wsa:Action of requests (WS-Addressing 1.0 Metadata, section 4.4).
    action: str
    one_way: bool


@dataclass(slots=True)
class _Definitions:
    """The parts of all documents, by their names in Clark notation."""

    #: The elements of a message's parts; ``None`` for a part with a type.
    messages: dict[str, dict[str, str | None]] = field(default_factory=dict)
    port_types: dict[str, etree._Element] = field(default_factory=dict)
    bindings: dict[str, etree._Element] = field(default_factory=dict)
    #: The addresses of the ports of a binding.
    ports: dict[str, set[str]] = field(default_factory=dict)


class Wsdl:
    """The operations of all WSDL documents that were loaded. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._definitions = _Definitions()
        self._operations: list[Operation] | None = None
        #: Documents with ports; documents without ports, which the others import.
        self._with_ports: list[bytes] = []
        self._imported: list[bytes] = []
        self._ports: list[Requirements] | None = None

    def add(self, data: bytes) -> None:
        """Add a document; one that is not a WSDL, for example a schema, is ignored."""
        parser = closed_parser(huge_tree=True, recover=True)
        try:
            root: etree._Element | None = etree.fromstring(data, parser)
        except etree.LxmlError:
            return  # zeep raises the error
        if root is None or root.tag != clark(WSDL, "definitions"):
            return
        with self._mutex:
            _add_definitions(root, self._definitions)
            has_ports = root.find(clark(WSDL, "service")) is not None
            (self._with_ports if has_ports else self._imported).append(data)
            self._operations = self._ports = None

    def find(self, address: str, soap: SoapVersion, soap_action: str, element: str) -> Operation:
        """The operation that an envelope calls.

        :param address: the URL of the call; it decides if bindings of several services fit.
        :raises ConfigurationError: no operation fits, or several fit that differ.
        """
        with self._mutex:
            if self._operations is None:
                self._operations = list(_operations(self._definitions))
            known = self._operations
        fitting = [
            each for each in known if each.soap is soap and each.soap_action == soap_action and element in each.elements
        ]
        here = [each for each in fitting if address in each.addresses] or fitting
        if not here:
            raise ConfigurationError(
                f"no WSDL that this transport has loaded has an operation for {element or 'an empty Body'} with "
                f"SOAPAction {soap_action!r} by SOAP {soap.value}. If the client got its WSDL in another way, load it "
                "into the transport: transport.load(url), or zeep.wsdl.Document(url, transport)"
            )
        if len({(each.action, each.one_way) for each in here}) > 1:
            names = ", ".join(f"{each.name} of {each.binding}" for each in here)
            raise ConfigurationError(f"the envelope may call any of {names}, which differ: give them a soapAction")
        return here[0]

    def requirements(self, operation: Operation, address: str) -> Requirements | None:
        """The requirements of the policy of an operation's port; ``None`` = its binding has no port.

        :param address: the URL of the call: selects one of several ports; without a match the first port counts.
        :raises ConfigurationError: the policies of the documents cannot be read.
        """
        with self._mutex:
            if self._ports is None:
                read = [policy.read(document, self._imported).values() for document in self._with_ports]
                self._ports = [port for ports in read for port in ports]
            known = self._ports
        local = operation.binding.rpartition("}")[2]
        fitting = [port for port in known if (port.binding, port.soap) == (local, operation.soap)]
        return next((port for port in fitting if port.address == address), fitting[0] if fitting else None)


def _add_definitions(root: etree._Element, known: _Definitions) -> None:
    target = root.get("targetNamespace", "")
    for message in root.iterfind(clark(WSDL, "message")):
        parts = message.iterfind(clark(WSDL, "part"))
        known.messages[clark(target, message.get("name", ""))] = {
            part.get("name", ""): None if part.get("element") is None else name_of(part, part.get("element", ""))
            for part in parts
        }
    for port_type in root.iterfind(clark(WSDL, "portType")):
        known.port_types[clark(target, port_type.get("name", ""))] = port_type
    for binding in root.iterfind(clark(WSDL, "binding")):
        known.bindings[clark(target, binding.get("name", ""))] = binding
    for port in root.iterfind(f"{clark(WSDL, 'service')}/{clark(WSDL, 'port')}"):
        for uri in SOAP_BINDINGS:
            for address in port.iterfind(clark(uri, "address")):
                bound = name_of(port, port.get("binding", ""))
                known.ports.setdefault(bound, set()).add(address.get("location", ""))


def _operations(known: _Definitions) -> Iterator[Operation]:
    for name, binding in known.bindings.items():
        port_type = known.port_types.get(name_of(binding, binding.get("type", "")))
        soap = next((uri for uri in SOAP_BINDINGS if binding.find(clark(uri, "binding")) is not None), None)
        if port_type is None or soap is None:
            continue
        abstract = {each.get("name", ""): each for each in port_type.iterfind(clark(WSDL, "operation"))}
        for concrete in binding.iterfind(clark(WSDL, "operation")):
            declared = abstract.get(concrete.get("name", ""))
            request = None if declared is None else declared.find(clark(WSDL, "input"))
            if declared is None or request is None:
                continue
            soap_operation = concrete.find(clark(soap, "operation"))
            soap_action = "" if soap_operation is None else soap_operation.get("soapAction", "")
            one_way = declared.find(clark(WSDL, "output")) is None
            yield Operation(
                name=concrete.get("name", ""),
                binding=name,
                addresses=frozenset(known.ports.get(name, ())),
                soap=SOAP_BINDINGS[soap],
                soap_action=soap_action,
                elements=frozenset(_elements(known, binding, concrete, request, soap)),
                action=_action(port_type, declared, request, soap_action, one_way=one_way),
                one_way=one_way,
            )


def _elements(
    known: _Definitions, binding: etree._Element, concrete: etree._Element, request: etree._Element, soap: str
) -> Iterator[str]:
    """The elements that the Body may have: with style rpc the operation's element, otherwise the element of its
    part."""
    overall, own = binding.find(clark(soap, "binding")), concrete.find(clark(soap, "operation"))
    style = "document" if overall is None else overall.get("style", "document")
    style = style if own is None else own.get("style", style)
    body = concrete.find(f"{clark(WSDL, 'input')}//{clark(soap, 'body')}")
    if style == "rpc":
        yield clark("" if body is None else body.get("namespace", ""), concrete.get("name", ""))
        return
    parts = known.messages.get(name_of(request, request.get("message", "")), {})
    listed = None if body is None or body.get("parts") is None else body.get("parts", "").split()
    found = [element for part, element in parts.items() if element and (listed is None or part in listed)]
    yield from found or [""]


def _action(
    port_type: etree._Element, operation: etree._Element, request: etree._Element, soap_action: str, *, one_way: bool
) -> str:
    for attribute in _ACTIONS:
        explicit = request.get(attribute)
        if explicit:
            return explicit
    if soap_action:
        return soap_action
    root = port_type.getroottree().getroot()
    target = root.get("targetNamespace", "")
    delimiter = ":" if target.lower().startswith("urn:") else "/"
    named = request.get("name") or operation.get("name", "") + ("" if one_way else "Request")
    base = target if target.endswith(delimiter) else target + delimiter
    return f"{base}{port_type.get('name', '')}{delimiter}{named}"
