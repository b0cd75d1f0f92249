"""Reads a WSDL 1.1 from which a service is made: its operations, and the schema of their bodies.

Operations are document/literal with one element in each direction, as current toolkits write them. Documents and
schemas that are imported or included are read only from files below the folder of the WSDL.
"""

from __future__ import annotations

import contextlib
import copy
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from mercury.errors import ConfigurationError, PayloadError
from mercury.wire.ns import clark, namespace_of
from mercury.wire.own_thread import in_own_thread
from mercury.wire.xml_parser import closed_parser
from mercury.wsdl.document import name_of
from mercury.wsdl.names import POLICIES, SECURITY, SOAP_BINDINGS, WSAM, WSAW, WSDL
from mercury.wsdl.schema_files import SchemaFiles, inside
from mercury.wsdl.write import with_address
from mercury.wsdl.wsdl_files import WsdlFile, WsdlFiles

#: Bytes that are parsed and validated in one call; other threads can run between two calls.
AT_ONCE = 64 * 1024
#: The bytes of a body times the pieces of its text. Up to this value, libxml2 joins the pieces within half a second.
DIRECT = 2 * 10**10
#: A text with more characters, some of them escaped, is left out of the first validation. The highest number of errors
#: that one text, or its absence, can cause.
LONG, ERRORS_OF_A_TEXT = 16 * 1024, 8
_ESCAPED = re.compile("[&<>\r]")
_OF_SCHEMAS = (etree.ErrorDomains.SCHEMASP, etree.ErrorDomains.SCHEMASV)


@dataclass(frozen=True, slots=True, kw_only=True)
class WsdlOperation:
    """One operation of a port type. The names of elements are in Clark notation."""

    name: str
    element: str
    action: str
    #: ``None`` = one-way.
    response_element: str | None
    response_action: str | None


