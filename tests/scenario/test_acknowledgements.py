"""When and how messages are acknowledged, and how a source handles acknowledgements (docs/protocol.md, section 6)."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from mercury.engine.own_locks import OwnLocks
from mercury.engine.registry import Registry
from mercury.engine.runtime.core import Engine
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, RmVersion
from mercury.statemachine.ranges import RangeSet
from mercury.storage.records import SequenceKey
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to, brought, identifier_in
from .harness import DESTINATION, Node, Pair, World, name_of
from .test_ownership_of_sequences import post

KEEP = IncompleteSequenceBehavior.NO_DISCARD
REPLIES = "http://client.example/replies"
PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)


def ranges_in(reply: HttpMessage) -> list[tuple[int, int]]:
    parts = reply.body.split(b'AcknowledgementRange Lower="')[1:]
    return [(int(part.split(b'"')[0]), int(part.split(b'Upper="')[1].split(b'"')[0])) for part in parts]


def anonymous_source(protocol: Protocol = RM11_SOAP12, **policy: object) -> tuple[Node, Foreign, str]:
    """A server with a sequence of a foreign client that cannot be posted to."""
    node, foreign = Node("server", World(), policy=replace(DESTINATION, **policy)), Foreign(protocol)
    return node, foreign, foreign.open(node)


def listening_source(**policy: object) -> tuple[Node, Foreign, str]:
    node, foreign = Node("server", World(), policy=replace(DESTINATION, **policy)), Foreign()
    return node, foreign, foreign.open(node, acks_to="http://friend.example/acks")


# --- the destination -------------------------------------------------------------------------------------------------


@PROTOCOLS
def test_every_message_from_an_anonymous_source_is_acknowledged_in_its_reply(protocol: Protocol) -> None:
    # RM-ACK-10, RM-ACK-11, IOP-METRO-02
    node, foreign, identifier = anonymous_source(protocol, incomplete_behavior=KEEP)
    assert ranges_in(node.get(foreign.note(identifier, 1))) == [(1, 1)]
    assert ranges_in(node.get(foreign.note(identifier, 3))) == [(1, 1), (3, 3)]  # RM-ACK-01, RM-ACK-02
    assert ranges_in(node.get(foreign.note(identifier, 2))) == [(1, 3)]
    node.world.advance(100)
    assert node.world.seen == [], "nothing can be posted to it"


@PROTOCOLS
def test_of_messages_that_come_together_the_last_is_answered_for_all_if_the_source_never_asks(
    protocol: Protocol,
) -> None:
    # IOP-CXF-05
    # RM-ACK-11: some sources wait for an acknowledgement without asking for it
    node, foreign, identifier = anonymous_source(protocol)
    replies = node.get_all([foreign.note(identifier, number) for number in (1, 2, 3)])
    assert [ranges_in(reply) for reply in replies] == [[], [], [(1, 3)]]
    assert [reply.status for reply in replies] == [202, 202, 200]


@PROTOCOLS
def test_reply_that_cannot_carry_an_acknowledgement_leaves_it_to_another(protocol: Protocol) -> None:
    node, foreign, identifier = anonymous_source(protocol)
    beyond_the_end = foreign.note(identifier, 4)
    replies = node.get_all([foreign.note(identifier, 1), foreign.terminate(identifier, 1), beyond_the_end])
    assert ranges_in(replies[0]) == [(1, 1)]


@PROTOCOLS
def test_an_exchange_that_is_held_open_for_a_response_does_not_hold_the_acknowledgement(protocol: Protocol) -> None:
    node, foreign = Node("server", World(), policy=DESTINATION), Foreign(protocol)
    identifier = foreign.open(node, offer="urn:offered")
    replies = node.get_all([foreign.note(identifier, 1), foreign.ask(identifier, 2)])
    assert [ranges_in(reply) for reply in replies] == [[(1, 2)], []]


@PROTOCOLS
def test_of_messages_that_come_together_those_that_ask_are_answered_for_all(protocol: Protocol) -> None:
    # RM-ACK-06
    node, foreign, identifier = anonymous_source(protocol)
    asking = foreign.note(identifier, 2, headers=foreign.ack_requested(identifier))
    replies = node.get_all([foreign.note(identifier, 1), asking, foreign.note(identifier, 3)])
    assert [ranges_in(reply) for reply in replies] == [[], [(1, 3)], []]
    assert [reply.status for reply in replies] == [202, 200, 202]


@PROTOCOLS
def test_request_of_one_source_does_not_suppress_the_acknowledgement_of_another(protocol: Protocol) -> None:
    node, foreign, identifier = anonymous_source(protocol)
    other = Foreign(protocol, "other")
    others = other.open(node)
    asking = foreign.note(identifier, 1, headers=foreign.ack_requested(identifier))
    replies = node.get_all([asking, other.note(others, 1)])
    assert [ranges_in(reply) for reply in replies] == [[(1, 1)], [(1, 1)]]


def test_one_message_in_order_waits_for_company_until_the_interval_is_over() -> None:
    # RM-ACK-12
    node, foreign, identifier = listening_source(acknowledgement_interval=0.2)
    node.get(foreign.note(identifier, 1))
    node.world.advance(0.1)
    node.get(foreign.note(identifier, 2))
    assert node.world.seen == []
    node.world.advance(1)
    assert node.world.times == [(pytest.approx(0.2), "acknowledgement")]


def test_every_so_many_messages_are_acknowledged_at_once() -> None:
    node, foreign, identifier = listening_source(acknowledge_every=3, acknowledgement_interval=10.0)
    for number in (1, 2, 3, 4):
        node.get(foreign.note(identifier, number))
        node.world.run()
    assert node.world.times == [(0, "acknowledgement")]


def test_reception_waits_for_the_worker_that_acknowledges() -> None:
    """Beside other processes it would postpone what arrives meanwhile, which is only stored then."""
    noted: list[str] = []

    class Noting(OwnLocks):
        def note(self, sequences: Collection[str]) -> AbstractContextManager[None]:
            noted.extend(sequences)
            return super().note(sequences)

    node, foreign, identifier = listening_source(acknowledgement_interval=0.0)
    node.engine._context.own_locks = Noting()
    node.get(foreign.note(identifier, 1))
    node.world.run()
    assert node.world.times == [(0, "acknowledgement")]
    assert noted == [identifier]


def test_an_interval_of_nothing_acknowledges_at_once() -> None:
    node, foreign, identifier = listening_source(acknowledgement_interval=0.0)
    node.get(foreign.note(identifier, 1))
    node.world.run()
    assert node.world.times == [(0, "acknowledgement")]


@pytest.mark.parametrize(
    ("numbers", "what"), [((1, 3), "a gap"), ((2,), "a first message that is not 1"), ((1, 1), "a repetition")]
)
def test_gap_or_duplicate_is_acknowledged_at_once(numbers: tuple[int, ...], what: str) -> None:
    # RM-ACK-12, RM-SEQ-06
    node, foreign, identifier = listening_source(acknowledgement_interval=10.0)
    for number in numbers:
        node.get(foreign.note(identifier, number))
    node.world.run()
    assert node.world.seen == ["acknowledgement"], what


def test_acknowledgement_is_given_when_asked_for_before_any_message_and_without_one() -> None:
    # RM-ACK-04, RM-ACK-06, IOP-WCF-06
    node, foreign, identifier = anonymous_source()
    reply = node.get(foreign.alone(foreign.ack_requested(identifier)))
    assert name_of(reply) == "acknowledgement"
    assert b"None" in reply.body
    old, foreign10, identifier10 = anonymous_source(RM10_SOAP12)
    reply = old.get(foreign10.alone(foreign10.ack_requested(identifier10)))
    assert name_of(reply) == "accepted", "1.0 has no way to say it that every peer reads (LIVE-09)"


def test_a_requested_acknowledgement_goes_to_acks_to() -> None:
    node, foreign, identifier = listening_source(acknowledgement_interval=10.0)
    reply = node.get(foreign.note(identifier, 1, headers=foreign.ack_requested(identifier)))
    assert name_of(reply) == "accepted"
    node.world.run()
    assert node.world.times == [(0, "acknowledgement")]


@PROTOCOLS
def test_a_requested_acknowledgement_of_an_ended_sequence_goes_to_acks_to_once(protocol: Protocol) -> None:
    # RM-ACK-06, ST-D05
    node, foreign = Node("server", World(), policy=DESTINATION), Foreign(protocol)
    identifier = foreign.open(node, acks_to="http://friend.example/acks")
    node.get_all([foreign.note(identifier, 1), foreign.terminate(identifier, 1)])
    node.world.advance(10)
    assert node.world.seen == []
    node.world.hold("acknowledgement")
    assert name_of(node.get(foreign.alone(foreign.ack_requested(identifier)))) == "accepted"
    node.world.advance(100)
    (flight,) = node.world.held
    assert ranges_in(flight.http) == [(1, 1)]
    assert (b"Final" in flight.http.body) is (protocol.rm is RmVersion.RM11)
    node.world.advance(DESTINATION.tombstone)
    assert node.empty()


def test_a_requested_acknowledgement_of_an_ended_sequence_is_not_posted_again_to_a_source_that_is_gone() -> None:
    node, foreign, identifier = listening_source()
    node.get_all([foreign.note(identifier, 1), foreign.terminate(identifier, 1)])
    node.get(foreign.alone(foreign.ack_requested(identifier)))
    node.world.advance(DESTINATION.tombstone - 1)
    assert node.world.times == [(0, "acknowledgement")]
    node.world.advance(2)
    assert node.empty()


def test_nothing_is_acknowledged_unasked_before_the_identifier_was_used() -> None:
    # The CreateSequenceResponse may be lost; its source would answer UnknownSequence.
    node, _, _ = listening_source()
    node.world.advance(1000)
    assert node.world.seen == []


def test_acknowledgement_at_delivery_waits_for_the_application() -> None:
    # DA-06
    node, foreign, identifier = anonymous_source(acknowledge_at=AcknowledgeAt.DELIVERY)
    assert ranges_in(node.get(foreign.note(identifier, 1))) == []
    assert ranges_in(node.get(foreign.note(identifier, 2))) == []
    node.world.run()
    assert node.handled == ["note 1", "note 2"]
    assert ranges_in(node.get(foreign.note(identifier, 2))) == [(1, 2)]


def test_acknowledgement_at_delivery_is_posted_once_the_application_is_done() -> None:
    node, foreign, identifier = listening_source(acknowledge_at=AcknowledgeAt.DELIVERY, acknowledgement_interval=0.0)
    failing = [True]

    def fails(_context: object, _text: str) -> None:
        if failing[0]:
            raise RuntimeError("not now")

    node.on_call = fails
    node.get(foreign.note(identifier, 1))
    node.world.advance(3)
    assert "acknowledgement" not in node.world.seen
    failing[0] = False
    node.world.advance(1)
    assert node.world.times == [(3.5, "acknowledgement")]


def test_process_that_does_not_host_the_service_acknowledges_nothing_for_it() -> None:
    # DA-06: only the process that hosts the service has the policy of the service.
    node, foreign, identifier = listening_source(acknowledge_at=AcknowledgeAt.DELIVERY, acknowledgement_interval=0.0)
    node.get(foreign.note(identifier, 1, headers=foreign.ack_requested(identifier)))
    other = Engine(
        store=node.watched,
        application=Registry(default_policy=DESTINATION),
        observers=node.observers,
        ids=node.ids,
        settings=node.settings,
        monotonic=lambda: node.world.now,
    )
    for later in range(1, 100):
        assert other.destination.run_once(node.world.now + later).posts == []
    assert other.destination.next_due() is None


def test_a_message_acknowledged_at_delivery_is_not_taken_twice_while_it_waits() -> None:
    pair = Pair(policy=replace(DESTINATION, acknowledge_at=AcknowledgeAt.DELIVERY))
    failures = [RuntimeError("not now")] * 3

    def fails(_context: object, _text: str) -> None:
        if failures:
            raise failures.pop()

    pair.server.on_call = fails
    link = pair.link()
    link.notes("one", "two")
    link.close()
    pair.advance(30)
    assert pair.count("message 1") > 1
    assert pair.server.handled == ["one", "two"]
    pair.assert_ended()


def test_every_acknowledgement_of_a_closed_sequence_is_final_and_says_the_same() -> None:
    # RM11-ACK-08, ST-D05
    node, foreign, identifier = anonymous_source()
    node.get(foreign.note(identifier, 1))
    closed = node.get(foreign.close(identifier, 2))
    asked = node.get(foreign.alone(foreign.ack_requested(identifier)))
    late = node.get(foreign.note(identifier, 2))
    again = node.get(foreign.note(identifier, 1))
    for reply in (closed, asked, late, again):
        assert b"Final" in reply.body
        assert ranges_in(reply) == [(1, 1)]
    assert name_of(late) == "fault SequenceClosed"  # RM11-SEQ-10
    assert name_of(again) == "acknowledgement"


def test_the_sequence_is_known_again_with_its_ranges_after_a_crash() -> None:
    # DA-07, RM-ACK-14
    node, foreign, identifier = anonymous_source(incomplete_behavior=KEEP)
    node.get(foreign.note(identifier, 1))
    node.get(foreign.note(identifier, 3))
    node.crash()
    assert ranges_in(node.get(foreign.note(identifier, 3))) == [(1, 1), (3, 3)]
    node.world.run()
    assert node.handled == ["note 1"]


def test_nothing_is_acknowledged_that_is_not_committed() -> None:
    # RM-ACK-14, decision 24
    node, foreign, identifier = anonymous_source()
    node.failing_commits.update({node.commits + 1, node.commits + 2})
    reply = node.get(foreign.note(identifier, 1))
    assert name_of(reply) == "fault Receiver"
    assert reply.status == 503
    assert not node.destination().machine.received
    both = node.get_all([foreign.note(identifier, 1), foreign.note(identifier, 2)])
    assert [name_of(reply) for reply in both] == ["acknowledgement", "acknowledgement"]


def test_an_acknowledgement_that_could_not_be_posted_is_posted_again_later_each_time() -> None:
    node, foreign, identifier = listening_source(acknowledgement_interval=0.0)
    node.get(foreign.note(identifier, 1))
    node.world.advance(20)
    assert node.world.when("acknowledgement") == [0, 2, 6, 14]


def test_sequences_whose_acknowledgements_go_to_an_address_that_takes_none_are_tried_one_at_a_time() -> None:
    node, foreign, first = listening_source(acknowledgement_interval=0.0)
    node.get(foreign.note(first, 1))
    node.world.advance(0.5)
    others = [foreign.open(node, acks_to="http://friend.example/acks") for _ in range(20)]
    node.get_all([foreign.note(identifier, 1) for identifier in others])
    node.world.advance(600)
    assert node.world.when("acknowledgement") == [0, 1, 5, 13, 29, 61, 125, 253, 509]


def test_acknowledgement_that_gets_through_brings_those_of_all_sequences_that_were_put_off() -> None:
    node, foreign, first = listening_source(acknowledgement_interval=0.0)
    node.get(foreign.note(first, 1))
    node.world.advance(0.5)
    others = [foreign.open(node, acks_to="http://friend.example/acks") for _ in range(5)]
    node.get_all([foreign.note(identifier, 1) for identifier in others])
    node.world.advance(100)
    before = node.world.count("acknowledgement")
    node.get(foreign.note(others[0], 2))  # its source is there: no pause counts for it
    node.turn()
    answer_to(node, HttpMessage(b"", "", None, 202), purpose="SequenceAcknowledgement")
    node.turn()
    assert node.world.count("acknowledgement") == before + 1 + 5
    assert {record.machine.ack_due for record in node.destinations()} == {None}


def test_failures_of_a_stranger_at_the_address_of_a_friend_put_off_none_of_its_acknowledgements() -> None:
    """The friend's endpoint refuses what the stranger has sent there, and the stranger repeats its messages."""
    node, foreign, own = listening_source(acknowledgement_interval=0.0)
    strangers = Foreign(RM11_SOAP11, "stranger")
    theirs = [
        identifier_in(post(node, strangers.create(acks_to="http://FRIEND.example:080/acks"), peer="203.0.113.9"))
        for _ in range(20)
    ]
    for number in range(1, 6):
        for identifier in theirs:
            post(node, strangers.note(identifier, 1), peer="203.0.113.9")
        node.turn()
        refused = HttpMessage(b"", "", None, 415)
        while any(each.name == "acknowledgement" for each in node.world.wire):
            answer_to(node, refused, purpose="SequenceAcknowledgement")
        node.get(foreign.note(own, number))
        node.turn()
        answer_to(node, HttpMessage(b"", "", None, 202), purpose="SequenceAcknowledgement")
        assert not [each for each in node.world.wire if each.name == "acknowledgement"], "the friend's, and no other"
        node.world.advance(0.5)
    assert [each.machine.ack_due for each in node.destinations() if each.identifier == own] == [None]


