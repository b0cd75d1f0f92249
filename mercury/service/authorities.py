"""Which authority vouches for the certificate of a peer: one that the server was given (``tls.client_ca``).

It is the one at the end of the chain that TLS has verified, and not what the certificate names as its issuer: an
authority may give another one in between any name it likes, that of a different authority too. A peer's own certificate
may be given as well: then it vouches for itself.
"""

from __future__ import annotations

import hashlib
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: Certificates whose authority is remembered, for TLS sessions that are taken up again: there is no chain then.
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
    """Those of one server."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        #: Certificates that it was given, those that are no authority's too.
        self._given = 0
        #: By their certificates (DER).
        self._names: dict[bytes, str] = {}
        #: By the fingerprints of the certificates that they vouch for.
        self._remembered: OrderedDict[str, str] = OrderedDict()

    @property
    def several(self) -> bool:
        """Whether a name in a certificate is not enough to know who shows it."""
        return self._given != 1

    def of(self, connection: ssl.SSLObject, fingerprint: str) -> str | None:
        """The name of the authority of the certificate that is shown on a connection.

        :param fingerprint: of the certificate.
        :return: the subject of the authority (RFC 4514), with the SHA-256 of its certificate behind it when the server
            has another one of that name, or when the certificate vouches for itself. ``None`` = it is not known (any
            more).
        """
        self._read(connection.context)
        if not self.several and self._names:
            return next(iter(self._names.values()))
        chain = verified_chain(connection)
        if chain:
            # What is not among the authorities was given as the certificate of a peer: it ends its own chain.
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
        # `get_ca_certs` leaves out what is no authority's. Without counting it, what it names would count as if the
        # only authority vouched for it.
        self._given = context.cert_store_stats()["x509"]
        given = zip(context.get_ca_certs(binary_form=True), context.get_ca_certs(), strict=True)
        names = {der: distinguished_name(decoded) for der, decoded in given}
        alike = list(names.values())
        self._names = {der: name if alike.count(name) == 1 else _marked(name, der) for der, name in names.items()}


def verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    """What TLS has verified on a connection (DER): the peer's certificate first, that of an authority last.

    Empty when a session was taken up again. Python has it in public from 3.13 on.
    """
    if hasattr(connection, "get_verified_chain"):
        return list(connection.get_verified_chain())
    hidden: Any = vars(connection).get("_sslobj")
    return [each.public_bytes(_DER) for each in hidden.get_verified_chain() or ()]


def fingerprint_of(der: bytes) -> str:
    """The SHA-256 of a certificate, in hexadecimal."""
    return hashlib.sha256(der).hexdigest()


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """The subject of a certificate as `ssl` decodes it, as RFC 4514 writes it: the last part comes first."""
    parts = []
    for relative in reversed(certificate.get("subject", ())):
        parts.append("+".join(f"{_SHORT.get(name, name)}={escaped(value)}" for name, value in relative))
    return ",".join(parts)


def escaped(value: str) -> str:
    """A value as RFC 4514 writes it: none of the characters that separate names stands in it without a backslash."""
    text = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in value).replace("\0", "\\00")
    if text[:1] in (" ", "#"):
        text = "\\" + text
    if text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1] + "\\ "
    return text


def _marked(name: str, der: bytes) -> str:
    return f"{name};sha256={fingerprint_of(der)}"
