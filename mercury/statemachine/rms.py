"""RMSSequence: the source's side of one sequence.

Pure: an event and the time in, effects out. The state is `tables.RmsState`; beside it stand C (``closed``) and
F (``failure``). While F is set the tuple is frozen and the machine only answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from mercury.statemachine import effects, events
from mercury.statemachine.effects import RmsEffect
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.incomplete import left_over
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rms_counters import RmsCounters
from mercury.statemachine.table import Cell, Kind
from mercury.statemachine.tables import RMS, RmsEvent, RmsState


@dataclass
class RMSSequence(RmsCounters):
    """A sequence at its source: what happens to its counters. Times are seconds since the epoch."""

    @classmethod
    def start(cls, rm: RmVersion, now: float) -> RMSSequence:
        """A sequence that its application asked for. Raise `Number` on it at once: nothing else moves it before."""
        return cls(rm=rm, state=RmsState.CREATING, last_heard=now, control_due=now)

    @classmethod
    def offered(cls, rm: RmVersion, identifier: str, expires_at: float | None, now: float) -> RMSSequence:
        """A sequence that the peer offered and this side accepted: it exists already."""
        return cls(rm=rm, state=RmsState.IDLE, last_heard=now, identifier=identifier, expires_at=expires_at)

    @classmethod
    def orphan(cls, rm: RmVersion, identifier: str, now: float) -> RMSSequence:
        """A sequence whose identifier came after it was replaced: it is empty, and only its end is to be sent."""
        own = cls(rm=rm, state=RmsState.ENDING, last_heard=now, identifier=identifier, closed=True, control_due=now)
        own.last_message = 0
        return own

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: events.RmsInput, now: float, policy: SourcePolicy) -> tuple[RmsEffect, ...]:
        """Take one event; returns what is to be done about it.

        :raises ImpossibleEvent: the caller raised an event the table rules out: a defect, not a peer's doing.
        """
        return tuple(self._handle(event, now, policy))

    def _handle(self, event: events.RmsInput, now: float, policy: SourcePolicy) -> Iterator[RmsEffect]:
        match event:
            case events.Number(last=last, expects_response=expects_response):
                yield from self._number(last, expects_response, now)
            case events.End(abandon=abandon):
                yield from self._end(abandon, now)
                if self.asks_final(policy) and not self.control_attempts:
                    self.control_due = now + (policy.close_unacknowledged_after or 0.0)
            case events.Created():
                yield from self._created(event, now)
            case events.IdentifierTaken():
                if self.alive and self.identifier is None and self.last_number:
                    yield from self._replaced()
            case events.Transmitted(highest=highest):
                more = min(highest, self.last_number)
                if more > self.highest_sent and self.identifier is not None and not self.abandoned:
                    self.control_due = now + (policy.close_unacknowledged_after or 0.0)
                self.highest_sent = max(self.highest_sent, more)
            case events.Overdue():
                if self.alive and self.acknowledged.highest < self.lowest_outstanding():
                    self.flow = self.flow.overdue(self.in_flight, self.acknowledged.count)
            case events.ControlSent(next_due=next_due):
                self.control_attempts += 1
                self.control_due = next_due
            case events.Acknowledged(ranges=ranges):
                before = self.window_end(policy) if self.flow.size is not None else None
                yield from self._acknowledged(ranges, now)
                if before is not None:
                    yield from self._window_moved(before, policy)
            case events.Finished(ranges=ranges):
                yield from self._finished(ranges, now)
            case events.ResponseStored(count=count):
                waited, self.unanswered = self.unanswered, max(0, self.unanswered - count)
                if self.state is RmsState.ENDING and waited and not self.unanswered:
                    self.control_due = now
            case events.Settled():
                if self.failure is None and self.state is RmsState.ENDING:
                    self.settled_at = now
                    self._move(RmsEvent.TMS)
                    yield effects.Ended()
            case events.FaultReceived(fault=fault, ranges=ranges):
                yield from self._fault(fault, ranges, now)
            case events.GaveUp():
                if self.alive:
                    yield from self._fail(FailureReason.GIVEN_UP, now)
            case events.Tick():
                yield from self._tick(now, policy)
            case _:
                assert_never(event)

    def _number(self, last: bool, expects_response: bool, now: float) -> Iterator[RmsEffect]:
        if not self.takes_messages:
            if self.failure is None and self.last_number >= MAX_MESSAGE_NUMBER and self.last_message is None:
                yield from self._end(False, now)  # RM-SEQ-12: rollover
            yield effects.NumberRefused()
            return
        if self.state is RmsState.IDLE:
            self.last_heard = now  # silence counts from when there is something to be heard
        self.last_number += 1
        self.unanswered += expects_response
        if last:
            self.last_message = self.last_number
        self._move(RmsEvent.LMR_NUMBERED if last else RmsEvent.AMR)
        yield effects.Numbered(self.last_number)

    def _end(self, abandon: bool, now: float) -> Iterator[RmsEffect]:
        if not self.alive or (self.identifier is None and not self.last_number):
            return  # ended already, or never used
        if abandon and not self.abandoned:
            self.abandoned = True
            self.control_due = now
            if self.outstanding and (self.identifier is None or self.rm is RmVersion.RM10):
                # Nothing was sent, or this generation has no CloseSequence: there is no final word to wait for.
                yield from self._fail(FailureReason.GIVEN_UP, now)
                return
        if self.last_message is None:
            self.last_message = self.last_number
        self._move(RmsEvent.LMR_BARE, now)

    def _created(self, event: events.Created, now: float) -> Iterator[RmsEffect]:
        if self.failure is not None or self.identifier is not None or not self.last_number:
            return
        self.identifier = event.identifier
        self.expires_at = event.expires_at
        self.incomplete_behavior = event.incomplete_behavior
        self.last_heard = now
        self._move(RmsEvent.CSRR, now)
        yield from ()

    def _acknowledged(self, ranges: Ranges, now: float) -> Iterator[RmsEffect]:
        if not self.alive or self.identifier is None:
            return
        problem = self._invalid(ranges)
        if problem is not None:
            yield effects.RaiseFault(problem)
            return
        new = self._merge(ranges, now)
        yield from self._release(new)
        self._move(RmsEvent.ACK if self.outstanding else RmsEvent.ACKALL, now)

    def _window_moved(self, before: int, policy: SourcePolicy) -> Iterator[RmsEffect]:
        """A small window has moved on, and may have grown: what is in it now was not taken before its turn."""
        self.flow = self.flow.acknowledged(self.acknowledged.count, self.in_flight, policy.window)
        entered = tuple(self._done().gaps(before + 1, min(self.window_end(policy), self.highest_sent)))
        if entered and self.alive:
            yield effects.Due(entered)

    def _finished(self, ranges: Ranges | None, now: float) -> Iterator[RmsEffect]:
        if not self.alive or self.identifier is None:
            return
        if ranges is None:
            self.last_heard = now
            if self.state is not RmsState.ENDING:
                return  # RM11-ACK-08: no final acknowledgement came with the answer; CloseSequence asks again
            ranges = ()
        problem = self._invalid(ranges)
        if problem is not None:
            yield effects.RaiseFault(problem)
            return
        new = self._merge(ranges, now)
        moved = self._left_over(final=True)
        self.moved.update(moved)
        if self.last_message is None:
            self.last_message = self.last_number
        self._move(RmsEvent.FIN, now)
        if moved:
            yield effects.Moved(moved)  # first: what moves must not be let go of with what is released
        yield from self._release(new)

    def _fault(self, fault: Fault, ranges: Ranges | None, now: float) -> Iterator[RmsEffect]:
        if not self.alive:
            return
        self.last_heard = now
        if ranges is not None:
            yield from self._finished(ranges, now)
        match fault.code:
            case FaultCode.SEQUENCE_CLOSED:
                pass  # the final acknowledgement says the rest; without it CloseSequence or a retransmission asks
            case FaultCode.UNKNOWN_SEQUENCE:
                yield from self._fail(FailureReason.UNKNOWN, now)
            case FaultCode.SEQUENCE_TERMINATED | FaultCode.LAST_MESSAGE_NUMBER_EXCEEDED:
                yield from self._fail(FailureReason.TERMINATED, now)
            case FaultCode.CREATE_SEQUENCE_REFUSED | FaultCode.WSRM_REQUIRED:
                if self.identifier is None and not fault.busy and fault.sender:
                    repeated = fault.code is FaultCode.CREATE_SEQUENCE_REFUSED and self.control_attempts > 1
                    yield from self._replaced() if repeated else self._fail(FailureReason.REFUSED, now)
            case FaultCode.MESSAGE_NUMBER_ROLLOVER:
                yield from self._roll_over(fault.max_message_number, now)
            case _:
                pass

    def _replaced(self) -> Iterator[RmsEffect]:
        """It is asked for anew: a repetition was refused because its offer is known (RM-CS-13), or the identifier is
        no use.
        """
        left = self._left_over(final=False)
        self.moved.update(left)
        self.failure = FailureReason.REPLACED
        yield effects.Moved(left)
        yield effects.Replaced()

    def _roll_over(self, max_message_number: int | None, now: float) -> Iterator[RmsEffect]:
        """FLT-04: no new numbers; what the destination does not take goes to a successor."""
        if self.identifier is None:
            return  # it cannot be about this sequence: nothing was numbered on the wire
        if self.last_message is None:
            self.last_message = self.last_number
        if max_message_number is not None:
            maximum = max(max_message_number, 0)
            moved = tuple(self._done().gaps(maximum + 1, self.last_number))
            self.moved.update(moved)
            if moved:
                if not self.abandoned:  # to the destination, the sequence ends with what it takes
                    self.last_message = min(self.last_message, max(maximum, self.acknowledged.highest))
                yield effects.Moved(moved)
        self._move(RmsEvent.LMR_BARE, now)
        self._move(RmsEvent.ACK if self.outstanding else RmsEvent.ACKALL, now)

    def _tick(self, now: float, policy: SourcePolicy) -> Iterator[RmsEffect]:
        if not self.alive:
            return
        self.last_heard = min(self.last_heard, now)  # the clock was set back: silence counts from now
        inactive_at, idle_at = self._inactive_at(policy), self._idle_at(policy)
        if self.expires_at is not None and self.expires_at <= now:
            yield from self._fail(FailureReason.EXPIRED, now)
        elif inactive_at is not None and inactive_at <= now:
            yield from self._fail(FailureReason.INACTIVE, now)
        elif idle_at is not None and idle_at <= now:
            yield from self._end(False, now)

    def _fail(self, reason: FailureReason, now: float) -> Iterator[RmsEffect]:
        """FAIL: success where everything was acknowledged, else what is left is given up."""
        cell = RMS.move(self.state, RmsEvent.FAIL)
        if cell.kind is Kind.MOVE:
            if self.last_message is None:
                self.last_message = self.last_number
            self.settled_at = now
            self._enter(cell, now)
            yield effects.Ended()
            return
        left = self._left_over(final=False)
        self.failure = reason
        never_sent, in_doubt = RangeSet(left), RangeSet(left)
        never_sent.discard(1, self.highest_sent)
        in_doubt.discard(self.highest_sent + 1, self.last_number)
        yield effects.Failed(reason, never_sent.as_tuples(), in_doubt.as_tuples())

    # --- counters --------------------------------------------------------------------------------------------------

    def _merge(self, ranges: Ranges, now: float) -> RangeSet:
        """RM-ACK-01: a number once acknowledged stays so; the union is kept. Returns what is new in it."""
        self.last_heard = now
        before = self.acknowledged.copy()
        self.acknowledged.update(ranges)
        return RangeSet(gap for low, high in ranges for gap in before.gaps(low, high))

    def _release(self, acknowledged: RangeSet) -> Iterator[RmsEffect]:
        for low, high in self.moved:
            acknowledged.discard(low, high)  # the successor's, whatever the destination says
        if acknowledged:
            yield effects.Released(acknowledged.as_tuples())

    def _invalid(self, ranges: Ranges) -> Fault | None:
        """RM-ACK-03. That a number is missing which was acknowledged before is no offence: the network reorders."""
        bad = any(low < 1 or low > high or high > self.highest_sent for low, high in ranges)
        if not bad:
            return None
        return Fault(
            code=FaultCode.INVALID_ACKNOWLEDGEMENT,
            reason="The SequenceAcknowledgement lists message numbers that were never sent.",
            identifier=self.identifier,
            ranges=ranges,
        )

    def _left_over(self, *, final: bool) -> Ranges:
        """What an end now leaves undelivered, or in doubt; ``final``: the acknowledged ranges are the final ones."""
        return left_over(
            self.incomplete_behavior, self.last_number, acknowledged=self.acknowledged, moved=self.moved, final=final
        )

    # --- the table -------------------------------------------------------------------------------------------------

    def _move(self, event: RmsEvent, now: float | None = None) -> None:
        self._enter(RMS.move(self.state, event), now)

    def _enter(self, cell: Cell[RmsState], now: float | None) -> None:
        (state,) = cell.next
        renewed = state not in (self.state, RmsState.CREATING_LAST) or (cell.closes and not self.closed)
        if renewed and now is not None:
            # Another control message becomes due, with a schedule of its own.
            self.control_attempts = 0
            self.control_due = now
        self.state = state
        self.closed = self.closed or cell.closes
