"""Clients that cannot listen fetch their messages by MakeConnection, as Sandesha2 and Metro do (MC-01)."""

from __future__ import annotations

from typing import Any

import pytest

from mercury.engine.exchange import Arrival
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.policy import AcknowledgeAt, DestinationPolicy
from mercury.statemachine.protocol import Protocol
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage

from .foreign import RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, WSMC, Foreign, Ranges, identifier_in
from .harness import Node, World, name_of, text_of

ADDRESS = f"{WSMC}/anonymous?id=550e8400-e29b-11d4-a716-446655440000"
ANOTHER = f"{WSMC}/anonymous?id=3d9b7c5e-0b7f-4f0e-9a58-6f2f5f5d0f11"
PROTOCOLS = pytest.mark.parametrize("protocol", [RM11_SOAP11, RM11_SOAP12], ids=str)


class Polling:
    """A client of another stack at a server that may post to no address."""

    def __init__(self, protocol: Protocol = RM11_SOAP11, address: str = ADDRESS, **settings: Any) -> None:
        self.world = World()
        self.server = Node("server", self.world, allow=(), **settings)
        self.foreign = Foreign(protocol)
        self.address = address
        self.identity: str | None = None
        #: The identifiers of the two sequences.
        self.requests, self.responses = "", "urn:client:offered"
        #: Numbers of responses that have arrived.
        self.arrived: set[int] = set()

    def post(self, http: HttpMessage) -> HttpMessage:
        """Returns the answer, after which the server does what there is to do at this moment."""
        url = self.server.service_url
        arrival = Arrival(http=http, service="orders", url=url, peer="client", identity=self.identity)
        answers = self.server.receive([arrival])
        assert answers is not None
        assert answers[0].posts == (), "nothing may be posted"
        self.server.replied(answers[0].http)
        self.world.run()
        assert self.world.seen == [], "nothing may be posted"
        return answers[0].http

    def create(self, **more: str) -> HttpMessage:
        reply = self.post(self.foreign.create(self.address, reply_to=self.address, **more))
        if name_of(reply) == "CreateSequenceResponse":
            self.requests = identifier_in(reply)
        return reply

    def offer(self) -> HttpMessage:
        return self.create(offer=self.responses)

    def ask(self, number: int, **more: str) -> HttpMessage:
        return self.post(self.foreign.ask(self.requests, number, reply_to=self.address, **more))

    def poll(self, headers: str = "", **selected: str) -> HttpMessage:
        """One MakeConnection by the address; what arrived before is acknowledged with it."""
        if not selected:
            selected = {"address": self.address}
        ranges: Ranges = tuple((number, number) for number in sorted(self.arrived))
        acknowledged = self.foreign.acknowledgement(self.responses, ranges) if ranges else ""
        return self.post(self.foreign.poll(**selected, headers=headers + acknowledged))

    def fetch(self) -> str:
        """The next message by its name; a response counts as arrived."""
        http = self.poll()
        if name_of(http).startswith("response"):
            sequence = read(http).sequence
            assert sequence is not None
            self.arrived.add(sequence.message_number)
        return name_of(http)


def at_work(*_: object) -> None:
    """A handler that fails is called again, so there is no response yet."""
    raise RuntimeError("at work")


def read(http: HttpMessage) -> Envelope:
    return decode(http.body, http.content_type, http.soap_action)


# --- acknowledgements ------------------------------------------------------------------------------------------------


@PROTOCOLS
def test_a_client_that_fetches_by_default_sends_and_is_acknowledged(protocol: Protocol) -> None:
    # LIVE-10, MC-05, MC-06: as Sandesha2 does in 1.1
    client = Polling(protocol)
    created = client.create()
    assert name_of(created) == "CreateSequenceResponse"
    assert read(created).to == EndpointReference(ADDRESS)
    acknowledged = client.post(client.foreign.note(client.requests, 1, "one"))
    assert name_of(acknowledged) == "acknowledgement"
    assert name_of(client.poll()) == "accepted", "it is acknowledged already"
    assert client.server.handled == ["one"]
    ended = client.post(client.foreign.terminate(client.requests, 1, reply_to=ADDRESS))
    assert name_of(ended) == "TerminateSequenceResponse"
    client.world.assert_ended()


