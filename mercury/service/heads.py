"""Refuses requests whose head a proxy and this server could read differently (RFC 9112, 2.3, 3.2, 6.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from mercury.service.status_access import host_in

#: The versions of HTTP that the server accepts.
VERSIONS = ("1.0", "1.1")
_PORTS = {b"http": 80, b"https": 443}


class Breach(Exception):
    """A request exceeds a limit, or its head is refused; raised in the parser's callbacks."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def reason_to_refuse(version: str, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
    """The HTTP status and the reason of a refusal; ``None`` = the request is accepted.

    :param headers: names in lower case.
    """
    if version not in VERSIONS:
        return 505, f"this server speaks HTTP/1.1, not HTTP/{version}"
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        return 400, f"the request has {len(hosts) or 'no'} Host fields instead of one"
    if hosts and host_in(hosts[0].decode("latin-1")) is None:
        return 400, "the Host field of the request names no host"
    if not url.startswith((b"/", b"*")) and not _is_for(url, hosts):
        return 400, "the URL of the request names another host than its Host field, or is not an HTTP URL"
    return _coding(version, [value for name, value in headers if name == b"transfer-encoding"])


def _is_for(url: bytes, hosts: list[bytes]) -> bool:
    """Whether a URL in absolute form is an http or https URL with the host of the Host field."""
    scheme, found, rest = url.partition(b"://")
    default = _PORTS.get(scheme.lower())
    if not found or default is None:
        return False
    authority = re.split(rb"[/?#]", rest, maxsplit=1)[0].lower()
    port = b":%d" % default
    return b"@" not in authority and all(
        authority.removesuffix(port) == host.lower().removesuffix(port) for host in hosts
    )


def _coding(version: str, values: list[bytes]) -> tuple[int, str] | None:
    if not values:
        return None
    codings = [coding.strip().lower() for coding in b",".join(values).split(b",")]
    if version == "1.0" or codings.count(b"chunked") != 1 or b"" in codings:
        return 400, "the length of the body is not clear from Transfer-Encoding"
    if codings != [b"chunked"]:
        return 501, "the only transfer coding that this server accepts is chunked"
    return None


def without_upgrade(method: bytes, url: bytes, version: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head of a request without its Upgrade fields.

    :param headers: names in lower case.
    """
    lines = [b"%b: %b\r\n" % (name, value) for name, value in headers if name != b"upgrade"]
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, url, version.encode(), b"".join(lines))


def refusal(status: int, reason: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The bytes of an answer that refuses a request before the application sees it. It announces that the connection
    closes.

    :param headers: the headers that every answer of the server has.
    """
    body = f"{reason}\n".encode()
    fields = [
        *headers,
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 503:
        fields.append((b"retry-after", b"1"))
    return STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % field for field in fields) + b"\r\n" + body