@pytest.mark.parametrize(
    "refusal",
    [
        HttpMessage(b"", "", None, 503),
        Foreign().fault("s:Receiver", status="503", blame="Receiver"),
    ],
    ids=["nothing", "a SOAP fault"],
)
def test_an_acknowledgement_that_was_not_taken_is_posted_again(refusal: HttpMessage) -> None:
    node, foreign, identifier = listening_source(acknowledgement_interval=0.0)
    node.get(foreign.note(identifier, 1))
    node.turn()
    answer_to(node, refusal, purpose="SequenceAcknowledgement")
    node.world.advance(3)
    assert node.world.when("acknowledgement") == [0, 2]


def test_an_acknowledgement_that_was_taken_is_not_posted_again() -> None:
    node, foreign, identifier = listening_source(acknowledgement_interval=0.0)
    node.get(foreign.note(identifier, 1))
    node.turn()
    answer_to(node, HttpMessage(b"", "", None, 202), purpose="SequenceAcknowledgement")
    node.world.advance(100)
    assert node.world.when("acknowledgement") == [0]


def test_a_source_that_does_not_know_its_own_sequence_ends_it() -> None:
    # ST-D12
    node, foreign, identifier = listening_source(acknowledgement_interval=0.0)
    node.get(foreign.note(identifier, 1))
    node.turn()
    answer_to(node, foreign.fault("UnknownSequence", identifier), purpose="SequenceAcknowledgement")
    assert node.destination().machine.tombstone
    node.world.run()
    assert node.handled == ["note 1"]


