"""Which messages may be delivered now: the only definition of it. Pure.

InvokerBuffer releases messages by it, and a store finds by it the buffers that have work. A store on a database may
repeat the definition in SQL; the conformance suite compares the result with this module, on buffers of any content.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from mercury.statemachine.hashed_enum import HashedEnum
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance
from mercury.statemachine.ranges import RangeSet


class Release(HashedEnum):
    """Which of the buffered messages may be delivered."""

    #: The lowest number not yet passed, and the numbers that follow it without a gap.
    NEXT = "next"
    #: Any number, the lowest first.
    ANY = "any"
    #: No number until the whole sequence is received, then every number.
    ALL = "all"


def release_of(
    behavior: IncompleteSequenceBehavior, assurance: DeliveryAssurance, *, in_order: bool, cut: bool
) -> Release:
    """Which of its messages a buffer releases (DA-04, RM11-SEQ-11).

    :param cut: the sequence ended incomplete, and its discarded messages are removed already.
    """
    if behavior is IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP:
        return Release.NEXT  # what lies behind a gap may have to be discarded, and the source sends it again
    if cut:
        return Release.ANY
    if behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
        return Release.ALL
    return Release.NEXT if in_order and assurance is not DeliveryAssurance.AT_MOST_ONCE else Release.ANY


def deliverable(release: Release, waiting: RangeSet, passed: RangeSet, last: int | None) -> Iterator[int]:
    """The numbers that may be delivered now, in the order of delivery.

    :param waiting: the numbers in the buffer.
    :param passed: the numbers that were consumed, or are skipped and never delivered.
    :param last: the last number of the sequence; ``None`` = unknown.
    """
    match release:
        case Release.ANY:
            yield from waiting.numbers()
        case Release.ALL:
            if last is not None and all_here(waiting, passed, last):
                yield from takewhile(lambda number: number <= last, waiting.numbers())
        case Release.NEXT:
            number = passed.first_missing()
            while number in waiting:
                yield number
                number += 1


def all_here(waiting: RangeSet, passed: RangeSet, last: int | None) -> bool:
    """Whether every number up to the last one is in the buffer, or was in it."""
    if last is None:
        return False
    here = passed.copy()
    here.update(waiting)
    return here.covers(1, last)
