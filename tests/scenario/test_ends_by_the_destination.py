"""An operator of a destination closes or terminates a sequence (docs/protocol.md, section 7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.client.inbound_ends import end_at_destination
from mercury.engine.application import MessageContext
from mercury.engine.destination.own_ends import MOST_ATTEMPTS
from mercury.engine.exchange import Purpose
from mercury.errors import SequenceEnded, SequenceError
from mercury.statemachine.events import DestinationEnd
from mercury.statemachine.messages import CloseSequence, TerminateSequence
from mercury.statemachine.policy import DeliveryAssurance
from mercury.statemachine.protocol import Protocol, RmVersion
from mercury.statemachine.tables import RmdState
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage

from .foreign import RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to, brought
from .harness import DESTINATION, Node, Pair, World, name_of

ENDS = pytest.mark.parametrize("end", list(DestinationEnd), ids=str)
ACKS = "http://friend.example/acks"
CLIENT = "http://docs.oasis-open.org/ws-rx/wsmc/200702/anonymous?id=0815"
PURPOSE = "end by the destination"


def away(_context: MessageContext, _text: str) -> None:
    """The application cannot work for a while."""
    raise ConnectionError("the application's database is away")


def request(node: Node, end: DestinationEnd, identifier: str | None = None) -> None:
    """The operator's call."""
    end_at_destination(node.store, identifier or node.destination().identifier, end)