def test_a_source_that_finds_an_acknowledgement_invalid_keeps_the_sequence() -> None:
    # ST-D13, FLT-03
    node, foreign, identifier = listening_source(acknowledgement_interval=0.0)
    node.get(foreign.note(identifier, 1))
    node.turn()
    answer_to(node, foreign.fault("InvalidAcknowledgement", identifier), purpose="SequenceAcknowledgement")
    node.world.advance(100)
    assert not node.destination().machine.tombstone
    assert node.world.when("acknowledgement") == [0]


# --- the source ------------------------------------------------------------------------------------------------------


def source_of_three(protocol: Protocol = RM11_SOAP12, *, listens: bool = True) -> tuple[Pair, Foreign]:
    """A client that has sent messages 1 to 3 on sequence ``urn:theirs`` of a foreign server."""
    pair, foreign = Pair(), Foreign(protocol)
    pair.server.stop()
    pair.link(protocol, listens=listens).notes("one", "two", "three")
    pair.turn()
    created = foreign.created("urn:theirs", pair.client.source().create_message_id)
    answer_to(pair.client, created, purpose="CreateSequence")
    pair.turn()
    return pair, foreign


def acknowledged(pair: Pair) -> RangeSet:
    return pair.client.source().machine.acknowledged


@PROTOCOLS
def test_a_source_keeps_the_union_of_what_was_acknowledged(protocol: Protocol) -> None:
    # RM-ACK-01: late and smaller acknowledgements take nothing back.
    pair, foreign = source_of_three(protocol)
    for ranges in (((1, 2),), ((3, 3),), ((1, 1),), ()):
        reply = brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ranges)))
        assert name_of(reply) == "accepted"
    assert acknowledged(pair) == RangeSet([(1, 3)])
    assert pair.client.rows() == 0


