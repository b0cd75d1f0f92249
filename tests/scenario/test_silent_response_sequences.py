"""RM-TRM-07: silence does not end the sequence that a client offers for responses while they may come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mercury.engine.application import MessageContext

from .harness import DESTINATION, PATIENT, Pair

SILENCE = 60.0
SHORT = replace(DESTINATION, inactivity_timeout=SILENCE)
KINDS: dict[str, dict[str, Any]] = {
    "listening": {},
    "anonymous": {"listens": False},
    "polling": {"polls": True, "make_connection": True},
}
CLIENTS = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def fail(_context: MessageContext, _text: str) -> None:
    raise RuntimeError("not yet")


@CLIENTS
def test_first_request_after_a_long_time_of_one_way_messages_is_answered(kind: dict[str, Any]) -> None:
    two = Pair(client_policy=SHORT)
    link = two.link(**kind)
    for number in range(8):
        link.notes(f"note {number}")
        two.advance(20)
    link.asks("two")
    two.advance(30)
    assert two.client.answers == [("two", "re two")]
    link.close()
    two.advance(100)
    two.assert_ended()


@CLIENTS
def test_request_long_after_the_last_response_is_answered(kind: dict[str, Any]) -> None:
    two = Pair(client_policy=SHORT)
    link = two.link(**kind)
    link.asks("one")
    two.advance(SILENCE + 20)
    link.asks("two")
    two.advance(30)
    assert two.client.answers == [("one", "re one"), ("two", "re two")]
    link.close()
    two.advance(100)
    two.assert_ended()


@CLIENTS
def test_request_that_waits_for_a_server_that_is_down_for_long_is_answered(kind: dict[str, Any]) -> None:
    two = Pair(client_policy=SHORT)
    link = two.link(**kind)
    link.notes("one")
    two.advance(10)
    two.server.stop()
    link.asks("two")
    two.advance(SILENCE + 10)
    two.server.start()
    two.advance(60)
    assert two.client.answers == [("two", "re two")]
    two.assert_sound()


@CLIENTS
def test_requests_of_a_client_that_was_down_for_long_are_answered(kind: dict[str, Any]) -> None:
    two = Pair(client_policy=SHORT)
    link = two.link(**kind)
    link.notes("one")
    two.advance(10)
    two.client.stop()
    two.advance(3 * SILENCE)
    two.client.start()
    link.asks("two")
    two.advance(60)
    assert two.client.answers == [("two", "re two")]
    two.assert_sound()


@CLIENTS
def test_request_whose_handler_fails_for_long_is_answered(kind: dict[str, Any]) -> None:
    two = Pair(client_policy=SHORT)
    link = two.link(**kind)
    two.server.on_call = fail
    link.asks("one")
    two.advance(2 * SILENCE + 10)
    two.server.on_call = None
    two.advance(30)
    assert two.client.answers == [("one", "re one")]
    two.assert_sound()


def test_response_is_taken_that_comes_long_after_the_server_has_ended_the_sequence_of_its_request() -> None:
    two = Pair(policy=SHORT, client_policy=SHORT)
    link = two.link()
    two.server.on_call = fail
    link.asks("one")
    two.advance(SILENCE + 10)
    link.notes("two")
    two.advance(2 * SILENCE)
    assert not two.client.sources()[0].machine.alive
    two.server.on_call = None
    two.advance(30)
    assert two.client.answers == [("one", "re one")]
    assert two.server.handled == ["one", "two"]
    two.assert_sound()


@CLIENTS
@pytest.mark.parametrize("request_waits", [True, False], ids=["unanswered", "answered"])
def test_no_response_sequence_of_a_server_that_has_vanished_stays(kind: dict[str, Any], request_waits: bool) -> None:
    two = Pair(client_policy=SHORT)
    link = two.link(**kind, retransmission=replace(PATIENT, max_attempts=5))
    link.asks("one")
    two.advance(10)
    two.server.stop()
    link.close()
    if request_waits:
        link.asks("two")
    two.advance(2 * SHORT.tombstone + 2 * SILENCE + 600)
    assert two.client.empty()
