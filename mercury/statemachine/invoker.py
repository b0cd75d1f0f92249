"""InvokerBuffer: which of the received messages may be delivered to the application. Pure; see `rms`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, TypeAlias, assert_never

from mercury.statemachine import effects, events
from mercury.statemachine.copies import shallow
from mercury.statemachine.deliverable import Release, deliverable, release_of
from mercury.statemachine.effects import InvokerEffect
from mercury.statemachine.invoker_table import INVOKER, InvokerEvent, InvokerGuard, InvokerState
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.table import ImpossibleEvent, Kind, Row

if TYPE_CHECKING:
    InvokerRow: TypeAlias = Row[InvokerState, InvokerEvent, InvokerGuard]


#: Why messages are dropped.
OVERTAKEN = "it came after a later message had been delivered"
ENDED = "the sequence had ended"
BEHIND_A_GAP = "the sequence ended with a gap before it"
INTERRUPTED = "its handler was called and did not end, and at most once it is not called again"


@dataclass(frozen=True, slots=True)
class _Given:
    """The counters of a buffer after some numbers are delivered."""

    passed: RangeSet
    waiting: RangeSet
    #: Lower numbers that are skipped and can no longer be delivered.
    late: tuple[int, ...]


@dataclass
class InvokerBuffer:
    """The counters of one sequence's buffer, and its state.

    The bodies are in the store; the machine knows numbers only. ``buffered`` may be only the lowest numbers that the
    store has, if these are more than one `Delivered` takes. `Cut` needs all numbers, and so does every event with
    DiscardEntireSequence.
    """

    in_order: bool
    assurance: DeliveryAssurance
    behavior: IncompleteSequenceBehavior
    state: InvokerState = InvokerState.EMPTY
    #: Numbers that the application has consumed, or that are skipped and never delivered.
    passed: RangeSet = field(default_factory=RangeSet)
    #: Numbers of the messages in the buffer.
    buffered: RangeSet = field(default_factory=RangeSet)
    #: Numbers whose handler has not finished, although they are in ``passed`` (AtMostOnce).
    in_progress: RangeSet = field(default_factory=RangeSet)
    #: The last number of the sequence, once known.
    last: int | None = None
    #: The sequence ended incomplete: no more messages arrive.
    cut: bool = False

    @classmethod
    def for_policy(
        cls,
        policy: DestinationPolicy,
        rm: RmVersion = RmVersion.RM11,
        *,
        source_knows: bool = True,
        in_order_only: bool = False,
    ) -> InvokerBuffer:
        """A buffer with the choices of the policy.

        If the source does not know the IncompleteSequenceBehavior (never in WS-RM 1.0), only messages that were never
        acknowledged are discarded.

        :param source_knows: the source knows the behavior.
        :param in_order_only: nothing behind a gap is acknowledged, see `DestinationPolicy.acknowledges_in_order`.
        """
        known = in_order_only or (source_knows and rm is RmVersion.RM11)
        behavior = policy.behavior if known else policy.advertised_behavior
        return cls(in_order=policy.in_order, assurance=policy.assurance, behavior=behavior)

    def copy(self) -> InvokerBuffer:
        """An independent machine with the same counters."""
        own = shallow(self)
        own.passed, own.buffered, own.in_progress = self.passed.copy(), self.buffered.copy(), self.in_progress.copy()
        return own

    def without_messages(self) -> InvokerBuffer:
        """The buffer as its record is stored, with ``buffered`` empty: those numbers are read from the rows."""
        own = self.copy()
        own.buffered = RangeSet()
        return own

    # --- questions -------------------------------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """The lowest number not yet passed."""
        return self.passed.first_missing()

    @property
    def release(self) -> Release:
        """Which of the waiting messages may be delivered."""
        return release_of(self.behavior, self.assurance, in_order=self.in_order, cut=self.cut)

    @property
    def may_skip_gaps(self) -> bool:
        """Whether messages are delivered in order but do not wait for missing numbers (DA-04)."""
        if self.behavior is IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP:
            return False
        return self.cut or self.assurance is DeliveryAssurance.AT_MOST_ONCE

    @property
    def finished(self) -> bool:
        """Whether nothing is left to deliver, and no handler is still at work."""
        return self.state is InvokerState.DONE and not self.in_progress

    def waiting(self, received: RangeSet) -> int:
        """How many of the received numbers wait for the application. While the buffer is not finished, those that were
        dropped and are not passed count too.

        :param received: the numbers that its sequence has received.
        """
        return 0 if self.finished else max(0, received.count - self.passed.count)

    @property
    def work(self) -> Release:
        """Which of the messages are work for a worker. Numbers that a crash left in progress are, gap or not."""
        return Release.ANY if self.in_progress else self.release

    def has_work(self, waiting: RangeSet, last: int | None) -> bool:
        """Whether a stored buffer with these waiting messages has work.

        :param last: the number of the message that is marked as the last one.
        """
        known = last if self.last is None else self.last
        return _any(deliverable(self.work, waiting, self.passed, known))

    def releasable(self) -> Iterator[int]:
        """The numbers that may be delivered now, in the order of delivery."""
        return deliverable(self.release, self.buffered, self.passed, self.last)

    def waits_for_another(self, number: int, received: RangeSet) -> bool:
        """Whether a number can be delivered only after another number that is not in ``received``."""
        if self.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
            return not self.cut and (self.last is None or not received.covers(1, self.last))
        return self.release is Release.NEXT and number > received.first_missing()

    def predicate(self) -> str:
        """The tuple that follows from the counters: it equals the state's value."""
        over = not self.buffered and self._covers(self.passed, self.last)
        factors = (_any(self.releasable()), self.last is not None or self.cut, over)
        return "".join("01"[factor] for factor in factors)

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, given: events.InvokerInput) -> tuple[InvokerEffect, ...]:
        """Handle one input: look up the row of each of its events, and apply it. Returns the effects.

        :raises ImpossibleEvent: a defect of Mercury, not of a peer.
        """
        return tuple(self._handle(given))

    def _handle(self, given: events.InvokerInput) -> Iterator[InvokerEffect]:
        for event in events_of(given):
            row = INVOKER.row(self.state, event, partial(self._holds, event, given))
            if row.kind is Kind.REFUSE:
                yield self._refuse(row, given)
            elif row.kind is Kind.MOVE:
                yield from self._take(row, given)
                self.state = row.next

    def _take(self, row: InvokerRow, given: events.InvokerInput) -> Iterator[InvokerEffect]:
        match given:
            case events.MessageBuffered(number=number, last=last):
                self.buffered.add(number)
                self.last = number if last and self.last is None else self.last
            case events.LastKnown(number=number):
                self.last = number if self.last is None else self.last
            case events.Begun(numbers=numbers) if row.event is InvokerEvent.BEGUN:
                for number in numbers:
                    self.in_progress.add(number)
            case events.Delivered(numbers=numbers) | events.Begun(numbers=numbers):
                after = self._delivered(numbers)
                self.passed, self.buffered = after.passed, after.waiting
                if after.late:
                    yield effects.Dropped(after.late, OVERTAKEN)
            case events.Completed(numbers=numbers):
                for number in numbers:
                    self.in_progress.discard(number)
            case events.Interrupted():
                lost, self.in_progress = tuple(self.in_progress.numbers()), RangeSet()
                yield effects.Dropped(lost, INTERRUPTED)
            case events.Cut():
                dropped = self._behind_the_cut(self.buffered)
                self.buffered, self.cut = _without(self.buffered, dropped), True
                if dropped:
                    yield effects.Dropped(dropped, BEHIND_A_GAP)
            case _:
                assert_never(given)

    def _refuse(self, row: InvokerRow, given: events.InvokerInput) -> InvokerEffect:
        assert isinstance(given, events.MessageBuffered)
        reasons = {InvokerGuard.OVERTAKEN: OVERTAKEN, InvokerGuard.BEHIND_A_GAP: BEHIND_A_GAP}
        return effects.Dropped((given.number,), ENDED if row.guard is None else reasons[row.guard])

    # --- guards ----------------------------------------------------------------------------------------------------

    def _holds(self, event: InvokerEvent, given: events.InvokerInput, guard: InvokerGuard) -> bool:
        """Whether a guard holds, by the counters before the event."""
        match guard:
            case InvokerGuard.OVERTAKEN:
                return isinstance(given, events.MessageBuffered) and given.number in self.passed
            case InvokerGuard.BEHIND_A_GAP:
                if not (self.cut and isinstance(given, events.MessageBuffered)):
                    return False
                return given.number in self._behind_the_cut(self._with(given))
            case InvokerGuard.NOTHING_NEW:
                return not self._new(_numbers(given))
            case InvokerGuard.IN_PROGRESS:
                return bool(self.in_progress)
            case InvokerGuard.CUT_BEFORE:
                return self.cut
            case InvokerGuard.RELEASABLE:
                return _any(deliverable(self.release, self._with(given), self.passed, self._last(given)))
            case InvokerGuard.SOME_LEFT if event is InvokerEvent.CUT:
                release = release_of(self.behavior, self.assurance, in_order=self.in_order, cut=True)
                left = _without(self.buffered, self._behind_the_cut(self.buffered))
                return _any(deliverable(release, left, self.passed, self.last))
            case InvokerGuard.SOME_LEFT:
                after = self._delivered(_numbers(given))
                return _any(deliverable(self.release, after.waiting, after.passed, self.last))
            case InvokerGuard.OVER if event is InvokerEvent.LMR_NUMBER:
                return not self.buffered and self._covers(self.passed, self._last(given))
            case InvokerGuard.OVER:
                after = self._delivered(_numbers(given))
                return not after.waiting and self._covers(after.passed, self.last)
            case _:
                assert_never(guard)

    def _with(self, given: events.InvokerInput) -> RangeSet:
        """The waiting numbers after this input."""
        waiting = self.buffered.copy()
        if isinstance(given, events.MessageBuffered):
            waiting.add(given.number)
        return waiting

    def _last(self, given: events.InvokerInput) -> int | None:
        """The last number after this input, which may state it; ``None`` = unknown."""
        match given:
            case events.LastKnown(number=number) | events.MessageBuffered(number=number, last=True):
                return number if self.last is None else self.last
            case _:
                return self.last

    def _new(self, numbers: tuple[int, ...]) -> list[int]:
        return sorted(number for number in numbers if number not in self.passed)

    def _delivered(self, numbers: tuple[int, ...]) -> _Given:
        """The counters after these numbers are delivered."""
        new, passed, late = self._new(numbers), self.passed.copy(), tuple[int, ...]()
        if not self.in_order:
            for number in new:
                passed.add(number)
        elif self.may_skip_gaps:
            # Lower numbers are skipped and never delivered, even those received while the handler worked on these.
            late = tuple(number for number in self._buffered_below(new[-1]) if number not in new)
            passed.add(1, new[-1])
        else:
            if new != list(range(self.next, self.next + len(new))):
                raise ImpossibleEvent(f"InvokerBuffer: {new[0]} to {new[-1]} delivered while {self.next} is next")
            passed.add(new[0], new[-1])
        return _Given(passed, _without(self.buffered, (*new, *late)), late)

    # --- counters --------------------------------------------------------------------------------------------------

    def _behind_the_cut(self, waiting: RangeSet) -> tuple[int, ...]:
        """The numbers of ``waiting`` that IncompleteSequenceBehavior does not deliver (RM11-SEQ-11).

        Only missing numbers below the highest received one count as a gap: the source knows these same ranges only.
        """
        if self.behavior is IncompleteSequenceBehavior.NO_DISCARD:
            return ()
        here = self.passed.copy()
        here.update(waiting)
        first_gap = here.first_missing()
        if self.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE and first_gap < here.highest:
            return tuple(waiting.numbers())
        return tuple(number for number in waiting.numbers() if number > first_gap)

    def _buffered_below(self, number: int) -> Iterator[int]:
        return takewhile(lambda waiting: waiting < number, self.buffered.numbers())

    def _covers(self, passed: RangeSet, last: int | None) -> bool:
        return self.cut or (last is not None and passed.covers(1, last))