@pytest.mark.parametrize(
    "bad",
    [
        '<r:AcknowledgementRange Lower="3" Upper="1"/>',
        '<r:AcknowledgementRange Lower="1" Upper="4"/>',
        '<r:AcknowledgementRange Lower="1" Upper="9223372036854775807"/>',
        '<r:AcknowledgementRange Lower="1" Upper="1"/><r:Nack>2</r:Nack>',
        "<r:None/><r:Nack>1</r:Nack>",
        "<r:Nack>1</r:Nack><r:Final/>",
    ],
    ids=["upside down", "never sent", "all there is", "range and Nack", "None and Nack", "Final and Nack"],
)
def test_an_acknowledgement_that_breaks_the_rules_is_answered_and_changes_nothing(bad: str) -> None:
    # RM-ACK-03
    pair, foreign = source_of_three()
    reply = brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", extra=bad)))
    assert name_of(reply) == "fault InvalidAcknowledgement"
    assert b"urn:theirs" in reply.body
    assert not acknowledged(pair)
    assert pair.client.source().machine.alive


def test_an_acknowledgement_of_0_to_0_is_none_in_ws_rm_1_0_only() -> None:
    # RM-ACK-04
    zero = '<r:AcknowledgementRange Lower="0" Upper="0"/>'
    pair, foreign = source_of_three(RM10_SOAP11)
    reply = brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", extra=zero)))
    assert name_of(reply) == "accepted"
    pair, foreign = source_of_three()
    reply = brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", extra=zero)))
    assert name_of(reply) == "fault InvalidAcknowledgement"