class WsdlContract:
    """The operations and the schema of one service of a WSDL.

    :param source: the file, or the document itself.
    :param folder: imported documents and schemas are read from this folder and below it; by default from the file's.
    :param port: the name of the port whose operations are used; by default the first one that is bound to SOAP.
    :raises ConfigurationError: the WSDL cannot be read, imports a file that is not below the folder, or does not have
        the port; or an operation is not document/literal with one element in each direction, or a schema
        is not valid.
    """

    def __init__(self, source: str | Path | bytes, port: str | None = None, folder: str | Path | None = None) -> None:
        self._files = WsdlFiles(source, folder)
        self.root = self._files.documents[0].root
        self._target = self._files.documents[0].namespace
        service, binding = self._bound(self._files.what, port)
        self.name = service.get("name", "")
        self.operations = {each.name: each for each in self._operations(binding)}
        #: The schemas that the WSDL contains and imports, with numbers as locations; see `SchemaFiles`.
        self.schemas = SchemaFiles(((each.root, each.folder) for each in self._files.documents), self._files.folder)
        self._schema = self.schemas.compiled()
        self._mutex = threading.Lock()

    @property
    def namespace(self) -> str:
        """The namespace of the operations' elements; that of the WSDL if it has no operation."""
        return next((namespace_of(each.element) for each in self.operations.values()), self._target)

    def check(self, xml: bytes, element: str) -> etree._Element:
        """Check that a body is the given element and valid by the schema, and return the parsed body.

        Checking an invalid body takes no longer than checking a valid one.

        :raises PayloadError: the body is not well-formed, is another element, or is not valid; the text has the reason.
        """
        return in_own_thread(lambda: self._check(xml, element))

    def _check(self, xml: bytes, element: str) -> etree._Element:
        try:
            root = etree.fromstring(xml, _parser())
        except etree.XMLSyntaxError as error:
            raise PayloadError(f"not well-formed XML: {error.msg}") from error
        if root.tag != element:
            raise PayloadError(f"the element is {root.tag[:200]}, expected {element}")
        pieces = xml.count(b"<") + xml.count(b"&") + xml.count(b"\r")
        if pieces * len(xml) <= DIRECT:
            _refuse_invalid(self._schema, xml)
            return root
        light = copy.deepcopy(root)
        long = _lighten(light)
        # Each text that is left out can cause errors by its absence: the errors of that number of texts are ignored.
        _refuse_invalid(self._schema, etree.tostring(light, encoding="UTF-8"), ignored=ERRORS_OF_A_TEXT * len(long))
        for each, text in long:
            each.text = text
        if long:
            with self._mutex:  # the schema object stores the errors of the last document that it validated
                try:
                    self._schema.assertValid(light)
                except etree.DocumentInvalid as error:
                    raise PayloadError(str(error)[:500]) from error
        return root

    # --- publishing ----------------------------------------------------------------------------------------------

    @property
    def has_policy(self) -> bool:
        """Whether the WSDL has a policy of its own."""
        return any(True for namespace in POLICIES for _ in self._all(namespace))

    @property
    def mentions_security(self) -> bool:
        """Whether the WSDL has assertions of WS-SecurityPolicy."""
        return any(True for namespace in SECURITY for _ in self._all(namespace))

    def _all(self, namespace: str) -> Iterator[etree._Element]:
        """The elements of a namespace, in all documents."""
        for each in self._files.documents:
            yield from each.root.iter(f"{{{namespace}}}*")

    def published(
        self, address: str, policy: etree._Element | None = None, reference: etree._Element | None = None
    ) -> list[bytes]:
        """The documents of the WSDL, the WSDL itself first, with ``address`` at its ports.

        Its imports are at ``address?wsdl=n``, where n is the position in the list, and its schemas at
        ``address?xsd=n``.

        :param policy: is added to a WSDL that has none.
        :param reference: refers to it, and is added to each binding to SOAP.
        """
        roots = [copy.deepcopy(each.root) for each in self._files.documents]
        schemas = iter(self.schemas.published(address))
        for root in roots:
            for each in root.iterchildren(clark(WSDL, "import")):
                number = each.get("location", "").strip()
                if number:
                    each.set("location", f"{address}?wsdl={number}" if number != "0" else f"{address}?wsdl")
            for old in inside(root):
                parent = old.getparent()
                assert parent is not None
                parent.replace(old, next(schemas))
            if policy is not None and reference is not None and not self.has_policy:
                _add_policy(root, policy, reference)
        return [with_address(root, address) for root in roots]

    # --- reading -------------------------------------------------------------------------------------------------

    def _bound(self, what: str, wanted: str | None) -> tuple[etree._Element, etree._Element]:
        """The service that has the wanted port, and the port's binding."""
        for document in self._files.documents:
            for service in document.children("service"):
                for port in service.iterchildren(clark(WSDL, "port")):
                    found = self._files.named("binding", port, "binding")
                    if found is not None and _is_soap(found[1]) and wanted in (None, port.get("name")):
                        return service, found[1]
        raise ConfigurationError(f"{what} has no port {wanted!r}" if wanted else f"{what} has no port bound to SOAP")

    def _operations(self, binding: etree._Element) -> Iterator[WsdlOperation]:
        document, port_type = self._named("portType", binding, "type")
        actions = {each.get("name", ""): _soap_action(each) for each in binding.iterchildren(clark(WSDL, "operation"))}
        for operation in port_type.iterchildren(clark(WSDL, "operation")):
            name = operation.get("name", "")
            request, response = _first(operation, WSDL, "input"), _first(operation, WSDL, "output")
            if name not in actions or request is None:
                continue
            element = self._element(request, name)
            default = _default_action(document, port_type, request, name)
            yield WsdlOperation(
                name=name,
                element=element,
                action=_action(request) or actions[name] or default,
                response_element=None if response is None else self._element(response, name),
                response_action=None
                if response is None
                else _action(response) or _default_action(document, port_type, response, f"{name}Response"),
            )

    def _named(self, kind: str, user: etree._Element, attribute: str) -> tuple[WsdlFile, etree._Element]:
        found = self._files.named(kind, user, attribute)
        if found is None:
            raise ConfigurationError(f"the WSDL has no {kind} {name_of(user, user.get(attribute, ''))}")
        return found

    def _element(self, way: etree._Element, operation: str) -> str:
        parts = list(self._named("message", way, "message")[1].iterchildren(clark(WSDL, "part")))
        if len(parts) != 1 or not parts[0].get("element"):
            raise ConfigurationError(
                f"operation {operation}: only document/literal with one element in each direction is supported"
            )
        return name_of(parts[0], parts[0].get("element", ""))


