"""A Mercury client of a .NET service: answers as each .NET binding writes them (IOP-WCF rules)."""

from __future__ import annotations

import pytest

from mercury.engine.exchange import ACCEPTED
from mercury.statemachine.messages import CreateSequence
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.tables import RmsState
from mercury.testing import Flight
from mercury.wire.envelope import HttpMessage

from .dotnet import DIALECTS, DotNet
from .foreign import answer_post, brought
from .harness import Pair

PROTOCOLS = pytest.mark.parametrize("protocol", DIALECTS, ids=str)
SERVICE = "http://server/services/orders"
BEHAVIOR = "<r:IncompleteSequenceBehavior>DiscardFollowingFirstGap</r:IncompleteSequenceBehavior>"


class Service:
    """A client of ours, and a service of .NET's that has answered its CreateSequence."""

    def __init__(self, protocol: Protocol, *, listens: bool = False, accepts: bool = True, **changes: object) -> None:
        self.pair, self.dotnet, self.listens = Pair(), DotNet(protocol), listens
        self.client = self.pair.client
        self.pair.server.stop()
        self.link = self.pair.link(protocol, listens=listens, **changes)
        self.accepts = accepts

    def begin(self) -> CreateSequence:
        """CreateSequence is answered; returns what it said."""
        self.pair.turn()
        flight = self.next("CreateSequence")
        body = flight.envelope.body
        assert isinstance(body, CreateSequence)
        self.offered = body.offer.identifier if body.offer is not None else ""
        # IOP-WCF-09: 1.1 always says a behavior
        created = self.dotnet.created(
            "urn:theirs",
            flight.envelope.message_id,
            accept=SERVICE if self.accepts else None,
            extra="" if self.dotnet.is_1_0 else BEHAVIOR,
        )
        self.answer(flight, created)
        return body

    def next(self, name: str) -> Flight:
        """What is posted next; it has this name."""
        flight = self.pair.wire.pop(0)
        assert flight.name == name, [flight.name, *(each.name for each in self.pair.wire)]
        return flight

    def answer(self, flight: Flight, reply: HttpMessage) -> None:
        """To a post: on its connection, or to the client's address."""
        answer_post(self.client, flight, reply, listens=self.listens)
        self.pair.turn()

    def acknowledge(self, flight: Flight, upto: int) -> None:
        self.answer(flight, self.dotnet.alone(self.dotnet.room("urn:theirs", ((1, upto),))))

    def final(self, upto: int) -> str:
        return self.dotnet.acknowledgement("urn:theirs", ((1, upto),), final=True)


@PROTOCOLS
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_create_sequence_names_one_address_and_makes_an_offer(protocol: Protocol, listens: bool) -> None:
    # RM-CS-09, RM-CS-10, IOP-WCF-02, IOP-WCF-03, IOP-SAND-03
    service = Service(protocol, listens=listens)
    service.link.asks("one")
    service.pair.turn()
    envelope = service.pair.wire[0].envelope
    body = envelope.body
    assert isinstance(body, CreateSequence)
    assert body.offer is not None
    assert envelope.message_id is not None
    assert envelope.reply_to == body.acks_to
    if service.dotnet.is_1_0:
        assert body.offer.endpoint is None
    else:
        assert body.offer.endpoint == body.acks_to


@PROTOCOLS
def test_one_way_session_with_a_service_that_declines_the_offer(protocol: Protocol) -> None:
    # IOP-WCF-01, RM-CS-07: their one-way 1.1 services accept no offer
    service = Service(protocol, accepts=False)
    service.link.notes("one", "two")
    service.link.close()
    service.begin()
    service.acknowledge(service.next("message 1"), 1)
    service.acknowledge(service.next("message 2"), 2)
    if service.dotnet.is_1_0:
        bare = service.next("LastMessage")  # IOP-WCF-04
        assert bare.envelope.sequence is not None
        assert bare.envelope.sequence.message_number == 3
        service.acknowledge(bare, 3)
        service.answer(service.next("TerminateSequence"), ACCEPTED)
    else:
        closing = service.next("CloseSequence")
        service.answer(closing, _ended(service, "CloseSequenceResponse", closing, 2))
        ending = service.next("TerminateSequence")
        service.answer(ending, _ended(service, "TerminateSequenceResponse", ending, 2))
    assert service.client.source().machine.state is RmsState.ENDED
    assert service.client.letters() == []
    service.pair.assert_sound()


