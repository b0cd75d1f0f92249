"""A destination that states how many more messages fit, and sources that wait for it (docs/protocol.md, section 14)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.exchange import Arrival
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP12, RM11_SOAP12, Foreign, identifier_in
from .harness import DESTINATION, PATIENT, Node, Pair, World
from .harness.words import SERVICE

BOTH = pytest.mark.parametrize("protocol", [RM10_SOAP12, RM11_SOAP12], ids=str)
ACKS = "http://friend.example/acks"


def away(_context: MessageContext, _text: str) -> None:
    """The application cannot work for a while."""
    raise ConnectionError("the application's database is away")


def remaining(http: HttpMessage) -> int | None:
    """BufferRemaining of the only acknowledgement in a message."""
    (acknowledgement,) = decode(http.body, http.content_type, http.soap_action).acknowledgements
    return acknowledgement.buffer_remaining


class Slow:
    """A destination whose application is away, and a foreign source."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, *, acks_to: str | None = None, **policy: object) -> None:
        keep = {"incomplete_behavior": IncompleteSequenceBehavior.NO_DISCARD}
        self.node = Node("server", World(), policy=replace(DESTINATION, **{**keep, **policy}))
        self.node.on_call = away
        self.foreign = Foreign(protocol)
        more = {} if acks_to is None else {"acks_to": acks_to}
        self.identifier = self.foreign.open(self.node, **more)
        self.posted: list[HttpMessage] = []

    def note(self, number: int, text: str | None = None, **more: str) -> HttpMessage:
        return self.node.get(self.foreign.note(self.identifier, number, text or str(number), **more))

    def asked(self) -> HttpMessage:
        return self.node.get(self.foreign.alone(self.foreign.ack_requested(self.identifier)))


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_acknowledgements_state_how_many_more_messages_fit(protocol: Protocol) -> None:
    # FC-01, IOP-WCF-07
    story = Slow(protocol, max_backlog=4)
    assert [remaining(story.note(number)) for number in (1, 2, 3)] == [3, 2, 1]
    assert remaining(story.asked()) == 1
    story.node.on_call = None
    story.node.world.advance(100)
    assert remaining(story.asked()) == 4


def test_bytes_limit_it_too() -> None:
    story = Slow(max_backlog_bytes=10_000)
    assert remaining(story.note(1, "x" * 2000)) in (2, 3)


def test_nothing_is_stated_while_many_messages_fit_nor_if_it_is_switched_off() -> None:
    assert remaining(Slow().note(1)) is None
    assert b"BufferRemaining" not in Slow().note(1).body
    assert remaining(Slow(max_backlog=4, buffer_remaining=False).note(1)) is None


def test_figure_that_was_stated_once_is_stated_in_every_later_acknowledgement() -> None:
    # .NET counts its messages down from the last figure that it read: without another it stops.
    story = Slow(max_backlog=4100)
    for number in range(2, 8):
        assert (remaining(story.note(number)) is None) == (number < 6)
    story.node.on_call = None
    story.note(1)
    story.node.world.advance(100)
    assert remaining(story.asked()) == 4096
    story.node.stop()
    story.node.start()
    assert remaining(story.asked()) == 4096


def test_source_that_cannot_be_told_of_new_room_is_never_told_that_nothing_fits() -> None:
    story = Slow(max_backlog=2)
    assert [remaining(story.note(number)) for number in (1, 2)] == [1, 1]


@BOTH
def test_full_destination_tells_of_new_room_by_itself_when_its_application_is_back(protocol: Protocol) -> None:
    # FC-02
    pair = Pair(policy=replace(DESTINATION, max_backlog=4))
    pair.server.on_call = away
    link = pair.link(protocol, window=4, retransmission=replace(PATIENT, base=1000.0, cap=1000.0))
    link.notes(*"abcdefgh")
    pair.advance(30)
    assert pair.seen.count("message 5") == 0, "nothing is sent that does not fit"
    assert "fault Receiver" not in pair.seen
    assert pair.client.source().machine.flow.room == 0
    asked = pair.count("AckRequested")
    pair.server.on_call = None
    pair.advance(70)
    assert pair.server.handled == list("abcdefgh")
    assert pair.count("AckRequested") == asked, "the source need not ask"
    link.close()
    pair.advance(2000)
    pair.assert_sound()


def test_new_room_is_told_again_when_the_acknowledgement_could_not_be_posted() -> None:
    pair = Pair(policy=replace(DESTINATION, max_backlog=4))
    pair.server.on_call = away
    link = pair.link(window=4, retransmission=replace(PATIENT, base=1000.0, cap=1000.0))
    link.notes(*"abcdefgh")
    pair.advance(5)
    pair.lose("acknowledgement")
    pair.server.on_call = None
    pair.advance(80)
    assert pair.server.handled == list("abcdefgh")


def test_new_room_is_told_after_a_crash_of_the_destination() -> None:
    pair = Pair(policy=replace(DESTINATION, max_backlog=4))
    pair.server.on_call = away
    link = pair.link(window=4, retransmission=replace(PATIENT, base=1000.0, cap=1000.0))
    link.notes(*"abcdefgh")
    pair.advance(5)
    pair.server.stop()
    pair.server.start()
    assert pair.server.destination().machine.room == 0
    pair.server.on_call = None
    pair.advance(80)
    assert pair.server.handled == list("abcdefgh")


@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
@pytest.mark.parametrize("at", list(AcknowledgeAt), ids=str)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_source_and_destination_with_little_room_exchange_everything(
    listens: bool, at: AcknowledgeAt, most: int
) -> None:
    pair = Pair(policy=replace(DESTINATION, max_backlog=most, acknowledge_at=at))
    pair.server.on_call = away
    link = pair.link(listens=listens, window=8)
    texts = [str(number) for number in range(30)]
    link.notes(*texts)
    link.close()
    pair.advance(20)
    pair.server.on_call = None
    pair.advance(600)
    assert pair.server.handled == texts
    pair.assert_ended()


def test_sequence_that_is_delivered_at_its_end_only_is_sent_whole_through_a_small_buffer() -> None:
    entire = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
    pair = Pair(policy=replace(DESTINATION, max_backlog=2, incomplete_behavior=entire))
    link = pair.link(window=4)
    link.notes(*"abcdef")
    link.close()
    pair.advance(100)
    assert pair.server.handled == list("abcdef")
    pair.assert_ended()


def test_gap_is_filled_although_what_waits_above_it_fills_the_buffer() -> None:
    pair = Pair(policy=replace(DESTINATION, max_backlog=3))
    pair.lose("message 1")
    link = pair.link(window=8)
    link.notes(*"abcdefgh")
    link.close()
    pair.advance(100)
    assert pair.server.handled == list("abcdefgh")
    pair.assert_ended()


def test_bytes_of_other_sequences_of_a_peer_leave_room_for_one_message_at_least() -> None:
    kilo, no_share = 1024, {"max_sequences": 10**6, "max_sequences_per_peer": 10**6}
    node = Node("server", World(), policy=DESTINATION, max_backlog_bytes_per_peer=20 * kilo, **no_share)
    node.on_call = away
    foreign = Foreign()

    def posted(http: HttpMessage) -> HttpMessage:
        answers = node.receive([Arrival(http=http, service=SERVICE, url=node.service_url, peer="192.0.2.1")])
        assert answers is not None
        return answers[0].http

    first, second = (identifier_in(posted(foreign.create())) for _ in range(2))
    assert remaining(posted(foreign.note(first, 1, "x" * 15 * kilo))) == 1
    assert remaining(posted(foreign.note(second, 1, "x" * kilo))) in (1, 2)
