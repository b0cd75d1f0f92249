"""Who is at the other end of a connection, as far as TLS says.

The server has verified the certificate of a peer against ``tls.client_ca``. What it says is in the scope of every
request: ``scope["extensions"]["tls"]["client_cert_name"]`` is the identity, in the place that ASGI's TLS extension has
for the name of a peer, and ``scope["extensions"]["mercury.tls"]`` is the whole `Certificate`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mercury.service.authorities import Authorities, distinguished_name, escaped, fingerprint_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What the verified certificate of a peer says."""

    #: The identity: `name_in`, and if the server has several authorities, which of them vouches for it. Empty = it
    #: names nobody.
    identity: str
    #: ``None`` = not known.
    subject: str | None = None
    #: The authority that vouches for it; ``None`` = not known.
    issuer: str | None = None
    #: Kinds (``URI``, ``DNS``, ``email``, ``IP Address``, ...) and values, in the certificate's order.
    alternative_names: tuple[tuple[str, str], ...] = ()
    #: SHA-256, in hexadecimal.
    fingerprint: str | None = None


def certificate_in(scope: Mapping[str, Any]) -> Certificate | None:
    """What the peer has shown; ``None`` = nothing. Of another server than Mercury's only the name is known."""
    extensions = scope.get("extensions", {})
    found = extensions.get("mercury.tls")
    if isinstance(found, Certificate):
        return found
    name = extensions.get("tls", {}).get("client_cert_name")
    return Certificate(identity=name) if isinstance(name, str) else None


def tls_extension(transport: asyncio.Transport, authorities: Authorities) -> dict[str, Any] | None:
    """The extensions of every scope of a connection; ``None`` for one without TLS."""
    connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if connection is None:
        return None
    decoded = connection.getpeercert()
    der = connection.getpeercert(binary_form=True) if decoded else None
    certificate = _certificate(connection, decoded or {}, der, authorities) if der else None
    cipher = connection.cipher()
    tls = {
        "server_cert": None,
        "client_cert_chain": (ssl.DER_cert_to_PEM_cert(der),) if der else (),
        "client_cert_name": certificate.identity if certificate is not None else None,
        "client_cert_error": None,
        "tls_version": {"TLSv1.2": 0x0303, "TLSv1.3": 0x0304}.get(connection.version() or ""),
        "cipher_suite": cipher[0] if cipher else None,
    }
    return {"tls": tls, "mercury.tls": certificate}


def _certificate(
    connection: ssl.SSLObject, decoded: Mapping[str, Any], der: bytes, authorities: Authorities
) -> Certificate:
    fingerprint = fingerprint_of(der)
    issuer, name = authorities.of(connection, fingerprint), name_in(decoded)
    names = decoded.get("subjectAltName", ())
    return Certificate(
        identity=vouched(name, issuer) if authorities.several else name,
        subject=distinguished_name(decoded),
        issuer=issuer,
        alternative_names=tuple((kind, value) for kind, value in names if isinstance(value, str)),
        fingerprint=fingerprint,
    )


def vouched(name: str, issuer: str | None) -> str:
    """A name that counts together with the authority that vouches for it: ``CN=till,O=Shop;issuer=<CN=authority>``.

    No name has a semicolon or an angle bracket without a backslash before it. Empty when either is missing.
    """
    return f"{name};issuer=<{issuer}>" if name and issuer is not None else ""


def name_in(certificate: Mapping[str, Any]) -> str:
    """The name in a certificate: its URI (``URI:spiffe://...``), else its subject, else its DNS name (``DNS:...``).

    When it has several URIs, all of them, as they come, with commas between them; and so the DNS names. It is empty
    when it has none of these: then it names nobody. Special characters are written as RFC 4514 writes them.
    """
    return _alternatives(certificate, "URI") or distinguished_name(certificate) or _alternatives(certificate, "DNS")


def _alternatives(certificate: Mapping[str, Any], wanted: str) -> str:
    names = certificate.get("subjectAltName", ())
    return ",".join(f"{kind}:{escaped(name)}" for kind, name in names if kind == wanted and name)
