"""The XML of a message while its Security header is written or checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lxml import etree

from mercury.security.names import REFERENCE, SECURITY, TOKEN_REFERENCE, WSSE
from mercury.statemachine.protocol import SoapVersion
from mercury.wire import ns
from mercury.wire.envelope import HttpMessage
from mercury.wire.media import read_content_type, to_utf8
from mercury.wire.ns import SOAP_VERSION, clark
from mercury.wire.scan import Limits, Scanner, refused
from mercury.wire.values import collapse
from mercury.wire.xml_parser import closed_parser
from mercury.wire.xop import unpack

#: Header blocks for these roles are for this node; "" = the attribute is absent (FLT-15).
_ROLES = frozenset(
    {
        "",
        "http://schemas.xmlsoap.org/soap/actor/next",
        ns.SOAP12 + "/role/next",
        ns.SOAP12 + "/role/ultimateReceiver",
    }
)
CREATE_SEQUENCES = frozenset(clark(uri, "CreateSequence") for uri in ns.RM_VERSION)
USES_SEQUENCE_STR = clark(ns.RM11, "UsesSequenceSTR")
#: The names of attributes, without their namespaces, whose value identifies an element for a signature.
_ID_NAMES = frozenset({"Id", "ID", "id"})


class Rejected(Exception):
    """The security of a message is not accepted. The text is for the log: the fault has no reason (SEC-06)."""


class SoapTree:
    """A SOAP message as a tree. It must be made and used in a thread of its own: see `in_own_thread`.

    :param data: an envelope in UTF-8.
    :param limits: the limits of the message, which are checked before the tree is made.
    :raises MessageRefused: the message is not well-formed, exceeds a limit, or is not a SOAP envelope.
    """

    def __init__(self, data: bytes, limits: Limits) -> None:
        root = Scanner(data, limits, levels=1).run()
        version = SOAP_VERSION.get(root.namespace)
        if version is None or root.local != "Envelope":
            raise refused("not a SOAP envelope")
        self.soap: SoapVersion = version
        self.uri = root.namespace
        self.root = parsed(data)
        header, body = self.root.find(clark(self.uri, "Header")), self.root.find(clark(self.uri, "Body"))
        if body is None or children(self.root) != [each for each in (header, body) if each is not None]:
            raise refused("an Envelope has at most one Header, then one Body, and nothing else")
        if header is None:
            header = etree.Element(clark(self.uri, "Header"))
            self.root.insert(0, header)
        self.header = header
        self.body = body

    @property
    def content(self) -> etree._Element | None:
        """The element in the Body."""
        return next(self.body.iterchildren("*"), None)

    def is_for_this_node(self, block: etree._Element) -> bool:
        """Whether a header block is for this node."""
        name = "actor" if self.soap is SoapVersion.SOAP11 else "role"
        return collapse(block.get(clark(self.uri, name), "")) in _ROLES

    def must_understand(self, block: etree._Element) -> bool:
        return collapse(block.get(clark(self.uri, "mustUnderstand"), "")) in ("1", "true")

    def security(self) -> etree._Element | None:
        """The Security header for this node; ``None`` = there is none. Those for other nodes are removed.

        :raises Rejected: there are several.
        """
        found = None
        for block in self.header.findall(SECURITY):
            if not self.is_for_this_node(block):
                self.header.remove(block)
            elif found is not None:
                raise Rejected("there is more than one Security header")
            else:
                found = block
        return found

    def by_id(self, identifier: str) -> etree._Element:
        """The element with an identifier.

        :raises Rejected: no element has it, or several have it, in whatever attribute.
        """
        return self.by_ids((identifier,))[0]

    def by_ids(self, identifiers: Sequence[str]) -> list[etree._Element]:
        """The elements with these identifiers, in their order, found in one pass over the message.

        :raises Rejected: no element has one of them, or several have it, in whatever attribute.
        """
        found: dict[str, list[etree._Element]] = {identifier: [] for identifier in identifiers}
        for element in self.elements():
            for name, value in element.items():
                # An element may have its identifier in two attributes.
                if value in found and _local(name) in _ID_NAMES and element not in found[value][-1:]:
                    found[value].append(element)
        for each in found.values():
            if len(each) != 1:
                raise Rejected(f"{len(each)} elements have the identifier that is referred to")
        return [found[identifier][0] for identifier in identifiers]

    def elements(self) -> Iterator[etree._Element]:
        """All elements, without comments."""
        return self.root.iter("*")

    def reference_in_create_sequence(self) -> etree._Element | None:
        """The SecurityTokenReference of a CreateSequence (RM11-CS-16); ``None`` = there is none."""
        content = self.content
        if content is None or content.tag not in CREATE_SEQUENCES:
            return None
        references = content.findall(TOKEN_REFERENCE)
        if len(references) > 1:
            raise Rejected("CreateSequence has more than one SecurityTokenReference")
        return references[0] if references else None

    def written(self) -> bytes:
        return etree.tostring(self.root, encoding="utf-8")


def children(element: etree._Element) -> list[etree._Element]:
    """The elements in an element. A comment stands anywhere, and means nothing: the canonical XML that is signed has
    none."""
    return list(element.iterchildren("*"))


def in_memory(http: HttpMessage, limits: Limits) -> HttpMessage:
    """A message that is sent, with its attachments in memory: a signature needs all of it.

    :raises MessageRefused: it is too large for that.
    """
    if http.rest is not None and http.rest.size > limits.max_bytes:
        raise refused(f"with its attachments the message is larger than {limits.max_bytes} bytes")
    return http.whole()


def envelope_of(http: HttpMessage, limits: Limits) -> tuple[bytes, HttpMessage]:
    """The envelope of a message in UTF-8, without MTOM; and the message with it, whose Content-Type says so: what is
    decoded next must not convert it again.

    :raises MessageRefused: the media type, the encoding or the package is none that can be read.
    """
    kind = read_content_type(http.content_type)
    if len(http.body) > limits.max_bytes:
        raise refused(f"the message is larger than {limits.max_bytes} bytes")
    data = http.body
    if kind.package is not None:
        unpacked = unpack(data, kind, kind.package, limits)
        data, kind = unpacked.envelope, unpacked.kind
    data = to_utf8(data, kind.charset)
    return data, HttpMessage(data, plain_type(kind.soap, kind.action), http.soap_action, http.status)


def plain_type(soap: SoapVersion | None, action: str) -> str:
    """The Content-Type of an envelope in UTF-8."""
    media = "application/soap+xml" if soap is SoapVersion.SOAP12 else "text/xml"
    quoted = action.replace("\\", "\\\\").replace('"', '\\"')
    return f"{media}; charset=utf-8" + (f'; action="{quoted}"' if action else "")


def parsed(data: bytes) -> etree._Element:
    """The root of a document that `Scanner` has read."""
    declared = data.find(b"?>") + 2 if data.startswith(b"<?xml") else 0  # it may name another encoding than UTF-8
    return etree.fromstring(data[declared:].strip(), closed_parser(huge_tree=True))


def _local(name: str | bytes) -> str:
    return str(name).rpartition("}")[2]


def write_reference(identifier: str, value_type: str) -> etree._Element:
    """A SecurityTokenReference to a token of the same message."""
    reference = etree.Element(TOKEN_REFERENCE, nsmap={"wsse": WSSE})
    etree.SubElement(reference, REFERENCE, URI=f"#{identifier}", ValueType=value_type)
    return reference
