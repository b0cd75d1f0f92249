"""Delivers messages in the transaction that receives them, so that they are not stored in between (decision 92).

Only what is simple is done like this: the next messages of sequences in order, exactly once, of services whose handlers
are quick (`call_times`), and responses whose callbacks are (decision 103). What is not delivered is stored, as if this
part did not exist, and `InvocationWorker` delivers it. If the transaction fails, its caller repeats it without this
part.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile

from mercury.engine.application import FUTURE
from mercury.engine.context import EngineContext
from mercury.engine.cool_down import CoolDown
from mercury.engine.delivery.call_times import QUICK
from mercury.engine.delivery.calls import call_all
from mercury.engine.delivery.received import Received
from mercury.engine.delivery.response_backlog import is_far_from_limits
from mercury.engine.delivery.responses import Answer
from mercury.engine.delivery.run import RUN_BYTES, DeliveryRun, consume_requests
from mercury.engine.delivery.saving import end_responses, pass_messages, respond
from mercury.engine.delivery.several import is_simple
from mercury.engine.delivery.shared import SharedSavepoints
from mercury.engine.delivery.turns import Turns
from mercury.engine.exchange import Arrival, messages_in
from mercury.engine.held_elsewhere import HeldElsewhere
from mercury.errors import Conflict, StorageError
from mercury.statemachine import events
from mercury.statemachine.policy import AcknowledgeAt
from mercury.storage.api import Transaction
from mercury.storage.claims import Claim
from mercury.storage.names import destination_claim
from mercury.storage.records import (
    InboundKind,
    InboundMessage,
    InvokerRecord,
    OutboundMessage,
    RmdRecord,
    SequenceKey,
)

#: Seconds of calls after which the rest is stored: arrivals wait for their answers meanwhile.
SECONDS = 0.2
#: The most messages that wait in a buffer before those that arrive, and are delivered with them.
MOST_BEFORE = 500
#: Seconds for which arrivals wait for a thread that delivers from the buffer that they go to.
PATIENCE = 0.1
#: After a transaction that has failed, or a wait in vain, so many transactions only store.
STORING_TURNS = 20
#: Seconds until a process tries again to reserve its first call of a service: another one delivers what arrives here.
FIRST_PAUSE = 1.0


class ArrivalDelivery:
    """Delivers on arrival. Thread-safe.

    :param turns: the buffers that threads of this process work on.
    :param savepoints: which services' calls share savepoints, and how long they take.
    :param cool_down: the buffers whose delivery has failed lately.
    :param answer: called after the commit with responses that can leave on the connections of their requests.
    """

    def __init__(
        self,
        context: EngineContext,
        turns: Turns,
        savepoints: SharedSavepoints,
        cool_down: CoolDown,
        answer: Answer,
    ) -> None:
        self.context = context
        self.turns = turns
        self.savepoints = savepoints
        self.cool_down = cool_down
        able = context.store.capabilities
        #: Whether anything may be delivered on arrival.
        self.able = able.delivers_on_arrival and context.stage is None
        #: The sequences whose messages arrive here.
        self._received = Received()
        #: The services whose first call this process has reserved for itself.
        self._first: set[str] = set()
        #: No first call is reserved before, by the monotonic clock.
        self._first_from = -math.inf
        self.answer = answer
        #: The transactions that only store before the next one delivers.
        self._storing = 0
        #: Whether the next transaction sends what a handler has left at the end of its call, which is measured.
        self._measures = False
        self._mutex = threading.Lock()
        #: The sequences of each transaction whose calls run now, and since when.
        self._calling: dict[ArrivalRun, float] = {}

    @contextmanager
    def reserved(self, sequences: Mapping[str, str | None], now: float) -> Iterator[ArrivalRun | None]:
        """Reserve the buffers of those of these sequences whose messages may be delivered in one transaction.

        The transaction begins and ends within this context; ``None`` = it only stores.

        :param sequences: the service of each; ``None`` = its messages are responses.
        """
        times = self.savepoints.times
        names = [name for name, service in sequences.items() if times.is_quick(service)] if self.able else []
        if self.able and self.context.others:
            self._received.note(sequences, self.context.claims.monotonic())
            self._claim_first(sequences, now)
        # While a call takes long, no second one is begun that could too: then no message would be received.
        if not names or self._only_stores() or self.late(SECONDS):
            yield None
            return
        if not self.turns.wait_for(names, PATIENCE) and len(names) == 1:
            self._store_only()
        with self.turns.alone(names) as mine:
            claims = self.context.claims.take_all({name: destination_claim(name) for name in mine}, now)
            if not claims:
                yield None
                return
            run = ArrivalRun(self, claims, now)
            try:
                yield run
            except HeldElsewhere:
                raise  # nothing was done
            except Exception as error:
                self._store_only()
                if isinstance(error, Conflict):  # perhaps a claim was taken away: the store is asked for it again
                    for claim in claims.values():
                        self.context.claims.lost(claim)
                raise
            finally:
                self.ended(run)
            self.turns.served(run.delivered)

    def _claim_first(self, sequences: Mapping[str, str | None], now: float) -> None:
        """Take the claim on one buffer of a service that this process has not called yet.

        Otherwise another process could deliver all that is stored here: this one would never learn that calls are
        quick, and go on to store.
        """
        known, monotonic = self.savepoints.times.knows, self.context.claims.monotonic()
        for name, service in sequences.items():
            if service is None or service in self._first or known(service) or monotonic < self._first_from:
                continue
            if self.context.claims.take(destination_claim(name), now) is not None:
                self._first.add(service)
            else:
                self._first_from = monotonic + FIRST_PAUSE

    def leave(self, record: InvokerRecord, claim: Claim, now: float) -> None:
        """Give back the claim on an empty buffer whose messages another process receives: it can deliver them on
        arrival if it has the claim."""
        if not self.able or not self.context.others or not self.savepoints.times.may_be_quick(record.service):
            return
        if is_simple(self.context, record, now) and not self._received.lately(
            record.sequence, self.context.claims.monotonic()
        ):
            try:
                self.context.claims.give_back(claim)
            except StorageError as error:
                self.context.outages.failed(error, f"the claim on the buffer of {record.sequence}")

    def seconds(self, arrival: Arrival) -> float:
        """How long the calls for an arrival will take, as far as is known; 0 = none is made on arrival."""
        return self.savepoints.times.of_quick(arrival.service) * messages_in(arrival.envelope) if self.able else 0.0

    def _only_stores(self) -> bool:
        """Whether a transaction that begins now only stores."""
        with self._mutex:
            if not self._storing:
                return False
            self._storing -= 1
            return True

    def _store_only(self) -> None:
        with self._mutex:
            self._storing = STORING_TURNS

    def began(self, run: ArrivalRun) -> None:
        """Note that the calls of a transaction begin."""
        with self._mutex:
            self._calling[run] = self.context.claims.monotonic()

    def ended(self, run: ArrivalRun) -> None:
        """Note that the calls of a transaction, if it had any, have ended, and its locks too."""
        with self._mutex:
            self._calling.pop(run, None)
            # What a handler has left may be what took long, and no call was measured with it.
            if run.left_at is not None and self.context.claims.monotonic() - run.left_at > QUICK:
                self._measures = True

    def may_wait(self) -> bool:
        """Whether what the handler of a lone message leaves to be executed later may wait for the commit."""
        with self._mutex:
            measures, self._measures = self._measures, False
        return not measures

    def late(self, seconds: float) -> frozenset[str]:
        """The sequences that transactions have locked whose calls have taken longer: arrivals of them would wait."""
        if not self._calling:
            return frozenset()
        with self._mutex:
            before = self.context.claims.monotonic() - seconds
            return frozenset(name for run, began in self._calling.items() if began <= before for name in run.locked)


class ArrivalRun:
    """The delivery in one transaction of arrivals.

    :param claims: on the buffers of these sequences, which are reserved.
    """

    def __init__(self, delivery: ArrivalDelivery, claims: Mapping[str, Claim], now: float) -> None:
        self.claims = claims
        self._delivery = delivery
        self._context = delivery.context
        self._now = now
        #: When the calls had ended, if what they have left may wait for the commit.
        self.left_at: float | None = None
        #: All sequences that the transaction has locked; those with messages for it are among them.
        self.locked: frozenset[str] = frozenset()
        #: The locked buffers, by sequence.
        self.buffers: dict[str, InvokerRecord] = {}
        #: The runs on the buffers that may be delivered from; those whose messages were passed to the application.
        self._runs: dict[str, DeliveryRun] = {}
        self._called: list[DeliveryRun] = []
        #: The runs on responses that were passed to callbacks.
        self._called_back: list[DeliveryRun] = []
        #: The rows that the reception is expected to make of responses that have arrived.
        self._expected: Sequence[InboundMessage] = ()
        #: The messages of the arrivals that were delivered, so that they are not stored.
        self.not_stored: list[InboundMessage] = []
        #: How many messages each buffer had before.
        self._before: dict[str, int] = {}

    @property
    def delivered(self) -> list[str]:
        """The sequences of which something was delivered."""
        return [run.record.sequence for run in (*self._called, *self._called_back)]

    @property
    def keys(self) -> set[SequenceKey]:
        """The keys that `respond` and `settle` lock."""
        rows = (row for run in self._called for row in run.responses)
        requests = {row.channel.key for run in self._called_back for row in run.requests}
        return requests | {row.channel.key for row in rows if row.channel.back_channel and not row.channel.plain}

    def begin(self, tx: Transaction, requests: Mapping[str, RmdRecord]) -> frozenset[str]:
        """Lock the buffers. Returns the sequences whose next messages `deliver` may take.

        :param requests: the sequences as locked, before anything of the arrivals is in them.
        """
        self.locked = frozenset(requests)
        self.buffers, paused = tx.invoker.lock(sorted(self.claims)), tx.invoker.paused()
        suspended = tx.invoker.suspended()
        for name in suspended:
            self._context.claims.lost(self.claims[name])  # the operator has it now (decision 59)
        behind: dict[str, int] = {}
        for name, record in self.buffers.items():
            request = requests.get(name)
            if request is None or record.service in paused or name in suspended:
                continue
            if not self._is_simple(record, request):
                continue
            waiting = request.machine.received.count - record.machine.passed.count
            if waiting != request.machine.received.first_missing() - record.machine.next or waiting > MOST_BEFORE:
                continue
            if waiting:
                behind[name] = waiting
            policy = self._context.application.policy(record.service)
            self._runs[name] = DeliveryRun(record, request, policy, now=self._now)
        if behind:
            self._read(tx, behind)
        return frozenset(self._runs)

    def _is_simple(self, record: InvokerRecord, request: RmdRecord) -> bool:
        """Whether a buffer has nothing that a run on it alone has to settle."""
        context = self._context
        if request.machine.final or request.machine.tombstone or record.follows is not None:
            return False
        services = context.application.services()
        if services is not None and record.service is not None and record.service not in services:
            return False
        if record.retry_at is not None or self._delivery.cool_down.has_failed(record.sequence):
            return False
        quick = self._delivery.savepoints.times.is_quick(record.service)
        return quick and is_simple(context, record, self._now)

    def _read(self, tx: Transaction, behind: Mapping[str, int]) -> None:
        """Read what waits in buffers: it comes before what arrives."""
        parts = tx.invoker.parts(behind, MOST_BEFORE, RUN_BYTES)
        for name, waiting in behind.items():
            part = parts.get(name)
            if part is None or part.markers or len(part.messages) != waiting or not _are_whole(part.messages.values()):
                del self._runs[name]
                continue
            run = self._runs[name]
            run.rows = dict(part.messages)
            for number, message in sorted(part.messages.items()):
                run.drop(run.record.machine.handle(events.MessageBuffered(number=number, last=message.last)))

    def deliver(
        self, tx: Transaction, rows: list[InboundMessage], responses: Sequence[InboundMessage]
    ) -> list[InboundMessage]:
        """Call the application for what can be delivered now, and save that; `settle` saves that of responses.

        :param rows: of the arrivals.
        :param responses: the rows that will be made of responses among them.
        :returns: the rows that are left to store.
        """
        self._before = {name: len(run.rows) for name, run in self._runs.items()}
        self._expected = responses
        for row in (*rows, *responses):
            run = self._runs.get(row.sequence)
            if run is not None and row.kind is InboundKind.MESSAGE:
                run.rows[row.number] = row
                run.drop(run.record.machine.handle(events.MessageBuffered(number=row.number, last=row.last)))
        runs = [run for run in self._runs.values() if self._plan(tx, run)]
        if not runs:
            return rows
        monotonic = self._context.claims.monotonic
        self._delivery.began(self)
        until, waits = monotonic() + SECONDS, self._delivery.may_wait()
        savepoints = self._delivery.savepoints
        call_all(self._context, runs, tx, self._now, savepoints, lambda: monotonic() >= until, waits=waits)
        if waits:
            self.left_at = monotonic()
        called = [run for run in runs if run.consumed or run.failure is not None]
        self._called = [run for run in called if run.record.service is not None]
        self._called_back = [run for run in called if run.record.service is None]
        return self._save(tx, self._called, rows)

    def settle(self, tx: Transaction, rows: list[InboundMessage]) -> list[InboundMessage]:
        """Save the delivery of responses, after they were received; the keys of their requests are locked.

        :param rows: of the arrivals.
        :returns: the rows that are left to store.
        :raises Conflict: the reception would not store a response that was expected.
        """
        if not self._expected and not self._called_back:
            return rows
        made = {(row.sequence, row.number): row for row in rows if row.kind is InboundKind.MESSAGE}
        for row in self._expected:
            if made.get((row.sequence, row.number)) is not row:
                raise Conflict(f"response {row.number} of {row.sequence} was not stored as expected")
        rows = self._save(tx, self._called_back, rows)
        for run in self._called_back:
            consume_requests(tx, run)
        return rows

    def _save(self, tx: Transaction, runs: Sequence[DeliveryRun], rows: list[InboundMessage]) -> list[InboundMessage]:
        """Save what runs have delivered. Returns the rows that are left to store."""
        for run in runs:
            tx.guard(self.claims[run.record.sequence])
            run.drop(run.record.machine.handle(events.Delivered(tuple(run.consumed))))
            passed = pass_messages(self._context, tx, run, self._now)
            if run.request is not None and run.policy.acknowledge_at is AcknowledgeAt.DELIVERY and passed:
                ranges = tuple((number, number) for number in passed)
                run.request.machine.handle(events.Consumed(ranges), self._now, run.policy)
        with_rows = [run.record for run in runs if self._before[run.record.sequence]]
        if with_rows:
            tx.invoker.save_in_order(with_rows)
        tx.invoker.save_locked([run.record for run in runs if not self._before[run.record.sequence]])
        gone = {(run.record.sequence, number) for run in runs for number in run.consumed}
        left: list[InboundMessage] = []
        for row in rows:
            is_gone = row.kind is InboundKind.MESSAGE and (row.sequence, row.number) in gone
            (self.not_stored if is_gone else left).append(row)
        return left

    def _plan(self, tx: Transaction, run: DeliveryRun) -> bool:
        """Choose the messages of a run. ``False`` = there are none."""
        numbers = run.record.machine.releasable()
        run.messages = list(takewhile(lambda row: _are_whole([row]), (run.rows[number] for number in numbers)))
        if run.record.service is None and self._before[run.record.sequence]:  # what arrives is for callbacks
            requests = run.read_requests(tx, run.messages)
            run.messages = list(takewhile(lambda row: not _has_future(row, requests), run.messages))
        return bool(run.messages) and not run.dropped and is_far_from_limits(self._context, tx, run, self._now)

    def respond(self, tx: Transaction) -> None:
        """Store the responses; the keys that they go to (`keys`) are locked."""
        for run in self._called:
            respond(self._context, tx, run, self._now, self._delivery.answer)
            end_responses(self._context, tx, run, self._now)


def _has_future(response: InboundMessage, requests: Mapping[str, OutboundMessage]) -> bool:
    """Whether a future waits for a response: what is called when it is done would be called by this thread."""
    request = requests.get(response.relates_to or "")
    return request is not None and (request.callback or "").startswith(FUTURE)


def _are_whole(messages: Iterable[InboundMessage]) -> bool:
    """Whether messages are not damaged, and have all their content with them."""
    return not any(message.damaged or message.attachments is not None for message in messages)
