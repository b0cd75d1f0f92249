"""Finds the authority in ``tls.client_ca`` that a peer's certificate was verified against.

It is the last certificate of the verified chain. The issuer that the certificate names is not used: an intermediate
authority can carry any name, also that of a different authority. ``tls.client_ca`` may also hold a peer's own
certificate, which then is its own authority.
"""

from __future__ import annotations

import hashlib
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: How many certificates' authorities are cached, for resumed TLS sessions, which have no chain.
REMEMBERED = 50_000
#: RFC 4514: the short names of attributes; others are written as OpenSSL names them.
_SHORT = MappingProxyType(
    {
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
)
_SPECIAL = frozenset('"+,;<>\\')
#: The encoding that `ssl` knows as DER.
_DER = 2


class Authorities:
    """The authorities of one server."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        #: The number of certificates in ``tls.client_ca``, including those that are not an authority's.
        self._given = 0
        #: The authorities' names by their certificates (DER).
        self._names: dict[bytes, str] = {}
        #: The authorities' names by the fingerprints of the peers' certificates.
        self._remembered: OrderedDict[str, str] = OrderedDict()

    @property
    def several(self) -> bool:
        """Whether there are several authorities: then two peers may have certificates with the same name."""
        return self._given != 1

    def of(self, connection: ssl.SSLObject, fingerprint: str) -> str | None:
        """The name of the authority of a connection's peer certificate.

        :param fingerprint: the SHA-256 of the peer's certificate, in hexadecimal.
        :return: the subject of the authority (RFC 4514). The SHA-256 of its certificate is appended when the server
            has another authority of that name, or when the peer's certificate is its own authority. ``None`` = not
            known: the session was resumed, and the cache no longer has the certificate.
        """
        self._read(connection.context)
        if not self.several and self._names:
            return next(iter(self._names.values()))
        chain = verified_chain(connection)
        if chain:
            # The last certificate is not an authority's: ``tls.client_ca`` holds the peer's own certificate.
            itself = distinguished_name(connection.getpeercert() or {}) if len(chain) == 1 else ""
            self._remembered[fingerprint] = self._names.get(chain[-1]) or _marked(itself, chain[-1])
            if len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        if fingerprint in self._remembered:
            self._remembered.move_to_end(fingerprint)
        return self._remembered.get(fingerprint)

    def _read(self, context: ssl.SSLContext) -> None:
        if context is self._context:
            return
        self._context = context
        self._remembered.clear()  # no session of another context is resumed, and names depend on all authorities
        # `get_ca_certs` leaves out certificates that are not an authority's. Without counting them, a name in such a
        # certificate would be taken for one that the only authority has issued.
        self._given = context.cert_store_stats()["x509"]
        given = zip(context.get_ca_certs(binary_form=True), context.get_ca_certs(), strict=True)
        names = {der: distinguished_name(decoded) for der, decoded in given}
        alike = list(names.values())
        self._names = {der: name if alike.count(name) == 1 else _marked(name, der) for der, name in names.items()}


def verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    """The certificate chain that TLS verified on a connection (DER), from the peer's to the authority's.

    Empty for a resumed session. From Python 3.13 on, `ssl` has a public method for this.
    """
    if hasattr(connection, "get_verified_chain"):
        return list(connection.get_verified_chain())
    hidden: Any = vars(connection).get("_sslobj")
    return [each.public_bytes(_DER) for each in hidden.get_verified_chain() or ()]


def fingerprint_of(der: bytes) -> str:
    """The SHA-256 of a certificate, in hexadecimal."""
    return hashlib.sha256(der).hexdigest()


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """The subject of a certificate decoded by `ssl`, in the form of RFC 4514 (last part first)."""
    parts = []
    for relative in reversed(certificate.get("subject", ())):
        parts.append("+".join(f"{_SHORT.get(name, name)}={escaped(value)}" for name, value in relative))
    return ",".join(parts)


def escaped(value: str) -> str:
    """A value with RFC 4514's separators escaped by backslashes."""
    text = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in value).replace("\0", "\\00")
    if text[:1] in (" ", "#"):
        text = "\\" + text
    if text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1] + "\\ "
    return text


def _marked(name: str, der: bytes) -> str:
    return f"{name};sha256={fingerprint_of(der)}"
