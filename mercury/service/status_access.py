"""Who may see the status of sequences, and how much of it: an identifier is enough to end its sequence."""

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
#: Headers that proxies add, by name or by pattern: whichever is there, the request comes from elsewhere.
PROXY_HEADERS = (
    "*forwarded*", "*client-ip*", "*clientip*", "*connecting-ip*", "*real-ip*", "*remote-addr*", "*external-address*",
    "*proxy*", "via", "cdn-loop",
)  # fmt: skip
#: Characters at the end of an identifier that are shown when it is masked, at most a third of it.
SHOWN = 12


class Access(enum.Enum):
    """What a request for the status gets."""

    #: The Host header is no host.
    INVALID = 400
    #: There is a token, and this is not it.
    UNAUTHORIZED = 401
    #: It does not come from this machine, or it comes through a proxy.
    FORBIDDEN = 403
    #: It comes from this machine: identifiers are masked.
    MASKED = 200
    #: It has the token.
    WHOLE = 0


def host_in(header: str) -> str | None:
    """The host that a Host header names, in small letters; ``None`` = it names none (RFC 9110, 7.2)."""
    named = _HOST.fullmatch(header)
    return (named[1] or named[2]).lower() if named is not None else None


def access(headers: Mapping[str, str], client: str | None, token: str | None, version: str = "1.1") -> Access:
    """What a request gets. A proxy on this machine that adds nothing looks like a direct one: hence the token.

    :param headers: the first of each name, in small letters.
    :param client: the address that it comes from.
    :param token: the setting ``http.status_token``: with it the status is given to any address, without it to none.
    :param version: of HTTP. Some proxies speak 1.0 and add no header: who asks by 1.0 without the token gets nothing.
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
    """Without whole identifiers, wherever they stand."""
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
    """The key of a response sequence is made of its request sequence's identifier, which may be forgotten by now."""
    name, found, identifier = key.partition("response/")
    return f"response/{_masked(identifier)}" if found and not name and not identifier.startswith("...") else key


def _masked(identifier: str) -> str:
    shown = min(SHOWN, len(identifier) // 3)
    return "..." + identifier[len(identifier) - shown :]
