"""Decides which requests get the status of sequences, and whether identifiers are masked in it.

Identifiers are masked because a peer that knows one can terminate the sequence.
"""

from __future__ import annotations

import dataclasses
import enum
import hmac
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from mercury.engine.status import SequenceStatus

#: Addresses of this machine.
LOOPBACK = ("127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/@\s]*))(?::[0-9]*)?")
#: Headers that proxies add, as patterns. A request with one of them came through a proxy.
PROXY_HEADERS = (
    "*forwarded*", "*client-ip*", "*clientip*", "*connecting-ip*", "*real-ip*", "*remote-addr*", "*external-address*",
    "*proxy*", "via", "cdn-loop",
)  # fmt: skip
#: The number of last characters that a masked identifier shows; at most a third of the identifier.
SHOWN = 12


class Access(enum.Enum):
    """The decision about a request for the status."""

    #: Refused: the Host header names no host.
    INVALID = 400
    #: Refused: a token is set, and the request does not carry it.
    UNAUTHORIZED = 401
    #: Refused: no token is set, and the request comes from another machine or through a proxy.
    FORBIDDEN = 403
    #: Granted, with masked identifiers: no token is set, and the request comes from this machine.
    MASKED = 200
    #: Granted, complete: the request carries the token.
    WHOLE = 0


def host_in(header: str) -> str | None:
    """The host that a Host header names, in lower case; ``None`` = it names none (RFC 9110, 7.2)."""
    named = _HOST.fullmatch(header)
    return (named[1] or named[2]).lower() if named is not None else None


def access(headers: Mapping[str, str], client: str | None, token: str | None, version: str = "1.1") -> Access:
    """Decide about a request for the status.

    A request through a proxy on this machine that adds no header cannot be distinguished from a direct one; an operator
    with such a proxy sets the token.

    :param headers: the first header of each name; names in lower case.
    :param client: the IP address of the connection's peer.
    :param token: the setting ``http.status_token``. With it, a request from any address must carry the token.
    :param version: the HTTP version. Without a token, HTTP/1.0 is refused: some proxies speak it and add no header.
    """
    host = host_in(headers.get("host", ""))
    if host is None:
        return Access.INVALID
    if token is not None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode(), token.encode())
        return Access.WHOLE if known and scheme.lower() == "bearer" else Access.UNAUTHORIZED
    proxied = version == "1.0" or any(fnmatchcase(name, pattern) for name in headers for pattern in PROXY_HEADERS)
    if client not in LOOPBACK or host not in (*LOOPBACK, "localhost") or proxied:
        return Access.FORBIDDEN
    return Access.MASKED


def masked(statuses: list[SequenceStatus]) -> list[SequenceStatus]:
    """Copies of the statuses with every identifier masked, also inside keys and error texts."""
    identifiers = sorted({each.identifier for each in statuses if each.identifier}, key=len, reverse=True)

    def mask(text: str) -> str:
        for identifier in identifiers if text else ():
            text = text.replace(identifier, _masked(identifier))
        return text

    return [
        dataclasses.replace(
            each,
            identifier=_masked(each.identifier) if each.identifier else "",
            key=_masked_key(mask(each.key)),
            last_error=mask(each.last_error),
        )
        for each in statuses
    ]


def _masked_key(key: str) -> str:
    """Mask the key of a response sequence. It contains the request sequence's identifier, which is not among the
    statuses if that sequence has been deleted."""
    name, found, identifier = key.partition("response/")
    return f"response/{_masked(identifier)}" if found and not name and not identifier.startswith("...") else key


def _masked(identifier: str) -> str:
    shown = min(SHOWN, len(identifier) // 3)
    return "..." + identifier[len(identifier) - shown :]
