"""Reads assertions of WS-SecurityPolicy: the settings that satisfy them, and what Mercury does not support of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lxml import etree

from mercury.wsdl import names
from mercury.wsdl.alternatives import nested

#: Assertions that require nothing: they describe options that the peer understands.
_DESCRIPTIONS = frozenset({"Wss10", "Wss11", "Trust10", "Trust13"})
_SUPPORTING = frozenset({"SupportingTokens", "SignedSupportingTokens"})
_ENCRYPTED_SUPPORTING = frozenset({"EncryptedSupportingTokens", "SignedEncryptedSupportingTokens"})
#: What stands in bindings and tokens and is as Mercury writes messages, or is its choice.
_PARTS = frozenset(
    {
        *("InitiatorToken", "RecipientToken", "X509Token", "WssX509V3Token10", "WssX509V3Token11"),
        *("Layout", "Lax", "LaxTsFirst", "LaxTsLast", "IncludeTimestamp", "ProtectTokens"),
        *("AlgorithmSuite", "OnlySignEntireHeadersAndBody", "SignBeforeEncrypting"),
        *("UsernameToken", "WssUsernameToken10", "WssUsernameToken11", "HashPassword", "Body"),
    }
)
#: CXF's name for algorithms that settings of both sides choose. Its suites with names like Basic256GCM use SHA-1.
_SUITES = frozenset({"CustomAlgorithmSuite"})
#: Suites whose digests use SHA-256, and the algorithms that the attribute of Metro may name beside them. They encrypt
#: with AES-CBC, which Mercury refuses.
_DIGEST_SUITES = frozenset(f"Basic{bits}Sha256{rsa}" for bits in (128, 192, 256) for rsa in ("", "Rsa15"))
_SIGNATURES = frozenset({"SHA256withRSA", "SHA384withRSA", "SHA512withRSA"})


@dataclass(frozen=True, slots=True)
class SecurityRequirements:
    """What the assertions of one alternative require."""

    #: The names of fields of `MessageSecurity` that must be set.
    settings: tuple[str, ...] = ()
    #: The required features that Mercury does not support, in words.
    unsupported: tuple[str, ...] = ()


def read_security(assertions: Iterable[etree._Element], *, bound_to_token: bool) -> SecurityRequirements:
    """The requirements of the assertions of one alternative.

    :param bound_to_token: the RM assertion requires SequenceSTR (POL-03).
    """
    found = [each for each in assertions if etree.QName(each).namespace in names.SECURITY]
    over_tls = any(_name(each) == "TransportBinding" for each in found)
    encrypted = any(_name(each).startswith("Encrypted") for each in found)
    settings: list[str] = []
    unsupported: list[str] = []
    for each in found:
        by_digest = _suites_with_sha2(each)
        own, missing = _read(_name(each), [_name(part) for part in nested(each)], by_digest, over_tls=over_tls)
        settings += own
        unsupported += missing
        unsupported += [f"AES-CBC of AlgorithmSuite {suite} (WS-Security)" for suite in by_digest if encrypted]
    has_token = "user" in settings or "certificate" in settings
    if any(_name(each) == "TransportBinding" and _includes_timestamp(each) for each in found) and not has_token:
        unsupported.append("TransportBinding with IncludeTimestamp (WS-Security)")
    if bound_to_token and has_token:
        settings.append("bind_sequences")
    elif bound_to_token:
        unsupported.append("SequenceSTR of the RM assertion")
    return SecurityRequirements(tuple(dict.fromkeys(settings)), tuple(dict.fromkeys(unsupported)))


def _suites_with_sha2(binding: etree._Element) -> list[str]:
    """The suites of a binding that sign with SHA-2, because Metro's attribute says so."""
    return [
        _name(part)
        for suite in nested(binding)
        if _name(suite) == "AlgorithmSuite" and suite.get(names.SIGNATURE_ALGORITHM) in _SIGNATURES
        for part in nested(suite)
        if _name(part) in _DIGEST_SUITES
    ]


def _read(name: str, inside: Sequence[str], suites: Sequence[str], *, over_tls: bool) -> tuple[list[str], list[str]]:
    """The settings that satisfy one assertion, and its parts that are not supported.

    :param suites: those of its suites that are supported because of an attribute.
    """
    if name in _DESCRIPTIONS or name == "TransportBinding":
        return [], []
    if name == "AsymmetricBinding":
        return ["certificate", "trusted"], [
            _problem(part, name) for part in inside if part not in {*_PARTS, *_SUITES, *suites}
        ]
    if name == "SignedParts":  # all header blocks are signed
        return [], [_problem(part, name) for part in inside if part not in ("Body", "Header")]
    if name == "EncryptedParts":
        return ["encrypt_for", "require_encryption"], [_problem(part, name) for part in inside if part != "Body"]
    if "UsernameToken" in inside and (name in _SUPPORTING or (over_tls and name in _ENCRYPTED_SUPPORTING)):
        settings = ["user"] if "HashPassword" in inside else ["user", "plain_password"]
        return settings, [_problem(part, name) for part in inside if part not in _PARTS]
    return [], [f"{name} (WS-Security)"]


def _problem(part: str, of: str) -> str:
    what = f"AlgorithmSuite {part}, whose signatures use SHA-1," if part.startswith(("Basic", "TripleDes")) else part
    return f"{what} of {of} (WS-Security)"


def _includes_timestamp(binding: etree._Element) -> bool:
    return any(_name(part) == "IncludeTimestamp" for part in nested(binding))


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname
