"""What an endpoint asks Mercury's server: to hold an exchange while its connection is not needed, and to cut it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

#: Under which name a scope's extensions have the connection, where the server is Mercury's.
EXTENSION = "mercury.connection"


class Holder(Protocol):
    """The connection of a request. Used in the event loop's thread."""

    @property
    def transport(self) -> asyncio.Transport:
        """Where its answer is written."""

    def held(self, give_up: Callable[[], None]) -> AbstractContextManager[None]:
        """Around the time for which the request's exchange is held for its response.

        :param give_up: makes it be answered at once with what there is; the connection is closed behind that.
        """

    def abort(self) -> None:
        """Cut the connection at once, whatever has not been sent."""


def held(scope: MutableMapping[str, Any], give_up: Callable[[], None]) -> AbstractContextManager[None]:
    """`Holder.held` of the connection of a request; with another server than Mercury's nothing happens."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return contextlib.nullcontext() if holder is None else holder.held(give_up)


def abort_of(scope: MutableMapping[str, Any]) -> Callable[[], None] | None:
    """`Holder.abort` of the connection of a request; ``None`` with another server than Mercury's."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return None if holder is None else holder.abort


def unsent_of(scope: MutableMapping[str, Any]) -> Callable[[], int] | None:
    """How many bytes of what was written to the connection of a request its peer has not taken yet; as `abort_of`."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return None if holder is None else lambda: holder.transport.get_write_buffer_size()
