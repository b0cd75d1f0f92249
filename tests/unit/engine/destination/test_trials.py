"""The number of acknowledgements that are posted to addresses that do not accept them."""

from __future__ import annotations

import pytest

from mercury.engine.destination import trials
from mercury.engine.destination.trials import LONGEST, OPEN, Recipient, Trials

URL, OTHER = (Recipient.named("friend", f"http://friend.example/{path}") for path in ("nothing", "acks"))
NOW = 1000.0


def numbered(number: int) -> Recipient:
    return Recipient.named("friend", f"http://friend.example/{number}")


def failing(failures: int = 1) -> tuple[Trials, float]:
    """An address that has failed so often, and when the next trial is due."""
    tried, now = Trials(), NOW
    for _ in range(failures):
        assert tried.wait(URL, "first", now, 0.0) is None
        now = tried.failed(URL, "first", now)
    return tried, now


def test_the_pause_between_two_trials_doubles_up_to_five_minutes() -> None:
    tried, now, pauses = Trials(), NOW, []
    for _ in range(12):
        assert tried.wait(URL, "first", now, 0.0) is None
        due = tried.failed(URL, "first", now)
        pauses.append(due - now)
        now = due
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]


def test_sequences_of_an_address_that_fails_wait_for_one_trial() -> None:
    tried, due = failing()
    assert tried.wait(URL, "second", NOW + 1, 0.0) == NOW + 1 + LONGEST
    assert tried.wait(URL, "first", due, 0.0) is None
    assert tried.wait(URL, "third", due, due) == due + LONGEST, "one is being tried"
    assert tried.wait(OTHER, "fourth", due, 0.0) is None, "another address is none of it"


def test_acknowledgements_posted_before_the_first_failure_count_as_one_failure() -> None:
    tried, due = failing()
    assert tried.failed(URL, "second", NOW + 0.5) == NOW + 0.5 + LONGEST
    assert tried.wait(URL, "first", due, 0.0) is None
    assert tried.failed(URL, "first", due) == due + 4


def test_success_clears_the_pause_and_names_the_sequences_that_waited() -> None:
    tried, _ = failing(5)
    tried.wait(URL, "second", NOW, 0.0)
    tried.wait(URL, "third", NOW, 0.0)
    assert tried.worked(OTHER) == []
    assert tried.worked(URL) == ["first", "second", "third"]
    assert tried.wait(URL, "second", NOW, 0.0) is None
    assert tried.worked(URL) == []


def test_pause_does_not_count_for_a_sequence_whose_source_was_heard_since() -> None:
    tried, due = failing(8)
    failed = due - 256
    assert tried.wait(URL, "second", failed + 0.5, failed + 0.1) == failed + 1, "but a second is left to it"
    assert tried.wait(URL, "second", failed + 1, failed + 0.1) is None


def test_trial_whose_end_is_never_known_is_over_after_a_minute() -> None:
    tried, due = failing()
    assert tried.wait(URL, "first", due, 0.0) is None
    assert tried.wait(URL, "second", due + OPEN - 1, 0.0) is not None
    assert tried.wait(URL, "second", due + OPEN, 0.0) is None


def test_clock_that_is_set_back_makes_no_pause_longer() -> None:
    tried, due = failing(9)
    assert tried.wait(URL, "first", due - 10_000, 0.0) is None


def test_addresses_and_sequences_that_are_known_are_bounded() -> None:
    tried, most = Trials(), trials.KNOWN
    for number in range(most + 1):
        tried.failed(numbered(number), "first", NOW)
    assert tried.wait(numbered(0), "first", NOW + 1, 0.0) is None, "it is forgotten"
    for number in range(most + 1):
        assert tried.wait(numbered(1), f"{number}", NOW + 1, 0.0) == NOW + 1 + LONGEST
    assert len(tried.worked(numbered(1))) == most


@pytest.mark.parametrize(
    "other",
    [
        Recipient.named("stranger", "http://friend.example/nothing"),
        Recipient.named("friend", "http://friend.example/nothing", (b"<tenant>1</tenant>",)),
        Recipient.named("friend", "http://friend.example/nothing", (), "1.1"),
    ],
    ids=["another owner's", "with other reference parameters", "in another version"],
)
def test_failure_of_another_recipient_at_the_same_address_puts_nothing_off(other: Recipient) -> None:
    tried = Trials()
    tried.failed(other, "first", NOW)
    assert tried.wait(URL, "second", NOW, 0.0) is None


def test_spelling_of_an_address_makes_no_other_recipient() -> None:
    assert Recipient.named("friend", "http://FRIEND.example:080/nothing") == URL