def _parser() -> etree.XMLParser:
    return closed_parser(remove_comments=True, remove_pis=True)


def _refuse_invalid(schema: etree.XMLSchema, xml: bytes, ignored: int = 0) -> None:
    """Validate a well-formed document while it is parsed, and stop after the part with the first error.

    Validation of a whole document would take a time that grows with the square of the number of errors, because lxml
    computes the path of the element of each error.

    :param ignored: the number of errors that are ignored.
    :raises PayloadError: the document has more errors.
    """
    parser, seen = closed_parser(schema=schema), 0

    def check_errors() -> None:
        nonlocal seen, ignored
        found = parser.feed_error_log
        for number in range(seen, len(found)):
            if found[number].domain in _OF_SCHEMAS:
                ignored -= 1
                if ignored < 0:
                    raise PayloadError(found[number].message[:500])
        seen = len(found)

    for start in range(0, len(xml), AT_ONCE):
        parser.feed(xml[start : start + AT_ONCE])
        check_errors()
    with contextlib.suppress(etree.XMLSyntaxError):  # the errors are in the log
        parser.close()
    check_errors()


def _lighten(root: etree._Element) -> list[tuple[etree._Element, str]]:
    """Remove the texts that libxml2 would join piece by piece, in a time that grows with the square of their length.

    A text between elements is replaced by "x", or removed if it is white space: validation needs no more of it.

    :returns: the elements without child elements whose text is removed, with their texts.
    """
    long = []
    for each in root.iter():
        if len(each):
            each.text = _shortened(each.text)
            for child in each:
                child.tail = _shortened(child.tail)
        elif each.text is not None and len(each.text) > LONG and _ESCAPED.search(each.text) is not None:
            long.append((each, each.text))
            each.text = None
    return long


def _shortened(text: str | None) -> str | None:
    return "x" if text is not None and text.strip(" \t\r\n") else None


def _first(element: etree._Element, namespace: str, local: str) -> etree._Element | None:
    return next(element.iterchildren(clark(namespace, local)), None)


def _is_soap(binding: etree._Element) -> bool:
    return any(_first(binding, ns, "binding") is not None for ns in SOAP_BINDINGS)


def _default_action(document: WsdlFile, port_type: etree._Element, way: etree._Element, name: str) -> str:
    """The action of a message for which the WSDL names none (WS-Addressing metadata, section 4.4.4)."""
    colon = ":" if document.namespace.startswith("urn:") else "/"
    base = document.namespace.removesuffix(colon)
    default = name if name.endswith("Response") else f"{name}Request"
    return colon.join((base, port_type.get("name", ""), way.get("name") or default))


def _action(way: etree._Element) -> str:
    return way.get(clark(WSAM, "Action")) or way.get(clark(WSAW, "Action")) or ""


def _soap_action(operation: etree._Element) -> str:
    found = (_first(operation, ns, "operation") for ns in SOAP_BINDINGS)
    return next((each.get("soapAction", "") for each in found if each is not None), "")


def _add_policy(root: etree._Element, policy: etree._Element, reference: etree._Element) -> None:
    """Add a policy to a document, with a reference from each binding to SOAP."""
    bindings = [binding for binding in root.iterchildren(clark(WSDL, "binding")) if _is_soap(binding)]
    for binding in bindings:
        binding.insert(0, copy.deepcopy(reference))
    if bindings:
        root.insert(0, copy.deepcopy(policy))  # a reference finds what is in its own document
