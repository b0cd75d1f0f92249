"""Converts zeep's envelopes to messages, and responses to envelopes that zeep reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lxml import etree

from mercury.errors import ApplicationFault, ConfigurationError, PayloadError
from mercury.statemachine.protocol import SoapVersion
from mercury.wire import ns
from mercury.wire.application_fault import write_application_fault
from mercury.wire.cut import free_prefix, searchable
from mercury.wire.media import read_content_type
from mercury.wire.ns import SOAP_NS, SOAP_VERSION, clark
from mercury.wire.payload import check_payload
from mercury.wire.scan import MessageRefused

#: Mercury writes the header blocks of these namespaces.
OURS = frozenset({*ns.WSA_VERSION, *ns.RM_VERSION, ns.MC})
_WSSE = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
#: Signatures and encryption, which are valid for one envelope only.
_SIGNATURES = frozenset({"http://www.w3.org/2000/09/xmldsig#", "http://www.w3.org/2001/04/xmlenc#"})
_CONTENT_TYPES: Mapping[SoapVersion, str] = MappingProxyType(
    {
        SoapVersion.SOAP11: "text/xml; charset=utf-8",
        SoapVersion.SOAP12: "application/soap+xml; charset=utf-8",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """The contents of an envelope that zeep has made."""

    soap: SoapVersion
    #: The SOAPAction header, or the action parameter of SOAP 1.2; empty = neither.
    soap_action: str
    #: The element in the Body, in Clark notation; empty for an empty Body.
    element: str
    #: wsa:Action and wsa:To; ``None`` = missing.
    action: str | None
    to: str | None
    #: ``None`` for an empty Body.
    body: bytes | None
    #: The application's header blocks, each standalone XML.
    headers: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The attributes of an HTTP response that zeep reads."""

    status_code: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    encoding: str = "utf-8"

    @property
    def text(self) -> str:
        return self.content.decode(self.encoding)


def read_envelope(envelope: etree._Element, headers: Mapping[str, str]) -> Outbound:
    """Read an envelope of zeep. Of several wsa:Action or wsa:To the last one counts: a plugin has added it.

    :raises ConfigurationError: it is not an envelope; or it is signed or encrypted, which is valid for one envelope
        only, while every transmission is a new one.
    """
    name = etree.QName(envelope)
    soap = SOAP_VERSION.get(name.namespace or "")
    if soap is None or name.localname != "Envelope":
        raise ConfigurationError(f"not a SOAP envelope: {envelope.tag}")
    uri = SOAP_NS[soap]
    header, body = envelope.find(clark(uri, "Header")), envelope.find(clark(uri, "Body"))
    if body is None:
        raise ConfigurationError("the envelope has no Body")
    blocks = [] if header is None else [block for block in header if isinstance(block.tag, str)]
    _refuse_signed(body, blocks)
    content = [each for each in body if isinstance(each.tag, str)]
    if len(content) > 1:
        raise ConfigurationError("the Body has more than one element, which WS-I and Mercury do not allow")
    addressing = {
        (block.tag, uri): (block.text or "").strip() for block in blocks for uri in ns.WSA_VERSION if _in(block, uri)
    }
    addresses = {tag.rpartition("}")[2]: text for (tag, _), text in addressing.items()}
    return Outbound(
        soap=soap,
        soap_action=_soap_action(headers),
        element=content[0].tag if content else "",
        action=addresses.get("Action") or None,
        to=addresses.get("To") or None,
        body=_standalone(content[0]) if content else None,
        headers=tuple(_standalone(block) for block in blocks if not any(_in(block, uri) for uri in OURS)),
    )


def reply(soap: SoapVersion, body: bytes, headers: Iterable[bytes] = ()) -> Reply:
    """A response as the envelope that zeep reads.

    :param body: the element of the Body; empty for an empty Body.
    """
    return Reply(
        status_code=200,
        headers={"Content-Type": _CONTENT_TYPES[soap]},
        content=_envelope(soap, body, tuple(headers)),
    )


def fault_reply(soap: SoapVersion, fault: ApplicationFault) -> Reply:
    """A fault as the envelope from which zeep raises its ``Fault``, with the received element if its version fits."""
    element = fault.element
    if not element or check_payload(element).name != clark(SOAP_NS[soap], "Fault"):
        element = write_application_fault(soap, fault)
    return Reply(status_code=500, headers={"Content-Type": _CONTENT_TYPES[soap]}, content=_envelope(soap, element, ()))


def _envelope(soap: SoapVersion, body: bytes, headers: tuple[bytes, ...]) -> bytes:
    s = free_prefix("s", [searchable(part) for part in (*headers, body)])
    head = b"".join(headers).decode()
    return (
        f'<{s}:Envelope xmlns:{s}="{SOAP_NS[soap]}"><{s}:Header>{head}</{s}:Header>'
        f"<{s}:Body>{body.decode()}</{s}:Body></{s}:Envelope>"
    ).encode()


def _in(block: etree._Element, namespace: str) -> bool:
    return etree.QName(block).namespace == namespace


def _standalone(element: etree._Element) -> bytes:
    return etree.tostring(element, encoding="utf-8", xml_declaration=False, with_tail=False)


def _soap_action(headers: Mapping[str, str]) -> str:
    given = {name.lower(): value for name, value in headers.items()}
    quoted = given.get("soapaction", "").strip().strip('"')
    if quoted:
        return quoted
    try:
        return read_content_type(given.get("content-type", "")).action
    except MessageRefused as error:
        raise PayloadError(f"the envelope's Content-Type is not one of SOAP: {error}") from error


def _refuse_signed(body: etree._Element, blocks: list[etree._Element]) -> None:
    security = [block for block in blocks if _in(block, _WSSE)]
    signed = any(_in(each, uri) for block in security for each in block.iter("{*}*") for uri in _SIGNATURES)
    if signed or body.attrib:
        raise ConfigurationError(
            "a signed or encrypted envelope cannot be sent reliably: each transmission is a new envelope. Use TLS, "
            "with a certificate if the peer must authenticate the sender: Mercury(peers={url: Peer(client_cert=...)})"
        )
