"""InvokerBuffer: which of the received messages the application may have now. Pure; see `rms`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import assert_never

from mercury.statemachine import effects, events
from mercury.statemachine.effects import InvokerEffect
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.table import ImpossibleEvent
from mercury.statemachine.tables import INVOKER, InvokerEvent, InvokerState

#: Why messages are dropped.
OVERTAKEN = "it came after a later message had been delivered"
ENDED = "the sequence had ended"
BEHIND_A_GAP = "the sequence ended with a gap before it"
INTERRUPTED = "its handler was called and did not end, and at most once it is not called again"


@dataclass
class InvokerBuffer:
    """The counters of one sequence's buffer, and its state.

    The bodies are in the store; the machine knows numbers only. ``buffered`` may be the lower part of what the store
    holds, as long as more of it is loaded than one `Delivered` takes. `Cut`, and DiscardEntireSequence throughout,
    need all of it.
    """

    in_order: bool
    assurance: DeliveryAssurance
    behavior: IncompleteSequenceBehavior
    state: InvokerState = InvokerState.EMPTY
    #: Numbers the application has consumed, or that were passed over for good.
    passed: RangeSet = field(default_factory=RangeSet)
    #: Numbers that wait here.
    buffered: RangeSet = field(default_factory=RangeSet)
    #: Numbers with which the application has not done yet, though they are passed (AtMostOnce).
    in_progress: RangeSet = field(default_factory=RangeSet)
    #: The last number there will be, once known.
    last: int | None = None
    #: The sequence ended incomplete: nothing more will come.
    cut: bool = False

    @classmethod
    def for_policy(
        cls,
        policy: DestinationPolicy,
        rm: RmVersion = RmVersion.RM11,
        *,
        told: bool = True,
        in_order_only: bool = False,
    ) -> InvokerBuffer:
        """A buffer as the policy has it. What the source cannot learn of is not discarded, unless it was never
        acknowledged: in WS-RM 1.0 no source can learn of it.

        :param told: the source knows the behavior.
        :param in_order_only: nothing behind a gap is acknowledged, see `DestinationPolicy.acknowledges_in_order`.
        """
        known = in_order_only or (told and rm is RmVersion.RM11)
        behavior = policy.behavior if known else policy.told_behavior
        return cls(in_order=policy.in_order, assurance=policy.assurance, behavior=behavior)

    # --- questions -------------------------------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """The lowest number not yet passed."""
        return self.passed.first_missing()

    @property
    def may_skip_gaps(self) -> bool:
        """In order, yet a missing number does not hold up the rest (DA-04)."""
        if self._holds_gaps:
            return False
        return self.cut or self.assurance is DeliveryAssurance.AT_MOST_ONCE

    @property
    def _holds_gaps(self) -> bool:
        """What lies behind a gap may have to be discarded, and the source sends it again: not to be delivered."""
        return self.behavior is IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP

    def releasable(self) -> Iterator[int]:
        """The numbers the application may have now, in the order in which it gets them."""
        if self.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE and not (self.cut or self._all_here()):
            return
        if self.may_skip_gaps or not (self.in_order or self._holds_gaps):
            yield from self.buffered.numbers()
            return
        number = self.next
        while number in self.buffered:
            yield number
            number += 1

    def waits_for_another(self, number: int, received: RangeSet) -> bool:
        """Whether the application gets a number only after something that is not among what was received."""
        if self.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
            return not self.cut and (self.last is None or not received.covers(1, self.last))
        if self.may_skip_gaps or not (self.in_order or self._holds_gaps):
            return False
        return number > received.first_missing()

    def predicate(self) -> str:
        """The tuple that the counters spell: always the state's value."""
        factors = (self._any_releasable(), self.last is not None or self.cut, self._over())
        return "".join("01"[factor] for factor in factors)

    # --- events ----------------------------------------------------------------------------------------------------

    def handle(self, event: events.InvokerInput) -> tuple[InvokerEffect, ...]:
        """Take one event; returns what is to be done about it.

        :raises ImpossibleEvent: a defect, not a peer's doing.
        """
        match event:
            case events.MessageBuffered(number=number, last=last):
                return self._message(number, last)
            case events.LastKnown(number=number):
                if self.last is None:
                    self.last = number
                self._move(InvokerEvent.LMR_NUMBER)
                return ()
            case events.Delivered(numbers=numbers):
                return self._delivered(numbers)
            case events.Begun(numbers=numbers):
                for number in numbers:
                    self.in_progress.add(number)
                return self._delivered(numbers)
            case events.Completed(numbers=numbers):
                for number in numbers:
                    self.in_progress.discard(number)
                return ()
            case events.Interrupted():
                lost, self.in_progress = tuple(self.in_progress.numbers()), RangeSet()
                return (effects.Dropped(lost, INTERRUPTED),) if lost else ()
            case events.Cut():
                return self._cut()
            case _:
                assert_never(event)

    def _message(self, number: int, last: bool) -> tuple[InvokerEffect, ...]:
        if number in self.passed:
            return (effects.Dropped((number,), OVERTAKEN),)
        if self.state is InvokerState.DONE:
            return (effects.Dropped((number,), ENDED),)
        self.buffered.add(number)
        if self.cut and number in self._behind_the_cut():
            self.buffered.discard(number)
            return (effects.Dropped((number,), BEHIND_A_GAP),)
        newly_last = last and self.last is None
        if newly_last:
            self.last = number
        self._move(InvokerEvent.LMR_MESSAGE if newly_last and not self.cut else InvokerEvent.AMR)
        return ()

    def _delivered(self, numbers: tuple[int, ...]) -> tuple[InvokerEffect, ...]:
        new = sorted(number for number in numbers if number not in self.passed)
        if not new:
            return ()
        late: tuple[int, ...] = ()
        if not self.in_order:
            for number in new:
                self.passed.add(number)
        elif self.may_skip_gaps:
            # What lies before is passed over for good, even what came in while these were with the application.
            late = tuple(number for number in self._buffered_below(new[-1]) if number not in new)
            self.passed.add(1, new[-1])
        else:
            if new != list(range(self.next, self.next + len(new))):
                raise ImpossibleEvent(f"InvokerBuffer: {new[0]} to {new[-1]} delivered while {self.next} is next")
            self.passed.add(new[0], new[-1])
        for number in (*new, *late):
            self.buffered.discard(number)
        if self._any_releasable():
            self._move(InvokerEvent.SAM_SOME)
        elif self._over():
            self._move(InvokerEvent.SAM_ALL)
        else:
            self._move(InvokerEvent.SAM_MORE)
        return (effects.Dropped(late, OVERTAKEN),) if late else ()

    def _cut(self) -> tuple[InvokerEffect, ...]:
        if self.cut or self.state is InvokerState.DONE:
            return ()
        dropped = self._behind_the_cut()
        for number in dropped:
            self.buffered.discard(number)
        self.cut = True
        self._move(InvokerEvent.CUT_LEFT if self._any_releasable() else InvokerEvent.CUT_NONE)
        return (effects.Dropped(dropped, BEHIND_A_GAP),) if dropped else ()

    # --- counters --------------------------------------------------------------------------------------------------

    def _all_here(self) -> bool:
        if self.last is None:
            return False
        here = self.passed.copy()
        here.update(self.buffered)
        return here.covers(1, self.last)

    def _behind_the_cut(self) -> tuple[int, ...]:
        """What IncompleteSequenceBehavior withholds (RM11-SEQ-11).

        A gap lies below the highest number that was received: the source has the same ranges to go by, no more.
        """
        if self.behavior is IncompleteSequenceBehavior.NO_DISCARD:
            return ()
        here = self.passed.copy()
        here.update(self.buffered)
        first_gap = here.first_missing()
        if self.behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE and first_gap < here.highest:
            return tuple(self.buffered.numbers())
        return tuple(number for number in self.buffered.numbers() if number > first_gap)

    def _buffered_below(self, number: int) -> Iterator[int]:
        return takewhile(lambda waiting: waiting < number, self.buffered.numbers())

    def _any_releasable(self) -> bool:
        return any(True for _ in islice(self.releasable(), 1))

    def _over(self) -> bool:
        return not self.buffered and (self.cut or (self.last is not None and self.passed.covers(1, self.last)))

    def _move(self, event: InvokerEvent) -> None:
        nexts = INVOKER.move(self.state, event).next
        self.state = nexts[0] if len(nexts) == 1 else InvokerState(self.predicate())
