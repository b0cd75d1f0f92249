"""RMSSequence: the source's side of one sequence.

Pure: it takes an event and the time, and returns effects. The state is `tables.RmsState`, with two more factors:
C (``closed``) and F (``failure``). While F is set, the tuple does not change and the machine only answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mercury.statemachine import effects, events
from mercury.statemachine.copies import shallow
from mercury.statemachine.effects import RmsEffect
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Fault, FaultCode, Ranges
from mercury.statemachine.incomplete import left_over
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rms_counters import RmsCounters
from mercury.statemachine.rms_guards import events_of, holds, ranges_of
from mercury.statemachine.rms_table import RMS, RmsEvent, RmsGuard, RmsState
from mercury.statemachine.table import Kind, Row

#: Separate ranges of acknowledged numbers that a sequence keeps; its record is written with each change.
MAX_RANGES = 512

if TYPE_CHECKING:
    RmsRow: TypeAlias = Row[RmsState, RmsEvent, RmsGuard]


@dataclass
class RMSSequence(RmsCounters):
    """A sequence at its source: how events change its counters. Times are seconds since the epoch."""

    @classmethod
    def start(cls, rm: RmVersion, now: float) -> RMSSequence:
        """A sequence for a message of the application. The first event must be `Number`."""
        return cls(rm=rm, state=RmsState.NEW, last_heard=now, control_due=now)

    @classmethod
    def offered(
        cls,
        rm: RmVersion,
        identifier: str,
        expires_at: float | None,
        now: float,
        behavior: IncompleteSequenceBehavior = IncompleteSequenceBehavior.NO_DISCARD,
    ) -> RMSSequence:
        """A sequence that the peer offered and this side accepted; its identifier is known.

        :param behavior: what the peer does with its messages when it ends incomplete.
        """
        own = cls(rm=rm, state=RmsState.IDLE, last_heard=now, identifier=identifier, expires_at=expires_at)
        own.incomplete_behavior = behavior
        return own

    @classmethod
    def orphan(cls, rm: RmVersion, identifier: str, now: float) -> RMSSequence:
        """A sequence whose identifier arrived after it was replaced: it is empty, and only its end has to be sent."""
        own = cls(rm=rm, state=RmsState.ENDING, last_heard=now, identifier=identifier, closed=True, control_due=now)
        own.last_message = 0
        return own

    def copy(self) -> RMSSequence:
        """An independent machine with the same counters."""
        own = shallow(self)
        own.acknowledged = self.acknowledged.copy()
        own.moved = self.moved.copy()
        return own

    # --- times that this side sets ---------------------------------------------------------------------------------

    def put_off_control(self, at: float) -> None:
        """Defer the control message until this time: a CreateSequence because the destination accepted nothing of the
        sequences before, or the last one is still on its way; an end because exchanges are open."""
        self.control_due = at

    def end_by(self, at: float) -> None:
        """Let the sequence expire at this time, unless it has ended or has an expiry already."""
        if self.alive and self.expires_at is None:
            self.expires_at = at

    def ask_first(self, now: float) -> None:
        """If new numbers are to be sent, send none before the destination has said which ones it has: it is asked for
        its acknowledgement, as one without room. For a store that may have been restored from a back-up: numbers that
        it has forgotten must not be given to other messages."""
        # Nothing can be acknowledged of a sequence of which nothing was sent.
        if self.last_number > self.highest_sent > 0 and self.flow.room != 0:
            self.flow = self.flow.with_room(0)
            self.control_attempts, self.control_due = 0, now

    def pass_on(self, ranges: Ranges) -> None:
        """Let these numbers of a failed sequence go to a successor, on an operator's request."""
        if self.failure is not None:
            self.moved.update(ranges)

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, given: events.RmsInput, now: float, policy: SourcePolicy) -> tuple[RmsEffect, ...]:
        """Handle one input: look up the row of each of its events, and apply it. Returns the effects.

        :raises ImpossibleEvent: a defect of Mercury, not of a peer; nothing has changed.
        """
        return tuple(self._handle(given, now, policy))

    def _handle(self, given: events.RmsInput, now: float, policy: SourcePolicy) -> Iterator[RmsEffect]:
        for event in events_of(given):
            row = RMS.row(self.at, event, lambda guard: holds(guard, self, given, now, policy))
            if row.kind is Kind.MOVE:
                yield from self._take(row, given, now, policy)
            elif row.kind is Kind.REFUSE:
                yield self._refuse(given)

    def _take(self, row: RmsRow, given: events.RmsInput, now: float, policy: SourcePolicy) -> Iterator[RmsEffect]:
        match row.event, given:
            case _, events.Number():
                yield from self._number(row, given, now)
            case _, events.Acknowledged():
                yield from self._acknowledged(row, given, now, policy)
            case _, events.Transmitted(highest=highest, again=again):
                more = min(highest, self.last_number)
                if self.round_trip.number in again:
                    self.round_trip = self.round_trip.sent_again()
                elif more > self.highest_sent:
                    self.round_trip = self.round_trip.sent(more, now)
                if more > self.highest_sent and self.identifier is not None and not self.abandoned:
                    self.control_due = now + (policy.close_unacknowledged_after or 0.0)
                self.highest_sent = max(self.highest_sent, more)
            case _, events.ResponseStored(count=count):
                waited, self.unanswered = self.unanswered, max(0, self.unanswered - count)
                if self.state is RmsState.ENDING and waited and not self.unanswered:
                    self.control_due = now
            case _, events.End(abandon=abandon):
                yield from self._end(row, abandon, now)
                if self.requests_final(policy) and not self.control_attempts:
                    self.control_due = now + (policy.close_unacknowledged_after or 0.0)
            case _, events.Created():
                self._created(row, given, now)
            case _, events.IdentifierTaken() | events.Withdrawn():
                yield from self._replaced()
            case _, events.Overdue():
                self.round_trip = self.round_trip.lost()
                self.flow = self.flow.overdue(self.in_flight, self.acknowledged.count)
            case _, events.ControlSent(next_due=next_due):
                self.control_attempts += 1
                self.control_due = next_due
            case _, events.Settled():
                self.settled_at = now
                self._enter(row)
                yield effects.Ended()
            case RmsEvent.FIN, _:
                yield from self._finished(row, ranges_of(given), now)
            case _, events.FaultReceived(fault=fault):
                yield from self._fault(row, fault, now)
            case _, events.GaveUp():
                yield from self._fail(row, FailureReason.GIVEN_UP, now)
            case _, events.Tick():
                yield from self._tick(row, now)
            case _:
                raise AssertionError(f"an input that is no event: {given}")

    def _refuse(self, given: events.RmsInput) -> RmsEffect:
        if isinstance(given, events.Number):
            return effects.NumberRefused()
        fault = Fault(
            code=FaultCode.INVALID_ACKNOWLEDGEMENT,
            reason="The SequenceAcknowledgement lists message numbers that were never sent.",
            identifier=self.identifier,
            ranges=ranges_of(given),
        )
        return effects.RaiseFault(fault)

    def _number(self, row: RmsRow, given: events.Number, now: float) -> Iterator[RmsEffect]:
        if row.guard is RmsGuard.NO_NUMBER_LEFT:
            self._last_is_known()
            self._enter(row, now)
            yield effects.NumberRefused()
            return
        if self.state in (RmsState.NEW, RmsState.IDLE):
            self.last_heard = now  # silence is measured from the first unacknowledged message
        self.last_number += 1
        self.unanswered += given.expects_response
        if given.last:
            self.last_message = self.last_number
        self._enter(row)
        yield effects.Numbered(self.last_number)

    def _end(self, row: RmsRow, abandon: bool, now: float) -> Iterator[RmsEffect]:
        if abandon and not self.abandoned:
            self.abandoned = True
            self.control_due = now
        if row.next is RmsState.FAILED:
            # Nothing was sent, or WS-RM 1.0 has no CloseSequence: no final acknowledgement can arrive.
            yield from self._fail(row, FailureReason.GIVEN_UP, now)
            return
        self._last_is_known()
        self._enter(row, now)

    def _created(self, row: RmsRow, event: events.Created, now: float) -> None:
        self.identifier = event.identifier
        self.expires_at = event.expires_at
        self.incomplete_behavior = event.incomplete_behavior
        self.last_heard = now
        self._enter(row, now)

    def _acknowledged(
        self, row: RmsRow, given: events.Acknowledged, now: float, policy: SourcePolicy
    ) -> Iterator[RmsEffect]:
        before = self.window_end(policy) if self.flow.size is not None else None
        was_full = self.window(policy) - self.in_flight < self.ack_request_interval(policy)
        starved, full = self.starved, self.flow.room == 0
        merged, stated = self._bounded(given.ranges), RangeSet(given.ranges)
        new = self._merge(merged, now)
        # Acknowledgements may arrive late, but each has what those made before it had (RM-ACK-01). So one with a new
        # number was made after all that have arrived, if all that they had was merged. The final one is the last word.
        if new and merged is given.ranges and self.state is not RmsState.ENDING:
            forgotten = tuple(gap for low, high in self.acknowledged for gap in stated.gaps(low, high))
            if forgotten:
                yield effects.Forgotten(forgotten)
        yield from self._release(new)
        # An older acknowledgement states an outdated BufferRemaining. One that states none opens the window of
        # `ask_first`, also if its destination has forgotten what it had acknowledged.
        opens = self.flow.room == 0 and given.room is None
        if stated.count >= self.acknowledged.count or opens:
            limits = given.room is not None and given.room < self.window(policy)
            self.flow = self.flow.with_room(given.room if limits else None)
        self._enter(row, now)
        asks = self.state in (RmsState.IDLE, RmsState.SENDING, RmsState.SENDING_LAST)
        if asks and self.flow.room == 0 and not starved and not self.requests_final(policy):
            pause = max(policy.retransmission.base, self.round_trip.measured)
            self.control_attempts, self.control_due = 0, now + pause
        if before is not None:
            yield from self._window_moved(before, policy)
        elif was_full and len(self.acknowledged) == 1:
            self.flow = self.flow.keeps_pace(self.acknowledged.count, policy.window)
        if full and self.flow.room != 0:  # FC-02: the destination may have refused what was sent meanwhile
            again = tuple(self._done().gaps(1, min(self.window_end(policy), self.highest_sent)))
            if again:
                yield effects.Due(again)

    def _window_moved(self, before: int, policy: SourcePolicy) -> Iterator[RmsEffect]:
        """A small window moved, and may have grown: the numbers that are newly in it are due immediately."""
        if self.acknowledged.highest > self.lowest_outstanding():
            self.flow = self.flow.taken_behind_a_gap()
        else:
            self.flow = self.flow.acknowledged(self.acknowledged.count, self.in_flight, policy.window)
        entered = tuple(self._done().gaps(before + 1, min(self.window_end(policy), self.highest_sent)))
        if entered:
            yield effects.Due(entered)

    def _finished(self, row: RmsRow, ranges: Ranges, now: float) -> Iterator[RmsEffect]:
        if row.guard is RmsGuard.NO_RANGES:
            self.last_heard = (
                now  # RM11-ACK-08: no final acknowledgement came with the answer; CloseSequence asks again
            )
            return
        new = self._merge(ranges, now)
        moved = self._left_over(final=True)
        self.moved.update(moved)
        self._last_is_known()
        self._enter(row, now)
        if moved:
            yield effects.Moved(moved)  # first: moved rows must not be deleted with the released ones
        yield from self._release(new)

    def _fault(self, row: RmsRow, fault: Fault, now: float) -> Iterator[RmsEffect]:
        match row.event:
            case RmsEvent.FAULT:
                self.last_heard = now
            case RmsEvent.FAIL:
                unknown = fault.code is FaultCode.UNKNOWN_SEQUENCE
                yield from self._fail(row, FailureReason.UNKNOWN if unknown else FailureReason.TERMINATED, now)
            case RmsEvent.REFUSED if row.guard is RmsGuard.REPEATED:
                yield from self._replaced()
            case RmsEvent.REFUSED if row.guard is RmsGuard.OFFERED:
                # .NET refuses an offer where its contract has no responses, others decline it. Another message is asked
                # with, so the next refusal is no answer to a repetition.
                self.control_attempts, self.control_due = 0, now
                yield effects.WithoutOffer()
            case RmsEvent.REFUSED if row.guard is None:
                yield from self._fail(row, FailureReason.REFUSED, now)
            case RmsEvent.ROLLOVER:
                yield from self._roll_over(row, fault.max_message_number, now)
            case _:
                pass  # a refusal that says busy: CreateSequence is sent again

    def _replaced(self) -> Iterator[RmsEffect]:
        """Fail, and request another sequence: a repetition was refused because its offer is known (RM-CS-13), the
        identifier is that of another sequence, or a message of it has expired.
        """
        left = self._left_over(final=False)
        self.moved.update(left)
        self.failure = FailureReason.REPLACED
        yield effects.Moved(left)
        yield effects.Replaced()

    def _roll_over(self, row: RmsRow, max_message_number: int | None, now: float) -> Iterator[RmsEffect]:
        """FLT-04: no new numbers; messages that the destination does not take move to a successor."""
        known = self.last_number if self.last_message is None else self.last_message
        self.last_message = known
        if max_message_number is not None:
            maximum = max(max_message_number, 0)
            moved = tuple(self._done().gaps(maximum + 1, self.last_number))
            self.moved.update(moved)
            if moved:
                if not self.abandoned:  # to the destination, the sequence ends with what it takes
                    self.last_message = min(known, max(maximum, self.acknowledged.highest))
                yield effects.Moved(moved)
        self._enter(row, now)

    def _tick(self, row: RmsRow, now: float) -> Iterator[RmsEffect]:
        self.last_heard = min(self.last_heard, now)  # the clock was set back: silence counts from now
        match row.guard:
            case RmsGuard.EXPIRED:
                yield from self._fail(row, FailureReason.EXPIRED, now)
            case RmsGuard.SILENT:
                yield from self._fail(row, FailureReason.INACTIVE, now)
            case RmsGuard.IDLE_FOR_LONG:
                yield from self._end(row, False, now)
            case _:
                pass

    def _fail(self, row: RmsRow, reason: FailureReason, now: float) -> Iterator[RmsEffect]:
        """FAIL: success where everything was acknowledged, else what is left is given up."""
        if row.next is not RmsState.FAILED:
            self._last_is_known()
            self.settled_at = now
            self._enter(row, now)
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
        """RM-ACK-01: an acknowledged number stays acknowledged. Returns the newly acknowledged numbers."""
        self.last_heard = now
        new = RangeSet(gap for low, high in ranges for gap in self.acknowledged.gaps(low, high))
        self.acknowledged.update(ranges)
        if self.round_trip.number in self.acknowledged:
            self.round_trip = self.round_trip.acknowledged(now)
        return new

    def _bounded(self, ranges: Ranges) -> Ranges:
        """Those ranges that are merged, the same object if all are: one that would be a range more than `MAX_RANGES` is
        ignored.

        Its messages stay stored until an acknowledgement fills the gap below or above them. A final acknowledgement is
        not bounded: what it leaves out goes to a successor.
        """
        if len(self.acknowledged) + len(ranges) <= MAX_RANGES:
            return ranges
        grown, kept = self.acknowledged.copy(), []
        for low, high in RangeSet(ranges):
            if len(grown) < MAX_RANGES or grown.touches(low, high):
                grown.add(low, high)
                kept.append((low, high))
        return tuple(kept)

    def _release(self, acknowledged: RangeSet) -> Iterator[RmsEffect]:
        for low, high in self.moved:
            acknowledged.discard(
                low, high
            )  # these numbers belong to the successor, even if the destination acknowledges them
        if acknowledged:
            yield effects.Released(acknowledged.as_tuples())

    def _left_over(self, *, final: bool) -> Ranges:
        """What an end now leaves undelivered, or in doubt; ``final``: the acknowledged ranges are the final ones."""
        return left_over(
            self.incomplete_behavior, self.last_number, acknowledged=self.acknowledged, moved=self.moved, final=final
        )

    def _last_is_known(self) -> None:
        if self.last_message is None:
            self.last_message = self.last_number

    def _enter(self, row: RmsRow, now: float | None = None) -> None:
        renewed = row.next not in (self.state, RmsState.CREATING_LAST) or (row.closes and not self.closed)
        if renewed and now is not None:
            # Another control message becomes due, with a schedule of its own.
            self.control_attempts = 0
            self.control_due = now
        self.state = row.next
        self.closed = self.closed or row.closes
