"""Observed behavior of peers that no other file tests (docs/protocol.md, section 17)."""

from __future__ import annotations

from itertools import product

import pytest

from mercury.engine.exchange import ACCEPTED
from mercury.statemachine.events import FailureReason
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion
from mercury.statemachine.tables import RmsState

from .dotnet import read
from .foreign import RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to, brought
from .harness import Node, Pair, World, name_of

BOTH = pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP12], ids=str)
RM11 = pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11], ids=str)


def opened(protocol: Protocol, *texts: str, created: str = "", **changes: object) -> tuple[Pair, Foreign]:
    """A client with an address, whose sequence a foreign destination has made."""
    pair, foreign = Pair(), Foreign(protocol)
    pair.server.stop()
    pair.link(protocol, offer=False, **changes).notes(*texts)
    pair.turn()
    response = foreign.created("urn:theirs", pair.client.source().create_message_id, extra=created)
    answer_to(pair.client, response, purpose="CreateSequence")
    pair.turn()
    return pair, foreign


def test_a_source_begins_with_the_versions_that_most_peers_begin_with() -> None:
    # IOP-METRO-01, IOP-GSOAP-01
    protocol = SourcePolicy().protocol
    assert (protocol.rm, protocol.addressing) == (RmVersion.RM11, AddressingVersion.WSA10)


@BOTH
def test_a_source_that_asks_for_nothing_can_end_as_everything_was_acknowledged(protocol: Protocol) -> None:
    # IOP-CXF-04: it ends only when everything is acknowledged
    node, foreign = Node("server", World()), Foreign(protocol)
    identifier = foreign.open(node)
    for number in (1, 2, 3):
        said = read(node.get(foreign.note(identifier, number)))
        assert said.acknowledgements[0].ranges == ((1, number),)
    if protocol.rm is RmVersion.RM11:
        assert name_of(node.get(foreign.close(identifier, 3))) == "CloseSequenceResponse"
    node.get(foreign.terminate(identifier))
    assert node.destination().machine.tombstone


@BOTH
def test_duplicate_that_is_answered_202_is_acknowledged_by_a_post_of_its_own(protocol: Protocol) -> None:
    # IOP-GSOAP-04, IOP-GSOAP-05
    pair, foreign = opened(protocol, "one")
    answer_to(pair.client, ACCEPTED, purpose="message")
    pair.now += 1
    pair.turn()
    assert pair.count("message 1") == 2
    answer_to(pair.client, ACCEPTED, purpose="message")
    assert pair.client.rows() == 1
    assert name_of(brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),))))) == "accepted"
    assert pair.client.rows() == 0
    pair.advance(60)
    assert pair.count("message 1") == 2
    pair.assert_sound()


@BOTH
@pytest.mark.parametrize("code", ["SequenceTerminated", "UnknownSequence"])
def test_messages_that_were_not_sent_go_on_in_another_sequence_when_a_fault_ends_one(
    code: str, protocol: Protocol
) -> None:
    # IOP-GSOAP-03: any fault ends its sequence
    pair, foreign = opened(protocol, "one", "two", "three", window=1)
    answer_to(pair.client, foreign.fault(code, "urn:theirs"), purpose="message")
    pair.turn()
    first, second = pair.client.sources()
    assert not first.machine.alive
    assert pair.client.letters_by_text() == [("one", "unknown")]
    assert pair.wire[-1].name == "CreateSequence"
    answer_to(pair.client, foreign.created("urn:second", second.create_message_id), purpose="CreateSequence")
    pair.turn()
    assert pair.wire[-1].name == "message 1"
    assert b"two" in pair.wire[-1].http.body


@BOTH
def test_a_sequence_that_the_peer_ends_after_an_hour_is_carried_on_by_a_successor(protocol: Protocol) -> None:
    # IOP-GSOAP-06
    pair, foreign = opened(protocol, "one", created="<r:Expires>PT1H</r:Expires>")
    answer_to(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),))), purpose="message")
    pair.advance(3601)
    assert pair.client.sources()[0].machine.state is RmsState.ENDED
    pair.link(protocol, offer=False).notes("two")
    pair.turn()
    assert [each.machine.alive for each in pair.client.sources()] == [False, True]
    assert pair.wire[-1].name == "CreateSequence"
    assert pair.client.letters() == []


@BOTH
def test_a_message_that_is_unacknowledged_at_the_end_of_the_hour_is_in_doubt(protocol: Protocol) -> None:
    pair, _ = opened(protocol, "one", created="<r:Expires>PT1H</r:Expires>")
    pair.advance(3601)
    assert pair.client.sources()[0].machine.failure is FailureReason.EXPIRED
    assert pair.client.letters_by_text() == [("one", "unknown")]


@RM11
def test_an_answer_to_an_end_that_was_not_said_changes_nothing_at_a_destination(protocol: Protocol) -> None:
    # ST-D08, ST-D11
    node, foreign = Node("server", World()), Foreign(protocol)
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1))
    before = node.destination()
    for name in ("CloseSequenceResponse", "TerminateSequenceResponse"):
        assert name_of(node.get(foreign.ended(name, identifier, "urn:nothing"))) == "accepted"
    assert node.destination() == before
    assert read(node.get(foreign.note(identifier, 2))).acknowledgements[0].ranges == ((1, 2),)


@pytest.mark.parametrize(("here", "there"), list(product(DeliveryAssurance, repeat=2)), ids=str)
def test_each_end_keeps_an_assurance_of_its_own(here: DeliveryAssurance, there: DeliveryAssurance) -> None:
    # DA-08
    pair = Pair(policy=DestinationPolicy(assurance=there), client_policy=DestinationPolicy(assurance=here))
    link = pair.link()
    link.asks("one", "two")
    link.close()
    pair.advance(30)
    assert pair.server.handled == ["one", "two"]
    assert pair.client.answers == [("one", "re one"), ("two", "re two")]
    assert not any(record.machine.alive for record in pair.client.sources())
