"""What a service publishes of its WS-Security, read again as a client reads it."""

from __future__ import annotations

import pytest
from lxml import etree

from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.retransmission import Backoff
from mercury.wsdl.policy import Requirements, read
from mercury.wsdl.write import written_policy
from mercury.wsdl.write_security import RequiredSecurity, security_assertions

SIGNED = ("certificate", "trusted")
CASES = [
    (RequiredSecurity(), ()),
    (RequiredSecurity(user=True), ("user",)),
    (RequiredSecurity(user=True, plain_password=True), ("user", "plain_password")),
    (RequiredSecurity(signed=True), SIGNED),
    (RequiredSecurity(signed=True, user=True), (*SIGNED, "user")),
    (RequiredSecurity(signed=True, encrypted=True), (*SIGNED, "encrypt_for", "require_encryption")),
]


def published(required: RequiredSecurity, *, over_tls: bool) -> Requirements:
    policy = written_policy(DestinationPolicy(), Backoff(), required, over_tls=over_tls)
    return read(etree.tostring(policy))[""]


@pytest.mark.parametrize("over_tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize(("required", "settings"), CASES)
def test_client_reads_the_settings_that_it_needs_and_nothing_unsupported(
    required: RequiredSecurity, settings: tuple[str, ...], over_tls: bool
) -> None:
    # POL-09
    found = published(required, over_tls=over_tls)
    assert {each.reliability.rm for each in found.alternatives if each.reliability is not None} == set(RmVersion)
    assert {each.security for each in found.alternatives} == {settings}
    assert {(each.unsupported, each.unknown) for each in found.alternatives} == {((), ())}


def test_a_user_over_https_is_a_token_beside_a_transport_binding() -> None:
    """Without IncludeTimestamp: replies have no Security header, and a client would refuse them."""
    written = {
        over_tls: [etree.QName(each).localname for each in policy(RequiredSecurity(user=True), over_tls=over_tls)]
        for over_tls in (False, True)
    }
    assert written == {False: ["SupportingTokens"], True: ["TransportBinding", "SupportingTokens"]}
    assert "IncludeTimestamp" not in text(RequiredSecurity(user=True), over_tls=True)


def test_a_user_of_a_signed_message_is_a_signed_token() -> None:
    names = [etree.QName(each).localname for each in policy(RequiredSecurity(user=True, signed=True))]
    assert names == ["AsymmetricBinding", "Wss11", "SignedParts", "SignedSupportingTokens"]


@pytest.mark.parametrize(
    ("rm", "namespaces"),
    [
        (
            RmVersion.RM11,
            ["http://docs.oasis-open.org/ws-rx/wsrm/200702", "http://docs.oasis-open.org/ws-rx/wsmc/200702"],
        ),
        (RmVersion.RM10, ["http://schemas.xmlsoap.org/ws/2005/02/rm"]),
    ],
)
def test_the_headers_of_each_version_are_signed_parts(rm: RmVersion, namespaces: list[str]) -> None:
    # SEC-03
    (parts,) = (each for each in policy(RequiredSecurity(signed=True), rm) if "SignedParts" in each.tag)
    assert etree.QName(parts[0]).localname == "Body"
    assert [each.get("Namespace") for each in parts[1:]] == ["http://www.w3.org/2005/08/addressing", *namespaces]


def test_the_suite_says_sha_256_for_signatures_and_aes_gcm_where_messages_are_encrypted() -> None:
    # SEC-07, SEC-08
    signed = text(RequiredSecurity(signed=True))
    assert 'signatureAlgorithm="SHA256withRSA"' in signed
    assert "Basic256Sha256" in signed
    encrypted = text(RequiredSecurity(signed=True, encrypted=True))
    assert "CustomAlgorithmSuite" in encrypted
    assert "Basic256Sha256" not in encrypted


def policy(
    required: RequiredSecurity, rm: RmVersion = RmVersion.RM11, *, over_tls: bool = False
) -> list[etree._Element]:
    return security_assertions(required, rm, over_tls=over_tls)


def text(required: RequiredSecurity, *, over_tls: bool = False) -> str:
    return "".join(etree.tostring(each, encoding="unicode") for each in policy(required, over_tls=over_tls))
