"""Writes assertions of WS-SecurityPolicy 1.2: what the messages to a service must have, and what its replies have."""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from mercury.statemachine.protocol import RmVersion
from mercury.wire.ns import MC, RM_NS, WSA10, clark
from mercury.wsdl.names import GCM_SUITES, SIGNATURE_ALGORITHM, SP, WSP15

#: A token is in all requests and in no reply, or in all replies and in no request.
_TO_RECIPIENT, _TO_INITIATOR = SP + "/IncludeToken/AlwaysToRecipient", SP + "/IncludeToken/AlwaysToInitiator"
#: The references to a certificate outside the message that are read (`mercury.security.tokens`).
_REFERENCES = ("MustSupportRefKeyIdentifier", "MustSupportRefIssuerSerial", "MustSupportRefThumbprint")
#: What `AlgorithmSuite` has for signatures: SHA-256 for digests, and by the attribute of Metro for the key too.
_DIGESTS, _SIGNATURES = "Basic256Sha256", "SHA256withRSA"
#: CXF's name for AES-256-GCM with signatures that use SHA-256.
_ENCRYPTION = "CustomAlgorithmSuite"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredSecurity:
    """What a service requires of messages by WS-Security."""

    #: A UsernameToken, with the digest of the password or with the password itself.
    user: bool = False
    plain_password: bool = False
    #: A signature with an X.509 certificate, which replies have too.
    signed: bool = False
    #: An encrypted Body. Only what is signed can be.
    encrypted: bool = False


def security_assertions(required: RequiredSecurity, rm: RmVersion, *, over_tls: bool) -> list[etree._Element]:
    """The assertions for one alternative of a policy (WS-SecurityPolicy 1.2, sections 4, 5, 7, 8 and 9).

    :param rm: the version of WS-RM of the alternative, whose header blocks are signed.
    :param over_tls: the endpoint has an https URL.
    """
    found = []
    if required.signed:
        found += [_asymmetric(encrypted=required.encrypted), _wss11(), _signed_parts(rm)]
    elif required.user and over_tls:
        found.append(_transport())
    if required.encrypted:
        parts = _assertion(None, "EncryptedParts")
        _assertion(parts, "Body")
        found.append(parts)
    if required.user:
        # SEC-03: with a signature, the token must be signed too.
        found.append(_user("SignedSupportingTokens" if required.signed else "SupportingTokens", required))
    return found


def _user(kind: str, required: RequiredSecurity) -> etree._Element:
    supporting = _assertion(None, kind)
    policy = _nested(_assertion(_nested(supporting), "UsernameToken", _TO_RECIPIENT))
    if not required.plain_password:
        _assertion(policy, "HashPassword")
    _assertion(policy, "WssUsernameToken10")
    return supporting


def _asymmetric(*, encrypted: bool) -> etree._Element:
    """Signatures with X.509 certificates, which are in the messages."""
    binding = _assertion(None, "AsymmetricBinding")
    policy = _nested(binding)
    for party, include in (("InitiatorToken", _TO_RECIPIENT), ("RecipientToken", _TO_INITIATOR)):
        token = _assertion(_nested(_assertion(policy, party)), "X509Token", include)
        _assertion(_nested(token), "WssX509V3Token10")
    suite = _assertion(policy, "AlgorithmSuite")
    if encrypted:
        etree.SubElement(_nested(suite), clark(GCM_SUITES, _ENCRYPTION), nsmap={"cxf": GCM_SUITES})
    else:
        suite.set(SIGNATURE_ALGORITHM, _SIGNATURES)
        _assertion(_nested(suite), _DIGESTS)
    _assertion(_nested(_assertion(policy, "Layout")), "Lax")
    _assertion(policy, "IncludeTimestamp")
    _assertion(policy, "OnlySignEntireHeadersAndBody")
    return binding


def _wss11() -> etree._Element:
    """The references to certificates outside a message that both sides read."""
    options = _assertion(None, "Wss11")
    policy = _nested(options)
    for name in _REFERENCES:
        _assertion(policy, name)
    return options


def _transport() -> etree._Element:
    """TLS. Without IncludeTimestamp: replies to a user have no Security header."""
    binding = _assertion(None, "TransportBinding")
    policy = _nested(binding)
    _nested(_assertion(_nested(_assertion(policy, "TransportToken")), "HttpsToken"))
    _assertion(_nested(_assertion(policy, "AlgorithmSuite")), _DIGESTS)
    _assertion(_nested(_assertion(policy, "Layout")), "Lax")
    return binding


def _signed_parts(rm: RmVersion) -> etree._Element:
    """The Body, and the header blocks that say how a message is handled (SEC-03)."""
    parts = _assertion(None, "SignedParts")
    _assertion(parts, "Body")
    for namespace in (WSA10, RM_NS[rm], *((MC,) if rm is RmVersion.RM11 else ())):
        _assertion(parts, "Header").set("Namespace", namespace)
    return parts


def _assertion(parent: etree._Element | None, name: str, include: str | None = None) -> etree._Element:
    tag, prefixes = clark(SP, name), {"sp": SP}
    made = etree.Element(tag, nsmap=prefixes) if parent is None else etree.SubElement(parent, tag)
    if include is not None:
        made.set(clark(SP, "IncludeToken"), include)
    return made


def _nested(assertion: etree._Element) -> etree._Element:
    return etree.SubElement(assertion, clark(WSP15, "Policy"))
