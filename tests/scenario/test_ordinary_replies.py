"""Responses outside any sequence, because none was offered or accepted (LIVE-06, WS-RX scenarios 2.2, 2.3)."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from mercury.engine.exchange import Answer, Arrival, PendingResponse
from mercury.errors import ApplicationFault
from mercury.statemachine.faults import Fault
from mercury.statemachine.protocol import ALL_PROTOCOLS, AddressingVersion, Protocol, SoapVersion
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage, Payload

from .foreign import RM11_SOAP12, Foreign, answer_to, brought
from .harness import ASK, Link, Node, Pair, World, body, name_of, text_of

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
LISTENS = pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])


# --- as server, to a client that offers nothing ----------------------------------------------------------------------


class Asked:
    """A server with a sequence of a foreign client that offered none for responses and does not listen."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, **settings: int) -> None:
        self.node, self.foreign = Node("server", World(), **settings), Foreign(protocol)
        self.identifier = self.foreign.open(self.node)

    def ask(self, number: int, text: str) -> tuple[PendingResponse, ...]:
        """Post a request for the first time; returns what the exchange waits for."""
        answer = self._post(number, text)
        assert name_of(answer.http) in ("acknowledgement", "accepted")
        assert answer.waiting
        return answer.waiting

    def reply(self, number: int, text: str) -> HttpMessage | None:
        """Post a request, again or for the first time; returns its response."""
        answer = self._post(number, text)
        return answer.http if not answer.waiting else self.node.respond(answer.waiting)

    def _post(self, number: int, text: str) -> Answer:
        request = self.foreign.ask(self.identifier, number, text, message_id=f"urn:request:{number}")
        answers = self.node.receive([Arrival(http=request, service="orders", url=self.node.service_url)])
        assert answers is not None
        self.node.world.run()
        return answers[0]


def plain(reply: HttpMessage | None) -> str:
    """The text of a reply that belongs to no sequence."""
    assert reply is not None
    envelope = decode(reply.body, reply.content_type, reply.soap_action)
    assert envelope.sequence is None
    assert envelope.ack_requests == ()
    assert isinstance(envelope.body, Payload)
    return text_of(envelope.body.xml)


@PROTOCOLS
def test_without_an_offer_the_response_is_an_ordinary_reply_on_the_connection(protocol: Protocol) -> None:
    asked = Asked(protocol)
    reply = asked.reply(1, "one")
    assert plain(reply) == "re one"
    assert reply is not None
    assert reply.status == 200
    envelope = decode(reply.body, reply.content_type, reply.soap_action)
    assert (envelope.relates_to, envelope.action) == ("urn:request:1", f"{ASK}Response")
    assert envelope.acknowledgements[0].ranges == ((1, 1),)  # HTTP-06
    assert asked.node.handled == ["one"]


@PROTOCOLS
def test_a_repeated_request_gets_the_same_reply_again_and_is_handled_once(protocol: Protocol) -> None:
    # HTTP-05
    asked = Asked(protocol)
    first, second = asked.reply(1, "one"), asked.reply(1, "one")
    asked.node.crash()
    third = asked.reply(1, "one")
    assert first == second == third
    assert plain(third) == "re one"
    assert asked.node.handled == ["one"]


@PROTOCOLS
def test_the_application_fault_is_the_reply_with_the_status_of_a_fault(protocol: Protocol) -> None:
    asked = Asked(protocol)
    reply = asked.reply(1, "refuse one")
    assert reply is not None
    assert reply.status == (500 if protocol.soap is SoapVersion.SOAP11 else 400)  # HTTP-03
    envelope = decode(reply.body, reply.content_type, reply.soap_action)
    assert isinstance(envelope.body, Fault)
    assert envelope.body.reason == "no"
    assert envelope.relates_to == "urn:request:1"
    assert asked.node.handled == []


def test_the_reply_to_another_peers_request_with_the_same_message_id_is_not_given_away() -> None:
    asked = Asked()
    asked.ask(1, "secret")
    other = Foreign(name="other")
    asked.identifier, asked.foreign = other.open(asked.node), other
    asked.node.on_call = lambda _context, _text: 1 / 0
    assert asked.reply(1, "curious") is None


