"""Limits on stored responses that are not acknowledged: above a limit requests are not delivered.

The limits are those on the backlog for the application (`backlog`): for one sequence of requests, for one peer, and in
all. Dead letters of a peer count for the last two. Above a limit the requests of a sequence wait, and new requests are
refused as busy by the limits on the backlog. Each sequence counts the bytes of its responses in its buffer's record,
which is written for each run. The store is queried for the actual bytes only if that count is above the sequence's
share, or if more than half of a limit is stored: many new sequences with one run each are below their shares. The
result of a query is used for at least a second, plus the bytes that this process has stored since (`StoredBytes`).
"""

from __future__ import annotations

import logging

from mercury.engine.backlog_share import share, small_amount
from mercury.engine.channels import reply_key
from mercury.engine.context import EngineContext
from mercury.engine.delivery.run import DeliveryRun
from mercury.engine.source.apply_effects import handle_rms, save_rms
from mercury.statemachine import events
from mercury.storage.api import Transaction
from mercury.storage.records import InboundMessage, InvokerRecord, RmdRecord, RmsRecord

log = logging.getLogger("mercury.engine.invocation")

#: Seconds after which the limits are checked again.
RETRY_INTERVAL = 1.0


def held_back(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float) -> bool:
    """Whether the requests of a run must wait; then only the time of the next attempt is saved."""
    request, settings = run.request, context.settings
    if request is None or is_within_share(context, tx, run, now):
        return False
    own, every = _bytes_of_peer(context, tx, request.owner, now), _bytes_of_peer(context, tx, None, now)
    stored = _bytes_of_sequence(context, tx, run, request, now, run.policy.max_backlog_bytes)
    if stored > run.policy.max_backlog_bytes:
        why = f"{stored} bytes of responses to this sequence (destination.max_backlog_bytes)"
    elif request.owner and own > settings.max_backlog_bytes_per_peer:
        why = f"{own} bytes of responses to this peer, and dead letters of it (engine.max_backlog_bytes_per_peer)"
    elif every > settings.max_backlog_bytes and (own > small_amount(settings) or not request.owner):
        why = f"{every} bytes of responses to all peers, and dead letters of them (engine.max_backlog_bytes)"
    else:
        why = ""
    # Below its share a sequence is not held back, however much the others have stored.
    run.record.response_bytes = run.responses_before = stored
    if not why:
        return False
    _wait(context, tx, run.record, now, f"not called: too many stored responses are not acknowledged: {why}")
    if any(_releasable(record) for record in tx.rms.peek(reply_key(request))):
        _release_replies(context, tx, run, request, now)
    return True


def is_within_share(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float) -> bool:
    """Whether the requests of a run cannot be held back, whatever the others have stored."""
    if not _causes_responses(context, run):
        return True
    return run.record.response_bytes <= share(context.settings) and _others_leave_room(context, tx, run, now)


def is_far_from_limits(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float) -> bool:
    """Whether no more than half of each limit is stored, so that the requests of a run need not wait.

    The count in the buffer's record only grows: above the share it becomes that of what is stored.
    """
    request, most = run.request, run.policy.max_backlog_bytes // 2
    if request is None or not _causes_responses(context, run):
        return True
    if not _others_leave_room(context, tx, run, now):
        return False
    if run.record.response_bytes > share(context.settings):
        stored = _bytes_of_sequence(context, tx, run, request, now, most)
        run.record.response_bytes = run.responses_before = stored
        return stored <= most
    return True


def _causes_responses(context: EngineContext, run: DeliveryRun) -> bool:
    """Whether responses to the messages of a run may be stored."""
    service = run.record.service
    if run.request is None or service is None:
        return False  # responses cause no responses; if they were held back, two peers could wait for each other
    return any(_may_respond(context, service, message) for message in run.messages)


def _others_leave_room(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float) -> bool:
    """Whether no more than half of the limits for the peer of a run and for all peers is stored."""
    assert run.request is not None
    settings, owner = context.settings, run.request.owner
    own, every = _bytes_of_peer(context, tx, owner, now), _bytes_of_peer(context, tx, None, now)
    return own <= settings.max_backlog_bytes_per_peer // 2 and every <= settings.max_backlog_bytes // 2


def _may_respond(context: EngineContext, service: str, message: InboundMessage) -> bool:
    """Whether a response to a message may be stored."""
    operation = context.application.operation(service, message.action)
    return operation is not None and operation.response_action is not None


def _bytes_of_peer(context: EngineContext, tx: Transaction, owner: str | None, now: float) -> int:
    """Bytes of the responses to an owner and of its dead letters; ``None`` = of all owners."""
    settings = context.settings
    limit = settings.max_backlog_bytes if owner is None else settings.max_backlog_bytes_per_peer
    responses = context.responses.owners.of(owner, now, lambda: tx.rms.response_bytes(owner), limit)
    return responses + context.letters.owners.of(owner, now, lambda: tx.dead_letters.bytes(owner))


def _bytes_of_sequence(
    context: EngineContext, tx: Transaction, run: DeliveryRun, request: RmdRecord, now: float, limit: int
) -> int:
    """Bytes of responses to the requests of one sequence.

    :param limit: see `StoredBytes.of`.
    """
    keys = [reply_key(request), *(channel.key for channel in run.record.response_channels)]
    read = tx.rms.response_bytes_of
    return context.responses.sequences.of(request.identifier, now, lambda: read(request.owner, keys), limit)


def _wait(context: EngineContext, tx: Transaction, seen: InvokerRecord, now: float, why: str) -> None:
    """Save the time of the next attempt and the reason; the buffer does not change otherwise."""
    sequence = seen.sequence
    record = tx.invoker.read(sequence)
    if record is None:
        return
    record.response_bytes = seen.response_bytes
    first = not (record.last_error or "").startswith(why.partition(":")[0])
    if first and context.held_log.allow("", now):  # `mercury sequences` shows the reason for each sequence
        log.warning(
            "the requests of a sequence wait: %s. It is logged once a minute", why, extra={"sequence": sequence}
        )
    record.retry_at, record.last_error = now + RETRY_INTERVAL, why
    tx.invoker.save_delivered(record, consumed=())


def _release_replies(context: EngineContext, tx: Transaction, run: DeliveryRun, request: RmdRecord, now: float) -> None:
    """Delete the older half of the replies outside any sequence: they are never acknowledged, but most likely fetched.

    Only if the sequence or its peer is above its limit, not for the responses to other peers.
    """
    owner, settings, key = request.owner, context.settings, reply_key(request)
    context.responses.forget(owner, request.identifier)
    own, most = _bytes_of_peer(context, tx, owner, now), run.policy.max_backlog_bytes
    stored = _bytes_of_sequence(context, tx, run, request, now, most)
    own_limit = bool(owner) and own > settings.max_backlog_bytes_per_peer and stored > share(settings)
    if stored <= most and not own_limit:
        return
    tx.rms.lock([key])
    for record in tx.rms.records(key):
        if _releasable(record):
            oldest = record.machine.acknowledged.first_missing()
            upto = (oldest + record.machine.last_number) // 2
            log.info(
                "replies %d to %d are deleted: too many bytes", oldest, upto, extra={"sequence": request.identifier}
            )
            handle_rms(tx, context, record, events.Acknowledged(((1, upto),)), now)
            save_rms(tx, record)
            context.responses.forget(owner, request.identifier)


def _releasable(record: RmsRecord) -> bool:
    """Whether there are replies that may be deleted: all but the newest."""
    machine = record.machine
    return machine.alive and record.channel.back_channel and machine.last_number > machine.acknowledged.first_missing()
