"""The window of a source: it shrinks to one, and grows again, more slowly after each failed attempt."""

from __future__ import annotations

import pytest

from mercury.statemachine import effects, events
from mercury.statemachine.flow import PROVED, Window
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.rms import RMSSequence
from mercury.statemachine.rms_counters import RmsWork
from mercury.storage.sql.values import read_window, write_window

MOST = 16
POLICY = SourcePolicy(window=MOST)


def sending(numbers: int, sent: int | None = None) -> RMSSequence:
    machine = RMSSequence.start(RmVersion.RM11, 0.0)
    for _ in range(numbers):
        machine.handle(events.Number(), 0.0, POLICY)
    machine.handle(events.Created(identifier="urn:theirs"), 0.0, POLICY)
    machine.handle(events.Transmitted(numbers if sent is None else sent), 0.0, POLICY)
    return machine


# --- the rule --------------------------------------------------------------------------------------------------------


def test_at_first_it_is_what_the_policy_allows() -> None:
    assert Window().limit(MOST) == MOST


def test_an_overdue_number_with_others_behind_it_shrinks_it_to_one_a_single_one_does_not() -> None:
    assert Window().overdue(1, 0) == Window()
    assert Window().overdue(2, 7) == Window(1, 1, 7)


def test_it_is_never_larger_than_the_policy_allows() -> None:
    assert Window(8).limit(4) == 4


def test_it_doubles_when_nothing_is_in_flight_until_it_is_whole_again() -> None:
    window, sizes = Window(1, 1, 0), []
    for count in range(1, 40):
        window = window.acknowledged(count, 0, MOST)
        sizes.append(window.limit(MOST))
    assert sizes[:3] == [2, 2, 4]
    assert window == Window(), "what it went through is forgotten"


def test_it_has_its_size_again_when_a_number_behind_a_gap_is_taken() -> None:
    assert Window(1, 3, 7, 9).taken_behind_a_gap() == Window(room=9)


def test_it_is_as_large_as_is_asked_for_if_the_destination_has_room() -> None:
    assert Window(1, 1, 0).limit(MOST, 3) == 3
    assert Window(4, 1, 0).limit(MOST, 3) == 4
    assert Window(1, 1, 0, 2).limit(MOST, 3) == 2
    assert Window(1, 1, 0).limit(2, 3) == 2


def test_it_does_not_grow_while_something_is_in_flight() -> None:
    assert Window(1, 1, 0).acknowledged(50, 1, MOST) == Window(1, 1, 0)


def test_each_time_it_shrinks_again_more_must_be_taken_before_it_grows() -> None:
    for shrinks in range(1, 8):
        needed = PROVED[min(shrinks, len(PROVED)) - 1]
        window = Window(1, shrinks, 100)
        assert window.acknowledged(100 + needed - 1, 0, MOST) == window
        assert window.acknowledged(100 + needed, 0, MOST).size == 2


# --- room at the destination -----------------------------------------------------------------------------------------


def test_no_more_fits_than_the_destination_has_room_for_whatever_else_it_has_shrunk_to() -> None:
    # FC-02
    assert Window().with_room(3).limit(MOST) == 3
    assert Window(2, 1, 0).with_room(3).limit(MOST) == 2
    assert Window().with_room(1000).limit(MOST) == MOST
    assert Window().with_room(3).with_room(None) == Window()


def test_room_is_remembered_while_the_window_shrinks_and_grows() -> None:
    assert Window().with_room(3).overdue(5, 0) == Window(1, 1, 0, 3)
    assert Window(1, 1, 0, 3).acknowledged(1, 0, MOST) == Window(2, 1, 1, 3)
    assert Window(8, 1, 0, 3).acknowledged(8, 0, MOST) == Window(room=3)


@pytest.mark.parametrize("window", [Window(), Window(4, 2, 17), Window(room=0), Window(4, 2, 17, 9, 256)], ids=str)
def test_a_window_is_the_same_after_it_was_stored(window: Window) -> None:
    assert read_window(write_window(window)) == window