class Friend:
    """A service, and a foreign source with an address."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, acks_to: str = ACKS, **policy: object) -> None:
        self.node, self.foreign = Node("server", World(), policy=replace(DESTINATION, **policy)), Foreign(protocol)
        self.identifier = self.foreign.open(self.node, acks_to=acks_to)
        for number in (1, 2):
            self.node.get(self.foreign.note(self.identifier, number))
        self.node.world.advance(1)
        self.node.world.wire = []

    @property
    def sent(self) -> list[Envelope]:
        """What the service posts now."""
        self.node.world.turn()
        exchanges = [flight.exchange for flight in self.node.world.wire if flight.exchange is not None]
        ends = Purpose.DESTINATION_END
        return [exchange.outgoing.envelope for exchange in exchanges if exchange.outgoing.purpose is ends]

    def posted(self, end: DestinationEnd) -> int:
        """How often the service has posted the end so far; each post was lost."""
        return self.node.world.seen.count("CloseSequence" if end is DestinationEnd.CLOSE else "TerminateSequence")

    def answer(self, end: DestinationEnd, headers: str = "") -> None:
        name = "CloseSequenceResponse" if end is DestinationEnd.CLOSE else "TerminateSequenceResponse"
        answer_to(self.node, self.foreign.ended(name, self.identifier, "urn:any", headers), purpose=PURPOSE)


# --- at the source ---------------------------------------------------------------------------------------------------


def test_cxf_that_terminates_a_sequence_whose_last_message_has_not_come_is_answered() -> None:
    # IOP-CXF-09: its TerminateSequence has the LastMsgNumber 0.
    pair, foreign = Pair(), Foreign()
    pair.server.stop()
    pair.link(listens=True).notes("one", "two")
    pair.turn()
    brought(pair.client, foreign.created("urn:s", pair.client.source().create_message_id))
    pair.turn()
    post = foreign.terminate("urn:s", 0, reply_to="http://server/services/orders")
    assert name_of(brought(pair.client, post)) == "accepted"
    ((why, messages),) = pair.client.reported.failed
    assert (why.partition(":")[0], messages) == ("terminated by the destination", 2)


# --- at the destination ----------------------------------------------------------------------------------------------


@ENDS
@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11], ids=str)
def test_end_is_posted_to_acks_to_with_the_final_acknowledgement(end: DestinationEnd, protocol: Protocol) -> None:
    # ST-D07, ST-D10, RM11-CLS-03, RM11-TRM-02, RM11-ACK-08
    story = Friend(protocol)
    request(story.node, end)
    (envelope,) = story.sent
    kind = CloseSequence if end is DestinationEnd.CLOSE else TerminateSequence
    assert envelope.body == kind(story.identifier, None)
    assert envelope.to is not None
    assert envelope.to.address == ACKS
    (acknowledgement,) = envelope.acknowledgements
    assert (acknowledgement.ranges, acknowledgement.final) == (((1, 2),), True)


@ENDS
def test_end_is_posted_again_until_it_is_answered(end: DestinationEnd) -> None:
    # ST-D08, ST-D11
    story = Friend()
    request(story.node, end)
    story.node.world.advance(7)
    assert story.posted(end) == 3
    story.node.world.now += 10
    assert len(story.sent) == 1
    story.answer(end)
    assert story.node.destination().machine.own_end is None
    story.node.world.advance(1000)
    assert story.posted(end) == 4


@ENDS
def test_end_is_not_posted_for_ever_if_nothing_answers(end: DestinationEnd) -> None:
    story = Friend()
    request(story.node, end)
    story.node.world.advance(600)
    assert story.posted(end) == MOST_ATTEMPTS
    assert story.node.destination().machine.own_end is None


@ENDS
def test_end_survives_a_crash_before_and_after_it_was_posted(end: DestinationEnd) -> None:
    story = Friend()
    request(story.node, end)
    story.node.stop()
    story.node.start()
    story.node.world.run()
    assert story.posted(end) == 1
    story.node.stop()
    story.node.start()
    story.node.world.advance(1)
    assert story.posted(end) == 1
    story.node.world.advance(2)
    assert story.posted(end) == 2


@ENDS
def test_source_that_does_not_know_the_sequence_has_ended_it(end: DestinationEnd) -> None:
    # ST-D12
    story = Friend()
    request(story.node, end)
    assert len(story.sent) == 1
    answer_to(story.node, story.foreign.fault("UnknownSequence", story.identifier), purpose=PURPOSE)
    machine = story.node.destination().machine
    assert (machine.tombstone, machine.own_end) == (True, None)


def test_source_that_takes_the_end_for_an_error_is_not_asked_for_ever() -> None:
    # IOP-WCF-08
    story = Friend()
    request(story.node, DestinationEnd.CLOSE)
    assert len(story.sent) == 1
    answer_to(story.node, story.foreign.fault("SequenceTerminated", story.identifier), purpose=PURPOSE)
    story.node.world.advance(1000)
    assert story.sent == []
    assert story.node.handled == ["note 1", "note 2"]


@pytest.mark.parametrize("acks_to", ["anonymous", ACKS], ids=["anonymous", "listening"])
def test_closed_sequence_takes_no_new_message_and_delivers_what_it_has(acks_to: str) -> None:
    # RM11-SEQ-10
    story = Friend(acks_to=acks_to)
    story.node.on_call = away
    story.node.get(story.foreign.note(story.identifier, 3))
    request(story.node, DestinationEnd.CLOSE)
    story.node.world.turn()
    refused = story.node.get(story.foreign.note(story.identifier, 4))
    assert name_of(refused) == "fault SequenceClosed"
    assert b"Final" in refused.body
    story.node.on_call = None
    story.node.world.advance(100)
    assert story.node.handled == ["note 1", "note 2", "note 3"]
    ended = story.node.get(story.foreign.terminate(story.identifier, 4))
    assert name_of(ended) == "TerminateSequenceResponse"


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP12], ids=str)
@pytest.mark.parametrize("acks_to", ["anonymous", ACKS], ids=["anonymous", "listening"])
def test_terminated_sequence_answers_each_message_with_the_fault_and_the_ranges(
    protocol: Protocol, acks_to: str
) -> None:
    # ST-D10; WS-RM 1.0 has no TerminateSequence of a destination
    story = Friend(protocol, acks_to)
    request(story.node, DestinationEnd.TERMINATE)
    expected = 1 if protocol.rm is RmVersion.RM11 and acks_to == ACKS else 0
    assert len(story.sent) == expected
    assert story.node.destination().machine.state is RmdState.ENDED_OPEN
    refused = story.node.get(story.foreign.note(story.identifier, 3))
    assert name_of(refused) == "fault SequenceTerminated"
    assert decode(refused.body, refused.content_type, None).acknowledgements[0].ranges == ((1, 2),)
    assert story.node.handled == ["note 1", "note 2"]


def polled(node: Node, foreign: Foreign) -> HttpMessage:
    return node.get(foreign.poll(CLIENT))


@ENDS
def test_source_without_an_address_fetches_the_end_by_make_connection(end: DestinationEnd) -> None:
    story = Friend(acks_to=CLIENT)
    request(story.node, end)
    story.node.world.turn()
    kind = "CloseSequence" if end is DestinationEnd.CLOSE else "TerminateSequence"
    reply = polled(story.node, story.foreign)
    assert name_of(reply) == kind
    envelope = decode(reply.body, reply.content_type, None)
    assert envelope.reply_to is not None
    assert envelope.reply_to.address == story.node.service_url
    assert envelope.acknowledgements[0].final
    assert name_of(polled(story.node, story.foreign)) == kind, "the first may be lost"
    story.node.get(story.foreign.ended(f"{kind}Response", story.identifier, "urn:any"))
    assert name_of(polled(story.node, story.foreign)) == "accepted"


def test_end_that_is_fetched_and_never_answered_is_handed_out_no_more_than_so_often() -> None:
    story = Friend(acks_to=CLIENT)
    request(story.node, DestinationEnd.TERMINATE)
    story.node.world.turn()
    names = [name_of(polled(story.node, story.foreign)) for _ in range(2 * MOST_ATTEMPTS)]
    assert names.count("TerminateSequence") == MOST_ATTEMPTS - 1


@ENDS
def test_end_that_the_source_has_begun_meanwhile_is_not_begun_again(end: DestinationEnd) -> None:
    story = Friend()
    request(story.node, end)
    story.node.get(story.foreign.terminate(story.identifier, 2))
    assert story.sent == []
    assert story.node.destination().machine.state is RmdState.ENDED_COMPLETE
    assert story.node.destination().machine.own_end is None


def test_closed_sequence_can_be_terminated() -> None:
    story = Friend()
    request(story.node, DestinationEnd.CLOSE)
    assert [type(envelope.body) for envelope in story.sent] == [CloseSequence]
    story.answer(DestinationEnd.CLOSE)
    request(story.node, DestinationEnd.TERMINATE)
    assert [type(envelope.body) for envelope in story.sent] == [TerminateSequence]


def test_answer_to_close_sequence_does_not_answer_terminate_sequence() -> None:
    story = Friend()
    request(story.node, DestinationEnd.TERMINATE)
    assert len(story.sent) == 1
    story.answer(DestinationEnd.CLOSE)
    assert story.node.destination().machine.own_end is DestinationEnd.TERMINATE


def test_answer_of_another_peer_does_not_settle_the_end() -> None:
    story = Friend()
    request(story.node, DestinationEnd.TERMINATE)
    assert len(story.sent) == 1
    story.node.get(story.foreign.ended("TerminateSequenceResponse", story.identifier, "urn:any"), "services/other")
    assert story.node.destination().machine.own_end is DestinationEnd.TERMINATE


def test_request_for_an_end_that_is_not_possible_is_refused_and_changes_nothing() -> None:
    old = Friend(RM10_SOAP12)
    with pytest.raises(SequenceError, match="no CloseSequence"):
        request(old.node, DestinationEnd.CLOSE)
    assert old.node.destination().machine.own_end is None
    with pytest.raises(SequenceError, match="urn:nothing"):
        request(old.node, DestinationEnd.CLOSE, "urn:nothing")
    story = Friend()
    request(story.node, DestinationEnd.CLOSE)
    assert len(story.sent) == 1
    with pytest.raises(SequenceEnded, match="closed already"):
        request(story.node, DestinationEnd.CLOSE)
    story.node.get(story.foreign.terminate(story.identifier, 2))
    with pytest.raises(SequenceEnded, match="has ended"):
        request(story.node, DestinationEnd.TERMINATE)


def test_sequence_of_responses_is_not_ended_by_the_side_that_waits_for_them() -> None:
    pair = Pair()
    pair.link().ask("x")
    pair.run()
    (responses,) = [record for record in pair.client.destinations() if record.service is None]
    with pytest.raises(SequenceError, match="carries responses"):
        request(pair.client, DestinationEnd.TERMINATE, responses.identifier)


# --- with a source of Mercury ----------------------------------------------------------------------------------------


@ENDS
@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP12], ids=str)
@pytest.mark.parametrize("how", ["listening", "anonymous", "polling"])
@pytest.mark.parametrize("lost", ["", "CloseSequence", "TerminateSequence", "CloseSequenceResponse", "message 9"])
def test_messages_of_a_sequence_that_the_destination_ends_arrive_once_and_in_order(
    end: DestinationEnd, protocol: Protocol, how: str, lost: str
) -> None:
    # ST-S12, ST-S16: what the final acknowledgement leaves out goes to a successor.
    if protocol.rm is RmVersion.RM10 and (end is DestinationEnd.CLOSE or how == "polling"):
        pytest.skip("WS-RM 1.0 has neither CloseSequence nor MakeConnection")
    pair = Pair()
    link = pair.link(protocol, listens=how == "listening", polls=how == "polling", make_connection=how == "polling")
    texts = [str(number) for number in range(30)]
    link.notes(*texts[:10])
    pair.lose("message 4")
    pair.advance(0.5)
    if lost:
        pair.lose(lost, 3)
    request(pair.server, end)
    link.notes(*texts[10:])
    pair.advance(600)
    link.close()
    pair.advance(600)
    assert pair.server.handled == texts
    assert pair.client.letters() == []
    pair.assert_ended()


@ENDS
def test_requests_of_a_sequence_that_the_destination_ends_are_answered_once(end: DestinationEnd) -> None:
    pair = Pair()
    link = pair.link()
    texts = [str(number) for number in range(12)]
    link.asks(*texts[:6])
    pair.advance(0.2)
    request(pair.server, end)
    link.asks(*texts[6:])
    pair.advance(900)
    assert pair.server.handled == texts
    assert sorted(pair.client.answers) == sorted((text, f"re {text}") for text in texts)


def test_terminated_sequence_with_a_gap_delivers_nothing_behind_it_and_its_successor_does() -> None:
    pair = Pair(policy=replace(DESTINATION, assurance=DeliveryAssurance.EXACTLY_ONCE))
    link = pair.link()
    pair.lose("message 2", 5)
    link.notes(*"abcde")
    pair.advance(0.5)
    request(pair.server, DestinationEnd.TERMINATE)
    pair.advance(300)
    assert pair.server.handled == list("abcde")
    assert pair.client.letters() == []


def test_termination_in_ws_rm_1_0_waits_until_no_message_is_missing() -> None:
    # What is behind the gap is acknowledged: it would be delivered before the missing message, which a successor has.
    pair = Pair()
    link = pair.link(RM10_SOAP12)
    pair.lose("message 2", 4)
    link.notes(*"abc")
    pair.advance(0.5)
    request(pair.server, DestinationEnd.TERMINATE)
    pair.advance(3)
    assert not pair.server.destination().machine.tombstone
    pair.advance(600)
    assert pair.server.destination().machine.tombstone
    link.notes(*"de")
    pair.advance(600)
    assert pair.server.handled == list("abcde")
