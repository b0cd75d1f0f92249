"""Checks of a request before anything is read for it: its Host header, its origin, and the size of its form."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from mercury.service.identity import HttpRequest, request_of
from mercury.service.status_access import LOOPBACK, PROXY_HEADERS, host_in

#: Names of this machine in a Host header.
LOCAL_NAMES = (*LOOPBACK, "localhost")
#: Bytes of a form, and its fields. A form holds the edited copy of a message.
MAX_FORM, MAX_FIELDS = 4 * 1024 * 1024, 1000
#: Characters of a query, and its fields.
MAX_QUERY, MAX_QUERY_FIELDS = 4096, 40

FORM_TYPE = "application/x-www-form-urlencoded"


class Refused(Exception):
    """A request is refused. The text says what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def check_host(headers: Mapping[str, str], client: str | None, hosts: tuple[str, ...]) -> None:
    """Check that a browser meant this console: a page of another site can make a browser send requests here under a
    name of its own (DNS rebinding).

    :param headers: the first header of each name; names in lower case.
    :param client: the IP address of the connection's peer.
    :param hosts: the setting ``console.hosts``. Requests under other names are accepted from this machine, under a
        name of this machine, and not through a proxy.
    :raises Refused: the request did not mean this console, or comes from elsewhere.
    """
    host = host_in(headers.get("host", ""))
    if host is None:
        raise Refused(400, "The Host header names no host.")
    if host in tuple(each.lower() for each in hosts):
        return
    proxied = any(fnmatchcase(name, pattern) for name in headers for pattern in PROXY_HEADERS)
    if client not in LOOPBACK or host not in LOCAL_NAMES or proxied:
        raise Refused(
            421 if host not in LOCAL_NAMES else 403,
            "The console answers this machine only, under the name localhost or its address. To reach it under another "
            "name, or through a proxy, add the name to the setting console.hosts.",
        )


def check_origin(headers: Mapping[str, str]) -> None:
    """Check that a form was sent by a page of this console.

    Under the referrer policy of its pages browsers send the origin ``null``, which says nothing; what counts then is
    Sec-Fetch-Site, and in any case the form's token.

    :raises Refused: the browser says that another site's page has sent it.
    """
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    same = origin in (None, "null") or urlsplit(origin or "").netloc.lower() == headers.get("host", "").lower()
    if site not in ("same-origin", "none") or not same:
        raise Refused(403, "A page of another site has sent this form; nothing was done.")


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form.

    :raises Refused: it is no form, or too large.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise Refused(415, "This is not a form of the console.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM:
            raise Refused(413, f"The form is larger than {MAX_FORM} bytes.")
    return _fields(bytes(body).decode("utf-8", "replace"), MAX_FIELDS)


def read_query(query: str) -> dict[str, list[str]]:
    """The fields of a URL's query.

    :raises Refused: it is too long.
    """
    if len(query) > MAX_QUERY:
        raise Refused(414, "The address of the page is too long.")
    return _fields(query, MAX_QUERY_FIELDS)


def _fields(text: str, most: int) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=most)
    except ValueError as error:
        raise Refused(400, "The form has too many fields.") from error
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value.replace("\0", ""))
    return fields


def described(request: Request) -> HttpRequest:
    """A request as an application's own check gets it."""
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return request_of(request.scope, headers)