@PROTOCOLS
def test_request_reply_session_on_connections(protocol: Protocol) -> None:
    # IOP-WCF-05, IOP-WCF-07, ST-W01, ST-W02, RM10-TRM-04, HTTP-05, HTTP-07
    service = Service(protocol)
    dotnet = service.dotnet
    service.link.notes("before")
    service.link.asks("one", "two")
    service.link.close()
    service.begin()
    service.acknowledge(service.next("message 1"), 1)
    service.answer(service.next("message 2"), ACCEPTED)  # the application is at work
    third = service.next("message 3")
    room = dotnet.room("urn:theirs", ((1, 3),))
    service.answer(
        third,
        dotnet.respond(
            service.offered, 1, third.envelope.message_id or "", "re two", to=dotnet.anonymous, headers=room
        ),
    )
    assert service.pair.wire == [], "the end waits for the response to the other request"
    service.pair.now += 1
    service.pair.turn()
    again = service.next("message 2")
    service.answer(again, dotnet.respond(service.offered, 2, again.envelope.message_id or "", "re one", headers=room))
    for _ in range(2):
        service.pair.turn()
    assert service.client.answers == [("two", "re two"), ("one", "re one")], "in the order of their numbers"
    if dotnet.is_1_0:
        bare = _next_but_acknowledgements(service, "LastMessage")
        assert service.pair.wire == []
        # It is answered with a LastMessage of their own, and TerminateSequence with theirs.
        last = dotnet.sequence(service.offered, 3, last=True) + dotnet.room("urn:theirs", ((1, 4),))
        service.answer(bare, dotnet.envelope(f"{dotnet.rm}/LastMessage", headers=last))
        ending = service.next("TerminateSequence")
        assert _acknowledged(ending) == {service.offered: ((1, 3),)}
        service.answer(ending, dotnet.terminate(service.offered))
    else:
        closing = _next_but_acknowledgements(service, "CloseSequence")
        assert _acknowledged(closing) == {service.offered: ((1, 2),)}
        service.answer(closing, _ended(service, "CloseSequenceResponse", closing, 3))
        ending = service.next("TerminateSequence")
        assert _acknowledged(ending) == {service.offered: ((1, 2),)}
        service.answer(ending, _ended(service, "TerminateSequenceResponse", ending, 3))
    service.pair.run()
    assert service.client.source().machine.state is RmsState.ENDED
    assert all(record.machine.tombstone for record in service.client.destinations())
    assert service.client.letters() == []
    assert service.pair.wire == []
    service.pair.assert_sound()


@PROTOCOLS
def test_request_reply_session_of_a_client_with_an_address(protocol: Protocol) -> None:
    # RM-TRM-05, HTTP-04: the service ends its own sequence
    service = Service(protocol, listens=True)
    dotnet = service.dotnet
    service.link.asks("one")
    service.link.close()
    service.begin()
    request = service.next("message 1")
    room = dotnet.room("urn:theirs", ((1, 1),))
    service.answer(
        request, dotnet.respond(service.offered, 1, request.envelope.message_id or "", "re one", headers=room)
    )
    service.pair.turn()
    assert service.client.answers == [("one", "re one")]
    while service.pair.wire[0].name == "acknowledgement":
        service.answer(service.next("acknowledgement"), ACCEPTED)
    if dotnet.is_1_0:
        service.acknowledge(service.next("LastMessage"), 2)
        service.answer(_next_but_acknowledgements(service, "TerminateSequence"), ACCEPTED)
        last = dotnet.sequence(service.offered, 2, last=True)
        brought(service.client, dotnet.envelope(f"{dotnet.rm}/LastMessage", headers=last))
        brought(service.client, dotnet.terminate(service.offered))
    else:
        closing = service.next("CloseSequence")
        service.answer(closing, _ended(service, "CloseSequenceResponse", closing, 1))
        ending = _next_but_acknowledgements(service, "TerminateSequence")
        service.answer(ending, _ended(service, "TerminateSequenceResponse", ending, 1))
        brought(service.client, dotnet.close(service.offered, 1, reply_to=SERVICE))
        brought(service.client, dotnet.terminate(service.offered, 1, reply_to=SERVICE))
    assert service.client.source().machine.state is RmsState.ENDED
    assert all(record.machine.tombstone for record in service.client.destinations())
    if not dotnet.is_1_0:
        posted = [flight.name for flight in service.pair.wire]
        assert {"CloseSequenceResponse", "TerminateSequenceResponse"} <= set(posted)
    service.pair.assert_sound()


