"""What one transaction does of one invoker buffer, as it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from mercury.engine.context import EngineContext
from mercury.engine.dead_letters import LOST
from mercury.engine.delivery.handler_call import CallFailed, HandlerCall, Unstorable
from mercury.engine.events import Delivered, HandlerFailed
from mercury.engine.observers import Observers
from mercury.engine.source.apply_effects import dead_letter_requests
from mercury.errors import Conflict
from mercury.statemachine import effects, events
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy
from mercury.storage.api import Transaction
from mercury.storage.letters import PARKED
from mercury.storage.records import Channel, InboundKind, InboundMessage, InvokerRecord, OutboundMessage, RmdRecord


@dataclass(slots=True)
class DeliveryRun:
    """One transaction's part of one buffer."""

    record: InvokerRecord
    request: RmdRecord | None
    policy: DestinationPolicy
    markers: list[InboundMessage] = field(default_factory=list)
    messages: list[InboundMessage] = field(default_factory=list)
    #: Numbers that are never given to the application, with the reason.
    dropped: list[tuple[int, str]] = field(default_factory=list)
    consumed: list[int] = field(default_factory=list)
    #: Requests of ours whose responses were consumed.
    requests: list[OutboundMessage] = field(default_factory=list)
    #: What is to be stored for peers.
    responses: list[OutboundMessage] = field(default_factory=list)
    #: Of their payloads.
    response_bytes: int = 0
    failure: CallFailed | None = None
    #: Calls whose message the application has consumed, until that is saved.
    calls: list[HandlerCall] = field(default_factory=list)
    #: Calls that failed for good: under AtMostOnce they are not made again, even when their transaction is rolled back.
    given_up: list[CallFailed] = field(default_factory=list)
    #: What is dropped is not answered: the store may refuse the answer.
    silent: bool = False
    #: Whether it may have been handled.
    certainty: effects.Certainty = effects.Certainty.NOT_DELIVERED
    #: Bytes of rows that were lost or altered: nobody can say of which message.
    lost_bytes: int = 0
    #: What had left the buffer before, in bytes.
    left_before: int = field(init=False)
    #: Why the first message was not consumed the last time.
    error_before: str | None = field(init=False)
    #: What it had stored of responses before, in bytes.
    stored_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.stored_before = self.record.response_bytes
        self.left_before, self.error_before = self.record.consumed_bytes, self.record.last_error

    def count_bytes(self, gone: Iterable[InboundMessage]) -> None:
        """These rows leave the buffer, by what is saved now; of an attempt that was rolled back nothing counts."""
        self.record.consumed_bytes = self.left_before + self.lost_bytes + sum(message.size for message in gone)
        self.record.response_bytes = self.stored_before + sum(row.size for row in self.responses)

    def drop(self, requested: Iterable[effects.Dropped]) -> None:
        self.dropped += ((number, effect.reason) for effect in requested for number in effect.numbers)

    def give_up_interrupted(self) -> frozenset[int]:
        """What is left of a run under AtMostOnce that did not end is not called again. Returns its numbers."""
        requested = self.record.machine.handle(events.Interrupted())
        self.drop(requested)
        return frozenset(number for effect in requested for number in effect.numbers)

    def begun(self) -> None:
        """AtMostOnce: the transaction that comes before the calls is committed."""
        self.record.version += 1
        self.left_before, self.stored_before = self.record.consumed_bytes, self.record.response_bytes
        self.dropped, self.markers = [], []

    def forget(self) -> None:
        """What the calls have brought is rolled back."""
        self.consumed, self.requests, self.responses, self.calls = [], [], [], []

    def remember(self, channel: Channel | None) -> None:
        """A response went this way; the channel ends with the requests."""
        if channel is not None and not channel.plain and channel not in self.record.response_channels:
            self.record.response_channels = (*self.record.response_channels, channel)

    def add(self, call: HandlerCall) -> None:
        """Keep what is to be written for a call that was made."""
        if call.consumed_by is not None:
            self.calls.append(call)
        if call.request is not None:
            self.requests.append(call.request)
        if call.response is not None:
            self.responses.append(call.response)
            self.response_bytes += len(call.response.payload)

    def note_failure(self, now: float, chance: Callable[[], float]) -> None:
        """Keep in the record when the message that failed is tried again; without one, that nothing failed."""
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

    def emit(self, tx: Transaction, observers: Observers, now: float) -> None:
        """Emit what was delivered, and what is tried again, with the transaction that says so."""
        if observers.wants(Delivered):
            for call in self.calls:
                observers.emit(tx, call.delivered(now))
        self.calls = []
        if self.failure is not None and not isinstance(self.failure.error, Unstorable):
            self.emit_failure(tx, observers, self.failure, now, retry_at=self.record.retry_at)

    def emit_given_up(self, tx: Transaction, observers: Observers, now: float) -> None:
        """Emit with another transaction the failures that were rolled back with their own: they are not tried again."""
        failures, self.given_up = self.given_up, []
        for failure in failures:
            self.emit_failure(tx, observers, failure, now)

    def emit_failure(
        self, tx: Transaction, observers: Observers, failure: CallFailed, now: float, *, retry_at: float | None = None
    ) -> None:
        """Emit that a call has failed.

        :param retry_at: when it is made again; ``None`` = it is not.
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

    @property
    def at_most_once(self) -> bool:
        return self.policy.assurance is DeliveryAssurance.AT_MOST_ONCE


def consume_requests(tx: Transaction, run: DeliveryRun) -> None:
    """The requests whose responses were consumed wait no longer.

    :raises Conflict: another response to one of them was consumed meanwhile.
    """
    tx.rms.lock({request.channel.key for request in run.requests})
    tx.rms.prefetch(message_ids=[request.message_id for request in run.requests])
    for request in run.requests:
        row = tx.rms.row(request.message_id)
        if row is None or not row.expects_response:
            raise Conflict(f"{request.message_id} was answered meanwhile")
        tx.rms.consumed(request.message_id)
    run.requests.clear()


def lose_missing(tx: Transaction, context: EngineContext, run: DeliveryRun, now: float) -> None:
    """The sequence of responses ended with gaps: nothing will fill them, so the oldest requests wait in vain."""
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
    """The numbers that the machine has to see: with a cut all, otherwise the lowest ones and one more."""
    machine, sequence = run.record.machine, run.record.sequence
    cut = any(marker.kind is InboundKind.CUT for marker in run.markers)
    if cut or machine.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
        return list(tx.invoker.numbers(sequence).numbers())
    if machine.in_order and not machine.may_skip_gaps:
        return list(tx.invoker.numbers(sequence, machine.next, machine.next + limit).numbers())
    return list(islice(tx.invoker.numbers(sequence).numbers(), limit + 1))


def parked_reason(record: InvokerRecord) -> str:
    """Why a message died that an operator took out of the way."""
    if not record.last_error:
        return PARKED
    return f"{PARKED} after {record.attempts} failed tr{'y' if record.attempts == 1 else 'ies'}: {record.last_error}"
