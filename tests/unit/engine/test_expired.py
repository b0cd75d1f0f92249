"""Owners whose sequences expire soon after their creation."""

from __future__ import annotations

from mercury.engine.expired import Expired


def test_expired_sequences_count_for_their_owner_and_for_a_while() -> None:
    expired = Expired(100, 60.0)
    expired.add("a", 10.0)
    expired.add("a", 20.0)
    expired.add("b", 20.0)
    assert [expired.count(owner, 69.0) for owner in ("a", "b", "c")] == [2, 1, 0]
    assert [expired.count(owner, 70.0) for owner in ("a", "b")] == [1, 1]
    assert expired.count("a", 80.0) == 0


def test_no_more_are_known_than_may_be_and_a_clock_set_back_forgets_them() -> None:
    expired = Expired(3, 60.0)
    for number in range(5):
        expired.add("a" if number < 3 else "b", 10.0)
    assert [expired.count(owner, 10.0) for owner in ("a", "b")] == [1, 2]
    assert expired.count("b", 5.0) == 0
