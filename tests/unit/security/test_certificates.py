"""Certificates: which are trusted, which identity they have, and which files can be used."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree

from mercury.errors import ConfigurationError
from mercury.security.message import Rejected
from mercury.security.names import DS, KEY_IDENTIFIER, SUBJECT_KEY_IDENTIFIER, THUMBPRINT
from tests.keys import Encoding, Keys, elliptic, keys, rsa, x509  # noqa: F401  a fixture
from tests.unit.security.forge import NOW, PLAIN, Peers, http, one, party, reference_to, security

AGO, SOON = datetime(2023, 1, 1, tzinfo=UTC), datetime(2023, 11, 1, tzinfo=UTC)
LATER = datetime(2023, 12, 1, tzinfo=UTC)


def identity(keys: Keys, name: str, trusted: str, now: float = NOW) -> str:  # noqa: F811
    made = Peers(keys, party(certificate=keys.file(name)), party(trusted=trusted))
    return made.taken(etree.fromstring(made.client.secure(http(PLAIN), now).body), now)[1].identity


def test_identity_is_the_subject_and_its_authority_or_the_certificate_itself(keys: Keys) -> None:  # noqa: F811
    assert identity(keys, "till", keys.public("authority")) == "x509:CN=till;issuer=<CN=authority>"
    assert identity(keys, "till", keys.public("till", "authority")).startswith("x509:CN=till;sha256=")
    assert identity(keys, "stranger", keys.public("stranger")).startswith("x509:CN=stranger;sha256=")


def test_name_cannot_imitate_an_authority(keys: Keys) -> None:  # noqa: F811
    keys.make("impostor", "authority", subject="till;issuer=<CN=authority>")
    assert identity(keys, "impostor", keys.public("authority")) != "x509:CN=till;issuer=<CN=authority>"
    assert "\\;" in identity(keys, "impostor", keys.public("authority"))


def test_renewed_certificate_has_the_same_identity(keys: Keys) -> None:  # noqa: F811
    keys.make("renewed", "authority", subject="till")
    ca = keys.public("authority")
    assert identity(keys, "renewed", ca) == identity(keys, "till", ca)


def test_key_of_an_elliptic_curve_signs_too(keys: Keys) -> None:  # noqa: F811
    keys.make("curve 3", "authority", key=elliptic())
    assert identity(keys, "curve 3", keys.public("authority")) == "x509:CN=curve 3;issuer=<CN=authority>"


USAGE = {
    name: name == "key_encipherment"
    for name in (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
}


def refused(keys: Keys, name: str, trusted: str) -> str:  # noqa: F811
    with pytest.raises(Rejected) as error:
        identity(keys, name, trusted)
    return str(error.value)


def test_certificate_that_is_expired_or_not_valid_yet_is_refused(keys: Keys) -> None:  # noqa: F811
    keys.make("expired", "authority", begin=AGO, end=SOON)
    keys.make("early", "authority", begin=LATER)
    for name in ("expired", "early"):
        assert "not valid now" in refused(keys, name, keys.public("authority"))
        assert "not valid now" in refused(keys, name, keys.public(name))


def test_certificate_of_an_expired_authority_is_refused(keys: Keys) -> None:  # noqa: F811
    keys.make("old authority", authority=True, begin=AGO, end=SOON)
    keys.make("child of old", "old authority")
    assert "not valid now" in refused(keys, "child of old", keys.public("old authority"))


def test_certificate_that_is_not_for_signatures_is_refused(keys: Keys) -> None:  # noqa: F811
    keys.make("encipherer", "authority", extensions=((x509.KeyUsage(**USAGE), True),))
    assert "not for signatures" in refused(keys, "encipherer", keys.public("authority"))


def test_certificate_with_an_unknown_critical_extension_is_refused(keys: Keys) -> None:  # noqa: F811
    strange = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    keys.make("strange", "authority", extensions=((strange, True),))
    assert "unknown critical extension" in refused(keys, "strange", keys.public("authority"))
    keys.make("strange authority", authority=True, extensions=((strange, True),))
    keys.make("child of strange", "strange authority")
    assert "neither trusted" in refused(keys, "child of strange", keys.public("strange authority"))


def test_certificate_issued_by_an_authority_without_that_right_is_refused(keys: Keys) -> None:  # noqa: F811
    keys.make("no signer", authority=True, extensions=((x509.KeyUsage(**USAGE), True),))
    keys.make("child of no signer", "no signer")
    assert "neither trusted" in refused(keys, "child of no signer", keys.public("no signer"))


def test_name_that_is_empty_or_too_long_is_refused(keys: Keys) -> None:  # noqa: F811
    keys.make("nameless", "authority", subject="")
    assert "no subject" in refused(keys, "nameless", keys.public("authority"))
    keys.make("long", "authority", subject="x" * 60, extra=40)
    assert "too long" in refused(keys, "long", keys.public("authority"))


def test_files_that_cannot_be_used_are_named(keys: Keys, tmp_path: Path) -> None:  # noqa: F811
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    wrong = (
        ({"certificate": str(tmp_path / "missing.pem")}, "certificate: .*missing.pem cannot be read"),
        ({"certificate": str(empty)}, "certificate: .*empty.pem has no certificate"),
        ({"certificate": keys.public("till")}, "key: .* has no private key"),
        ({"certificate": keys.public("till"), "key": keys.file("shop")}, "key: .* does not belong"),
        ({"trusted": str(empty)}, "trusted: .*empty.pem has no certificate"),
        ({"trusted": str(tmp_path / "missing.pem")}, "trusted: .*missing.pem cannot be read"),
    )
    for options, message in wrong:
        with pytest.raises(ConfigurationError, match=message):
            party(**options)


def test_two_authorities_with_one_name_are_refused(keys: Keys) -> None:  # noqa: F811
    keys.make("twin", subject="authority", authority=True)
    with pytest.raises(ConfigurationError, match="the same subject"):
        party(trusted=keys.public("authority", "twin"))


def test_short_rsa_key_is_refused(keys: Keys) -> None:  # noqa: F811
    keys.make("short", "authority", key=rsa.generate_private_key(65537, 1024))
    with pytest.raises(ConfigurationError, match="2048 bits"):
        party(certificate=keys.file("short"))


@pytest.mark.parametrize("how", ["thumbprint", "key identifier", "issuer and serial number"])
def test_certificate_that_is_referred_to_without_being_sent_must_be_in_the_trusted_file(keys: Keys, how: str) -> None:  # noqa: F811
    """.NET and WSS4J can be set to refer to certificates in these forms."""
    till = keys.certificates["till"]
    peers = Peers(keys, party(certificate=keys.file("till")), party(trusted=keys.public("till")))
    root = peers.sent()
    reference = one(one(root, "KeyInfo"), "SecurityTokenReference")
    if how == "issuer and serial number":
        text = (
            f'<d:X509Data xmlns:d="{DS}"><d:X509IssuerSerial><d:X509IssuerName>CN=authority</d:X509IssuerName>'
            f"<d:X509SerialNumber>{till.serial_number}</d:X509SerialNumber></d:X509IssuerSerial></d:X509Data>"
        )
        reference[:] = [etree.fromstring(text)]
    else:
        identifier = x509.SubjectKeyIdentifier.from_public_key(till.public_key()).digest
        value = hashlib.sha1(till.public_bytes(Encoding.DER)).digest() if how == "thumbprint" else identifier
        kind = THUMBPRINT if how == "thumbprint" else SUBJECT_KEY_IDENTIFIER
        made = etree.Element(KEY_IDENTIFIER, ValueType=kind)
        made.text = base64.b64encode(value).decode()
        reference[:] = [made]
    token = one(root, "BinarySecurityToken")
    one(root, "SignedInfo").remove(reference_to(root, token))
    security(root).remove(token)
    peers.resigned(root)
    assert peers.taken(root)[1].identity.startswith("x509:CN=till;sha256=")
    peers.service = party(trusted=keys.public("authority"))
    assert "names no certificate" in peers.reason(root)
