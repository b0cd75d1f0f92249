"""Which addresses of peers are used, and which are refused before anything is connected to (WSA-08)."""

from __future__ import annotations

import pytest

from mercury.engine.exchange import Outgoing
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, RmVersion

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, identifier_in
from .harness import Link, Node, Pair, World, name_of, source
from .test_ownership_of_sequences import post

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
    node, foreign = server(), Foreign()
    reply = node.get(foreign.close(foreign.open(node), reply_to=INSIDE, fault_to=FRIEND))  # FLT-14
    assert name_of(reply) == "accepted"
    (flight,) = node.world.wire
    assert (flight.url, flight.name) == (FRIEND, "fault Sender")


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


def test_a_repeated_create_sequence_cannot_name_another_address() -> None:
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
def test_another_peer_that_knows_a_sequence_cannot_redirect_the_answer_to_its_end(end: str, whose: str) -> None:
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


# --- many addresses for the responses of one sequence ----------------------------------------------------------------


def asked_from(node: Node, foreign: Foreign, identifier: str, numbers: range) -> list[str]:
    """Requests, each with an address of its own for its response; returns the names of what answers them."""
    return [name_of(node.get(foreign.ask(identifier, n, reply_to=f"{FRIEND}/{n}"))) for n in numbers]


def test_requests_of_one_sequence_name_some_addresses_for_their_responses_and_the_next_is_refused() -> None:
    node, foreign = Node("server", World(), max_response_addresses=3), Foreign()
    identifier = foreign.open(node)
    assert asked_from(node, foreign, identifier, range(1, 4)) == ["acknowledgement"] * 3
    node.world.run()
    reply = node.get(foreign.ask(identifier, 4, reply_to=f"{FRIEND}/4"))
    assert name_of(reply) == "fault Sender"
    assert b"engine.max_response_addresses" in reply.body
    assert name_of(node.get(foreign.ask(identifier, 4, reply_to=f"{FRIEND}/2"))) == "acknowledgement"
    assert name_of(node.get(foreign.ask(identifier, 5, reply_to="anonymous"))) == "accepted", "it comes by repetition"
    node.world.run()
    assert len(node.handled) == 5
    assert len([record for record in node.sources() if not record.channel.back_channel]) == 3
    assert node.letters() == []


def test_requests_that_were_taken_before_the_limit_was_seen_are_handled_and_their_responses_are_dead_letters() -> None:
    node, foreign = Node("server", World(), max_response_addresses=3), Foreign()
    identifier = foreign.open(node)
    assert asked_from(node, foreign, identifier, range(1, 11)) == ["acknowledgement"] * 10
    node.world.run()
    assert len(node.handled) == 10
    assert len(node.sources()) == 3
    assert [text for text, _ in node.letters_by_text()] == [f"re ask {number}" for number in range(4, 11)]
    assert "engine.max_response_addresses" in node.letters()[0].reason


class Recording(Node):
    """A node that keeps what it posts."""

    posts: tuple[Outgoing, ...] = ()

    def posted(self, outgoing: Outgoing) -> None:
        self.posts = (*self.posts, outgoing)
        super().posted(outgoing)


def test_response_sequences_take_the_turns_of_who_has_asked() -> None:
    node, foreign = Node("server", World()), Foreign()
    theirs = identifier_in(post(node, foreign.create(), peer="203.0.113.9"))
    for number in range(1, 9):
        post(node, foreign.ask(theirs, number, reply_to=f"{FRIEND}/{number}"), peer="203.0.113.9")
    node.world.advance(1)
    own = identifier_in(post(node, foreign.create(), peer="192.0.2.1"))
    post(node, foreign.ask(own, 1, reply_to=f"{FRIEND}/own"), peer="192.0.2.1")
    node.world.advance(1)
    assert len(node.sources()) == 9
    found = node.store.due_rms(node.world.now + 1000, 2)
    assert f"{FRIEND}/own" in {key.endpoint for key in found}


def test_posts_of_response_sequences_count_as_those_of_who_has_asked() -> None:
    node, foreign = Recording("server", World()), Foreign()
    theirs = identifier_in(post(node, foreign.create(), peer="203.0.113.9"))
    post(node, foreign.ask(theirs, 1, reply_to=FRIEND), peer="203.0.113.9")
    node.world.advance(1)
    (record,) = node.destinations()
    assert record.owner
    assert {each.owner for each in node.posts if each.url == FRIEND} == {record.owner}


@DIALECTS
def test_response_sequence_that_its_address_never_creates_ends_some_time_after_the_requests(foreign: Foreign) -> None:
    node = Node("server", World(), response_grace=600.0)
    identifier = foreign.open(node)
    asked_from(node, foreign, identifier, range(1, 3))
    node.world.advance(1000)
    assert len([each for each in node.sources() if each.machine.alive]) == 2, "its requests may go on"
    node.get(foreign.terminate(identifier))
    node.world.advance(500)
    assert len([each for each in node.sources() if each.machine.alive]) == 2, "the address may be down for a while"
    node.world.advance(200)
    assert [each for each in node.sources() if each.machine.alive] == []
    assert sorted(node.letters_by_text()) == [("re ask 1", "not delivered"), ("re ask 2", "not delivered")]
    assert "no sequence was made" in node.letters()[0].reason
    tried = node.world.count("CreateSequence")
    node.world.advance(1000)
    assert node.world.count("CreateSequence") == tried


def test_response_sequence_is_created_when_its_address_is_back_within_its_grace() -> None:
    pair = Pair()
    link = pair.link(offer=False)
    pair.server.on_call = lambda _context, _text: pair.client.stop()
    link.asks("one")
    pair.run()
    pair.server.get(Foreign().terminate(pair.server.destination().identifier))
    pair.advance(1800)
    pair.client.start()
    pair.advance(100)
    assert pair.client.answers == [("one", "re one")]
