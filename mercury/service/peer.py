"""Reads a peer's verified TLS client certificate and puts it into the ASGI scope.

The server has verified the certificate against ``tls.client_ca``. In the scope of every request,
``scope["extensions"]["tls"]["client_cert_name"]`` is the identity (the field that ASGI's TLS extension has for the
peer's name), and ``scope["extensions"]["mercury.tls"]`` is the `Certificate`.
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
    """The content of a peer's verified certificate."""

    #: The identity: `name_in`, and if `Authorities.in_identities`, also the one that issued the certificate.
    #: Empty = the certificate has no name.
    identity: str
    #: The subject (RFC 4514); ``None`` = not known.
    subject: str | None = None
    #: The authority in ``tls.client_ca`` at the end of the verified chain; ``None`` = not known.
    issuer: str | None = None
    #: Kinds (``URI``, ``DNS``, ``email``, ``IP Address``, ...) and values, in the certificate's order.
    alternative_names: tuple[tuple[str, str], ...] = ()
    #: SHA-256, in hexadecimal.
    fingerprint: str | None = None


def certificate_in(scope: Mapping[str, Any]) -> Certificate | None:
    """The peer's certificate; ``None`` = it presented none. A server other than Mercury's supplies only the name."""
    extensions = scope.get("extensions", {})
    found = extensions.get("mercury.tls")
    if isinstance(found, Certificate):
        return found
    name = extensions.get("tls", {}).get("client_cert_name")
    return Certificate(identity=name) if isinstance(name, str) else None


def tls_extension(transport: asyncio.Transport, authorities: Authorities) -> dict[str, Any] | None:
    """The TLS extensions of the scopes of a connection; ``None`` = the connection has no TLS."""
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
    issuer, name = authorities.of(connection, fingerprint), name_in(decoded)  # `of` decides about `in_identities`
    names = decoded.get("subjectAltName", ())
    return Certificate(
        identity=with_issuer(name, issuer) if authorities.in_identities else name,
        subject=distinguished_name(decoded),
        issuer=issuer,
        alternative_names=tuple((kind, value) for kind, value in names if isinstance(value, str)),
        fingerprint=fingerprint,
    )


def with_issuer(name: str, issuer: str | None) -> str:
    """A name combined with the authority that issued it: ``CN=till,O=Shop;issuer=<CN=authority>``.

    The result is unambiguous: names have semicolons and angle brackets only after a backslash. Empty when the name or
    the authority is missing.
    """
    return f"{name};issuer=<{issuer}>" if name and issuer is not None else ""


def name_in(certificate: Mapping[str, Any]) -> str:
    """The name in a certificate: its URI (``URI:spiffe://...``), else its subject, else its DNS name (``DNS:...``).

    Several URIs or DNS names are joined by commas, in the certificate's order. Special characters are escaped as in RFC
    4514. Empty = the certificate has none of these.
    """
    return _alternatives(certificate, "URI") or distinguished_name(certificate) or _alternatives(certificate, "DNS")


def _alternatives(certificate: Mapping[str, Any], wanted: str) -> str:
    names = certificate.get("subjectAltName", ())
    return ",".join(f"{kind}:{escaped(name)}" for kind, name in names if kind == wanted and name)
