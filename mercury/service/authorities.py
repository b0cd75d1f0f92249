"""Finds the authority in ``tls.client_ca`` that a peer's certificate was verified against.

It is the last certificate of the verified chain. The issuer that the certificate names is not used: an intermediate
authority can carry any name, also that of a different authority. ``tls.client_ca`` may also hold a peer's own
certificate, which then is its own authority.
"""

from __future__ import annotations

import hashlib
import logging
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mercury.bounded import BoundedDict
from mercury.errors import ConfigurationError

log = logging.getLogger("mercury.tls")

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
    """The authorities of one server, and the names that they have in the identities of its peers.

    The names follow from the file that the server starts with, and from `TlsSettings.identity`. While the process
    runs, a changed file changes no identity: an authority keeps its name, and a file with which peers would get other
    identities is not used.

    :param with_issuer: whether identities include the authority; ``None`` = they do if the file at the start of the
        process holds several certificates.
    """

    def __init__(self, with_issuer: bool | None = None) -> None:
        self._is_set = with_issuer is not None
        self._with_issuer = with_issuer
        #: The context whose authorities are in use.
        self.context: ssl.SSLContext | None = None
        #: The name of the authority if `context` has one certificate only, and it is an authority's.
        self._only: str | None = None
        #: The subjects of the authorities in `context` by their certificates (DER).
        self._subjects: dict[bytes, str] = {}
        #: The names of all authorities that this process has used, by their certificates: a connection may still have
        #: been opened with a previous context.
        self._names: dict[bytes, str] = {}
        #: The authorities' names by the fingerprints of the peers' certificates.
        self._remembered: BoundedDict[str, str] = BoundedDict(REMEMBERED)

    @property
    def in_identities(self) -> bool:
        """Whether the authority is part of the identities: without it, two peers may have the same name."""
        return self._with_issuer is not False

    def use(self, context: ssl.SSLContext) -> None:
        """Take the authorities of the server's first context, or of one that is made from changed files.

        Certificates may always be taken out. Others may be added if no certificate gets another identity by it.

        :raises ConfigurationError: peers that are still accepted would get other identities. Nothing changes.
        """
        # `get_ca_certs` leaves out certificates that are not an authority's. Without counting them, a name in such a
        # certificate would be taken for one that the only authority has issued.
        count = context.cert_store_stats()["x509"]
        given = zip(context.get_ca_certs(binary_form=True), context.get_ca_certs(), strict=True)
        subjects = {der: distinguished_name(decoded) for der, decoded in given}
        fresh = _names_of(subjects)
        kept = {der: self._names[der] for der in subjects if der in self._subjects}
        if self.context is not None:
            self._check(count, subjects, fresh, kept)
        elif self._with_issuer is None:
            self._with_issuer = count != 1
        self.context, self._subjects = context, subjects
        self._names |= fresh | kept
        self._only = self._names[next(iter(subjects))] if count == 1 and subjects else None

    def _check(
        self, count: int, subjects: Mapping[bytes, str], fresh: dict[bytes, str], kept: dict[bytes, str]
    ) -> None:
        """
        :param subjects: of the authorities in the changed file.
        :param fresh: the names that they would have after a restart.
        :param kept: the names of those that were in the file before.
        """
        if not self._is_set and not self._with_issuer and count != 1:
            raise ConfigurationError(
                "tls.client_ca: the file holds several certificates now: the peers' identities would change. Set "
                'tls.identity to "name" or "issuer", and restart'
            )
        if not self._with_issuer:
            return
        before = list(self._subjects.values())
        for der, subject in subjects.items():
            if der in kept or subject not in before or self._names.get(der) == fresh[der]:
                continue
            # A peer's certificate may be accepted with the new certificate of its authority as well as with the
            # previous one: both must have the name without SHA-256.
            names = {self._names[each] for each, its in self._subjects.items() if its == subject}
            if names != {subject} or fresh[der] != subject:
                raise ConfigurationError(
                    f"tls.client_ca: the file holds another certificate of an authority with the name {subject!r}: "
                    "the peers' identities would change. Restart to use it, or give the authority another name"
                )
        if fresh | kept != fresh or (not self._is_set and count == 1):
            log.warning(
                "tls.client_ca: the peers keep the identities that they have since the start of the process; with the "
                "certificates that the file holds now they would have others after a restart%s",
                "" if self._is_set else '. With tls.identity = "issuer" identities always include the authority',
            )

    def of(self, connection: ssl.SSLObject, fingerprint: str) -> str | None:
        """The name of the authority of a connection's peer certificate.

        :param fingerprint: the SHA-256 of the peer's certificate, in hexadecimal.
        :return: the subject of the authority (RFC 4514). The SHA-256 of its certificate is appended when the server
            has another authority of that name, or when the peer's certificate is its own authority. ``None`` = not
            known: the session was resumed, and the cache no longer has the certificate.
        """
        if self.context is None:  # a server other than Mercury's, whose context stays the same
            self.use(connection.context)
        if connection.context is self.context and self._only is not None:
            return self._only
        chain = verified_chain(connection)
        if chain:
            # The last certificate is not an authority's: ``tls.client_ca`` holds the peer's own certificate.
            itself = distinguished_name(connection.getpeercert() or {}) if len(chain) == 1 else ""
            self._remembered[fingerprint] = self._names.get(chain[-1]) or _marked(itself, chain[-1])
        elif fingerprint in self._remembered:
            self._remembered.move_to_end(fingerprint)
        return self._remembered.get(fingerprint)


def _names_of(subjects: Mapping[bytes, str]) -> dict[bytes, str]:
    """The names of authorities by their certificates: the subjects, with the SHA-256 where several are the same."""
    alike = list(subjects.values())
    return {der: name if alike.count(name) == 1 else _marked(name, der) for der, name in subjects.items()}


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
