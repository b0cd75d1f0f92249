"""Delivery from several buffers in one transaction (decision 52).

Only what is simple is done like this: messages in order, exactly once, of services whose handlers are quick
(`call_times`). Everything else, and everything after a failure of the transaction, is left to a run on one buffer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from mercury.engine.context import EngineContext
from mercury.engine.delivery.call_times import TOGETHER_SECONDS
from mercury.engine.delivery.calls import call_all
from mercury.engine.delivery.response_backlog import is_within_share
from mercury.engine.delivery.responses import Answer
from mercury.engine.delivery.run import RUN_BYTES, DeliveryRun, acknowledge_all_consumed
from mercury.engine.delivery.saving import end_responses, pass_messages, respond
from mercury.engine.delivery.shared import SharedSavepoints
from mercury.statemachine import events
from mercury.statemachine.policy import DeliveryAssurance
from mercury.storage.api import Transaction
from mercury.storage.buffers import BufferPart
from mercury.storage.claims import Claim
from mercury.storage.records import InvokerRecord, RmdRecord

log = logging.getLogger("mercury.engine.invocation")

#: About how many messages of all buffers one transaction reads.
MESSAGES = 200
#: After a transaction that has failed, so many turns deliver from each buffer alone.
ALONE_TURNS = 20


#: Gives the claim on an empty buffer back where another process should have it; see `ArrivalDelivery.leave`.
Leave = Callable[[InvokerRecord, Claim, float], None]


@dataclass(slots=True)
class Delivered:
    """What one transaction has done."""

    #: By sequence, whether nothing was left in its buffer.
    drained: dict[str, bool] = field(default_factory=dict)
    #: The sequences whose time did not come; they stay due.
    left: list[str] = field(default_factory=list)


class SeveralBuffers:
    """Delivers from several buffers in one transaction. Several threads may use it.

    :param leave: called with each buffer that is empty, and its claim.
    """

    def __init__(self, context: EngineContext, savepoints: SharedSavepoints, leave: Leave) -> None:
        self._context = context
        self._savepoints = savepoints
        self._leave = leave
        #: The turns that remain after a failure.
        self._alone_turns = 0

    def begin(self, due: int) -> int:
        """Begin a turn. Returns how many of so many due buffers `deliver` may take; below two it is of no use."""
        if self._alone_turns:
            self._alone_turns -= 1
            return 0
        return self.most(due) if due > 1 else 0

    def most(self, due: int) -> int:
        """What `begin` would return."""
        return 0 if self._alone_turns else self._savepoints.times.most(due)

    @property
    def needs_others(self) -> bool:
        """Whether other threads are of use meanwhile."""
        return not self._savepoints.times.are_quick

    def deliver(self, claims: Mapping[str, Claim], now: float, answer: Answer) -> Delivered:
        """Deliver from those of these buffers that are simple.

        :param claims: by sequence, in the order of service.
        :param answer: called after the commit with responses that can leave on the connections of their requests.
        """
        try:
            return self._commit(claims, now, answer)
        except Exception as error:
            text = "a delivery from up to %d buffers has failed, and each is delivered from alone: %r"
            log.info(text, len(claims), error)
            self._alone_turns = ALONE_TURNS
            return Delivered()

    def _commit(self, claims: Mapping[str, Claim], now: float, answer: Answer) -> Delivered:
        monotonic = self._context.claims.monotonic
        with self._context.store.transaction() as tx:
            runs = self._load(tx, list(claims), now)
            if len(runs) < 2:
                return Delivered()
            until = monotonic() + TOGETHER_SECONDS
            call_all(self._context, runs, tx, now, self._savepoints, lambda: monotonic() >= until)
            called = [run for run in runs if run.consumed or run.failure is not None]
            for run in called:
                tx.guard(claims[run.record.sequence])
            self._save(tx, called, now, answer)
        for run in called:
            if run.drains:
                self._leave(run.record, claims[run.record.sequence], now)
        delivered = Delivered({run.record.sequence: run.drains for run in called})
        delivered.left += (run.record.sequence for run in runs if run.record.sequence not in delivered.drained)
        return delivered

    def _load(self, tx: Transaction, sequences: Sequence[str], now: float) -> list[DeliveryRun]:
        times = self._savepoints.times
        records = {
            name: each
            for name, each in tx.invoker.read_many(sequences).items()
            if each.service is not None and times.may_share(each.service) and is_simple(self._context, each, now)
        }
        if len(records) < 2:
            return []
        requests = tx.rmd.read_many(records)
        application, most = self._context.application, -(-MESSAGES // len(records))
        largest = max(application.largest_batch(record.service) for record in records.values())
        most = max(min(most, self._context.settings.invoke_batch), largest)
        parts = tx.invoker.parts(records, most, RUN_BYTES)
        runs = []
        for sequence in sequences:
            request, part = requests.get(sequence), parts.get(sequence)
            if request is None or part is None or part.markers:
                continue
            run = self._run(records[sequence], request, part, most, now)
            if run is not None and is_within_share(self._context, tx, run, now):
                runs.append(run)
        return runs

    def _run(
        self, record: InvokerRecord, request: RmdRecord, part: BufferPart, most: int, now: float
    ) -> DeliveryRun | None:
        policy = self._context.application.policy(record.service)
        run = DeliveryRun(record, request, policy, rows=part.messages, now=now)
        for number, message in sorted(part.messages.items()):
            run.drop(record.machine.handle(events.MessageBuffered(number=number, last=message.last)))
        run.messages = [part.messages[number] for number in islice(record.machine.releasable(), most)]
        if not run.messages or run.dropped or any(message.damaged for message in run.messages):
            return None
        return run

    def _save(self, tx: Transaction, runs: Sequence[DeliveryRun], now: float, answer: Answer) -> None:
        """Save all runs; the locks of each kind are taken together, in the order of locks."""
        passed = []
        for run in runs:
            run.drop(run.record.machine.handle(events.Delivered(tuple(run.consumed))))
            passed.append((run, pass_messages(self._context, tx, run, now)))
        acknowledge_all_consumed(tx, self._context, passed, now)
        tx.invoker.save_in_order([run.record for run in runs])
        rows = [row for run in runs for row in run.responses]
        tx.rms.lock({row.channel.key for row in rows if row.channel.back_channel and not row.channel.plain})
        for run in runs:
            respond(self._context, tx, run, now, answer)
            end_responses(self._context, tx, run, now)


def is_simple(context: EngineContext, record: InvokerRecord, now: float) -> bool:
    """Whether a buffer has nothing that a run on it alone has to settle."""
    machine = record.machine
    in_order = machine.in_order and not machine.may_skip_gaps and not machine.in_progress
    if not in_order or record.attempts or record.parked is not None:
        return False
    rates = context.rates if record.service is not None else None
    if rates is not None and rates.callable(record.service, now) is not None:
        return False  # a limit on its rate counts the calls of each run
    return context.application.policy(record.service).assurance is DeliveryAssurance.EXACTLY_ONCE