def test_an_acknowledgement_that_came_to_be_later_is_fetched() -> None:
    # MC-01, DA-06
    client = Polling(policy=DestinationPolicy(acknowledge_at=AcknowledgeAt.DELIVERY))
    client.create()
    client.post(client.foreign.note(client.requests, 1, "one"))
    fetched = client.poll()
    (acknowledgement,) = read(fetched).acknowledgements
    assert acknowledgement.ranges == ((1, 1),)
    assert read(fetched).message_pending is False
    assert name_of(client.poll()) == "accepted"


def test_a_sequence_that_is_worked_on_for_another_reason_keeps_its_acknowledgement() -> None:
    # MC-05
    client = Polling(policy=DestinationPolicy(acknowledge_at=AcknowledgeAt.DELIVERY))
    client.create()
    client.post(client.foreign.note(client.requests, 1, "one"))
    with client.server.store.transaction() as tx:
        (record,) = tx.rmd.lock([client.requests]).values()
        record.due = client.world.now
        tx.rmd.save(record)
    client.world.run()
    assert client.world.seen == [], "nothing may be posted"
    assert name_of(client.poll()) == "acknowledgement"


def test_a_request_is_answered_with_an_empty_202_and_its_acknowledgement_is_fetched() -> None:
    # MC-06, IOP-METRO-07: a Metro client leaves an acknowledgement in the reply to its request
    client = Polling()
    client.server.on_call = at_work
    client.offer()
    assert name_of(client.ask(1)) == "accepted"
    fetched = client.poll()
    assert name_of(fetched) == "acknowledgement"
    (acknowledgement,) = read(fetched).acknowledgements
    assert (acknowledgement.identifier, acknowledgement.ranges) == (client.requests, ((1, 1),))
    assert name_of(client.poll()) == "accepted", "it is fetched once"


def test_a_request_that_comes_again_or_asks_for_its_acknowledgement_has_an_empty_202_too() -> None:
    # MC-06: the answer with the acknowledgement was lost, and the next MakeConnection brings it again
    client = Polling()
    client.server.on_call = at_work
    client.offer()
    client.ask(1)
    client.poll()
    assert name_of(client.ask(1)) == "accepted"
    assert name_of(client.poll()) == "acknowledgement"
    assert name_of(client.ask(2, headers=client.foreign.ack_requested(client.requests))) == "accepted"
    (acknowledgement,) = read(client.poll()).acknowledgements
    assert acknowledgement.ranges == ((1, 2),)


def test_an_acknowledgement_that_is_asked_for_alone_is_fetched() -> None:
    # IOP-METRO-07, RM-ACK-06: a Metro client leaves an acknowledgement in this reply too, and sends no further request
    client = Polling()
    client.create()
    client.post(client.foreign.note(client.requests, 1))
    asked = client.foreign.alone(client.foreign.ack_requested(client.requests), reply_to=ADDRESS)
    assert name_of(client.post(asked)) == "accepted"
    (acknowledgement,) = read(client.poll()).acknowledgements
    assert acknowledgement.ranges == ((1, 1),)
    named_by_nobody = client.foreign.alone(client.foreign.ack_requested(client.requests))
    assert name_of(client.post(named_by_nobody)) == "acknowledgement", "without ReplyTo the answer is the reply"


def test_a_one_way_message_beside_a_request_has_its_acknowledgement_on_its_connection() -> None:
    client = Polling()
    client.server.on_call = at_work
    client.offer()
    client.ask(1)
    answer = client.post(client.foreign.note(client.requests, 2, reply_to=ADDRESS))
    (acknowledgement,) = read(answer).acknowledgements
    assert acknowledgement.ranges == ((1, 2),)
    assert name_of(client.poll()) == "accepted", "nothing is left to acknowledge"