@pytest.mark.parametrize("offer", [None, "urn:offered"])
def test_requests_of_a_sequence_with_one_message_id_are_handled_once_each_and_get_their_own_responses(
    offer: str | None,
) -> None:
    """The number is what tells the messages of a sequence apart; a MessageID is what a peer makes of it."""
    asked = Asked()
    if offer is not None:
        asked.identifier = asked.foreign.open(asked.node, offer=offer)
    same = {"message_id": "urn:same"}
    for number in (1, 2, 3, 2, 3, 1):
        request = asked.foreign.ask(asked.identifier, number, f"{number}", **same)
        answers = asked.node.receive([Arrival(http=request, service="orders", url=asked.node.service_url)])
        assert answers is not None
        asked.node.world.run()
        http = answers[0].http if not answers[0].waiting else asked.node.respond(answers[0].waiting)
        assert http is not None
        envelope = decode(http.body, http.content_type, http.soap_action)
        assert isinstance(envelope.body, Payload)
        assert (text_of(envelope.body.xml), envelope.relates_to) == (f"re {number}", "urn:same")
    assert asked.node.handled == ["1", "2", "3"]


def test_the_newest_replies_are_kept_and_the_oldest_give_way() -> None:
    asked = Asked(replies_kept=2)
    for number in range(1, 5):
        asked.ask(number, f"{number}")
    assert [asked.reply(number, "") is not None for number in range(1, 5)] == [False, False, True, True]
    assert asked.node.rows() == 2


def test_replies_go_with_the_sequence_of_their_requests() -> None:
    asked = Asked()
    asked.ask(1, "one")
    asked.node.get(asked.foreign.terminate(asked.identifier, 1))
    grace = asked.node.settings.back_channel_grace
    asked.node.world.advance(grace - 1)
    assert asked.node.rows() == 1
    asked.node.world.advance(2)
    assert asked.node.rows() == 0
    assert asked.node.sources() == []
    asked.node.world.advance(asked.node.policy.tombstone)
    assert asked.node.empty()
    assert asked.node.letters() == []


def test_replies_go_with_a_sequence_that_ends_by_its_inactivity() -> None:
    asked = Asked()
    asked.ask(1, "one")
    silence = asked.node.policy.inactivity_timeout
    assert silence is not None
    asked.node.world.advance(silence + 1)
    assert asked.node.destination().machine.tombstone
    assert asked.node.rows() == 1
    asked.node.world.advance(asked.node.settings.back_channel_grace)
    assert asked.node.rows() == 0


def test_replies_go_with_a_sequence_that_a_successor_carries_on() -> None:
    asked = Asked()
    asked.ask(1, "one")
    asked.foreign.open(asked.node, follows=asked.identifier)
    asked.node.world.advance(asked.node.settings.back_channel_grace + 1)
    assert asked.node.rows() == 0


def test_an_exchange_that_is_open_at_the_end_of_its_sequence_still_gets_the_reply() -> None:
    asked = Asked()
    busy = [True]
    asked.node.on_call = lambda _context, _text: 1 / 0 if busy[0] else None
    waiting = asked.ask(1, "one")
    asked.node.get(asked.foreign.terminate(asked.identifier, 1))
    busy[0] = False
    asked.node.world.advance(10)
    assert plain(asked.node.respond(waiting)) == "re one"


def test_a_reply_that_comes_long_after_the_end_of_its_sequence_is_a_dead_letter() -> None:
    asked = Asked()
    busy = [True]
    asked.node.on_call = lambda _context, _text: 1 / 0 if busy[0] else None
    asked.ask(1, "one")
    asked.node.get(asked.foreign.terminate(asked.identifier, 1))
    asked.node.world.advance(100)
    busy[0] = False
    asked.node.world.advance(10)
    assert asked.node.handled == ["one"]
    assert asked.node.letters_by_text() == [("re one", "not delivered")]
    assert asked.node.rows() == 0


# --- as server, to an address that takes no sequence -----------------------------------------------------------------

REFUSALS = pytest.mark.parametrize(
    "refusal",
    [
        Foreign().fault("CreateSequenceRefused"),
        Foreign().fault("a:ActionNotSupported", status="400"),
        Foreign().fault("s:Nonsense", status="400"),
    ],
    ids=["refused", "not supported", "some fault"],
)
REPLIES = "http://friend.example/replies"