def test_an_acknowledgement_for_a_sequence_that_is_not_known_is_unknown_sequence() -> None:
    # RM-ACK-13
    pair, foreign = source_of_three()
    reply = brought(pair.client, foreign.alone(foreign.acknowledgement("urn:nothing", ((1, 1),))))
    assert name_of(reply) == "fault UnknownSequence"
    assert pair.client.reported.failed == []


@PROTOCOLS
def test_a_nack_sends_just_that_message_again_at_once(protocol: Protocol) -> None:
    # RM-ACK-05, ST-S08, IOP-GSOAP-02
    pair, foreign = source_of_three(protocol)
    pair.carry()
    nack = foreign.acknowledgement("urn:theirs", extra="<r:Nack>2</r:Nack>")
    brought(pair.client, foreign.alone(nack))
    pair.turn()
    assert [flight.name for flight in pair.wire] == ["message 2"]
    assert not acknowledged(pair), "silence is no acknowledgement"


def test_a_nack_of_a_message_that_is_acknowledged_or_was_never_sent_does_nothing() -> None:
    pair, foreign = source_of_three()
    pair.carry()
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((2, 2),))))
    nack = foreign.acknowledgement("urn:theirs", extra="<r:Nack>2</r:Nack><r:Nack>77</r:Nack>")
    assert name_of(brought(pair.client, foreign.alone(nack))) == "accepted"
    pair.turn()
    assert pair.wire == []


