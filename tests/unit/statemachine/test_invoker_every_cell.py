"""InvokerBuffer: every state x event of the table, through the public `handle`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mercury.statemachine import effects, events, invoker
from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance
from mercury.statemachine.table import Cell, ImpossibleEvent, Kind
from mercury.statemachine.tables import INVOKER, InvokerEvent, InvokerState

KEEP = IncompleteSequenceBehavior.NO_DISCARD
UP_TO_THE_GAP = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
ALL_OR_NOTHING = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE

EMPTY, RELEASING, AWAITING = InvokerState.EMPTY, InvokerState.RELEASING, InvokerState.AWAITING
RELEASING_LAST, DONE = InvokerState.RELEASING_LAST, InvokerState.DONE


def message(number: int) -> events.MessageBuffered:
    return events.MessageBuffered(number=number)


def last(number: int) -> events.MessageBuffered:
    return events.MessageBuffered(number=number, last=True)


def delivered(*numbers: int) -> events.Delivered:
    return events.Delivered(numbers)


@dataclass(frozen=True)
class Case:
    """Some way to the state, the input that is the event there, and where it leads."""

    state: InvokerState
    event: InvokerEvent
    path: tuple[events.InvokerInput, ...]
    stimulus: events.InvokerInput
    expected: InvokerState
    behavior: IncompleteSequenceBehavior = UP_TO_THE_GAP


CUT = events.Cut()
CASES = [
    # 000: nothing to release now
    Case(EMPTY, InvokerEvent.AMR, (), message(1), RELEASING),
    Case(EMPTY, InvokerEvent.AMR, (), message(2), EMPTY),
    Case(EMPTY, InvokerEvent.LMR_MESSAGE, (), last(1), RELEASING_LAST),
    Case(EMPTY, InvokerEvent.LMR_MESSAGE, (), last(2), AWAITING),
    Case(EMPTY, InvokerEvent.LMR_NUMBER, (message(1), message(2)), events.LastKnown(2), RELEASING_LAST, ALL_OR_NOTHING),
    Case(EMPTY, InvokerEvent.LMR_NUMBER, (message(1), delivered(1)), events.LastKnown(1), DONE),
    Case(EMPTY, InvokerEvent.LMR_NUMBER, (), events.LastKnown(0), DONE),
    Case(EMPTY, InvokerEvent.LMR_NUMBER, (message(2),), events.LastKnown(2), AWAITING),
    Case(EMPTY, InvokerEvent.CUT_LEFT, (message(2),), CUT, RELEASING_LAST, KEEP),
    Case(EMPTY, InvokerEvent.CUT_LEFT, (message(1),), CUT, RELEASING_LAST, ALL_OR_NOTHING),
    Case(EMPTY, InvokerEvent.CUT_NONE, (message(2),), CUT, DONE),
    Case(EMPTY, InvokerEvent.CUT_NONE, (), CUT, DONE, KEEP),
    # 100: something to release
    Case(RELEASING, InvokerEvent.AMR, (message(1),), message(3), RELEASING),
    Case(RELEASING, InvokerEvent.LMR_MESSAGE, (message(1),), last(3), RELEASING_LAST),
    Case(RELEASING, InvokerEvent.LMR_NUMBER, (message(1),), events.LastKnown(1), RELEASING_LAST),
    Case(RELEASING, InvokerEvent.SAM_SOME, (message(1), message(2)), delivered(1), RELEASING),
    Case(RELEASING, InvokerEvent.SAM_MORE, (message(1), message(3)), delivered(1), EMPTY),
    Case(RELEASING, InvokerEvent.CUT_LEFT, (message(1), message(3)), CUT, RELEASING_LAST),
    # 010: the end is known, a gap before what is left
    Case(AWAITING, InvokerEvent.AMR, (last(3),), message(1), RELEASING_LAST),
    Case(AWAITING, InvokerEvent.AMR, (last(3),), message(2), AWAITING),
    Case(AWAITING, InvokerEvent.LMR_NUMBER, (last(3),), events.LastKnown(3), AWAITING),
    Case(AWAITING, InvokerEvent.CUT_LEFT, (last(3),), CUT, RELEASING_LAST, KEEP),
    Case(AWAITING, InvokerEvent.CUT_NONE, (last(3),), CUT, DONE),
    # 110: the end is known, something to release
    Case(RELEASING_LAST, InvokerEvent.AMR, (message(1), last(3)), message(2), RELEASING_LAST),
    Case(RELEASING_LAST, InvokerEvent.LMR_NUMBER, (last(1),), events.LastKnown(1), RELEASING_LAST),
    Case(RELEASING_LAST, InvokerEvent.SAM_SOME, (message(1), last(2)), delivered(1), RELEASING_LAST),
    Case(RELEASING_LAST, InvokerEvent.SAM_MORE, (message(1), last(3)), delivered(1), AWAITING),
    Case(RELEASING_LAST, InvokerEvent.SAM_ALL, (message(1), last(2)), delivered(1, 2), DONE),
    Case(RELEASING_LAST, InvokerEvent.CUT_LEFT, (message(1), last(3)), CUT, RELEASING_LAST),
    # 011: done
    Case(DONE, InvokerEvent.AMR, (last(1), delivered(1)), message(1), DONE),
    Case(DONE, InvokerEvent.AMR, (last(2), CUT), message(1), DONE),
    Case(DONE, InvokerEvent.LMR_MESSAGE, (CUT,), last(1), DONE),
    Case(DONE, InvokerEvent.LMR_NUMBER, (last(1), delivered(1)), events.LastKnown(1), DONE),
    Case(DONE, InvokerEvent.CUT_NONE, (last(1), delivered(1)), CUT, DONE),
]

#: The table allows it; the counters never come to it.
NEVER_COMES: dict[tuple[InvokerState, InvokerEvent], str] = {
    (RELEASING, InvokerEvent.CUT_NONE): "what is releasable lies before the first gap, and no behaviour discards that",
    (RELEASING_LAST, InvokerEvent.CUT_NONE): "the same; where all is discarded, nothing was releasable before",
}

NOTHING_RELEASABLE = "nothing is releasable in this state, so nothing is with the application"
LAST_IS_KNOWN = "the last number is known already, so a message cannot make it known"

#: For each impossible cell: why, and what comes nearest to it.
WHY_IMPOSSIBLE: dict[tuple[InvokerState, InvokerEvent], tuple[str, Case]] = {
    **{
        (state, event): (NOTHING_RELEASABLE, Case(state, event, path, delivered(1), state))
        for state, path in (
            (EMPTY, (message(1), delivered(1))),
            (AWAITING, (message(1), last(3), delivered(1))),
            (DONE, (last(1), delivered(1))),
        )
        for event in (InvokerEvent.SAM_SOME, InvokerEvent.SAM_MORE, InvokerEvent.SAM_ALL)
    },
    (RELEASING, InvokerEvent.SAM_ALL): (
        "the end is not known, so more is expected",
        Case(RELEASING, InvokerEvent.SAM_ALL, (message(1),), delivered(1), EMPTY),
    ),
    (AWAITING, InvokerEvent.LMR_MESSAGE): (
        LAST_IS_KNOWN,
        Case(AWAITING, InvokerEvent.LMR_MESSAGE, (events.LastKnown(3),), last(3), AWAITING),
    ),
    (RELEASING_LAST, InvokerEvent.LMR_MESSAGE): (
        LAST_IS_KNOWN,
        Case(RELEASING_LAST, InvokerEvent.LMR_MESSAGE, (message(1), events.LastKnown(3)), last(3), RELEASING_LAST),
    ),
    (DONE, InvokerEvent.CUT_LEFT): (
        "done means that nothing is left",
        Case(DONE, InvokerEvent.CUT_LEFT, (last(1), delivered(1)), CUT, DONE),
    ),
}


class Spy:
    """The table, with a list of the events that the machine raised on it."""

    def __init__(self) -> None:
        self.raised: list[tuple[InvokerState, InvokerEvent]] = []

    def move(self, state: InvokerState, event: InvokerEvent) -> Cell[InvokerState]:
        self.raised.append((state, event))
        return INVOKER.move(state, event)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy()
    monkeypatch.setattr(invoker, "INVOKER", spy)
    return spy


def machine_at(case: Case) -> InvokerBuffer:
    machine = InvokerBuffer(in_order=True, assurance=DeliveryAssurance.EXACTLY_ONCE, behavior=case.behavior)
    for event in case.path:
        machine.handle(event)
    assert machine.state is case.state
    assert machine.predicate() == case.state.value
    return machine


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.state.value}-{case.event.value}-{case.expected.value}")
def test_every_event_in_every_state_does_what_its_cell_says(case: Case, spy: Spy) -> None:
    machine = machine_at(case)
    spy.raised.clear()
    machine.handle(case.stimulus)
    assert spy.raised == [(case.state, case.event)] or (case.state is DONE and not spy.raised)
    assert case.expected in INVOKER[case.state, case.event].next
    assert machine.state is case.expected
    assert machine.predicate() == case.expected.value


def test_every_possible_outcome_of_every_cell_has_a_case() -> None:
    possible = {
        (state, event, outcome)
        for (state, event), cell in INVOKER.cells.items()
        for outcome in cell.next
        if (state, event) not in NEVER_COMES
    }
    assert {(case.state, case.event, case.expected) for case in CASES} == possible


@pytest.mark.parametrize("case", [case for _, case in WHY_IMPOSSIBLE.values()], ids=lambda case: case.event.value)
def test_an_impossible_event_is_not_raised_by_what_comes_nearest_to_it(case: Case, spy: Spy) -> None:
    machine = machine_at(case)
    spy.raised.clear()
    machine.handle(case.stimulus)
    assert (case.state, case.event) not in spy.raised, WHY_IMPOSSIBLE[case.state, case.event][0]
    assert machine.state is case.expected
    with pytest.raises(ImpossibleEvent):
        INVOKER.move(case.state, case.event)


def test_every_impossible_cell_has_its_reason_and_nothing_else_has() -> None:
    assert set(WHY_IMPOSSIBLE) == {at for at, cell in INVOKER.cells.items() if cell.kind is Kind.IMPOSSIBLE}


def test_a_delivery_out_of_order_is_an_error_of_ours_and_not_a_lost_message() -> None:
    machine = InvokerBuffer(in_order=True, assurance=DeliveryAssurance.EXACTLY_ONCE, behavior=UP_TO_THE_GAP)
    machine.handle(message(1))
    machine.handle(message(2))
    with pytest.raises(ImpossibleEvent, match="2 to 2 delivered while 1 is next"):
        machine.handle(delivered(2))
    assert list(machine.releasable()) == [1, 2]


def test_a_message_after_the_end_is_reported_as_dropped() -> None:
    machine = InvokerBuffer(in_order=True, assurance=DeliveryAssurance.EXACTLY_ONCE, behavior=UP_TO_THE_GAP)
    machine.handle(CUT)
    assert machine.handle(message(1)) == (effects.Dropped((1,), invoker.ENDED),)
