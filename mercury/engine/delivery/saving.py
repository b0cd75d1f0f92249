"""Writing the results of a run, in the transaction of its calls."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from mercury.engine.context import EngineContext
from mercury.engine.delivery.calls import drop
from mercury.engine.delivery.repair import lost_bytes
from mercury.engine.delivery.responses import Answer, store_responses
from mercury.engine.delivery.run import DeliveryRun, lose_missing
from mercury.statemachine.invoker import BEHIND_A_GAP
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import Transaction
from mercury.storage.records import InboundMessage, OutboundKind, OutboundMessage

log = logging.getLogger("mercury.engine.invocation")


def pass_messages(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float) -> list[int]:
    """Note in the record what the run has consumed and dropped, with its dead letters and events. Returns the numbers.

    The caller saves the record.
    """
    passed = [*run.consumed, *(number for number, _ in run.dropped)]
    rows = _dead_letter_dropped(context, tx, run, now) | {message.number: message for message in run.messages}
    gone = [rows[number] for number in set(passed) if number in rows]
    if any(message.damaged for message in gone):
        run.lost_bytes = lost_bytes(tx, run)
    run.count_bytes(gone)
    run.note_failure(now, context.ids.chance)
    run.emit(tx, context, now)
    return passed


def respond(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float, answer: Answer) -> None:
    """Store the responses of the run."""
    if run.responses and run.request is not None:
        size = sum(row.size for row in run.responses)
        context.responses.add(run.request.owner, run.request.identifier, size)
    store_responses(context, tx, run.responses, run.request, now, answer)
    run.responses.clear()


def end_responses(context: EngineContext, tx: Transaction, run: DeliveryRun, now: float) -> None:
    """End the response sequences after everything is delivered and every response is stored ("ends of pairs")."""
    if run.record.machine.state is not InvokerState.DONE:
        return
    if run.record.service is None:
        lose_missing(tx, context, run, now)
        return
    for channel in run.record.response_channels:
        end = OutboundMessage(message_id=context.ids.new(), channel=channel, kind=OutboundKind.END, created_at=now)
        tx.rms.append(end)


def _dead_letter_dropped(
    context: EngineContext, tx: Transaction, run: DeliveryRun, now: float
) -> dict[int, InboundMessage]:
    """Make dropped messages dead letters. Returns their rows, by number."""
    rows = run.read(tx, [number for number, _ in run.dropped])
    requests = run.read_requests(tx, rows.values())
    discarded = 0
    for number, reason in run.dropped:
        if number not in rows or not rows[number].action:
            continue
        if reason == BEHIND_A_GAP and not _is_final(rows[number], requests):
            # Not acknowledged: the source still has it. As dead letters, a peer could fill the store with these.
            discarded += 1
        else:
            drop(context, tx, run, rows[number], reason, now, requests)
    if discarded:
        about = {"sequence": run.record.sequence}
        tx.after_commit(lambda: log.warning("%d messages discarded: %s", discarded, BEHIND_A_GAP, extra=about))
    return rows


def _is_final(message: InboundMessage, requests: Mapping[str, OutboundMessage]) -> bool:
    """Whether a discarded message is a response that its source cannot send again (RM-TRM-05)."""
    request = requests.get(message.relates_to or "")
    return request is not None and request.channel.reply_to.anonymous
