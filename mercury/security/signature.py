"""XML signatures with X.509 certificates: signxml makes and checks them, and this module limits what they may be.

A signature is accepted only in the form that signers of SOAP messages write: exclusive canonical XML of elements at
their places in the message, each found by an identifier that one element has. What the verifier returns as signed is
all that is used of the message (SEC-03).
"""

from __future__ import annotations

import binascii
import copy
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from lxml import etree
from signxml.algorithms import (
    CanonicalizationMethod,
    DigestAlgorithm,
    SignatureConstructionMethod,
    SignatureMethod,
)
from signxml.exceptions import SignXMLException
from signxml.signer import SignatureReference, XMLSigner
from signxml.verifier import SignatureConfiguration, XMLVerifier

from mercury.security.certificates import OwnKey, public_der
from mercury.security.message import Rejected, SoapTree
from mercury.security.names import DS, EXCLUSIVE_C14N, SECURITY, TOKEN_REFERENCE
from mercury.security.tokens import find_certificate, only_child
from mercury.wire.ns import clark
from mercury.wire.xml_parser import closed_parser

#: References of one signature: each costs a pass over the message.
MOST_REFERENCES = 32
#: Prefixes that one reference may keep (InclusiveNamespaces).
_MOST_PREFIXES = 64

_SIGNATURE, _KEY_INFO = clark(DS, "Signature"), clark(DS, "KeyInfo")
_SIGNED_INFO, _REFERENCE = clark(DS, "SignedInfo"), clark(DS, "Reference")
_CANONICALIZATION = clark(DS, "CanonicalizationMethod")
_TRANSFORMS, _TRANSFORM = clark(DS, "Transforms"), clark(DS, "Transform")
_INCLUSIVE = clark(EXCLUSIVE_C14N, "InclusiveNamespaces")

#: SEC-07: no SHA-1, no HMAC with a key that an attacker may know, no signature without a key.
_METHODS = frozenset(
    {
        SignatureMethod.RSA_SHA256,
        SignatureMethod.RSA_SHA384,
        SignatureMethod.RSA_SHA512,
        SignatureMethod.SHA256_RSA_MGF1,
        SignatureMethod.SHA384_RSA_MGF1,
        SignatureMethod.SHA512_RSA_MGF1,
        SignatureMethod.ECDSA_SHA256,
        SignatureMethod.ECDSA_SHA384,
        SignatureMethod.ECDSA_SHA512,
    }
)
_DIGESTS = frozenset({DigestAlgorithm.SHA256, DigestAlgorithm.SHA384, DigestAlgorithm.SHA512})
_METHOD_NAMES = frozenset(method.value for method in _METHODS)
_DIGEST_NAMES = frozenset(digest.value for digest in _DIGESTS)

