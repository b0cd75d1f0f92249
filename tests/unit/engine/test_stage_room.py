"""The count of the messages in a stage, while it changes."""

from __future__ import annotations

from mercury.engine.stage_room import StageRoom


def test_first_count_has_what_arrived_while_it_was_read() -> None:
    room = StageRoom(100)
    room.change(3)  # the count finds them, too

    def read() -> int:
        room.change(2)
        return 83

    room.recount(read)
    assert room.waiting == 85


def test_later_count_is_given_up_if_the_stage_changes_while_it_is_read() -> None:
    room = StageRoom(100)
    room.recount(lambda: 80)

    def read() -> int:
        room.change(2)
        return 82

    room.recount(read)
    assert room.waiting == 82


def test_later_count_corrects_what_a_commit_of_unknown_outcome_has_changed() -> None:
    room = StageRoom(100)
    room.recount(lambda: 80)
    room.change(5)
    room.recount(lambda: 80)
    assert room.waiting == 80
