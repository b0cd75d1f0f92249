"""A WSDL 1.1 from which a service is made: its operations, and the schema of their bodies.

Document/literal with one element each way, as every toolkit of today writes it. What a schema imports or includes is
read from files below the folder of the WSDL, and from nowhere else.
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
from mercury.wsdl.document import name_of, parse
from mercury.wsdl.names import POLICIES, SOAP_BINDINGS, WSAM, WSAW, WSDL
from mercury.wsdl.schema_files import SCHEMA, SchemaFiles, read_file
from mercury.wsdl.write import with_address

#: Bytes that are parsed and validated at a time; other threads run meanwhile.
AT_ONCE = 64 * 1024
#: Bytes times pieces of text: up to so many are put together in less than half a second.
DIRECT = 2 * 10**10
#: A text of more characters, with some that are escaped, is left out at first; it can have so many errors.
LONG, ERRORS_OF_A_TEXT = 16 * 1024, 8
_ESCAPED = re.compile("[&<>\r]")
_OF_SCHEMAS = (etree.ErrorDomains.SCHEMASP, etree.ErrorDomains.SCHEMASV)


@dataclass(frozen=True, slots=True, kw_only=True)
class WsdlOperation:
    """One operation of a port type. Elements are in Clark notation."""

    name: str
    element: str
    action: str
    #: ``None`` = one-way.
    response_element: str | None
    response_action: str | None


class WsdlContract:
    """What a WSDL says of one service.

    :param source: the file, or the document itself.
    :param port: the port whose operations are meant; left out, the first one that is bound to SOAP.
    :raises ConfigurationError: it cannot be read, imports another WSDL or what is not below its folder, has no such
        port, an operation that is not document/literal with one element each way, or a schema that is none.
    """

    def __init__(self, source: str | Path | bytes, port: str | None = None) -> None:
        if isinstance(source, bytes):
            self.root, folder, what = parse(source, "the WSDL"), None, "the WSDL"
        else:
            what = str(source)
            self.root, folder = parse(read_file(Path(source), what), what), Path(source).parent
        if self.root.tag != clark(WSDL, "definitions"):
            raise ConfigurationError(f"{what}: {self.root.tag} is no WSDL 1.1")
        if next(self.root.iterchildren(clark(WSDL, "import")), None) is not None:
            raise ConfigurationError(f"{what} imports another WSDL: give one that is whole (of .NET: ?singleWsdl)")
        self._target = self.root.get("targetNamespace", "")
        service, binding = self._bound(what, port)
        self.name = service.get("name", "")
        self.operations = {each.name: each for each in self._operations(binding)}
        #: The schemas that the WSDL contains and imports, each with its locations rewritten: see `SchemaFiles`.
        self.schemas = SchemaFiles(self.root, folder)
        self._schema = self.schemas.compiled()
        self._mutex = threading.Lock()

    @property
    def namespace(self) -> str:
        """That of the elements of its operations, or else of the WSDL."""
        return next((namespace_of(each.element) for each in self.operations.values()), self._target)

    def check(self, xml: bytes, element: str) -> etree._Element:
        """A body, which has to be this element and valid by its schema.

        One that is not valid costs no more than one that is.

        :raises PayloadError: it is not; the text says why.
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
        # Each text that is left out may be in error, or its absence may.
        _refuse_invalid(self._schema, etree.tostring(light, encoding="UTF-8"), doubtful=ERRORS_OF_A_TEXT * len(long))
        for each, text in long:
            each.text = text
        if long:
            with self._mutex:  # the schema keeps the errors of its last document: of the long texts at most
                try:
                    self._schema.assertValid(light)
                except etree.DocumentInvalid as error:
                    raise PayloadError(str(error)[:500]) from error
        return root

    # --- publishing ----------------------------------------------------------------------------------------------

    def add_policy(self, policy: etree._Element, reference: etree._Element) -> None:
        """Ask for reliability where the WSDL has no policy of its own."""
        if any(True for namespace in POLICIES for _ in self.root.iter(f"{{{namespace}}}*")):
            return
        self.root.insert(0, policy)
        for binding in self._children("binding"):
            if any(_first(binding, ns, "binding") is not None for ns in SOAP_BINDINGS):
                binding.insert(0, copy.deepcopy(reference))

    def published(self, address: str) -> bytes:
        """The WSDL with this address at its ports, and locations of schemas below it."""
        root = copy.deepcopy(self.root)
        inside = [each for types in root.iterchildren(clark(WSDL, "types")) for each in types.iterchildren(SCHEMA)]
        for old, new in zip(inside, self.schemas.published(address), strict=False):
            parent = old.getparent()
            assert parent is not None
            parent.replace(old, new)
        return with_address(root, address)

    # --- reading -------------------------------------------------------------------------------------------------

    def _bound(self, what: str, wanted: str | None) -> tuple[etree._Element, etree._Element]:
        """The service and the binding of the port."""
        bindings = {clark(self._target, each.get("name", "")): each for each in self._children("binding")}
        for service in self._children("service"):
            for port in service.iterchildren(clark(WSDL, "port")):
                binding = bindings.get(name_of(port, port.get("binding", "")))
                soap = binding is not None and any(_first(binding, ns, "binding") is not None for ns in SOAP_BINDINGS)
                if binding is not None and soap and wanted in (None, port.get("name")):
                    return service, binding
        raise ConfigurationError(f"{what} has no port {wanted!r}" if wanted else f"{what} has no port bound to SOAP")

    def _children(self, kind: str) -> Iterator[etree._Element]:
        return self.root.iterchildren(clark(WSDL, kind))

    def _operations(self, binding: etree._Element) -> Iterator[WsdlOperation]:
        port_type = self._named("portType", binding, "type")
        actions = {each.get("name", ""): _soap_action(each) for each in binding.iterchildren(clark(WSDL, "operation"))}
        for operation in port_type.iterchildren(clark(WSDL, "operation")):
            name = operation.get("name", "")
            asked, answered = _first(operation, WSDL, "input"), _first(operation, WSDL, "output")
            if name not in actions or asked is None:
                continue
            element = self._element(asked, name)
            default = self._default_action(port_type, asked, name)
            yield WsdlOperation(
                name=name,
                element=element,
                action=_action(asked) or actions[name] or default,
                response_element=None if answered is None else self._element(answered, name),
                response_action=None
                if answered is None
                else _action(answered) or self._default_action(port_type, answered, f"{name}Response"),
            )

    def _default_action(self, port_type: etree._Element, way: etree._Element, name: str) -> str:
        """WS-Addressing metadata, section 4.4.4."""
        colon = ":" if self._target.startswith("urn:") else "/"
        base = self._target.removesuffix(colon)
        default = name if name.endswith("Response") else f"{name}Request"
        return colon.join((base, port_type.get("name", ""), way.get("name") or default))

    def _named(self, kind: str, user: etree._Element, attribute: str) -> etree._Element:
        wanted = name_of(user, user.get(attribute, ""))
        for each in self._children(kind):
            if clark(self._target, each.get("name", "")) == wanted:
                return each
        raise ConfigurationError(f"the WSDL has no {kind} {wanted}")

    def _element(self, way: etree._Element, operation: str) -> str:
        parts = list(self._named("message", way, "message").iterchildren(clark(WSDL, "part")))
        if len(parts) != 1 or not parts[0].get("element"):
            raise ConfigurationError(
                f"operation {operation}: only document/literal with one element each way is served"
            )
        return name_of(parts[0], parts[0].get("element", ""))