def test_a_request_of_a_client_whose_acknowledgements_go_to_its_connections_is_acknowledged_there() -> None:
    # RM-ACK-10: no MakeConnection may fetch them
    client = Polling()
    reply = client.post(client.foreign.create(reply_to=ADDRESS, offer=client.responses, offer_endpoint=ADDRESS))
    client.requests = identifier_in(reply)
    assert name_of(client.ask(1)) == "acknowledgement"


# --- responses -------------------------------------------------------------------------------------------------------


@PROTOCOLS
def test_responses_are_fetched_one_at_a_time_to_the_end_of_both_sequences(protocol: Protocol) -> None:
    # MC-01, MC-04, IOP-SAND-02, IOP-METRO-06
    client = Polling(protocol)
    client.offer()
    for number in (1, 2, 3):
        client.ask(number)
    fetched = client.poll()
    assert name_of(fetched) == "response 1"
    assert text_of(read(fetched).body.xml) == "re ask 1"  # type: ignore[union-attr]
    assert read(fetched).message_pending is True
    assert client.fetch() == "response 2"
    last = client.poll()
    assert name_of(last) == "response 3"
    assert read(last).message_pending is False
    client.arrived = {1, 2, 3}
    assert name_of(client.poll()) == "accepted"
    client.post(client.foreign.terminate(client.requests, 3, reply_to=ADDRESS))
    closing = client.poll()
    assert name_of(closing) == "CloseSequence"
    client.post(client.foreign.ended("CloseSequenceResponse", client.responses, read(closing).message_id or ""))
    ending = client.poll()
    assert name_of(ending) == "TerminateSequence"
    client.post(client.foreign.ended("TerminateSequenceResponse", client.responses, read(ending).message_id or ""))
    assert name_of(client.poll()) == "accepted"
    client.world.assert_ended()


def test_a_response_whose_answer_was_lost_is_handed_out_again_after_its_pause() -> None:
    # MC-06
    client = Polling()
    client.offer()
    client.ask(1)
    lost = client.poll()
    assert name_of(client.poll()) == "accepted", "not sooner"
    client.world.advance(60)
    again = client.poll()
    assert (read(again).message_id, read(again).sequence) == (read(lost).message_id, read(lost).sequence)
    client.arrived = {1}
    client.poll()
    client.world.advance(600)
    assert name_of(client.poll()) == "accepted", "it is acknowledged"


def test_an_acknowledgement_that_waits_travels_with_a_message() -> None:
    client = Polling(policy=DestinationPolicy(acknowledge_at=AcknowledgeAt.DELIVERY))
    client.offer()
    client.ask(1)
    fetched = client.poll()
    assert name_of(fetched) == "response 1"
    assert [each.identifier for each in read(fetched).acknowledgements] == [client.requests]
    client.arrived = {1}
    assert name_of(client.poll()) == "accepted"


def test_a_client_that_offers_no_sequence_is_asked_for_one_where_it_fetches() -> None:
    # MC-05, IOP-METRO-04, LIVE-06
    client = Polling(RM11_SOAP12)
    client.create()
    client.ask(1)
    asked = client.poll()
    assert name_of(asked) == "CreateSequence"
    assert read(asked).to == EndpointReference(ADDRESS)
    assert read(asked).reply_to == EndpointReference("http://server/services/orders")
    assert name_of(client.poll()) == "accepted", "it is asked for again after a pause only"
    client.post(client.foreign.created("urn:client:made", read(asked).message_id))
    client.responses = "urn:client:made"
    assert client.fetch() == "response 1"
    assert client.fetch() == "accepted"


def test_replies_outside_any_sequence_are_fetched_a_few_times() -> None:
    # MC-09: nothing acknowledges them
    client = Polling()
    client.create()
    client.ask(1)
    asked = client.poll()
    client.post(client.foreign.fault("CreateSequenceRefused", relates_to=read(asked).message_id or ""))
    names = []
    for _ in range(5):
        names.append(name_of(client.poll()))
        client.world.advance(120)
    assert names == ["bare message"] * 3 + ["accepted"] * 2


