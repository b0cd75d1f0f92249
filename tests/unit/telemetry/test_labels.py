"""The values of attributes are masked, and their number is limited."""

from __future__ import annotations

import pytest

from mercury.telemetry.instruments import OTHER
from mercury.telemetry.labels import MOST_LENGTH, Limited, largest, shown
from mercury.telemetry.reasons import Reason, reason_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://user:secret@peer.example/orders?token=secret#part", "https://peer.example/orders"),
        ("http://peer.example:8080", "http://peer.example:8080"),
        ("http://[broken", OTHER),
        ("orders", "orders"),
        (f"http://peer.example/{'a' * 500}", f"http://peer.example/{'a' * 500}"[:MOST_LENGTH]),
    ],
)
def test_credentials_and_queries_of_endpoints_are_not_shown(url: str, name: str) -> None:
    assert shown(url) == name


def test_endpoints_above_the_limit_share_one_name() -> None:
    limited = Limited(2)
    names = [limited.of(f"http://peer.example/{number}") for number in range(5)]
    assert names == ["http://peer.example/0", "http://peer.example/1", OTHER, OTHER, OTHER]
    assert limited.of("http://peer.example/1?again") == "http://peer.example/1"


def test_gauges_name_the_largest_destinations_and_add_up_the_rest() -> None:
    counts = [("http://a.example/?key=1", 2), ("http://a.example/?key=2", 3), ("b", 4), ("c", 1), ("d", 1)]
    assert largest(counts, 2) == {"http://a.example/": 5, "b": 4, OTHER: 2}
    assert largest(counts, 9) == {"http://a.example/": 5, "b": 4, "c": 1, "d": 1}
    assert largest([], 9) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("given up after 3 transmissions: http://peer.example refused order 17", Reason.GIVEN_UP),
        ("given up, never sent: no sequence was made in 12 attempts: no answer came", Reason.GIVEN_UP),
        ("given up: it waited for 60 s (source.retransmission.max_age)", Reason.GIVEN_UP),
        ("given up: ValueError: order 17", Reason.HANDLER),
        ("the handler refused it: no such customer", Reason.HANDLER),
        ("parked by an operator after 3 failed tries: ValueError", Reason.PARKED),
        ("the sequence failed: unknown sequence", Reason.SEQUENCE),
        ("its row in the store is damaged", Reason.DAMAGED),
        ("something of a newer version", Reason.OTHER),
    ],
)
def test_reason_of_a_dead_letter_has_a_name_without_its_details(text: str, reason: Reason) -> None:
    assert reason_of(text) is reason
