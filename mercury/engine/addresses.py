"""Which addresses given by a peer may be connected to (WSA-08)."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from urllib.parse import SplitResult, unquote, urlsplit

from mercury.errors import ConfigurationError
from mercury.statemachine.messages import EndpointReference

#: An IPv6 address in brackets and nothing else in the host: parsers disagree about the host in other cases.
_BRACKETED = re.compile(r"(?:[^\[\]]*@)?\[[^\[\]]*\](?::[0-9]*)?")
#: What may be a user's name and password in a text that cannot be split as a URL.
_USER = re.compile(r"(:/*).*@", re.DOTALL)
#: No blanks and no control characters: they would break a line of HTTP.
_PLAIN = re.compile(r"[^\x00-\x20\x7f]*")
#: The beginnings of the URIs that WS-Addressing and WS-MakeConnection use for peers without an address.
_NOT_ADDRESSES = ("http://docs.oasis-open.org/ws-rx/wsmc/", "http://www.w3.org/", "http://schemas.xmlsoap.org/")

#: What other products call a list of addresses.
_LISTS = ("masterslave:", "discovery:", "static:", "fanout:")
#: A second URL after a comma: a list without failover:(...).
_SECOND = re.compile(r",\s*https?://")


def split_url(url: str) -> SplitResult:
    """The parts of an http(s) URL.

    :raises ConfigurationError: it is no such URL; the text shows no password in it.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or _SECOND.search(url):
            raise ValueError
        if not _PLAIN.fullmatch(url) or not (parts.path + parts.query).isascii():
            raise ValueError  # HTTP cannot request it
        if not _BRACKETED.fullmatch(parts.netloc) and ("[" in parts.netloc or "]" in parts.netloc):
            raise ValueError
        _ = parts.port
    except ValueError:
        several = url.startswith(_LISTS) or url.count("://") > 1
        needed = "several addresses are failover:(URL,URL)" if several else "http://host:port/path is needed"
        shown = _USER.sub(r"\1...@", url)
        raise ConfigurationError(f"not a URL to send to: {shown!r} ({needed})") from None
    return parts


def split_server_url(url: str) -> SplitResult:
    """The parts of an http(s) URL whose host and port are connected to as they are written.

    :raises ConfigurationError: it is no such URL, or has a user's name; the text shows no password in it.
    """
    parts = split_url(url)
    if parts.username is not None:
        raise ConfigurationError("a user's name and password cannot be part of the URL of a server")
    return parts


def origin_of(parts: SplitResult) -> tuple[str, str, int]:
    """Scheme, host and effective port: the same for every way to write them, and what is connected to."""
    host = parts.hostname or ""
    if ":" in host:
        with contextlib.suppress(ValueError):  # not an IPv6 address, so no connection to it is possible
            host = str(IPv6Address(host))
    return parts.scheme, host, _port(parts)


@lru_cache(maxsize=128)  # called several times for each post
def server_of(url: str) -> str:
    """The scheme, host and port of a URL, in one form for all ways to write them. Other text is returned unchanged."""
    try:
        scheme, host, port = origin_of(split_url(url))
    except ConfigurationError:
        return url
    return f"{scheme}://{host}:{port}"


@lru_cache(maxsize=128)
def endpoint_of(url: str) -> str:
    """A URL with its server in normalized form. A text that is not a URL is returned unchanged."""
    try:
        parts = split_url(url)
    except ConfigurationError:
        return url
    return f"{server_of(url)}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """An allow-list for AcksTo, ReplyTo, FaultTo and Offer endpoints: nothing is allowed unless it is listed.

    An entry is a URL prefix with a whole host: ``http://10.0.0.5:9000/`` allows everything below it,
    ``http://partner.example`` any path on the scheme's own port, ``http://127.0.0.1:*`` any port. ``*`` alone allows
    every http(s) address; only for endpoints that peers reach through a trusted network.

    :raises ConfigurationError: an entry is none of these.
    """

    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for entry in self.allowed:
            if entry == "*":
                continue
            try:
                parts, _ = _entry(entry)
            except ConfigurationError:
                raise ConfigurationError(_not_allowable(entry)) from None
            if "*" in parts.geturl() or parts.username is not None or parts.query or parts.fragment:
                raise ConfigurationError(_not_allowable(entry))

    def allows(self, address: str) -> bool:
        """Whether something may be posted to this address."""
        try:
            parts = split_url(address)
        except ConfigurationError:
            return False
        if parts.username is not None or address.startswith(_NOT_ADDRESSES):
            return False
        return any(entry == "*" or _matches(entry, parts) for entry in self.allowed)

    def refusal(self, what: str, endpoint: EndpointReference | None, *, polls: bool = False) -> str | None:
        """Why an endpoint reference is not used; ``None`` = it may be.

        :param polls: allow the anonymous URIs of MakeConnection: nothing is posted to such an address.
        """
        if endpoint is None or self.allows(endpoint.address):
            return None
        if polls if endpoint.polled else not endpoint.addressable:
            return None
        return f"{what} {endpoint.address} is not in this endpoint's list of allowed addresses"


def _not_allowable(entry: str) -> str:
    return (
        f"allowed: {entry!r} is not an address to allow (http://host:port/path with a whole host is needed; "
        "':*' stands for any port, '*' alone for every address)"
    )


def _entry(entry: str) -> tuple[SplitResult, bool]:
    """The parts of an entry, and whether it allows any port."""
    without_port = re.sub(r"^([^/]*//[^/?#]*):\*(?=[/?#]|$)", r"\1", entry)
    return split_url(without_port), without_port != entry


def _matches(entry: str, parts: SplitResult) -> bool:
    allowed, any_port = _entry(entry)
    if (allowed.scheme, allowed.hostname) != (parts.scheme, parts.hostname):
        return False
    if not any_port and _port(allowed) != _port(parts):
        return False
    path = allowed.path or "/"
    below = parts.path == path or parts.path.startswith(path.rstrip("/") + "/")
    return path == "/" or (below and not climbs(parts.path))


def climbs(path: str) -> bool:
    """Whether a server may resolve the path to one outside its prefix: ``/a/../b``, in any encoding.

    A proxy may decode a path before the server decodes it again, so it is decoded until nothing changes.
    """
    while (decoded := unquote(path)) != path:
        path = decoded
    segments = (segment.partition(";")[0] for segment in re.split(r"[/\\]", path))
    return any(segment in (".", "..") for segment in segments)


def _port(parts: SplitResult) -> int:
    if parts.port is not None:
        return parts.port
    return 443 if parts.scheme == "https" else 80
