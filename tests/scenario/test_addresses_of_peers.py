"""Which addresses of peers are used, and which are refused before anything is connected to (WSA-08)."""

from __future__ import annotations

import pytest

from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, RmVersion

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, identifier_in
from .harness import Link, Node, World, name_of, source

DIALECTS = pytest.mark.parametrize(
    "foreign", [Foreign(RM11_SOAP12), Foreign(RM11_SOAP11), Foreign(RM10_SOAP11)], ids=["1.1/1.2", "1.1/1.1", "1.0/1.1"]
)
INSIDE = "http://inside.example/admin"
FRIEND = "http://friend.example/replies"


def server() -> Node:
    return Node("server", World(), allow=("http://friend.example/",))


@DIALECTS
@pytest.mark.parametrize("member", ["acks_to", "reply_to"])
def test_create_sequence_with_an_address_that_is_not_listed_is_refused(foreign: Foreign, member: str) -> None:
    node = server()
    reply = node.get(foreign.create(**{"acks_to": "anonymous", member: INSIDE}))
    assert name_of(reply) == "fault CreateSequenceRefused"  # FLT-05
    assert INSIDE.encode() in reply.body
    assert b"allowed" in reply.body
    node.world.advance(60)
    assert node.world.seen == []
    assert node.destinations() == []


def test_an_offer_with_an_endpoint_that_is_not_listed_is_refused() -> None:
    node = server()
    reply = node.get(Foreign().create(offer="urn:offered", offer_endpoint=INSIDE))
    assert name_of(reply) == "fault CreateSequenceRefused"
    assert b"Endpoint" in reply.body
    assert node.sources() == []


def test_a_fault_does_not_go_to_an_address_that_is_not_listed() -> None:
    node = server()
    reply = node.get(Foreign().note("urn:nothing", 1, fault_to=INSIDE, reply_to=INSIDE))
    assert name_of(reply) == "fault UnknownSequence"
    assert node.world.wire == []


def test_a_fault_goes_to_fault_to_when_it_is_listed() -> None:
    node = server()
    reply = node.get(Foreign().note("urn:nothing", 1, fault_to=FRIEND, reply_to=INSIDE))  # FLT-14
    assert name_of(reply) == "accepted"
    (flight,) = node.world.wire
    assert (flight.url, flight.name) == (FRIEND, "fault UnknownSequence")


@pytest.mark.parametrize("end", ["close", "terminate"])
def test_the_answer_to_the_end_of_a_sequence_does_not_go_to_an_address_that_is_not_listed(end: str) -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    reply = node.get(getattr(foreign, end)(identifier, reply_to=INSIDE))
    assert node.world.wire == []
    assert name_of(reply) == "fault Sender"
    assert INSIDE.encode() in reply.body
    assert not node.destination().machine.final, "what is refused changes nothing"
    assert "Response" in name_of(node.get(getattr(foreign, end)(identifier)))


def test_a_repeated_create_sequence_can_not_name_another_address() -> None:
    node, foreign = server(), Foreign()
    first = node.get(foreign.create(message_id="urn:once"))
    reply = node.get(foreign.create(message_id="urn:once", reply_to=INSIDE))
    assert node.world.wire == []
    assert name_of(reply) == "fault CreateSequenceRefused"
    again = node.get(foreign.create(message_id="urn:once"))
    assert identifier_in(again) == identifier_in(first)  # RM-CS-13, ST-D01


def test_a_request_whose_response_could_not_be_sent_is_refused_and_not_acknowledged() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    reply = node.get(foreign.ask(identifier, 1, reply_to=INSIDE))
    assert name_of(reply) == "fault Sender"
    assert INSIDE.encode() in reply.body
    node.world.advance(60)
    assert node.world.seen == []
    assert node.handled == []
    assert not node.destination().machine.received


def test_the_same_request_is_taken_once_its_address_is_listed() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    assert name_of(node.get(foreign.ask(identifier, 1, "hello", reply_to=FRIEND))) == "acknowledgement"
    node.world.run()
    assert node.handled == ["hello"]
    assert node.world.seen == ["CreateSequence"], "the server makes a sequence for the response (RM-CS-15)"


@DIALECTS
def test_acks_to_none_is_refused(foreign: Foreign) -> None:
    node = server()
    reply = node.get(
        foreign.create("none" if foreign.protocol.addressing.value == "1.0" else f"{foreign.wsa}/role/none")
    )
    assert name_of(reply) == "fault CreateSequenceRefused"  # RM-CS-05
    assert foreign.protocol.rm in RmVersion


def test_acknowledgements_and_responses_carry_the_reference_parameters_back() -> None:
    # WSA-03
    node, foreign = server(), Foreign()
    identifier = foreign.open(node, acks_to=FRIEND, acks_parameters='<c:Session xmlns:c="urn:c">7</c:Session>')
    node.get(foreign.note(identifier, 1))
    node.world.advance(1)
    (flight,) = [each for each in node.world.times if each[1] == "acknowledgement"]
    assert flight[0] == pytest.approx(0.2)


def test_a_listener_that_is_not_listed_gets_no_acknowledgements_from_a_second_header() -> None:
    node, foreign = server(), Foreign(RM10_SOAP12)
    identifier = foreign.open(node)
    reply = node.get(foreign.note(identifier, 1, reply_to=INSIDE, fault_to=INSIDE))
    assert name_of(reply) == "acknowledgement"
    node.world.advance(60)
    assert node.world.seen == []


# --- a client that lists nothing, and listens ------------------------------------------------------------------------


def conversation(protocol: Protocol) -> tuple[World, Node, Link]:
    """A client that lists nothing, and a server that lists the client."""
    world = World()
    client, node = Node("client", world, allow=()), Node("server", world)
    return world, client, client.to(node, policy=source(protocol))


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_the_server_ends_its_responses_at_a_client_that_lists_nothing(protocol: Protocol) -> None:
    """Its ReplyTo is the endpoint that the client has chosen itself and posts to anyway."""
    world, client, link = conversation(protocol)
    link.asks("one", "two")
    link.close()
    world.advance(60)
    assert client.answers == [("one", "re one"), ("two", "re two")]
    assert [name for name in world.seen if name.startswith("fault")] == []
    world.assert_ended()


@pytest.mark.parametrize("end", ["close", "terminate"])
@pytest.mark.parametrize("whose", ["the responses", "the requests"])
def test_a_stranger_who_knows_a_sequence_can_not_have_its_end_answered_elsewhere(end: str, whose: str) -> None:
    world, client, link = conversation(RM11_SOAP12)
    link.asks("one")
    world.run()
    identifier = client.source().offered if whose == "the responses" else client.source().machine.identifier
    seen = len(world.seen)
    reply = client.get(getattr(Foreign(), end)(identifier, reply_to=INSIDE), "responses")
    assert name_of(reply) == "fault Sender"
    assert INSIDE.encode() in reply.body
    assert world.seen[seen:] == []
    assert client.source().machine.alive


def test_the_endpoint_of_another_sequence_is_a_strange_address_too() -> None:
    world, client, link = conversation(RM11_SOAP12)
    client.to("http://other.example/services/orders", "other").notes("x")
    link.asks("one")
    world.run()
    offered = next(record.offered for record in client.sources() if record.channel.key.endpoint == link.endpoint)
    reply = client.get(Foreign().terminate(offered or "", reply_to="http://other.example/services/orders"), "responses")
    assert name_of(reply) == "fault Sender"
