"""RMDSequence: the destination's side of one sequence. Pure; see `rms`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, assert_never

from mercury.statemachine import effects, events
from mercury.statemachine.copies import shallow
from mercury.statemachine.effects import RmdEffect
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.messages import SequenceAcknowledgement
from mercury.statemachine.policy import AcknowledgeAt, DestinationPolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rmd_table import RMD, RmdEvent, RmdGuard, RmdState
from mercury.statemachine.table import Kind, Row

if TYPE_CHECKING:
    RmdRow: TypeAlias = Row[RmdState, RmdEvent, RmdGuard]

#: The guards of rows for a message that was received before.
_AGAIN = (RmdGuard.AGAIN, RmdGuard.AGAIN_LAST, RmdGuard.AGAIN_COMPLETE)


@dataclass
class RMDSequence:
    """The counters of a sequence at its destination, and its state. Times are seconds since the epoch."""

    identifier: str
    rm: RmVersion
    last_heard: float
    state: RmdState = RmdState.CREATED
    #: C: no new number is taken; every acknowledgement is final.
    closed: bool = False
    #: FMR: the source has used the identifier, which shows that CreateSequenceResponse reached it.
    used: bool = False
    received: RangeSet = field(default_factory=RangeSet)
    #: The numbers that the application has consumed; recorded only with `AcknowledgeAt.DELIVERY`.
    consumed: RangeSet = field(default_factory=RangeSet)
    #: Numbers above a gap are not acknowledged; see `DestinationPolicy.acknowledges_in_order`.
    in_order_only: bool = False
    #: LMR: the last number of the sequence; 0 = it ended without a message.
    last_number: int | None = None
    #: TMR: when the sequence ended.
    ended_at: float | None = None
    expires_at: float | None = None
    #: When an acknowledgement is due, and for how many new messages.
    ack_due: float | None = None
    unacknowledged: int = 0
    #: How many more new messages fit, as the newest acknowledgement states it; ``None`` = none has stated it yet.
    room: int | None = None
    #: The end that this side begins or has begun (ST-D07, ST-D10), until its source has answered; how often it was
    #: sent, and when it is due.
    own_end: events.DestinationEnd | None = None
    end_attempts: int = 0
    end_due: float | None = None

    def copy(self) -> RMDSequence:
        """An independent machine with the same counters."""
        own = shallow(self)
        own.received, own.consumed = self.received.copy(), self.consumed.copy()
        return own

    # --- times that this side sets ---------------------------------------------------------------------------------

    def acknowledge_at(self, at: float | None) -> None:
        """Set when a stand-alone acknowledgement is due; ``None`` = no acknowledgement is due (RM-ACK-10)."""
        self.ack_due = at

    def heard_at(self, at: float) -> None:
        """Set when the source was last heard. A later time than now keeps the sequence from ending for silence."""
        self.last_heard = at

    def end_by(self, at: float) -> None:
        """Let the sequence expire at this time at the latest."""
        self.expires_at = at if self.expires_at is None else min(self.expires_at, at)

    def end_itself(self, end: events.DestinationEnd, now: float) -> None:
        """Let this side end the sequence: the end is due now."""
        self.own_end, self.end_attempts, self.end_due = end, 0, now

    def lose(self, number: int) -> None:
        """Count a refused message as received, although it is never delivered: it is not refused a second time.

        Only for a sequence whose source gets its acknowledgements elsewhere (decision 77).
        """
        self.used = True
        self.received.add(number)
        self.state = RmdState(self.predicate())

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

    def is_silent(self, now: float, policy: DestinationPolicy) -> bool:
        """Whether the source was not heard for so long that the next `Tick` ends the sequence (RM-TRM-07)."""
        inactive_at = self._inactive_at(policy)
        return inactive_at is not None and inactive_at <= now

    def predicate(self) -> str:
        """The tuple that follows from the counters: it equals the state's value."""
        factors = (self.used, self.last_number is not None, self.complete, self.ended_at is not None)
        return "".join("01"[factor] for factor in factors)

    def acknowledgement(self, policy: DestinationPolicy) -> SequenceAcknowledgement:
        """The acknowledgement to send now. Once final, it has every received number, consumed or not."""
        at_delivery = policy.acknowledge_at is AcknowledgeAt.DELIVERY and not self.final
        ranges = self.consumed.as_tuples() if at_delivery else self.accepted()
        final = self.final and self.rm is RmVersion.RM11
        return SequenceAcknowledgement(
            self.identifier, ranges, final=final, buffer_remaining=self.buffer_remaining(ranges)
        )

    def buffer_remaining(self, ranges: Ranges) -> int | None:
        """BufferRemaining of an acknowledgement: how many messages may be in flight beyond those that it lists (FC-01).

        A stored message that is not acknowledged is in flight to its source, and has its place already.

        :param ranges: the numbers that the acknowledgement lists.
        :return: ``None`` = the element is absent. A source that has seen it once may wait for it in each later
            acknowledgement, as .NET's does; after the end it sends nothing new.
        """
        if self.room is None or self.final:
            return None
        return self.room + self.received.count - sum(high - low + 1 for low, high in ranges)

    def accepted(self) -> Ranges:
        """The received numbers that count as accepted, consumed or not."""
        if not self.in_order_only:
            return self.received.as_tuples()
        first_missing = self.received.first_missing()
        return ((1, first_missing - 1),) if first_missing > 1 else ()

    def next_due(self, policy: DestinationPolicy) -> float | None:
        """When an acknowledgement, an end of this side's or `Tick` is due; instead of `Tick`, when a tombstone may be
        deleted."""
        times: tuple[float | None, ...] = (self.ack_due, self.end_due, self.expires_at, self._inactive_at(policy))
        if self.ended_at is not None:
            times = (self.ack_due, self.end_due, self.ended_at + policy.tombstone)
        return min((at for at in times if at is not None), default=None)

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, given: events.RmdInput, now: float, policy: DestinationPolicy) -> tuple[RmdEffect, ...]:
        """Handle one input: look up the row of each of its events, and apply it. Returns the effects.

        :raises ImpossibleEvent: a defect of Mercury, not of a peer; nothing has changed.
        """
        return tuple(self._handle(given, now, policy))

    def _handle(self, given: events.RmdInput, now: float, policy: DestinationPolicy) -> Iterator[RmdEffect]:
        row = RMD.row(self.state, event_of(given), lambda guard: self._holds(guard, given, now, policy))
        if row.kind is Kind.MOVE:
            yield from self._take(row, given, now, policy)
            self.state = row.next
            self.closed = self.closed or row.closes
        elif row.kind is Kind.REFUSE:
            yield from self._refuse(row, given, policy)

    def _take(self, row: RmdRow, given: events.RmdInput, now: float, policy: DestinationPolicy) -> Iterator[RmdEffect]:
        match given:
            case events.MessageReceived(number=number) if row.guard in _AGAIN:
                yield effects.Duplicate(number)
                self.last_heard = now
                self.ack_due = now
                if row.guard is not RmdGuard.AGAIN:
                    yield from self._last_known(number)
            case events.MessageReceived(number=number, last=last):
                self._accept(number, last, now)
                yield effects.Accept(number=number, last=last)
                if policy.acknowledge_at is AcknowledgeAt.ACCEPTANCE:
                    self._owe_acknowledgement(now, policy)
            case events.CloseReceived():
                yield from self._end_known(given, now)
            case events.TerminateReceived():
                yield from self._end_known(given, now)
                yield from self._ended(now)
            case events.EndSent(end=end, next_due=next_due):
                self.end_attempts, self.end_due = self.end_attempts + 1, next_due
                if end is events.DestinationEnd.TERMINATE and not self.tombstone:
                    self.used = True
                    yield from self._ended(now)
            case events.EndAnswered():
                self.own_end, self.end_attempts, self.end_due = None, 0, None
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
            case events.RoomCounted(room=room):
                self.room = room
                if row.guard is RmdGuard.ROOM_AGAIN:
                    self.ack_due = now
            case events.Tick():
                self.last_heard = min(self.last_heard, now)  # the clock was set back: silence counts from now
                if row.guard is RmdGuard.EXPIRED:
                    yield from self._ended(now) if self.used else (effects.Forget(),)
            case _:
                assert_never(given)

    def _refuse(self, row: RmdRow, given: events.RmdInput, policy: DestinationPolicy) -> Iterator[RmdEffect]:
        if isinstance(given, events.MessageReceived):
            if row.guard is RmdGuard.AGAIN:
                yield effects.Duplicate(given.number)
            refusal = self._refusal(given.number, given.last, policy)
        else:
            refusal = self._contradiction(self._stated_last(given) or 0)
        assert refusal is not None
        yield effects.RaiseFault(refusal)

    # --- guards ----------------------------------------------------------------------------------------------------

    def _holds(self, guard: RmdGuard, given: events.RmdInput, now: float, policy: DestinationPolicy) -> bool:
        """Whether a guard holds, by the counters before the event."""
        match guard, given:
            case RmdGuard.AGAIN, events.MessageReceived(number=number):
                return number in self.received  # RM-SEQ-06: acknowledged again, never faulted
            case RmdGuard.AGAIN_LAST, events.MessageReceived(number=number):
                return number in self.received and number == self.received.highest
            case RmdGuard.AGAIN_COMPLETE, events.MessageReceived(number=number):
                return number == self.received.highest and self.received.covers(1, number)
            case RmdGuard.NOT_TAKEN, events.MessageReceived(number=number, last=last):
                return self._refusal(number, last, policy) is not None
            case RmdGuard.COMPLETE, events.MessageReceived(number=number, last=last):
                return self.received.count + 1 == (number if last else self.last_number)
            case RmdGuard.COMPLETE, _:
                stated = self._stated_last(given)
                return stated is not None and self.received.covers(1, stated)
            case RmdGuard.CONTRADICTION, _:
                stated = self._stated_last(given)
                return stated is not None and self._contradicts(stated)
            case RmdGuard.NO_NUMBER, _:
                return self._stated_last(given) is None
            case RmdGuard.ROOM_AGAIN, events.RoomCounted(room=room):
                return self.room == 0 and room != 0
            case RmdGuard.EXPIRED, _:
                expired = self.expires_at is not None and self.expires_at <= now
                return expired or self.is_silent(now, policy)
            case _:
                raise AssertionError(f"no guard of this input: {guard}")

    def _stated_last(self, given: events.RmdInput) -> int | None:
        """The last number that CloseSequence or TerminateSequence states; ``None`` = it states none.

        RM11-CLS-01: LastMsgNumber is absent when no message was sent.
        """
        if not isinstance(given, (events.CloseReceived, events.TerminateReceived)):
            return None
        empty = not self.received and self.last_number is None
        silent = isinstance(given, events.TerminateReceived) and self.rm is RmVersion.RM10
        return 0 if given.last_number is None and empty and not silent else given.last_number

    def _refusal(self, number: int, last: bool, policy: DestinationPolicy) -> Fault | None:
        if self.tombstone:
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

    # --- counters --------------------------------------------------------------------------------------------------

    def _accept(self, number: int, last: bool, now: float) -> None:
        self.last_heard = now
        self.used = True
        self.received.add(number)
        if last:
            self.last_number = number
        self.unacknowledged += 1

    def _contradicts(self, last_number: int) -> bool:
        if self.last_number is not None:
            return last_number != self.last_number
        return not self.received.highest <= last_number <= MAX_MESSAGE_NUMBER

    def _end_known(self, given: events.CloseReceived | events.TerminateReceived, now: float) -> Iterator[RmdEffect]:
        stated = self._stated_last(given)
        self.last_heard = now
        self.used = True
        if stated is not None and self.last_number is None:
            yield from self._last_known(stated)

    def _last_known(self, number: int) -> Iterator[RmdEffect]:
        self.used = True
        self.last_number = number
        yield effects.EndKnown(number)

    def _ended(self, now: float) -> Iterator[RmdEffect]:
        self.ended_at = now
        self.ack_due = None
        if not self.complete:
            yield effects.CutBuffer()

    def _owe_acknowledgement(self, now: float, policy: DestinationPolicy) -> None:
        """RM-ACK-12: immediately on a gap, at the end, or when many are unacknowledged; else within the interval."""
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


def event_of(given: events.RmdInput) -> RmdEvent:
    """The event of the table that an input is."""
    match given:
        case events.MessageReceived(last=last):
            return RmdEvent.LMR if last else RmdEvent.AMR
        case events.CloseReceived():
            return RmdEvent.CLOSE
        case events.TerminateReceived():
            return RmdEvent.TMR
        case events.EndSent(end=end):
            return RmdEvent.OWN_CLOSE if end is events.DestinationEnd.CLOSE else RmdEvent.OWN_TERMINATE
        case events.EndAnswered():
            return RmdEvent.ANSWERED
        case events.AckWanted():
            return RmdEvent.ACK_WANTED
        case events.AckSent():
            return RmdEvent.ACK_SENT
        case events.Consumed():
            return RmdEvent.CONSUMED
        case events.RoomCounted():
            return RmdEvent.ROOM
        case events.Tick():
            return RmdEvent.TICK
        case _:
            assert_never(given)


def accepted_ranges(sequence: RMDSequence) -> Ranges:
    """All numbers of a sequence that this side has ever accepted."""
    return sequence.received.as_tuples()
