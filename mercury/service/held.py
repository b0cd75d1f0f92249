"""The interface through which an endpoint uses its connection: it reports a held exchange, and it cuts the connection.

Only Mercury's HTTP server provides it; with another server these functions do nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

#: The key of the connection in the extensions of an ASGI scope.
EXTENSION = "mercury.connection"


class Holder(Protocol):
    """The connection of a request. Used in the event loop's thread."""

    @property
    def transport(self) -> asyncio.Transport:
        """The transport that the answer is written to."""

    def held(self, give_up: Callable[[], None]) -> AbstractContextManager[None]:
        """A context for the time that the request's exchange is held open for its response.

        :param give_up: called when the connection is needed for another peer: it answers the exchange at once, without
            the response. The connection is closed after that.
        """

    def abort(self) -> None:
        """Cut the connection at once; bytes that are not sent yet are lost."""


def held(scope: MutableMapping[str, Any], give_up: Callable[[], None]) -> AbstractContextManager[None]:
    """`Holder.held` of a request's connection; with another server than Mercury's a context that does nothing."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return contextlib.nullcontext() if holder is None else holder.held(give_up)


def abort_of(scope: MutableMapping[str, Any]) -> Callable[[], None] | None:
    """`Holder.abort` of a request's connection; ``None`` with another server than Mercury's."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return None if holder is None else holder.abort


def unsent_of(scope: MutableMapping[str, Any]) -> Callable[[], int] | None:
    """Returns the number of bytes in the connection's write buffer, which the peer has not taken yet; ``None`` with
    another server than Mercury's."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return None if holder is None else lambda: holder.transport.get_write_buffer_size()
