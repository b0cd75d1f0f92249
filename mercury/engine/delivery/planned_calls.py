"""Which calls of the application follow in one transaction: those for the messages of a run, or of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mercury.engine.context import EngineContext
from mercury.engine.delivery.run import DeliveryRun
from mercury.storage.api import Transaction
from mercury.storage.records import InboundMessage, OutboundMessage


class PlannedCalls:
    """The messages of runs, one run after the other, and the place of the next call.

    :param enough: whether the calls have to end.
    """

    def __init__(
        self, context: EngineContext, tx: Transaction, runs: Sequence[DeliveryRun], enough: Callable[[], bool]
    ) -> None:
        self.context = context
        self.enough = enough
        self._runs = [run for run in runs if run.messages]
        self._at = 0
        #: The place of the next message in its run.
        self.index = 0
        #: The messages that the application was called for, or that were dropped.
        self.made = 0
        #: The bytes of the responses of the runs before.
        self._bytes_before = 0
        self._total = sum(len(run.messages) for run in self._runs)
        #: Messages of a run before this index are called alone, because a call for several has failed, or the first
        #: one has before.
        self._alone = [1 if run.record.attempts else 0 for run in self._runs]
        #: Whether calls may share a savepoint.
        self.share = False
        #: This side's requests that the messages answer, by MessageID.
        self.requests: Mapping[str, OutboundMessage] = {}
        for run in self._runs:
            self.requests = {**self.requests, **run.read_requests(tx, run.messages)}
        self.services = list(dict.fromkeys(run.record.service for run in self._runs))

    @property
    def ended(self) -> bool:
        return self._at == len(self._runs)

    @property
    def run(self) -> DeliveryRun:
        """The run of the next message."""
        return self._runs[self._at]

    @property
    def runs_begun(self) -> int:
        """The number of runs with a call."""
        return self._at + (self.index > 0)

    @property
    def is_one(self) -> bool:
        """Whether there is one message in all."""
        return self._total == 1

    @property
    def called_alone(self) -> bool:
        """Whether the next message is called alone."""
        return self.index < self._alone[self._at]

    @property
    def can_share(self) -> bool:
        """Whether there are messages whose calls may share a savepoint."""
        if not self._runs or any(run.at_most_once for run in self._runs):
            return False
        return self._alone[0] < self._total - 1

    @property
    def shares_next(self) -> bool:
        """Whether the next call may share a savepoint with the one after it."""
        behind = sum(len(run.messages) for run in self._runs[self._at + 1 :])
        return self.share and not self.called_alone and self.index + 1 < len(self.run.messages) + behind

    @property
    def response_bytes(self) -> int:
        """The bytes of the responses so far."""
        return self._bytes_before + self.run.response_bytes

    def ahead(self) -> Iterator[tuple[DeliveryRun, InboundMessage]]:
        """The next messages of one service, up to the first that is called alone."""
        first, service = self.index, self.run.record.service
        for run, alone in zip(self._runs[self._at :], self._alone[self._at :], strict=True):
            if first < alone or run.record.service != service:
                return
            for message in run.messages[first:]:
                yield run, message
            first = 0

    def call_alone(self, count: int) -> None:
        """Call so many of the next messages of the run alone from now on."""
        self._alone[self._at] = self.index + count

    def settled(self, count: int = 1) -> None:
        """Note that so many of the next messages are consumed or dropped."""
        self.made += count
        for _ in range(count):
            self.index += 1
            if self.index == len(self.run.messages):
                self._next_run()

    def end_run(self) -> None:
        """Note that the next message has to be tried again: its run ends before it."""
        self.made += 1
        self._next_run()

    def _next_run(self) -> None:
        self._bytes_before += self.run.response_bytes
        self._at, self.index = self._at + 1, 0