def listening(**more: str) -> tuple[Node, Foreign]:
    """A server that has a response to post to a client that offered nothing."""
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node, acks_to=REPLIES)
    node.get(foreign.ask(identifier, 1, more.get("text", "one"), message_id="urn:request:1", reply_to=REPLIES))
    for _ in range(3):
        node.turn()
    return node, foreign


@REFUSALS
def test_where_no_sequence_is_taken_the_response_is_posted_as_it_is_until_it_is_accepted(refusal: HttpMessage) -> None:
    node, _ = listening()
    answer_to(node, refusal, purpose="CreateSequence")
    node.world.run()  # no process listens there
    node.world.advance(1.5)
    assert node.world.count("bare message") == 2
    node.turn()
    node.world.now += 3
    node.turn()
    (flight,) = [each for each in node.world.wire if each.name == "bare message"]
    assert flight.url == REPLIES
    assert plain(flight.http) == "re one"
    assert flight.envelope.relates_to == "urn:request:1"
    answer_to(node, HttpMessage(b"", "", None, 202), purpose="message")
    node.world.advance(60)
    assert node.world.count("bare message") == 3
    assert node.rows() == 0
    assert node.letters() == []


def silent(node: Node, times: int) -> None:
    """So many CreateSequence are taken, and not answered."""
    for _ in range(times):
        while not any(flight.name == "CreateSequence" for flight in node.world.wire):
            node.world.now += 0.5
            node.turn()
        answer_to(node, HttpMessage(b"", "", None, 202), purpose="CreateSequence")


def test_where_create_sequence_is_taken_and_never_answered_the_response_is_posted_as_it_is() -> None:
    # A client of CXF's with an address that offers nothing, RM 1.0 with WS-Addressing 2004/08.
    node, foreign = listening()
    began = node.world.now
    silent(node, 3)
    create_message_id = node.sources()[0].create_message_id
    node.world.advance(0.1)
    assert node.world.count("bare message") == 0, "it may still be answered"
    silent(node, 1)
    assert node.world.now - began < 20
    node.turn()
    (flight,) = [each for each in node.world.wire if each.name == "bare message"]
    assert flight.url == REPLIES
    assert plain(flight.http) == "re one"
    assert flight.envelope.acknowledgements[0].ranges == ((1, 1),), "without it CXF would take it for unreliable"
    answer_to(node, HttpMessage(b"", "", None, 202), purpose="message")
    brought(node, foreign.created("urn:late", create_message_id))
    node.get(foreign.ask(node.destination().identifier, 2, "two", message_id="urn:request:2", reply_to=REPLIES))
    for _ in range(3):
        node.turn()
    assert [each.name for each in node.world.wire].count("bare message") == 1, "the next one does not wait"
    answer_to(node, HttpMessage(b"", "", None, 202), purpose="message")
    node.world.advance(60)
    assert node.rows() == 0
    assert node.letters() == []


def test_create_sequence_that_gets_nowhere_is_not_given_up() -> None:
    node, _ = listening()
    node.world.advance(120)
    assert node.world.count("CreateSequence") > 4
    assert node.world.count("bare message") == 0


def test_create_sequence_of_a_request_is_not_given_up_however_often_it_is_taken() -> None:
    node = Node("client", World())
    node.to("http://server/services/orders").notes("one")
    node.turn()
    silent(node, 6)
    assert node.world.count("bare message") == 0
    assert node.source().machine.alive


def test_a_busy_refusal_is_no_reason_to_give_up_the_sequence() -> None:
    node, foreign = listening()
    busy = foreign.fault(
        "CreateSequenceRefused",
        blame="Receiver",
        detail='<n:ConnectionLimitReached xmlns:n="http://schemas.microsoft.com/ws/2006/05/rm"/>',
    )
    answer_to(node, busy, purpose="CreateSequence")
    node.world.advance(20)
    assert node.world.count("bare message") == 0
    assert node.world.count("CreateSequence") > 2


def test_the_sequence_of_posted_replies_ends_without_a_word() -> None:
    node, foreign = listening()
    answer_to(node, foreign.fault("CreateSequenceRefused"), purpose="CreateSequence")
    node.turn()
    answer_to(node, HttpMessage(b"", "", None, 202), purpose="message")
    node.get(foreign.terminate(node.destination().identifier, 1))
    node.world.advance(60)
    assert all(not record.machine.alive for record in node.sources())
    assert {name for name in node.world.seen if "Terminate" in name or "Close" in name} == set()