@pytest.mark.parametrize("text", ["1 2", "1 2 3 4", "1 2 3 4 5 6", "x 1 1 1 64", "1 1 1 x 64"])
def test_a_stored_window_that_is_damaged_is_no_window(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_window(text)


def test_number_that_is_in_flight_is_sent_again_without_room_and_no_other() -> None:
    machine = sending(10, sent=5)
    machine.handle(events.Acknowledged(((1, 3),), 0), 0.0, POLICY)
    assert (machine.window_end(POLICY), machine.starved) == (4, False)
    machine.handle(events.Acknowledged(((1, 5),), 0), 0.0, POLICY)
    assert (machine.window_end(POLICY), machine.starved) == (5, True)
    assert machine.work(POLICY) is RmsWork.REQUEST_ACK
    machine.handle(events.Acknowledged(((1, 5),), 2), 0.0, POLICY)
    assert (machine.window_end(POLICY), machine.starved) == (7, False)


def test_an_acknowledgement_that_was_overtaken_says_nothing_of_the_room_there_is_now() -> None:
    machine = sending(10, sent=5)
    machine.handle(events.Acknowledged(((1, 5),), 4), 0.0, POLICY)
    machine.handle(events.Acknowledged(((1, 3),), 0), 0.0, POLICY)
    assert machine.flow.room == 4


def test_an_invalid_acknowledgement_says_nothing_of_room() -> None:
    machine = sending(10, sent=5)
    machine.handle(events.Acknowledged(((1, 9),), 1), 0.0, POLICY)
    assert machine.flow == Window()


# --- in the machine --------------------------------------------------------------------------------------------------


def test_overdue_numbers_shrink_the_window_when_only_the_beginning_is_acknowledged() -> None:
    machine = sending(10)
    machine.handle(events.Acknowledged(((1, 3),)), 0.0, POLICY)
    machine.handle(events.Overdue(), 1.0, POLICY)
    assert machine.flow.size == 1
    assert machine.window_end(POLICY) == 4


def test_overdue_numbers_leave_it_alone_when_something_behind_them_was_taken() -> None:
    machine = sending(10)
    machine.handle(events.Acknowledged(((1, 3), (9, 9))), 0.0, POLICY)
    machine.handle(events.Overdue(), 1.0, POLICY)
    assert machine.flow == Window()


def test_a_number_that_is_taken_behind_a_gap_makes_all_others_due() -> None:
    machine = sending(6)
    machine.flow = Window(1, 2, 0)
    assert effects.Due(((2, 2), (4, 6))) in machine.handle(events.Acknowledged(((3, 3),)), 1.0, POLICY)
    assert machine.flow == Window()


def test_a_gap_that_closes_makes_the_numbers_due_that_come_into_the_window() -> None:
    machine = sending(10)
    machine.flow = Window(1, 2, 0)
    assert effects.Due(((2, 2),)) in machine.handle(events.Acknowledged(((1, 1),)), 1.0, POLICY)
    assert effects.Due(((6, 6),)) in machine.handle(events.Acknowledged(((1, 5),)), 1.0, POLICY)
    assert machine.handle(events.Acknowledged(((1, 5),)), 1.0, POLICY) == ()


def test_numbers_that_were_never_sent_need_not_be_made_due() -> None:
    machine = sending(10, sent=1)
    machine.flow = Window(1, 2, 0)
    assert machine.handle(events.Acknowledged(((1, 1),)), 1.0, POLICY) == (effects.Released(((1, 1),)),)


def test_the_window_counts_what_is_not_acknowledged_wherever_the_gaps_are() -> None:
    machine = sending(40, sent=20)
    assert machine.window_end(POLICY) == 16
    machine.handle(events.Acknowledged(((2, 9), (12, 12))), 0.0, POLICY)
    assert machine.window_end(POLICY) == 25
    machine.handle(events.Acknowledged(((1, 20),)), 0.0, POLICY)
    assert machine.window_end(POLICY) == 36
