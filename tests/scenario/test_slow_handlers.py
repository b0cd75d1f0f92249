"""Handlers that take longer than a client without an address is usually held for (HTTP-05)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from mercury.settings import HttpSettings
from mercury.statemachine.messages import MAKE_CONNECTION_ANONYMOUS
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, RmVersion
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign
from .harness import Node, Pair, World, name_of
from .harness.served import Served

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
FETCHED = f"{MAKE_CONNECTION_ANONYMOUS}sandesha"
#: What CreateSequence of Mercury has in WS-RM 1.1.
MERCURY = (
    '<m:IncompleteSequenceBehavior xmlns:m="urn:mercury:rm">NoDiscard</m:IncompleteSequenceBehavior></r:CreateSequence>'
)


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served(Node("server", World()))
    yield made
    made.close()


def asked(foreign: Foreign, identifier: str, number: int = 1, headers: str = "") -> HttpMessage:
    """A request, the same each time, with an anonymous ReplyTo."""
    name = f"urn:request:{number}"
    return foreign.ask(identifier, number, message_id=name, reply_to="anonymous", headers=headers)


def padded(http: HttpMessage, size: int) -> HttpMessage:
    """The same message with so much white space behind it."""
    return HttpMessage(http.body + b" " * size, http.content_type)


@PROTOCOLS
def test_client_without_an_address_gets_the_response_of_a_slow_handler_on_the_connection_of_its_request(
    served: Served, protocol: Protocol
) -> None:
    foreign = Foreign(protocol)
    identifier = foreign.open(served.node, offer="urn:offered")
    served.busy(20)
    client = served.post(asked(foreign, identifier))
    served.advance(19)
    assert client.reply is None, "it takes anything else for its response"
    served.advance(2)
    assert client.reply is not None
    assert name_of(client.reply) == "response 1"
    assert served.node.handled == ["ask 1"]


def test_client_without_an_offer_gets_the_reply_of_a_slow_handler_on_the_connection_of_its_request(
    served: Served,
) -> None:
    foreign = Foreign(RM10_SOAP11)
    identifier = foreign.open(served.node)
    served.busy(20)
    client = served.post(asked(foreign, identifier))
    served.advance(21)
    assert client.reply is not None
    assert b"re ask 1" in client.reply.body


@pytest.mark.parametrize("client", ["mercury", "successor", "make-connection"])
def test_client_that_fetches_a_late_response_is_answered_after_two_seconds(served: Served, client: str) -> None:
    node, foreign = served.node, Foreign(RM10_SOAP11 if client == "successor" else RM11_SOAP12)
    if client == "make-connection":
        identifier = foreign.open(node, acks_to=FETCHED, offer="urn:offered", offer_endpoint="anonymous")
    elif client == "successor":
        identifier = foreign.open(node, offer="urn:offered", follows=foreign.open(node))
    else:
        creation = foreign.create(offer="urn:offered")
        body = creation.body.replace(b"</r:CreateSequence>", MERCURY.encode())
        reply = node.get(HttpMessage(body, creation.content_type))
        identifier = reply.body.split(b"Identifier>", 1)[1].split(b"</", 1)[0].decode()
    served.busy(20)
    exchange = served.post(asked(foreign, identifier))
    served.advance(1.5)
    assert exchange.reply is None
    served.advance(1)
    assert exchange.reply is not None
    assert name_of(exchange.reply) == "accepted"
    served.advance(20)
    again = served.post(asked(foreign, identifier))
    served.advance(1)
    assert again.reply is not None
    assert name_of(again.reply) == "response 1"


@PROTOCOLS
def test_a_mercury_client_is_known_by_its_first_create_sequence(protocol: Protocol) -> None:
    # WS-RM 1.0: otherwise its requests would be held for `http.response_wait` and be repeated meanwhile
    pair = Pair()
    pair.link(protocol, listens=False).asks("one")
    pair.run()
    assert [record.source_is_mercury for record in pair.server.destinations()] == [True]
    pair.server.get(Foreign(protocol).create())
    assert sorted(record.source_is_mercury for record in pair.server.destinations()) == [False, True]


def test_repetitions_on_other_connections_leave_the_first_exchange_open_and_the_newest(served: Served) -> None:
    # CXF repeats after 3 and 9 s while its caller waits on the first connection.
    foreign = Foreign(RM10_SOAP11)
    identifier = foreign.open(served.node, offer="urn:offered")
    served.busy(20)
    request = asked(foreign, identifier)
    first = served.post(request)
    served.advance(3)
    second = served.post(asked(foreign, identifier, headers=foreign.ack_requested(identifier)))
    served.advance(6)
    assert second.reply is None
    third = served.post(request)
    served.advance(1)
    assert first.reply is None
    assert second.reply is not None
    assert name_of(second.reply) == "acknowledgement", "what it asked for"
    served.advance(11)
    for each in (first, third):
        assert each.reply is not None
        assert name_of(each.reply) == "response 1"
    assert served.node.handled == ["ask 1"]


def test_exchange_is_held_for_the_repetition_when_the_first_connection_has_closed(served: Served) -> None:
    foreign = Foreign(RM10_SOAP11)
    identifier = foreign.open(served.node, offer="urn:offered")
    served.busy(20)
    first = served.post(asked(foreign, identifier))
    served.advance(5)
    first.hold.end_soon()
    served.advance(0)
    assert first.reply is not None
    assert first.reply.status == 503
    assert b"send the request again later" in first.reply.body, "no caller may take it for a response"
    again = served.post(asked(foreign, identifier))
    served.advance(14)
    assert again.reply is None
    served.advance(2)
    assert again.reply is not None
    assert name_of(again.reply) == "response 1"


def test_stop_ends_exchanges_that_are_held_for_a_slow_handler_at_once_and_gives_others_two_seconds(
    served: Served,
) -> None:
    foreign = Foreign()
    identifier = foreign.open(served.node, offer="urn:offered")
    served.busy(20)
    old = served.post(asked(foreign, identifier, 1))
    served.advance(5)
    new = served.post(asked(foreign, identifier, 2))
    served.advance(1)
    for each in (old, new):
        each.hold.end_soon()
    served.advance(0)
    assert old.reply is not None
    assert old.reply.status == 503
    assert new.reply is None, "its response may come any moment"
    served.advance(1.5)
    assert new.reply is not None
    assert new.reply.status == 503


def test_request_behind_a_gap_waits_until_the_missing_one_was_repeated(served: Served) -> None:
    foreign = Foreign(RM10_SOAP11)
    identifier = foreign.open(served.node, offer="urn:offered")
    behind = served.post(asked(foreign, identifier, 2))
    served.advance(9)
    assert behind.reply is None
    missing = served.post(asked(foreign, identifier, 1))
    served.advance(1)
    for each, name in ((missing, "response 1"), (behind, "response 2")):
        assert each.reply is not None
        assert name_of(each.reply) == name


def test_request_behind_a_gap_that_stays_open_is_answered_and_those_after_it_at_once(served: Served) -> None:
    # A client with one connection cannot repeat the missing message while an exchange is open.
    foreign = Foreign(RM10_SOAP11)
    identifier = foreign.open(served.node, offer="urn:offered")
    behind = served.post(asked(foreign, identifier, 2))
    served.advance(10.5)
    assert behind.reply is not None
    assert behind.reply.status == 503
    later = served.post(asked(foreign, identifier, 3))
    assert later.reply is not None
    assert later.reply.status == 503


def test_request_that_is_never_handled_is_answered_after_the_longest_time() -> None:
    served = Served(Node("server", World()), HttpSettings(response_wait=30))
    foreign = Foreign()
    assert foreign.protocol.rm is RmVersion.RM11
    identifier = foreign.open(served.node, offer="urn:offered")
    served.busy(1000)
    client = served.post(asked(foreign, identifier))
    served.advance(29)
    assert client.reply is None
    served.advance(2)
    assert client.reply is not None
    assert client.reply.status == 503
    served.close()


def test_bodies_of_held_requests_are_not_kept_in_memory(served: Served) -> None:
    """An exchange may be held for minutes, and the limit on bodies counts those that are being received."""
    foreign = Foreign(RM10_SOAP11)
    identifier = foreign.open(served.node, offer="urn:offered")
    served.busy(20)
    served.post(asked(foreign, identifier))
    tracemalloc.start()
    try:
        client = served.post(padded(asked(foreign, identifier), 900_000))
        served.advance(1)
        largest = max(trace.size for trace in tracemalloc.take_snapshot().traces)
    finally:
        tracemalloc.stop()
    assert client.reply is None, "it is held"
    assert largest < 450_000, "neither the body nor a copy of it is there"
