"""Counts the bytes of replies that are being received, with a limit on all of them together."""

from __future__ import annotations

from collections import Counter
from typing import Generic, TypeVar

from mercury.engine.runtime.http_exchange import Origin
from mercury.engine.runtime.kept_connections import Keepable

#: The bytes of each reply that do not count, so that large replies do not keep small ones out.
FREE = 64 * 1024

C = TypeVar("C", bound=Keepable)


class UnfinishedReplies(Generic[C]):
    """The replies that are being received, by their connections. Not thread-safe.

    A server that sends much of many replies, and never their ends, would take as much memory as there are exchanges,
    each times the limit of one reply.

    :param limit: the most bytes of all of them, without the first `FREE` of each.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: Why an exchange ends that has no room.
        self.problem = f"the replies that are being received have more than {limit} bytes (http.max_receiving_bytes)"
        #: The bytes that count, the replies that began to count last at the end.
        self._sizes: dict[C, int] = {}
        self.total = 0

    def grow(self, connection: C, size: int) -> C | None:
        """Count a reply that has so many bytes now.

        :returns: the connection to close, because there are too many bytes: one to the server that sends most of them.
            Then the caller calls this again, unless it is the same connection. ``None`` = there is room.
        """
        self.total -= self._sizes.get(connection, 0)
        self._sizes[connection] = max(0, size - FREE)
        self.total += self._sizes[connection]
        if self.total <= self._limit:
            return None
        by_server: Counter[Origin] = Counter()
        for each, counted in self._sizes.items():
            by_server[each.origin] += counted
        ((most, _),) = by_server.most_common(1)
        if connection.origin == most:
            return connection
        return next(each for each in reversed(self._sizes) if each.origin == most)

    def forget(self, connection: C) -> None:
        """The reply is complete, or the connection is closed."""
        self.total -= self._sizes.pop(connection, 0)
