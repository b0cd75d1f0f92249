"""Counts and measures what the engine reports, after each commit."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter as Numbers
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from mercury.bounded import BoundedDict
from mercury.engine.events import (
    Acknowledged,
    DeadLettered,
    DuplicateDropped,
    Event,
    HandlerFailed,
    MessageRefused,
    SequenceFailed,
    StoreRefused,
)
from mercury.telemetry import instruments as of
from mercury.telemetry.instruments import INSTRUMENTS, RESPONSES, SYSTEM, Instrument, Kind
from mercury.telemetry.labels import Limited
from mercury.telemetry.reasons import reason_of
from mercury.telemetry.values import Counter, Histogram, Labels

#: The events that are counted. None of them occurs for each message of an undisturbed exchange.
KINDS: tuple[type[Event], ...] = (
    Acknowledged,
    DeadLettered,
    DuplicateDropped,
    HandlerFailed,
    MessageRefused,
    SequenceFailed,
    StoreRefused,
)
#: Values of ``messaging.operation.name``.
SEND, TRANSMIT, ACCEPT, DELIVER = "send", "transmit", "accept", "deliver"
#: The destination of answers that are posted to addresses which peers have named.
ANSWERS = "answers"
#: Classes of errors that are shown; sequences, and posts of each, whose acknowledgement is awaited by `Awaited`.
MOST_ERRORS, MOST_SEQUENCES, MOST_POSTS = 20, 1000, 200
#: Seconds from `Sender.send` to the handler; a message that seems to have taken longer is not measured.
LONGEST_TRANSFER = 30 * 24 * 3600.0


class OnValues(Protocol):
    """Takes each value of a histogram, for an exporter that has its own histograms."""

    def __call__(self, instrument: Instrument, value: float, labels: Labels, many: int, /) -> None: ...


class Awaited:
    """First transmissions whose acknowledgement is awaited, for the latency. Thread-safe, and limited in memory: what
    is above the limit is not measured."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: By sequence: the highest number of each post, its time, and how many messages it had.
        self._posts: BoundedDict[str, deque[tuple[int, float, int]]] = BoundedDict(MOST_SEQUENCES)

    def add(self, sequence: str, highest: int, messages: int, now: float) -> None:
        with self._mutex:
            posts = self._posts.get(sequence)
            if posts is None:
                posts = self._posts[sequence] = deque(maxlen=MOST_POSTS)
            posts.append((highest, now, messages))

    def take(self, sequence: str, highest: int) -> list[tuple[float, int]]:
        """The time and the number of messages of each post up to the highest number that is acknowledged now."""
        found = []
        with self._mutex:
            posts = self._posts.get(sequence)
            while posts and posts[0][0] <= highest:
                _, at, messages = posts.popleft()
                found.append((at, messages))
            if posts is not None and not posts:
                del self._posts[sequence]
        return found


