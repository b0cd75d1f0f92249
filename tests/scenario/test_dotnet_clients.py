""".NET clients of a Mercury service: messages as each .NET binding writes them (IOP-WCF rules)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.faults import Ranges
from mercury.statemachine.messages import (
    CloseSequenceResponse,
    CreateSequenceResponse,
    IncompleteSequenceBehavior,
    TerminateSequenceResponse,
)
from mercury.statemachine.policy import AcknowledgeAt, DestinationPolicy
from mercury.statemachine.protocol import Protocol
from mercury.wire.envelope import HttpMessage, Payload

from .dotnet import CLIENT, DIALECTS, DotNet, post, read, response_to
from .harness import DESTINATION, Node, World, name_of, text_of

PROTOCOLS = pytest.mark.parametrize("protocol", DIALECTS, ids=str)


def ranges_in(http: HttpMessage) -> Ranges | None:
    """The ranges that an answer acknowledges; ``None`` = it is empty."""
    return read(http).acknowledgements[0].ranges if http.body else None


class Session:
    """A session of a .NET client with a service."""

    def __init__(
        self, protocol: Protocol, *, listens: bool = False, offer: bool = False, policy: DestinationPolicy = DESTINATION
    ) -> None:
        self.node, self.dotnet = Node("server", World(), policy=policy), DotNet(protocol)
        self.address = CLIENT if listens else "anonymous"
        self.offered = "urn:uuid:0afb8d36" if offer else None
        # IOP-WCF-01: over a connection only, WS-RM 1.0 has no ReplyTo when nothing is offered
        reply_to = None if self.dotnet.is_1_0 and not listens and not offer else self.address
        self.creation = self.dotnet.create(
            self.address, offer=self.offered, message_id="urn:uuid:addabbbf", reply_to=reply_to
        )
        self.answer = self.node.get(self.creation)
        #: What was posted to the client's address.
        self.posted = [flight.envelope for flight in self.node.world.flights]
        self.response = read(self.answer) if self.answer.body else self.posted[0]
        created = self.response.body
        assert isinstance(created, CreateSequenceResponse)
        self.created, self.identifier = created, created.identifier
        self.node.world.flights.clear()

    def end(self, last: int, headers: str = "") -> list[str]:
        """What the client sends at its end; returns the names of the answers."""
        dotnet, identifier = self.dotnet, self.identifier
        if dotnet.is_1_0:
            bare = dotnet.sequence(identifier, last + 1, last=True) + headers
            ends = [
                dotnet.envelope(f"{dotnet.rm}/LastMessage", headers=bare, reply_to=self.address),
                dotnet.terminate(identifier, headers=headers),
            ]
        else:
            ends = [
                dotnet.close(identifier, last, reply_to=self.address, headers=headers),
                dotnet.terminate(identifier, last, reply_to=self.address, headers=headers),
            ]
        self.ends = []
        for each in ends:
            self.ends.append(self.node.get(each))
            self.node.world.turn()
        return [name_of(each) for each in self.ends]

    def assert_final(self, last: int) -> None:
        """RM11-ACK-08: without a final acknowledgement in both answers .NET ends with an error."""
        for http, kind in zip(self.ends, (CloseSequenceResponse, TerminateSequenceResponse), strict=True):
            answer = read(http)
            assert isinstance(answer.body, kind)
            (said,) = [each for each in answer.acknowledgements if each.identifier == self.identifier]
            assert (said.ranges, said.final) == (((1, last),), True)


# --- one-way ---------------------------------------------------------------------------------------------------------


@PROTOCOLS
def test_one_way_session_on_connections(protocol: Protocol) -> None:
    # IOP-WCF-01, RM-CS-03, IOP-WCF-06, RM-ACK-11, IOP-WCF-04
    session = Session(protocol)
    node, dotnet, identifier = session.node, session.dotnet, session.identifier
    assert session.response.relates_to == "urn:uuid:addabbbf"
    assert session.created.accept_acks_to is None
    first = read(node.get(dotnet.note(identifier, 1, headers=dotnet.ack_requested(identifier))))
    assert first.acknowledgements[0].ranges == ((1, 1),)
    # Number 2 is lost. Behind a gap no number is acknowledged to 1.1 that the end of the sequence could discard.
    third = read(node.get(dotnet.note(identifier, 3)))
    assert third.acknowledgements[0].ranges == (((1, 1), (3, 3)) if dotnet.is_1_0 else ((1, 1),))
    for number in (2, 3):
        again = read(node.get(dotnet.note(identifier, number)))
    assert again.acknowledgements[0].ranges == ((1, 3),), "unasked, in the reply with status 200"
    ended = session.end(3)
    if dotnet.is_1_0:
        assert ended == ["acknowledgement", "accepted"]
        assert read(session.ends[0]).acknowledgements[0].ranges == ((1, 4),)
    else:
        assert ended == ["CloseSequenceResponse", "TerminateSequenceResponse"]
        session.assert_final(3)
    node.world.run()
    assert node.handled == ["note 1", "note 2", "note 3"], "the bare last message is not for the application"
    assert node.destination().machine.tombstone
    assert node.world.seen == []


@PROTOCOLS
def test_one_way_session_of_a_client_with_an_address(protocol: Protocol) -> None:
    # HTTP-04: each post gets 202, and everything else comes on posts to the one address
    session = Session(protocol, listens=True)
    node, dotnet, identifier = session.node, session.dotnet, session.identifier
    assert name_of(session.answer) == "accepted"
    assert session.response.to is not None
    assert session.response.to.address == CLIENT
    urls: list[str] = []
    for number in (1, 2):
        asks = dotnet.ack_requested(identifier)
        assert name_of(node.get(dotnet.note(identifier, number, headers=asks))) == "accepted"
    node.world.turn()
    flights = node.world.flights
    urls += [flight.url for flight in flights]
    assert flights[-1].envelope.acknowledgements[0].ranges == ((1, 2),)
    flights.clear()
    assert session.end(2) == ["accepted", "accepted"]
    node.world.turn()
    urls += [flight.url for flight in flights]
    names = [flight.name for flight in flights]
    if dotnet.is_1_0:
        assert flights[0].envelope.acknowledgements[0].ranges == ((1, 3),)
    else:
        assert names[:2] == ["CloseSequenceResponse", "TerminateSequenceResponse"]
    assert set(urls) == {CLIENT}


# --- request and reply -----------------------------------------------------------------------------------------------


@PROTOCOLS
def test_request_reply_session_on_connections(protocol: Protocol) -> None:
    # IOP-WCF-02, HTTP-05 to HTTP-08, RM-TRM-05
    session = Session(protocol, offer=True)
    node, dotnet, identifier, offered = session.node, session.dotnet, session.identifier, session.offered or ""
    node.get(dotnet.note(identifier, 1, reply_to="anonymous"))
    request = dotnet.ask(identifier, 2, "one", message_id="urn:uuid:1", reply_to="anonymous")
    response = response_to(node, request)
    assert response.relates_to == "urn:uuid:1"
    assert response.sequence is not None
    assert (response.sequence.identifier, response.sequence.message_number) == (offered, 1), "HTTP-07: not 2"
    assert [(each.identifier, each.ranges) for each in response.acknowledgements] == [(identifier, ((1, 2),))]
    again = response_to(node, request)
    assert (again.message_id, again.sequence, again.body) == (response.message_id, response.sequence, response.body)
    replies = dotnet.acknowledgement(offered, ((1, 1),))
    second = dotnet.ask(identifier, 3, "two", message_id="urn:uuid:2", reply_to="anonymous", headers=replies)
    body = response_to(node, second).body
    assert isinstance(body, Payload)
    assert text_of(body.xml) == "re two"
    ended = session.end(3, dotnet.acknowledgement(offered, ((1, 2),)))
    if dotnet.is_1_0:
        assert ended == ["acknowledgement", "accepted"]
    else:
        session.assert_final(3)
    node.world.run()
    assert node.handled == ["note 1", "one", "two"]
    assert node.letters() == []
    assert not any(record.machine.alive for record in node.sources()), "the end of the requests ends the replies"
    assert node.world.seen == [], "nothing is posted"


@PROTOCOLS
def test_request_reply_session_of_a_client_with_an_address(protocol: Protocol) -> None:
    # RM11-CS-17, RM-TRM-05: each sequence of the pair is ended by itself
    session = Session(protocol, listens=True, offer=True)
    node, dotnet, identifier, offered = session.node, session.dotnet, session.identifier, session.offered or ""
    assert name_of(node.get(dotnet.ask(identifier, 1, "one", message_id="urn:uuid:1", reply_to=CLIENT))) == "accepted"
    node.world.turn()
    node.world.turn()
    (response,) = [flight for flight in node.world.flights if flight.name == "response 1"]
    assert response.url == CLIENT
    node.world.flights.clear()
    node.get(dotnet.alone(dotnet.acknowledgement(offered, ((1, 1),))))
    session.end(1)
    node.world.turn()
    end = "LastMessage" if dotnet.is_1_0 else "CloseSequence"
    (said,) = [flight for flight in node.world.flights if flight.name == end]
    # ST-W02, RM11-ACK-08: the requests have ended, and AcksTo is the same address
    ranges, final = (((1, 2),), False) if dotnet.is_1_0 else (((1, 1),), True)
    pair = [(each.identifier, each.ranges, each.final) for each in said.envelope.acknowledgements]
    assert pair == [(identifier, ranges, final)]
    if dotnet.is_1_0:
        node.get(dotnet.alone(dotnet.acknowledgement(offered, ((1, 2),))))
    else:
        final = dotnet.acknowledgement(offered, ((1, 1),), final=True)
        closed = dotnet.ended("CloseSequenceResponse", offered, said.envelope.message_id or "", final)
        node.get(closed)
    node.world.turn()
    last = node.world.flights[-1]
    assert (last.name, last.url) == ("TerminateSequence", CLIENT)
    assert node.letters() == []


@PROTOCOLS
@pytest.mark.parametrize("asks", [False, True], ids=["unasked", "asked"])
def test_request_that_is_not_answered_in_time_gets_a_bare_acknowledgement_only_if_it_asks(
    protocol: Protocol, asks: bool
) -> None:
    # HTTP-05: .NET takes a bare acknowledgement for the response, and posts again what got an empty 202
    session = Session(protocol, offer=True)
    node, dotnet, identifier = session.node, session.dotnet, session.identifier
    headers = dotnet.ack_requested(identifier) if asks else ""
    node.on_call = lambda _context, _text: 1 / 0
    request = dotnet.ask(identifier, 1, "one", message_id="urn:uuid:1", reply_to="anonymous", headers=headers)
    answer = post(node, request)
    assert answer.waiting
    assert name_of(answer.http) == ("acknowledgement" if asks else "accepted")
    assert name_of(post(node, request).http) == ("acknowledgement" if asks else "accepted")
    node.on_call = None
    node.world.advance(10)
    assert response_to(node, request).relates_to == "urn:uuid:1"
    assert node.handled == ["one"]


@PROTOCOLS
def test_message_of_a_request_reply_session_is_answered_by_an_acknowledgement_with_its_own_number_or_by_none(
    protocol: Protocol,
) -> None:
    # IOP-WCF-10: .NET faults such a session at a reply that acknowledges, and not the message of its exchange
    session = Session(protocol, offer=True)
    node, dotnet, identifier = session.node, session.dotnet, session.identifier
    assert ranges_in(node.get(dotnet.note(identifier, 1))) == ((1, 1),)
    # Number 3 overtakes number 2. In WS-RM 1.1 it is not acknowledged yet.
    overtakes = dotnet.note(identifier, 3)
    assert ranges_in(node.get(overtakes)) == (((1, 1), (3, 3)) if dotnet.is_1_0 else None)
    assert ranges_in(node.get(overtakes)) == (((1, 1), (3, 3)) if dotnet.is_1_0 else None), "the repetition neither"
    asks = dotnet.note(identifier, 3, headers=dotnet.ack_requested(identifier))
    assert ranges_in(node.get(asks)) == (((1, 1), (3, 3)) if dotnet.is_1_0 else ((1, 1),)), "RM-ACK-06"
    assert ranges_in(node.get(dotnet.note(identifier, 2))) == ((1, 3),), "also of what is not sent again"
    assert ranges_in(node.get(overtakes)) == ((1, 3),)
    node.world.run()
    assert node.handled == ["note 1", "note 2", "note 3"]


@PROTOCOLS
def test_message_that_is_acknowledged_at_its_delivery_has_no_answer_until_then_in_a_request_reply_session(
    protocol: Protocol,
) -> None:
    # IOP-WCF-10
    session = Session(protocol, offer=True, policy=replace(DESTINATION, acknowledge_at=AcknowledgeAt.DELIVERY))
    node, dotnet, identifier = session.node, session.dotnet, session.identifier
    first, second = dotnet.note(identifier, 1), dotnet.note(identifier, 2)
    (early,) = node.get_all([first])
    assert name_of(early) == "accepted"
    node.world.run()
    assert ranges_in(node.get(first)) == ((1, 1),)
    node.on_call = lambda _context, _text: 1 / 0
    assert name_of(node.get(second)) == "accepted"
    node.on_call = None
    node.world.advance(10)
    assert ranges_in(node.get(second)) == ((1, 2),)
    assert node.handled == ["note 1", "note 2"]


@PROTOCOLS
def test_each_message_of_a_request_reply_session_has_an_acknowledgement_of_its_own_if_several_come_together(
    protocol: Protocol,
) -> None:
    # IOP-WCF-10: .NET takes an exchange without an acknowledgement for a loss, and sends more slowly
    session = Session(protocol, offer=True)
    node, dotnet, identifier = session.node, session.dotnet, session.identifier
    answers = node.get_all([dotnet.note(identifier, number) for number in (1, 2, 4)])
    behind_a_gap = ((1, 2), (4, 4)) if dotnet.is_1_0 else None
    assert [ranges_in(answer) for answer in answers[:2]] == [behind_a_gap or ((1, 2),)] * 2
    assert ranges_in(answers[2]) == behind_a_gap


@PROTOCOLS
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_fault_by_which_a_client_ends_its_sequence_ends_it_here(
    protocol: Protocol, listens: bool, caplog: pytest.LogCaptureFixture
) -> None:
    # FLT-01: .NET posts it when it gives up
    session = Session(protocol, listens=listens, offer=True)
    node, dotnet, identifier = session.node, session.dotnet, session.identifier
    for number in (1, 3):
        node.get(dotnet.note(identifier, number))
    assert name_of(node.get(dotnet.fault("SequenceTerminated", identifier))) == "accepted"
    node.world.run()
    assert node.destination().machine.tombstone
    assert "ended its sequence by a fault: 'so it is'" in caplog.text
    assert name_of(node.get(dotnet.note(identifier, 2))) == "fault SequenceTerminated"
    node.world.run()
    assert node.handled == (["note 1", "note 3"] if dotnet.is_1_0 else ["note 1"]), "as at every end with a gap"
    assert not any(record.machine.alive for record in node.sources()) or listens
    node.get(dotnet.fault("SequenceTerminated", identifier))
    assert caplog.text.count("by a fault") == 1


@PROTOCOLS
def test_fault_by_which_a_client_ends_a_sequence_without_a_message_leaves_nothing(protocol: Protocol) -> None:
    # FLT-01
    session = Session(protocol, offer=True)
    session.node.get(session.dotnet.fault("SequenceTerminated", session.identifier))
    session.node.world.advance(1)
    assert session.node.destinations() == []


@PROTOCOLS
def test_keep_alive_is_answered_before_anything_was_sent(protocol: Protocol) -> None:
    # RM-ACK-04, RM-ACK-06: 1.0 has no word for nothing, and .NET takes an empty 202
    session = Session(protocol, offer=True)
    reply = session.node.get(session.dotnet.alone(session.dotnet.ack_requested(session.identifier)))
    assert name_of(reply) == ("accepted" if session.dotnet.is_1_0 else "acknowledgement")


# --- what .NET refuses -----------------------------------------------------------------------------------------------


@PROTOCOLS
@pytest.mark.parametrize("to", ["http://SERVER:80/services/orders", "http://server/services/orders?tenant=a%20b"])
def test_accept_names_the_address_that_create_sequence_was_sent_to_letter_by_letter(
    protocol: Protocol, to: str
) -> None:
    # RM-CS-08
    node, dotnet = Node("server", World()), DotNet(protocol)
    reply = read(node.get(dotnet.create(offer="urn:offered", reply_to="anonymous", to=to)))
    assert isinstance(reply.body, CreateSequenceResponse)
    assert reply.body.accept_acks_to is not None
    assert reply.body.accept_acks_to.address == to


@PROTOCOLS
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_destination_writes_no_nack_and_ends_no_sequence_by_itself(protocol: Protocol, listens: bool) -> None:
    # IOP-WCF-08, IOP-METRO-03
    policy = DestinationPolicy(acknowledgement_interval=0.2, inactivity_timeout=30.0, tombstone=3600.0)
    session = Session(protocol, listens=listens, policy=policy)
    node, dotnet, identifier = session.node, session.dotnet, session.identifier
    bodies = [node.get(dotnet.note(identifier, number)).body for number in (1, 3, 7)]
    launch = node.world.launch
    node.world.launch = lambda flight: (bodies.append(flight.http.body), launch(flight))[1]  # type: ignore[method-assign]
    node.world.advance(100)
    assert any(b"AcknowledgementRange" in body for body in bodies)
    assert not any(b"Nack" in body for body in bodies)
    assert set(node.world.seen) <= {"CreateSequenceResponse", "acknowledgement"}, "no CloseSequence, TerminateSequence"
    assert node.destination().machine.tombstone, "it has ended for being idle, and no message was sent"


@PROTOCOLS
def test_client_of_a_generation_that_knows_no_fault_of_rollover_gets_one_it_can_read(protocol: Protocol) -> None:
    # IOP-WCF-08: .NET never sends it; a number above the highest is a fault all the same
    session = Session(protocol)
    reply = session.node.get(session.dotnet.note(session.identifier, 2**63))
    assert name_of(reply) == "fault MessageNumberRollover"
    assert not session.node.destination().machine.received


@pytest.mark.parametrize("protocol", [each for each in DIALECTS if "1.1" in str(each)[-3:]], ids=str)
def test_answer_says_no_behavior_that_makes_a_client_end_at_a_gap(protocol: Protocol) -> None:
    # IOP-WCF-09, LIVE-04
    session = Session(protocol, offer=True)
    assert session.created.incomplete_behavior is IncompleteSequenceBehavior.NO_DISCARD
