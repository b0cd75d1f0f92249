"""Destinations of other products: how a source reacts to their observed behavior (LIVE rules)."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from mercury.engine.exchange import ACCEPTED, Purpose
from mercury.statemachine.events import FailureReason
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.tables import RmsState
from mercury.storage.records import RmsRecord
from mercury.testing import Flight
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP12, Foreign, answer_to, brought, identifier_in
from .harness import ASK, PATIENT, Link, Pair, body

OLD = pytest.mark.parametrize("protocol", [RM10_SOAP11, RM10_SOAP12], ids=str)


class Theirs:
    """A client with a sequence at a scripted destination."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, *texts: str, created: str = "", **changes: object) -> None:
        """:param created: elements of its CreateSequenceResponse."""
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.pair.server.stop()
        self.link: Link = self.pair.link(protocol, **changes)
        self.link.notes(*texts)
        self.pair.turn()
        answer = self.foreign.created("urn:theirs", self.pair.client.source().create_message_id, extra=created)
        answer_to(self.pair.client, answer, purpose="CreateSequence")
        self.pair.turn()

    def acknowledge(self, *ranges: tuple[int, int], final: bool = False, extra: str = "") -> None:
        """An acknowledgement comes, on a connection of its own."""
        block = self.foreign.acknowledgement("urn:theirs", ranges, final=final, extra=extra)
        brought(self.pair.client, self.foreign.alone(block))
        self.pair.turn()

    def respond(self, request: str, text: str) -> None:
        """A response comes to the client's address, outside a sequence."""
        answer = f"{ASK}Response", body(text).decode()
        brought(self.pair.client, self.foreign.envelope(*answer, relates_to=request, to="http://client/responses"))
        self.pair.turn()

    def pass_by(self, seconds: float) -> None:
        """Time passes; the destination takes every connection and says nothing."""
        self.pair.advance(seconds)


# --- LastMessage and TerminateSequence -------------------------------------------------------------------------------


@OLD
def test_a_bare_last_message_leaves_when_everything_before_it_is_acknowledged(protocol: Protocol) -> None:
    # LIVE-03: Metro closes the sequence at its arrival, and refuses what it overtook forever.
    theirs = Theirs(protocol, "one", "two", "three")
    theirs.link.close()
    theirs.pass_by(0.5)
    assert "LastMessage" not in theirs.pair.seen
    theirs.acknowledge((1, 1), (3, 3))
    theirs.pass_by(0.1)
    assert "LastMessage" not in theirs.pair.seen
    theirs.acknowledge((1, 3))
    theirs.pass_by(0.1)
    assert theirs.pair.count("LastMessage") == 1
    theirs.acknowledge((1, 4))
    assert theirs.pair.client.source().machine.state is RmsState.ENDING


def with_requests(protocol: Protocol, *texts: str, listens: bool = False, **changes: object) -> tuple[Pair, Foreign]:
    """A client whose sequence of requests, after which it is closed, a scripted destination has made."""
    pair, foreign = Pair(), Foreign(protocol)
    pair.server.stop()
    link = pair.link(protocol, listens=listens, **changes)
    link.asks(*texts)
    link.close()
    pair.turn()
    request = pair.client.source().create_message_id
    created = foreign.created("urn:theirs", request, accept="http://server/services/orders")
    answer_to(pair.client, created, purpose="CreateSequence")
    pair.turn()
    return pair, foreign


@OLD
def test_a_bare_last_message_leaves_when_every_response_is_fetched(protocol: Protocol) -> None:
    # LIVE-03: a closed sequence refuses the repeated request that would fetch the response.
    pair, foreign = with_requests(protocol, "one")
    request = next(iter(pair.client.store.committed.rms.by_message_id))
    offered = pair.client.source().offered or ""
    acknowledged = foreign.acknowledgement("urn:theirs", ((1, 1),))
    answer_to(pair.client, foreign.alone(acknowledged), purpose="message")
    pair.advance(5)
    assert pair.count("message 1") > 1
    assert "LastMessage" not in pair.seen
    brought(pair.client, foreign.respond(offered, 1, request, "re one"))
    pair.advance(5)
    assert pair.client.answers == [("one", "re one")]
    assert "LastMessage" in pair.seen


