"""Calling the application for the messages of a run: several together where their operation takes lists, else each
alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from mercury.engine.application import Operation
from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import DAMAGED
from mercury.engine.delivery.handler_call import CallFailed, HandlerCall, call_together
from mercury.engine.delivery.run import DeliveryRun, parked_reason
from mercury.statemachine.policy import OnFailure
from mercury.storage.api import Transaction
from mercury.storage.records import Channel, InboundMessage, OutboundMessage

log = logging.getLogger("mercury.engine.invocation")
#: Bytes of responses after which a run ends.
RESPONSE_BYTES = 8 * 1024 * 1024


def call_all(context: EngineContext, run: DeliveryRun, tx: Transaction, now: float) -> None:
    """Call the application for each message of the run, up to the first that has to be tried again."""
    enough, requests = context.claims.run(), run.read_requests(tx, run.messages)
    # Messages before this index are called alone, because a call for several has failed, or the first one has before.
    alone = 1 if run.record.attempts else 0
    index = 0
    while index < len(run.messages):
        if index and not run.at_most_once and (enough() or run.response_bytes >= RESPONSE_BYTES):
            return  # before the claim expires or memory fills up; the next run takes the rest
        together = _together(context, run, index) if index >= alone else []
        if len(together) > 1:
            alone = index + len(together)
            if _call_together(context, run, tx, together, now):
                index = alone
            continue
        if not _call_one(context, run, tx, index, now, requests):
            return
        index += 1


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
    run.remember(call.drop(tx, reason, now, answers=not run.silent, certainty=run.certainty))
    run.add(call)


def _call_one(
    context: EngineContext,
    run: DeliveryRun,
    tx: Transaction,
    index: int,
    now: float,
    requests: Mapping[str, OutboundMessage],
) -> bool:
    """Call the application for one message. ``False`` = it has to be tried again, and the run ends before it."""
    message = run.messages[index]
    attempt = run.record.attempts + 1 if index == 0 else 1
    if _is_never_called(run, message):
        reason = parked_reason(run.record) if message.number == run.record.parked else DAMAGED
        drop(context, tx, run, message, reason, now, requests)
        run.consumed.append(message.number)
        return True
    call = HandlerCall(context, run.record, run.request, message, attempt, run.waiting_request(message, requests))
    try:
        channel = call.make(tx, now)
    except CallFailed as failure:
        skips = run.policy.on_failure is OnFailure.SKIP and failure.attempt >= run.policy.max_attempts
        if not skips and not run.at_most_once:
            run.failure = failure
            return False
        run.emit_failure(tx, context.observers, failure, now)
        channel = call.drop(tx, f"given up: {failure}", now)
    _consumed(run, call, channel)
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
    if run.record.service is None or not message.action or _is_never_called(run, message):
        return None
    return context.application.operation(run.record.service, message.action, message.element)


def _is_never_called(run: DeliveryRun, message: InboundMessage) -> bool:
    return message.damaged or message.number == run.record.parked


def _call_together(
    context: EngineContext, run: DeliveryRun, tx: Transaction, messages: Sequence[InboundMessage], now: float
) -> bool:
    """Call the handler once for these messages. ``False`` = it has failed, and nothing of its work is left."""
    calls = [HandlerCall(context, run.record, run.request, message, 1, None) for message in messages]
    operation = _operation(context, run, messages[0])
    assert operation is not None
    try:
        responses = call_together(context, tx, operation, calls)
    except CallFailed as failure:
        text = "the handler of %s has failed for %d messages together, and is called for each alone: %s"
        log.info(text, operation.name, len(calls), failure, extra={"sequence": run.record.sequence})
        return False
    for call, response in zip(calls, responses, strict=True):
        _consumed(run, call, call.consume(tx, operation, response, now))
    return True


def _consumed(run: DeliveryRun, call: HandlerCall, channel: Channel | None) -> None:
    run.remember(channel)
    run.consumed.append(call.message.number)
    run.add(call)
