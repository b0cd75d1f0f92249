"""What the engine reports to the metrics: totals of a transaction, a post or a run of handlers, not of each message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Measurements(Protocol):
    """Takes counts and times of the engine. Thread-safe; must not block and must not raise.

    Where a process has no metrics there is ``None`` instead, which callers check first. What is reported is committed:
    callers report it by `Transaction.after_commit`. Events (`mercury.engine.events`) that do not occur for each message
    are not repeated here.
    """

    def sent(self, endpoint: str) -> None:
        """The application has sent a message."""

    def transmitted(self, endpoint: str, sequence: str, highest: int, messages: int, *, again: bool) -> None:
        """Messages of a sequence are about to be posted together.

        :param highest: their highest number.
        :param again: they were transmitted before.
        """

    def exchanged(self, endpoint: str, began: float, error: str) -> None:
        """An HTTP exchange has ended.

        :param endpoint: empty = it was an answer to a peer, at an address that the peer has named.
        :param began: when it began, by a monotonic clock; infinite = not known.
        :param error: the class of an exception, or an HTTP status; empty = it was answered.
        """

    def accepted(self, services: Sequence[str | None]) -> None:
        """A transaction has stored received messages, or delivered them.

        :param services: that of each message; ``None`` = a response.
        """

    def call_begins(self) -> float:
        """A handler or callback is about to be called. Returns the time for `call_ended`."""

    def call_ended(self, began: float, service: str | None, calls: int, error: type[BaseException] | None) -> None:
        """Handlers or callbacks were called one after the other.

        :param calls: how many.
        :param error: the exception of the last call; ``None`` = it returned.
        """

    def delivered(
        self, service: str | None, received_at: Sequence[float], sent_at: Sequence[float | None] = ()
    ) -> None:
        """A run of handlers has committed.

        :param received_at: when each message was accepted, in seconds since the epoch.
        :param sent_at: when each was sent, by the clock of its sender; ``None`` = unknown.
        """
