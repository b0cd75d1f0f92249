"""The state of one transaction's work on one invoker buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import DAMAGED, LOST
from mercury.engine.delivery.handler_call import CallFailed, HandlerCall, Unstorable
from mercury.engine.events import Delivered, HandlerFailed
from mercury.engine.observers import Observers
from mercury.engine.remaining_room import count_room, has_room_again
from mercury.engine.rmd_records import save_rmd
from mercury.engine.source.apply_effects import dead_letter_requests
from mercury.errors import Conflict
from mercury.statemachine import effects, events
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy
from mercury.storage.api import Transaction
from mercury.storage.letters import PARKED
from mercury.storage.records import Channel, InboundKind, InboundMessage, InvokerRecord, OutboundMessage, RmdRecord

#: The reason of a dead letter of a message that no handler was called for in time.
EXPIRED = "expired: it was not handled within its time to live"
#: The bytes of the bodies that one run reads, if they are of more than one message and it reads in order.
RUN_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class DeliveryRun:
    """One transaction's work on one buffer."""

    record: InvokerRecord
    request: RmdRecord | None
    policy: DestinationPolicy
    markers: list[InboundMessage] = field(default_factory=list)
    messages: list[InboundMessage] = field(default_factory=list)
    #: The messages of the buffer that were read, by number.
    rows: dict[int, InboundMessage] = field(default_factory=dict)
    #: Numbers that are never given to the application, with the reason.
    dropped: list[tuple[int, str]] = field(default_factory=list)
    consumed: list[int] = field(default_factory=list)
    #: This side's requests whose responses were consumed.
    requests: list[OutboundMessage] = field(default_factory=list)
    #: Responses to be stored for peers.
    responses: list[OutboundMessage] = field(default_factory=list)
    #: Bytes of their payloads.
    response_bytes: int = 0
    failure: CallFailed | None = None
    #: Calls whose message the application has consumed and that are not saved yet.
    calls: list[HandlerCall] = field(default_factory=list)
    #: Calls that are not repeated: under AtMostOnce not even if their transaction is rolled back.
    given_up: list[CallFailed] = field(default_factory=list)
    #: Whether no fault is sent for dropped messages, because the store may refuse the fault.
    silent: bool = False
    #: Whether a dropped message may have been handled.
    certainty: effects.Certainty = effects.Certainty.NOT_DELIVERED
    #: When it began, in seconds since the epoch.
    now: float = 0.0
    #: Bytes of lost or damaged rows that belong to no known message.
    lost_bytes: int = 0
    #: The buffer's `consumed_bytes` before the run.
    consumed_before: int = field(init=False)
    #: The error of the last attempt for the first message.
    error_before: str | None = field(init=False)
    #: The bytes of stored responses before the run.
    responses_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.responses_before = self.record.response_bytes
        self.consumed_before, self.error_before = self.record.consumed_bytes, self.record.last_error

    def count_bytes(self, gone: Iterable[InboundMessage]) -> None:
        """Count rows that leave the buffer with this save; a rolled-back attempt does not count."""
        self.record.consumed_bytes = self.consumed_before + self.lost_bytes + sum(message.size for message in gone)
        self.record.response_bytes = self.responses_before + sum(row.size for row in self.responses)

    @property
    def left(self) -> int:
        """How many messages of the sequence have arrived and are not consumed; 0 = it was deleted."""
        if self.request is None:
            return 0
        return self.request.machine.received.count - self.record.machine.passed.count - len(self.consumed)

    def drop(self, requested: Iterable[effects.Dropped]) -> None:
        self.dropped += ((number, effect.reason) for effect in requested for number in effect.numbers)

    def give_up_interrupted(self) -> frozenset[int]:
        """Give up the messages of an interrupted run under AtMostOnce: they are not called again. Returns their
        numbers."""
        requested = self.record.machine.handle(events.Interrupted())
        self.drop(requested)
        return frozenset(number for effect in requested for number in effect.numbers)

    def begun(self) -> None:
        """AtMostOnce: note that the transaction before the calls is committed."""
        self.record.version += 1
        self.consumed_before, self.responses_before = self.record.consumed_bytes, self.record.response_bytes
        self.dropped, self.markers = [], []

    def forget(self) -> None:
        """Drop the results of the calls: their transaction is rolled back."""
        self.consumed, self.requests, self.responses, self.calls = [], [], [], []

    def remember(self, channel: Channel | None) -> None:
        """Remember the channel of a response: it ends with the sequence of requests."""
        if channel is not None and not channel.plain and channel not in self.record.response_channels:
            self.record.response_channels = (*self.record.response_channels, channel)

    def add(self, call: HandlerCall) -> None:
        """Add the results of a call, to be saved."""
        if call.consumed_by is not None:
            self.calls.append(call)
        if call.request is not None:
            self.requests.append(call.request)
        if call.response is not None:
            self.responses.append(call.response)
            self.response_bytes += len(call.response.payload)

    def consume(self, call: HandlerCall, channel: Channel | None) -> None:
        """Add a call whose message is consumed.

        :param channel: the channel of its response.
        """
        self.remember(channel)
        self.consumed.append(call.message.number)
        self.add(call)

    def is_never_called(self, message: InboundMessage) -> bool:
        """Whether the application is not called for a message: it is damaged, an operator has parked it, or it has
        expired."""
        return message.damaged or message.number == self.record.parked or self.is_expired(message)

    def is_expired(self, message: InboundMessage) -> bool:
        """Whether the time to live of a message has ended. Callbacks get every response."""
        return message.expires_at is not None and message.expires_at <= self.now and self.record.service is not None

    def note_failure(self, now: float, chance: Callable[[], float]) -> None:
        """Set in the record when the failed message is due again; without a failure, clear it."""
        record = self.record
        if record.parked in self.consumed:
            record.parked = None
        if self.failure is None:
            record.attempts, record.retry_at, record.last_error = 0, None, None
            return
        record.attempts = self.failure.attempt
        record.last_error = str(self.failure)
        record.retry_at = now + self.policy.redelivery.delay(record.attempts, chance())

    # --- events ----------------------------------------------------------------------------------------------------

    def emit(self, tx: Transaction, context: EngineContext, now: float) -> None:
        """Emit deliveries and failures after the commit of the transaction that saves them."""
        observers, measurements = context.observers, context.measurements
        if measurements is not None and self.calls:
            received_at = [call.message.received_at for call in self.calls]
            sent_at = [call.message.sent_at for call in self.calls]
            tx.after_commit(partial(measurements.delivered, self.record.service, received_at, sent_at))
        if observers.wants(Delivered):
            for call in self.calls:
                observers.emit(tx, call.delivered(now))
        self.calls = []
        if self.failure is not None and not isinstance(self.failure.error, Unstorable):
            self.emit_failure(tx, observers, self.failure, now, retry_at=self.record.retry_at)

    def emit_given_up(self, tx: Transaction, observers: Observers, now: float) -> None:
        """Emit, with another transaction, failures whose own transaction was rolled back; they are not retried."""
        failures, self.given_up = self.given_up, []
        for failure in failures:
            self.emit_failure(tx, observers, failure, now)

    def emit_failure(
        self, tx: Transaction, observers: Observers, failure: CallFailed, now: float, *, retry_at: float | None = None
    ) -> None:
        """Emit that a call has failed.

        :param retry_at: the time of the next attempt; ``None`` = no other attempt.
        """
        if retry_at is None:
            self.given_up.append(failure)
        message = failure.message
        event = HandlerFailed(
            at=now,
            sequence=message.sequence,
            number=message.number,
            message_id=message.message_id,
            service=self.record.service,
            action=message.action,
            handler=failure.handler,
            attempt=failure.attempt,
            error=failure.error,
            repeated=failure.attempt > 1 and self.error_before == str(failure),
            retry_at=retry_at,
        )
        observers.emit(tx, event)

    def read(self, tx: Transaction, numbers: Iterable[int]) -> dict[int, InboundMessage]:
        """The messages of the buffer with these numbers; reads those that were not read before."""
        wanted = list(numbers)
        unread = [number for number in wanted if number not in self.rows]
        if unread:
            self.rows |= tx.invoker.messages(self.record.sequence, unread)
        return {number: self.rows[number] for number in wanted if number in self.rows}

    def read_requests(self, tx: Transaction, messages: Iterable[InboundMessage]) -> dict[str, OutboundMessage]:
        """The requests of this side that these messages answer, as committed."""
        if self.record.service is not None:
            return {}
        return tx.rms.rows({message.relates_to for message in messages if message.relates_to})

    def waiting_request(
        self, message: InboundMessage, requests: Mapping[str, OutboundMessage]
    ) -> OutboundMessage | None:
        """The one of these requests that a response answers, unless it has been answered before."""
        row = requests.get(message.relates_to or "")
        if row is None or not row.expects_response:
            return None
        return row if all(request.message_id != row.message_id for request in self.requests) else None

    @property
    def reads_part(self) -> bool:
        """Whether only the messages that follow the last delivered one without a gap can be delivered."""
        return self.record.machine.in_order and not self.record.machine.may_skip_gaps

    @property
    def drains(self) -> bool:
        """Whether nothing was left in the buffer when the run has read it: what came later is announced by its
        commit."""
        if self.markers or self.dropped or self.request is None or not self.reads_part:
            return False
        return self.record.machine.next >= self.request.machine.received.first_missing()

    @property
    def at_most_once(self) -> bool:
        return self.policy.assurance is DeliveryAssurance.AT_MOST_ONCE