@pytest.mark.parametrize("status", [200, 202])
@pytest.mark.parametrize("body", [True, False], ids=["with", "without"])
def test_the_reply_to_a_message_may_or_may_not_carry_an_acknowledgement(status: int, body: bool) -> None:
    # HTTP-02, RM-ACK-11, IOP-CXF-03
    pair, foreign = source_of_three(listens=False)
    http = foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),)))
    reply = HttpMessage(http.body if body else b"", http.content_type if body else "", None, status)
    answer_to(pair.client, reply, purpose="message")
    assert acknowledged(pair) == (RangeSet([(1, 1)]) if body else RangeSet())


def test_only_unacknowledged_messages_are_retransmitted() -> None:
    pair, foreign = source_of_three()
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1), (3, 3)))))
    pair.forget_rules()
    pair.advance(1)
    assert pair.count("message 1") == pair.count("message 3") == 1
    assert pair.count("message 2") == 2


def test_messages_that_are_sent_again_ask_for_an_acknowledgement_and_so_does_the_last_of_a_burst() -> None:
    # RM-SEQ-04: the same number, MessageID and body
    pair, _ = source_of_three()
    first = {flight.name: flight for flight in pair.wire}
    assert [bool(flight.envelope.ack_requests) for flight in pair.wire] == [False, False, True]
    pair.carry()
    pair.now += 1
    pair.turn()
    assert [flight.name for flight in pair.wire] == ["message 1", "message 2", "message 3"]
    for flight in pair.wire:
        assert flight.envelope.ack_requests
        before = first[flight.name].envelope
        assert (flight.envelope.message_id, flight.envelope.body) == (before.message_id, before.body)
        assert flight.envelope.sequence == before.sequence