@PROTOCOLS
def test_nothing_received_as_the_range_0_0_or_as_none_acknowledges_nothing(protocol: Protocol) -> None:
    # RM-ACK-04: what their services answer to AckRequested before a message
    service = Service(protocol)
    service.link.notes("one")
    service.begin()
    service.answer(service.next("message 1"), service.dotnet.alone(service.dotnet.acknowledgement("urn:theirs")))
    assert service.client.source().machine.acknowledged.count == 0
    assert service.client.source().machine.alive
    service.pair.assert_sound()


@PROTOCOLS
def test_end_waits_until_no_exchange_of_a_message_is_open(protocol: Protocol) -> None:
    # IOP-WCF-11: .NET acknowledges a message before its application has it, and discards it at CloseSequence
    service = Service(protocol)
    open_exchanges = _with_two_notes(service)
    end = "TerminateSequence" if service.dotnet.is_1_0 else "CloseSequence"
    service.pair.advance(20)
    assert end not in service.pair.seen
    assert service.client.source().machine.alive
    open_exchanges.clear()
    service.pair.advance(1)
    assert end in service.pair.seen
    service.pair.assert_sound()


@pytest.mark.parametrize("accepts", [True, False], ids=["after terminate", "without a sequence of responses"])
def test_end_waits_for_no_exchange_after_terminate_or_without_a_sequence_of_responses(accepts: bool) -> None:
    # IOP-WCF-11
    service = Service(DIALECTS[1], accepts=accepts)
    _with_two_notes(service, terminates=accepts)
    service.pair.advance(1)
    assert "CloseSequence" in service.pair.seen


@PROTOCOLS
def test_fault_about_the_sequence_of_responses_ends_it_and_is_a_warning(
    protocol: Protocol, caplog: pytest.LogCaptureFixture
) -> None:
    # FLT-01: .NET names it in its answer to CloseSequence if it has dropped messages
    service = Service(protocol)
    service.link.asks("one")
    service.begin()
    room = service.dotnet.room("urn:theirs", ((1, 1),))
    request = service.next("message 1")
    about = request.envelope.message_id or ""
    service.answer(request, service.dotnet.respond(service.offered, 1, about, headers=room))
    service.link.notes("two")
    service.pair.turn()
    service.answer(service.next("message 2"), service.dotnet.fault("SequenceTerminated", service.offered))
    assert "ended its sequence by a fault: 'so it is'" in caplog.text
    assert all(record.machine.tombstone for record in service.client.destinations())
    assert service.client.source().machine.alive, "it is not about the messages"


@pytest.mark.parametrize("protocol", [each for each in DIALECTS if not DotNet(each).is_1_0], ids=str)
def test_messages_that_the_behavior_of_the_response_discards_go_to_a_successor(protocol: Protocol) -> None:
    # IOP-WCF-09, RM-CS-12: the source lives with DiscardFollowingFirstGap
    service = Service(protocol, accepts=False)
    service.link.notes("one", "two", "three")
    service.begin()
    service.pair.wire.clear()
    final = service.dotnet.acknowledgement("urn:theirs", ((1, 1), (3, 3)), final=True)
    service.pair.now += 1
    service.pair.turn()
    service.answer(service.next("message 1"), service.dotnet.alone(final))
    first, second = service.client.sources()
    assert first.machine.moved.as_tuples() == ((2, 3),), "3 was acknowledged, and lies behind the gap"
    assert second.machine.last_number == 2


def _with_two_notes(service: Service, *, terminates: bool = False) -> set[str]:
    """Two messages, the last ones, are acknowledged, and the exchange of the first is open; returns what is open."""
    service.link.notes("one", "two")
    if not terminates:
        service.link.close()
    service.begin()
    first, second = service.next("message 1"), service.next("message 2")
    open_exchanges = {first.name}
    service.client.engine.source.has_exchange = lambda _: bool(open_exchanges)
    service.acknowledge(second, 2)
    if terminates:
        service.link.terminate()
    if service.dotnet.is_1_0:
        service.acknowledge(_next_but_acknowledgements(service, "LastMessage"), 3)
    return open_exchanges


def _acknowledged(flight: Flight) -> dict[str, tuple[tuple[int, int], ...]]:
    return {each.identifier: each.ranges for each in flight.envelope.acknowledgements}


def _ended(service: Service, name: str, flight: Flight, upto: int) -> HttpMessage:
    return service.dotnet.ended(name, "urn:theirs", flight.envelope.message_id or "", service.final(upto))


def _next_but_acknowledgements(service: Service, name: str) -> Flight:
    while service.pair.wire[0].name == "acknowledgement":
        service.answer(service.next("acknowledgement"), ACCEPTED)
    return service.next(name)
