"""InvokerBuffer: which messages the application gets, and when."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from mercury.statemachine import effects, events
from mercury.statemachine.effects import InvokerEffect
from mercury.statemachine.invoker import BEHIND_A_GAP, ENDED, INTERRUPTED, OVERTAKEN, InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.tables import InvokerState

EXACTLY_ONCE = DeliveryAssurance.EXACTLY_ONCE
AT_LEAST_ONCE = DeliveryAssurance.AT_LEAST_ONCE
AT_MOST_ONCE = DeliveryAssurance.AT_MOST_ONCE
KEEP = IncompleteSequenceBehavior.NO_DISCARD
UP_TO_THE_GAP = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
ALL_OR_NOTHING = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
WAITING = (EXACTLY_ONCE, AT_LEAST_ONCE)


def drive(machine: InvokerBuffer, *happened: events.InvokerInput) -> list[InvokerEffect]:
    """Let it happen; every state has to equal its predicate."""
    asked: list[InvokerEffect] = []
    for event in happened:
        asked += machine.handle(event)
        assert machine.state.value == machine.predicate()
    return asked


def holding(
    *numbers: int,
    behavior: IncompleteSequenceBehavior = UP_TO_THE_GAP,
    in_order: bool = True,
    assurance: DeliveryAssurance = EXACTLY_ONCE,
) -> InvokerBuffer:
    machine = InvokerBuffer(in_order=in_order, assurance=assurance, behavior=behavior)
    drive(machine, *(events.MessageBuffered(number=number) for number in numbers))
    return machine


def message(number: int) -> events.MessageBuffered:
    return events.MessageBuffered(number=number)


def last(number: int) -> events.MessageBuffered:
    return events.MessageBuffered(number=number, last=True)


def delivered(*numbers: int) -> events.Delivered:
    return events.Delivered(numbers)


def give_all(machine: InvokerBuffer) -> list[int]:
    """Give one after the other what is releasable."""
    given: list[int] = []
    while (number := next(machine.releasable(), None)) is not None:
        given.append(number)
        drive(machine, delivered(number))
    return given


# --- every assurance x order x behaviour -----------------------------------------------------------------------------


def expected_before_the_end(
    numbers: set[int], assurance: DeliveryAssurance, in_order: bool, behavior: IncompleteSequenceBehavior
) -> list[int]:
    """What a reader of the assurances would expect to be releasable."""
    if behavior is ALL_OR_NOTHING:
        return []
    before_the_gap = [number for number in sorted(numbers) if set(range(1, number)) <= numbers]
    if behavior is UP_TO_THE_GAP or (in_order and assurance is not AT_MOST_ONCE):
        return before_the_gap
    return sorted(numbers)


def expected_after_the_cut(numbers: set[int], behavior: IncompleteSequenceBehavior) -> list[int]:
    before_the_gap = [number for number in sorted(numbers) if set(range(1, number)) <= numbers]
    if behavior is KEEP:
        return sorted(numbers)
    if behavior is UP_TO_THE_GAP:
        return before_the_gap
    return before_the_gap if set(before_the_gap) == numbers else []


EVERY_WAY = list(product(DeliveryAssurance, (True, False), IncompleteSequenceBehavior))


@pytest.mark.parametrize(("assurance", "in_order", "behavior"), EVERY_WAY)
@pytest.mark.parametrize("numbers", [(), (1,), (1, 2, 3), (1, 3), (2, 3), (1, 2, 4, 6)])
def test_releasable_numbers_before_the_end_and_after_a_cut(
    assurance: DeliveryAssurance, in_order: bool, behavior: IncompleteSequenceBehavior, numbers: tuple[int, ...]
) -> None:
    for order in permutations(numbers):
        machine = holding(*order, behavior=behavior, in_order=in_order, assurance=assurance)
        expected = expected_before_the_end(set(numbers), assurance, in_order, behavior)
        assert list(machine.releasable()) == expected
        asked = drive(machine, events.Cut())
        left = expected_after_the_cut(set(numbers), behavior)
        assert list(machine.releasable()) == left
        dropped = tuple(sorted(set(numbers) - set(left)))
        assert asked == ([effects.Dropped(dropped, BEHIND_A_GAP)] if dropped else [])
        assert give_all(machine) == left
        assert machine.state is InvokerState.DONE


@pytest.mark.parametrize(("assurance", "in_order", "behavior"), EVERY_WAY)
def test_a_complete_sequence_is_given_whole_in_every_way(
    assurance: DeliveryAssurance, in_order: bool, behavior: IncompleteSequenceBehavior
) -> None:
    for order in permutations((1, 2, 3)):
        machine = holding(behavior=behavior, in_order=in_order, assurance=assurance)
        drive(machine, *(events.MessageBuffered(number=number, last=number == 3) for number in order))
        assert give_all(machine) == [1, 2, 3]
        assert machine.state is InvokerState.DONE


# --- in order --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assurance", WAITING)
def test_nothing_is_given_past_a_gap(assurance: DeliveryAssurance) -> None:
    machine = holding(1, 3, assurance=assurance)
    assert give_all(machine) == [1]
    assert (machine.state, machine.next) == (InvokerState.EMPTY, 2)
    drive(machine, message(2))
    assert give_all(machine) == [2, 3]


def test_a_run_is_marked_at_once() -> None:
    machine = holding(1, 2, 3, 5)
    drive(machine, delivered(1, 2, 3))
    assert (machine.state, machine.passed.as_tuples()) == (InvokerState.EMPTY, ((1, 3),))


@pytest.mark.parametrize("numbers", [(1,), (1, 2), ()])
def test_a_delivery_that_is_marked_twice_counts_once(numbers: tuple[int, ...]) -> None:
    machine = holding(1, 2, 3)
    drive(machine, delivered(1, 2))
    assert drive(machine, delivered(*numbers)) == []
    assert list(machine.releasable()) == [3]


def test_a_mark_that_repeats_a_part_counts_the_rest() -> None:
    machine = holding(1, 2, 3)
    drive(machine, delivered(1), delivered(1, 2))
    assert list(machine.releasable()) == [3]


# --- at most once: gaps may be skipped -------------------------------------------------------------------------------


def test_at_most_once_skips_a_gap_and_drops_what_comes_late() -> None:
    machine = holding(1, 3, assurance=AT_MOST_ONCE, behavior=KEEP)
    assert give_all(machine) == [1, 3]
    assert drive(machine, message(2)) == [effects.Dropped((2,), OVERTAKEN)]
    assert list(machine.releasable()) == []


def test_at_most_once_a_message_that_comes_while_a_later_one_is_with_the_application_is_dropped() -> None:
    machine = holding(2, 3, 4, assurance=AT_MOST_ONCE, behavior=KEEP)
    drive(machine, message(1))
    assert drive(machine, delivered(2, 3)) == [effects.Dropped((1,), OVERTAKEN)]
    assert list(machine.releasable()) == [4]


def test_at_most_once_the_last_message_ends_it_whatever_is_missing() -> None:
    machine = holding(1, assurance=AT_MOST_ONCE, behavior=KEEP)
    drive(machine, last(4))
    assert give_all(machine) == [1, 4]
    assert machine.state is InvokerState.DONE


def test_at_most_once_what_has_begun_is_in_progress_until_it_is_completed() -> None:
    machine = holding(1, 2, 3, assurance=AT_MOST_ONCE, behavior=KEEP)
    assert drive(machine, events.Begun((1, 2))) == []
    assert list(machine.releasable()) == [3]
    assert drive(machine, events.Completed((1, 2)), events.Interrupted()) == []


def test_at_most_once_what_has_begun_and_is_interrupted_is_dropped_once() -> None:
    machine = holding(1, 2, 3, assurance=AT_MOST_ONCE, behavior=KEEP)
    drive(machine, events.Begun((1, 2)), events.Completed((1,)))
    assert drive(machine, events.Interrupted()) == [effects.Dropped((2,), INTERRUPTED)]
    assert drive(machine, events.Interrupted()) == []
    assert give_all(machine) == [3]


def test_at_most_once_without_order_takes_late_messages() -> None:
    machine = holding(3, in_order=False, assurance=AT_MOST_ONCE, behavior=KEEP)
    assert give_all(machine) == [3]
    drive(machine, message(1))
    assert give_all(machine) == [1]


# --- without order ---------------------------------------------------------------------------------------------------


def test_without_order_the_end_comes_when_every_number_was_given() -> None:
    machine = holding(2, in_order=False, behavior=KEEP)
    drive(machine, last(3))
    assert give_all(machine) == [2, 3]
    assert machine.state is InvokerState.AWAITING
    drive(machine, message(1))
    assert give_all(machine) == [1]
    assert machine.state is InvokerState.DONE


def test_without_order_a_run_may_be_any_of_the_releasable() -> None:
    machine = holding(1, 2, 3, in_order=False, behavior=KEEP)
    drive(machine, delivered(3, 1))
    assert list(machine.releasable()) == [2]


@pytest.mark.parametrize("assurance", list(DeliveryAssurance))
@pytest.mark.parametrize("in_order", [True, False])
def test_messages_that_a_cut_may_discard_are_not_delivered_before_it(
    assurance: DeliveryAssurance, in_order: bool
) -> None:
    """The source has accepted DiscardFollowingFirstGap: it sends again all messages after the gap."""
    machine = holding(1, 3, assurance=assurance, in_order=in_order, behavior=UP_TO_THE_GAP)
    assert give_all(machine) == [1]
    assert drive(machine, events.Cut()) == [effects.Dropped((3,), BEHIND_A_GAP)]


# --- discard the entire sequence -------------------------------------------------------------------------------------


def test_all_or_nothing_withholds_until_the_end_is_known_and_all_is_here() -> None:
    machine = holding(1, 2, behavior=ALL_OR_NOTHING)
    assert machine.state is InvokerState.EMPTY
    drive(machine, last(4))
    assert machine.state is InvokerState.AWAITING
    drive(machine, message(3))
    assert machine.state is InvokerState.RELEASING_LAST
    assert give_all(machine) == [1, 2, 3, 4]


def test_all_or_nothing_releases_when_the_last_number_comes_by_itself() -> None:
    machine = holding(1, 2, behavior=ALL_OR_NOTHING)
    drive(machine, events.LastKnown(2))
    assert machine.state is InvokerState.RELEASING_LAST
    drive(machine, delivered(1))
    assert list(machine.releasable()) == [2]


def test_all_or_nothing_with_a_gap_is_nothing() -> None:
    machine = holding(1, 3, behavior=ALL_OR_NOTHING)
    assert drive(machine, events.Cut()) == [effects.Dropped((1, 3), BEHIND_A_GAP)]
    assert machine.state is InvokerState.DONE


@pytest.mark.parametrize("end", [(), (events.LastKnown(5),)])
def test_all_or_nothing_sees_a_gap_only_below_what_was_received(end: tuple[events.InvokerInput, ...]) -> None:
    """The final ranges 1 to 2 have no gap. The source goes by them too, and moves 3 to 5 only."""
    machine = holding(1, 2, behavior=ALL_OR_NOTHING)
    assert drive(machine, *end, events.Cut()) == []
    assert give_all(machine) == [1, 2]
    assert machine.state is InvokerState.DONE


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_cut_leaves_what_lies_before_the_gap_to_be_given() -> None:
    machine = holding(1, 2, 4, 5)
    drive(machine, delivered(1))
    assert drive(machine, events.Cut()) == [effects.Dropped((4, 5), BEHIND_A_GAP)]
    assert machine.state is InvokerState.RELEASING_LAST
    assert give_all(machine) == [2]
    assert machine.state is InvokerState.DONE


def test_a_second_cut_changes_nothing() -> None:
    machine = holding(1)
    drive(machine, events.Cut())
    assert drive(machine, events.Cut()) == []
    assert machine.state is InvokerState.RELEASING_LAST


def test_a_last_number_that_becomes_known_after_the_cut_changes_nothing() -> None:
    machine = holding(1)
    drive(machine, events.Cut(), events.LastKnown(3))
    assert machine.state is InvokerState.RELEASING_LAST
    assert give_all(machine) == [1]
    assert machine.state is InvokerState.DONE


def test_messages_that_are_read_after_the_cut_obey_it() -> None:
    """The store may hand them over after the mark of the cut."""
    machine = holding(1, 2)
    drive(machine, events.Cut())
    assert drive(machine, message(4)) == [effects.Dropped((4,), BEHIND_A_GAP)]
    assert drive(machine, last(3)) == []
    assert give_all(machine) == [1, 2, 3]
    assert drive(machine, message(5)) == [effects.Dropped((5,), ENDED)]


def test_a_message_that_is_read_after_the_cut_is_kept_where_nothing_is_discarded() -> None:
    machine = holding(2, behavior=KEEP)
    drive(machine, events.Cut())
    assert drive(machine, last(4)) == []
    assert give_all(machine) == [2, 4]
    assert machine.state is InvokerState.DONE


def test_a_message_that_comes_again_is_in_the_buffer_once() -> None:
    machine = holding(1, 1)
    assert give_all(machine) == [1]


@pytest.mark.parametrize("in_order", [True, False])
def test_a_last_number_below_what_waits_loses_nothing(in_order: bool) -> None:
    """The destination's machine rules it out; should it come, no message is lost by it."""
    machine = holding(1, 2, 4, in_order=in_order, behavior=KEEP)
    drive(machine, events.LastKnown(2))
    given = give_all(machine)
    drive(machine, events.Cut())
    assert given + give_all(machine) == [1, 2, 4]
    assert machine.state is InvokerState.DONE