_DECLARED_PREFIX = re.compile(rb"xmlns:([^\s=]+)\s*=")


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that is right."""

    certificate: x509.Certificate
    #: Of the signer.
    identity: str
    #: The signed elements at their places in the message, with the canonical XML that was signed.
    parts: Sequence[tuple[etree._Element, bytes]]
    #: The SHA-256 of what was signed, and of the key that signed it.
    digest: bytes


def sign(
    tree: SoapTree, own: OwnKey, parts: Sequence[tuple[str, Sequence[str]]], key_info: etree._Element
) -> etree._Element:
    """A signature of elements of a message.

    :param parts: the identifier of each element, and the prefixes that its content uses.
    :param key_info: the SecurityTokenReference to the certificate.
    """
    is_rsa = isinstance(own.key, rsa.RSAPrivateKey)
    signer = XMLSigner(
        SignatureConstructionMethod.detached,
        SignatureMethod.RSA_SHA256 if is_rsa else SignatureMethod.ECDSA_SHA256,
        DigestAlgorithm.SHA256,
        CanonicalizationMethod.EXCLUSIVE_XML_CANONICALIZATION_1_0,
    )
    info = etree.Element(_KEY_INFO, nsmap={"ds": DS})
    info.append(key_info)
    references = [
        SignatureReference(URI=f"#{identifier}", inclusive_ns_prefixes=list(prefixes)) for identifier, prefixes in parts
    ]
    return signer.sign(tree.root, key=own.key, reference_uri=references, key_info=info)


def prefixes_in(content: etree._Element | None) -> list[str]:
    """The prefixes that are declared in an element: exclusive canonical XML does not see where its text uses them."""
    if content is None:
        return []
    found = set(_DECLARED_PREFIX.findall(etree.tostring(content, encoding="utf-8")))
    return sorted(prefix.decode() for prefix in found)[:_MOST_PREFIXES]


def verify(
    tree: SoapTree,
    security: etree._Element,
    known: Sequence[x509.Certificate],
    identify: Callable[[x509.Certificate], str],
    now: float,
) -> Signed:
    """Check the one signature of a Security header.

    :param known: the certificates that it may refer to without having them.
    :param identify: returns the identity of a trusted certificate, and raises `Rejected` for others. It is called
        before the message is read further, so that only trusted signers can make this side compute digests.
    :raises Rejected: there is not exactly one signature, it is wrong, or it has a form that is not accepted.
    """
    signatures = security.findall(_SIGNATURE)
    if len(signatures) != 1:
        raise Rejected(f"there are {len(signatures)} signatures instead of one")
    signature = signatures[0]
    reference = only_child(only_child_of(signature, _KEY_INFO), TOKEN_REFERENCE)
    certificate = find_certificate(tree, security, reference, known)
    identity = identify(certificate)
    info = only_child_of(signature, _SIGNED_INFO)
    canonical = _canonical(info, _prefixes_of_info(info))
    elements = _referred(tree, info)
    try:
        results = _Verifier().verify(
            tree.root,
            x509_cert=certificate,
            expect_config=SignatureConfiguration(
                location=f"./{clark(tree.uri, 'Header')}/{SECURITY}/",
                expect_references=True,
                signature_methods=_METHODS,
                digest_algorithms=_DIGESTS,
                verification_time=datetime.fromtimestamp(now, UTC),
            ),
        )
    except (SignXMLException, etree.LxmlError, binascii.Error, ValueError, TypeError, KeyError) as error:
        raise Rejected(f"the signature is wrong: {type(error).__name__}: {error}") from error
    assert isinstance(results, list)  # `expect_references` is not a number
    signed = [result.signed_data for result in results]
    # The verifier has its own copy of the message: it must have found the elements that were found here.
    if signed != [_canonical(element, prefixes) for element, prefixes in elements]:
        raise Rejected("the signed elements are not those at their places in the message")
    parts = [(element, data) for (element, _), data in zip(elements, signed, strict=True)]
    # Not of the certificate: KeyInfo is not signed, and one certificate can be written in several ways without a key of
    # its authority, so a copy of the message would have another digest.
    digest = hashlib.sha256(canonical + public_der(certificate)).digest()
    return Signed(certificate, identity, parts, digest)


def only_child_of(parent: etree._Element, name: str) -> etree._Element:
    """The one child with this name.

    :raises Rejected: it is missing, or there are several.
    """
    found = parent.findall(name)
    if len(found) != 1:
        raise Rejected(f"{parent.tag} must have one {name}")
    return found[0]


class _Verifier(XMLVerifier):
    """The schema of XML Signature wants a declaration of what stands in CanonicalizationMethod, and has none of
    InclusiveNamespaces, which Metro and CXF write there: it is left out of what the schema sees.
    """

    def validate_schema(self, signature: etree._Element) -> None:
        seen = copy.deepcopy(signature)
        for method in seen.iter(_CANONICALIZATION):
            for listed in method.findall(_INCLUSIVE):
                method.remove(listed)
        super().validate_schema(seen)  # type: ignore[no-untyped-call]  # signxml has no types there


def _prefixes_of_info(info: etree._Element) -> list[str]:
    """The prefixes that the canonical form of SignedInfo keeps."""
    method = only_child_of(info, _CANONICALIZATION)
    if method.get("Algorithm") != EXCLUSIVE_C14N:
        raise Rejected("the signature is not over exclusive canonical XML")
    return _prefixes(method)


def _referred(tree: SoapTree, info: etree._Element) -> list[tuple[etree._Element, list[str]]]:
    """The elements that a signature names, each with the prefixes that are kept."""
    # The verifier checks the algorithms too, but its errors repeat the whole name that the peer has written.
    if only_child_of(info, clark(DS, "SignatureMethod")).get("Algorithm") not in _METHOD_NAMES:
        raise Rejected("the signature has an algorithm that is not accepted")
    references = info.findall(_REFERENCE)
    if not 0 < len(references) <= MOST_REFERENCES:
        raise Rejected(f"the signature has {len(references)} references; the limit is {MOST_REFERENCES}")
    named, prefixes = [], []
    for reference in references:
        uri = reference.get("URI", "")
        if not uri.startswith("#") or "(" in uri:
            raise Rejected("a reference of the signature leads outside the message")
        transform = only_child(only_child_of(reference, _TRANSFORMS), _TRANSFORM)
        if transform.get("Algorithm") != EXCLUSIVE_C14N:
            raise Rejected("a transform of the signature is not exclusive canonical XML")
        if only_child_of(reference, clark(DS, "DigestMethod")).get("Algorithm") not in _DIGEST_NAMES:
            raise Rejected("a digest of the signature has an algorithm that is not accepted")
        named.append(uri[1:])
        prefixes.append(_prefixes(transform))
    found = list(zip(tree.by_ids(named), prefixes, strict=True))
    # Metro refers to an element twice that two policies sign: both references must mean the same content.
    if any(one is other and kept != also for one, kept in found for other, also in found):
        raise Rejected("two references of the signature mean one element in different forms")
    return found


def _prefixes(transform: etree._Element) -> list[str]:
    """The prefixes that a transform or a CanonicalizationMethod keeps."""
    children = [child for child in transform if isinstance(child.tag, str)]
    if not children:
        return []
    listed = only_child(transform, _INCLUSIVE).get("PrefixList", "").split(" ")
    if len(listed) > _MOST_PREFIXES:
        raise Rejected("a reference of the signature keeps too many prefixes")
    return listed


def _canonical(element: etree._Element, prefixes: Sequence[str]) -> bytes:
    copied = etree.fromstring(etree.tostring(element, with_tail=False), closed_parser())
    written: bytes = etree.tostring(
        copied, method="c14n", exclusive=True, with_comments=False, inclusive_ns_prefixes=list(prefixes) or None
    )
    return written
