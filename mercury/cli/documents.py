"""Fetches a document and its imports, from a file or a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from mercury.errors import ConfigurationError

if TYPE_CHECKING:
    from mercury.settings import Settings

#: Limits: documents in total, and redirects for each.
MAX_DOCUMENTS = 32
MAX_REDIRECTS = 3


def fetch_all(source: str, settings: Settings, imports: Callable[[bytes], list[str]]) -> list[bytes]:
    """Fetch a document and all documents that it imports, directly or through others; the document itself is the first.

    Imports are read from the same server, or from the folder of the first file and below. Other imports are
    ignored.

    :param source: an ``http(s)`` URL, or a file.
    :param imports: the locations that a document imports.
    :raises ConfigurationError: the first document cannot be read, or there are more than `MAX_DOCUMENTS`.
    """
    found: list[bytes] = []
    seen = {source}
    waiting = [source]
    while waiting:
        place = waiting.pop(0)
        if len(found) == MAX_DOCUMENTS:
            raise ConfigurationError(f"{source} imports more than {MAX_DOCUMENTS} documents")
        document = _fetch(place, settings)
        found.append(document)
        for location in imports(document):
            other = _import_location(source, place, location)
            if other is not None and other not in seen:
                seen.add(other)
                waiting.append(other)
    return found


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _import_location(source: str, place: str, location: str) -> str | None:
    """The location of an import; ``None`` = outside the source's server or folder."""
    from mercury.engine.addresses import server_of

    if is_url(source):
        other = urljoin(place, location)
        return other if is_url(other) and server_of(other) == server_of(source) else None
    if "://" in location:
        return None
    file = (Path(place).parent / location).resolve()
    return str(file) if file.is_relative_to(Path(source).parent.resolve()) and file.is_file() else None


def _fetch(place: str, settings: Settings) -> bytes:
    from mercury.wsdl.document import LIMITS

    if is_url(place):
        return _get(place, settings, LIMITS.max_bytes)
    try:
        with open(place, "rb") as file:
            return file.read(LIMITS.max_bytes + 1)
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be read: {error.strerror or error}") from error


def _get(url: str, settings: Settings, limit: int) -> bytes:
    import http.client

    from mercury.engine.addresses import server_of, split_url
    from mercury.engine.runtime.peers import Peers
    from mercury.engine.runtime.transport import plain

    peers = Peers(settings.credentials.added_to({}, settings.tls.others), settings.tls.others)
    for _ in range(MAX_REDIRECTS + 1):
        parts, peer = split_url(url), peers.find(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=settings.http.timeout)
        if parts.scheme == "https":
            context = peer.context()
            connection = http.client.HTTPSConnection(parts.netloc, timeout=settings.http.timeout, context=context)
        try:
            path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
            connection.request("GET", path, headers=dict(peer.headers))
            reply = connection.getresponse()
            body, location = reply.read(limit + 1), reply.getheader("Location")
        except (OSError, http.client.HTTPException) as error:
            raise ConfigurationError(f"nothing answers at {url}: {plain(error)}") from error
        finally:
            connection.close()
        if reply.status == 200:
            return body
        to = urljoin(url, location) if location is not None and 300 <= reply.status < 400 else url
        if to == url or server_of(to) != server_of(url):
            hint = f" and redirects to {to}" if to != url else "; add ?wsdl to it" if not parts.query else ""
            raise ConfigurationError(f"{url} answers with HTTP status {reply.status}{hint}")
        url = to
    raise ConfigurationError(f"{url} redirects more than {MAX_REDIRECTS} times")
