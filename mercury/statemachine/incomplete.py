"""Which messages of a sequence that ends incomplete are undelivered or in doubt (WS-RM 1.1 section 3.4)."""

from __future__ import annotations

from mercury.statemachine.faults import Ranges
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.ranges import RangeSet


def left_over(
    behavior: IncompleteSequenceBehavior, last_number: int, *, acknowledged: RangeSet, moved: RangeSet, final: bool
) -> Ranges:
    """The numbers up to ``last_number`` that are undelivered or in doubt after the end, by the destination's behavior.

    :param moved: numbers that a successor sequence carries already.
    :param final: ``acknowledged`` is the destination's final acknowledgement: only missing numbers below the highest
        acknowledged one count as a gap, because both sides know these and no others.
    """
    done = acknowledged.copy()
    done.update(moved)
    gaps = tuple(done.gaps(1, last_number))
    if not gaps:
        return ()
    match behavior:
        case IncompleteSequenceBehavior.NO_DISCARD:
            return gaps
        case IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP:
            low = gaps[0][0]
        case IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
            if final and gaps[0][0] > acknowledged.highest:
                return gaps
            low = 1
    left = RangeSet([(low, last_number)])
    for a, b in moved:
        left.discard(a, b)
    return left.as_tuples()
