"""Writes messages with WS-Security that no honest signer writes: altered, or signed again by a key that is trusted."""

from __future__ import annotations

import base64
import copy
import hashlib
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from lxml import etree

from mercury.security.message import Rejected
from mercury.security.names import DS, SECURITY, WSU_ID
from mercury.security.party import Party
from mercury.security.settings import MessageSecurity
from mercury.wire import ns
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage
from mercury.wire.scan import DEFAULT_LIMITS
from mercury.wire.verified import Verified
from tests.keys import SHA256, Keys, PKCS1v15

NOW = 1_700_000_000.0
PLAIN = (
    f'<S:Envelope xmlns:S="{ns.SOAP12}" xmlns:wsa="{ns.WSA10}" xmlns:wsrm="{ns.RM11}"><S:Header>'
    "<wsa:To>http://server/services/shop</wsa:To><wsa:Action>urn:shop/Take</wsa:Action>"
    "<wsa:MessageID>urn:uuid:1</wsa:MessageID>"
    '<wsrm:Sequence S:mustUnderstand="1"><wsrm:Identifier>urn:s</wsrm:Identifier>'
    "<wsrm:MessageNumber>1</wsrm:MessageNumber></wsrm:Sequence></S:Header>"
    '<S:Body><a:Take xmlns:a="urn:shop" xmlns:k="urn:kinds" a:kind="k:gift">10 euros</a:Take></S:Body></S:Envelope>'
)
CREATE = (
    f'<S:Envelope xmlns:S="{ns.SOAP12}" xmlns:wsa="{ns.WSA10}" xmlns:wsrm="{ns.RM11}"><S:Header>'
    f"<wsa:To>http://server/services/shop</wsa:To><wsa:Action>{ns.RM11}/CreateSequence</wsa:Action>"
    "<wsa:MessageID>urn:uuid:1</wsa:MessageID></S:Header><S:Body><wsrm:CreateSequence>"
    f"<wsrm:AcksTo><wsa:Address>{ns.WSA10}/anonymous</wsa:Address></wsrm:AcksTo><wsrm:Expires>PT1H</wsrm:Expires>"
    "</wsrm:CreateSequence></S:Body></S:Envelope>"
)
TYPE = "application/soap+xml; charset=utf-8"
_RSA = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"


def http(text: str | bytes) -> HttpMessage:
    return HttpMessage(text.encode() if isinstance(text, str) else text, TYPE)


def party(**settings: Any) -> Party:
    return Party(MessageSecurity(**settings), lambda: uuid.uuid4().hex)


@dataclass
class Peers:
    """A client that signs as ``till``, and the service that trusts the authority of its certificate."""

    keys: Keys
    client: Party
    service: Party

    @classmethod
    def of(cls, keys: Keys, name: str = "till", **client: Any) -> Peers:
        trusted = keys.public("authority")
        return cls(
            keys,
            party(certificate=keys.file(name), **client),
            party(certificate=keys.file("shop"), trusted=trusted),
        )

    def sent(self, text: str = PLAIN) -> etree._Element:
        """An honest message as a tree."""
        return etree.fromstring(self.client.secure(http(text), NOW).body)

    def taken(self, root: etree._Element | bytes, now: float = NOW) -> tuple[Envelope, Verified]:
        """What the service takes of a message."""
        data = root if isinstance(root, bytes) else etree.tostring(root)
        opened, verified = self.service.check(http(data), DEFAULT_LIMITS, now)
        return decode(opened.body, opened.content_type), verified

    def reason(self, root: etree._Element | bytes, now: float = NOW) -> str:
        """Why the service refuses a message, as its log says."""
        with pytest.raises(Rejected) as refused:
            self.taken(root, now)
        return str(refused.value)

    def resigned(self, root: etree._Element, name: str = "till") -> etree._Element:
        """The message with the right digests and the right signature value for what its SignedInfo says."""
        info = one(root, "SignedInfo")
        for reference in info.findall(f"{{{DS}}}Reference"):
            uri = reference.get("URI", "")
            found = [element for element in root.iter("*") if uri[1:] in element.attrib.values()] if uri else [root]
            lists = [
                listed.get("PrefixList", "").split() for listed in reference.iter(f"{{{EXCLUSIVE}}}InclusiveNamespaces")
            ]
            if found:
                value = hashlib.sha256(canonical(found[0], lists[0] if lists else [])).digest()
                one(reference, "DigestValue").text = base64.b64encode(value).decode()
        kept = one(info, "CanonicalizationMethod").find(f"{{{EXCLUSIVE}}}InclusiveNamespaces")
        prefixes = kept.get("PrefixList", "").split() if kept is not None else []
        signature = self.keys.private[name].sign(canonical(info, prefixes), PKCS1v15(), SHA256())
        one(root, "SignatureValue").text = base64.b64encode(signature).decode()
        return root


def canonical(element: etree._Element, prefixes: list[str]) -> bytes:
    copied = etree.fromstring(etree.tostring(element, with_tail=False))
    return etree.tostring(
        copied, method="c14n", exclusive=True, with_comments=False, inclusive_ns_prefixes=prefixes or None
    )


def one(root: etree._Element, local: str) -> etree._Element:
    """The one element with a local name."""
    (found,) = (element for element in root.iter("*") if etree.QName(element).localname == local)
    return found


def header(root: etree._Element) -> etree._Element:
    return root.find(f"{{{ns.SOAP12}}}Header")  # type: ignore[return-value]


def body(root: etree._Element) -> etree._Element:
    return root.find(f"{{{ns.SOAP12}}}Body")  # type: ignore[return-value]


def security(root: etree._Element) -> etree._Element:
    return header(root).find(SECURITY)  # type: ignore[return-value]


def under_certificate(root: etree._Element, der: bytes) -> etree._Element:
    """The message with another certificate beside its own, to which KeyInfo refers: KeyInfo is not signed."""
    other = copy.deepcopy(one(root, "BinarySecurityToken"))
    other.set(WSU_ID, "other")
    other.text = base64.b64encode(der).decode()
    one(one(root, "KeyInfo"), "Reference").set("URI", "#other")
    security(root).append(other)
    return root


#: Where a peer may write a comment: in front of these strings of an envelope, at the last place of each.
COMMENTED = {
    "before the Header": "<S:Header>",
    "after the Header": "<S:Body>",
    "after the Body": "</S:Envelope>",
    "in the Header": "</S:Header>",
    "before the content": "<a:Take",
    "after the content": "</S:Body>",
}


def commented(place: str, text: str = PLAIN) -> str:
    """A message with a comment."""
    before, found, after = text.rpartition(COMMENTED[place])
    assert found
    return f"{before}<!-- c -->{found}{after}"


def evil_body(identifier: str | None = None) -> etree._Element:
    made = etree.fromstring(f'<S:Body xmlns:S="{ns.SOAP12}"><a:Take xmlns:a="urn:shop">1000000 euros</a:Take></S:Body>')
    if identifier is not None:
        made.set(WSU_ID, identifier)
    return made


def reference_to(root: etree._Element, element: etree._Element) -> etree._Element:
    """The ds:Reference of an element."""
    (found,) = (each for each in one(root, "SignedInfo") if each.get("URI") == f"#{element.get(WSU_ID)}")
    return found