def consume_requests(tx: Transaction, run: DeliveryRun) -> None:
    """Save that the responses to some requests were consumed.

    :raises Conflict: another response to one of them was consumed meanwhile.
    """
    tx.rms.lock({request.channel.key for request in run.requests})
    rows = tx.rms.rows([request.message_id for request in run.requests])
    for request in run.requests:
        row = rows.get(request.message_id)
        if row is None or not row.expects_response:
            raise Conflict(f"{request.message_id} was answered meanwhile")
        tx.rms.consumed(request.message_id)
    run.requests.clear()


def acknowledge_consumed(
    tx: Transaction, context: EngineContext, run: DeliveryRun, numbers: Sequence[int], now: float
) -> None:
    """Lock the run's sequence if it acknowledges what is consumed, or tells its source that there is room again."""
    acknowledge_all_consumed(tx, context, [(run, numbers)], now)


def acknowledge_all_consumed(
    tx: Transaction, context: EngineContext, passed: Sequence[tuple[DeliveryRun, Sequence[int]]], now: float
) -> None:
    """As `acknowledge_consumed` for several runs, each with the numbers that are consumed."""
    at_delivery = {
        run.record.sequence: numbers
        for run, numbers in passed
        if run.policy.acknowledge_at is AcknowledgeAt.DELIVERY and numbers
    }
    runs = {
        run.record.sequence: run
        for run, _ in passed
        if run.record.sequence in at_delivery or (run.request is not None and run.request.machine.room is not None)
    }
    if not runs:
        return
    for sequence, request in tx.rmd.lock(runs).items():
        run = runs[sequence]
        if numbers := at_delivery.get(sequence):
            ranges = tuple((number, number) for number in numbers)
            request.machine.handle(events.Consumed(ranges), now, context.application.policy(request.service))
        room_again = has_room_again(context, request, run.record)
        if room_again:
            count_room(context, request, run.record, now)
        if numbers or room_again:
            save_rmd(tx, context, request)
            run.request = request  # the responses carry its current acknowledgement


