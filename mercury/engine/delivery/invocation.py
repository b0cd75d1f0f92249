"""The InvokerBufferWorker: gives messages to the application, each once and in order (figure 3-15).

Under ExactlyOnce the handler runs first, in the transaction; then one conditional statement marks the delivery
(decision 8). A handler that fails is rolled back to its message's savepoint; the messages before it commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

from mercury.engine.context import EngineContext
from mercury.engine.cool_down import CoolDown
from mercury.engine.dead_letters import DAMAGED, dead_letter_inbound
from mercury.engine.delivery.failures import RefusedAfterHandler, RowMisplaced
from mercury.engine.delivery.handler_call import CallFailed, HandlerCall, Unstorable
from mercury.engine.delivery.repair import lost_bytes, lost_rows
from mercury.engine.delivery.response_backlog import held_back
from mercury.engine.delivery.responses import Answer, store_responses
from mercury.engine.delivery.run import DeliveryRun, consume_requests, lose_missing, parked_reason, relevant
from mercury.engine.delivery.turns import Turns
from mercury.engine.exchange import Response, Step
from mercury.engine.rmd_records import save_rmd
from mercury.errors import Conflict, DataError, StorageError, TransientStorageError
from mercury.statemachine import events
from mercury.statemachine.effects import Certainty
from mercury.statemachine.invoker import BEHIND_A_GAP
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, OnFailure
from mercury.statemachine.retransmission import is_due
from mercury.statemachine.tables import InvokerState
from mercury.storage.api import Topic, Transaction
from mercury.storage.claims import Claim
from mercury.storage.records import InboundKind, InboundMessage, OutboundKind, OutboundMessage

log = logging.getLogger("mercury.engine.invocation")
#: Bytes of responses after which a run ends.
RESPONSE_BYTES = 8 * 1024 * 1024
#: Seconds after which the due buffers are read again: another peer may have sent something.
REREAD_INTERVAL = 1.0
#: One turn at a buffer: its sequence, the claim, the time, how many messages. Returns how much was done.
_RunOnce = Callable[[str, Claim, float, int], int]


class InvocationWorker:
    """Works on invoker buffers, one at a time under its claim. Several threads may use one worker."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._turns = Turns(context)
        self._mutex = threading.Lock()
        self._cool_down = CoolDown()
        self._looks_at = 0.0
        #: Is called when there is work for another thread.
        self.more: Callable[[], None] = _wake_none
        #: Is called with responses that can go out on the connections of their requests.
        self.answer: Answer = _no_receivers

    def run_once(self, now: float) -> Step:
        """Invoke what is due of one buffer after the other: of each peer one, then of each the next, for a while.

        What is left then is nobody's yet, and comes in its turn.
        """
        step = Step()
        sequences = self._turns.next(now)
        if len(sequences) > 1:
            self.more()
        busy, took, began = 0, 0.0, self._context.claims.monotonic()
        for sequence, peer in sequences.items():
            if took >= REREAD_INTERVAL:
                break
            if self._cool_down.waits(sequence, now):
                continue
            with self._turns.alone(sequence) as alone:
                busy += not alone
                # The buffers before it have taken their time.
                claim = self._context.claims.take(f"invoker {sequence}", now + took) if alone else None
                if claim is not None:
                    self._turns.taken(peer)
                    step.progress += self._work(sequence, claim, now)
                    took = self._context.claims.monotonic() - began
        step.shared = 0 < busy == len(sequences)
        self._repair_stuck(now)
        return step

    def _repair_stuck(self, now: float) -> None:
        """Now and then: a row that the store gives back altered may be what a buffer waits for in vain."""
        interval = self._context.settings.integrity_interval
        with self._mutex:
            if not is_due(self._looks_at, now, interval):
                return
            self._looks_at = now + interval
        for sequence in self._context.store.stuck_invoker(
            now, self._context.settings.sequence_batch, self._turns.work_filter
        ):
            with self._turns.alone(sequence) as alone:
                claim = self._context.claims.take(f"invoker {sequence}", now) if alone else None
                if claim is not None:
                    self._work(sequence, claim, now, self._repair)

    def next_due(self) -> float | None:
        """When a failing handler is to be tried again."""
        return self._context.store.next_due(Topic.INVOKER, self._turns.work_filter)

    def _work(self, sequence: str, claim: Claim, now: float, run: _RunOnce | None = None) -> int:
        limit, run = self._context.settings.invoke_batch, run or self._run
        refused = False
        while True:
            try:
                done = run(sequence, claim, now, limit)
                self._cool_down.worked(sequence)
                return done
            except RowMisplaced:
                run = self._repair
            except DataError as error:
                # The store works: it is the doing of a message, and an attempt of it.
                self._context.outages.failed(error, f"what the buffer of {sequence} brings")
                if refused:
                    self._cool_down.add(sequence, now)
                    return 0
                if limit == 1:
                    run, refused = partial(self._refuse, error), True
                limit = 1
            except Conflict as error:
                self._context.claims.lost(claim)
                log.info("a run is given up: %s", error, extra={"sequence": sequence})
                return 0
            except StorageError as error:
                # It never counts as an attempt: the run is repeated message by message, then left for later.
                self._context.outages.failed(error, f"the buffer of {sequence}")
                if limit == 1 or not isinstance(error, TransientStorageError):
                    self._cool_down.add(sequence, now)
                    return 0
                limit = 1
            except Exception:
                log.exception("a buffer cannot be worked on", extra={"sequence": sequence})
                self._cool_down.add(sequence, now)
                return 0

    # --- one run ---------------------------------------------------------------------------------------------------

    def _run(self, sequence: str, claim: Claim, now: float, limit: int) -> int:
        with self._context.store.transaction() as tx:
            tx.guard(claim)
            run = self._load(tx, sequence, limit)
            if run is None or held_back(self._context, tx, run, now):
                return 0
            assurance = run.policy.assurance if run.messages else DeliveryAssurance.EXACTLY_ONCE
            if assurance is DeliveryAssurance.EXACTLY_ONCE:
                self._call_all(run, tx, now)
                self._finish(tx, run, now)
        if assurance is DeliveryAssurance.AT_LEAST_ONCE:
            with self._context.store.transaction() as tx:
                self._call_all(run, tx, now)
            try:
                with self._context.store.transaction() as tx:  # with the responses: a repeated handler adds none
                    tx.guard(claim)
                    self._finish(tx, run, now)
            except DataError as error:
                raise RefusedAfterHandler(str(error)) from error
        elif assurance is DeliveryAssurance.AT_MOST_ONCE:
            with self._context.claims.held(claim):
                self._run_at_most_once(run, claim, now)
        return 1

    def _repair(self, sequence: str, claim: Claim, now: float, limit: int) -> int:
        """Put aside the rows that have lost their place, and go on without the messages that were in them."""
        with self._context.store.transaction() as tx:
            tx.guard(claim)
            record, request = tx.invoker.read(sequence), tx.rmd.read(sequence)
            if record is None:
                return 0
            run, machine = (
                DeliveryRun(record, request, self._context.application.policy(record.service)),
                record.machine,
            )
            damaged, missing = lost_rows(tx, record, request)
            interrupted = run.give_up_interrupted()
            run.markers = damaged
            dead_letter_inbound(tx, self._context, record.service, [row for row in damaged if row.action], DAMAGED, now)
            if not run.markers and not missing:
                return 0
            waiting = (number for number in tx.invoker.numbers(sequence).numbers() if number not in interrupted)
            for number in (*missing, *islice(waiting, limit)):
                run.drop(machine.handle(events.MessageBuffered(number=number)))
            if request is not None and request.machine.last_number is not None:
                run.drop(machine.handle(events.LastKnown(request.machine.last_number)))
            for number in missing:
                log.error("message %d is gone: its row was damaged", number, extra={"sequence": sequence})
            run.consumed = missing
            run.lost_bytes = lost_bytes(tx, run)
            self._finish(tx, run, now)
        return 1

    def _refuse(self, error: DataError, sequence: str, claim: Claim, now: float, limit: int) -> int:
        """The store refuses what comes of the first message: a failed try. When there are no more, it is let go.

        It is not answered any more: the answer may be what is refused.
        """
        with self._context.store.transaction() as tx:
            tx.guard(claim)
            run = self._load(tx, sequence, limit)
            if run is None:
                return 0
            run.silent, done = True, isinstance(error, RefusedAfterHandler)
            run.certainty = Certainty.UNKNOWN if done else Certainty.NOT_DELIVERED
            # What is dropped may be what is refused: it goes alone, and a message has its turn afterwards.
            for message in run.messages[:1] if not run.dropped else ():
                failure = CallFailed(message, run.record.attempts + 1, Unstorable(str(error)))
                exhausted = run.policy.on_failure is OnFailure.SKIP and failure.attempt >= run.policy.max_attempts
                if not (exhausted or done or run.at_most_once or message.number == run.record.parked):
                    run.failure = failure
                    continue
                # Its handler is not called again for what it has done.
                why = f"its handler has ended, but {failure}" if done else f"given up: {failure}"
                self._drop(tx, run, message, why, now)
                run.consumed.append(message.number)
            self._finish(tx, run, now)
        return 1

    def _run_at_most_once(self, run: DeliveryRun, claim: Claim, now: float) -> None:
        """Mark, then call: nothing is called twice. The rows stay until the calls have ended.

        A crash leaves them in progress, and so does a lost claim: the next run gives them up.
        """
        with self._context.store.transaction() as tx:
            tx.guard(claim)
            run.drop(run.record.machine.handle(events.Begun(tuple(message.number for message in run.messages))))
            self._save(tx, run, now)
            self._respond(tx, run, now)
        run.begun()
        try:
            with self._context.store.transaction() as tx:
                tx.guard(claim)
                self._call_all(run, tx, now)
                self._complete(tx, run, now)
        except Conflict:
            raise
        except StorageError as error:
            log.warning("a run is lost: %s", error, extra={"sequence": run.record.sequence})
            run.forget()
            with self._context.store.transaction() as tx:
                tx.guard(claim)
                run.emit_given_up(tx, self._context.observers, now)
                for message in run.messages:
                    self._drop(tx, run, message, f"given up: {error}", now)
                    run.consumed.append(message.number)
                self._complete(tx, run, now)

    def _complete(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        run.record.machine.handle(events.Completed(tuple(run.consumed)))
        self._save(tx, run, now)
        self._respond(tx, run, now)
        self._end_responses(tx, run, now)

    def _load(self, tx: Transaction, sequence: str, limit: int) -> DeliveryRun | None:
        """Read the buffer and let its machine see what has come since."""
        record = tx.invoker.read(sequence)
        if record is None:
            return None
        machine = record.machine
        run = DeliveryRun(record, tx.rmd.read(sequence), self._context.application.policy(record.service))
        if machine.in_order and not machine.may_skip_gaps:
            tx.invoker.prefetch_messages(sequence, machine.next, machine.next + limit)
        run.markers = tx.invoker.markers(sequence)
        if any(marker.damaged for marker in run.markers):
            raise RowMisplaced
        interrupted = run.give_up_interrupted()
        numbers = [number for number in relevant(tx, run, limit) if number not in interrupted]
        # Only the highest can be the last; the bodies of a long buffer are not needed to see what is releasable.
        bodies = tx.invoker.messages(sequence, [*numbers[: limit + 1], *numbers[-1:]])
        for number in numbers:
            last = number in bodies and bodies[number].last
            run.drop(machine.handle(events.MessageBuffered(number=number, last=last)))
        for marker in run.markers:
            event = events.LastKnown(marker.number) if marker.kind is InboundKind.END else events.Cut()
            run.drop(machine.handle(event))
        releasable = list(islice(machine.releasable(), limit))
        bodies |= tx.invoker.messages(sequence, [number for number in releasable if number not in bodies])
        run.messages = [bodies[number] for number in releasable]
        if record.service is None:
            tx.rms.prefetch(message_ids=[message.relates_to for message in run.messages if message.relates_to])
        return run if run.messages or run.markers or run.dropped else None

    def _call_all(self, run: DeliveryRun, tx: Transaction, now: float) -> None:
        """Call the application for each message of the run, up to the first that has to be tried again."""
        enough = self._context.claims.run()
        for index, message in enumerate(run.messages):
            if index and not run.at_most_once and (enough() or run.response_bytes >= RESPONSE_BYTES):
                return  # before the claim is over, or memory is full: what is left is for the next run
            attempt = run.record.attempts + 1 if index == 0 else 1
            answered = {request.message_id for request in run.requests}
            call = HandlerCall(self._context, run.record, run.request, message, attempt, answered)
            if message.number == run.record.parked:
                self._drop(tx, run, message, parked_reason(run.record), now)
                run.consumed.append(message.number)
                continue
            if message.damaged:
                self._drop(tx, run, message, DAMAGED, now)
                run.consumed.append(message.number)
                continue
            try:
                channel = call.make(tx, now)
            except CallFailed as failure:
                skips = run.policy.on_failure is OnFailure.SKIP and failure.attempt >= run.policy.max_attempts
                if not skips and not run.at_most_once:
                    run.failure = failure
                    return
                run.emit_failure(tx, self._context.observers, failure, now)
                channel = call.drop(tx, f"given up: {failure}", now)
            run.remember(channel)
            run.consumed.append(message.number)
            run.add(call)

    def _drop(self, tx: Transaction, run: DeliveryRun, message: InboundMessage, reason: str, now: float) -> None:
        """The application never gets this message, nor does it come again."""
        answered = {request.message_id for request in run.requests}
        call = HandlerCall(self._context, run.record, run.request, message, 1, answered)
        run.remember(call.drop(tx, reason, now, answers=not run.silent, certainty=run.certainty))
        run.add(call)

    def _finish(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        self._settle(tx, run, now)
        self._respond(tx, run, now)
        self._end_responses(tx, run, now)

    def _settle(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        """Mark what was consumed, in the transaction that consumed it."""
        run.drop(run.record.machine.handle(events.Delivered(tuple(run.consumed))))
        self._save(tx, run, now)

    def _save(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        """Write what has become of the run so far."""
        record, machine = run.record, run.record.machine
        passed = [*run.consumed, *(number for number, _ in run.dropped)]
        if run.policy.acknowledge_at is AcknowledgeAt.DELIVERY and passed:
            self._acknowledge(tx, run, passed, now)
        rows = self._dead_letter_dropped(tx, run, now) | {message.number: message for message in run.messages}
        gone = [rows[number] for number in set(passed) if number in rows]
        if any(message.damaged for message in gone):
            run.lost_bytes = lost_bytes(tx, run)
        run.count_bytes(gone)
        run.note_failure(now, self._context.ids.chance)
        run.emit(tx, self._context.observers, now)
        tx.invoker.save_delivered(record, consumed=passed, markers=run.markers)
        consume_requests(tx, run)
        if machine.state is InvokerState.DONE and run.request is None and not machine.in_progress:
            tx.invoker.delete(record.sequence)  # its sequence was forgotten while the application was slow

    def _respond(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        if run.responses and run.request is not None:
            self._context.stored.add(run.request.owner, sum(row.size for row in run.responses))
        store_responses(self._context, tx, run.responses, run.request, now, self.answer)
        run.responses.clear()

    def _end_responses(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        """ "Ends of pairs": everything is delivered and every response is stored."""
        if run.record.machine.state is not InvokerState.DONE:
            return
        if run.record.service is None:
            lose_missing(tx, self._context, run, now)
            return
        for channel in run.record.response_channels:
            end = OutboundMessage(
                message_id=self._context.ids.new(), channel=channel, kind=OutboundKind.END, created_at=now
            )
            tx.rms.append(end)

    def _dead_letter_dropped(self, tx: Transaction, run: DeliveryRun, now: float) -> dict[int, InboundMessage]:
        """Returns the rows of what was dropped, by number."""
        rows = tx.invoker.messages(run.record.sequence, [number for number, _ in run.dropped])
        discarded = 0
        for number, reason in run.dropped:
            if number not in rows or not rows[number].action:
                continue
            if reason == BEHIND_A_GAP and not self._is_final(tx, run, rows[number]):
                # Its source knows and still has it. Kept here, it would fill the store at a peer's will.
                discarded += 1
            else:
                self._drop(tx, run, rows[number], reason, now)
        if discarded:
            about = {"sequence": run.record.sequence}
            tx.after_commit(lambda: log.warning("%d messages discarded: %s", discarded, BEHIND_A_GAP, extra=about))
        return rows

    def _is_final(self, tx: Transaction, run: DeliveryRun, message: InboundMessage) -> bool:
        """Whether what is discarded is a response that its source has no way to send again (RM-TRM-05)."""
        request = tx.rms.row(message.relates_to) if run.record.service is None and message.relates_to else None
        return request is not None and request.channel.reply_to.anonymous

    def _acknowledge(self, tx: Transaction, run: DeliveryRun, numbers: Iterable[int], now: float) -> None:
        for request in tx.rmd.lock([run.record.sequence]).values():
            ranges = tuple((number, number) for number in numbers)
            request.machine.handle(events.Consumed(ranges), now, self._context.application.policy(request.service))
            save_rmd(tx, self._context, request)
            run.request = request  # the responses acknowledge what it says now


def _no_receivers(responses: list[Response]) -> None:
    """No exchange is held open."""


def _wake_none() -> None:
    """One thread does it all."""
