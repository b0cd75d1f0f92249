"""Ownership of sequences: another peer that knows an identifier, MessageID or address gets no access to it (SEC-01)."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.exchange import Arrival, Purpose
from mercury.errors import ApplicationFault
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign, answer_to, identifier_in
from .harness import Node, Pair, World, name_of
from .harness.words import SERVICE

DIALECTS = pytest.mark.parametrize("foreign", [Foreign(RM11_SOAP12), Foreign(RM10_SOAP11)], ids=["1.1", "1.0"])
OWNER, OTHER = "CN=owner", "CN=other"


def post(
    node: Node,
    http: HttpMessage,
    *,
    identity: str | None = None,
    peer: str = "192.0.2.1",
    service: str | None = SERVICE,
) -> HttpMessage:
    """Somebody posts this; returns the reply."""
    url = node.service_url if service is not None else node.responses_url
    answers = node.receive([Arrival(http=http, service=service, url=url, peer=peer, identity=identity)])
    assert answers is not None
    node.post(list(answers[0].posts))
    return answers[0].http


def server(**settings: int | float) -> Node:
    return Node("server", World(), **settings)


# --- CreateSequence --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"peer": "192.0.2.1"}, {"peer": "192.0.2.2"}),
        ({"identity": OWNER}, {"identity": OTHER}),
        ({"identity": OWNER}, {"identity": None}),
    ],
    ids=["address", "identity", "no identity"],
)
def test_two_clients_with_the_same_message_id_get_two_sequences(first: dict[str, str], second: dict[str, str]) -> None:
    # RM-CS-04
    node, foreign = server(), Foreign()
    mine = identifier_in(post(node, foreign.create(message_id="urn:same"), **first))
    theirs = identifier_in(post(node, foreign.create(message_id="urn:same"), **second))
    assert mine != theirs
    post(node, foreign.note(mine, 1, "mine"), **first)
    post(node, foreign.note(theirs, 1, "theirs"), **second)
    node.world.advance(1)
    assert sorted(node.handled) == ["mine", "theirs"]


def test_another_offer_or_another_service_is_another_sequence() -> None:
    node, foreign = server(), Foreign()
    asked = [foreign.create(message_id="urn:same", offer=offer) for offer in ("urn:offer:1", "urn:offer:2")]
    made = [identifier_in(post(node, http)) for http in asked]
    assert len(set(made)) == 2
    assert identifier_in(post(node, asked[0])) == made[0], "the same CreateSequence again gets the same answer"


# --- the destination's side ------------------------------------------------------------------------------------------


@DIALECTS
def test_messages_and_ends_count_from_the_identity_that_made_the_sequence_only(foreign: Foreign) -> None:
    node = server()
    sequence = identifier_in(post(node, foreign.create(), identity=OWNER))
    post(node, foreign.note(sequence, 1, "mine"), identity=OWNER)
    for http in (
        foreign.note(sequence, 2, "forged"),
        foreign.terminate(sequence, message_id="urn:end"),
        foreign.alone(foreign.ack_requested(sequence)),
    ):
        for identity in (OTHER, None):
            assert name_of(post(node, http, identity=identity)) == "fault UnknownSequence"
    node.world.advance(1)
    assert node.handled == ["mine"]
    assert not node.destination().machine.final
    assert name_of(post(node, foreign.note(sequence, 2, "mine too"), identity=OWNER)) == "acknowledgement"


def test_close_by_another_peer_closes_nothing() -> None:
    node, foreign = server(), Foreign()
    sequence = identifier_in(post(node, foreign.create(), identity=OWNER))
    assert name_of(post(node, foreign.close(sequence, 1), identity=OTHER)) == "fault UnknownSequence"
    assert not node.destination().machine.closed


def test_ranges_of_an_ended_sequence_are_reported_to_its_owner_only() -> None:
    node, foreign = server(), Foreign()
    sequence = identifier_in(post(node, foreign.create(), identity=OWNER))
    post(node, foreign.note(sequence, 1), identity=OWNER)
    post(node, foreign.terminate(sequence, 1, message_id="urn:end"), identity=OWNER)
    assert b"SequenceAcknowledgement" not in post(node, foreign.note(sequence, 2), identity=OTHER).body


def test_another_peer_cannot_end_a_sequence_by_following_it() -> None:
    node, foreign = server(), Foreign()
    sequence = identifier_in(post(node, foreign.create(), identity=OWNER))
    forged = identifier_in(post(node, foreign.create(follows=sequence), identity=OTHER))
    post(node, foreign.note(forged, 1, "theirs"), identity=OTHER)
    assert name_of(post(node, foreign.note(sequence, 1, "mine"), identity=OWNER)) == "acknowledgement"
    node.world.advance(1)
    assert sorted(node.handled) == ["mine", "theirs"]


def test_without_an_identity_the_identifier_is_the_key() -> None:
    """docs/guarantees/identities.md says so: it is random, and has to travel over TLS."""
    node, foreign = server(), Foreign()
    sequence = identifier_in(post(node, foreign.create(), peer="192.0.2.1"))
    reply = post(node, foreign.note(sequence, 1), peer="192.0.2.2")
    assert name_of(reply) == "acknowledgement"


# --- the source's side -----------------------------------------------------------------------------------------------


def test_a_server_cannot_acknowledge_the_messages_to_another_on_its_own_connection() -> None:
    pair, foreign = Pair(), Foreign()
    link = pair.link(listens=False)
    link.notes("warm up")
    pair.advance(1)
    sequence = pair.client.source().machine.identifier or ""
    pair.lose("message 2", 1)
    link.notes("not delivered yet")
    pair.client.turn()
    elsewhere = pair.client.to("http://hostile/services/orders", "other", listens=False)
    elsewhere.notes("anything")
    pair.client.turn()
    forged = foreign.acknowledgement(sequence, ((1, 2),), final=True)
    record = next(each for each in pair.client.sources() if each.machine.identifier == sequence)
    answer_to(pair.client, foreign.alone(forged), purpose="CreateSequence")
    assert record.machine.acknowledged.count == 1
    pair.advance(60)
    assert pair.server.handled == ["warm up", "not delivered yet"]


@pytest.mark.parametrize("code", ["UnknownSequence", "SequenceTerminated"])
def test_a_server_cannot_end_the_sequence_to_another_by_a_fault(code: str) -> None:
    pair, foreign = Pair(), Foreign()
    link = pair.link(listens=False)
    link.notes("one")
    pair.advance(1)
    sequence = pair.client.source().machine.identifier or ""
    pair.client.to("http://hostile/services/orders", "other", listens=False).notes("anything")
    pair.client.turn()
    answer_to(pair.client, foreign.fault(code, sequence), purpose="CreateSequence")
    link.notes("two")
    pair.advance(60)
    assert pair.server.handled == ["one", "two"]


def test_another_client_cannot_end_a_sequence_by_a_fault() -> None:
    node, foreign = server(), Foreign()
    sequence = identifier_in(post(node, foreign.create(), identity=OWNER))
    post(node, foreign.note(sequence, 1), identity=OWNER)
    for identity in (OTHER, None):
        assert name_of(post(node, foreign.fault("SequenceTerminated", sequence), identity=identity)) == "accepted"
        assert not node.destination().machine.tombstone
    post(node, foreign.fault("SequenceTerminated", sequence), identity=OWNER)
    assert node.destination().machine.tombstone


def test_response_without_relates_to_counts_on_the_exchange_of_its_create_sequence_only() -> None:
    pair, foreign = Pair(), Foreign()
    pair.nodes.pop("server")
    pair.client.to("http://theirs/services/orders", "one", listens=False).ask("one")
    pair.client.turn()
    answer_to(pair.client, foreign.created("urn:taken", None), purpose="CreateSequence")
    assert pair.client.source().machine.identifier == "urn:taken", "some peers leave RelatesTo out"
    pair.client.turn()
    waiting = pair.client.to("http://theirs/services/orders", "two", listens=False)
    waiting.ask("two")
    pair.client.turn()
    on_the_wire = (each.exchange.outgoing for each in pair.client.world.wire if each.exchange is not None)
    outgoing = next(each for each in on_the_wire if each.purpose is Purpose.CREATE)
    for purpose in (Purpose.MESSAGE, Purpose.TERMINATE):
        pair.client.answered(replace(outgoing, purpose=purpose), foreign.created("urn:injected", None))
    assert [each.machine.identifier for each in pair.client.sources()] == ["urn:taken", None]


def names_its_sequences(pair: Pair, endpoint: str, *identifiers: str) -> None:
    """The CreateSequences to an endpoint are answered with these identifiers, one after the other."""
    foreign = Foreign()
    for identifier in identifiers:
        pair.client.turn()
        for _ in range(len(pair.client.world.wire)):
            flight = pair.client.world.wire.pop(0)
            assert flight.exchange is not None
            outgoing = flight.exchange.outgoing
            if outgoing.url == endpoint and outgoing.purpose is Purpose.CREATE:
                pair.client.answered(outgoing, foreign.created(identifier, outgoing.envelope.message_id))
        pair.now += 60


def test_server_that_names_its_sequence_like_that_of_another_holds_nothing_up() -> None:
    pair = Pair()
    pair.nodes.pop("server")
    theirs, mine = "http://hostile/services/orders", "http://mine/services/orders"
    pair.client.to(theirs, "theirs", listens=False).notes("any")
    names_its_sequences(pair, theirs, "urn:mine:1")
    pair.client.to(mine, "mine", listens=False).notes("one")
    names_its_sequences(pair, mine, "urn:mine:1", "urn:mine:2")
    made = [(each.channel.endpoint, each.machine.identifier, each.machine.alive) for each in pair.client.sources()]
    assert made == [(theirs, "urn:mine:1", True), (mine, None, False), (mine, "urn:mine:2", True)]
    assert pair.client.letters() == []


def test_offer_with_the_identifier_of_a_sequence_of_ours_is_declined_and_affects_no_sequence() -> None:
    pair, foreign = Pair(), Foreign()
    link = pair.link()
    link.notes("one")
    pair.advance(1)
    sequence = pair.client.source().machine.identifier or ""
    reply = post(pair.client, foreign.create(offer=sequence), peer="192.0.2.66")
    assert name_of(reply) == "CreateSequenceResponse"
    assert b"Accept>" not in reply.body
    link.notes("two")
    pair.advance(1)
    assert pair.server.handled == ["one", "two"]


def test_offer_with_the_identifier_that_a_server_gives_next_holds_nothing_up() -> None:
    pair, foreign = Pair(), Foreign()
    pair.nodes.pop("server")
    assert b"Accept>" in post(pair.client, foreign.create(offer="urn:mine:1"), peer="192.0.2.66").body
    mine = "http://mine/services/orders"
    pair.client.to(mine, "mine", listens=False).notes("one")
    names_its_sequences(pair, mine, "urn:mine:1", "urn:mine:2")
    assert [each.machine.identifier for each in pair.client.sources() if each.channel.endpoint == mine] == [
        None,
        "urn:mine:2",
    ]


def test_a_post_cannot_speak_for_a_server_that_answers_on_connections_of_ours() -> None:
    pair, foreign = Pair(), Foreign()
    pair.lose("message 1", 1)
    pair.link(listens=False).notes("one")
    pair.run()
    sequence = pair.client.source().machine.identifier or ""
    forged = foreign.alone(foreign.acknowledgement(sequence, ((1, 1),)))
    post(pair.client, forged, service=None)
    assert not pair.client.source().machine.acknowledged
    pair.advance(60)
    assert pair.server.handled == ["one"]


def test_responses_are_acknowledged_by_the_identity_that_made_the_requests_only() -> None:
    node, foreign = server(), Foreign()
    reply = post(node, foreign.create(offer="urn:offered"), identity=OWNER)
    post(node, foreign.ask(identifier_in(reply), 1), identity=OWNER)
    node.world.advance(1)
    (source,) = node.sources()
    forged = foreign.alone(foreign.acknowledgement("urn:offered", ((1, 1),)))
    assert name_of(post(node, forged, identity=OTHER)) == "fault UnknownSequence"
    assert not source.machine.acknowledged


def test_sender_of_the_first_response_owns_the_offered_sequence() -> None:
    pair, foreign = Pair(), Foreign()
    pair.nodes.pop("server")
    link = pair.client.to("http://theirs/services/orders")
    future = link.ask("one")
    pair.client.turn()
    record = pair.client.source()
    accepted = foreign.created("urn:theirs", record.create_message_id, accept="http://theirs/services/orders")
    post(pair.client, accepted, service=None, identity=OWNER)
    pair.client.turn()
    offered = pair.client.source().offered or ""
    request = next(iter(pair.client.store.committed.rms.keys[record.channel.key].rows.values())).message_id
    post(pair.client, foreign.respond(offered, 1, request, "theirs"), service=None, identity=OWNER)
    forged = foreign.respond(offered, 2, request, "forged")
    assert name_of(post(pair.client, forged, service=None, identity=OTHER)) == "fault UnknownSequence"
    pair.advance(1)
    assert b"theirs" in future.result(0)


# --- how many --------------------------------------------------------------------------------------------------------


def create(node: Node, foreign: Foreign, peer: str = "192.0.2.1") -> str:
    """Makes a sequence from an address; returns the name of the answer."""
    return name_of(post(node, foreign.create(), peer=peer))


def test_one_peer_cannot_take_the_sequences_of_all() -> None:
    node, foreign = server(max_sequences_per_peer=2), Foreign()
    assert [create(node, foreign) for _ in range(3)] == ["CreateSequenceResponse"] * 2 + ["fault CreateSequenceRefused"]
    assert create(node, foreign, "192.0.2.2") == "CreateSequenceResponse"


def test_addresses_of_one_ipv6_network_are_one_peer() -> None:
    node, foreign = server(max_sequences_per_peer=2), Foreign()
    made = [create(node, foreign, f"2001:db8::{host}") for host in (1, 2, 3)]
    assert made == ["CreateSequenceResponse"] * 2 + ["fault CreateSequenceRefused"]
    assert create(node, foreign, "2001:db8:0:1::1") == "CreateSequenceResponse"
    same = [post(node, foreign.create(message_id="urn:same"), peer=f"2001:db8:0:2::{host}") for host in (1, 2)]
    assert identifier_in(same[0]) != identifier_in(same[1]), "two clients of one network never share a sequence"


@pytest.mark.parametrize("limit", ["max_sequences_per_peer", "max_sequences"])
def test_the_newest_use_wins_over_the_oldest_idle_sequence(limit: str) -> None:
    """LIVE-11: clients that end without TerminateSequence never fill an endpoint."""
    node, foreign = server(**{limit: 3}, idle_sequence=3600), Foreign()
    kept = identifier_in(post(node, foreign.create()))
    for day in range(1, 20):
        node.world.advance(4000)
        assert name_of(post(node, foreign.note(kept, day))) == "acknowledgement"
        assert create(node, foreign) == "CreateSequenceResponse"
        node.world.advance(1)
        assert sum(not each.machine.tombstone for each in node.destinations()) <= 3
    assert len(node.handled) == 19, "the sequence in use was never the one that had to go"


def test_sequences_in_use_do_not_make_room() -> None:
    node, foreign = server(max_sequences_per_peer=2, idle_sequence=3600), Foreign()
    kept = [identifier_in(post(node, foreign.create())) for _ in range(2)]
    for number in (1, 2):
        for sequence in kept:
            assert name_of(post(node, foreign.note(sequence, number))) == "acknowledgement"
        node.world.advance(3500)
        assert create(node, foreign) == "fault CreateSequenceRefused"


def test_a_sequence_that_is_never_used_is_forgotten_after_hours() -> None:
    node, foreign = server(), Foreign()
    unused, used = (identifier_in(post(node, foreign.create())) for _ in range(2))
    post(node, foreign.note(used, 1))
    node.world.advance(12 * 3600 + 1)
    assert [each.identifier for each in node.destinations()] == [used]
    assert name_of(post(node, foreign.note(unused, 1))) == "fault UnknownSequence"


# --- what is waited for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["relates_to", "message_id"])
def test_a_message_to_a_service_that_dies_ends_no_future_whatever_request_it_names(named: str) -> None:
    """A peer that knows the MessageID of a request to another peer names it in a message that is refused."""
    node, foreign = server(), Foreign()
    node.on_call = refused
    waiting = node.to("http://elsewhere/").ask("question")
    (asked,) = node.futures._expected
    sequence = identifier_in(post(node, foreign.create()))
    post(node, foreign.note(sequence, 1, "unfit", **{named: asked}))
    node.world.advance(1)
    (letter,) = node.letters()
    assert getattr(letter, named) == asked
    assert not waiting.done(), waiting.exception()


def test_a_response_that_is_not_fetched_ends_no_future_whatever_request_it_answers() -> None:
    node, foreign = server(), Foreign()
    waiting = node.to("http://elsewhere/").ask("question")
    (asked,) = node.futures._expected
    sequence = identifier_in(post(node, foreign.create(offer="urn:offered")))
    post(node, foreign.ask(sequence, 1, message_id=asked))
    post(node, foreign.terminate(sequence, 1))
    node.world.advance(100)
    assert [letter.relates_to for letter in node.letters()] == [asked]
    assert not waiting.done(), waiting.exception()


def refused(_context: MessageContext, _text: str) -> None:
    raise ApplicationFault("it does not fit", code="Unfit")


def test_log_lines_about_sequences_of_others_are_limited_for_each_peer(caplog: pytest.LogCaptureFixture) -> None:
    node, foreign = server(), Foreign()
    sequence = identifier_in(post(node, foreign.create(), identity=OWNER))
    with caplog.at_level(logging.WARNING, "mercury.engine"):
        for _ in range(3):
            asked = foreign.ack_requested(sequence) * 60
            post(node, foreign.alone(asked), identity=OTHER)
        first = sum("does not own it" in each.message for each in caplog.records)
        post(node, foreign.alone(foreign.ack_requested(sequence)), identity="CN=third")
    assert (first, sum("does not own it" in each.message for each in caplog.records)) == (10, 11)


def test_owner_gets_its_acknowledgement_although_another_peer_asks_for_it_at_the_same_time() -> None:
    node, foreign = server(), Foreign(RM11_SOAP12)
    sequence = identifier_in(post(node, foreign.create(), identity=OWNER))
    arrivals = [
        Arrival(http=http, service=SERVICE, url=node.service_url, peer="192.0.2.1", identity=identity)
        for http, identity in (
            (foreign.note(sequence, 1), OWNER),
            (foreign.alone(foreign.ack_requested(sequence)), OTHER),
        )
    ]
    answers = node.receive(arrivals) or []
    assert [name_of(answer.http) for answer in answers] == ["acknowledgement", "fault UnknownSequence"]
