"""Calling the application for several messages one after the other, in one savepoint (decision 43)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from itertools import chain

from mercury.engine.delivery.call_times import CallTimes
from mercury.engine.delivery.handler_call import HandlerCall, raise_transient
from mercury.engine.delivery.planned_calls import PlannedCalls
from mercury.engine.delivery.run import DeliveryRun
from mercury.errors import named
from mercury.storage.api import Transaction

#: Bytes of responses after which a run ends.
RESPONSE_BYTES = 8 * 1024 * 1024
#: Seconds of calls after which a savepoint ends: so much is repeated when a call fails.
SHARED_SECONDS = 0.01
#: Runs of a service after a failed call in which each call has its own savepoint.
SEPARATE_RUNS = 20


class SharedFailed(Exception):
    """A call in a shared savepoint has failed, and the work of all calls in the savepoint is undone."""

    def __init__(self, run: DeliveryRun, call: HandlerCall, error: Exception, before: int) -> None:
        super().__init__(named(error))
        self.run = run
        self.call = call
        self.error = error
        #: The number of calls before it in the savepoint. They, and then this one, have to be made again.
        self.before = before


class SharedSavepoints:
    """Which services' calls share savepoints: not those of a service whose calls have failed lately. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: The number of runs without shared savepoints that remain, by service; ``None`` = callbacks.
        self._separate: dict[str | None, int] = {}
        self.times = CallTimes()

    def begin(self, services: Collection[str | None]) -> bool:
        """Begin calls for several messages of these services. Returns whether they may share savepoints."""
        with self._mutex:
            remaining = [self._separate.pop(service, 0) for service in services]
            for service, turns in zip(services, remaining, strict=True):
                if turns > 1:
                    self._separate[service] = turns - 1
            return not any(remaining)

    def failed(self, service: str | None) -> None:
        """Note that a call in a shared savepoint has failed."""
        with self._mutex:
            self._separate[service] = SEPARATE_RUNS


def call_shared(calls: PlannedCalls, tx: Transaction, now: float) -> int:
    """Call the application for the next messages, one after the other, in one savepoint.

    :returns: the number of messages that are consumed, 0 if the first one cannot be called like this.
    :raises SharedFailed: a call has failed, or the end of the savepoint.
    :raises TransientStorageError: the store failed.
    """
    context = calls.context
    began, planned, size = context.claims.monotonic(), _planned(calls), 0
    first = next(planned, None)
    if first is None:
        return 0
    made: list[tuple[DeliveryRun, HandlerCall]] = []
    try:
        service = calls.run.record.service
        running = context.running_calls.call(lambda: made[-1][1].described(), service, lambda: len(made))
        with tx.savepoint(), running:
            for run, call in chain((first,), planned):
                made.append((run, call))
                size += call.make_shared(tx)
                tx.end_work()
                late = context.claims.monotonic() - began >= SHARED_SECONDS
                if late or calls.enough() or calls.response_bytes + size >= RESPONSE_BYTES:
                    break
    except Exception as error:
        raise_transient(tx, error)
        raise SharedFailed(*(made[-1] if made else first), error, max(0, len(made) - 1)) from error
    for run, call in made:
        run.consume(call, call.consume_shared(tx, now))
        calls.settled()
    return len(made)


def _planned(calls: PlannedCalls) -> Iterator[tuple[DeliveryRun, HandlerCall]]:
    """The calls for the next messages, up to the first that needs more than a call."""
    answered: set[str] = set()
    for run, message in calls.ahead():
        if run.is_never_called(message):
            return
        waiting = run.waiting_request(message, calls.requests)
        call = HandlerCall(calls.context, run.record, run.request, message, 1, waiting)
        if not call.can_share():
            return
        if waiting is not None:
            if waiting.message_id in answered:
                return
            answered.add(waiting.message_id)
        yield run, call
