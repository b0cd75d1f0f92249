"""Responses that are stored and that nobody acknowledges: above a limit no more are made.

The limits are those on what waits for the application (`backlog`), of one sequence of requests, of one peer and in all;
dead letters that a peer has caused count for the last two. Above one of them the requests of a sequence wait, and what
waits too long is refused as busy by the same limits. Each sequence counts what it has stored, in its buffer's record,
which is written anyway; the store is asked what is left of it only when that is more than its share, or when this
process has stored more than half of a limit since it asked: many new sequences with one run each have no share yet.
"""

from __future__ import annotations

import logging

from mercury.engine.backlog_share import little, share
from mercury.engine.channels import reply_channel
from mercury.engine.context import EngineContext
from mercury.engine.delivery.run import DeliveryRun
from mercury.engine.source.apply_effects import handle_rms, save_rms
from mercury.statemachine import events
from mercury.storage.api import Transaction
from mercury.storage.records import InvokerRecord, RmdRecord, SequenceKey

log = logging.getLogger("mercury.engine.invocation")

#: Seconds after which the limits are checked again.
RETRY_INTERVAL = 1.0


def held_back(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float) -> bool:
    """Whether the requests of a run have to wait; then they are due again soon, and nothing else of it is kept."""
    request, settings = run.request, context.settings
    if request is None or not run.messages or run.record.service is None:
        return False  # responses to this side's own requests bring no others: two peers would wait for each other
    half = settings.max_backlog_bytes_per_peer // 2, settings.max_backlog_bytes // 2
    if run.record.response_bytes <= share(settings) and context.stored.few(request.owner, *half):
        return False
    replies = reply_channel(request).key
    keys = [replies, *(channel.key for channel in run.record.response_channels)]
    stored, own, every = tx.rms.response_bytes(keys, request.owner)
    letters = tx.dead_letters.bytes(request.identifier, request.owner)
    own, every = own + letters.of_owner, every + letters.every
    context.stored.know(request.owner, own, every)
    if stored > run.policy.max_backlog_bytes:
        why = f"{stored} bytes of responses to this sequence (destination.max_backlog_bytes)"
    elif request.owner and own > settings.max_backlog_bytes_per_peer:
        why = f"{own} bytes of responses to this peer, and dead letters of it (engine.max_backlog_bytes_per_peer)"
    elif every > settings.max_backlog_bytes and (own > little(settings) or not request.owner):
        why = f"{every} bytes of responses to all peers, and dead letters of them (engine.max_backlog_bytes)"
    else:
        why = ""
    # Whatever the others have stored: its own count says what is left of its own.
    run.record.response_bytes = run.stored_before = stored
    if not why:
        return False
    _wait(context, tx, run.record, now, f"not called: too much is stored that nobody has fetched: {why}")
    own_limit = request.owner and own > settings.max_backlog_bytes_per_peer and stored > share(settings)
    if stored > run.policy.max_backlog_bytes or own_limit:  # never for what other peers have stored
        _release_replies(context, tx, replies, request, now)
    return True


def _wait(context: EngineContext, tx: Transaction, seen: InvokerRecord, now: float, why: str) -> None:
    """Nothing else of the buffer changes: what the run has seen is seen again."""
    sequence = seen.sequence
    record = tx.invoker.read(sequence)
    if record is None:
        return
    record.response_bytes = seen.response_bytes
    first = not (record.last_error or "").startswith(why.partition(":")[0])
    if first and context.held_said.again(now):  # `mercury sequences` has the reason of each
        log.warning(
            "the requests of a sequence wait: %s. It is logged once a minute", why, extra={"sequence": sequence}
        )
    record.retry_at, record.last_error = now + RETRY_INTERVAL, why
    tx.invoker.save_delivered(record, consumed=())


def _release_replies(context: EngineContext, tx: Transaction, key: SequenceKey, request: RmdRecord, now: float) -> None:
    """Nobody acknowledges replies outside any sequence: the older half of them was fetched long ago."""
    if not tx.rms.peek(key):
        return
    tx.rms.lock([key])
    for record in tx.rms.records(key):
        oldest, newest = record.machine.acknowledged.first_missing(), record.machine.last_number
        if record.machine.alive and record.channel.back_channel and newest > oldest:
            upto = (oldest + newest) // 2
            log.info("replies %d to %d are kept no longer", oldest, upto, extra={"sequence": request.identifier})
            handle_rms(tx, context, record, events.Acknowledged(((1, upto),)), now)
            save_rms(tx, record)
