"""The messages in flight to destinations that accept only a part of them."""

from __future__ import annotations

import pytest

from mercury.engine.exchange import ACCEPTED, Purpose
from mercury.statemachine.flow import Window
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.statemachine.waiting import waits_for
from mercury.storage.records import RmsRecord
from mercury.testing import Flight
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign, answer_to, brought
from .harness import Pair

TEXTS = [f"text {number}" for number in range(1, 41)]


class Next:
    """A destination that takes the next number only: what comes before its turn is dropped (LIVE-05).

    :param answers: whether such an exchange is answered at all; CXF in order leaves it open.
    """

    def __init__(self, protocol: Protocol = RM11_SOAP12, *, answers: bool = True, **changes: object) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.client = self.pair.client
        self.pair.server.stop()
        self.taken = 0
        self.posts = 0
        #: Numbers that get lost on their way.
        self.lost: set[int] = set()
        self.most_at_once = 0
        self.answers = answers
        self.open: list[Flight] = []
        self.link = self.pair.link(protocol, **changes)

    def start(self) -> None:
        self.pair.turn()
        answer_to(
            self.client,
            self.foreign.created("urn:theirs", self.client.source().create_message_id),
            purpose="CreateSequence",
        )

    def pass_by(self, seconds: float) -> None:
        """Time passes; what arrives in one moment arrives backwards, as parallel posts may."""
        until = self.pair.now + seconds
        while True:
            while self.pair.turn() or self.pair.wire:
                self.most_at_once = max(self.most_at_once, len(self.pair.wire))
                flights, self.pair.wire = self.pair.wire, []
                self.pair.now += 0.001
                self.posts += len(flights)
                for flight in reversed(flights):
                    self._take(flight)
            due = self.client.next_due()
            if due is None or due > until:
                break
            self.pair.now = max(due, self.pair.now + 0.001)
        self.pair.now = until

    def _take(self, flight: Flight) -> None:
        sequence = decode(flight.http.body, flight.http.content_type, flight.http.soap_action).sequence
        assert sequence is not None
        if sequence.message_number in self.lost:
            self.lost.discard(sequence.message_number)
            return
        if sequence.message_number == self.taken + 1:
            self.taken += 1
            self._answer(flight, self._acknowledgement())
            if not self.answers:
                opened, self.open = self.open, []
                for each in sorted(opened, key=_number):
                    self._take(each)
        elif sequence.message_number <= self.taken:
            self._answer(flight, self._acknowledgement())
        elif self.answers:
            self._answer(flight, ACCEPTED)
        else:
            self.open.append(flight)

    def _acknowledgement(self) -> HttpMessage:
        return self.foreign.alone(self.foreign.acknowledgement("urn:theirs", ((1, self.taken),)))

    def _answer(self, flight: Flight, reply: HttpMessage) -> None:
        if flight.exchange is not None and not flight.exchange.over:
            flight.exchange.over = True
            self.client.answered(flight.exchange.outgoing, reply)


def _number(flight: Flight) -> int:
    sequence = flight.envelope.sequence
    assert sequence is not None
    return sequence.message_number


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP11], ids=str)
def test_a_destination_that_takes_only_the_next_number_is_sent_one_after_the_other(protocol: Protocol) -> None:
    story = Next(protocol)
    story.link.notes(*TEXTS)
    story.start()
    story.pass_by(0)
    assert story.taken == 1, "of those that came together it took the first"
    story.pass_by(1)
    assert story.taken == 40
    assert story.posts == 40 + 39
    story.pair.assert_sound()


def test_it_is_not_slower_for_ever_and_is_rarely_tested_for_more() -> None:
    story = Next()
    for _ in range(5):
        story.link.notes(*TEXTS)
    story.start()
    story.pass_by(8)
    assert story.taken == 200
    assert story.posts < 2 * 200


def test_the_window_grows_again_when_the_destination_takes_everything() -> None:
    story = Next(window=16)
    story.link.notes(*TEXTS[:16])
    story.start()
    story.pass_by(2)
    assert story.client.source().machine.flow.size == 2
    brought(story.client, story._acknowledgement())
    pair, foreign, sent = story.pair, story.foreign, 16
    for _ in range(8):
        story.link.notes(*TEXTS[:16])
        for _ in range(40):
            pair.turn()
            if not pair.wire:
                break
            story.most_at_once = len(pair.wire)
            sent = max([sent, *(_number(flight) for flight in pair.wire)])
            pair.wire.clear()
            brought(story.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, sent),))))
    assert story.client.source().machine.flow == Window()
    assert story.most_at_once == 16


def test_exchanges_behind_a_gap_that_are_left_open_do_not_multiply_and_the_rest_follows_at_once() -> None:
    story = Next(answers=False)
    story.link.notes(*TEXTS)
    story.lost = {3}
    story.start()
    story.pass_by(0.9)
    assert story.taken == 2
    assert len(story.open) == 37
    story.pass_by(0.2)
    assert story.taken == 40
    assert story.posts == 40 + 1, "of those behind the gap none was sent again"
    assert story.client.rows() == 0


