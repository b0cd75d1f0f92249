"""A sample of the combinations of versions and patterns; `python -m tests.acceptance.combinations` runs all of them."""

from __future__ import annotations

import itertools

import pytest

from mercury.statemachine.protocol import ALL_PROTOCOLS
from tests.acceptance import combinations
from tests.acceptance.combinations import MESSAGES, Combination, Outcome, run

EVERY = list(combinations.combinations())
WAYS = [(listens, offer) for listens in (True, False) for offer in (True, False)]
#: Every protocol once, and every way at least once.
SLICE = [Combination(protocol, *way) for protocol, way in zip(ALL_PROTOCOLS, itertools.cycle(WAYS), strict=False)]


@pytest.mark.parametrize("combination", SLICE, ids=lambda combination: combination.name)
def test_both_patterns_arrive_once_and_in_order_over_sockets(combination: Combination) -> None:
    assert run(combination).wrong == []


def test_there_are_twelve_of_versions_and_ways_each_with_an_offer_and_without() -> None:
    assert len({(each.protocol, each.listens) for each in EVERY}) == 12
    assert len({each.name for each in EVERY}) == len(EVERY) == 24


def test_the_slice_has_every_protocol_and_every_way() -> None:
    assert {each.protocol for each in SLICE} == set(ALL_PROTOCOLS)
    assert {(each.listens, each.offer) for each in SLICE} == set(WAYS)


def test_wrong_result_is_detected() -> None:
    numbers = list(range(1, MESSAGES + 1))
    answers = [(number, f"answer {number}") for number in numbers]

    def outcome() -> Outcome:
        return Outcome(EVERY[0], list(numbers), list(numbers), list(answers), response_sequences=1, settled=True)

    assert outcome().wrong == []
    for name, broken in {
        "notes": numbers[1:],
        "asked": [*numbers, 1],
        "answers": answers[::-1],
        "response_sequences": 0,
        "settled": False,
        "left": ["a dead letter"],
    }.items():
        wrong = outcome()
        setattr(wrong, name, broken)
        assert len(wrong.wrong) == 1, name