# --- the policy that makes it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assurance", "in_order", "behavior"),
    [
        (EXACTLY_ONCE, True, UP_TO_THE_GAP),
        (AT_LEAST_ONCE, True, UP_TO_THE_GAP),
        (AT_MOST_ONCE, True, KEEP),
        *((assurance, False, KEEP) for assurance in DeliveryAssurance),
    ],
)
def test_a_destination_promises_to_discard_only_what_it_does_not_deliver_early(
    assurance: DeliveryAssurance, in_order: bool, behavior: IncompleteSequenceBehavior
) -> None:
    policy = DestinationPolicy(assurance=assurance, in_order=in_order)
    assert policy.behavior is behavior
    assert InvokerBuffer.for_policy(policy).behavior is behavior


@pytest.mark.parametrize("behavior", list(IncompleteSequenceBehavior))
def test_a_behavior_that_was_chosen_is_kept(behavior: IncompleteSequenceBehavior) -> None:
    assert DestinationPolicy(incomplete_behavior=behavior).behavior is behavior


def test_withholding_until_the_end_and_acknowledging_at_delivery_would_wait_for_each_other() -> None:
    with pytest.raises(ValueError, match="DiscardEntireSequence"):
        DestinationPolicy(incomplete_behavior=ALL_OR_NOTHING, acknowledge_at=AcknowledgeAt.DELIVERY)