@OLD
def test_a_bare_last_message_waits_for_responses_to_an_address(protocol: Protocol) -> None:
    # LIVE-03: Metro acknowledges requests before it sends their responses, and sends none after LastMessage.
    pair, foreign = with_requests(protocol, "one", listens=True)
    request = next(iter(pair.client.store.committed.rms.by_message_id))
    offered = pair.client.source().offered or ""
    acknowledged = foreign.acknowledgement("urn:theirs", ((1, 1),))
    brought(pair.client, foreign.alone(acknowledged))
    pair.advance(5)
    assert "LastMessage" not in pair.seen
    brought(pair.client, foreign.respond(offered, 1, request, "re one"))
    pair.advance(5)
    assert pair.client.answers == [("one", "re one")]
    assert "LastMessage" in pair.seen


@OLD
def test_a_bare_last_message_leaves_after_a_minute_to_a_destination_that_responds_only_then(protocol: Protocol) -> None:
    pair, foreign = with_requests(protocol, "one", listens=True)
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),))))
    pair.advance(59)
    assert "LastMessage" not in pair.seen
    pair.advance(3)
    assert "LastMessage" in pair.seen


def test_acknowledged_request_whose_exchange_is_open_is_not_repeated() -> None:
    # LIVE-14: Metro sends no response any more after one whose request was repeated.
    pair, foreign = with_requests(RM11_SOAP12, "one")
    open_exchanges = {1}
    pair.client.engine.source.is_in_flight = lambda _, number, acknowledged: acknowledged and number in open_exchanges
    answer_to(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),))), purpose="message")
    pair.advance(20)
    assert pair.count("message 1") == 1
    open_exchanges.clear()
    pair.advance(20)
    assert pair.count("message 1") > 1, "the exchange has ended without a response"


def test_close_sequence_does_not_go_first_while_responses_are_missing() -> None:
    # LIVE-07
    pair, _ = with_requests(RM11_SOAP12, "one", close_unacknowledged_after=60.0)
    pair.advance(200)
    assert "CloseSequence" not in pair.seen


@OLD
def test_only_a_request_names_an_address_for_its_response(protocol: Protocol) -> None:
    # LIVE-13: one keeps an acknowledgement for the response when ReplyTo and AcksTo are one address.
    theirs = Theirs(protocol, "one", close=False)
    (request,) = theirs.link.asks("two")
    theirs.pair.turn()
    assert reply_tos(theirs.pair) == [None, "http://client/responses"]
    theirs.link.close()
    theirs.acknowledge((1, 2))
    theirs.respond(request, "re two")
    assert reply_tos(theirs.pair)[2:] == [None]
    assert "LastMessage" in theirs.pair.seen


def reply_tos(pair: Pair) -> list[str | None]:
    """The addresses that the messages on the wire name for their responses."""
    posted = [flight.exchange.outgoing for flight in pair.client.world.wire if flight.exchange is not None]
    named = [each.envelope.reply_to for each in posted if each.purpose is Purpose.MESSAGE]
    return [each and each.address for each in named]


def test_a_repeated_terminate_sequence_that_is_accepted_without_a_word_settles_the_end() -> None:
    # LIVE-08: the answer to the first one was lost, and the destination has forgotten the sequence.
    theirs = Theirs(RM11_SOAP12, "one", close=False)
    theirs.link.close()
    theirs.acknowledge((1, 1))
    answer_to(theirs.pair.client, ACCEPTED, purpose="TerminateSequence")
    assert theirs.pair.client.source().machine.alive, "to the first one the answer may still come, to ReplyTo"
    theirs.pair.now += 1
    theirs.pair.turn()
    answer_to(theirs.pair.client, ACCEPTED, purpose="TerminateSequence")
    assert theirs.pair.count("TerminateSequence") == 2
    assert theirs.pair.client.source().machine.state is RmsState.ENDED


# --- CreateSequence --------------------------------------------------------------------------------------------------


class Forgetful:
    """A client whose first CreateSequence was answered, but the answer was lost; its repetition is refused.

    Metro does so: the identifier that is offered is known to it (RM-CS-13).
    """

    def __init__(self, protocol: Protocol = RM11_SOAP12, **changes: object) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.client = self.pair.client
        self.pair.server.stop()
        self.link: Link = self.pair.link(protocol, **changes)

    def refuse_the_repetition(self) -> None:
        """The answer to what is asked for now is lost, and its repetition is refused."""
        self.wait()
        self.pair.carry()
        self.repeat()

    def wait(self) -> None:
        """Until something is on the wire."""
        self.pair.turn()
        for _ in range(100):
            if self.pair.wire:
                return
            self.pair.now += 1
            self.pair.turn()

    def repeat(self) -> None:
        self.wait()
        self.answer(self.foreign.fault("CreateSequenceRefused"))

    def answer(self, http: HttpMessage) -> None:
        answer_to(self.client, http, purpose="CreateSequence")
        self.pair.turn()

    @property
    def newest(self) -> RmsRecord:
        return self.client.sources()[-1]


