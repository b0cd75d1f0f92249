"""The limits on remembered ended sequences: a peer that creates and ends many of them does not fill the store."""

from __future__ import annotations

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.destination.quota import IN_USE
from mercury.engine.exchange import Arrival
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign, identifier_in
from .harness import Node, World, name_of
from .harness.words import SERVICE

DIALECTS = pytest.mark.parametrize("foreign", [Foreign(RM11_SOAP12), Foreign(RM10_SOAP11)], ids=["1.1", "1.0"])
LIMITS = pytest.mark.parametrize("limit", ["max_ended_per_peer", "max_ended"])
REFUSED = "fault CreateSequenceRefused"


def server(**settings: int | float) -> Node:
    return Node("server", World(), **settings)


def post_all(node: Node, *https: HttpMessage, peer: str = "192.0.2.1") -> list[HttpMessage]:
    """A peer posts these at once; returns the replies."""
    arrivals = [Arrival(http=http, service=SERVICE, url=node.service_url, peer=peer) for http in https]
    answers = node.receive(arrivals)
    assert answers is not None
    node.post([each for answer in answers for each in answer.posts])
    return [answer.http for answer in answers]


def post(node: Node, http: HttpMessage, peer: str = "192.0.2.1") -> HttpMessage:
    return post_all(node, http, peer=peer)[0]


def make_and_end(node: Node, foreign: Foreign, peer: str = "192.0.2.1", messages: int = 0) -> str:
    """As a client that makes a sequence for each call. Returns its identifier."""
    offer = foreign.new_id()
    sequence = identifier_in(post(node, foreign.create(offer=offer, reply_to="anonymous"), peer))
    for number in range(1, messages + 1):
        post(node, foreign.note(sequence, number), peer)
    post(node, foreign.terminate(sequence, messages or None), peer)
    node.world.advance(1)
    return sequence


def no_database(_context: MessageContext, _text: str) -> None:
    """What the application meets for a while."""
    raise ConnectionError("the application's database is away")


@LIMITS
@DIALECTS
def test_a_peer_that_makes_and_ends_sequences_is_remembered_within_bounds_and_never_refused(
    limit: str, foreign: Foreign
) -> None:
    node = server(**{limit: 5}, remember_ended=3)
    for number in range(30):
        make_and_end(node, foreign, messages=number % 2)
        assert len(node.destinations()) <= 6
        assert len(node.sources()) <= 8, "the sequences of the responses go with them"
    assert len(node.handled) == 15


@LIMITS
def test_above_the_limit_what_has_just_ended_is_not_forgotten_and_the_peer_is_refused_as_busy(limit: str) -> None:
    # RM-CS-14
    node, foreign = server(**{limit: 3}, remember_ended=60), Foreign()
    made = [make_and_end(node, foreign) for _ in range(3)]
    fault = post(node, foreign.create())
    assert name_of(fault) == REFUSED
    assert b"try again later" in fault.body
    assert {each.identifier for each in node.destinations()} == set(made)
    node.world.advance(61)
    assert name_of(post(node, foreign.create())) == "CreateSequenceResponse"
    assert len(node.destinations()) == 1


def test_one_peer_does_not_use_up_what_is_remembered_for_another() -> None:
    node, foreign = server(max_ended_per_peer=3, remember_ended=60), Foreign()
    for _ in range(3):
        make_and_end(node, foreign)
    assert name_of(post(node, foreign.create())) == REFUSED
    assert name_of(post(node, foreign.create(), "192.0.2.2")) == "CreateSequenceResponse"
    kept = make_and_end(node, foreign, "192.0.2.2")
    node.world.advance(61)
    post(node, foreign.create())
    assert kept in {each.identifier for each in node.destinations()}, "the other peer is below its limit"


@DIALECTS
def test_a_message_of_a_sequence_that_was_forgotten_is_answered_unknown_and_not_handled_again(foreign: Foreign) -> None:
    # RM-TRM-06
    node = server(max_ended_per_peer=1, remember_ended=3)
    sequence = make_and_end(node, foreign, messages=1)
    assert len(node.handled) == 1
    node.world.advance(10)
    post(node, foreign.create())
    assert name_of(post(node, foreign.note(sequence, 1))) == "fault UnknownSequence"
    node.world.advance(10)
    assert len(node.handled) == 1


def test_responses_that_outlive_what_is_forgotten_are_forgotten_soon_after_their_own_end() -> None:
    node, foreign = server(max_ended_per_peer=1, remember_ended=3, back_channel_grace=30), Foreign()
    sequence = identifier_in(post(node, foreign.create(offer="urn:offered", reply_to="anonymous")))
    post(node, foreign.ask(sequence, 1, reply_to="anonymous"))
    node.world.advance(1)
    post(node, foreign.terminate(sequence, 1))
    node.world.advance(10)
    post(node, foreign.create())
    assert sequence not in {each.identifier for each in node.destinations()}
    assert [each.machine.identifier for each in node.sources()] == ["urn:offered"]
    assert node.source().machine.alive, "its response is not acknowledged, and may still be fetched"
    node.world.advance(60)
    assert node.sources() == []


