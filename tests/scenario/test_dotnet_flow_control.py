"""A destination that sends its free buffer space, as .NET does (docs/protocol.md, section 14)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.events import FailureReason
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.tables import RmsState
from mercury.statemachine.waiting import waits_for
from mercury.wire.envelope import HttpMessage

from .foreign import NETRM, RM10_SOAP12, RM11_SOAP12, Foreign, answer_to, brought
from .harness import PATIENT, Pair

BOTH = pytest.mark.parametrize("protocol", [RM10_SOAP12, RM11_SOAP12], ids=str)
LISTENS = pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
TEXTS = [str(number) for number in range(1, 21)]


class Full:
    """A client of a destination whose acknowledgements have BufferRemaining."""

    def __init__(self, protocol: Protocol = RM10_SOAP12, *, listens: bool = True, **changes: object) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.client, self.listens = self.pair.client, listens
        self.pair.server.stop()
        self.link = self.pair.link(protocol, listens=listens, **changes)
        self.link.notes(*TEXTS)
        self.pair.turn()
        created = self.foreign.created("urn:theirs", self.client.source().create_message_id)
        answer_to(self.client, created, purpose="CreateSequence")
        self.pair.turn()

    def acknowledgement(self, upto: int, room: int | None) -> HttpMessage:
        remaining = "" if room is None else f'<n:BufferRemaining xmlns:n="{NETRM}">{room}</n:BufferRemaining>'
        block = self.foreign.acknowledgement("urn:theirs", ((1, upto),), extra=remaining)
        return self.foreign.alone(block)

    def say(self, upto: int, room: int | None) -> None:
        """An acknowledgement comes."""
        if self.listens:
            brought(self.client, self.acknowledgement(upto, room))
        else:
            self.client.answered(self.outgoing, self.acknowledgement(upto, room))
        self.pair.turn()

    @property
    def sent(self) -> list[str]:
        """What is on the wire now; it gets lost on its way."""
        names = [flight.name for flight in self.pair.wire]
        self._lose()
        return names

    def _lose(self) -> None:
        for flight in self.pair.wire:
            assert flight.exchange is not None
            self.outgoing = flight.exchange.outgoing
        self.pair.wire = []


@BOTH
@LISTENS
def test_no_more_messages_are_in_flight_than_the_destination_has_room_for(protocol: Protocol, listens: bool) -> None:
    # FC-02, IOP-WCF-07
    story = Full(protocol, listens=listens, window=4)
    assert story.sent == ["message 1", "message 2", "message 3", "message 4"]
    story.say(2, 3)
    assert story.sent == ["message 5"], "3 and 4 are in flight"
    story.say(5, 1)
    assert story.sent == ["message 6"]
    story.say(6, 20)
    assert story.sent == ["message 7", "message 8", "message 9", "message 10"], "no more than source.window"
    story.pair.assert_sound()


@BOTH
@LISTENS
def test_without_room_the_source_asks_at_growing_intervals_and_sends_nothing_new(
    protocol: Protocol, listens: bool
) -> None:
    # FC-02, ACT-07
    story = Full(protocol, listens=listens, window=4)
    story.sent.clear()
    story.say(4, 0)
    assert story.sent == []
    began = story.pair.clock.elapsed
    story.pair.advance(40)
    asked = [at - began for at in story.pair.when("AckRequested")]
    assert asked == [1, 2, 4, 8, 16, 24, 32, 40]
    assert story.pair.seen.count("message 5") == 0
    source = story.client.source()
    assert "BufferRemaining" in (waits_for(source.machine, source.channel.policy, 0.0) or "")
    story.say(4, 2)
    assert story.sent[-2:] == ["message 5", "message 6"]
    story.pair.assert_sound()


def test_the_answer_to_what_is_asked_comes_on_its_connection_and_opens_the_window() -> None:
    story = Full(listens=False, window=4)
    story.sent.clear()
    story.say(4, 0)
    story.pair.now += 1
    story.pair.turn()
    answer_to(story.client, story.acknowledgement(4, 3), purpose="AckRequested")
    story.pair.turn()
    assert story.sent == ["message 5", "message 6", "message 7"]


def test_acknowledgement_without_buffer_remaining_lifts_the_limit() -> None:
    # FC-01: what is absent is no limit
    story = Full(window=4)
    story.say(4, 0)
    story.sent.clear()
    story.say(4, None)
    assert story.sent == ["message 5", "message 6", "message 7", "message 8"]


def test_message_that_is_in_flight_is_sent_again_although_there_is_no_room() -> None:
    # The destination may have dropped it, and everything else there may wait for it.
    story = Full(window=4)
    story.say(2, 0)
    story.sent.clear()
    story.pair.advance(2)
    assert story.sent == []
    assert story.pair.seen[-1] == "message 3"
    assert story.pair.seen.count("message 4") == 1
    assert "AckRequested" not in story.pair.seen, "a message that is sent again asks too"


def test_room_is_remembered_over_a_crash_of_the_source() -> None:
    story = Full(window=4)
    story.say(4, 0)
    story.client.stop()
    story.client.start()
    story.pair.advance(10)
    assert "message 5" not in story.pair.seen
    assert "AckRequested" in story.pair.seen


def test_source_that_is_answered_that_there_is_no_room_does_not_give_up() -> None:
    story = Full(window=4, retransmission=replace(PATIENT, max_attempts=3))
    story.say(4, 0)
    for _ in range(20):
        story.pair.wire = []
        story.pair.advance(5)
        story.say(4, 0)
    assert story.client.source().machine.alive
    assert story.client.letters() == []


def test_source_without_room_that_hears_nothing_gives_up_at_the_limit_of_retransmissions() -> None:
    story = Full(window=4, retransmission=replace(PATIENT, max_attempts=3))
    story.say(4, 0)
    story.pair.advance(120)
    assert story.client.sources()[0].machine.failure is FailureReason.GIVEN_UP
    assert ("5", "not delivered") in story.client.letters_by_text()


@BOTH
def test_the_end_waits_until_there_was_room_for_everything(protocol: Protocol) -> None:
    story = Full(protocol, window=4)
    story.link.close()
    story.say(4, 0)
    story.pair.advance(30)
    assert story.client.source().machine.state in (RmsState.SENDING, RmsState.SENDING_LAST)
    assert not {"LastMessage", "CloseSequence", "TerminateSequence"} & set(story.pair.seen)
    for upto in range(4, 21):
        story.say(upto, 1)
    story.pair.advance(10)
    ends = "LastMessage" if protocol is RM10_SOAP12 else "CloseSequence"
    assert ends in story.pair.seen
    assert story.client.letters() == []


def test_room_that_a_client_tells_does_not_hold_back_responses_on_connections() -> None:
    # They are fetched by the requests: the client has room for what it asks for.
    node, foreign = Pair().server, Foreign(RM10_SOAP12)
    identifier = foreign.open(node, offer="urn:offered")
    full = foreign.acknowledgement(
        "urn:offered", ((0, 0),), extra=f'<n:BufferRemaining xmlns:n="{NETRM}">0</n:BufferRemaining>'
    )
    request = foreign.ask(identifier, 1, message_id="urn:one", reply_to="anonymous")
    assert node.get(request).status in (200, 202)
    node.world.run()
    again = foreign.ask(identifier, 1, message_id="urn:one", reply_to="anonymous", headers=full)
    assert b"urn:offered" in node.get(again).body
    assert node.world.seen == []
