"""Where the response to a request goes: to its own ReplyTo (WSA Core section 3.4)."""

from __future__ import annotations

import pytest

from mercury.wire.envelope import Envelope

from .foreign import RM10_SOAP11, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to
from .harness import Node, World, name_of
from .test_make_connection import ADDRESS, ANOTHER, Polling

DIALECTS = pytest.mark.parametrize(
    "foreign", [Foreign(RM11_SOAP12), Foreign(RM11_SOAP11), Foreign(RM10_SOAP11)], ids=["1.1/1.2", "1.1/1.1", "1.0/1.1"]
)
FRIEND = "http://friend.example/replies"
OTHER = "http://other.example/replies"
#: A response on the sequence that was offered, and one on a sequence that is made for it first.
OFFERED, NEW = "urn:offered", "urn:new"


def server(**settings: int) -> Node:
    return Node("server", World(), allow=("http://friend.example/", "http://other.example/"), **settings)


def offering(node: Node, foreign: Foreign) -> str:
    """Create a sequence with an offer to `FRIEND`; returns its identifier."""
    if foreign.protocol.rm.value == "1.1":
        return foreign.open(node, offer=OFFERED, offer_endpoint=FRIEND)
    node.get(foreign.create(offer=OFFERED, reply_to=FRIEND))  # 1.0: an offer has no Endpoint (LIVE-09)
    node.world.wire.clear()
    return node.destination().identifier


def posted(node: Node, foreign: Foreign) -> list[tuple[str, str, Envelope]]:
    """What the server posts for the response to a request, as (URL, identifier of its sequence, envelope). A sequence
    that it asks for is created."""
    for _ in range(4):
        node.world.turn()
        for flight in [each for each in node.world.wire if each.name == "CreateSequence"]:
            answer_to(node, foreign.created(NEW, flight.envelope.message_id), purpose="CreateSequence")
    found = [(flight.url, flight.envelope) for flight in node.world.wire if not flight.is_reply]
    return [(url, each.sequence.identifier, each) for url, each in found if each.sequence is not None]


def assert_posted(node: Node, foreign: Foreign, url: str, sequence: str, text: bytes) -> Envelope:
    """Exactly one response is posted, to this URL on this sequence, with this text."""
    found = posted(node, foreign)
    assert [(at, identifier) for at, identifier, _ in found] == [(url, sequence)]
    envelope = found[0][2]
    assert envelope.to is not None
    assert text in envelope.body.xml  # type: ignore[union-attr]
    return envelope


# --- ReplyTo ---------------------------------------------------------------------------------------------------------


@DIALECTS
def test_response_goes_to_the_reply_to_of_its_request_and_not_to_the_endpoint_of_the_offer(foreign: Foreign) -> None:
    node = server()
    identifier = offering(node, foreign)
    node.get(foreign.ask(identifier, 1, "one", reply_to=OTHER))
    envelope = assert_posted(node, foreign, OTHER, NEW, b"re one")
    assert envelope.to is not None
    assert envelope.to.address == OTHER


@DIALECTS
@pytest.mark.parametrize("written", [FRIEND, "http://FRIEND.example:80/replies"], ids=["same", "in another form"])
def test_response_to_the_endpoint_of_the_offer_uses_the_offered_sequence(foreign: Foreign, written: str) -> None:
    node = server()
    identifier = offering(node, foreign)
    node.get(foreign.ask(identifier, 1, "one", reply_to=written))
    assert_posted(node, foreign, FRIEND, OFFERED, b"re one")


def test_response_for_another_uri_of_make_connection_is_not_fetched_by_that_of_the_offer() -> None:
    client = Polling()
    client.offer()
    client.post(client.foreign.ask(client.requests, 1, reply_to=ANOTHER))
    assert not name_of(client.poll()).startswith("response")
    assert name_of(client.poll(address=ANOTHER)) == "CreateSequence"
    client.ask(2)
    assert name_of(client.poll()) == "response 1"


def test_response_to_an_address_is_not_left_to_make_connection_although_the_offer_says_so() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node, offer=OFFERED, offer_endpoint=ADDRESS)
    node.get(foreign.ask(identifier, 1, "one", reply_to=FRIEND))
    assert_posted(node, foreign, FRIEND, NEW, b"re one")
