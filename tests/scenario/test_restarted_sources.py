"""A source that has started again asks its destination what it has, before it gives numbers to new messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.testing import Flight

from .harness import DESTINATION, EPOCH, Link, Pair, name_of

TAKING = replace(DESTINATION, batches=True)
PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)


def names(two: Pair, since: float) -> list[str]:
    """The messages on the wire from a time on."""
    return [name for at, name in two.times if at >= since - EPOCH]


def assert_asks_once_before_it_sends(two: Pair, link: Link, since: float) -> None:
    link.notes("three", "four")
    two.advance(10)
    assert two.server.handled == ["one", "two", "three", "four"]
    assert names(two, since)[0].startswith("AckRequested")
    link.notes("five")
    two.advance(10)
    assert [name for name in names(two, since) if name.startswith("AckRequested")] == ["AckRequested"]


@PROTOCOLS
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_nothing_is_sent_after_a_start_before_the_destination_has_said_what_it_has(
    protocol: Protocol, listens: bool
) -> None:
    two = Pair(policy=TAKING, client_policy=TAKING)
    link = two.link(protocol, listens=listens)
    link.notes("one", "two")
    two.advance(10)
    two.client.stop()
    two.client.start()
    started = two.now
    assert_asks_once_before_it_sends(two, link, started)
    link.close()
    two.advance(100)
    two.assert_ended()


def test_messages_wait_while_the_destination_does_not_answer_the_question() -> None:
    two = Pair(policy=TAKING, client_policy=TAKING)
    link = two.link()
    link.notes("one")
    two.advance(10)
    two.client.stop()
    two.client.start()
    two.lose("AckRequested", 3)
    link.notes("two")
    two.advance(0.1)
    assert two.server.handled == ["one"]
    two.advance(60)
    assert two.server.handled == ["one", "two"]


def test_messages_in_flight_at_a_crash_are_sent_again() -> None:
    two = Pair(policy=TAKING, client_policy=TAKING)
    link = two.link()
    link.notes("one")
    two.advance(10)
    two.lose("message 2", 1)
    link.notes("two", "three")
    two.advance(0.1)
    two.client.stop()
    two.client.start()
    two.advance(60)
    assert two.server.handled == ["one", "two", "three"]
    link.close()
    two.advance(100)
    two.assert_ended()


def test_a_new_sequence_after_a_start_asks_nothing() -> None:
    two = Pair(policy=TAKING, client_policy=TAKING)
    two.client.stop()
    two.client.start()
    link = two.link()
    link.notes("one", "two")
    two.advance(10)
    link.notes("three")
    two.advance(10)
    assert two.server.handled == ["one", "two", "three"]
    assert [name for name in names(two, 0.0) if name.startswith("AckRequested")] == []


def test_nothing_is_sent_after_a_fail_over_of_the_database_before_the_destination_has_said_what_it_has() -> None:
    two = Pair(policy=TAKING, client_policy=TAKING)
    link = two.link()
    link.notes("one", "two")
    two.advance(10)
    two.client.store.history_since = failed_over = two.now
    assert_asks_once_before_it_sends(two, link, failed_over)


def test_question_after_a_start_has_the_wsa_to_of_all_other_messages() -> None:
    two = Pair(policy=TAKING, client_policy=TAKING)
    link = two.client.to(two.server, wsa_to="urn:orders:europe")
    said: list[tuple[str, str]] = []
    launch = two.launch

    def noted(flight: Flight) -> None:
        if flight.url == two.server.service_url and not flight.is_reply:
            to = flight.envelope.to
            said.append((name_of(flight.http), "" if to is None else to.address))
        launch(flight)

    two.launch = noted  # type: ignore[method-assign]
    link.notes("one")
    two.advance(10)
    two.client.stop()
    two.client.start()
    link.notes("two")
    link.close()
    two.advance(100)
    assert {"CreateSequence", "message 1", "AckRequested", "message 2", "CloseSequence"} <= {name for name, _ in said}
    assert {to for _, to in said} == {"urn:orders:europe"}
    two.assert_ended()


@PROTOCOLS
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_source_goes_on_whose_sequence_the_destination_has_ended_meanwhile(protocol: Protocol, listens: bool) -> None:
    # RM-ACK-06
    silence = 60.0
    two = Pair(policy=replace(TAKING, inactivity_timeout=silence), client_policy=TAKING)
    link = two.link(protocol, listens=listens)
    link.notes("one")
    two.advance(silence + 10)
    assert two.server.destination().machine.tombstone
    two.client.stop()
    two.client.start()
    link.notes("two", "three")
    two.advance(30)
    assert two.server.handled == ["one", "two", "three"]
    link.close()
    two.advance(silence + 100)
    two.assert_ended()
