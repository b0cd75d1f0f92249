"""Certificates: which are trusted, which identity they have, and which files can be used."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree

from mercury.errors import ConfigurationError
from mercury.security import tokens
from mercury.security.message import Rejected, SoapTree
from mercury.security.names import DS, KEY_IDENTIFIER, SUBJECT_KEY_IDENTIFIER, THUMBPRINT
from mercury.security.tokens import MOST_TOKEN, distinguished_name, find_certificate
from mercury.wire.scan import DEFAULT_LIMITS
from tests.keys import Encoding, Keys, NameOID, elliptic, keys, rsa, x509  # noqa: F401  a fixture
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


VERSION_3, VERSION_4 = bytes.fromhex("a003020102"), bytes.fromhex("a003020103")
KEY_USAGE, BASIC_CONSTRAINTS = bytes.fromhex("0603551d0f"), bytes.fromhex("0603551d13")
RSA_KEY, UNKNOWN_KEY = bytes.fromhex("06092a864886f70d010101"), bytes.fromhex("06092a864886f70d010163")
P256, UNKNOWN_CURVE = bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06082a8648ce3d030177")
RSA_SHA256, UNKNOWN_METHOD = bytes.fromhex("06092a864886f70d01010b"), bytes.fromhex("06092a864886f70d010163")
UNREADABLE = {
    "version 4": (VERSION_3, VERSION_4),
    "an extension twice": (KEY_USAGE, BASIC_CONSTRAINTS),
    "an unknown kind of key": (RSA_KEY, UNKNOWN_KEY),
    "an unknown curve": (P256, UNKNOWN_CURVE),
}


def odd(keys: Keys, before: bytes, after: bytes, *, authority: bool = False) -> bytes:  # noqa: F811
    """A certificate with other bytes, in DER."""
    usage = (x509.KeyUsage(**{**USAGE, "digital_signature": True}), False)
    curve = elliptic() if before == P256 else None
    keys.make("odd", None if authority else "authority", extensions=(usage,), key=curve, authority=authority)
    data = keys.certificates["odd"].public_bytes(Encoding.DER)
    assert before in data
    return data.replace(before, after)


def pem(data: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(data) + b"-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("name", UNREADABLE)
def test_certificate_that_the_library_cannot_read_is_refused(keys: Keys, name: str) -> None:  # noqa: F811
    """Any client may send it: no key is needed."""
    peers = Peers.of(keys)
    root = peers.sent()
    one(root, "BinarySecurityToken").text = base64.b64encode(odd(keys, *UNREADABLE[name])).decode()
    assert "the certificate cannot be read" in peers.reason(root)


def test_certificate_with_an_unknown_algorithm_of_its_signature_is_refused(keys: Keys) -> None:  # noqa: F811
    peers = Peers.of(keys)
    root = peers.sent()
    one(root, "BinarySecurityToken").text = base64.b64encode(odd(keys, RSA_SHA256, UNKNOWN_METHOD)).decode()
    assert "neither trusted nor issued" in peers.reason(root)


@pytest.mark.parametrize("name", ["an unknown kind of key", "an extension twice"])
def test_odd_authority_in_the_file_issues_nothing_and_the_others_count(keys: Keys, tmp_path: Path, name: str) -> None:  # noqa: F811
    file = tmp_path / "trusted.pem"
    good = keys.certificates["authority"].public_bytes(Encoding.PEM)
    file.write_bytes(pem(odd(keys, *UNREADABLE[name], authority=True)) + good)
    assert identity(keys, "till", str(file)) == "x509:CN=till;issuer=<CN=authority>"


def test_error_of_a_library_at_a_certificate_of_the_file_refuses_the_message(keys: Keys, tmp_path: Path) -> None:  # noqa: F811
    """The file has a certificate whose key cannot be read, and the message refers to it."""
    file, data = tmp_path / "trusted.pem", odd(keys, RSA_KEY, UNKNOWN_KEY)
    file.write_bytes(pem(data))
    peers = Peers(keys, party(certificate=keys.file("till")), party(trusted=str(file)))
    root = peers.sent()
    reference = one(one(root, "KeyInfo"), "SecurityTokenReference")
    made = etree.Element(KEY_IDENTIFIER, ValueType=THUMBPRINT)
    made.text = base64.b64encode(hashlib.sha1(data).digest()).decode()
    reference[:] = [made]
    assert peers.reason(root).startswith("the Security header cannot be used: UnsupportedAlgorithm")


def test_files_that_cannot_be_used_are_named(keys: Keys, tmp_path: Path) -> None:  # noqa: F811
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    version_4 = tmp_path / "version 4.pem"
    version_4.write_bytes(pem(odd(keys, VERSION_3, VERSION_4)))
    wrong = (
        ({"trusted": str(version_4)}, "trusted: .*version 4.pem has no certificate that can be read"),
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


def by_issuer(issuer: str, serial: object) -> etree._Element:
    """A SecurityTokenReference with an issuer and a serial number."""
    return etree.fromstring(
        f'<r><d:X509Data xmlns:d="{DS}"><d:X509IssuerSerial><d:X509IssuerName>{issuer}</d:X509IssuerName>'
        f"<d:X509SerialNumber>{serial}</d:X509SerialNumber></d:X509IssuerSerial></d:X509Data></r>"
    )


@pytest.mark.parametrize(
    ("written", "same"),
    [
        (r"CN=Acme\, Inc.", True),
        ('CN="Acme, Inc."', True),
        ("CN=#0c0a41636d652c20496e632e", True),
        (r"2.5.4.3=Acme\, Inc.", True),
        (r"CN=Acme\,Inc.", False),
        ("CN=Acme, Inc.", False),
        ("", False),
    ],
)
def test_issuer_of_a_reference_is_known_in_each_form_that_java_writes(keys: Keys, written: str, same: bool) -> None:  # noqa: F811
    keys.make("acme", subject="Acme, Inc.", authority=True)
    keys.make("branch", "acme")
    branch = keys.certificates["branch"]
    reference = by_issuer(written, branch.serial_number)
    tree = SoapTree(PLAIN.encode(), DEFAULT_LIMITS)
    if same:
        assert find_certificate(tree, tree.header, reference, [branch]) == branch
    else:
        with pytest.raises(Rejected, match="names no certificate"):
            find_certificate(tree, tree.header, reference, [branch])


def test_names_of_several_parts_are_known_with_spaces_and_the_name_of_java_for_email() -> None:
    parts = [x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"), x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.example")]
    name = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, "Till 1")]).rfc4514_string()
    for written in ("CN=Till 1, EMAILADDRESS=a@b.example, C=DE", "CN=Till 1,1.2.840.113549.1.9.1=a@b.example,C=DE"):
        assert distinguished_name(written) == name


def test_issuer_of_any_length_and_number_is_parsed_at_most_once(
    keys: Keys,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is written before anything is known of its sender, and the parser of the library takes its time."""
    parsed: list[str] = []
    parser = tokens.distinguished_name
    monkeypatch.setattr(tokens, "distinguished_name", lambda text: (parsed.append(text), parser(text))[1])
    till, shop = keys.certificates["till"], keys.certificates["shop"]
    tree = SoapTree(PLAIN.encode(), DEFAULT_LIMITS)

    def found(issuer: str, serial: object) -> x509.Certificate:
        return find_certificate(tree, tree.header, by_issuer(issuer, serial), [shop, till, till])

    for serial in (1, "9" * 10_000, "", f"{till.serial_number}0"):
        with pytest.raises(Rejected, match="names no certificate"):
            found("CN=authority", serial)
    assert parsed == []
    assert found("CN=authority", till.serial_number) is till
    assert parsed == ["CN=authority"]
    with pytest.raises(Rejected, match="names no certificate"):
        found("CN=other", till.serial_number)
    assert parsed == ["CN=authority", "CN=other"]