def lose_missing(tx: Transaction, context: EngineContext, run: DeliveryRun, now: float) -> None:
    """Dead-letter requests whose responses are lost in gaps of an ended response sequence: as many of the oldest
    unanswered requests as numbers are missing."""
    ended = run.request
    if not run.record.machine.cut or ended is None:
        return
    received = ended.machine.received
    missing = max(ended.machine.last_number or 0, received.highest) - received.count
    for channel in run.record.response_channels if missing > 0 else ():
        tx.rms.lock([channel.key])
        for record in tx.rms.records(channel.key):
            if record.offered == run.record.sequence:
                lost = [row for row in tx.rms.unanswered(record) if row.acknowledged][:missing]
                dead_letter_requests(tx, context, record, lost, LOST, now)


def relevant(tx: Transaction, run: DeliveryRun, limit: int) -> list[int]:
    """The numbers to pass to the machine: all if the sequence was cut, otherwise the lowest ``limit`` and one more.

    If `DeliveryRun.reads_part`, these are the numbers of the rows that were read.
    """
    machine, sequence = run.record.machine, run.record.sequence
    cut = any(marker.kind is InboundKind.CUT for marker in run.markers)
    if cut or machine.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
        return list(tx.invoker.numbers(sequence).numbers())
    if run.reads_part:
        return sorted(run.rows)
    return list(islice(tx.invoker.numbers(sequence).numbers(), limit + 1))


def reason_of(run: DeliveryRun, message: InboundMessage) -> str:
    """Why the application is never called for a message (`DeliveryRun.is_never_called`)."""
    if message.number == run.record.parked:
        return parked_reason(run.record)
    return DAMAGED if message.damaged else EXPIRED


def parked_reason(record: InvokerRecord) -> str:
    """The reason of a dead letter that an operator parked."""
    if not record.last_error:
        return PARKED
    return f"{PARKED} after {record.attempts} failed tr{'y' if record.attempts == 1 else 'ies'}: {record.last_error}"
