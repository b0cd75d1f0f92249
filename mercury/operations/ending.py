"""What becomes of the messages of a source sequence that is terminated. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.statemachine.faults import Ranges
from mercury.statemachine.incomplete import left_over
from mercury.statemachine.ranges import RangeSet
from mercury.statemachine.rms import RMSSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The messages with a number that become dead letters if nothing more is acknowledged before the end."""

    #: Their numbers, those that are not acknowledged.
    unacknowledged: Ranges
    #: How many others: they are acknowledged, and kept until those before them are, because the destination discards
    #: what follows a missing message.
    kept: int

    @property
    def missing(self) -> int:
        """How many are not acknowledged."""
        return RangeSet(self.unacknowledged).count


def left_of(machine: RMSSequence) -> Left:
    """What is left of a source sequence."""
    done = machine.acknowledged.copy()
    done.update(machine.moved)
    missing = tuple(done.gaps(1, machine.last_number))
    left = left_over(
        machine.incomplete_behavior,
        machine.last_number,
        acknowledged=machine.acknowledged,
        moved=machine.moved,
        final=True,
    )
    return Left(unacknowledged=missing, kept=RangeSet(left).count - RangeSet(missing).count)
