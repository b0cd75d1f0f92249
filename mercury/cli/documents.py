"""Fetches a document and its imports, from a file or a server."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from mercury.errors import ConfigurationError

if TYPE_CHECKING:
    from mercury.settings import Settings

#: Limits: the seconds for all documents together, their number, their bytes in all, and redirects for each.
MAX_SECONDS = 120.0
MAX_DOCUMENTS = 32
MAX_BYTES = 64 * 1024 * 1024
MAX_REDIRECTS = 3
#: The characters beside letters and digits that a path or query may have (RFC 3986); others are percent-encoded.
_KEPT = "%/?:@!$&'()*+,;=-._~"


def fetch_all(
    source: str,
    settings: Settings,
    imports: Callable[[bytes], list[str]],
    allowed: Sequence[str] = (),
    unread: Callable[[str], None] = lambda _: None,
    seconds: float = MAX_SECONDS,
) -> list[bytes]:
    """Fetch a document and all documents that it imports, directly or through others; the document itself is the first.

    Imports are read from the same server, or from the folder of the first file and below, and from places that are
    allowed. Other imports are left out.

    :param source: an ``http(s)`` URL, or a file.
    :param imports: the locations that a document imports.
    :param allowed: URLs and folders that imports may be read from too; what is below them is allowed with them.
    :param unread: is called with a sentence for each import that is left out.
    :param seconds: how long servers may take for all documents together.
    :raises ConfigurationError: a document cannot be read in time, or there are more than `MAX_DOCUMENTS`, or more than
        `MAX_BYTES`; the text names the document.
    """
    deadline = time.monotonic() + seconds
    found: list[bytes] = []
    seen = {source if is_url(source) else str(Path(source).resolve())}
    waiting, left = [source], MAX_BYTES
    while waiting:
        place = waiting.pop(0)
        if len(found) == MAX_DOCUMENTS:
            raise ConfigurationError(f"{source} imports more than {MAX_DOCUMENTS} documents")
        document = _fetch(place, settings, deadline)
        left -= len(document)
        if left < 0:
            raise ConfigurationError(f"{source} imports documents with more than {MAX_BYTES} bytes: {place}")
        found.append(document)
        try:
            locations = imports(document)
        except ConfigurationError as error:
            raise ConfigurationError(f"{place}: {error}") from error
        for location in locations:
            other = _place_of(place, location)
            if other is None:
                unread(f"{location} is not read: it is imported by {place}, and is no URL")
                continue
            if other in seen:
                continue
            seen.add(other)
            if _may_be_read(source, other, allowed):
                waiting.append(other)
            else:
                unread(f"{other} is not read: it is imported by {place}, and is elsewhere; --allow permits it")
    return found


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _place_of(place: str, location: str) -> str | None:
    """The URL or the file that a location in a document refers to; ``None`` = it cannot be parsed."""
    if not is_url(place) and "://" not in location:
        return str((Path(place).parent / location).resolve())
    try:
        parts = urlsplit(urljoin(place, location) if is_url(place) else location)
    except ValueError:
        return None
    return parts._replace(path=quote(parts.path, _KEPT), query=quote(parts.query, _KEPT)).geturl()


def _may_be_read(source: str, other: str, allowed: Sequence[str]) -> bool:
    """Whether an import is on the source's server, or below its folder, or below a place that is allowed."""
    from mercury.engine.addresses import climbs, server_of

    if not is_url(other):
        # A document from a server names no file of this machine.
        folders = [] if is_url(source) else [Path(source).parent, *(Path(each) for each in allowed if not is_url(each))]
        return "://" not in other and any(Path(other).is_relative_to(folder.resolve()) for folder in folders)
    if is_url(source) and server_of(other) == server_of(source):
        return True
    path = urlsplit(other).path
    if climbs(path):
        return False
    return any(
        is_url(each)
        and server_of(each) == server_of(other)
        and f"{path}/".startswith(f"{urlsplit(each).path.rstrip('/')}/")
        for each in allowed
    )


def _fetch(place: str, settings: Settings, deadline: float) -> bytes:
    from mercury.wsdl.document import LIMITS

    if is_url(place):
        return _in_time(lambda: _get(place, settings, LIMITS.max_bytes), place, deadline)
    try:
        with open(place, "rb") as file:
            return file.read(LIMITS.max_bytes + 1)
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be read: {error.strerror or error}") from error


def _in_time(get: Callable[[], bytes], url: str, deadline: float) -> bytes:
    """The result of ``get``, which is left behind in its thread at the deadline.

    The timeout of a socket is for each read only: a server that sends a byte now and then never exceeds it.
    """
    results: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put(get())
        except Exception as error:
            results.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = results.get(timeout=max(deadline - time.monotonic(), 0.0))
    except queue.Empty:
        raise ConfigurationError(f"{url} takes too long: all documents together may take {MAX_SECONDS:.0f} s") from None
    if isinstance(result, Exception):
        raise result
    return result


def _get(url: str, settings: Settings, limit: int) -> bytes:
    import http.client

    from mercury.engine.addresses import server_of, split_server_url
    from mercury.engine.runtime.peers import Peers
    from mercury.engine.runtime.transport import plain

    peers = Peers(settings.credentials.added_to({}, settings.tls.others), settings.tls.others)
    for _ in range(MAX_REDIRECTS + 1):
        parts, peer = split_server_url(url), peers.find(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=settings.http.timeout)
        if parts.scheme == "https":
            context = peer.context()
            connection = http.client.HTTPSConnection(parts.netloc, timeout=settings.http.timeout, context=context)
        try:
            path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
            connection.request("GET", path, headers=dict(peer.headers))
            reply = connection.getresponse()
            body, location = reply.read(limit + 1), reply.getheader("Location")
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: no name of a host
            raise ConfigurationError(f"nothing answers at {url}: {plain(error)}") from error
        finally:
            connection.close()
        if reply.status == 200:
            return body
        try:
            to = urljoin(url, location) if location is not None and 300 <= reply.status < 400 else url
        except ValueError:
            raise ConfigurationError(f"{url} redirects to {location!r}, which is no URL") from None
        if to == url or server_of(to) != server_of(url):
            hint = f" and redirects to {to}" if to != url else "; add ?wsdl to it" if not parts.query else ""
            raise ConfigurationError(f"{url} answers with HTTP status {reply.status}{hint}")
        url = to
    raise ConfigurationError(f"{url} redirects more than {MAX_REDIRECTS} times")