def test_a_refusal_of_a_repeated_create_sequence_is_not_final() -> None:
    story = Forgetful()
    story.link.notes("one", "two")
    story.refuse_the_repetition()
    old, new = story.client.sources()
    assert old.create_message_id != new.create_message_id
    assert old.offered != new.offered
    story.answer(story.foreign.created("urn:second", new.create_message_id))
    assert [flight.name for flight in story.pair.wire] == ["message 1", "message 2"]
    assert story.newest.machine.identifier == "urn:second"
    assert story.client.letters() == []
    assert story.client.reported.failed == []
    story.pair.assert_sound()


def test_a_refusal_of_the_first_create_sequence_and_of_a_fresh_one_is_final() -> None:
    story = Forgetful()
    story.link.notes("one")
    story.refuse_the_repetition()
    for _offer in (True, False):
        story.answer(story.foreign.fault("CreateSequenceRefused"))
    assert story.newest.machine.failure is FailureReason.REFUSED
    assert story.client.letters_by_text() == [("one", "not delivered")]


@pytest.mark.parametrize("how", ["posted", "in the reply"])
def test_the_sequence_that_was_replaced_is_ended_when_its_response_comes_late(how: str) -> None:
    story = Forgetful()
    story.link.asks("one")
    story.pair.turn()
    first = story.client.source()
    late = story.foreign.created("urn:orphan", first.create_message_id, accept="http://server/services/orders")
    request = story.pair.wire[0].exchange
    assert request is not None
    story.pair.wire.clear()
    story.repeat()
    story.answer(story.foreign.created("urn:second", story.newest.create_message_id))
    if how == "posted":
        brought(story.client, late)
    else:
        story.client.answered(request.outgoing, late)
    story.pair.now += 1
    story.pair.turn()
    assert "TerminateSequence" in [flight.name for flight in story.pair.wire]
    assert "CloseSequence" not in story.pair.seen
    assert story.client.destinations() == [], "what it offered is not used"
    answer_to(
        story.client, story.foreign.ended("TerminateSequenceResponse", "urn:orphan", ""), purpose="TerminateSequence"
    )
    assert [each.machine.alive for each in story.client.sources()] == [False, True]
    assert story.newest.machine.identifier == "urn:second"
    assert story.client.letters() == []
    story.pair.assert_sound()


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP12], ids=str)
def test_an_end_is_not_forgotten_when_create_sequence_is_sent_anew(protocol: Protocol) -> None:
    story = Forgetful(protocol)
    story.link.notes("one")
    story.link.close()
    story.refuse_the_repetition()
    old, new = story.client.sources()
    assert new.machine.last_message == old.machine.last_message
    assert new.machine.state is RmsState.CREATING_LAST


def test_each_further_create_sequence_that_is_sent_anew_waits_longer_and_the_limit_counts_them_all() -> None:
    story = Forgetful(retransmission=replace(PATIENT, max_attempts=8))
    story.link.notes("one")
    for _ in range(4):
        story.refuse_the_repetition()
    assert story.pair.when("CreateSequence") == [0, 1, 1, 2, 3, 4, 6, 7]
    story.pair.advance(60)
    assert story.pair.count("CreateSequence") == 8
    assert story.client.letters_by_text() == [("one", "not delivered")]


# --- acknowledgements at CloseSequence only --------------------------------------------------------------------------


def test_a_destination_that_acknowledges_only_at_close_is_asked_when_all_is_sent_and_the_time_is_over() -> None:
    # LIVE-07: it answers AckRequested with nothing.
    theirs = Theirs(RM11_SOAP12, "one", "two", close_unacknowledged_after=60.0, end_attempts=1)
    theirs.link.close()
    theirs.pass_by(50)
    assert "CloseSequence" not in theirs.pair.seen
    theirs.pass_by(30)
    assert "CloseSequence" in theirs.pair.seen
    theirs.pass_by(120)
    assert theirs.pair.client.source().machine.alive, "asking does not count as telling the end"
    theirs.acknowledge((1, 2), final=True)
    assert theirs.pair.client.source().machine.state is RmsState.ENDING


def test_messages_left_out_of_a_silent_destinations_final_acknowledgement_move_to_a_successor() -> None:
    theirs = Theirs(RM11_SOAP12, "one", "two", close_unacknowledged_after=60.0)
    theirs.link.close()
    theirs.pass_by(90)
    theirs.acknowledge((1, 1), final=True)
    first, second = theirs.pair.client.sources()
    assert first.machine.moved.as_tuples() == ((2, 2),)
    assert second.machine.last_number == 1


