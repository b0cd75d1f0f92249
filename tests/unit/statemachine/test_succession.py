"""The time at which the successor of a sequence is requested."""

from __future__ import annotations

from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.retransmission import Backoff
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.succession import successor_pause

BACKOFF = Backoff(base=1.0, factor=2.0, cap=8.0, jitter=0.0)


def ended(*, acknowledged: bool) -> RMSSequence:
    """A sequence whose second message went to a successor."""
    machine = RMSSequence.start(RmVersion.RM11, 0.0)
    machine.moved = RangeSet(((2, 2),))
    machine.acknowledged = RangeSet(((1, 1),) if acknowledged else ())
    return machine


def pause(*acknowledged: bool) -> float:
    return successor_pause([ended(acknowledged=each) for each in acknowledged], BACKOFF, 0.0)


def test_first_successor_is_asked_for_at_once_and_further_ones_with_growing_pauses() -> None:
    assert [pause(*([False] * many)) for many in range(7)] == [0, 0, 1, 2, 4, 8, 8]


def test_sequence_of_which_something_was_taken_begins_anew() -> None:
    assert pause(False, False, False, True) == 0
    assert pause(False, False, True, False) == 0
    assert pause(True, False, False) == 1