def test_issuer_that_is_too_long_is_not_parsed() -> None:
    assert distinguished_name("CN=a," + " " * 2_000 + "C=DE") == "CN=a,C=DE"
    assert distinguished_name("CN=a," + " " * 2_048 + "C=DE") is None
    assert distinguished_name("CN=a," * 100_000 + "CN=a") is None


def test_token_that_is_too_long_is_refused_before_it_is_read(keys: Keys) -> None:  # noqa: F811
    """Any client may send it: a certificate with many names would take seconds to read."""
    peers = Peers.of(keys)
    root = peers.sent()
    token = one(root, "BinarySecurityToken")
    token.text = (token.text or "").ljust(MOST_TOKEN)
    assert "signature is wrong" in peers.reason(root)  # the certificate was found
    token.text += " "
    assert "a token is longer than 65536 characters" in peers.reason(root)


@pytest.mark.parametrize("kind", [THUMBPRINT, SUBJECT_KEY_IDENTIFIER])
def test_identifier_of_a_key_that_is_too_long_is_refused_before_it_is_read(keys: Keys, kind: str) -> None:  # noqa: F811
    peers = Peers.of(keys)
    root = peers.sent()
    made = etree.Element(KEY_IDENTIFIER, ValueType=kind)
    one(one(root, "KeyInfo"), "SecurityTokenReference")[:] = [made]
    made.text = "A" * MOST_TOKEN
    assert "names no certificate" in peers.reason(root)
    made.text += "AAAA"
    assert "a token is longer than 65536 characters" in peers.reason(root)