@pytest.mark.parametrize("changes", [{"close_unacknowledged_after": None}, {"close": False}, {"window": 1}], ids=str)
def test_close_sequence_does_not_go_first_where_the_policy_forbids_it_or_not_all_is_sent(
    changes: dict[str, object],
) -> None:
    theirs = Theirs(RM11_SOAP12, "one", "two", **changes)
    theirs.link.close()
    theirs.pass_by(200)
    assert "CloseSequence" not in theirs.pair.seen


def test_close_sequence_does_not_go_first_to_a_destination_that_discards_behind_a_gap() -> None:
    # Number 1 is late: what came behind it would be discarded, and be dead letters, though the source sends it again.
    behavior = "<r:IncompleteSequenceBehavior>DiscardFollowingFirstGap</r:IncompleteSequenceBehavior>"
    theirs = Theirs(RM11_SOAP12, "one", "two", created=behavior)
    theirs.link.close()
    theirs.pass_by(200)
    assert "CloseSequence" not in theirs.pair.seen


def test_close_sequence_does_not_go_first_when_something_was_acknowledged() -> None:
    theirs = Theirs(RM11_SOAP12, "one", "two")
    theirs.link.close()
    theirs.acknowledge((1, 1))
    theirs.pass_by(200)
    assert "CloseSequence" not in theirs.pair.seen


# --- a destination that ends every sequence and takes nothing --------------------------------------------------------


def _ended_with(foreign: Foreign, how: str, identifier: str) -> HttpMessage:
    """What a message is answered with, so that it moves to a successor."""
    final = foreign.acknowledgement(identifier, (), final=True)
    if how == "empty Final":
        return foreign.alone(final)
    if how == "MessageNumberRollover":
        return foreign.fault(how, identifier, detail="<r:MaxMessageNumber>0</r:MaxMessageNumber>")
    return foreign.fault(how, identifier, headers=final)


class Grudging:
    """A client whose destination makes each sequence that it is asked for, and ends it without taking a message."""

    def __init__(self, how: str) -> None:
        self.pair, self.foreign, self.how, self.made = Pair(), Foreign(), how, 0
        self.pair.server.stop()
        self.link = self.pair.link(offer=False)
        self.link.notes("one")

    def pass_by(self, seconds: float) -> None:
        pair, until = self.pair, self.pair.now + seconds
        while pair.now < until:
            pair.turn()
            flights, pair.wire = pair.wire, []
            for flight in flights:
                assert flight.exchange is not None
                flight.exchange.over = True
                pair.client.answered(flight.exchange.outgoing, self._reply(flight))
            pair.now += 0.0 if flights else 0.25

    def _reply(self, flight: Flight) -> HttpMessage:
        foreign, message_id = self.foreign, flight.envelope.message_id
        if flight.name == "CreateSequence":
            self.made += 1
            assert self.made < 50, "sequences are made without a pause"
            return foreign.created(f"urn:theirs:{self.made}", message_id)
        identifier = identifier_in(flight.http)
        if flight.name.startswith("message"):
            return _ended_with(foreign, self.how, identifier)
        final = foreign.acknowledgement(identifier, (), final=True)
        return foreign.ended(f"{flight.name}Response", identifier, message_id or "", headers=final)


ENDINGS = ["MessageNumberRollover", "empty Final", "SequenceClosed", "SequenceTerminated"]


@pytest.mark.parametrize("how", ENDINGS)
def test_destination_that_ends_each_sequence_without_taking_anything_is_asked_for_the_next_with_pauses(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    story = Grudging(how)
    with caplog.at_level(logging.WARNING):
        story.pass_by(40)
    assert story.pair.when("CreateSequence") == [0, 0, 1, 3, 7, 15, 23, 31, 39], "the first successor comes at once"
    assert story.link.pending == 1
    assert (how if how != "empty Final" else "has taken none of its messages") in (story.link.last_error or "")
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == (how != "empty Final"), "a fault that comes again with each sequence is logged once"
    assert story.pair.client.letters() == []


def test_message_goes_out_and_the_error_is_over_when_the_destination_accepts_it_later() -> None:
    story = Grudging("SequenceClosed")
    story.pass_by(10)
    story.pair.server.start()
    story.pair.advance(60)
    assert story.pair.server.handled == ["one"]
    story.pair.server.stop()
    story.pair.client.turn()
    assert story.pair.client.sources()[-1].last_error is None