# --- as client, of a peer that takes no offer ------------------------------------------------------------------------


class Declined:
    """A client with a request at a foreign server that did not take the offer."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, *, listens: bool = False, accept: str | None = None) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.client = self.pair.client
        self.pair.server.stop()
        self.link: Link = self.pair.link(protocol, listens=listens)
        self.listens = listens
        self.accept = accept

    def begin(self) -> None:
        self.pair.turn()
        created = self.foreign.created("urn:theirs", self.client.source().create_message_id, accept=self.accept)
        answer_to(self.client, created, purpose="CreateSequence")
        self.pair.turn()

    def asks(self, text: str = "one") -> str:
        (request,) = self.link.asks(text)
        self.begin()
        return request

    def asks_and_waits(self, text: str = "one") -> tuple[str, Future[bytes]]:
        future = self.link.ask(text)
        self.begin()
        (request,) = self.client.store.committed.rms.by_message_id
        return request, future

    def acknowledgement(self) -> str:
        return self.foreign.acknowledgement("urn:theirs", ((1, 1),))

    def response(self, request: str, text: str = "re one", *, acknowledged: bool = True) -> HttpMessage:
        headers = self.acknowledgement() if acknowledged else ""
        return self.foreign.envelope(
            f"{ASK}Response", body(text).decode(), headers=headers, relates_to=request, to="http://client/responses"
        )

    def replies(self, reply: HttpMessage) -> None:
        if self.listens:
            assert name_of(brought(self.client, reply)) == "accepted"
        else:
            answer_to(self.client, reply, purpose="message")
        self.pair.run()


@PROTOCOLS
@LISTENS
def test_a_plain_reply_is_the_response_when_the_offer_was_declined(protocol: Protocol, listens: bool) -> None:
    told = Declined(protocol, listens=listens)
    request = told.asks()
    told.replies(told.response(request))
    assert told.client.answers == [("one", "re one")]
    assert told.client.rows() == 0
    told.pair.advance(60)
    assert told.pair.count("message 1") == 1, "it is not sent again"
    told.pair.assert_sound()


@PROTOCOLS
def test_accept_with_acks_to_none_declines_the_offer_and_plain_replies_follow(protocol: Protocol) -> None:
    # RM-CS-06: CXF
    told = Declined(protocol)
    old = protocol.addressing is AddressingVersion.WSA200408
    told.accept = f"{told.foreign.wsa}/role/none" if old else "none"
    request = told.asks()
    told.replies(told.response(request))
    assert told.client.answers == [("one", "re one")]


@LISTENS
def test_a_plain_reply_that_comes_twice_is_taken_once(listens: bool) -> None:
    told = Declined(listens=listens)
    request = told.asks()
    first = told.response(request)
    again = told.client.source()
    told.replies(first)
    brought(told.client, told.response(request, "re two"))
    told.pair.run()
    assert again.machine.alive
    assert told.client.answers == [("one", "re one")]
    assert told.client.letters() == []


def test_two_plain_replies_in_one_transaction_are_one() -> None:
    told = Declined(listens=True)
    request = told.asks()
    told.client.get_all([told.response(request), told.response(request, "re two")], "responses")
    told.pair.run()
    assert told.client.answers == [("one", "re one")]
    assert told.client.letters() == []


def test_a_reply_without_an_acknowledgement_is_taken_and_the_request_goes_on_until_it_is_acknowledged() -> None:
    told = Declined()
    request = told.asks()
    told.replies(told.response(request, acknowledged=False))
    assert told.client.answers == [("one", "re one")]
    assert told.client.rows() == 1
    told.pair.now += 1
    told.pair.turn()
    assert told.pair.count("message 1") == 2
    told.replies(told.foreign.alone(told.acknowledgement()))
    assert told.client.rows() == 0


@PROTOCOLS
@LISTENS
def test_a_fault_that_answers_an_acknowledged_request_is_its_response(protocol: Protocol, listens: bool) -> None:
    told = Declined(protocol, listens=listens)
    request, future = told.asks_and_waits()
    told.replies(told.foreign.fault("s:Server", headers=told.acknowledgement(), relates_to=request, blame="Receiver"))
    assert future.done()
    with pytest.raises(ApplicationFault, match="so it is"):
        future.result(0)
    assert told.client.rows() == 0


@pytest.mark.parametrize("case", ["not acknowledged", "busy", "addressing"])
def test_a_fault_about_the_delivery_is_not_taken_for_a_response(case: str) -> None:
    told = Declined()
    request, future = told.asks_and_waits()
    code, status = {"busy": ("s:Server", "503"), "addressing": ("a:ActionNotSupported", "400")}.get(
        case, ("s:Server", "500")
    )
    headers = "" if case == "not acknowledged" else told.acknowledgement()
    fault = told.foreign.fault(code, headers=headers, relates_to=request, blame="Receiver", status=status)
    told.replies(fault)
    assert not future.done()
    told.pair.advance(1)
    assert told.pair.count("message 1") == 2, "it is sent again, to fetch the response"


def test_acknowledgement_alone_is_no_response() -> None:
    # CXF's partial response: 202, an empty body, and the MessageID of the request
    told = Declined()
    request = told.asks()
    partial = told.foreign.envelope(ASK, headers=told.acknowledgement(), relates_to=request)
    told.replies(HttpMessage(partial.body, partial.content_type, partial.soap_action, 202))
    assert told.client.answers == []
    assert told.client.rows() == 1


def test_an_empty_reply_is_a_response() -> None:
    told = Declined()
    request = told.asks()
    told.replies(told.foreign.envelope(f"{ASK}Response", headers=told.acknowledgement(), relates_to=request))
    assert told.client.answers == [("one", "")]


def test_a_reply_from_another_endpoint_is_not_taken() -> None:
    told = Declined()
    request = told.asks()
    told.client.to("http://other.example/services/orders", "other").notes("x")
    told.pair.turn()
    (flight,) = [each for each in told.pair.wire if "other.example" in each.url]
    assert flight.exchange is not None
    told.client.answered(flight.exchange.outgoing, told.response(request))
    assert brought(told.client, told.response(request)).status == 202, "nor where no responses are waited for"
    told.pair.run()
    assert told.client.answers == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_client_that_crashes_around_a_plain_reply_consumes_it_once(side: str) -> None:
    for commit in range(3, 10):
        pair = Pair()
        link = pair.link(offer=False, listens=False)
        link.asks("one")
        link.close()
        crashes = pair.client.crash_before_commit if side == "before" else pair.client.crash_after_commit
        crashes.add(commit)
        pair.advance(60)
        assert pair.server.handled == ["one"]
        assert pair.client.answers == [("one", "re one")]
        assert pair.client.rows() == 0


# --- both ------------------------------------------------------------------------------------------------------------


@PROTOCOLS
@LISTENS
def test_mercury_talks_to_itself_without_an_offer(protocol: Protocol, listens: bool) -> None:
    pair = Pair()
    link = pair.link(protocol, listens=listens, offer=False)
    link.asks("one", "refuse two", "three")
    link.close()
    pair.advance(60)
    assert sorted(pair.client.answers) == [("one", "re one"), ("refuse two", "fault Refused"), ("three", "re three")]
    assert pair.server.handled == ["one", "three"]
    assert pair.client.rows() == 0
    pair.advance(3 * 86400)
    assert pair.server.empty()
    assert pair.client.empty()
    pair.assert_sound()


def test_mercury_gets_its_responses_in_order_however_many_answers_to_create_sequence_are_lost() -> None:
    # DA-04: without a sequence for responses nothing would keep their order.
    pair = Pair()
    link = pair.link(offer=False)
    link.notes("first")
    pair.run()
    pair.lose("CreateSequenceResponse", 10)
    link.asks("one", "two", "three")
    pair.advance(600)
    link.close()
    pair.advance(60)
    assert [text for text, _ in pair.client.answers] == ["one", "two", "three"]
    assert pair.count("response 1") == 1
    pair.assert_ended()


@PROTOCOLS
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_server_that_crashes_around_a_plain_reply_gives_it_later(protocol: Protocol, side: str) -> None:
    for commit in range(2, 8):
        pair = Pair()
        crashes = pair.server.crash_before_commit if side == "before" else pair.server.crash_after_commit
        crashes.add(commit)
        link = pair.link(protocol, listens=False, offer=False)
        link.asks("one")
        link.close()
        pair.advance(60)
        assert pair.server.handled == ["one"]
        assert pair.client.answers == [("one", "re one")]