def test_no_more_messages_wait_for_acknowledgements_than_the_window_has() -> None:
    client = Polling()
    client.offer()
    for number in range(1, 31):
        client.ask(number)
    names = [name_of(client.poll()) for _ in range(18)]
    assert names == [f"response {number}" for number in range(1, 17)] + ["accepted"] * 2
    client.arrived = set(range(1, 17))
    client.poll()
    assert name_of(client.poll()) == "response 17"


@pytest.mark.parametrize("arrived", [set(), {2}], ids=["all of them", "one of them"])
def test_responses_that_are_lost_do_not_keep_the_others_from_being_fetched(arrived: set[int]) -> None:
    # LIVE-05 is about destinations that drop what is posted to them; this one asks for it
    client = Polling()
    client.offer()
    for number in range(1, 6):
        client.ask(number)
    for _ in range(5):
        client.poll()
    client.world.advance(30)
    client.arrived = arrived
    names = []
    for _ in range(3):
        names += [name_of(client.poll()) for _ in range(5)]
        client.world.advance(60)
    expected = [f"response {number}" for number in range(1, 6) if number not in arrived]
    expected += ["accepted"] * len(arrived)
    assert names == expected * 3


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    client = Polling()
    client.offer()
    client.ask(1)
    assert name_of(client.poll()) == "response 1"
    client.world.now -= 86400
    assert name_of(client.poll()) == "response 1"


@pytest.mark.parametrize("crashes", [False, True], ids=["without a crash", "with crashes"])
def test_every_response_arrives_once_and_in_order_through_loss(crashes: bool) -> None:
    # MC-06, DA-03, DA-04
    client = Polling(RM11_SOAP12)
    client.offer()
    texts: list[str] = []
    for step in range(1, 200):
        if step <= 20:
            client.ask(step)
        if crashes and step % 7 == 0:
            client.server.crash()
        fetched = client.poll()
        sequence = read(fetched).sequence if fetched.body else None
        if sequence is not None and step % 3:  # every third answer is lost
            number = sequence.message_number
            if number not in client.arrived:
                texts.append(text_of(read(fetched).body.xml))  # type: ignore[union-attr]
            client.arrived.add(number)
        client.world.advance(0.5)
    assert client.arrived == set(range(1, 21))
    assert sorted(texts) == sorted(f"re ask {number}" for number in range(1, 21))
    assert client.server.handled == [f"ask {number}" for number in range(1, 21)]
    client.world.assert_sound()


# --- what is selected ------------------------------------------------------------------------------------------------


def test_a_sequence_is_selected_by_its_identifier_or_by_that_of_its_requests() -> None:
    # MC-02, MC-SCH-01
    client = Polling()
    client.offer()
    for number in (1, 2, 3):
        client.ask(number)
    assert name_of(client.poll(identifier="urn:another")) == "accepted"
    assert name_of(client.poll(identifier=client.responses, address=ANOTHER)) == "accepted"
    assert name_of(client.poll(identifier=client.responses)) == "response 1"
    assert name_of(client.poll(identifier=client.requests)) == "response 2"
    assert name_of(client.poll(identifier=client.responses, address=ADDRESS)) == "response 3"


def test_two_clients_get_each_what_is_for_it() -> None:
    # MC-02, MC-05
    client = Polling()
    client.offer()
    first = client.requests
    client.address, client.responses = ANOTHER, "urn:another:offered"
    client.offer()
    client.ask(1, text="other")
    client.address = ADDRESS
    assert name_of(client.poll()) == "accepted"
    client.requests = first
    client.ask(1, text="own")
    assert text_of(read(client.poll()).body.xml) == "re own"  # type: ignore[union-attr]
    client.address = ANOTHER
    assert text_of(read(client.poll()).body.xml) == "re other"  # type: ignore[union-attr]