def test_an_acknowledgement_may_ride_on_anything_that_comes_back() -> None:
    # HTTP-08: on a response of the offered sequence
    pair, foreign = source_of_three(listens=False)
    rides = foreign.acknowledgement("urn:theirs", ((1, 3),))
    stray = foreign.envelope("urn:any", "<x/>", headers=rides, relates_to="urn:nothing")
    answer_to(pair.client, stray, purpose="message")
    assert acknowledged(pair) == RangeSet([(1, 3)])


def test_a_final_acknowledgement_is_the_last_word() -> None:
    # ST-S07: what it does not list goes to a successor, in order, for it was surely not delivered.
    pair, foreign = source_of_three()
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),), final=True)))
    pair.run()
    before, successor = pair.client.sources()
    assert before.machine.closed
    assert successor.follows == "urn:theirs"
    pair.server.start()
    pair.advance(10)
    assert pair.server.handled == ["two", "three"]
    assert pair.client.letters() == []


def test_the_acknowledgement_of_the_responses_rides_on_the_end_of_the_requests() -> None:
    # ST-W02: a client without an address has no other way to say what it has received.
    pair = Pair()
    link = pair.link(listens=False)
    link.asks("one", "two")
    link.close()
    pair.hold("CloseSequence")
    pair.run()
    (flight,) = pair.held
    offered = pair.client.source().offered
    assert [(each.identifier, each.ranges) for each in flight.envelope.acknowledgements] == [(offered, ((1, 2),))]


@pytest.mark.parametrize(
    ("acks_to", "parameters"),
    [("anonymous", ""), ("http://client.example/acks", ""), (REPLIES, '<c:Desk xmlns:c="urn:c">7</c:Desk>')],
    ids=["anonymous", "another", "parameters"],
)
def test_the_end_of_the_responses_acknowledges_no_requests_whose_acknowledgements_go_elsewhere(
    acks_to: str, parameters: str
) -> None:
    # RM-ACK-10
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(
        node, acks_to=acks_to, acks_parameters=parameters, offer="urn:offered", offer_endpoint=REPLIES
    )
    node.get(foreign.ask(identifier, 1, reply_to=REPLIES))
    for _ in range(2):
        node.world.turn()
    node.get(foreign.terminate(identifier, headers=foreign.acknowledgement("urn:offered", ((1, 1),))))
    for _ in range(2):
        node.world.turn()
    (closing,) = [flight for flight in node.world.wire if flight.name == "CloseSequence"]
    assert closing.url == REPLIES
    assert closing.envelope.acknowledgements == ()


def test_a_response_carries_the_acknowledgement_of_its_request() -> None:
    # HTTP-06
    pair = Pair()
    pair.link(listens=False).asks("one")
    pair.hold("response 1")
    pair.run()
    (flight,) = pair.held
    identifier = pair.server.destination().identifier
    assert [(each.identifier, each.ranges) for each in flight.envelope.acknowledgements] == [(identifier, ((1, 1),))]


def test_acknowledgements_of_ws_rm_1_0_never_say_final() -> None:
    node, foreign, identifier = anonymous_source(RM10_SOAP12)
    node.get(foreign.note(identifier, 1))
    node.get(foreign.last_message(identifier, 2))
    assert ranges_in(node.get(foreign.alone(foreign.ack_requested(identifier)))) == [(1, 2)]
    node.get(foreign.terminate(identifier))
    late = node.get(foreign.note(identifier, 3))
    assert name_of(late) == "fault SequenceTerminated"
    assert ranges_in(late) == [(1, 2)]
    assert b"Final" not in late.body
    assert node.destination().protocol.rm is RmVersion.RM10
    assert identifier_in(late) == identifier


def test_acknowledged_request_is_retained_until_its_response_is_consumed() -> None:
    # decision 5
    pair = Pair()
    pair.lose("response 1")
    pair.link().asks("one")
    pair.run()
    assert acknowledged(pair) == RangeSet([(1, 1)])
    assert pair.client.rows() == 1
    pair.advance(2)
    assert pair.client.answers == [("one", "re one")]
    assert pair.client.rows() == 0
    assert pair.client.store.committed.rms.keys[SequenceKey(pair.server.service_url, "key")].rows == {}
