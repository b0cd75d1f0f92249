"""Who is at the other end of a connection, as far as TLS says.

The identity of a peer is the name in its certificate (the subject, or an alternative name when that is empty), which the server has verified against
``http.tls_client_ca``. It is in the scope of every request: ``scope["extensions"]["tls"]["client_cert_name"]``, as
ASGI's TLS extension has it, and `tls_identity` reads it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

#: RFC 4514: the short names of attributes; others are written as OpenSSL names them.
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "domainComponent": "DC",
    "userId": "UID",
    "streetAddress": "STREET",
}
_SPECIAL = frozenset('"+,;<>\\')


def tls_identity(scope: Mapping[str, Any]) -> str | None:
    """The name in the peer's verified certificate, as `name_in` writes it; ``None`` = it has shown none."""
    name = scope.get("extensions", {}).get("tls", {}).get("client_cert_name")
    return name if isinstance(name, str) else None


def tls_extension(transport: asyncio.Transport) -> dict[str, Any] | None:
    """The extensions of every scope of a connection; ``None`` for one without TLS."""
    connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if connection is None:
        return None
    certificate = connection.getpeercert()
    der = connection.getpeercert(binary_form=True) if certificate else None
    cipher = connection.cipher()
    return {
        "tls": {
            "server_cert": None,
            "client_cert_chain": (ssl.DER_cert_to_PEM_cert(der),) if der else (),
            "client_cert_name": name_in(certificate) if certificate else None,
            "client_cert_error": None,
            "tls_version": {"TLSv1.2": 0x0303, "TLSv1.3": 0x0304}.get(connection.version() or ""),
            "cipher_suite": cipher[0] if cipher else None,
        }
    }


def name_in(certificate: Mapping[str, Any]) -> str:
    """The subject of a certificate, or when that is empty its first URI, or else its first DNS name, with its kind in front.

    Empty when it has none of these: then it names nobody.
    """
    subject = distinguished_name(certificate)
    if subject:
        return subject
    for kind in ("URI", "DNS"):
        for each, name in certificate.get("subjectAltName", ()):
            if each == kind and name:
                return f"{kind}:{name}"
    return ""


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """The subject of a certificate as `ssl` decodes it, as RFC 4514 writes it: the last part comes first."""
    parts = []
    for relative in reversed(certificate.get("subject", ())):
        parts.append("+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in relative))
    return ",".join(parts)


def _escaped(value: str) -> str:
    text = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in value).replace("\0", "\\00")
    if text[:1] in (" ", "#"):
        text = "\\" + text
    if text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1] + "\\ "
    return text
