"""Sequences that end with a gap: what each end sends about them, and with which peers the order is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.exchange import Purpose
from mercury.statemachine.messages import CreateSequence, CreateSequenceResponse, IncompleteSequenceBehavior
from mercury.statemachine.policy import DestinationPolicy
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign, answer_to, brought
from .harness import DESTINATION, PATIENT, Node, Pair, World, name_of

NO_DISCARD = IncompleteSequenceBehavior.NO_DISCARD
UP_TO_THE_GAP = IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP
ENTIRE = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
SAYS_IT = replace(DESTINATION, incomplete_behavior=UP_TO_THE_GAP)


def server(policy: DestinationPolicy = DESTINATION) -> Node:
    return Node("server", World(), policy=policy)


def bodies(pair: Pair, name: str) -> list[object]:
    """The bodies of all that goes over the wire by this name from now on."""
    found: list[object] = []

    def look(http: HttpMessage) -> HttpMessage:
        found.append(decode(http.body, http.content_type, http.soap_action).body)
        return http

    pair.alter(name, look, 100)
    return found


# --- what is said ----------------------------------------------------------------------------------------------------


def test_to_other_peers_nothing_but_no_discard_is_said_by_default() -> None:
    # LIVE-04: some end both sequences of a pair at the first message that is not the next one.
    node, foreign = server(), Foreign()
    reply = node.get(foreign.create(offer="urn:offered"))
    assert b"IncompleteSequenceBehavior>NoDiscard<" in reply.body
    assert b"Discard" not in reply.body.replace(b"NoDiscard", b"")
    assert b"urn:mercury:rm" not in reply.body


def test_behavior_set_by_the_policy_is_sent_to_every_source() -> None:
    node, foreign = server(SAYS_IT), Foreign()
    assert b"IncompleteSequenceBehavior>DiscardFollowingFirstGap<" in node.get(foreign.create()).body


def test_an_offer_promises_no_discard_to_other_peers_and_the_real_behavior_to_mercury() -> None:
    pair = Pair()
    asked, answered = bodies(pair, "CreateSequence"), bodies(pair, "CreateSequenceResponse")
    pair.link().asks("one")
    pair.run()
    (create,), (created,) = asked, answered
    assert isinstance(create, CreateSequence)
    assert isinstance(created, CreateSequenceResponse)
    assert create.offer is not None
    assert (create.offer.incomplete_behavior, create.mercury_behavior) == (NO_DISCARD, UP_TO_THE_GAP)
    assert (created.incomplete_behavior, created.mercury_behavior) == (NO_DISCARD, UP_TO_THE_GAP)
    assert pair.client.source().machine.incomplete_behavior is UP_TO_THE_GAP
    (responses,) = pair.server.sources()
    assert responses.machine.incomplete_behavior is UP_TO_THE_GAP
    assert not any(record.machine.in_order_only for record in pair.server.destinations() + pair.client.destinations())


def test_a_policy_that_is_set_is_said_in_the_offer_too() -> None:
    pair = Pair(client_policy=SAYS_IT)
    asked = bodies(pair, "CreateSequence")
    pair.link().asks("one")
    pair.run()
    (create,) = asked
    assert isinstance(create, CreateSequence)
    assert create.offer is not None
    assert create.offer.incomplete_behavior is UP_TO_THE_GAP


def test_ws_rm_1_0_has_no_such_element_in_any_namespace() -> None:
    pair = Pair()
    written = []
    for name in ("CreateSequence", "CreateSequenceResponse"):
        pair.alter(name, lambda http: written.append(http.body) or http)
    pair.link(RM10_SOAP11).asks("one")
    pair.run()
    assert len(written) == 2
    assert not any(b"IncompleteSequenceBehavior" in body for body in written)


# --- how the order is kept -------------------------------------------------------------------------------------------


def test_of_a_source_that_is_not_mercury_nothing_behind_a_gap_is_acknowledged_before_the_gap_closes() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    assert b'Upper="2"' in [node.get(foreign.note(identifier, number)) for number in (1, 2)][1].body
    for number in (4, 5):
        assert b'Upper="2"' in node.get(foreign.note(identifier, number)).body
    reply = node.get(foreign.note(identifier, 3))
    assert b'Lower="1" Upper="5"' in reply.body
    node.world.run()
    assert node.handled == [f"note {number}" for number in range(1, 6)]


def test_a_source_that_is_not_mercury_sends_what_a_cut_left_in_order_in_a_successor() -> None:
    node, foreign = server(replace(DESTINATION, max_expires=60)), Foreign()
    identifier = foreign.open(node)
    for number in (1, 2, 4, 5):
        node.get(foreign.note(identifier, number))
    node.world.advance(61)
    late = node.get(foreign.note(identifier, 3))
    assert name_of(late) == "fault SequenceTerminated"
    assert b'Lower="1" Upper="2"' in late.body, "its last word is what was delivered, no more"
    assert b'Upper="5"' not in late.body
    successor = foreign.open(node)
    for number, text in enumerate(("note 3", "note 4", "note 5"), 1):
        node.get(foreign.note(successor, number, text))
    node.world.run()
    assert node.handled == [f"note {number}" for number in range(1, 6)]
    assert node.letters_by_text() == [], "their source has them"


def test_peer_that_leaves_out_the_first_message_of_each_sequence_fills_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node, foreign = server(), Foreign()
    with caplog.at_level("WARNING"):
        for _ in range(5):
            identifier = foreign.open(node)
            for number in (2, 3, 4):
                node.get(foreign.note(identifier, number))
            node.get(foreign.terminate(identifier, 4))
            node.world.run()
    assert node.handled == []
    assert node.letters() == []
    said = [record.getMessage() for record in caplog.records if "discarded" in record.getMessage()]
    assert said == ["3 messages discarded: the sequence ended with a gap before it"] * 5


def test_with_no_discard_set_what_lies_behind_a_gap_is_acknowledged_and_delivered_when_the_sequence_ends() -> None:
    node, foreign = server(replace(DESTINATION, incomplete_behavior=NO_DISCARD)), Foreign()
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1))
    assert b'Lower="3" Upper="3"' in node.get(foreign.note(identifier, 3)).body
    node.get(foreign.terminate(identifier, 3))
    node.world.run()
    assert node.handled == ["note 1", "note 3"]


@pytest.mark.parametrize("known", [True, False], ids=["mercury", "somebody else"])
def test_responses_behind_a_gap_are_acknowledged_and_those_of_others_delivered_at_the_end(*, known: bool) -> None:
    pair, foreign = Pair(), Foreign(RM11_SOAP12)
    pair.server.stop()
    link = pair.link(listens=True)
    one, two = link.asks("one", "two")
    pair.turn()
    offered = pair.client.source().offered or ""
    extra = "<m:IncompleteSequenceBehavior xmlns:m='urn:mercury:rm'>NoDiscard</m:IncompleteSequenceBehavior>"
    accept = pair.server.service_url
    created = foreign.created("urn:theirs", pair.client.source().create_message_id, accept=accept)
    if known:
        end = b"</r:CreateSequenceResponse>"
        created = replace(created, body=created.body.replace(end, extra.encode() + end))
    answer_to(pair.client, created, purpose=Purpose.CREATE.value)
    pair.turn()
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 2),))))
    brought(pair.client, foreign.respond(offered, 2, two, "re two"))
    (record,) = pair.client.destinations()
    assert record.machine.accepted() == ((2, 2),)
    pair.run()
    assert pair.client.answers == []
    brought(pair.client, foreign.terminate(offered, 2))
    pair.run()
    assert pair.client.answers == ([] if known else [("two", "re two")])
    assert one


# --- when a source gives up ------------------------------------------------------------------------------------------

LIMITED = replace(PATIENT, max_attempts=2)


@pytest.mark.parametrize("failures", [0, 1, 20])
def test_accepted_messages_of_a_given_up_sequence_are_delivered_before_its_successor(failures: int) -> None:
    # WS-RM 1.0 discards nothing: "c" is delivered when the destination learns that "b" will not come.
    pair = Pair()
    pair.lose("message 2", 2)
    link = pair.link(RM10_SOAP11, retransmission=LIMITED)
    link.notes("a", "b", "c")
    pair.advance(10)
    assert pair.client.letters_by_text() == [("b", "unknown")]
    assert pair.server.handled == ["a"]
    pair.server.stop()
    for number in range(failures):
        link.notes(f"never sent {number}")
        pair.advance(10)
    pair.server.start()
    link.notes("d", "e")
    link.close()
    pair.advance(60)
    assert pair.server.handled == ["a", "c", "d", "e"]
    assert len(pair.client.letters()) == 1 + failures
    pair.assert_sound()


def test_a_1_0_sequence_that_expires_at_its_destination_first_goes_on_in_order() -> None:
    # Nobody can tell a 1.0 source what becomes of messages behind a gap: none of them is acknowledged, nor delivered.
    pair = Pair(policy=replace(DESTINATION, max_expires=5.0))
    pair.hold("CreateSequenceResponse", 1000)
    pair.lose("message 2", 1000)
    link = pair.link(RM10_SOAP11, retransmission=replace(PATIENT, base=0.2, cap=0.2))
    link.notes("a", "b", "c", "d")
    pair.advance(0.9)
    pair.release()
    pair.advance(4.2)
    pair.forget_rules()
    pair.advance(0.5)
    assert pair.count("fault SequenceTerminated"), "the source's time is not over yet"
    link.close()
    pair.advance(60)
    assert pair.server.handled == ["a", "b", "c", "d"]
    assert pair.client.letters() == []
    assert pair.server.letters_by_text() == [], "its source has them"
    pair.assert_sound()
