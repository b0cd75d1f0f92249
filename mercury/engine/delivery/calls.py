"""Calling the application for the messages of runs: several together where their operation takes lists, else one after
the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mercury.engine.application import Operation
from mercury.engine.context import EngineContext
from mercury.engine.delivery.handler_call import (
    NOT_PROCESSED,
    TOO_LATE,
    CallFailed,
    HandlerCall,
    payload_of,
    raise_transient,
)
from mercury.engine.delivery.planned_calls import PlannedCalls
from mercury.engine.delivery.run import DeliveryRun, reason_of
from mercury.engine.delivery.shared import RESPONSE_BYTES, SharedFailed, SharedSavepoints, call_shared
from mercury.engine.delivery.time_limit import within_limit
from mercury.engine.tracing import processing
from mercury.statemachine.policy import OnFailure
from mercury.storage.api import Transaction
from mercury.storage.records import Channel, InboundMessage, OutboundMessage
from mercury.wire.envelope import Payload

log = logging.getLogger("mercury.engine.invocation")


def call_all(
    context: EngineContext,
    runs: Sequence[DeliveryRun],
    tx: Transaction,
    now: float,
    savepoints: SharedSavepoints,
    is_over: Callable[[], bool] = lambda: False,
    *,
    waits: bool = False,
) -> None:
    """Call the application for each message of the runs, of each up to the first that has to be tried again.

    :param is_over: whether the calls have to end before the next message.
    :param waits: what the handler of a lone message leaves to be executed later may wait for the commit; if it fails,
        the transaction fails.
    """
    claimed, began = context.claims.run(), context.claims.monotonic()
    calls = PlannedCalls(context, tx, runs, lambda: claimed() or is_over())
    # Under AtMostOnce no call may be repeated because of another.
    calls.share = calls.can_share and savepoints.begin(calls.services)
    while not calls.ended:
        run, index = calls.run, calls.index
        if calls.made and not run.at_most_once and (calls.enough() or calls.response_bytes >= RESPONSE_BYTES):
            break  # before the claim expires or memory fills up; the next run takes the rest
        together = _together(context, run, index) if not calls.called_alone else []
        if len(together) > 1:
            calls.call_alone(len(together))
            if _call_together(context, run, tx, together, now):
                calls.settled(len(together))
            continue
        if calls.shares_next and tx.in_database:
            try:
                done = call_shared(calls, tx, now)
            except SharedFailed as failed:
                savepoints.failed(failed.run.record.service)
                calls.share = False
                if not _undone(context, tx, failed, now):
                    calls.end_run()
                elif not failed.before:
                    calls.settled()
                continue
            if done:
                continue
        if _call_one(context, run, tx, index, now, calls.requests, waits=waits and calls.is_one):
            calls.settled()
        else:
            calls.end_run()
    savepoints.times.took(calls.services, context.claims.monotonic() - began, calls.made, calls.runs_begun)


def drop(
    context: EngineContext,
    tx: Transaction,
    run: DeliveryRun,
    message: InboundMessage,
    reason: str,
    now: float,
    requests: Mapping[str, OutboundMessage],
) -> None:
    """Drop a message: it is never delivered."""
    waiting = run.waiting_request(message, requests)
    call = HandlerCall(context, run.record, run.request, message, 1, waiting)
    fault = TOO_LATE if run.is_expired(message) else NOT_PROCESSED
    run.remember(call.drop(tx, reason, now, None if run.silent else fault, certainty=run.certainty))
    run.add(call)


def _call_one(
    context: EngineContext,
    run: DeliveryRun,
    tx: Transaction,
    index: int,
    now: float,
    requests: Mapping[str, OutboundMessage],
    *,
    waits: bool,
) -> bool:
    """Call the application for one message. ``False`` = it has to be tried again, and the run ends before it."""
    message = run.messages[index]
    attempt = run.record.attempts + 1 if index == 0 else 1
    if run.is_never_called(message):
        drop(context, tx, run, message, reason_of(run, message), now, requests)
        run.consumed.append(message.number)
        return True
    call = HandlerCall(context, run.record, run.request, message, attempt, run.waiting_request(message, requests))
    return _settle(context, run, tx, call, now, partial(call.make, tx, now, waits=waits))


def _undone(context: EngineContext, tx: Transaction, failed: SharedFailed, now: float) -> bool:
    """After a failure in a shared savepoint: a call that was the only one in it has failed like one in its own.

    :returns: ``False`` = it has to be tried again, and the run ends before it.
    """
    call, run = failed.call, failed.run
    if not failed.before:
        return _settle(context, run, tx, call, now, partial(call.failed, tx, failed.error, now))
    text = "%s has failed, and is called again after the %d before it, each in its own savepoint: %r"
    log.info(text, call.described(), failed.before, str(failed), extra={"sequence": run.record.sequence})
    return True


def _settle(
    context: EngineContext,
    run: DeliveryRun,
    tx: Transaction,
    call: HandlerCall,
    now: float,
    made: Callable[[], Channel | None],
) -> bool:
    """Make a call, or settle one that was made. ``False`` = it has to be tried again, and the run ends before it.

    :param made: returns the channel of the response, or raises `CallFailed`.
    """
    try:
        channel = made()
    except CallFailed as failure:
        skips = run.policy.on_failure is OnFailure.SKIP and failure.attempt >= run.policy.max_attempts
        if not skips and not run.at_most_once:
            run.failure = failure
            return False
        run.emit_failure(tx, context.observers, failure, now)
        channel = call.drop(tx, f"given up: {failure}", now)
    run.consume(call, channel)
    return True


def _together(context: EngineContext, run: DeliveryRun, index: int) -> Sequence[InboundMessage]:
    """The messages from this index on that one call takes; empty = the operation takes one message, or none.

    Under AtMostOnce each message is alone: a call that has failed is not repeated for the others.
    """
    operation = _operation(context, run, run.messages[index])
    if operation is None or operation.batch == 1 or run.at_most_once:
        return []
    most = index + operation.batch
    end = index
    while end < min(most, len(run.messages)) and _operation(context, run, run.messages[end]) is operation:
        end += 1
    return run.messages[index:end]


def _operation(context: EngineContext, run: DeliveryRun, message: InboundMessage) -> Operation | None:
    """The operation whose handler is called for a message; ``None`` = no handler is called."""
    if run.record.service is None or not message.action or run.is_never_called(message):
        return None
    return context.application.operation(run.record.service, message.action)


def _call_together(
    context: EngineContext, run: DeliveryRun, tx: Transaction, messages: Sequence[InboundMessage], now: float
) -> bool:
    """Call the handler once for these messages. ``False`` = it has failed, and nothing of its work is left."""
    calls = [HandlerCall(context, run.record, run.request, message, 1, None) for message in messages]
    operation = _operation(context, run, messages[0])
    assert operation is not None
    try:
        responses = _call_handler(context, tx, run.record.service, operation, calls)
    except CallFailed as failure:
        text = "the handler of %s has failed for %d messages together, and is called for each alone: %r"
        log.info(text, operation.name, len(calls), str(failure), extra={"sequence": run.record.sequence})
        return False
    for call, response in zip(calls, responses, strict=True):
        run.consume(call, call.consume(tx, operation, response, now))
    return True


def _call_handler(
    context: EngineContext, tx: Transaction, service: str | None, operation: Operation, calls: Sequence[HandlerCall]
) -> Sequence[Payload | None]:
    """Call the handler of an operation once for several messages, in one savepoint. Returns the responses in order.

    :raises CallFailed: the handler has failed, or has answered with a fault, which is of no single message; its work in
        ``tx`` is rolled back.
    :raises TransientStorageError: the store failed, which does not count as a failed attempt.
    """
    first, last, handler = calls[0].message, calls[-1].message, operation.call_together
    assert handler is not None

    def described() -> str:
        return f"the handler of {operation.name} with messages {first.number} to {last.number} of {first.sequence}"

    try:
        running = context.running_calls.call(described, service, lambda: len(calls))
        spanned = processing(context.tracing, service, [call.message for call in calls], 1)
        with tx.savepoint(), running, spanned as span:
            for call in calls:
                call.trace = span
            payloads = [payload_of(tx, call.message) for call in calls]
            contexts = [call.message_context(tx) for call in calls]
            return within_limit(operation, tx, context.claims.monotonic, lambda: handler(contexts, payloads))
    except Exception as error:
        raise_transient(tx, error)
        raise CallFailed(first, 1, error, operation.name) from error