def _parser() -> etree.XMLParser:
    return closed_parser(remove_comments=True, remove_pis=True)


def _refuse_invalid(schema: etree.XMLSchema, xml: bytes, doubtful: int = 0) -> None:
    """Validate a well-formed document while it is parsed, and no further than to the part with the first error.

    Of a whole document lxml keeps each error with the path of its element, in a time that grows with their square.

    :param doubtful: so many errors say nothing.
    """
    parser, seen = closed_parser(schema=schema), 0

    def look() -> None:
        nonlocal seen, doubtful
        found = parser.feed_error_log
        for number in range(seen, len(found)):
            if found[number].domain in _OF_SCHEMAS:
                doubtful -= 1
                if doubtful < 0:
                    raise PayloadError(found[number].message[:500])
        seen = len(found)

    for start in range(0, len(xml), AT_ONCE):
        parser.feed(xml[start : start + AT_ONCE])
        look()
    with contextlib.suppress(etree.XMLSyntaxError):  # the errors are in the log
        parser.close()
    look()


def _lighten(root: etree._Element) -> list[tuple[etree._Element, str]]:
    """Leave out text that libxml2 would put together piece by piece, in a time that grows with its square.

    What stands between elements is white space or not, and no more is asked about it.

    :returns: the elements without others in them whose text is left out, with their texts.
    """
    long = []
    for each in root.iter():
        if len(each):
            each.text = _mark(each.text)
            for child in each:
                child.tail = _mark(child.tail)
        elif each.text is not None and len(each.text) > LONG and _ESCAPED.search(each.text) is not None:
            long.append((each, each.text))
            each.text = None
    return long


def _mark(text: str | None) -> str | None:
    return "x" if text is not None and text.strip(" \t\r\n") else None


def _first(element: etree._Element, namespace: str, local: str) -> etree._Element | None:
    return next(element.iterchildren(clark(namespace, local)), None)


def _action(way: etree._Element) -> str:
    return way.get(clark(WSAM, "Action")) or way.get(clark(WSAW, "Action")) or ""


def _soap_action(operation: etree._Element) -> str:
    found = (_first(operation, ns, "operation") for ns in SOAP_BINDINGS)
    return next((each.get("soapAction", "") for each in found if each is not None), "")
