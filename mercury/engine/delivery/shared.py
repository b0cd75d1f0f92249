"""Calling the application for several messages one after the other, in one savepoint (decision 43)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from mercury.engine.context import EngineContext
from mercury.engine.delivery.handler_call import HandlerCall, raise_transient
from mercury.engine.delivery.run import DeliveryRun
from mercury.storage.api import Transaction
from mercury.storage.records import OutboundMessage

#: Bytes of responses after which a run ends.
RESPONSE_BYTES = 8 * 1024 * 1024
#: Seconds of calls after which a savepoint ends: so much is repeated when a call fails.
SHARED_SECONDS = 0.01
#: Runs of a service after a failed call in which each call has its own savepoint.
SEPARATE_RUNS = 20


class SharedFailed(Exception):
    """A call in a shared savepoint has failed, and the work of all calls in the savepoint is undone."""

    def __init__(self, call: HandlerCall, error: Exception, before: int) -> None:
        super().__init__(str(error))
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

    def begin(self, service: str | None) -> bool:
        """Begin a run of several messages. Returns whether its calls may share savepoints."""
        with self._mutex:
            remaining = self._separate.pop(service, 0)
            if remaining > 1:
                self._separate[service] = remaining - 1
            return not remaining

    def failed(self, service: str | None) -> None:
        """Note that a call in a shared savepoint has failed."""
        with self._mutex:
            self._separate[service] = SEPARATE_RUNS


def call_shared(
    context: EngineContext,
    run: DeliveryRun,
    tx: Transaction,
    index: int,
    now: float,
    requests: Mapping[str, OutboundMessage],
    enough: Callable[[], bool],
) -> int:
    """Call the application for messages from ``index`` on, one after the other, in one savepoint.

    :param enough: whether the run has to end.
    :returns: the number of messages that are consumed, 0 if the first one cannot be called like this.
    :raises SharedFailed: a call has failed, or the end of the savepoint.
    :raises TransientStorageError: the store failed.
    """
    began, planned, size = context.claims.monotonic(), _planned(context, run, index, requests), 0
    first = next(planned, None)
    if first is None:
        return 0
    made: list[HandlerCall] = []
    try:
        running = context.running_calls.call(lambda: made[-1].described(), run.record.service, lambda: len(made))
        with tx.savepoint(), running:
            for call in chain((first,), planned):
                made.append(call)
                size += call.make_shared(tx)
                tx.end_work()
                late = context.claims.monotonic() - began >= SHARED_SECONDS
                if late or enough() or run.response_bytes + size >= RESPONSE_BYTES:
                    break
    except Exception as error:
        raise_transient(tx, error)
        raise SharedFailed(made[-1] if made else first, error, max(0, len(made) - 1)) from error
    for call in made:
        run.consume(call, call.consume_shared(tx, now))
    return len(made)


def _planned(
    context: EngineContext, run: DeliveryRun, index: int, requests: Mapping[str, OutboundMessage]
) -> Iterator[HandlerCall]:
    """The calls for the messages from ``index`` on, up to the first that needs more than a call."""
    answered: set[str] = set()
    for message in run.messages[index:]:
        if run.is_never_called(message):
            return
        waiting = run.waiting_request(message, requests)
        call = HandlerCall(context, run.record, run.request, message, 1, waiting)
        if not call.can_share():
            return
        if waiting is not None:
            if waiting.message_id in answered:
                return
            answered.add(waiting.message_id)
        yield call
