"""Encryption of the Body (XML Encryption 1.1): AES-GCM for the content, RSA-OAEP for the key.

Only authenticated encryption is written and read: with CBC or RSA 1.5 a peer could learn the content from the answers
to altered copies (SEC-08). The Body is signed before it is encrypted, so that an attacker cannot put another one there.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from types import MappingProxyType

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA384, SHA512, HashAlgorithm
from lxml import etree

from mercury.errors import ConfigurationError
from mercury.security.certificates import OwnKey, PrivateKey
from mercury.security.message import Rejected, SoapTree, children, parsed
from mercury.security.names import DS, TOKEN_REFERENCE, XENC, XENC11
from mercury.security.signature import only_child_of
from mercury.security.tokens import find_certificate, only_child, write_thumbprint
from mercury.wire.ns import clark
from mercury.wire.scan import Limits, MessageRefused, Scanner
from mercury.wire.values import escape_attribute

_DATA, _KEY = clark(XENC, "EncryptedData"), clark(XENC, "EncryptedKey")
_METHOD, _CIPHER, _VALUE = clark(XENC, "EncryptionMethod"), clark(XENC, "CipherData"), clark(XENC, "CipherValue")
_LIST, _REFERENCE = clark(XENC, "ReferenceList"), clark(XENC, "DataReference")
_KEY_INFO, _DIGEST, _MGF = clark(DS, "KeyInfo"), clark(DS, "DigestMethod"), clark(XENC11, "MGF")
_CONTENT = XENC + "Content"
_OAEP_11, _OAEP_10 = XENC11 + "rsa-oaep", XENC + "rsa-oaep-mgf1p"
_GCM = MappingProxyType({XENC11 + "aes128-gcm": 16, XENC11 + "aes192-gcm": 24, XENC11 + "aes256-gcm": 32})
_IV_BYTES, _TAG_BYTES = 12, 16
_HASHES: Mapping[str, type[HashAlgorithm]] = MappingProxyType(
    {
        # OAEP does not need the collision resistance that SHA-1 has lost.
        DS + "sha1": SHA1,
        XENC + "sha256": SHA256,
        "http://www.w3.org/2001/04/xmldsig-more#sha384": SHA384,
        XENC + "sha512": SHA512,
    }
)
_MASKS: Mapping[str, type[HashAlgorithm]] = MappingProxyType(
    {
        XENC11 + "mgf1sha1": SHA1,
        XENC11 + "mgf1sha256": SHA256,
        XENC11 + "mgf1sha384": SHA384,
        XENC11 + "mgf1sha512": SHA512,
    }
)
#: The one text of all errors: which step has failed would be of use to an attacker.
_WRONG = "the Body cannot be decrypted"


def rsa_key(certificate: x509.Certificate) -> rsa.RSAPublicKey | None:
    """The key that a message to the holder of a certificate is encrypted with; ``None`` = it is not an RSA key."""
    key = certificate.public_key()
    return key if isinstance(key, rsa.RSAPublicKey) else None


def encrypt(tree: SoapTree, security: etree._Element, certificate: x509.Certificate, identifier: str) -> None:
    """Encrypt the content of the Body, and put the key into the Security header.

    :param certificate: of the receiver.
    :param identifier: for the encrypted content.
    :raises ConfigurationError: the certificate is not for RSA.
    """
    public = rsa_key(certificate)
    if public is None:
        raise ConfigurationError("encrypt_for: the key of the certificate is not an RSA key")
    plain = b"".join(etree.tostring(child, encoding="utf-8") for child in tree.body)
    key, iv = secrets.token_bytes(32), secrets.token_bytes(_IV_BYTES)
    data = etree.Element(_DATA, {"Id": identifier, "Type": _CONTENT}, nsmap={"xenc": XENC})
    etree.SubElement(data, _METHOD, Algorithm=XENC11 + "aes256-gcm")
    _add_value(data, iv + AESGCM(key).encrypt(iv, plain, None))
    wrapped = etree.Element(_KEY, nsmap={"xenc": XENC, "ds": DS})
    method = etree.SubElement(wrapped, _METHOD, Algorithm=_OAEP_11)
    etree.SubElement(method, _DIGEST, Algorithm=XENC + "sha256")
    etree.SubElement(method, _MGF, Algorithm=XENC11 + "mgf1sha256", nsmap={"xenc11": XENC11})
    etree.SubElement(wrapped, _KEY_INFO).append(write_thumbprint(certificate))
    _add_value(wrapped, public.encrypt(key, OAEP(MGF1(SHA256()), SHA256(), None)))
    etree.SubElement(etree.SubElement(wrapped, _LIST), _REFERENCE, URI=f"#{identifier}")
    tree.body[:] = [data]
    tree.body.text = None
    security.insert(0, wrapped)


def _add_value(parent: etree._Element, value: bytes) -> None:
    etree.SubElement(etree.SubElement(parent, _CIPHER), _VALUE).text = base64.b64encode(value).decode()


def decrypt(tree: SoapTree, security: etree._Element, own: OwnKey | None, limits: Limits) -> bool:
    """Decrypt the content of the Body, if it is encrypted. Returns whether it was.

    :raises Rejected: it cannot be decrypted; the reason is always the same.
    """
    content = tree.content
    keys = security.findall(_KEY)
    if content is None or content.tag != _DATA:
        if keys or any(True for _ in tree.root.iter(_DATA)):
            raise Rejected("only the content of the Body may be encrypted")
        return False
    if own is None or len(keys) != 1 or len(list(tree.root.iter(_DATA, _KEY))) != 2 or len(children(tree.body)) != 1:
        raise Rejected(_WRONG)
    key, data = keys[0], content
    certificate = find_certificate(
        tree, security, only_child(only_child_of(key, _KEY_INFO), TOKEN_REFERENCE), [own.certificate]
    )
    references = [each.get("URI") for each in key.iter(_REFERENCE)]
    named = data.get("Id") is not None and references == ["#" + (data.get("Id") or "")]
    size = _GCM.get(only_child_of(data, _METHOD).get("Algorithm", ""))
    if certificate != own.certificate or not named or data.get("Type") != _CONTENT or size is None:
        raise Rejected(_WRONG)
    unwrapped = _unwrap(own.key, key, size)
    value = _value(data)
    try:
        plain = AESGCM(unwrapped).decrypt(value[:_IV_BYTES], value[_IV_BYTES:], None)
    except (InvalidTag, ValueError) as error:
        raise Rejected(_WRONG) from error
    _replace(tree, plain, limits)
    return True


def _unwrap(private: PrivateKey, key: etree._Element, size: int) -> bytes:
    """The key of the content. A wrong one becomes a random key: the content then fails like altered content."""
    method = only_child_of(key, _METHOD)
    algorithm = method.get("Algorithm")
    digest, mask = method.find(_DIGEST), method.find(_MGF)
    hashed = _HASHES.get(DS + "sha1" if digest is None else digest.get("Algorithm", ""))
    masked = _MASKS.get(XENC11 + "mgf1sha1" if mask is None else mask.get("Algorithm", ""))
    supported = algorithm == _OAEP_11 or (algorithm == _OAEP_10 and mask is None)
    if not isinstance(private, rsa.RSAPrivateKey) or not supported or hashed is None or masked is None:
        raise Rejected(_WRONG)
    other = secrets.token_bytes(size)
    try:
        unwrapped = private.decrypt(_value(key), OAEP(MGF1(masked()), hashed(), None))
    except ValueError:
        return other
    return unwrapped if len(unwrapped) == size else other


def _value(parent: etree._Element) -> bytes:
    text = only_child(only_child_of(parent, _CIPHER), _VALUE).text or ""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Rejected(_WRONG) from error


def _replace(tree: SoapTree, plain: bytes, limits: Limits) -> None:
    """Put decrypted content into the Body. Its prefixes are those that hold there."""
    declared = "".join(
        f' xmlns{":" + prefix if prefix else ""}="{escape_attribute(uri)}"' for prefix, uri in tree.body.nsmap.items()
    )
    document = b"<Body" + declared.encode() + b">" + plain + b"</Body>"
    try:
        Scanner(document, limits, levels=1).run()
        wrapper = parsed(document)
    except (MessageRefused, etree.XMLSyntaxError) as error:
        raise Rejected(_WRONG) from error
    texts = (wrapper.text, *(child.tail for child in wrapper))
    if any((text or "").strip() for text in texts) or len(children(wrapper)) > 1:
        raise Rejected(_WRONG)
    tree.body.text = wrapper.text
    tree.body[:] = list(wrapper)
