"""ASGI's types, and the headers and answers of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any

from mercury.wire.envelope import HttpMessage

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def headers_of(fields: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers of a request by name in lower case; repeated headers are joined (RFC 9110, 5.3).

    Some servers append the trailers of a request to its headers. Joining keeps the value that a proxy has set, which a
    trailer would replace otherwise.
    """
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in fields}
    if len(headers) < len(fields):
        headers = {}
        for each, content in fields:
            name, value = each.decode("latin-1").lower(), content.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def peer_of(scope: Scope) -> str:
    """The network address of the client; empty = unknown."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def fields_of(message: HttpMessage, challenge: str | None = None) -> list[tuple[str, str]]:
    """The header fields of an answer; see `fields_for`."""
    return fields_for(message.status, message.content_type, len(message.body), message.store, challenge)


def fields_for(
    status: int, content_type: str, length: int, store: str | None, challenge: str | None
) -> list[tuple[str, str]]:
    """The header fields of an answer.

    :param length: of its body, in bytes.
    :param store: the id of the store that answers; ``None`` = it is not stated.
    :param challenge: the value of WWW-Authenticate.
    """
    headers = [("content-length", str(length))]
    if length:
        headers.append(("content-type", content_type))
    if status in (408, 413):
        headers.append(("connection", "close"))
    if status == 503:
        headers.append(("retry-after", "1"))
    if store is not None:
        headers.append(("mercury-store", store))
    if challenge is not None:
        headers.append(("www-authenticate", challenge))
    return headers


async def send_message(send: Send, message: HttpMessage, challenge: str | None = None, *, whole: bool = True) -> None:
    """Send an answer.

    :param whole: the body is complete; otherwise the caller sends its end.
    """
    await _send_raw(send, message.status, fields_of(message, challenge), message.body, whole=whole)


async def send_text(send: Send, status: int, text: str, headers: Iterable[tuple[str, str]]) -> None:
    """Send a text as the answer."""
    body = text.encode()
    every = [*headers, ("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(body)))]
    await _send_raw(send, status, every, body)


async def _send_raw(
    send: Send, status: int, headers: list[tuple[str, str]], body: bytes, *, whole: bool = True
) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": not whole})