def test_a_create_sequence_that_comes_again_makes_no_second_sequence_while_the_first_is_remembered() -> None:
    """RM-CS-13."""
    node, foreign = server(max_ended_per_peer=1, remember_ended=60), Foreign()
    create = foreign.create(message_id="urn:same")
    sequence = identifier_in(post(node, create))
    post(node, foreign.terminate(sequence))
    node.world.advance(30)
    post(node, create)
    assert [each.identifier for each in node.destinations()] == [sequence]
    assert name_of(post(node, foreign.create())) == REFUSED
    node.world.advance(31)
    post_all(node, create, foreign.create())
    remembered = {each.identifier: each.create_message_id for each in node.destinations()}
    assert remembered[sequence] == "urn:same", "it is in use in the same batch"
    assert len(remembered) == 2


def test_sequences_of_a_batch_are_not_forgotten_by_that_batch() -> None:
    node, foreign = server(max_ended_per_peer=2, remember_ended=3), Foreign()
    named, other = (make_and_end(node, foreign, messages=1) for _ in range(2))
    node.world.advance(10)
    names = [name_of(each) for each in post_all(node, foreign.create(), foreign.terminate(named, 1))]
    assert names == ["CreateSequenceResponse", "TerminateSequenceResponse"]
    remembered = {each.identifier for each in node.destinations()}
    assert named in remembered
    assert other not in remembered


def test_a_sequence_whose_message_waits_for_the_application_is_kept_and_no_reason_to_refuse() -> None:
    node, foreign = server(max_ended_per_peer=1, remember_ended=3), Foreign()
    node.on_call = no_database
    sequence = make_and_end(node, foreign, messages=1)
    node.world.advance(10)
    assert name_of(post(node, foreign.create())) == "CreateSequenceResponse"
    assert sequence in {each.identifier for each in node.destinations()}
    node.on_call = None
    node.world.advance(600)
    assert len(node.handled) == 1


def test_peers_that_fill_the_limit_do_not_keep_out_a_peer_with_far_fewer() -> None:
    node, foreign = server(max_ended=12, max_ended_per_peer=4, remember_ended=60), Foreign()
    fillers = [f"192.0.2.{number}" for number in (1, 2, 3)]
    filled = {make_and_end(node, foreign, peer) for peer in fillers for _ in range(4)}
    assert name_of(post(node, foreign.create(), "192.0.2.9")) == "CreateSequenceResponse"
    remembered = {each.identifier for each in node.destinations() if each.machine.tombstone}
    assert len(filled - remembered) == 1, "the oldest one of a peer with most makes room"
    make_and_end(node, foreign, "192.0.2.9")
    assert len([each for each in node.destinations() if each.machine.tombstone]) <= 12
    assert name_of(post(node, foreign.create(), "192.0.2.3")) == REFUSED
    for _ in range(2):
        make_and_end(node, foreign, "192.0.2.8")
    assert name_of(post(node, foreign.create(), "192.0.2.8")) == REFUSED, "it has about as many as the others"


@LIMITS
@DIALECTS
def test_sequence_that_ended_to_make_room_is_remembered_longer_than_what_its_peer_has_ended(
    limit: str, foreign: Foreign
) -> None:
    """Its source learns from the answer to its next message what was received; unknown would leave it in doubt."""
    node = server(max_sequences=2, remember_ended=1.5, **{limit: 5})
    given_up, other = (identifier_in(post(node, foreign.create())) for _ in range(2))
    for sequence in (given_up, other):
        post(node, foreign.note(sequence, 1))
    node.world.advance(IN_USE + 1)
    assert name_of(post(node, foreign.create(), "192.0.2.9")) == "CreateSequenceResponse"
    post(node, foreign.terminate(other, 1))
    node.world.advance(1)
    for _ in range(20):
        make_and_end(node, foreign)
    fault = post(node, foreign.note(given_up, 2))
    assert name_of(fault) == "fault SequenceTerminated"
    assert b"AcknowledgementRange" in fault.body
    assert len(node.destinations()) <= 7


def test_of_what_ended_to_make_room_only_so_much_is_remembered_as_of_anything() -> None:
    node, foreign = server(max_sequences=1, max_ended=4, remember_ended=3, idle_sequence=10), Foreign()
    for number in range(20):
        sequence = identifier_in(post(node, foreign.create(), f"192.0.2.{number}"))
        post(node, foreign.note(sequence, 1), f"192.0.2.{number}")
        node.world.advance(11)
    assert len(node.destinations()) <= 6


@DIALECTS
def test_a_peer_whose_sequences_expire_at_once_is_refused_when_it_made_too_many_within_a_minute(
    foreign: Foreign,
) -> None:
    """Never used, they leave no sequence in the store that would count."""
    node = server(max_ended_per_peer=20, remember_ended=60)
    answers = []
    for _ in range(30):
        answers.append(name_of(post(node, foreign.create(expires="PT0.001S", offer=foreign.new_id()))))
        node.world.advance(0.1)
    assert answers == ["CreateSequenceResponse"] * 20 + [REFUSED] * 10
    assert node.destinations() == []
    assert name_of(post(node, foreign.create(), peer="192.0.2.2")) == "CreateSequenceResponse"
    node.world.advance(60)
    assert name_of(post(node, foreign.create())) == "CreateSequenceResponse"


def test_sequences_that_nobody_uses_for_long_are_no_reason_to_refuse_when_their_time_is_over() -> None:
    node, foreign = server(max_ended_per_peer=5, remember_ended=60), Foreign()
    for _ in range(10):
        post(node, foreign.create(expires="PT2M"))
    node.world.advance(121)
    assert node.destinations() == []
    assert name_of(post(node, foreign.create())) == "CreateSequenceResponse"
