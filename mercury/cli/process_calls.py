"""Asks a running process by its operator's API."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from mercury.errors import ConfigurationError, StorageError

#: Seconds that a call may take: longer than the process waits for its store.
TIMEOUT = 60.0
#: The last character that a header may have (ISO 8859-1).
LAST = 0xFF


class NoOperatorApi(ConfigurationError):
    """The process does not answer calls of operators."""


def call(at: str, token: str, by: str, name: str, given: Mapping[str, object]) -> Any:
    """The result of a call.

    :param at: the process, as ``http://host:port``, with its prefix if it has one.
    :param by: who acts, for the audit; empty = the role of the token.
    :raises NotPossible: the action cannot be done.
    :raises UnknownPlace: the place after which a page should begin is none.
    :raises ValueError: another argument is not valid.
    :raises StorageError: nothing answers, or the process cannot read its store now.
    :raises NoOperatorApi: the process does not answer calls.
    :raises ConfigurationError: the process refuses the token, or no request can show it.
    """
    from mercury.operations.acting import NotPossible
    from mercury.storage.searching import UnknownPlace

    status, body = _post(at, token, json.dumps({"by": by, "arguments": given}).encode(), name)
    value, why = _read(body)
    if status == 200:
        return value
    if status == 409:
        raise NotPossible(why)
    if status == 400 and isinstance(value, dict) and value.get("argument") == "after":
        raise UnknownPlace(str(given.get("after", "")))
    if status == 400:
        raise ValueError(why)
    if status == 503:
        raise StorageError(f"{at}: {why}")
    if status == 404:
        raise NoOperatorApi(f"{at} has no operator's API: its setting console.api is not true")
    raise ConfigurationError(f"{at} answers with HTTP status {status}: {why}")


def _read(body: bytes) -> tuple[Any, str]:
    """The value of an answer, and its error."""
    try:
        value = json.loads(body)
    except ValueError:
        return None, "no reason that a Mercury gives"
    why = value.get("error") if isinstance(value, dict) else None
    return value, str(why or "no reason")


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token.

    :raises ConfigurationError: a header cannot have it; the text does not show it.
    """
    if not token.isprintable() or any(ord(each) > LAST for each in token):
        raise ConfigurationError("the token of the settings has characters that a request cannot have")
    return {"Authorization": f"Bearer {token}"}


def _post(at: str, token: str, body: bytes, name: str) -> tuple[int, bytes]:
    import http.client

    from mercury.engine.addresses import split_server_url
    from mercury.engine.runtime.transport import plain
    from mercury.service import paths

    parts = split_server_url(at)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    headers = bearer(token) | {"Content-Type": "application/json"}
    try:
        with contextlib.closing(kind(parts.netloc, timeout=TIMEOUT)) as connection:
            connection.request("POST", f"{parts.path.rstrip('/')}{paths.OPERATE}/{name}", body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
    except (OSError, http.client.HTTPException, UnicodeError) as error:  # UnicodeError: no name of a host
        raise StorageError(f"nothing answers at {at}: {plain(error)}") from error
    except ValueError:  # its text may have a header, and so the token
        raise StorageError(f"the request to {at} cannot be written") from None
