"""Certificates and keys for tests of WS-Security, made anew in a folder; they are valid from 2000 to 2100."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("signxml", reason="the extra `security` is not installed")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

# Tests import these from here, so that they are skipped where the extra is not installed.
__all__ = [
    "AESGCM",
    "MGF1",
    "OAEP",
    "SHA1",
    "SHA256",
    "Encoding",
    "Keys",
    "NameOID",
    "PKCS1v15",
    "elliptic",
    "keys",
    "rsa",
    "x509",
]

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
BEGIN, END = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


class Keys:
    """A folder with a PEM file for each name, which has the certificate and its key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates: dict[str, x509.Certificate] = {}
        self.private: dict[str, Any] = {}

    def file(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def make(
        self,
        name: str,
        by: str | None = None,
        *,
        subject: str | None = None,
        extra: int = 0,
        key: Any = None,
        authority: bool = False,
        begin: datetime = BEGIN,
        end: datetime = END,
        extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (),
    ) -> str:
        """Make a certificate; returns its file.

        :param extra: how many names of organizational units the subject has, too.
        :param by: the name of the authority that issues it; ``None`` = it is self-signed.
        """
        key = key or rsa.generate_private_key(65537, 2048)
        called = _name(name if subject is None else subject, extra)
        issuer = called if by is None else self.certificates[by].subject
        made = (
            x509.CertificateBuilder()
            .subject_name(called)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        for extension, critical in extensions:
            made = made.add_extension(extension, critical)
        certificate = made.sign(key if by is None else self.private[by], SHA256())
        self.certificates[name], self.private[name] = certificate, key
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM) + pem)
        return self.file(name)

    def make_in_two_ways(self, name: str, by: str) -> bytes:
        """Make a certificate, and return it as a client can write it in another way without a key: the signature of its
        authority has other bytes, and is as right.
        """
        self.make(name, by)
        while self.certificates[name].signature[-1] & 1:  # a bit string may leave out its last bit if that is 0
            self.make(name, by, key=self.private[name])
        made = self.certificates[name]
        data, signed, value = made.public_bytes(Encoding.DER), made.tbs_certificate_bytes, b"\1" + made.signature
        if isinstance(self.private[by], ec.EllipticCurvePrivateKey):
            r, s = decode_dss_signature(made.signature)
            value = b"\0" + encode_dss_signature(r, _P256_ORDER - s)
        begin = data.index(signed) + len(signed)
        algorithm = data[begin : begin + 2 + data[begin + 1]]
        return _der(0x30, signed + algorithm + _der(0x03, value))

    def public(self, *names: str) -> str:
        """A file with certificates and no key."""
        file = self.folder / ("-".join(names) + ".crt")
        file.write_bytes(b"".join(self.certificates[name].public_bytes(Encoding.PEM) for name in names))
        return str(file)


def elliptic() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _der(tag: int, content: bytes) -> bytes:
    length = len(content).to_bytes(2).lstrip(b"\0")
    long = bytes([0x80 | len(length)]) if len(content) > 127 else b""
    return bytes([tag]) + long + length + content


def _name(text: str, extra: int) -> x509.Name:
    units = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "u" * 60) for _ in range(extra)]
    return x509.Name([*units, *([x509.NameAttribute(NameOID.COMMON_NAME, text)] if text else [])])


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """``authority``; ``till`` and ``shop``, which it has issued; ``stranger``, which nobody has issued."""
    made = Keys(tmp_path_factory.mktemp("keys"))
    made.make("authority", authority=True)
    made.make("till", "authority")
    made.make("shop", "authority")
    made.make("stranger")
    return made
