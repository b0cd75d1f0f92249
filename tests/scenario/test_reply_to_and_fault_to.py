"""Where the response to a request goes: to its own ReplyTo, and a fault to its FaultTo (WSA Core section 3.4)."""

from __future__ import annotations

import pytest

from mercury.engine.exchange import Arrival
from mercury.wire.envelope import Envelope

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to
from .harness import Node, World, name_of
from .test_make_connection import ADDRESS, ANOTHER, Polling

DIALECTS = pytest.mark.parametrize(
    "foreign", [Foreign(RM11_SOAP12), Foreign(RM11_SOAP11), Foreign(RM10_SOAP11)], ids=["1.1/1.2", "1.1/1.1", "1.0/1.1"]
)
INSIDE = "http://inside.example/admin"
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


# --- FaultTo ---------------------------------------------------------------------------------------------------------


@DIALECTS
@pytest.mark.parametrize("reply_to", [FRIEND, OTHER, "none"], ids=["ReplyTo", "same as FaultTo", "none"])
def test_fault_of_a_handler_goes_to_fault_to(foreign: Foreign, reply_to: str) -> None:
    node = server()
    identifier = offering(node, foreign)
    reply_to = f"{foreign.wsa}/role/none" if reply_to == "none" and foreign.protocol is RM10_SOAP11 else reply_to
    node.get(foreign.ask(identifier, 1, "refuse it", reply_to=reply_to, fault_to=OTHER, message_id="urn:request"))
    envelope = assert_posted(node, foreign, OTHER, NEW, b"Refused")
    assert envelope.relates_to == "urn:request"
    assert node.letters() == []


def test_fault_carries_the_reference_parameters_of_fault_to() -> None:
    # WSA-03
    node, foreign = server(), Foreign()
    identifier = offering(node, foreign)
    seven, three = (f'<c:Desk xmlns:c="urn:c">{desk}</c:Desk>' for desk in (7, 3))
    fault_to = f"<a:FaultTo>{foreign.epr(OTHER, seven)}</a:FaultTo>"
    node.get(foreign.ask(identifier, 1, "refuse it", reply_to=FRIEND, reply_parameters=three, headers=fault_to))
    envelope = assert_posted(node, foreign, OTHER, NEW, b"Refused")
    assert [b">7<" in block for block in envelope.headers] == [True]


@DIALECTS
def test_response_goes_to_reply_to_whatever_fault_to_says(foreign: Foreign) -> None:
    node = server()
    identifier = offering(node, foreign)
    node.get(foreign.ask(identifier, 1, "one", reply_to=FRIEND, fault_to=OTHER))
    assert_posted(node, foreign, FRIEND, OFFERED, b"re one")


@pytest.mark.parametrize("fault_to", [INSIDE, "anonymous", "none", ADDRESS])
def test_fault_goes_to_reply_to_where_nothing_can_be_sent_to_fault_to(fault_to: str) -> None:
    # FLT-14: as the faults of the protocol do. WS-RM 1.0 has no MakeConnection.
    node, foreign = server(), Foreign(RM10_SOAP12)
    identifier = offering(node, foreign)
    assert name_of(node.get(foreign.ask(identifier, 1, "refuse it", reply_to=FRIEND, fault_to=fault_to))) != "fault"
    assert_posted(node, foreign, FRIEND, OFFERED, b"Refused")


def test_fault_for_who_waits_on_the_connection_comes_there_whatever_fault_to_says() -> None:
    # HTTP-05: the exchange stays open for it, and its request would be repeated
    node, foreign = server(), Foreign()
    identifier = foreign.open(node, offer=OFFERED)
    request = foreign.ask(identifier, 1, "refuse it", reply_to="anonymous", fault_to=OTHER)
    answers = node.receive([Arrival(http=request, service="orders", url=node.service_url)])
    assert answers is not None
    node.world.run()
    response = node.respond(answers[0].waiting)
    assert response is not None
    assert b"Refused" in response.body
    assert node.world.seen == []


def test_fault_to_is_fetched_by_make_connection() -> None:
    client = Polling()
    client.offer()
    client.post(client.foreign.ask(client.requests, 1, "refuse it", reply_to=ADDRESS, fault_to=ANOTHER))
    assert not name_of(client.poll()).startswith("response")
    assert name_of(client.poll(address=ANOTHER)) == "CreateSequence"


def test_fault_goes_to_reply_to_where_fault_to_is_one_address_too_many() -> None:
    node, foreign = server(max_response_addresses=2), Foreign()
    identifier = offering(node, foreign)
    for number in (1, 2):
        where = {"reply_to": FRIEND, "fault_to": f"{OTHER}/{number}"}
        node.get(foreign.ask(identifier, number, "refuse it", message_id=f"urn:{number}", **where))
        node.world.turn()
    node.world.turn()
    addresses = {record.channel.endpoint for record in node.sources()}
    assert addresses == {FRIEND, f"{OTHER}/1"}
    said = [flight.envelope for flight in node.world.wire if flight.url == FRIEND]
    assert [each.relates_to for each in said] == ["urn:2"]
    assert node.letters() == []
