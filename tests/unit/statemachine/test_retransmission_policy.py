"""RetransmissionPolicy: the times of retransmissions, and when they end."""

from __future__ import annotations

import random

import pytest

from mercury.errors import ConfigurationError
from mercury.statemachine.retransmission import Backoff, RetransmissionPolicy


def test_intervals_grow_exponentially_up_to_the_cap() -> None:
    policy = RetransmissionPolicy(base=1.0, factor=2.0, cap=10.0, jitter=0.0)
    assert [policy.delay(attempts, 0.5) for attempts in range(1, 7)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_before_the_first_transmission_the_base_counts() -> None:
    assert RetransmissionPolicy(jitter=0.0).delay(0, 0.0) == 1.0


def test_jitter_only_shortens_and_by_no_more_than_its_share() -> None:
    policy = RetransmissionPolicy(base=8.0, cap=8.0, jitter=0.25)
    assert policy.delay(1, 0.0) == 8.0
    assert policy.delay(1, 0.5) == 7.0
    chosen = random.Random(1)
    delays = [policy.delay(1, chosen.random()) for _ in range(200)]
    assert 6.0 < min(delays) < max(delays) <= 8.0
    assert len(set(delays)) == 200


@pytest.mark.parametrize("factor", [1.0, 2.0, 1e5, 1e300])
def test_no_number_of_attempts_overflows(factor: float) -> None:
    policy = RetransmissionPolicy(factor=factor, jitter=0.0)
    assert policy.delay(10**9, 0.0) == (1.0 if factor == 1.0 else 60.0)


def test_a_slow_growth_reaches_the_cap_in_the_end() -> None:
    policy = RetransmissionPolicy(base=1.0, factor=1.01, cap=60.0, jitter=0.0)
    assert policy.delay(1000, 0.0) == 60.0


def test_without_limits_it_is_never_exhausted() -> None:
    assert not RetransmissionPolicy().exhausted(10**9, 1e12)


def test_it_is_exhausted_by_count() -> None:
    policy = RetransmissionPolicy(max_attempts=3)
    assert [policy.exhausted(attempts, 0.0) for attempts in (0, 2, 3, 4)] == [False, False, True, True]


def test_one_transmission_may_be_all() -> None:
    assert RetransmissionPolicy(max_attempts=1).exhausted(1, 0.0)


def test_it_is_exhausted_by_age() -> None:
    policy = RetransmissionPolicy(max_age=30.0)
    assert [policy.exhausted(1, age) for age in (0.0, 29.9, 30.0, 1e9)] == [False, False, True, True]


def test_whichever_limit_comes_first_counts() -> None:
    policy = RetransmissionPolicy(max_attempts=3, max_age=30.0)
    assert policy.exhausted(3, 0.0)
    assert policy.exhausted(0, 30.0)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"base": 0.0}, "base: 0.0 is not above 0"),
        ({"base": -1.0}, "base: -1.0 is not above 0"),
        ({"base": float("nan")}, "base: nan is not above 0"),
        ({"factor": 0.9}, "factor: 0.9 is not at least 1"),
        ({"cap": 0.5}, "cap: 0.5 is not at least 1.0"),
        ({"jitter": 1.0}, "jitter: 1.0 is not below 1"),
        ({"jitter": -0.1}, "jitter: -0.1 is not at least 0"),
        ({"max_attempts": 0}, "max_attempts: 0 is not at least 1"),
        ({"max_age": 0.0}, "max_age: 0.0 is not above 0"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, float], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RetransmissionPolicy(**wrong)  # type: ignore[arg-type]
    assert str(caught.value) == text


@pytest.mark.parametrize(("ahead", "is_due"), [(-1.0, True), (0.0, True), (0.5, False), (60.0, False), (60.5, True)])
def test_time_farther_ahead_than_the_longest_pause_is_due(ahead: float, is_due: bool) -> None:
    """The clock was set back since that time was worked out."""
    assert Backoff(cap=60.0).is_due(1000.0 + ahead, 1000.0) is is_due
