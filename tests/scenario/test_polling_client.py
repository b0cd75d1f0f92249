"""Mercury as a client that cannot listen and fetches its responses by MakeConnection (MC-01, MC-04 to MC-07)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from mercury.statemachine.protocol import Protocol
from mercury.statemachine.retransmission import Backoff

from .foreign import RM11_SOAP11, RM11_SOAP12, Foreign, answer_to, brought
from .harness import Link, Node, Pair, World, source

PROTOCOLS = pytest.mark.parametrize("protocol", [RM11_SOAP11, RM11_SOAP12], ids=str)
#: Questions after 1, 2, 4, 8, 8 ... seconds.
POLLING = Backoff(base=1.0, factor=2.0, cap=8.0, jitter=0.0)


def polling(pair: Pair, protocol: Protocol = RM11_SOAP12, **changes: Any) -> Link:
    return pair.link(protocol, polls=True, polling=POLLING, **changes)


def only_to_the_server(pair: Pair) -> list[str]:
    """The URLs that are posted to from now on."""
    urls: list[str] = []
    launch = pair.launch
    pair.launch = lambda flight: (urls.append(flight.url), launch(flight))[1]  # type: ignore[method-assign]
    return urls


@PROTOCOLS
def test_everything_is_fetched_and_nothing_is_posted_to_the_client(protocol: Protocol) -> None:
    # MC-05, MC-07
    pair = Pair()
    link = polling(pair, protocol)
    link.asks("one", "two", "three")
    link.notes("four")
    link.close()
    urls = only_to_the_server(pair)
    pair.advance(60)
    assert pair.client.answers == [(text, f"re {text}") for text in ("one", "two", "three")]
    assert pair.server.handled == ["one", "two", "three", "four"]
    assert set(urls) == {pair.server.service_url}
    pair.assert_ended()


def test_more_is_asked_for_at_once_when_more_waits() -> None:
    # MC-04
    pair = Pair()
    polling(pair).asks(*(f"{number}" for number in range(10)))
    pair.advance(1)
    assert len(pair.client.answers) == 10
    assert pair.count("MakeConnection") == 10
    pair.advance(100)
    assert pair.count("MakeConnection") == 10, "nothing more is expected"


def test_the_pauses_between_questions_grow_and_begin_anew_when_something_is_sent() -> None:
    # MC-07
    pair = Pair()
    busy = [True]
    pair.server.on_call = lambda _context, _text: 1 / 0 if busy[0] else None
    link = polling(pair)
    link.asks("one")
    pair.advance(30)
    asked = pair.when("MakeConnection")
    assert [round(later - sooner) for sooner, later in pairwise(asked)] == [1, 2, 4, 8, 8]
    busy[0] = False
    pair.advance(0.1)
    before = len(asked)
    link.asks("two")
    pair.advance(2)
    assert len(pair.when("MakeConnection")) > before, "it was woken"
    pair.advance(10)
    assert pair.client.answers == [("one", "re one"), ("two", "re two")]


def test_one_way_messages_that_are_acknowledged_ask_for_nothing() -> None:
    pair = Pair()
    link = polling(pair)
    for number in range(5):
        link.notes(f"{number}")
        pair.advance(20)
    assert pair.count("MakeConnection") == 0


@PROTOCOLS
@pytest.mark.parametrize("seed", range(4))
def test_everything_arrives_once_and_in_order_through_loss_and_crashes(protocol: Protocol, seed: int) -> None:
    # DA-03, DA-04, MC-06
    pair = Pair()
    link = polling(pair, protocol)
    pair.at_random(seed, lose=0.2, repeat=0.1, overtake=0.1)
    texts = [f"{number}" for number in range(25)]
    for place, text in enumerate(texts):
        link.asks(text)
        pair.advance(1)
        if place % 8 == 5:
            pair.client.crash()
        if place % 8 == 7:
            pair.server.crash()
    link.close()
    pair.advance(300)
    pair.forget_rules()
    pair.advance(4000)  # the server does without an answer to its TerminateSequence that was lost
    assert pair.server.handled == texts
    assert pair.client.answers == [(text, f"re {text}") for text in texts]
    pair.assert_ended()


def test_a_client_that_starts_again_fetches_what_it_waited_for() -> None:
    # MC-05: the address is stored with the sequence
    pair = Pair()
    polling(pair).asks("one")
    pair.run()
    assert pair.server.handled == ["one"]
    pair.client.stop()
    pair.advance(60)
    pair.client.start()
    pair.advance(10)
    assert pair.client.answers == [("one", "re one")]


def test_a_client_that_offers_no_sequence_takes_the_one_that_is_made_where_it_asks() -> None:
    # MC-02, LIVE-06
    pair = Pair()
    pair.client.settings = type(pair.client.settings)()  # no address is allowed
    pair.client.crash()
    link = polling(pair, offer=False)
    link.asks("one", "two")
    pair.advance(20)
    assert pair.count("CreateSequence") == 2
    assert pair.client.answers == [("one", "re one"), ("two", "re two")]
    link.close()
    pair.advance(60)
    pair.assert_sound()


def test_a_peer_that_does_not_know_it_is_asked_again_and_fails_nothing() -> None:
    # MC-10
    world = World()
    client, foreign = Node("client", world), Foreign(RM11_SOAP12)
    link = client.to("http://foreign/svc", policy=source(RM11_SOAP12, polling=POLLING), polls=True)
    link.asks("one")
    world.turn()
    created = client.source()
    answer_to(client, foreign.created("urn:s", created.create_message_id), purpose="CreateSequence")
    world.turn()
    headers = foreign.acknowledgement("urn:s", ((1, 1),))
    answer_to(client, foreign.alone(headers), purpose="message")
    for _ in range(3):
        world.now += 10
        world.turn()
        refused = foreign.fault("a:ActionNotSupported", relates_to=None, status="500")
        answer_to(client, refused, purpose="MakeConnection")
    assert client.source().machine.alive
    assert client.letters() == []


def test_nobody_else_speaks_for_the_peer_that_is_asked() -> None:
    # RM-ACK-10, SEC-01: everything comes back on connections to it
    pair, foreign = Pair(), Foreign(RM11_SOAP12)
    polling(pair).asks("one")
    pair.lose("message 1", 2)
    pair.run()
    identifier = pair.client.source().machine.identifier
    assert identifier is not None
    brought(pair.client, foreign.alone(foreign.acknowledgement(identifier, ((1, 1),))))
    brought(pair.client, foreign.terminate(identifier, 1))
    assert pair.client.source().machine.acknowledged.count == 0
    assert pair.client.source().machine.alive
    pair.advance(30)
    assert pair.client.answers == [("one", "re one")]


def test_create_sequence_that_is_fetched_from_elsewhere_than_it_names_is_refused() -> None:
    # WSA-08: this side posts where it fetches, and nowhere else
    world = World()
    client, foreign = Node("client", world, allow=()), Foreign(RM11_SOAP12)
    link = client.to("http://foreign/svc", policy=source(RM11_SOAP12, polling=POLLING, offer=False), polls=True)
    link.asks("one")
    world.turn()
    answer_to(client, foreign.created("urn:s", client.source().create_message_id), purpose="CreateSequence")
    world.turn()
    answer_to(client, foreign.alone(foreign.acknowledgement("urn:s", ((1, 1),))), purpose="message")
    for acks_to, made in (("http://victim/", 0), ("http://foreign/svc", 1)):
        world.now += 10
        world.turn()
        answer_to(client, foreign.create(acks_to, reply_to="http://foreign/svc"), purpose="MakeConnection")
        assert len(client.destinations()) == made
        world.wire.clear()


def test_peer_that_promises_more_and_brings_nothing_new_is_not_asked_at_once() -> None:
    # MC-04, MC-07
    world = World()
    client, foreign = Node("client", world), Foreign(RM11_SOAP12)
    link = client.to("http://foreign/svc", policy=source(RM11_SOAP12, polling=POLLING), polls=True)
    link.asks("one")
    world.turn()
    answer_to(client, foreign.created("urn:s", client.source().create_message_id), purpose="CreateSequence")
    world.turn()
    headers = foreign.acknowledgement("urn:s", ((1, 1),))
    answer_to(client, foreign.alone(headers), purpose="message")
    pending = '<m:MessagePending xmlns:m="http://docs.oasis-open.org/ws-rx/wsmc/200702" pending="true"/>'
    for _ in range(3):
        world.now += 10
        world.turn()
        answer_to(client, foreign.alone(headers + pending), purpose="MakeConnection")
        due = client.source().poll_due
        assert due is not None
        assert due >= world.now + 1
    assert client.source().polls == 3
