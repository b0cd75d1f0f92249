"""Who sends a request: what the application's hook says, or else the name in the peer's TLS certificate.

The identity owns the sequences that are made under it (`mercury.engine.destination.ownership`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mercury.errors import ConfigurationError, NotAuthenticated
from mercury.service.bodies import RequestRefused
from mercury.service.peer import certificate_in
from mercury.statemachine.bounds import INDEXED_BYTES, storable

log = logging.getLogger("mercury.endpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What an ``authenticate`` hook sees of a request: everything but its body."""

    #: The path of the URL it was posted to.
    path: str
    #: The network address that the connection comes from: the client's, or that of a proxy in between. X-Forwarded-For
    #: does not change it, unless the application's own uvicorn runs without ``--no-proxy-headers``.
    client: str
    #: By name in small letters; what is there several times is joined by ``, ``. A server that is not Mercury's may add
    #: the trailers of a request (uvicorn with httptools does).
    headers: Mapping[str, str]
    #: The identity that the client's verified TLS certificate gives it. That is the URI in its subject alternative name
    #: (``URI:spiffe://...``), or else its subject (RFC 4514: ``CN=till,O=Shop``), or else its DNS name (``DNS:...``);
    #: several URIs have commas between them. When ``tls.client_ca`` holds several certificates, the authority stands
    #: behind it: ``CN=till,O=Shop;issuer=<CN=authority>``. ``None`` = it has shown none, or one without any name.
    certificate: str | None
    #: The subject of that certificate (RFC 4514); it may be empty. ``None`` = it has shown none.
    subject: str | None = None
    #: The authority in ``tls.client_ca`` that vouches for it, directly or through others: its subject (RFC 4514), and
    #: when several there have the same one, ``;sha256=`` and the SHA-256 of its certificate, in hexadecimal.
    #: A client's own certificate there vouches for itself: its subject, and always the SHA-256.
    #: ``None`` = it has shown none, or a server that is not Mercury's does not say.
    issuer: str | None = None
    #: Its subject alternative names as they come, as pairs of kind and value: ``("URI", "spiffe://...")``,
    #: ``("DNS", ...)``, ``("email", ...)``, ``("IP Address", ...)``.
    alternative_names: tuple[tuple[str, str], ...] = ()
    #: The SHA-256 of the certificate, 64 hexadecimal digits in small letters. ``None`` as with `issuer`.
    fingerprint: str | None = None


#: Returns who sent a request, a text that stays the same for as long as its sequences live, of 2,048 bytes of UTF-8 at
#: most, or ``None`` = unknown.
#: Raises `NotAuthenticated` to refuse it. It is called in the event loop and must not block.
Authenticate = Callable[[HttpRequest], str | None]


def identify(scope: Mapping[str, Any], headers: Mapping[str, str], authenticate: Authenticate | None) -> str | None:
    """Who sent a request, before its body is read.

    :param scope: ASGI's.
    :raises RequestRefused: the hook refuses it (401), or failed (503: the peer sends it again); the identity is too
        long to be kept (403). Without a hook: the certificate names nobody (403).
    """
    identity = _identify(scope, headers, authenticate)
    try:
        storable(INDEXED_BYTES, identity=identity)
    except ConfigurationError as error:
        log.error("a request is refused: %s", error)
        raise RequestRefused(403, "Who sends this has a name that cannot be kept here.") from error
    return identity


def _identify(scope: Mapping[str, Any], headers: Mapping[str, str], authenticate: Authenticate | None) -> str | None:
    shown = certificate_in(scope)
    if authenticate is None:
        if shown is not None and not shown.identity:  # as many as have such a certificate would be one
            raise RequestRefused(403, "The client certificate names nobody.")
        return shown.identity if shown is not None else None
    client = scope.get("client")
    request = HttpRequest(
        path=str(scope.get("path", "")),
        client=str(client[0]) if client else "",
        headers=headers,
        certificate=(shown.identity or None) if shown is not None else None,
        subject=shown.subject if shown is not None else None,
        issuer=shown.issuer if shown is not None else None,
        alternative_names=shown.alternative_names if shown is not None else (),
        fingerprint=shown.fingerprint if shown is not None else None,
    )
    try:
        return authenticate(request)
    except NotAuthenticated as error:
        raise RequestRefused(401, str(error) or "Who sends this is not known.", challenge=error.challenge) from error
    except Exception as error:
        log.exception("authenticate failed; the request is refused")
        raise RequestRefused(503, "Who sends this could not be established; try again later.", busy=True) from error
