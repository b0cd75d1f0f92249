"""References to X.509 tokens in a Security header (X.509 Token Profile 1.1, section 3.2)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID
from lxml import etree

from mercury.security.certificates import OwnKey, der, read_certificate
from mercury.security.message import Rejected, SoapTree
from mercury.security.names import (
    BASE64,
    BINARY_TOKEN,
    DS,
    KEY_IDENTIFIER,
    REFERENCE,
    SUBJECT_KEY_IDENTIFIER,
    THUMBPRINT,
    TOKEN_REFERENCE,
    WSU_ID,
    X509V3,
)
from mercury.statemachine.bounds import INDEXED_BYTES
from mercury.wire.ns import clark

#: Characters of the longest token that is decoded: it is read before anything is known of its sender.
MOST_TOKEN = 64 * 1024

_QUOTED, _SPECIAL, _SPACE = re.compile(r'="([^"\\]*)"'), re.compile(r'[,+;<>="\\]'), re.compile(r"(?<!\\),\s+")
_HEXADECIMAL = re.compile("=#((?:[0-9A-Fa-f]{2}){2,})")


def write_token(own: OwnKey, identifier: str) -> etree._Element:
    """The certificate of this side as a BinarySecurityToken."""
    token = etree.Element(BINARY_TOKEN, {WSU_ID: identifier, "EncodingType": BASE64, "ValueType": X509V3})
    token.text = base64.b64encode(der(own.certificate)).decode()
    return token


def write_thumbprint(certificate: x509.Certificate) -> etree._Element:
    """A SecurityTokenReference to a certificate that is not in the message."""
    reference = etree.Element(TOKEN_REFERENCE)
    found = etree.SubElement(reference, KEY_IDENTIFIER, EncodingType=BASE64, ValueType=THUMBPRINT)
    found.text = base64.b64encode(_thumbprint(certificate)).decode()
    return reference


def only_child(element: etree._Element, name: str) -> etree._Element:
    """The one child of an element, which must have this name.

    :raises Rejected: the element has another content.
    """
    children = [child for child in element if isinstance(child.tag, str)]
    if len(children) != 1 or children[0].tag != name:
        raise Rejected(f"{element.tag} must have one child, {name}")
    return children[0]


def find_certificate(
    tree: SoapTree, security: etree._Element, reference: etree._Element, known: Sequence[x509.Certificate]
) -> x509.Certificate:
    """The certificate that a SecurityTokenReference stands for.

    :param known: the certificates that may be referred to without being in the message.
    :raises Rejected: the reference is of a kind that is not supported, or leads nowhere.
    """
    children = [child for child in reference if isinstance(child.tag, str)]
    if len(children) != 1:
        raise Rejected("a SecurityTokenReference must have one child")
    kind = children[0]
    if kind.tag == REFERENCE:
        return _in_message(referred(tree, security, reference, BINARY_TOKEN))
    for certificate in _named(kind, known):
        return certificate
    raise Rejected("a SecurityTokenReference names no certificate that is known here")


def referred(tree: SoapTree, security: etree._Element, reference: etree._Element, name: str) -> etree._Element:
    """The token in the Security header that a SecurityTokenReference names.

    :raises Rejected: it names something else.
    """
    uri = only_child(reference, REFERENCE).get("URI", "")
    if not uri.startswith("#"):
        raise Rejected("a reference to a token leads outside the message")
    token = tree.by_id(uri[1:])
    if token.tag != name or token.getparent() is not security:
        raise Rejected("a reference to a token does not lead to one in the Security header")
    return token


def _in_message(token: etree._Element) -> x509.Certificate:
    if token.get("ValueType") != X509V3 or token.get("EncodingType", BASE64) != BASE64 or len(token):
        raise Rejected("a BinarySecurityToken is not an X.509 certificate in base64")
    return read_certificate(_decoded(token))


def _named(kind: etree._Element, known: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The certificates that a KeyIdentifier or an issuer with a serial number is that of. What the peer has written is
    read once, whatever the number of certificates.
    """
    if kind.tag == KEY_IDENTIFIER:
        value = _decoded(kind)
        if kind.get("ValueType") == THUMBPRINT:
            return [each for each in known if _thumbprint(each) == value]
        is_key = kind.get("ValueType") == SUBJECT_KEY_IDENTIFIER
        return [each for each in known if is_key and _key_identifier(each) == value]
    if kind.tag == clark(DS, "X509Data"):
        both = only_child(kind, clark(DS, "X509IssuerSerial"))
        serial = (both.findtext(clark(DS, "X509SerialNumber")) or "").strip()
        numbered = [each for each in known if str(each.serial_number) == serial]
        if numbered:  # only then the name is worth its parsing
            issuer = distinguished_name((both.findtext(clark(DS, "X509IssuerName")) or "").strip())
            return [each for each in numbered if each.issuer.rfc4514_string() == issuer]
    return []


def distinguished_name(text: str) -> str | None:
    """A name as RFC 4514 writes it; ``None`` = it is none, or too long for one. Java also writes spaces after commas,
    quotes, names of attributes that the RFC does not list, and values in hexadecimal DER.
    """
    if len(text) > INDEXED_BYTES:  # the parser of `cryptography` is slow, and a peer that is not known has written it
        return None
    plain = _HEXADECIMAL.sub(_of_der, _QUOTED.sub(lambda found: "=" + _escaped(found[1]), text))
    others = {"EMAILADDRESS": NameOID.EMAIL_ADDRESS, "E": NameOID.EMAIL_ADDRESS}
    try:
        return x509.Name.from_rfc4514_string(_SPACE.sub(",", plain), others).rfc4514_string()
    except ValueError:
        return None


def _escaped(value: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", value)


def _of_der(found: re.Match[str]) -> str:
    """A value in hexadecimal DER as text, if it is a short UTF8String, PrintableString or IA5String."""
    kind, length, *value = bytes.fromhex(found[1])
    if kind not in (0x0C, 0x13, 0x16) or length != len(value) or length > 127:
        return found[0]
    return "=" + _escaped(bytes(value).decode(errors="replace"))


def _key_identifier(certificate: x509.Certificate) -> bytes | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except (x509.ExtensionNotFound, ValueError):
        return None


def _thumbprint(certificate: x509.Certificate) -> bytes:
    """The profile prescribes SHA-1. It only finds a certificate that is known here, and proves nothing."""
    return hashlib.sha1(der(certificate), usedforsecurity=False).digest()


def _decoded(element: etree._Element) -> bytes:
    text = element.text or ""
    if len(text) > MOST_TOKEN:
        raise Rejected(f"a token is longer than {MOST_TOKEN} characters")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Rejected("a token is not base64") from error
