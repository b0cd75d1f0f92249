"""Which of several addresses the next post goes to, as a function of times and chance."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mercury.statemachine.failover import (
    ADDRESS_TABLE,
    STANDBY_PAUSE,
    AddressEvent,
    AddressList,
    AddressState,
    FailoverOptions,
    Failure,
    Until,
)

A, B, C = "http://a/svc", "http://b/svc", "http://c/svc"
NOW = 1_000_000.0
#: With it pauses have their full length.
LATEST = 1 - 1e-12
IN_ORDER = FailoverOptions(randomize=False)


def of(*urls: str, **options: object) -> AddressList:
    return AddressList(urls, FailoverOptions(**{"randomize": False, **options}))  # type: ignore[arg-type]


def test_table_has_every_state_and_event() -> None:
    assert set(ADDRESS_TABLE) == set(itertools.product(AddressState, AddressEvent))


def test_address_that_works_is_used_until_it_fails() -> None:
    addresses = of(A, B)
    assert addresses.choose(NOW, 0.5) == A
    addresses.worked(A, NOW)
    assert addresses.choose(NOW + 1, 0.5) == A
    addresses.failed(A, NOW + 1, NOW + 2, 0.5)
    assert addresses.choose(NOW + 2, 0.5) == B
    addresses.worked(B, NOW + 2)
    assert addresses.choose(NOW + 1000, 0.5) == B, "without priority nothing returns"


def test_chance_chooses_unless_randomize_is_false() -> None:
    random = AddressList((A, B, C), FailoverOptions())
    assert [random.choose(NOW, chance) for chance in (0.0, 0.4, 0.99)] == [A, B, C]
    assert {of(A, B, C).choose(NOW, chance) for chance in (0.0, 0.4, 0.99)} == {A}


def test_pauses_grow_to_the_longest_and_have_a_random_part() -> None:
    addresses, now, pauses = of(A, initial_delay=1.0, max_delay=5.0), NOW, []
    for _ in range(5):
        addresses.failed(A, now, now, LATEST)
        found = addresses.choose(now, LATEST)
        assert isinstance(found, Until)
        pauses.append(round(found.due - now, 6))
        now = found.due
    assert pauses == [1, 2, 4, 5, 5]
    addresses.failed(A, now, now, 0.0)
    found = addresses.choose(now, 0.0)
    assert isinstance(found, Until)
    assert found.due - now == 2.5


def test_pause_is_always_the_same_without_exponential_back_off() -> None:
    addresses, now = of(A, initial_delay=1.0, multiplier=1.0), NOW
    for _ in range(3):
        addresses.failed(A, now, now, LATEST)
        found = addresses.choose(now, LATEST)
        assert isinstance(found, Until)
        assert found.due - now == pytest.approx(1.0)
        now = found.due


def test_failures_of_exchanges_that_were_open_together_are_one_failure() -> None:
    addresses = of(A, B, initial_delay=1.0)
    for _ in range(8):
        addresses.failed(A, NOW, NOW + 1, LATEST)
    assert addresses.addresses[0].failures == 1
    addresses.failed(A, NOW + 2, NOW + 3, LATEST)
    assert addresses.addresses[0].failures == 2


def test_one_post_tries_an_address_that_failed_while_others_wait() -> None:
    addresses = of(A, initial_delay=1.0)
    addresses.failed(A, NOW, NOW, LATEST)
    assert addresses.choose(NOW + 1, LATEST) == A
    assert isinstance(addresses.choose(NOW + 1, LATEST), Until)
    addresses.worked(A, NOW + 1)
    assert addresses.choose(NOW + 1, LATEST) == A


def test_standby_is_asked_often_and_a_silent_address_seldom() -> None:
    addresses = of(A, B, initial_delay=10.0)
    addresses.failed(B, NOW, NOW, LATEST, Failure.REFUSED)
    assert addresses.addresses[1].due == NOW + STANDBY_PAUSE
    addresses = of(A, B)
    addresses.failed(A, NOW, NOW + 5, LATEST, Failure.SILENT)
    assert addresses.addresses[0].due == NOW + 10, "another address may work before this one is found silent again"


def test_priority_returns_to_the_primary_by_one_post() -> None:
    addresses = of(A, B, priority=frozenset([A]), initial_delay=1.0)
    addresses.failed(A, NOW, NOW, LATEST)
    addresses.worked(B, NOW)
    assert addresses.choose(NOW + 0.5, LATEST) == B
    assert addresses.choose(NOW + 1, LATEST) == A
    assert addresses.choose(NOW + 1, LATEST) == B, "what works is used by all other posts"
    addresses.worked(B, NOW + 1)
    addresses.worked(A, NOW + 1)
    assert addresses.current == A
    addresses.worked(B, NOW + 1)
    assert addresses.current == A, "a late answer does not change it"


def test_posts_are_given_up_after_the_attempts_of_the_options() -> None:
    never, once = of(A, B), of(A, B, max_attempts=0, startup_max_attempts=2)
    assert not never.gives_up(1000)
    assert [once.gives_up(attempts) for attempts in (5, 6)] == [False, True], "no address has worked yet"
    once.worked(A, NOW)
    assert [once.gives_up(attempts) for attempts in (1, 2)] == [False, True]


def test_warning_is_due_after_every_address_was_tried_so_often() -> None:
    addresses = of(A, B, warn_after=2)
    due = [addresses.failed(url, NOW + n, NOW + n, 0.0) for n, url in enumerate((A, B, A, B, A, B, A, B))]
    assert due == [False, False, False, True] * 2
    silent = of(A, warn_after=-1)
    assert not any(silent.failed(A, NOW + n, NOW + n, 0.0) for n in range(50))


def test_address_is_chosen_anew_at_the_time_of_rebalancing_and_late_answers_do_not_undo_it() -> None:
    addresses = of(A, B, randomize=True)
    addresses.worked(A, NOW)
    assert not addresses.update((A, B), NOW + 1), "there is no new one"
    assert addresses.choose(NOW + 2, 0.99) == A
    assert addresses.update((A, B, C), NOW + 10)
    assert addresses.choose(NOW + 9, 0.99) == A
    assert addresses.choose(NOW + 10, 0.99) == C
    addresses.worked(A, NOW + 10)  # of a post from before
    assert addresses.current == C
    addresses.failed(C, NOW + 10, NOW + 11, 0.5)
    assert addresses.choose(NOW + 11, 0.0) == A, "it did not work, and the others are still there"


@pytest.mark.parametrize("options", [{"randomize": False}, {"randomize": True, "priority": frozenset({A})}])
def test_order_and_priority_are_stronger_than_rebalancing(options: dict[str, object]) -> None:
    addresses = of(A, B, **options)
    addresses.worked(A, NOW)
    addresses.update((A, B, C), NOW)
    assert addresses.choose(NOW + 1, 0.99) == A


def test_address_that_is_no_longer_there_is_left() -> None:
    addresses = of(A, B)
    addresses.worked(A, NOW)
    assert addresses.update((B,))
    assert addresses.choose(NOW, 0.5) == B
    addresses.worked(A, NOW)
    assert addresses.current is None


def test_knowledge_of_addresses_that_stay_is_kept() -> None:
    addresses = of(A, B)
    addresses.worked(A, NOW)
    addresses.update([A, C])
    assert addresses.current == A
    addresses.update([C])
    addresses.worked(A, NOW)
    addresses.failed(A, NOW, NOW, 0.0)
    assert addresses.choose(NOW, 0.0) == C


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("worked", *Failure)), st.integers(0, 2), st.floats(0, 40), st.floats(0, 1, exclude_max=True)
    ),
    max_size=20,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.booleans(), st.booleans())
def test_one_address_at_most_is_in_use_and_some_address_is_always_tried_in_time(
    steps: list[tuple[str | Failure, int, float, float]], randomize: bool, priority: bool
) -> None:
    urls, now = (A, B, C), NOW
    options = FailoverOptions(randomize=randomize, priority=frozenset([A]) if priority else frozenset())
    addresses = AddressList(urls, options)
    for what, index, pause, chance in steps:
        before, now = now, now + pause
        if isinstance(what, Failure):
            addresses.failed(urls[index], before, now, chance, what)
        else:
            addresses.worked(urls[index], now)
        assert sum(each.state is AddressState.IN_USE for each in addresses.addresses) <= 1
        chosen = addresses.choose(now, chance)
        if isinstance(chosen, Until):
            assert now < chosen.due <= now + 40, "the longest pause, or the longest silence"
            assert isinstance(addresses.choose(chosen.due, chance), str)
        elif addresses.current is not None:
            assert chosen == addresses.current or chosen in options.priority
