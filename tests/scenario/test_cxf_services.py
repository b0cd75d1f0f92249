"""A Mercury client of a CXF server that makes a sequence for responses by itself (IOP-CXF-08).

CXF does so if no sequence was offered, or if it declined the offer. It sends the elements CreateSequenceOneway and
CreateSequenceResponseOneway, which are in no specification, with the actions of WS-RM.
"""

from __future__ import annotations

import pytest

from mercury.engine.exchange import ACCEPTED
from mercury.statemachine.protocol import ALL_PROTOCOLS, AddressingVersion, Protocol
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage

from .foreign import Foreign, answer_to, brought, identifier_in
from .harness import Node, Pair, World, name_of

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
SERVICE = "http://server/services/orders"


class Cxf:
    """A CXF server, to which a client that listens has sent requests; the test plays the server.

    :param offers: the client has offered a sequence, which the server has declined.
    """

    def __init__(self, protocol: Protocol, *, offers: bool = False) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.client = self.pair.client
        self.pair.server.stop()
        self.pair.link(protocol, listens=True, offer=offers).asks("one", "two")
        self.pair.turn()
        declined = "none" if offers else None
        created = self.foreign.created("urn:requests", self.client.source().create_message_id, accept=declined)
        self.pair.wire.clear()
        brought(self.client, created)
        self.pair.turn()
        self.requests = [
            flight.envelope.message_id or "" for flight in self.pair.wire if flight.name.startswith("message")
        ]
        for _ in self.requests:
            answer_to(self.client, ACCEPTED, purpose="message")
        acknowledgement = self.foreign.acknowledgement("urn:requests", ((1, 2),))
        brought(self.client, self.foreign.alone(acknowledgement))

    def create(self, acks_to: str = SERVICE, message_id: str = "urn:create") -> HttpMessage:
        """Post CreateSequenceOneway; returns the HTTP reply."""
        return brought(self.client, create_oneway(self.foreign, acks_to, message_id))

    def posted(self) -> HttpMessage:
        """The message that the client has posted now, which is accepted."""
        self.pair.turn()
        (flight,) = self.pair.wire
        self.pair.wire.clear()
        assert flight.url == SERVICE
        return flight.http


def create_oneway(foreign: Foreign, acks_to: str = SERVICE, message_id: str = "urn:create") -> HttpMessage:
    reply_to = "none" if foreign.protocol.addressing is AddressingVersion.WSA10 else None
    http = foreign.create(
        acks_to,
        offer="urn:theirs",
        expires="PT0S",
        message_id=message_id,
        **({"reply_to": reply_to} if reply_to else {}),
    )
    body = http.body.replace(b"r:CreateSequence>", b"r:CreateSequenceOneway>")
    return HttpMessage(body, http.content_type, http.soap_action)


@PROTOCOLS
@pytest.mark.parametrize("offers", [False, True], ids=["no offer", "declined"])
def test_a_sequence_for_responses_that_cxf_makes_is_answered_at_acks_to_and_carries_them(
    protocol: Protocol, offers: bool
) -> None:
    # IOP-CXF-08
    cxf = Cxf(protocol, offers=offers)
    assert name_of(cxf.create()) == "accepted"
    created = cxf.posted()
    assert b":CreateSequenceResponseOneway>" in created.body
    assert b"Accept>" not in created.body, "its offer is not taken"
    said = decode(created.body.replace(b"Oneway>", b">"), created.content_type, created.soap_action)
    assert said.action == f"{cxf.foreign.rm}/CreateSequenceResponse"
    assert said.relates_to is None, "CXF has no request that it would correlate it with"
    identifier = identifier_in(created)
    for number, request in enumerate(cxf.requests, 1):
        answer = brought(cxf.client, cxf.foreign.respond(identifier, number, request, f"re {number}"))
        assert name_of(answer) == "accepted"
    cxf.pair.now += 1
    assert name_of(cxf.posted()) == "acknowledgement"
    assert cxf.client.answers == [("one", "re 1"), ("two", "re 2")]


@PROTOCOLS
def test_a_repeated_create_sequence_oneway_has_the_same_answer(protocol: Protocol) -> None:
    # RM-CS-13
    cxf = Cxf(protocol)
    cxf.create()
    first = identifier_in(cxf.posted())
    cxf.create()
    assert identifier_in(cxf.posted()) == first
    cxf.create(message_id="urn:another")
    assert identifier_in(cxf.posted()) != first


@PROTOCOLS
def test_a_sequence_is_refused_if_its_answer_may_not_be_posted(protocol: Protocol) -> None:
    node, foreign = Node("client", World(), allow=("http://friend.example/",)), Foreign(protocol)
    for acks_to in (SERVICE, "anonymous", "none"):
        assert name_of(brought(node, create_oneway(foreign, acks_to))) == "fault CreateSequenceRefused"
    assert node.empty()


@PROTOCOLS
def test_a_service_makes_no_sequence_of_create_sequence_oneway(protocol: Protocol) -> None:
    node = Node("server", World())
    assert name_of(node.get(create_oneway(Foreign(protocol)))) == "fault CreateSequenceRefused"
    assert node.empty()
