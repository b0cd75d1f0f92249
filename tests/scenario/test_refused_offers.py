"""A destination refuses CreateSequence because it offers a sequence, as .NET does where a contract has no responses."""

from __future__ import annotations

import logging

import pytest

from mercury.engine.exchange import ACCEPTED
from mercury.statemachine.events import FailureReason
from mercury.statemachine.messages import CreateSequence
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.tables import RmsState
from mercury.storage.records import RmsRecord
from mercury.testing import Flight
from mercury.wire.envelope import HttpMessage

from .dotnet import DIALECTS, DotNet
from .foreign import RM10_SOAP12, answer_post
from .harness import ASK, Pair, body, name_of

PROTOCOLS = pytest.mark.parametrize("protocol", DIALECTS, ids=str)
LISTENS = pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
#: What .NET says.
WHY = "The endpoint at the destination can only process one-way messages, and the request has an offer"


class OneWay:
    """A client with default settings, and a .NET service whose contract has one-way operations only."""

    def __init__(self, protocol: Protocol = RM10_SOAP12, *, listens: bool = False) -> None:
        self.pair, self.dotnet, self.listens = Pair(), DotNet(protocol), listens
        self.client = self.pair.client
        self.pair.server.stop()
        self.link = self.pair.link(protocol, listens=listens)

    @property
    def newest(self) -> RmsRecord:
        return self.client.sources()[-1]

    def next(self, name: str) -> Flight:
        """What is posted next, perhaps after a while; it has this name."""
        self.pair.turn()
        for _ in range(200):
            if self.pair.wire:
                break
            self.pair.now += 1
            self.pair.turn()
        flight = self.pair.wire.pop(0)
        assert flight.name == name, [flight.name, *(each.name for each in self.pair.wire)]
        return flight

    def asked(self) -> tuple[Flight, bool]:
        """The CreateSequence that is posted next, and whether it makes an offer."""
        flight = self.next("CreateSequence")
        assert isinstance(flight.envelope.body, CreateSequence)
        return flight, flight.envelope.body.offer is not None

    def answer(self, flight: Flight, reply: HttpMessage) -> None:
        """To a post: on its connection, or to the client's address."""
        answer_post(self.client, flight, reply, listens=self.listens)

    def refusal(self, flight: Flight, reason: str = WHY) -> HttpMessage:
        relates_to = flight.envelope.message_id or ""
        return self.dotnet.fault("CreateSequenceRefused", relates_to=relates_to, reason=reason)

    def refuse(self, *, offered: bool, reason: str = WHY) -> Flight:
        """The next CreateSequence, which makes an offer or does not, is refused."""
        flight, offers = self.asked()
        assert offers is offered
        self.answer(flight, self.refusal(flight, reason))
        return flight

    def lose(self, *, offered: bool) -> Flight:
        """The next CreateSequence gets no answer."""
        flight, offers = self.asked()
        assert offers is offered
        return flight

    def create(self) -> Flight:
        """The next CreateSequence makes no offer, and a sequence is made."""
        flight, offers = self.asked()
        assert not offers
        self.answer(flight, self.dotnet.created("urn:theirs", flight.envelope.message_id))
        return flight


@LISTENS
@PROTOCOLS
def test_destination_that_refuses_offers_gets_its_messages_without_a_setting(
    protocol: Protocol, listens: bool, caplog: pytest.LogCaptureFixture
) -> None:
    service = OneWay(protocol, listens=listens)
    service.link.notes("one", "two")
    service.link.close()
    with caplog.at_level(logging.INFO, "mercury.engine"):
        first = service.refuse(offered=True)
    before = service.pair.now
    second = service.create()
    assert service.pair.now == before, "at once"
    assert first.envelope.message_id != second.envelope.message_id
    for number in (1, 2):
        message = service.next(f"message {number}")
        service.answer(message, service.dotnet.alone(service.dotnet.room("urn:theirs", ((1, number),))))
    (record,) = service.client.sources()
    assert record.machine.acknowledged.as_tuples() == ((1, 2),), "the numbers stay those of one sequence"
    assert (record.offered, record.last_error) == (None, None)
    assert service.client.letters() == []
    assert service.client.reported.failed == []
    told = [each for each in caplog.records if "without an offer" in each.getMessage()]
    assert [(each.levelname, WHY in each.getMessage()) for each in told] == [("INFO", True)]
    service.pair.assert_sound()


@LISTENS
@PROTOCOLS
def test_destination_that_refuses_both_makes_the_messages_dead_letters(protocol: Protocol, listens: bool) -> None:
    # FLT-05, ST-S03
    service = OneWay(protocol, listens=listens)
    service.link.notes("one", "two")
    service.refuse(offered=True)
    service.refuse(offered=False, reason="closed on Sundays")
    assert service.newest.machine.failure is FailureReason.REFUSED
    assert service.client.letters_by_text() == [("one", "not delivered"), ("two", "not delivered")]
    assert service.client.reported.failed == [("refused: CreateSequenceRefused: closed on Sundays", 2)]
    service.pair.advance(3600)
    assert service.pair.count("CreateSequence") == 2


