"""Clients without an address get everything on the connections of their own posts (HTTP-04, HTTP-05)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.exchange import Arrival
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign
from .harness import Node, Pair, World, name_of

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)


def stumbling(pair: Pair) -> list[bool]:
    """The server's handler fails while the first item is true."""
    busy = [True]
    pair.server.on_call = lambda _context, _text: 1 / 0 if busy[0] else None
    return busy


@PROTOCOLS
def test_nothing_is_ever_posted_to_a_client_without_an_address(protocol: Protocol) -> None:
    # HTTP-04, HTTP-09
    pair = Pair()
    link = pair.link(protocol, listens=False)
    link.asks("one", "two")
    link.notes("three")
    link.close()
    urls = []
    launch = pair.launch
    pair.launch = lambda flight: (urls.append(flight.url), launch(flight))[1]  # type: ignore[method-assign]
    pair.advance(20)
    assert set(urls) == {pair.server.service_url}
    pair.assert_ended()


@PROTOCOLS
def test_the_response_comes_in_the_reply_to_its_request(protocol: Protocol) -> None:
    # HTTP-08: with the acknowledgement of the request
    pair = Pair()
    pair.link(protocol, listens=False).asks("one")
    pair.run()
    assert pair.seen[2:4] == ["message 1", "response 1"]
    assert pair.client.answers == [("one", "re one")]
    assert pair.client.source().machine.acknowledged.count == 1


@PROTOCOLS
def test_a_request_is_posted_again_though_acknowledged_until_its_response_comes(protocol: Protocol) -> None:
    # HTTP-05
    pair = Pair()
    busy = stumbling(pair)
    pair.link(protocol, listens=False).asks("one")
    pair.advance(5)
    assert pair.client.source().machine.acknowledged.count == 1
    assert pair.when("message 1") == [0, 1, 3]
    assert pair.count("acknowledgement") == 3, "while the application works, a bare acknowledgement"
    busy[0] = False
    pair.advance(10)
    assert pair.client.answers == [("one", "re one")]
    assert pair.when("message 1") == [0, 1, 3, 7, 15], "the handler was tried again in between"
    pair.advance(50)
    assert pair.count("message 1") == 5


def test_a_server_that_does_not_wait_answers_the_next_time() -> None:
    pair = Pair()
    pair.patient = False
    link = pair.link(listens=False)
    link.asks("one", "two")
    link.close()
    pair.run()
    assert pair.client.answers == []
    pair.advance(1)
    assert pair.client.answers == [("one", "re one"), ("two", "re two")]
    pair.advance(10)
    pair.assert_ended()


def test_a_lost_response_is_given_again_unchanged() -> None:
    # HTTP-05: the same reply message
    pair = Pair()
    pair.hold("response 1", 3)
    pair.link(listens=False).asks("one")
    pair.advance(4)
    first, second, third = (flight.envelope for flight in pair.held)
    assert replace(second, ack_requests=()) == first
    assert third == second
    pair.held.pop(0)
    pair.release()
    pair.run()
    assert pair.client.answers == [("one", "re one")]
    assert pair.server.handled == ["one"]


def test_a_response_asks_for_its_acknowledgement_when_it_is_sent_again_not_at_first() -> None:
    # LIVE-02: CXF answers AckRequested before it has recorded the response, with an acknowledgement of nothing.
    pair = Pair()
    pair.hold("response 1", 2)
    pair.link(listens=False).asks("one")
    pair.advance(2)
    first, second = (flight.envelope for flight in pair.held)
    assert not first.ack_requests
    assert second.ack_requests


def test_a_request_that_arrives_again_gets_the_same_stored_response() -> None:
    # IOP-WCF-05
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node, offer="urn:offered")
    request = foreign.ask(identifier, 1, "one", message_id="urn:request")
    waiting = node.receive([_arrival(request)])
    assert waiting is not None
    assert waiting[0].waiting
    node.world.run()
    first, second = node.respond(waiting[0].waiting), node.respond(waiting[0].waiting)
    assert first is not None
    assert first == second
    assert name_of(first) == "response 1"
    node.receive([_arrival(request)])
    node.world.run()
    assert node.handled == ["one"]


def test_an_acknowledged_response_is_not_given_again() -> None:
    # HTTP-05: for an acked reply a bare acknowledgement
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node, offer="urn:offered")
    request = foreign.ask(identifier, 1, "one", message_id="urn:request")
    answers = node.receive([_arrival(request)])
    assert answers is not None
    waiting = answers[0].waiting
    assert waiting
    node.world.run()
    assert node.respond(waiting) is not None
    node.get(foreign.alone(foreign.acknowledgement("urn:offered", ((1, 1),))))
    assert node.respond(waiting) is None
    assert name_of(node.get(request)) == "acknowledgement"


def test_the_response_to_another_peers_request_with_the_same_message_id_is_not_given_away() -> None:
    node, one, two = Node("server", World()), Foreign(name="one"), Foreign(name="two")
    first = one.open(node, offer="urn:one:offered")
    second = two.open(node, offer="urn:two:offered")
    node.get(one.ask(first, 1, "secret", message_id="urn:1"))
    node.world.run()
    node.on_call = lambda _context, _text: 1 / 0
    answers = node.receive([_arrival(two.ask(second, 1, "curious", message_id="urn:1"))])
    assert answers is not None
    assert answers[0].waiting
    node.world.run()
    assert node.respond(answers[0].waiting) is None


