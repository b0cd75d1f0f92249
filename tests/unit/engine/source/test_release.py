"""The rows that an acknowledgement makes a source delete."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mercury.engine.source.apply_effects import release_acknowledged
from mercury.statemachine import events
from mercury.statemachine.faults import Ranges
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.storage.records import RmsRecord
from mercury.testing.contract.builders import rms_record


class Released:
    """The rows of a transaction, of which only the deletion is used."""

    def __init__(self) -> None:
        self.ranges: list[Ranges] = []

    def release(self, _record: RmsRecord, ranges: Ranges) -> None:
        self.ranges.append(ranges)


def acknowledged(behavior: IncompleteSequenceBehavior, *given: Ranges) -> list[Ranges]:
    """What is deleted after each of these acknowledgements of a hundred messages."""
    record, rows = rms_record(), Released()
    tx: Any = SimpleNamespace(rms=rows)
    machine, policy = record.machine, record.channel.policy
    for event in (*[events.Number()] * 100, events.Created(identifier="urn:s", incomplete_behavior=behavior)):
        machine.handle(event, 0.0, policy)
    machine.handle(events.Transmitted(100), 0.0, policy)
    for ranges in given:
        machine.handle(events.Acknowledged(ranges), 0.0, policy)
        release_acknowledged(tx, record, ranges)
    return rows.ranges


def test_acknowledgement_deletes_what_is_new_in_it_and_not_what_came_before() -> None:
    keep = IncompleteSequenceBehavior.NO_DISCARD
    assert acknowledged(keep, ((1, 60),), ((90, 90),), ((80, 80),)) == [((1, 60),), ((90, 90),), ((80, 80),)]


def test_with_discard_following_first_gap_rows_up_to_the_gap_are_deleted() -> None:
    up_to_the_gap = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
    assert acknowledged(up_to_the_gap, ((1, 60),), ((70, 90),), ((61, 65),)) == [((1, 60),), ((1, 60),), ((1, 65),)]
