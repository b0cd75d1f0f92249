"""RMDSequence: the destination's side of one sequence. Pure; see `rms`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from mercury.statemachine import effects, events
from mercury.statemachine.effects import RmdEffect
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.messages import SequenceAcknowledgement
from mercury.statemachine.policy import AcknowledgeAt, DestinationPolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.table import Kind
from mercury.statemachine.tables import RMD, RmdEvent, RmdState


@dataclass
class RMDSequence:
    """The counters of a sequence at its destination, and its state. Times are seconds since the epoch."""

    identifier: str
    rm: RmVersion
    last_heard: float
    state: RmdState = RmdState.CREATED
    #: C: no new number is taken; every acknowledgement is final.
    closed: bool = False
    #: FMR: the source has used the identifier, so it knows it.
    used: bool = False
    received: RangeSet = field(default_factory=RangeSet)
    #: What the application has consumed; kept only when acknowledging at delivery.
    consumed: RangeSet = field(default_factory=RangeSet)
    #: Nothing behind a gap is acknowledged; see `DestinationPolicy.acknowledges_in_order`.
    in_order_only: bool = False
    #: LMR: the last number there will be; 0 = the sequence ended without a message.
    last_number: int | None = None
    #: TMR: when it ended.
    ended_at: float | None = None
    expires_at: float | None = None
    #: When an acknowledgement is due, and for how many new messages.
    ack_due: float | None = None
    unacknowledged: int = 0

    # --- questions -------------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """EMR: every message up to the last number was received."""
        return self.last_number is not None and self.received.covers(1, self.last_number)

    @property
    def tombstone(self) -> bool:
        return self.ended_at is not None

    @property
    def final(self) -> bool:
        """Whether the ranges cannot change any more."""
        return self.closed or self.tombstone

    def predicate(self) -> str:
        """The tuple that the counters spell: always the state's value."""
        factors = (self.used, self.last_number is not None, self.complete, self.ended_at is not None)
        return "".join("01"[factor] for factor in factors)

    def acknowledgement(self, policy: DestinationPolicy) -> SequenceAcknowledgement:
        """What this side vouches for now. Once final, everything received counts, consumed or not."""
        at_delivery = policy.acknowledge_at is AcknowledgeAt.DELIVERY and not self.final
        ranges = self.consumed.as_tuples() if at_delivery else self.accepted()
        final = self.final and self.rm is RmVersion.RM11
        return SequenceAcknowledgement(self.identifier, ranges, final=final)

    def accepted(self) -> Ranges:
        """Everything received that counts as accepted, consumed or not."""
        if not self.in_order_only:
            return self.received.as_tuples()
        first_missing = self.received.first_missing()
        return ((1, first_missing - 1),) if first_missing > 1 else ()

    def next_due(self, policy: DestinationPolicy) -> float | None:
        """When an acknowledgement or `Tick` is due; for a tombstone, when it may go."""
        if self.ended_at is not None:
            return self.ended_at + policy.tombstone
        times = (self.ack_due, self.expires_at, self._inactive_at(policy))
        return min((at for at in times if at is not None), default=None)

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: events.RmdInput, now: float, policy: DestinationPolicy) -> tuple[RmdEffect, ...]:
        """Take one event; returns what is to be done about it.

        :raises ImpossibleEvent: a defect, not a peer's doing.
        """
        return tuple(self._handle(event, now, policy))

    def _handle(self, event: events.RmdInput, now: float, policy: DestinationPolicy) -> Iterator[RmdEffect]:
        match event:
            case events.MessageReceived(number=number, last=last):
                yield from self._message(number, last, now, policy)
            case events.CloseReceived(last_number=last_number):
                yield from self._close(last_number, now)
            case events.TerminateReceived(last_number=last_number):
                yield from self._terminate(last_number, now)
            case events.AckWanted():
                self.last_heard = now
                self.ack_due = now
            case events.AckSent():
                self.ack_due = None
                self.unacknowledged = 0
            case events.Consumed(ranges=ranges):
                new = self.consumed.update(ranges)
                if new and not self.tombstone and policy.acknowledge_at is AcknowledgeAt.DELIVERY:
                    self._owe_acknowledgement(now, policy)
            case events.Tick():
                yield from self._tick(now, policy)
            case _:
                assert_never(event)

    def _message(self, number: int, last: bool, now: float, policy: DestinationPolicy) -> Iterator[RmdEffect]:
        if number in self.received:  # RM-SEQ-06: acknowledged again, never faulted
            yield effects.Duplicate(number)
            if not self.tombstone:
                self.last_heard = now
                self.ack_due = now
                if last and self.last_number is None and number == self.received.highest:
                    yield from self._last_known(number)
                return
        refusal = self._refusal(number, last, policy)
        if refusal is not None:
            yield effects.RaiseFault(refusal)
            return
        self.last_heard = now
        self.used = True
        self.received.add(number)
        if last:
            newly_last = self.last_number is None
            self.last_number = number
            if newly_last:
                self._move(RmdEvent.LMR_SC if self.complete else RmdEvent.LMR_SNC)
            else:
                self._move(RmdEvent.AMR_SC if self.complete else RmdEvent.AMR_SNC)
        else:
            self._move(RmdEvent.AMR_SC if self.complete else RmdEvent.AMR_SNC)
        yield effects.Accept(number=number, last=last)
        self.unacknowledged += 1
        if policy.acknowledge_at is AcknowledgeAt.ACCEPTANCE:
            self._owe_acknowledgement(now, policy)

    def _refusal(self, number: int, last: bool, policy: DestinationPolicy) -> Fault | None:
        if RMD[self.state, RmdEvent.AMR_SNC].kind is Kind.REFUSE:
            return self._fault(FaultCode.SEQUENCE_TERMINATED, "The sequence has ended.")
        if number < 1:
            return self._fault(FaultCode.SENDER, "Message numbers begin at 1.")
        if number > MAX_MESSAGE_NUMBER:
            return self._fault(
                FaultCode.MESSAGE_NUMBER_ROLLOVER,
                "The message number is above the highest this endpoint takes.",
                max_message_number=MAX_MESSAGE_NUMBER,
            )
        if self.closed:
            return self._fault(FaultCode.SEQUENCE_CLOSED, "The sequence is closed and takes no new messages.")
        if self.last_number is not None and number > self.last_number:
            code = FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED if self.rm is RmVersion.RM10 else FaultCode.SEQUENCE_CLOSED
            return self._fault(code, f"The message number is above {self.last_number}, the last of the sequence.")
        if last and self._contradicts(number):
            return self._contradiction(number)
        if len(self.received) >= policy.max_ranges and number != self.received.first_missing():
            grown = self.received.copy()
            grown.add(number)
            if len(grown) > policy.max_ranges:
                return Fault(
                    code=FaultCode.RECEIVER,
                    reason="Too many gaps: fill the earlier ones first.",
                    sender=False,
                    identifier=self.identifier,
                    busy=True,
                )
        return None

    def _close(self, last_number: int | None, now: float) -> Iterator[RmdEffect]:
        if self.tombstone:
            return
        last_number = self._or_nothing_sent(last_number)
        if last_number is not None and self._contradicts(last_number):
            yield effects.RaiseFault(self._contradiction(last_number))
            return
        self.last_heard = now
        self.used = True
        self.closed = True
        yield from self._end_known(last_number)

    def _terminate(self, last_number: int | None, now: float) -> Iterator[RmdEffect]:
        if self.tombstone:
            return
        if self.rm is RmVersion.RM11:
            last_number = self._or_nothing_sent(last_number)
        if last_number is not None and self._contradicts(last_number):
            yield effects.RaiseFault(self._contradiction(last_number))
            return
        self.last_heard = now
        self.used = True
        yield from self._end_known(last_number)
        yield from self._ended(RmdEvent.TMR, now)

    def _tick(self, now: float, policy: DestinationPolicy) -> Iterator[RmdEffect]:
        if self.tombstone:
            return
        self.last_heard = min(self.last_heard, now)  # the clock was set back: silence counts from now
        inactive_at = self._inactive_at(policy)
        expired = self.expires_at is not None and self.expires_at <= now
        if not expired and (inactive_at is None or inactive_at > now):
            return
        if RMD.move(self.state, RmdEvent.EXP).kind is Kind.IGNORE:
            yield effects.Forget()
            return
        yield from self._ended(RmdEvent.EXP, now)

    # --- counters --------------------------------------------------------------------------------------------------

    def _or_nothing_sent(self, last_number: int | None) -> int | None:
        """RM11-CLS-01: LastMsgNumber is left out when no message was sent."""
        return 0 if last_number is None and not self.received and self.last_number is None else last_number

    def _contradicts(self, last_number: int) -> bool:
        if self.last_number is not None:
            return last_number != self.last_number
        return not self.received.highest <= last_number <= MAX_MESSAGE_NUMBER

    def _end_known(self, last_number: int | None) -> Iterator[RmdEffect]:
        if last_number is None:
            if self.last_number is None:
                # The identifier was used, nothing else became known: the same step as a message that was there before.
                self._move(RmdEvent.AMR_SNC)
            return
        if self.last_number is None:
            yield from self._last_known(last_number)

    def _last_known(self, number: int) -> Iterator[RmdEffect]:
        self.used = True
        self.last_number = number
        self._move(RmdEvent.LMR_SC if self.complete else RmdEvent.LMR_SNC)
        yield effects.EndKnown(number)

    def _ended(self, event: RmdEvent, now: float) -> Iterator[RmdEffect]:
        self._move(event)
        self.ended_at = now
        self.ack_due = None
        if not self.complete:
            yield effects.CutBuffer()

    def _owe_acknowledgement(self, now: float, policy: DestinationPolicy) -> None:
        """RM-ACK-12: at once on a gap, at the end, or when many wait; otherwise within the interval."""
        gap = len(self.received) > 1 or self.received.first_missing() == 1
        at_once = gap or self.complete or self.unacknowledged >= policy.acknowledge_every
        due = now if at_once else now + policy.acknowledgement_interval
        self.ack_due = due if self.ack_due is None else min(self.ack_due, due)

    def _inactive_at(self, policy: DestinationPolicy) -> float | None:
        limits = (policy.inactivity_timeout, policy.unused_timeout if not self.used else None)
        shortest = min((limit for limit in limits if limit is not None), default=None)
        return None if shortest is None else self.last_heard + shortest

    def _fault(self, code: FaultCode, reason: str, max_message_number: int | None = None) -> Fault:
        return Fault(code=code, reason=reason, identifier=self.identifier, max_message_number=max_message_number)

    def _contradiction(self, last_number: int) -> Fault:
        if last_number > MAX_MESSAGE_NUMBER:
            return self._fault(FaultCode.SENDER, "The last message number is above the highest there is.")
        known = self.last_number if self.last_number is not None else self.received.highest
        reason = f"The last message number {last_number} contradicts {known}, which was known before."
        return self._fault(FaultCode.SENDER, reason)

    def _move(self, event: RmdEvent) -> None:
        (self.state,) = RMD.move(self.state, event).next


def accepted_ranges(sequence: RMDSequence) -> Ranges:
    """Everything this side ever accepted of a sequence."""
    return sequence.received.as_tuples()
