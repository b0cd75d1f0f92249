"""Determines the identity of a request's sender: from the application's ``authenticate`` hook, or else from the peer's
TLS certificate.

The identity owns the sequences that it creates (`mercury.engine.destination.ownership`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mercury.errors import ConfigurationError, NotAuthenticated, text_of
from mercury.service.bodies import RequestRefused
from mercury.service.peer import certificate_in
from mercury.statemachine.bounds import INDEXED_BYTES, storable

log = logging.getLogger("mercury.endpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """The argument of an ``authenticate`` hook: a request without its body."""

    #: The path of the request's URL.
    path: str
    #: The IP address of the connection's peer: the client, or a proxy in between. X-Forwarded-For does not change it,
    #: unless the application's own uvicorn runs without ``--no-proxy-headers``.
    client: str
    #: The headers by name in lower case; repeated headers are joined by ``, ``. Servers other than Mercury's may add
    #: the trailers of a request (uvicorn with httptools does).
    headers: Mapping[str, str]
    #: The identity in the client's verified TLS certificate: the URI in its subject alternative name
    #: (``URI:spiffe://...``), or else its subject (RFC 4514: ``CN=till,O=Shop``), or else its DNS name (``DNS:...``).
    #: Several URIs are joined by commas. According to `TlsSettings.identity` the authority is appended:
    #: ``CN=till,O=Shop;issuer=<CN=authority>``. ``None`` = the client presented no certificate, or one without a name.
    certificate: str | None
    #: The subject of that certificate (RFC 4514); it may be empty. ``None`` = no certificate.
    subject: str | None = None
    #: The authority in ``tls.client_ca`` at the end of the certificate's verified chain: its subject (RFC 4514). If
    #: several authorities have that subject, or if the client's own certificate is in ``tls.client_ca``, ``;sha256=``
    #: and the SHA-256 of the authority's certificate, in hexadecimal, are appended.
    #: ``None`` = no certificate, or a server other than Mercury's, which does not supply it.
    issuer: str | None = None
    #: The subject alternative names in the certificate's order, as pairs of kind and value:
    #: ``("URI", "spiffe://...")``, ``("DNS", ...)``, ``("email", ...)``, ``("IP Address", ...)``.
    alternative_names: tuple[tuple[str, str], ...] = ()
    #: The SHA-256 of the certificate, 64 hexadecimal digits in lower case. ``None`` as for `issuer`.
    fingerprint: str | None = None


#: The application's hook. It returns the sender's identity, a text of at most 2,048 bytes of UTF-8 that stays the same
#: as long as the sender's sequences exist; ``None`` = unknown. It raises `NotAuthenticated` to refuse the request.
#: It is called in the event loop and must not block.
Authenticate = Callable[[HttpRequest], str | None]


def identify(scope: Mapping[str, Any], headers: Mapping[str, str], authenticate: Authenticate | None) -> str | None:
    """The identity of a request's sender, determined before the body is read; ``None`` = unknown.

    :param scope: the ASGI scope.
    :raises RequestRefused: the hook refuses the request (401) or fails (503, so that the peer sends it again); the
        identity is too long to be stored (403); or, without a hook, the certificate has no name (403).
    """
    identity = _identify(scope, headers, authenticate)
    try:
        storable(INDEXED_BYTES, identity=identity)
    except ConfigurationError as error:
        raise RequestRefused(403, "The sender's identity is too long to be stored here.") from error
    return identity


def request_of(scope: Mapping[str, Any], headers: Mapping[str, str]) -> HttpRequest:
    """The argument of a hook for a request.

    :param headers: by name in lower case; repeated headers are joined.
    """
    shown = certificate_in(scope)
    client = scope.get("client")
    return HttpRequest(
        path=str(scope.get("path", "")),
        client=str(client[0]) if client else "",
        headers=headers,
        certificate=(shown.identity or None) if shown is not None else None,
        subject=shown.subject if shown is not None else None,
        issuer=shown.issuer if shown is not None else None,
        alternative_names=shown.alternative_names if shown is not None else (),
        fingerprint=shown.fingerprint if shown is not None else None,
    )


def _identify(scope: Mapping[str, Any], headers: Mapping[str, str], authenticate: Authenticate | None) -> str | None:
    shown = certificate_in(scope)
    if authenticate is None:
        if shown is not None and not shown.identity:  # all peers with such certificates would have the same identity
            raise RequestRefused(403, "The client certificate has no name.")
        return shown.identity if shown is not None else None
    request = request_of(scope, headers)
    try:
        return authenticate(request)
    except NotAuthenticated as error:
        raise RequestRefused(
            401, text_of(error) or "The sender is not authenticated.", challenge=error.challenge
        ) from error
    except Exception as error:
        log.exception("authenticate failed; the request is refused")
        raise RequestRefused(503, "The sender could not be authenticated now; try again later.", busy=True) from error