def test_a_message_that_closes_a_gap_is_marked_as_repeated() -> None:
    story = Next(answers=False)
    story.link.notes(*TEXTS)
    story.lost = {3}
    story.start()
    story.pass_by(0.9)
    assert [flight.exchange.outgoing.repeated for flight in story.open if flight.exchange] == [False] * 37
    story.pair.now += 0.2
    story.pair.turn()
    again = [(_number(flight), flight.exchange.outgoing.repeated) for flight in story.pair.wire if flight.exchange]
    assert again == [(3, True)]


def test_a_loss_in_the_middle_leaves_the_window_as_it_is() -> None:
    pair = Pair()
    pair.lose("message 3")
    pair.link(window=8).notes(*TEXTS)
    pair.advance(0.9)
    assert pair.client.source().machine.flow == Window()
    pair.advance(5)
    assert pair.server.handled == TEXTS
    assert pair.when("message 3") == [0, 1]


def test_a_destination_that_was_away_is_not_taken_for_one_that_takes_only_the_next_number() -> None:
    story = Next(retransmission=RetransmissionPolicy(base=1.0, jitter=0.2))
    story.link.notes("the first")
    story.start()
    story.pass_by(0)
    story.client.ids.luck = 0.9
    story.lost = set(range(2, 42))
    story.link.notes(*TEXTS)
    endpoint = story.client.source().channel.endpoint
    story.client.engine.endpoint_errors.failed(endpoint, f"{endpoint}: Connection refused", story.pair.now)
    story.pass_by(0.5)
    story.client.engine.endpoint_errors.worked(endpoint, story.pair.now)  # and what that has brought is not stored yet
    story.pass_by(0.4)
    assert story.client.source().machine.flow == Window(), "nothing got there: it was not asked what it takes"


def test_a_small_window_outlives_a_crash() -> None:
    story = Next()
    story.link.notes(*TEXTS)
    story.start()
    story.pass_by(0.9)
    story.pair.now += 0.2
    story.pair.turn()
    story.pair.wire.clear()
    story.client.crash()
    assert story.client.source().machine.flow.size == 1


# --- a destination that leaves a number out --------------------------------------------------------------------------


class Forgetful:
    """A destination that accepts everything and never acknowledges some numbers: a CXF client acknowledges no response
    to a request that it has given up (LIVE-15).
    """

    def __init__(self, *forgotten: int, protocol: Protocol = RM11_SOAP12) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.client = self.pair.client
        self.pair.server.stop()
        self.forgotten = forgotten
        self.taken: list[int] = []
        self.link = self.pair.link(protocol)
        self.link.notes("the first")
        self.pair.turn()
        created = self.foreign.created("urn:theirs", self.client.source().create_message_id)
        answer_to(self.client, created, purpose="CreateSequence")
        self.pass_by(0)

    def pass_by(self, seconds: float) -> None:
        until = self.pair.now + seconds
        while True:
            while self.pair.turn() or self.pair.wire:
                flights, self.pair.wire = self.pair.wire, []
                for flight in flights:
                    self._take(flight)
            due = self.client.next_due()
            if due is None or due > until:
                break
            self.pair.now = max(due, self.pair.now + 0.001)
        self.pair.now = until

    def _take(self, flight: Flight) -> None:
        assert flight.exchange is not None
        self.client.answered(flight.exchange.outgoing, ACCEPTED)
        number = _number(flight)
        if number not in self.forgotten:
            self.taken.append(number)
            ranges = tuple((each, each) for each in sorted(set(self.taken)))
            brought(self.client, self.foreign.alone(self.foreign.acknowledgement("urn:theirs", ranges)))


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP11], ids=str)
def test_a_message_behind_one_that_is_never_acknowledged_is_sent_at_once(protocol: Protocol) -> None:
    # LIVE-15
    story = Forgetful(2, protocol=protocol)
    story.link.notes("forgotten")
    story.pass_by(60)
    story.link.notes("behind")
    story.pass_by(0)
    assert story.taken == [1, 3]
    story.pass_by(600)
    story.link.notes("far behind")
    story.pass_by(0)
    assert story.taken == [1, 3, 4]
    assert [record.machine.acknowledged.as_tuples() for record in story.client.sources()] == [((1, 1), (3, 4))]


def test_messages_behind_several_that_are_never_acknowledged_are_sent_some_pauses_later() -> None:
    # LIVE-15
    story = Forgetful(2, 3, 4)
    story.link.notes("two", "three", "four")
    story.pass_by(16)
    story.link.notes("behind")
    story.pass_by(8)
    assert story.taken == [1, 5]
    story.link.notes("far behind")
    story.pass_by(0)
    assert story.taken == [1, 5, 6]


def test_a_window_that_was_shrunk_for_a_number_that_is_never_acknowledged_has_its_size_again() -> None:
    # LIVE-05, LIVE-15: whether it takes only the next number is not known before another one was tried
    story = Forgetful(*range(2, 6))
    story.link.notes(*TEXTS[:4])
    story.pass_by(0.5)
    brought(story.client, story.foreign.alone(story.foreign.acknowledgement("urn:theirs", ((1, 1),))))
    story.pass_by(2)
    assert story.client.source().machine.flow.size == 1
    story.forgotten = (2,)
    story.pass_by(30)
    assert story.client.source().machine.flow == Window()
    assert sorted(set(story.taken)) == [1, 3, 4, 5]