class Recorder:
    """The counters and histograms of one process: implements `Measurements`, and is an observer of `KINDS`.

    :param most: the limit on the destinations that are shown.
    :param clock: seconds since the epoch.
    :param monotonic: seconds of a monotonic clock, the one that posts have (`Begun.at`).
    """

    def __init__(self, most: int, clock: Callable[[], float], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._endpoints, self._services, self._errors = Limited(most), Limited(most), Limited(MOST_ERRORS)
        self._awaited = Awaited()
        self.counters: Mapping[str, Counter] = MappingProxyType(
            {each.name: Counter(each) for each in INSTRUMENTS if each.kind is Kind.COUNTER}
        )
        self.histograms: Mapping[str, Histogram] = MappingProxyType(
            {each.name: Histogram(each) for each in INSTRUMENTS if each.kind is Kind.HISTOGRAM}
        )
        #: Takes each value of a histogram; ``None`` = no exporter has its own.
        self.on_value: OnValues | None = None

    # --- what the engine reports -----------------------------------------------------------------------------------

    def sent(self, endpoint: str) -> None:
        self._count(of.SENT, 1, SYSTEM, SEND, self._endpoints.of(endpoint))

    def transmitted(self, endpoint: str, sequence: str, highest: int, messages: int, *, again: bool) -> None:
        destination = self._endpoints.of(endpoint)
        self._count(of.RETRANSMITTED if again else of.TRANSMITTED, messages, destination)
        self._record(of.BATCH_MESSAGES, messages, (TRANSMIT,))
        if not again:
            self._awaited.add(sequence, highest, messages, self._monotonic())

    def exchanged(self, endpoint: str, began: float, error: str) -> None:
        if math.isinf(began):
            return
        destination = self._endpoints.of(endpoint or ANSWERS)
        labels = (SYSTEM, TRANSMIT, destination, self._errors.of(error) if error else "")
        self._record(of.EXCHANGES, self._monotonic() - began, labels)

    def accepted(self, services: Sequence[str | None]) -> None:
        for service, messages in Numbers(services).items():
            self._count(of.ACCEPTED, messages, self._of_service(service))
        if services:
            self._record(of.BATCH_MESSAGES, len(services), (ACCEPT,))

    def call_begins(self) -> float:
        return self._monotonic()

    def call_ended(self, began: float, service: str | None, calls: int, error: type[BaseException] | None) -> None:
        if calls:
            name = self._errors.of(error.__name__) if error is not None else ""
            labels = (SYSTEM, DELIVER, self._of_service(service), name)
            self._record(of.PROCESS, (self._monotonic() - began) / calls, labels, calls)

    def delivered(
        self, service: str | None, received_at: Sequence[float], sent_at: Sequence[float | None] = ()
    ) -> None:
        destination, now = self._of_service(service), self._clock()
        self._count(of.CONSUMED, len(received_at), SYSTEM, DELIVER, destination)
        self._record_all(of.DELIVERY_LATENCY, [max(0.0, now - at) for at in received_at], destination)
        # The clocks of two hosts differ, and a peer may write anything.
        taken = [max(0.0, now - at) for at in sent_at if at is not None and now - at <= LONGEST_TRANSFER]
        if taken:
            self._record_all(of.TRANSFER_LATENCY, taken, destination)
        self._record(of.BATCH_MESSAGES, len(received_at), (DELIVER,))

    def committed(self, statements: int) -> None:
        """The store has committed a transaction of this process."""
        self._count(of.COMMITS, 1)
        self._count(of.STATEMENTS, statements)

    # --- events ----------------------------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Count an event of `KINDS`."""
        match event:
            case Acknowledged():
                self._acknowledged(event)
            case DeadLettered(direction=direction, reason=reason, letters=letters):
                self._count(of.DEAD_LETTERED, len(letters), direction.value, reason_of(reason).value)
            case DuplicateDropped(service=service):
                self._count(of.DUPLICATES, 1, self._of_service(service))
            case HandlerFailed(service=service, error=error):
                name = self._errors.of(type(error).__name__)
                self._count(of.HANDLER_FAILURES, 1, self._of_service(service), name)
            case MessageRefused(endpoint=endpoint):
                self._count(of.REFUSED, 1, self._endpoints.of(endpoint))
            case SequenceFailed(endpoint=endpoint):
                self._count(of.SEQUENCES_FAILED, 1, self._endpoints.of(endpoint))
            case StoreRefused(endpoint=endpoint):
                self._count(of.STORES_REFUSED, 1, self._endpoints.of(endpoint))

    def _acknowledged(self, event: Acknowledged) -> None:
        destination = self._endpoints.of(event.endpoint)
        self._count(of.ACKNOWLEDGED, event.count, destination)
        highest, now = max(high for _, high in event.ranges), self._monotonic()
        for at, messages in self._awaited.take(event.sequence, highest):
            self._record(of.ACKNOWLEDGEMENT_LATENCY, now - at, (destination,), messages)

    # --- within ----------------------------------------------------------------------------------------------------

    def _of_service(self, service: str | None) -> str:
        return RESPONSES if service is None else self._services.of(service)

    def _count(self, instrument: Instrument, many: int, *labels: str) -> None:
        self.counters[instrument.name].add(many, *labels)

    def _record_all(self, instrument: Instrument, values: list[float], destination: str) -> None:
        self.histograms[instrument.name].record_all(values, (destination,))
        if self.on_value is not None:
            for value in values:
                self.on_value(instrument, value, (destination,), 1)

    def _record(self, instrument: Instrument, value: float, labels: Labels, many: int = 1) -> None:
        self.histograms[instrument.name].record(value, labels, many)
        if self.on_value is not None:
            self.on_value(instrument, value, labels, many)