def test_a_one_way_message_is_not_waited_for() -> None:
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node, offer="urn:offered")
    answers = node.receive([_arrival(foreign.note(identifier, 1))])
    assert answers is not None
    assert not answers[0].waiting
    assert name_of(answers[0].http) == "acknowledgement"


@PROTOCOLS
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_server_that_crashes_around_the_response_gives_it_later(protocol: Protocol, side: str) -> None:
    # Storing the response and numbering it are two commits: a crash may come around either.
    for commit in range(3, 9):
        pair = Pair()
        crashes = pair.server.crash_before_commit if side == "before" else pair.server.crash_after_commit
        crashes.add(commit)
        link = pair.link(protocol, listens=False)
        link.asks("one")
        link.close()
        pair.advance(30)
        assert pair.server.handled == ["one"]
        assert pair.client.answers == [("one", "re one")]
        pair.assert_ended()


@PROTOCOLS
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_client_that_crashes_before_consuming_consumes_once(protocol: Protocol, side: str) -> None:
    for commit in range(3, 9):
        pair = Pair()
        link = pair.link(protocol, listens=False)
        link.asks("one")
        link.close()
        crashes = pair.client.crash_before_commit if side == "before" else pair.client.crash_after_commit
        crashes.add(commit)
        pair.advance(30)
        assert pair.client.answers == [("one", "re one")]
        pair.assert_ended()


def test_responses_that_arrive_in_the_wrong_order_are_consumed_in_order() -> None:
    pair = Pair()
    pair.hold("response*", 3)
    pair.link(listens=False).asks("one", "two", "three")
    pair.run()
    pair.release(backwards=True)
    pair.run()
    assert [answer for answer, _ in pair.client.answers] == ["one", "two", "three"]


def test_a_response_to_none_is_not_made_but_the_request_is_acknowledged() -> None:
    # WSA-04
    for protocol in (RM11_SOAP12, RM10_SOAP11):
        node, foreign = Node("server", World()), Foreign(protocol)
        identifier = foreign.open(node, offer="urn:offered")
        none = "none" if protocol is RM11_SOAP12 else f"{foreign.wsa}/role/none"
        assert name_of(node.get(foreign.ask(identifier, 1, "one", reply_to=none))) == "acknowledgement"
        node.world.run()
        assert node.handled == ["one"]
        assert all(not data.rows for data in node.store.committed.rms.keys.values())


def test_a_client_that_ends_before_its_response_leaves_a_dead_letter_at_the_server() -> None:
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node, offer="urn:offered")
    busy = [True]
    node.on_call = lambda _context, _text: 1 / 0 if busy[0] else None
    node.get(foreign.ask(identifier, 1, "one"))
    node.get(foreign.terminate(identifier, 1))
    node.world.run()
    busy[0] = False
    node.world.advance(200)
    assert node.handled == ["one"]
    assert [letter.certainty.value for letter in node.letters()] == ["not delivered"]
    assert all(not record.machine.alive for record in node.sources())


def test_a_response_nobody_fetched_is_in_doubt_after_a_grace() -> None:
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node, offer="urn:offered")
    node.get(foreign.ask(identifier, 1, "one"))
    node.world.run()
    node.get(foreign.terminate(identifier, 1))
    node.world.advance(59)
    assert node.letters() == []
    node.world.advance(2)
    assert [letter.certainty.value for letter in node.letters()] == ["unknown"]


@pytest.mark.parametrize("late", [False, True], ids=["stored before the end", "stored after it"])
def test_responses_nobody_fetched_are_one_line_in_the_log(late: bool, caplog: pytest.LogCaptureFixture) -> None:
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node, offer="urn:offered")
    busy = [late]
    node.on_call = lambda _context, _text: 1 / 0 if busy[0] else None
    for number in range(1, 21):
        node.get(foreign.ask(identifier, number))
    node.world.run()
    node.get(foreign.terminate(identifier, 20))
    node.world.advance(1)
    caplog.clear()
    busy[0] = False
    node.world.advance(120)
    assert len(node.letters()) == 20
    (line,) = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert line.startswith("20 dead letters: ")
    assert "fetched it" in line or "ended its sequence" in line


def _arrival(http: HttpMessage) -> Arrival:
    return Arrival(http=http, service="orders", url="http://server/services/orders")


def test_reference_with_thousands_of_zeros_in_a_parameter_comes_back_in_the_response() -> None:
    # Python's `int` refuses more than 4,300 digits.
    world = World()
    server, foreign = Node("server", world), Foreign(RM11_SOAP12)
    sequence = foreign.open(server, offer="urn:offered")
    parameter = f'<q xmlns="urn:q">&#{"0" * 5000}65;</q>'
    more = {"reply_to": "anonymous", "reply_parameters": parameter, "message_id": "urn:one"}
    server.get(foreign.ask(sequence, 1, "one", **more))
    world.run()
    reply = server.get(foreign.ask(sequence, 1, "one", **more))
    assert b"re one" in reply.body
    assert b"0" * 5000 in reply.body
