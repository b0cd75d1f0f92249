"""The InvokerBufferWorker: delivers messages to the application, each once and in order (figure 3-15).

Under ExactlyOnce the handler runs first, in the transaction; then one conditional statement saves the delivery
(decision 8). A handler that fails is rolled back to its message's savepoint; the messages before it are committed.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable
from functools import partial
from itertools import islice

from mercury.engine.context import EngineContext
from mercury.engine.cool_down import CoolDown
from mercury.engine.dead_letters import DAMAGED, dead_letter_inbound
from mercury.engine.delivery.calls import call_all, drop
from mercury.engine.delivery.failures import RefusedAfterHandler, RowMisplaced
from mercury.engine.delivery.handler_call import CallFailed, Unstorable
from mercury.engine.delivery.on_arrival import MOST_BEFORE, ArrivalDelivery
from mercury.engine.delivery.repair import lost_bytes, lost_cut
from mercury.engine.delivery.response_backlog import held_back
from mercury.engine.delivery.responses import Answer
from mercury.engine.delivery.run import (
    RUN_BYTES,
    DeliveryRun,
    acknowledge_consumed,
    consume_requests,
    relevant,
)
from mercury.engine.delivery.saving import end_responses, pass_messages, respond
from mercury.engine.delivery.several import SeveralBuffers
from mercury.engine.delivery.shared import SharedSavepoints
from mercury.engine.delivery.turns import Due, Turns
from mercury.engine.exchange import Response, Step
from mercury.engine.lost_rows import lost_rows
from mercury.errors import Conflict, DataError, StorageError, TransientStorageError
from mercury.statemachine import events
from mercury.statemachine.effects import Certainty
from mercury.statemachine.policy import DeliveryAssurance, OnFailure
from mercury.statemachine.retransmission import is_due
from mercury.storage.api import Topic, Transaction
from mercury.storage.claims import Claim
from mercury.storage.names import destination_claim
from mercury.storage.records import InboundKind

log = logging.getLogger("mercury.engine.invocation")
#: Seconds after which the due buffers are read again, to include buffers of other peers.
REREAD_INTERVAL = 1.0
#: A transaction that has responses ends for arrivals only if it has so many of them.
RESPONSES = 20
#: One run on a buffer: sequence, claim, time, and the most messages.
_RunOnce = Callable[[str, Claim, float, int], "_Done"]


class _Done(enum.Enum):
    """How much of a buffer a run has done."""

    NOTHING = enum.auto()
    #: Something, and more may be left.
    PART = enum.auto()
    #: Everything that was there.
    ALL = enum.auto()


class InvocationWorker:
    """Delivers from invoker buffers, each under its claim. Several threads may use one worker."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._turns = Turns(context)
        self._mutex = threading.Lock()
        self._cool_down = CoolDown()
        self._savepoints = SharedSavepoints()
        #: Delivers from the same buffers in the transactions of arrivals.
        self.on_arrival = ArrivalDelivery(
            context, self._turns, self._savepoints, self._cool_down, lambda responses: self.answer(responses)
        )
        self._several = SeveralBuffers(context, self._savepoints, self.on_arrival.leave)
        self._repair_at = 0.0
        #: Called when there is work for another thread.
        self.more: Callable[[], None] = _wake_none
        #: Called with responses that can leave on the connections of their requests.
        self.answer: Answer = _no_receivers

    def run_once(self, now: float) -> Step:
        """Deliver from the due buffers for a limited time: from one buffer of each peer, then from the next of each.

        The simple ones share a transaction. The remaining buffers are not claimed, and stay due.
        """
        step = Step(due=self._turns.ready_at)
        with self._turns.next(now, self._cool_down) as due:
            done, alone = self._together(due, now)
            more, learns = len(alone) > 1, not done
            busy, drained, took, began = 0, sum(done.values()), 0.0, self._context.claims.monotonic()
            step.progress += len(done)
            for sequence in alone:
                if took >= REREAD_INTERVAL or (took and learns and self._several.most(len(alone)) > 1):
                    break  # the next turn takes the others
                with self._turns.alone([sequence], due) as mine:
                    past = not mine and self._turns.is_past(sequence, due)
                    busy += not mine and not past
                    step.progress += past
                    # The time has passed since the query: the buffers before this one took long.
                    claim = self._context.claims.take(destination_claim(sequence), now + took) if mine else None
                    if claim is not None:
                        if more:
                            # Not before this thread has work: idle threads would wake each other while others are busy.
                            more = False
                            self.more()
                        self._turns.taken(due.sequences[sequence])
                        state = self._work(sequence, claim, now)
                        self._turns.served(mine if state is not _Done.NOTHING else ())
                        step.progress += state is not _Done.NOTHING
                        drained += state is _Done.ALL
                        took = self._context.claims.monotonic() - began
        step.shared = 0 < busy == len(due.sequences)
        step.drained = drained == len(due.sequences) and due.complete
        step.more = not step.drained
        self._repair_stuck(now)
        return step

    def _together(self, due: Due, now: float) -> tuple[dict[str, bool], list[str]]:
        """Deliver from the simple ones of the due buffers, in one transaction.

        Returns by sequence whether nothing was left of what was due, and those to be delivered from alone.
        """
        most = self._several.begin(len(due.sequences))
        if most < 2:
            return {}, list(due.sequences)
        ready = [sequence for sequence in due.sequences if not self._cool_down.has_failed(sequence)]
        with self._turns.alone(ready, due, most) as mine:
            claims = self._context.claims.take_all({sequence: destination_claim(sequence) for sequence in mine}, now)
            if len(claims) < 2:
                return {}, list(due.sequences)
            if self._several.needs_others and len(mine) < len(due.sequences):
                self.more()
            delivered = self._several.deliver(claims, now, self.answer)
            self._turns.served(delivered.drained)
            for sequence in delivered.drained:
                self._turns.taken(due.sequences[sequence])
        done = delivered.drained | dict.fromkeys(delivered.left, False)
        failed = [sequence for sequence in due.sequences if sequence not in ready]
        return done, [sequence for sequence in (*mine, *failed) if sequence not in done]

    def _repair_stuck(self, now: float) -> None:
        """At an interval, check buffers that wait for a number: the row of that number may be damaged and misplaced."""
        interval = self._context.settings.integrity_interval
        with self._mutex:
            if not is_due(self._repair_at, now, interval):
                return
            self._repair_at = now + interval
        for sequence in self._context.store.stuck_invoker(
            now, self._context.settings.sequence_batch, self._turns.work_filter
        ):
            with self._turns.alone([sequence]) as mine:
                claim = self._context.claims.take(destination_claim(sequence), now) if mine else None
                if claim is not None:
                    self._work(sequence, claim, now, self._repair)

    def next_due(self) -> float | None:
        """When a failed handler call is due again, or a limit on a rate lets calls pass."""
        found, ready = self._context.store.next_due(Topic.INVOKER, self._turns.work_filter), self._turns.ready_at()
        return found if ready is None or (found is not None and found <= ready) else ready

    def _work(self, sequence: str, claim: Claim, now: float, run: _RunOnce | None = None) -> _Done:
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
                # The store works and refuses a value of this message: that counts as a failed attempt.
                self._context.outages.failed(error, f"the deliveries of the buffer of {sequence}")
                if refused:
                    self._cool_down.add(sequence, now)
                    return _Done.NOTHING
                if limit == 1:
                    run, refused = partial(self._refuse, error), True
                limit = 1
            except Conflict as error:
                self._context.claims.lost(claim)
                log.info("a run is given up: %s", error, extra={"sequence": sequence})
                return _Done.NOTHING
            except StorageError as error:
                # Not a failed attempt: the run is repeated message by message, and later if that fails too.
                self._context.outages.failed(error, f"the buffer of {sequence}")
                if limit == 1 or not isinstance(error, TransientStorageError):
                    self._cool_down.add(sequence, now)
                    return _Done.NOTHING
                limit = 1
            except Exception:
                log.exception("a buffer cannot be worked on", extra={"sequence": sequence})
                self._cool_down.add(sequence, now)
                return _Done.NOTHING

    # --- one run ---------------------------------------------------------------------------------------------------

    def _run(self, sequence: str, claim: Claim, now: float, limit: int) -> _Done:
        with self._context.store.transaction() as tx:
            tx.guard(claim)
            run = self._load(tx, sequence, limit, now)
            if run is None or held_back(self._context, tx, run, now):
                return _Done.NOTHING
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
        if not run.drains:
            return _Done.PART
        self.on_arrival.leave(run.record, claim, now)
        return _Done.ALL

    def _repair(self, sequence: str, claim: Claim, now: float, limit: int) -> _Done:
        """Make misplaced rows dead letters, and continue without their messages."""
        with self._context.store.transaction() as tx:
            tx.guard(claim)
            record, request = tx.invoker.read(sequence), tx.rmd.read(sequence)
            if record is None:
                return _Done.NOTHING
            run, machine = (
                DeliveryRun(record, request, self._context.application.policy(record.service)),
                record.machine,
            )
            damaged, missing = lost_rows(tx, record, request)
            interrupted = run.give_up_interrupted()
            run.markers = damaged
            dead_letter_inbound(tx, self._context, record.service, [row for row in damaged if row.action], DAMAGED, now)
            cut, last = lost_cut(tx, run), request.machine.last_number if request is not None else None
            knows_last = last is None or machine.last is not None
            if not run.markers and not missing and not cut and knows_last:
                return _Done.NOTHING
            tx.invoker.add(cut)  # the next run takes it
            waiting = (number for number in tx.invoker.numbers(sequence).numbers() if number not in interrupted)
            for number in (*missing, *islice(waiting, limit)):
                run.drop(machine.handle(events.MessageBuffered(number=number)))
            if last is not None:
                run.drop(machine.handle(events.LastKnown(last)))
            for number in missing:
                log.error("message %d is lost: its row was damaged", number, extra={"sequence": sequence})
            run.consumed = missing
            run.lost_bytes = lost_bytes(tx, run)
            self._finish(tx, run, now)
        return _Done.PART

    def _refuse(self, error: DataError, sequence: str, claim: Claim, now: float, limit: int) -> _Done:
        """The store refuses the delivery or response of the first message: a failed attempt. After the last attempt the
        message is dropped.

        Its client gets no fault: the fault may be what the store refuses.
        """
        with self._context.store.transaction() as tx:
            tx.guard(claim)
            run = self._load(tx, sequence, limit, now)
            if run is None:
                return _Done.NOTHING
            run.silent, done = True, isinstance(error, RefusedAfterHandler)
            run.certainty = Certainty.UNKNOWN if done else Certainty.NOT_DELIVERED
            # The store may refuse dropped rows too: they get a separate run, before the messages.
            for message in run.messages[:1] if not run.dropped else ():
                failure = CallFailed(message, run.record.attempts + 1, Unstorable(str(error)))
                exhausted = run.policy.on_failure is OnFailure.SKIP and failure.attempt >= run.policy.max_attempts
                if not (exhausted or done or run.at_most_once or message.number == run.record.parked):
                    run.failure = failure
                    continue
                # The handler's work is committed: it is not called again.
                why = f"its handler has ended, but {failure}" if done else f"given up: {failure}"
                drop(self._context, tx, run, message, why, now, run.read_requests(tx, [message]))
                run.consumed.append(message.number)
            self._finish(tx, run, now)
        return _Done.PART

    def _run_at_most_once(self, run: DeliveryRun, claim: Claim, now: float) -> None:
        """Commit the begin of the calls, then call: no message is delivered twice. The rows stay until the calls end.

        After a crash or a lost claim they are still in progress: the next run gives them up.
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
                requests = run.read_requests(tx, run.messages)
                for message in run.messages:
                    drop(self._context, tx, run, message, f"given up: {error}", now, requests)
                    run.consumed.append(message.number)
                self._complete(tx, run, now)

    def _complete(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        run.record.machine.handle(events.Completed(tuple(run.consumed)))
        self._save(tx, run, now)
        self._respond(tx, run, now)
        self._end_responses(tx, run, now)

    def _load(self, tx: Transaction, sequence: str, limit: int, now: float) -> DeliveryRun | None:
        """Read the buffer, and pass new rows to its machine."""
        if limit > 1:
            services = self._context.application.services()
            most = max((self._context.application.largest_batch(each) for each in services), default=1)
            tx.invoker.expect(sequence, max(limit, most) + 1, RUN_BYTES)
        record = tx.invoker.read(sequence)
        if record is None:
            return None
        machine = record.machine
        run = DeliveryRun(record, tx.rmd.read(sequence), self._context.application.policy(record.service), now=now)
        if limit > 1:
            limit = max(limit, self._context.application.largest_batch(record.service))
        rates = self._context.rates
        left = None if rates is None else rates.callable(record.service, now)
        if left is not None:
            if not left:
                return None
            limit = min(limit, left)
        if run.reads_part:
            part = tx.invoker.part(sequence, machine.next, machine.next + limit, RUN_BYTES)
            run.markers, run.rows = part.markers, part.messages
        else:
            run.markers = tx.invoker.markers(sequence)
        if any(marker.damaged for marker in run.markers):
            raise RowMisplaced
        interrupted = run.give_up_interrupted()
        numbers = [number for number in relevant(tx, run, limit) if number not in interrupted]
        # Only the highest number can be the last message; no bodies are needed to find what is releasable.
        bodies = run.read(tx, [*numbers[: limit + 1], *numbers[-1:]])
        for number in numbers:
            last = number in bodies and bodies[number].last
            run.drop(machine.handle(events.MessageBuffered(number=number, last=last)))
        for marker in run.markers:
            event = events.LastKnown(marker.number) if marker.kind is InboundKind.END else events.Cut()
            run.drop(machine.handle(event))
        releasable = list(islice(machine.releasable(), limit))
        bodies = run.read(tx, releasable)
        run.messages = [bodies[number] for number in releasable]
        if rates is not None and run.messages:
            rates.called(record.service, len(run.messages), now)
        return run if run.messages or run.markers or run.dropped else None

    def _call_all(self, run: DeliveryRun, tx: Transaction, now: float) -> None:
        arrived = run.left + len(run.consumed)

        def goes_on() -> bool:
            # While more is left than arrivals are delivered with, they would be stored behind it: they do not wait.
            found = arrived - len(run.consumed) > MOST_BEFORE
            self._turns.go_on(run.record.sequence, goes_on=found)
            return found

        def gives_way() -> bool:
            # Not for a few responses: a transaction for each of them costs more than delivery on arrival saves.
            few = 0 < len(run.responses) < RESPONSES
            return not goes_on() and not few and self._turns.is_wanted(run.record.sequence)

        goes_on()
        call_all(self._context, [run], tx, now, self._savepoints, gives_way)

    def _finish(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        self._settle(tx, run, now)
        self._respond(tx, run, now)
        self._end_responses(tx, run, now)

    def _settle(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        """Save which messages were consumed, in the transaction that consumed them."""
        run.drop(run.record.machine.handle(events.Delivered(tuple(run.consumed))))
        self._save(tx, run, now)

    def _save(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        """Write the results of the run so far."""
        passed = pass_messages(self._context, tx, run, now)
        acknowledge_consumed(tx, self._context, run, passed, now)
        tx.invoker.save_delivered(run.record, consumed=passed, markers=run.markers)
        consume_requests(tx, run)
        if run.record.machine.finished and run.request is None:
            tx.invoker.delete(run.record.sequence)  # its sequence was deleted during the calls

    def _respond(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        respond(self._context, tx, run, now, self.answer)

    def _end_responses(self, tx: Transaction, run: DeliveryRun, now: float) -> None:
        end_responses(self._context, tx, run, now)


def _no_receivers(responses: list[Response]) -> None:
    """Default without exchanges that are held open."""


def _wake_none() -> None:
    """Default with one thread only."""
