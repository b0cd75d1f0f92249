"""The interface through which an endpoint uses its connection: it holds an exchange, and it cuts the connection.

Only Mercury's HTTP server provides it; with another server these functions do nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Protocol

#: The key of the connection in the extensions of an ASGI scope.
EXTENSION = "mercury.connection"


class Hold:
    """Whether the exchange of a connection's request is held open for its response. Used in the event loop's thread."""

    def __init__(self) -> None:
        self._give_up: Callable[[], None] | None = None
        #: Since when the exchange is held, by the event loop's clock.
        self.since = 0.0
        self._prolonged = False
        #: The client has left, or the server stops.
        self._ending = False

    @property
    def active(self) -> bool:
        """Whether an exchange is held."""
        return self._give_up is not None

    @contextlib.contextmanager
    def holding(self, give_up: Callable[[], None], now: float) -> Iterator[None]:
        """A context for the time that the exchange is held.

        :param give_up: answers the exchange at once, without the response.
        """
        self._give_up, self.since, self._prolonged = give_up, now, False
        try:
            yield
        finally:
            self._give_up = None

    def prolong(self) -> bool:
        """Hold the exchange longer than that of a client that fetches responses.

        :returns: ``False`` = its client has left, or the server stops.
        """
        self._prolonged = not self._ending
        return self._prolonged

    def end_soon(self) -> None:
        """Answer the exchange at once if it is prolonged, else do not prolong it: its client has left, or the server
        stops."""
        self._ending = True
        if self._prolonged:
            self.give_up()

    def give_up(self) -> None:
        """Answer the exchange at once without its response."""
        if self._give_up is not None:
            self._give_up()


class Holder(Protocol):
    """The connection of a request. Used in the event loop's thread."""

    @property
    def hold(self) -> Hold:
        """Of the request that is processed now."""

    @property
    def transport(self) -> asyncio.Transport:
        """The transport that the answer is written to."""

    def abort(self) -> None:
        """Cut the connection at once; bytes that are not sent yet are lost."""


def hold_of(scope: MutableMapping[str, Any]) -> Hold:
    """The `Hold` of a request's connection; with another server than Mercury's one that nothing ends early."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return Hold() if holder is None else holder.hold


def abort_of(scope: MutableMapping[str, Any]) -> Callable[[], None] | None:
    """`Holder.abort` of a request's connection; ``None`` with another server than Mercury's."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return None if holder is None else holder.abort


def unsent_of(scope: MutableMapping[str, Any]) -> Callable[[], int] | None:
    """Returns the number of bytes in the connection's write buffer, which the peer has not taken yet; ``None`` with
    another server than Mercury's."""
    holder: Holder | None = scope.get("extensions", {}).get(EXTENSION)
    return None if holder is None else lambda: holder.transport.get_write_buffer_size()