def events_of(given: events.InvokerInput) -> tuple[InvokerEvent, ...]:
    """The events of the table that an input is, one after the other."""
    match given:
        case events.MessageBuffered(last=last):
            return (InvokerEvent.LMR_MESSAGE if last else InvokerEvent.AMR,)
        case events.LastKnown():
            return (InvokerEvent.LMR_NUMBER,)
        case events.Delivered():
            return (InvokerEvent.SAM,)
        case events.Begun():
            return (InvokerEvent.BEGUN, InvokerEvent.SAM)
        case events.Completed():
            return (InvokerEvent.COMPLETED,)
        case events.Interrupted():
            return (InvokerEvent.INTERRUPTED,)
        case events.Cut():
            return (InvokerEvent.CUT,)
        case _:
            assert_never(given)


def _numbers(given: events.InvokerInput) -> tuple[int, ...]:
    return given.numbers if isinstance(given, (events.Delivered, events.Begun)) else ()


def _without(waiting: RangeSet, numbers: Iterable[int]) -> RangeSet:
    left, low, high = waiting.copy(), 0, -1
    for number in numbers:
        if number != high + 1:  # numbers that follow each other are removed at once
            left.discard(low, high)
            low = number
        high = number
    left.discard(low, high)
    return left


def _any(numbers: Iterator[int]) -> bool:
    return any(True for _ in islice(numbers, 1))