@pytest.mark.parametrize("selected", ["address", "identifier"])
@pytest.mark.parametrize("thief", [None, "CN=thief"])
def test_nobody_else_gets_what_belongs_to_an_identity(thief: str | None, selected: str) -> None:
    # MC-05, SEC-01: knowing the address, or the identifier, is not enough
    client = Polling(policy=DestinationPolicy(acknowledge_at=AcknowledgeAt.DELIVERY))
    client.identity = "CN=client"
    client.offer()
    client.ask(1)
    for identifier in (client.responses, client.requests):
        asked = {"address": ADDRESS, "identifier": identifier}[selected]
        client.identity = thief
        assert name_of(client.poll(**{selected: asked})) == "accepted"
    client.identity = "CN=client"
    fetched = client.poll()
    assert name_of(fetched) == "response 1"
    assert read(fetched).acknowledgements != ()


def test_strangers_put_nothing_in_the_way_of_an_identity() -> None:
    # MC-05: whatever a stranger has sent to the address of another one
    client = Polling()
    for number in range(8):
        client.responses = f"urn:stranger:{number}"
        client.offer()
        client.ask(1, text="stranger")
    client.identity, client.responses = "CN=client", "urn:client:offered"
    client.offer()
    client.ask(1, text="own")
    assert text_of(read(client.poll()).body.xml) == "re own"  # type: ignore[union-attr]
    client.arrived = {1}
    assert name_of(client.poll()) == "accepted"
    assert name_of(client.poll(identifier="urn:stranger:0")) == "accepted"


def test_an_address_that_nobody_has_named_gets_nothing_and_leaves_nothing() -> None:
    # MC-01
    client = Polling()
    for number in range(100):
        assert name_of(client.poll(address=f"{WSMC}/anonymous?id={number}")) == "accepted"
    for address in ("http://client/responses", f"{WSMC}/anonymous?id=", client.foreign.anonymous, "urn:x"):
        assert name_of(client.poll(address=address)) == "accepted"
    assert client.server.empty()


# --- addresses -------------------------------------------------------------------------------------------------------


def test_ws_rm_1_0_does_not_go_with_it() -> None:
    # NS-11
    client = Polling(RM10_SOAP12)
    assert name_of(client.create()) == "fault CreateSequenceRefused"
    assert client.server.empty()


def test_the_template_without_an_identifier_is_no_address() -> None:
    # NS-11
    client = Polling(address=f"{WSMC}/anonymous?id=")
    assert name_of(client.create()) == "fault CreateSequenceRefused"


def test_a_fault_goes_out_on_the_connection() -> None:
    # MC-06, FLT-14
    client = Polling()
    client.create()
    asked = client.foreign.ask("urn:unknown", 1, reply_to=ADDRESS, fault_to=ADDRESS)
    assert name_of(client.post(asked)) == "fault UnknownSequence"
    assert name_of(client.poll()) == "accepted"


# --- clients that stop -----------------------------------------------------------------------------------------------


def test_responses_that_nobody_fetches_become_dead_letters_after_the_requests_have_ended() -> None:
    client = Polling(response_grace=600.0)
    client.offer()
    client.ask(1)
    client.ask(2)
    client.post(client.foreign.terminate(client.requests, 2, reply_to=ADDRESS))
    assert client.server.letters() == []
    client.world.advance(4000)
    assert sorted(client.server.letters_by_text()) == [("re ask 1", "not delivered"), ("re ask 2", "not delivered")]
    client.world.advance(200_000)
    assert client.server.empty()
    client.world.assert_sound()


def test_an_end_that_nobody_fetches_is_settled() -> None:
    client = Polling(response_grace=600.0)
    client.offer()
    client.ask(1)
    client.fetch()
    client.poll()
    client.post(client.foreign.terminate(client.requests, 1, reply_to=ADDRESS))
    client.world.advance(200_000)
    assert client.server.letters() == []
    assert client.server.empty()
