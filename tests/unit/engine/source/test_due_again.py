"""A worker keeps in memory which of its keys are due again, but only those that are due soon."""

from __future__ import annotations

from mercury.engine.source.due_again import SOON, DueAgain
from mercury.storage.records import SequenceKey

NOW = 1_800_000_000.0
FIRST, SECOND = SequenceKey("http://server.example/", "first"), SequenceKey("http://server.example/", "second")


def test_first_key_that_is_due_comes_first() -> None:
    due_again = DueAgain()
    assert due_again.first() is None
    due_again.note({FIRST: NOW + 2, SECOND: NOW + 1}, NOW)
    assert due_again.first() == NOW + 1


def test_key_that_is_due_by_an_event_only_is_forgotten() -> None:
    due_again = DueAgain()
    due_again.note({FIRST: NOW + 2, SECOND: NOW + 1}, NOW)
    due_again.note({SECOND: None}, NOW)
    assert due_again.first() == NOW + 2


def test_key_that_is_due_much_later_than_before_is_forgotten() -> None:
    due_again = DueAgain()
    due_again.note({FIRST: NOW + 2}, NOW)
    due_again.note({FIRST: NOW + SOON + 1}, NOW)
    assert len(due_again) == 0


def test_keys_that_a_search_finds_are_forgotten_and_the_others_are_not() -> None:
    due_again = DueAgain()
    due_again.note({FIRST: NOW + 1, SECOND: NOW + 2}, NOW)
    due_again.found(NOW + 1)
    assert (len(due_again), due_again.first()) == (1, NOW + 2)
