"""A limit on a rate, as a function of the time."""

from __future__ import annotations

import pytest

from mercury.statemachine.token_bucket import TokenBucket

NOW = 1_000_000.0


def test_after_a_rest_the_things_of_one_second_pass_at_once_and_no_more() -> None:
    bucket = TokenBucket(10, NOW)
    assert bucket.available(NOW + 60) == 10
    bucket.spend(10, NOW + 60)
    assert bucket.available(NOW + 60) == 0
    assert bucket.available(NOW + 60.5) == 5


def test_over_a_long_time_as_many_pass_as_the_rate_says() -> None:
    bucket, now, passed = TokenBucket(3, NOW), NOW, 0
    while now < NOW + 100:
        passed += (found := bucket.available(now))
        bucket.spend(found, now)
        now = max(bucket.ready_at(now), now + 0.001)
    assert 300 <= passed <= 304


@pytest.mark.parametrize(("rate", "seconds"), [(0.1, 10.0), (1, 1.0), (2, 0.5), (100, 0.25)])
def test_an_empty_one_is_ready_when_one_may_pass_or_many_after_a_while(rate: float, seconds: float) -> None:
    bucket = TokenBucket(rate, NOW)
    bucket.spend(bucket.available(NOW), NOW)
    ready = bucket.ready_at(NOW)
    assert ready == pytest.approx(NOW + seconds)
    assert bucket.available(ready + 1e-6) >= 1


def test_more_than_were_available_delay_the_next_ones() -> None:
    bucket = TokenBucket(1, NOW)
    bucket.spend(3, NOW)
    assert bucket.ready_at(NOW) == NOW + 3
    assert bucket.available(NOW + 2.9) == 0


def test_a_clock_that_is_set_back_neither_fills_nor_blocks_it() -> None:
    bucket = TokenBucket(1, NOW)
    bucket.spend(1, NOW)
    assert bucket.available(NOW - 3600) == 0
    assert bucket.available(NOW - 3599) == 1