def test_next_sequence_after_a_failed_one_makes_an_offer_again() -> None:
    service = OneWay()
    service.link.notes("one")
    service.refuse(offered=True)
    service.refuse(offered=False)
    service.link.notes("two")
    service.refuse(offered=True)
    service.create()
    assert service.newest.machine.state is RmsState.SENDING


def test_requests_are_answered_without_an_offer() -> None:
    # LIVE-06
    service = OneWay()
    service.link.asks("one")
    service.refuse(offered=True)
    service.create()
    request = service.next("message 1")
    room = service.dotnet.room("urn:theirs", ((1, 1),))
    about, action = request.envelope.message_id or "", f"{ASK}Response"
    reply = service.dotnet.envelope(action, body("re one").decode(), relates_to=about, headers=room)
    service.answer(request, reply)
    service.pair.turn()
    assert service.client.answers == [("one", "re one")]
    assert service.client.destinations() == []
    assert service.client.letters() == []


def test_lost_answer_to_create_sequence_without_an_offer_is_asked_for_with_the_same_message() -> None:
    # RM-CS-13
    service = OneWay()
    service.link.notes("one")
    service.refuse(offered=True)
    lost = service.lose(offered=False)
    again = service.create()
    assert again.envelope.message_id == lost.envelope.message_id
    assert service.newest.machine.identifier == "urn:theirs"


def test_refused_repetition_of_create_sequence_without_an_offer_is_asked_anew_without_one_and_then_ends() -> None:
    # RM-CS-13: the first one may have made a sequence
    service = OneWay()
    service.link.notes("one")
    service.refuse(offered=True)
    service.lose(offered=False)
    service.refuse(offered=False)
    service.refuse(offered=False)
    old, new = service.client.sources()
    assert old.create_message_id != new.create_message_id
    assert old.machine.failure is FailureReason.REPLACED
    assert new.machine.failure is FailureReason.REFUSED
    assert service.client.letters_by_text() == [("one", "not delivered")]
    service.pair.advance(3600)
    assert service.pair.count("CreateSequence") == 4


def test_server_that_was_down_at_first_and_refuses_offers_gets_its_messages() -> None:
    # A refused repetition says nothing of the offer: another sequence is requested with one, and then without.
    service = OneWay()
    service.link.notes("one")
    service.lose(offered=True)
    service.refuse(offered=True)
    service.refuse(offered=True)
    service.create()
    assert service.next("message 1").envelope.sequence is not None
    assert service.client.letters() == []
    service.pair.assert_sound()


@pytest.mark.parametrize("together", [True, False], ids=["in one transaction", "one after the other"])
def test_copy_of_the_refusal_does_not_fail_the_sequence(together: bool) -> None:
    service = OneWay(listens=True)
    service.link.notes("one")
    flight, _ = service.asked()
    assert flight.exchange is not None
    service.client.answered(flight.exchange.outgoing, ACCEPTED)
    refusal = service.refusal(flight)
    for copies in [[refusal, refusal]] if together else [[refusal], [refusal]]:
        assert {name_of(reply) for reply in service.client.get_all(copies, "responses")} == {"accepted"}
    service.create()
    assert service.newest.machine.state is RmsState.SENDING
    assert service.client.letters() == []


def test_copy_of_the_refusal_on_the_connection_of_the_first_attempt_does_not_fail_the_sequence() -> None:
    service = OneWay(listens=True)
    service.link.notes("one")
    flight, _ = service.asked()
    assert flight.exchange is not None
    refusal = service.refusal(flight)
    assert name_of(service.client.get_all([refusal], "responses")[0]) == "accepted"
    service.client.answered(flight.exchange.outgoing, refusal)
    service.create()
    assert service.newest.machine.state is RmsState.SENDING
    assert service.client.letters() == []


def test_last_message_that_comes_before_the_second_attempt_is_in_the_same_sequence() -> None:
    service = OneWay()
    service.link.notes("one")
    service.refuse(offered=True)
    service.link.notes("two")
    service.link.close()
    service.create()
    for name in ("message 1", "message 2"):
        service.next(name)
    assert len(service.client.sources()) == 1


@PROTOCOLS
def test_refusal_that_says_busy_does_not_drop_the_offer(protocol: Protocol) -> None:
    # RM-CS-14
    service = OneWay(protocol)
    service.link.notes("one")
    flight, _ = service.asked()
    busy = '<n:ConnectionLimitReached xmlns:n="http://schemas.microsoft.com/ws/2006/05/rm"/>'
    service.answer(flight, service.dotnet.fault("CreateSequenceRefused", detail=busy, blame="Receiver", status="503"))
    again, offers = service.asked()
    assert (again.envelope.message_id, offers) == (flight.envelope.message_id, True)
