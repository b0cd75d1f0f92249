"""A sender with short methods for the tests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from mercury.client.futures import Futures
from mercury.client.sender import Sender
from mercury.storage.api import Transaction
from mercury.storage.records import Channel, OutboundMessage
from mercury.testing import CountedIds
from mercury.wire.scan import Limits

from .words import ASK, NOTE, body

if TYPE_CHECKING:
    from .node import Node


class _Context:
    """A sender's context, read from the node at each call, because a link is used after a crash too."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def store(self) -> Any:
        return self._node.watched

    @property
    def ids(self) -> CountedIds:
        return self._node.ids

    @property
    def futures(self) -> Futures:
        return self._node.futures

    @property
    def clock(self) -> Callable[[], float]:
        return lambda: self._node.world.now

    @property
    def max_outbound_backlog(self) -> int:
        return self._node.settings.max_outbound_backlog

    @property
    def limits(self) -> Limits:
        return self._node.settings.limits

    @property
    def why_not_running(self) -> str | None:
        return None

    def last_error(self, _url: str) -> str | None:
        return None

    def sending(self, tx: Transaction, message: OutboundMessage) -> None:
        """No metrics and no traces."""

    def send_in(self, tx: Transaction) -> None:
        """Everything leaves in turns of the engine, which the tests make."""

    def has_callback(self, name: str) -> bool:
        return self._node.registry.callback(name) is not None


class Link(Sender):
    """A sender with short methods for the tests."""

    def __init__(self, node: Node, channel: Channel) -> None:
        super().__init__(_Context(node), channel, "urn:test")

    def notes(self, *texts: str, tx: Transaction | None = None) -> list[str]:
        """Send one-way messages; returns their MessageIDs."""
        return [self.send(body(text), operation="x", action=NOTE, tx=tx).message_id for text in texts]

    def asks(self, *texts: str, tx: Transaction | None = None) -> list[str]:
        """Send requests whose responses the callback ``answer`` gets."""
        return [
            self.request_with_callback(body(text), "answer", action=ASK, correlation=text, tx=tx).message_id
            for text in texts
        ]

    def ask(self, text: str) -> Future[bytes]:
        """Send a request; the future has its response."""
        return self.request(body(text), action=ASK)
