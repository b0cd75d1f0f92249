"""How many requests leave together, by how many were answered together."""

from __future__ import annotations

from mercury.engine.answered_together import MOST_KEYS, REMEMBERED, SMALLER, AnsweredTogether
from mercury.storage.records import SequenceKey

NOW = 1_800_000_000.0
ORDERS = SequenceKey("http://server.example/orders", "orders")


def key(number: int) -> SequenceKey:
    return SequenceKey("http://server.example/orders", f"key {number}")


def test_requests_that_are_all_answered_have_no_limit() -> None:
    known = AnsweredTogether()
    known.answered(ORDERS, 64, 64, NOW)
    assert known.most(ORDERS, NOW) is None


def test_no_more_leave_together_than_were_answered_together() -> None:
    known = AnsweredTogether()
    known.answered(ORDERS, 64, 40, NOW)
    assert known.most(ORDERS, NOW) == 40
    assert known.most(key(1), NOW) is None, "each key has its own service"
    known.answered(ORDERS, 40, 3, NOW)
    assert known.most(ORDERS, NOW) == 3


def test_requests_of_which_none_was_answered_become_fewer_step_by_step() -> None:
    known = AnsweredTogether()
    known.answered(ORDERS, 64, 0, NOW)
    assert known.most(ORDERS, NOW) == 64 // SMALLER
    known.answered(ORDERS, 2, 0, NOW)
    assert known.most(ORDERS, NOW) == 1


def test_a_limit_is_forgotten_after_a_while_and_when_the_clock_was_set_back() -> None:
    known = AnsweredTogether()
    known.answered(ORDERS, 64, 40, NOW)
    assert known.most(ORDERS, NOW + REMEMBERED - 1) == 40
    assert known.most(ORDERS, NOW + REMEMBERED) is None
    assert known.most(ORDERS, NOW - 1000) is None


def test_memory_has_a_limit_and_the_oldest_keys_give_way() -> None:
    known = AnsweredTogether()
    for number in range(MOST_KEYS):
        known.answered(key(number), 64, 40, NOW)
    known.answered(key(0), 64, 30, NOW)
    known.answered(ORDERS, 64, 40, NOW)
    assert known.most(key(0), NOW) == 30, "it was set again"
    assert known.most(key(1), NOW) is None
    assert known.most(key(2), NOW) == 40