# --- Nack ------------------------------------------------------------------------------------------------------------


def test_a_destination_that_always_nacks_is_answered_once_at_once_and_then_by_the_pauses() -> None:
    pair, foreign = Pair(), Foreign(RM11_SOAP12)
    pair.server.stop()
    pair.link().notes("one")
    pair.turn()
    answer_to(
        pair.client, foreign.created("urn:theirs", pair.client.source().create_message_id), purpose="CreateSequence"
    )
    nack = foreign.alone(foreign.acknowledgement("urn:theirs", extra="<r:Nack>1</r:Nack>"))
    pair.turn()
    until = pair.now + 4
    while pair.now < until:
        while pair.turn() or pair.wire:
            if pair.wire:
                answer_to(pair.client, nack, purpose=Purpose.MESSAGE.value)
        pair.now += 0.05
    assert pair.count("message 1") == 3
    assert pair.when("message 1") == pytest.approx([0, 0, 2], abs=0.06)


# --- requests --------------------------------------------------------------------------------------------------------


def answer(pair: Pair, reply: HttpMessage) -> None:
    """The reply to one of the messages on the wire."""
    answer_to(pair.client, reply, purpose=Purpose.MESSAGE.value)


def client_whose_requests_are_acknowledged(**changes: object) -> tuple[Pair, Foreign]:
    """A client without an address with a window of 4, and four requests that are acknowledged and not answered."""
    pair, foreign = Pair(), Foreign(RM11_SOAP12)
    pair.server.stop()
    link = pair.link(listens=False, window=4, **changes)
    link.asks(*TEXTS[:4])
    pair.turn()
    created = foreign.created("urn:theirs", pair.client.source().create_message_id, accept="http://server/x")
    answer_to(pair.client, created, purpose="CreateSequence")
    pair.turn()
    answer(pair, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 4),))))
    link.asks(*TEXTS[4:8])
    link.notes("behind")
    pair.turn()
    return pair, foreign


def test_requests_that_wait_for_their_responses_do_not_fill_the_window() -> None:
    pair, foreign = client_whose_requests_are_acknowledged()
    assert [name for name in pair.seen if name.startswith("message")] == [f"message {number}" for number in range(1, 9)]
    answer(pair, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 8),))))
    pair.turn()
    assert pair.count("message 9") == 1, "what comes behind them is not stuck"


def test_acknowledged_requests_are_still_repeated_until_they_are_answered() -> None:
    pair, _ = client_whose_requests_are_acknowledged()
    pair.wire.clear()
    pair.now += 1
    pair.turn()
    assert sorted(flight.name for flight in pair.wire) == [f"message {number}" for number in range(1, 9)]


def test_no_more_requests_are_sent_than_may_be_unanswered() -> None:
    pair, foreign = client_whose_requests_are_acknowledged(max_unanswered=6)
    assert pair.client.source().machine.last_number == 6
    (first,) = [row.message_id for row in rows(pair) if row.number == 1]
    offered = pair.client.source().offered or ""
    answer(pair, foreign.respond(offered, 1, first))
    pair.turn()
    assert pair.client.source().machine.last_number == 7


def rows(pair: Pair) -> list:  # type: ignore[type-arg]
    return [row for data in pair.client.store.committed.rms.keys.values() for row in data.rows.values()]


# --- what is waited for ----------------------------------------------------------------------------------------------


def test_error_says_that_the_destination_accepts_only_the_next_number() -> None:
    story = Next()
    story.link.notes(*TEXTS)
    story.start()
    assert trouble(story.pair, story.client.source()) is None
    story.pass_by(0.9)
    story.pair.now += 0.2
    story.pair.turn()
    assert "takes only the next message" in (trouble(story.pair, story.client.source()) or "")


def test_error_says_that_nothing_is_acknowledged() -> None:
    # LIVE-07
    pair, foreign = Pair(), Foreign(RM11_SOAP12)
    pair.server.stop()
    pair.link().notes("one", "two")
    pair.turn()
    answer_to(
        pair.client, foreign.created("urn:theirs", pair.client.source().create_message_id), purpose="CreateSequence"
    )
    pair.turn()
    assert trouble(pair, pair.client.source()) is None
    for _ in range(2):
        answer_to(pair.client, ACCEPTED, purpose=Purpose.MESSAGE.value)
    pair.now += 3
    said = trouble(pair, pair.client.source()) or ""
    assert "2 messages are sent and not acknowledged" in said
    assert "only at the end" in said


def test_error_says_that_too_many_requests_are_unanswered() -> None:
    pair, _ = client_whose_requests_are_acknowledged(max_unanswered=4)
    assert "4 requests wait for their responses" in (trouble(pair, pair.client.source()) or "")


def trouble(pair: Pair, record: RmsRecord) -> str | None:
    return waits_for(record.machine, record.channel.policy, pair.now)