@pytest.mark.parametrize("in_order", [True, False])
def test_the_older_generation_cannot_be_told_so_nothing_is_discarded(in_order: bool) -> None:
    policy = DestinationPolicy(in_order=in_order)
    assert InvokerBuffer.for_policy(policy, RmVersion.RM10).behavior is KEEP
    chosen = DestinationPolicy(in_order=in_order, incomplete_behavior=UP_TO_THE_GAP)
    assert InvokerBuffer.for_policy(chosen, RmVersion.RM10).behavior is UP_TO_THE_GAP


def test_the_older_generation_acknowledges_in_order_what_expires_and_discards_what_it_did_not_acknowledge() -> None:
    policy = DestinationPolicy()
    assert policy.acknowledges_in_order(RmVersion.RM10, source_knows=False, expires=True)
    assert not policy.acknowledges_in_order(RmVersion.RM10, source_knows=False, expires=False)
    assert InvokerBuffer.for_policy(policy, RmVersion.RM10, in_order_only=True).behavior is UP_TO_THE_GAP
    for other in (DestinationPolicy(in_order=False), DestinationPolicy(incomplete_behavior=KEEP)):
        assert not other.acknowledges_in_order(RmVersion.RM10, source_knows=False, expires=True)


# --- size ------------------------------------------------------------------------------------------------------------


def test_a_huge_gap_costs_nothing() -> None:
    huge = 2**63 - 1
    machine = holding(huge, 1, huge - 5)
    assert give_all(machine) == [1]
    assert drive(machine, events.Cut()) == [effects.Dropped((huge - 5, huge), BEHIND_A_GAP)]
    machine = holding(huge, 1, behavior=KEEP)
    drive(machine, events.Cut())
    assert give_all(machine) == [1, huge]
    assert machine.passed.as_tuples() == ((1, huge),)
