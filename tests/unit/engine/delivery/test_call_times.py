"""One thread takes as many buffers as are done soon, and leaves the others to other threads if calls wait."""

from __future__ import annotations

import pytest

from mercury.engine.delivery.call_times import FIRST_CALLS, PART, QUICK, SLOW, TOGETHER_SECONDS, CallTimes


def times(seconds: float, service: str = "orders", buffers: int = 10) -> CallTimes:
    """After ten calls of a service, for so many buffers."""
    found = CallTimes()
    found.took([service], 10 * seconds, 10, buffers)
    return found


def test_service_whose_calls_are_unknown_is_called_for_one_buffer() -> None:
    assert CallTimes().most(100) == 1
    assert not CallTimes().may_share("orders")


def test_calls_that_were_not_made_say_nothing() -> None:
    found = CallTimes()
    found.took(["orders"], 0.0, 0, 0)
    assert found.most(100) == 1


@pytest.mark.parametrize(
    ("seconds", "most"),
    [(0.0, 100), (QUICK / 10, 100), (2 * QUICK, 100 // PART), (SLOW, 1)],
    ids=["at once", "quick", "waiting", "slow"],
)
def test_the_longer_calls_take_the_fewer_buffers_one_thread_takes(seconds: float, most: int) -> None:
    found = times(seconds)
    assert found.most(100) == most
    assert found.may_share("orders") is (most > 1)


def test_as_many_buffers_are_taken_as_their_time_allows() -> None:
    found = times(TOGETHER_SECONDS / 10, buffers=200)
    found = times(QUICK / 2, buffers=1)  # 25 ms for each buffer, of which half is remembered
    assert found.most(100) == int(TOGETHER_SECONDS / (10 * QUICK / 4))


def test_slow_calls_of_one_service_do_not_keep_those_of_another_apart() -> None:
    found = times(SLOW, "reports")
    found.took(["orders"], 0.0, 10, 10)
    assert found.may_share("orders")
    assert not found.may_share("reports")
    assert found.are_quick


def test_service_that_becomes_slow_is_called_for_one_buffer_again() -> None:
    found = times(0.0)
    found.took(["orders"], 2 * SLOW, 1, 1)
    assert found.most(100) == 1
    for _ in range(5):
        found.took(["orders"], 0.0, 1, 1)
    assert found.most(100) > 1


def test_service_whose_first_calls_open_its_connections_may_be_quick() -> None:
    found = CallTimes()
    found.took(["orders"], 3 * QUICK, 1, 1)
    assert found.is_quick("orders")


def test_service_that_hangs_in_its_first_call_is_not_quick() -> None:
    found = CallTimes()
    assert not found.is_quick("orders")
    found.took(["orders"], 2 * SLOW, 1, 1)
    assert not found.is_quick("orders")


def test_service_that_is_known_well_is_quick_only_if_its_calls_are() -> None:
    found = CallTimes()
    for _ in range(FIRST_CALLS):
        found.took(["orders"], 2 * QUICK, 1, 1)
    assert not found.is_quick("orders")


def test_many_quick_calls_weigh_more_than_one_slow_one() -> None:
    found = times(0.0)
    found.took(["orders"], 10 * SLOW, 1, 1)
    assert not found.is_quick("orders")
    found.took(["orders"], 0.0, 100, 1)
    assert found.is_quick("orders")


def test_first_calls_are_forgotten_as_soon_as_one_is_quick() -> None:
    found = CallTimes()
    found.took(["orders"], 10 * SLOW, 1, 1)
    found.took(["orders"], QUICK, 1, 1)
    assert found.is_quick("orders")


def test_seconds_of_a_call_are_known_of_services_with_quick_calls_only() -> None:
    found = times(QUICK / 2)
    found.took(["reports"], 11 * SLOW, 10, 10)
    assert found.of_quick("orders") == pytest.approx(QUICK / 2)
    assert found.of_quick("reports") == found.of_quick("unknown") == 0.0
