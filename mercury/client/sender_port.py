"""The interface of `Mercury` that senders use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mercury.client.asynchronous import Threads
from mercury.client.futures import Futures
from mercury.engine.ids import Ids
from mercury.security.settings import MessageSecurity
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.records import OutboundMessage
from mercury.wire.scan import Limits


class SenderPort(Protocol):
    """The interface of `Mercury` that senders use."""

    @property
    def store(self) -> StorageManager: ...

    @property
    def ids(self) -> Ids: ...

    @property
    def futures(self) -> Futures: ...

    @property
    def threads(self) -> Threads:
        """The threads in which calls of an event loop wait for the store."""

    @property
    def clock(self) -> Callable[[], float]: ...

    @property
    def max_outbound_backlog(self) -> int: ...

    @property
    def limits(self) -> Limits:
        """What a message may be."""

    def sending(self, tx: Transaction, message: OutboundMessage) -> None:
        """The application sends a message in ``tx``; called before it is stored."""

    def send_in(self, tx: Transaction) -> None:
        """The application's transaction is about to be committed: send in it what can leave at once."""

    def has_callback(self, name: str) -> bool: ...

    @property
    def why_not_running(self) -> str | None:
        """Why the engine does not run, and what to do about it; ``None`` = it runs."""

    def security_of(self, url: str) -> MessageSecurity | None:
        """WS-Security of the messages to an endpoint; ``None`` = they have none."""

    def last_error(self, url: str) -> str | None:
        """The error of the last exchange with an endpoint; ``None`` = it succeeded."""
