"""Batches of requests whose responses come on their connection: the exchange is answered with a batch of responses."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from mercury.engine.answered_together import REMEMBERED
from mercury.engine.application import MessageContext
from mercury.service.endpoint import ANOTHER
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage, MessageBatch

from .harness import DESTINATION, NOTE, Pair, body, name_of
from .harness.served import Served

TAKING = replace(DESTINATION, batches=True)
FOUR = ("one", "two", "three", "four")


def pair(**changes: int) -> Pair:
    """:param changes: to the policy of the client as a destination of responses."""
    return Pair(policy=TAKING, client_policy=replace(TAKING, **changes))


def requests(two: Pair) -> list[str]:
    """What the client has posted: messages and batches, by name. An answer has the name of what it holds, too, so each
    second batch is an answer."""
    return [name for _, name in two.times if name.split()[0] in ("message", "batch", "response")]


def envelope_of(http: HttpMessage) -> Envelope:
    return decode(http.body, http.content_type, http.soap_action, replies=True)


def answered(*texts: str) -> list[tuple[str | None, str]]:
    return [(text, f"re {text}") for text in texts]


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_requests_that_are_due_together_leave_together_and_so_do_their_responses(protocol: Protocol) -> None:
    two = pair()
    answers: list[Envelope] = []
    two.alter("batch 1-4", lambda http: http)  # the requests
    two.alter("batch 1-4", lambda http: answers.append(envelope_of(http)) or http)
    link = two.link(protocol, listens=False)
    link.asks(*FOUR)
    two.advance(1)
    assert requests(two) == ["batch 1-4", "batch 1-4"]
    assert two.client.answers == answered(*FOUR)
    (answer,) = answers
    assert answer.relates_to is None, "each message of the batch names its request"
    assert [each.ranges for each in answer.acknowledgements] == [((1, 4),)]
    link.close()
    two.advance(100)
    two.assert_ended()


def test_a_fault_of_the_application_is_one_of_the_responses() -> None:
    two = pair()
    two.link(listens=False).asks("one", "refuse", "three")
    two.advance(1)
    assert requests(two) == ["batch 1-3", "batch 1-3"]
    assert two.client.answers == [("one", "re one"), ("refuse", "fault Refused"), ("three", "re three")]


def test_one_way_messages_and_requests_are_in_different_batches() -> None:
    two = pair()
    link = two.link(listens=False)
    link.notes("one", "two")
    link.asks("three", "four")
    two.advance(1)
    assert requests(two) == ["batch 1-2", "batch 3-4", "batch 1-2"]
    assert two.server.handled == [*FOUR]
    assert two.client.answers == answered("three", "four")


def test_a_lost_answer_is_given_again() -> None:
    two = pair()
    two.alter("batch 1-4", lambda http: http)
    two.lose("batch 1-4")  # the answer
    two.link(listens=False).asks(*FOUR)
    two.advance(60)
    assert two.server.handled == [*FOUR]
    assert two.client.answers == answered(*FOUR)
    two.assert_sound()


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("side", ["client", "server"])
def test_crash_beside_a_batch_of_requests_loses_and_repeats_nothing(side: str, at: int) -> None:
    two = pair()
    node = two.nodes[side]
    two.link(listens=False).asks(*FOUR)
    node.crash_after_commit.add(node.commits + at)
    two.advance(1)
    if not node.up:
        node.start()
    two.advance(60)
    assert two.server.handled == [*FOUR]
    assert two.client.answers == answered(*FOUR)
    two.assert_sound()


def test_where_responses_come_late_requests_leave_in_smaller_batches_and_later_in_large_ones_again() -> None:
    two = pair()
    texts = [str(number) for number in range(1, 17)]
    link = two.link(listens=False)
    two.patient = False  # each exchange is answered before the handler has run
    link.asks(*texts)
    two.advance(30)
    assert requests(two)[0] == "batch 1-16"
    assert two.client.answers == answered(*texts)
    two.patient = True
    link.asks(*FOUR)
    two.advance(1)
    assert sorted(requests(two)[-4:]) == ["batch 17-18", "batch 17-18", "batch 19-20", "batch 19-20"]
    two.advance(REMEMBERED)
    link.asks(*FOUR)
    two.advance(1)
    assert requests(two)[-2:] == ["batch 21-24", "batch 21-24"]


def test_responses_that_do_not_fit_in_one_envelope_come_when_their_requests_are_repeated() -> None:
    two = pair(max_batch=2)
    link = two.link(listens=False)
    link.asks(*FOUR)
    two.advance(0)
    assert requests(two) == ["batch 1-4", "batch 1-2"]
    assert two.client.answers == answered("one", "two")
    two.advance(10)
    assert two.client.answers == answered(*FOUR)
    assert two.server.handled == [*FOUR]
    link.asks("five", "six", "seven")
    two.advance(1)
    assert sorted(requests(two)[-4:]) == ["batch 5-6", "batch 5-6", "message 7", "response 7"], "as many as come back"


def test_request_with_header_blocks_leaves_alone() -> None:
    two = pair()
    link = two.link(listens=False)
    link.asks("one", "two")
    link.send(body("three"), operation="x", action=NOTE, headers=(b'<h:mark xmlns:h="urn:h"/>',))
    two.advance(1)
    assert requests(two) == ["batch 1-2", "message 3", "batch 1-2"]
    assert two.client.answers == answered("one", "two")


def test_exchange_with_some_of_its_responses_ends_when_no_other_has_come_for_a_while() -> None:
    two = pair()
    two.hold("batch 1-4")
    two.link(listens=False).asks(*FOUR)
    two.advance(0)
    (flight,) = two.held

    def refuse(_context: MessageContext, text: str) -> None:
        if text == "three":
            raise RuntimeError("not yet")

    two.server.on_call = refuse
    with closing(Served(two.server)) as served:
        client = served.post(flight.http)
        served.advance(ANOTHER / 2)
        assert client.reply is None, "the others may follow at once"
        served.advance(2 * ANOTHER)
        assert client.reply is not None
    batch = envelope_of(client.reply).body
    assert isinstance(batch, MessageBatch)
    assert len(batch.messages) == 2
    assert name_of(client.reply) == "batch 1-2"
