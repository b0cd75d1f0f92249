"""X.509 certificates and keys: read from PEM files, checked, and turned into identities."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from mercury.errors import ConfigurationError
from mercury.security.message import Rejected
from mercury.statemachine.bounds import INDEXED_BYTES

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

#: Bits of the shortest RSA key that is used or accepted.
MIN_RSA_BITS = 2048
#: Critical extensions whose meaning is checked here, or that do not limit what a signature means.
#: BasicConstraints, KeyUsage, ExtendedKeyUsage and SubjectAlternativeName.
_KNOWN_EXTENSIONS = frozenset({"2.5.29.19", "2.5.29.15", "2.5.29.37", "2.5.29.17"})


@dataclass(frozen=True, slots=True)
class OwnKey:
    """The certificate and the private key of this side."""

    certificate: x509.Certificate
    key: PrivateKey


def read_own_key(certificate: str, key: str | None) -> OwnKey:
    """The first certificate of a file, and its key.

    :param key: the file with the key; ``None`` = it is in the same file.
    :raises ConfigurationError: a file cannot be used, or they do not belong together.
    """
    shown, name = read_certificates("certificate", certificate)[0], key or certificate
    data = _read("key", name)
    try:
        loaded = load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"key: {name} has no private key without a passphrase") from error
    if not isinstance(loaded, PrivateKey) or not strong(loaded.public_key()):
        raise ConfigurationError(f"key: {name} is neither RSA with {MIN_RSA_BITS} bits nor of an elliptic curve")
    if loaded.public_key() != shown.public_key():
        raise ConfigurationError(f"key: {name} does not belong to the first certificate in {certificate}")
    return OwnKey(shown, loaded)


def read_certificates(setting: str, name: str) -> list[x509.Certificate]:
    """All certificates of a PEM file.

    :raises ConfigurationError: the file cannot be used, or has none.
    """
    data = _read(setting, name)
    try:
        return x509.load_pem_x509_certificates(data)
    except (ValueError, x509.InvalidVersion) as error:
        raise ConfigurationError(f"{setting}: {name} has no certificate that can be read") from error


def _read(setting: str, name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigurationError(f"{setting}: {name} cannot be read: {error.strerror or error}") from error


def read_certificate(data: bytes) -> x509.Certificate:
    """A certificate that a peer has sent, in DER. Its names, key and extensions can be read: `cryptography` reads them
    late, and raises errors of many kinds for versions, keys, curves and extensions that it does not know.

    :raises Rejected: it cannot be read.
    """
    try:
        certificate = x509.load_der_x509_certificate(data)
        certificate.public_key()
        for name in (certificate.subject, certificate.issuer):
            name.rfc4514_string()
        list(certificate.extensions)
    except Exception as error:
        raise Rejected(f"the certificate cannot be read: {type(error).__name__}") from error
    return certificate


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def public_der(certificate: x509.Certificate) -> bytes:
    """The public key of a certificate as a SubjectPublicKeyInfo in DER."""
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(certificate: x509.Certificate) -> str:
    """The SHA-256 of a certificate in hexadecimal."""
    return hashlib.sha256(der(certificate)).hexdigest()


def strong(key: object) -> bool:
    """Whether a public key is of a kind and size that is accepted."""
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size >= MIN_RSA_BITS
    return isinstance(key, ec.EllipticCurvePublicKey) and key.key_size >= 256


class Trust:
    """The certificates in a file: those of peers, and of authorities that have issued certificates of peers.

    An authority must have issued a certificate directly: intermediate authorities are listed too. Revocation is not
    checked.

    :raises ConfigurationError: the file cannot be used, or two authorities have one name.
    """

    def __init__(self, name: str) -> None:
        #: The certificates of the file.
        self.known = read_certificates("trusted", name)
        self._pinned = {der(each) for each in self.known}
        self._authorities = [each for each in self.known if _is_authority(each)]
        names = [each.subject for each in self._authorities]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"trusted: two authorities in {name} have the same subject")

    def identity(self, certificate: x509.Certificate, now: float) -> str:
        """The identity in a certificate: ``x509:`` and its subject (RFC 4514), followed by ``;issuer=`` and the
        authority in angle brackets, or by ``;sha256=`` and the SHA-256 of a certificate that is in the file itself.

        :raises Rejected: it is not trusted, not valid now, or not for signatures.
        """
        _check_times(certificate, now)
        _check_use(certificate)
        if der(certificate) in self._pinned:
            identity = f"x509:{_subject(certificate)};sha256={fingerprint(certificate)}"
        else:
            identity = f"x509:{_subject(certificate)};issuer=<{_subject(self._authority(certificate, now))}>"
        if len(identity.encode()) > INDEXED_BYTES:
            raise Rejected("the name in the certificate is too long to be stored")
        return identity

    def _authority(self, certificate: x509.Certificate, now: float) -> x509.Certificate:
        for authority in self._authorities:
            if authority.subject == certificate.issuer:
                try:
                    certificate.verify_directly_issued_by(authority)
                except (InvalidSignature, ValueError, TypeError):
                    continue
                _check_times(authority, now)
                if not list(certificate.subject):
                    raise Rejected("the certificate has no subject")
                return authority
        raise Rejected("the certificate is neither trusted nor issued by a trusted authority")


def _subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        if not constraints.ca or _strange(certificate) or not strong(certificate.public_key()):
            return False
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound as missing:
        return missing.oid == x509.KeyUsage.oid
    except (UnsupportedAlgorithm, x509.DuplicateExtension, ValueError):
        return False


def _strange(certificate: x509.Certificate) -> bool:
    """Whether a critical extension is not known here."""
    return any(each.critical and each.oid.dotted_string not in _KNOWN_EXTENSIONS for each in certificate.extensions)


def _check_times(certificate: x509.Certificate, now: float) -> None:
    at = datetime.fromtimestamp(now, UTC)
    if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
        raise Rejected("a certificate is not valid now")


def _check_use(certificate: x509.Certificate) -> None:
    try:
        if _strange(certificate) or not strong(certificate.public_key()):
            raise Rejected("the certificate has an unknown critical extension, or a key that is not accepted")
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not usage.digital_signature and not usage.content_commitment:
        raise Rejected("the certificate is not for signatures")
