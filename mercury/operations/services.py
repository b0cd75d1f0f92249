"""Services as an operator sees them: backlog, failing messages, paused or not."""

from __future__ import annotations

from collections.abc import Callable

from mercury.storage.searching import MessageFilter, MessageState, Page, ServiceSeen
from mercury.storage.sql.reads import depth, messages
from mercury.storage.sql.store import SqlStore
from mercury.storage.waiting import WaitingMessage

#: The most services that are listed.
MOST_SERVICES = 1000


class Services:
    """The services whose messages are in a store in a database.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def all(self) -> tuple[ServiceSeen, ...]:
        """The services with messages that wait, the paused ones, and those that a node hosts.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return depth.services(tx, MOST_SERVICES)

    def one(self, name: str) -> ServiceSeen | None:
        """A service; ``None`` = nothing waits for it, no node hosts it, and it is not paused."""
        return next((each for each in self.all() if each.name == name), None)

    def failing(self, service: str | None = None, after: str | None = None, limit: int = 50) -> Page[WaitingMessage]:
        """Poison messages: received messages whose handler fails, with the error. Each holds back its sequence.

        :param service: only those of this service.
        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            which = MessageFilter(service=service, state=MessageState.FAILING)
            return messages.inbound_page(tx, which, after, limit)
