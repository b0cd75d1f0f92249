"""Messages of other products with their default settings, written by hand (docs/protocol.md, section 17b)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.exchange import Arrival
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to, brought
from .harness import Link, Node, Pair, World, name_of

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
RM11 = pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11], ids=str)
RM10 = pytest.mark.parametrize("protocol", [RM10_SOAP12, RM10_SOAP11], ids=str)
#: The action that Metro sends by HTTP for a reply without an action of its own.
PLACEHOLDER = "http://jax-ws.dev.java.net/addressing/output-action-not-set"


def opened(protocol: Protocol, *, listens: bool = True, accept: str | None = None) -> tuple[Pair, Foreign, Link]:
    """A client whose sequence a foreign peer has made, for the tests to play."""
    pair, foreign = Pair(), Foreign(protocol)
    pair.server.stop()
    link = pair.link(protocol, listens=listens)
    link.asks("one")
    pair.turn()
    created = foreign.created("urn:theirs", pair.client.source().create_message_id, accept=accept)
    answer_to(pair.client, created, purpose="CreateSequence")
    pair.turn()
    return pair, foreign, link


# --- acknowledgements ------------------------------------------------------------------------------------------------


@RM11
def test_ranges_beside_none_acknowledge_the_messages(protocol: Protocol) -> None:
    # RM11-SCH-02: CXF writes both
    pair, foreign = Pair(), Foreign(protocol)
    pair.server.stop()
    pair.link(protocol).notes("one", "two")
    pair.turn()
    answer_to(
        pair.client, foreign.created("urn:theirs", pair.client.source().create_message_id), purpose="CreateSequence"
    )
    pair.turn()
    both = foreign.acknowledgement("urn:theirs", ((1, 2),), extra="<r:None/>")
    answer_to(pair.client, foreign.alone(both), purpose="message")
    assert pair.client.source().machine.acknowledged.count == 2
    assert pair.client.rows() == 0
    pair.assert_sound()


@PROTOCOLS
@pytest.mark.parametrize("path", ["services/orders", "responses"])
def test_an_acknowledgement_message_that_acknowledges_nothing_is_accepted(protocol: Protocol, path: str) -> None:
    # LIVE-02
    node, foreign = Node("server", World()), Foreign(protocol)
    assert name_of(node.get(foreign.alone(""), path)) == "accepted"
    foreign.open(node)
    assert name_of(node.get(foreign.alone(""), path)) == "accepted"


@RM10
@pytest.mark.parametrize("path", ["services/orders", "responses"])
def test_a_last_message_without_a_sequence_is_accepted(protocol: Protocol, path: str) -> None:
    # LIVE-02: CXF at its shutdown
    node, foreign = Node("server", World()), Foreign(protocol)
    identifier = foreign.open(node)
    assert name_of(node.get(foreign.envelope(f"{foreign.rm}/LastMessage"), path)) == "accepted"
    assert node.destination().machine.last_number is None
    assert name_of(node.get(foreign.note(identifier, 1))) == "acknowledgement"


# --- the action of HTTP ----------------------------------------------------------------------------------------------


def placeholder(http: HttpMessage) -> HttpMessage:
    """The same with an action of HTTP that is not the message's."""
    action = PLACEHOLDER if http.soap_action is None else f'"{PLACEHOLDER}"'
    if http.soap_action is None:
        return replace(http, content_type=f'application/soap+xml; charset=utf-8; action="{action}"')
    return replace(http, soap_action=action)


@PROTOCOLS
@pytest.mark.parametrize("way", ["connection", "endpoint"])
def test_a_response_is_taken_though_http_has_a_placeholder_for_its_action(protocol: Protocol, way: str) -> None:
    # WSA-09
    pair, foreign, _ = opened(protocol, listens=way == "endpoint", accept="http://server/services/orders")
    request = next(iter(pair.client.store.committed.rms.by_message_id))
    offered = pair.client.source().offered or ""
    response = placeholder(foreign.respond(offered, 1, request, "re one"))
    if way == "endpoint":
        assert name_of(brought(pair.client, response)) == "accepted"
    else:
        answer_to(pair.client, response, purpose="message")
    pair.run()
    assert pair.client.answers == [("one", "re one")]


@PROTOCOLS
def test_a_request_whose_action_of_http_is_another_is_refused(protocol: Protocol) -> None:
    node, foreign = Node("server", World()), Foreign(protocol)
    identifier = foreign.open(node)
    assert "fault" in name_of(node.get(placeholder(foreign.note(identifier, 1, relates_to="urn:x"))))
    assert not node.destination().machine.received


# --- WS-RM 1.0 -------------------------------------------------------------------------------------------------------

ACKS = "http://friend.example/acks"


@RM10
def test_the_offered_sequence_of_1_0_belongs_to_reply_to_wherever_acknowledgements_go(protocol: Protocol) -> None:
    # LIVE-09
    node, foreign = Node("server", World()), Foreign(protocol)
    identifier = foreign.open(node, acks_to=ACKS, offer="urn:offered", reply_to="anonymous")
    request = foreign.ask(identifier, 1, "one", message_id="urn:request", reply_to="anonymous")
    answers = node.receive([Arrival(http=request, service="orders", url=node.service_url)])
    assert answers is not None
    assert answers[0].waiting
    node.world.run()
    response = node.respond(answers[0].waiting)
    assert response is not None
    assert name_of(response) == "response 1"
    assert b"urn:offered" in response.body
    node.world.advance(5)
    assert set(node.world.seen) == {"acknowledgement"}, "of the request, to AcksTo; no response is posted there"


@RM10
def test_that_nothing_was_received_is_not_written_as_the_range_0_0(protocol: Protocol) -> None:
    # LIVE-09: others than .NET refuse it
    node, foreign = Node("server", World()), Foreign(protocol)
    anonymous, posted = foreign.open(node), foreign.open(node, acks_to=ACKS)
    for identifier in (anonymous, posted):
        assert name_of(node.get(foreign.alone(foreign.ack_requested(identifier)))) == "accepted"
    node.world.advance(5)
    assert node.world.seen == []
    assert name_of(node.get(foreign.note(anonymous, 1))) == "acknowledgement"
