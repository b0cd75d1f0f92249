"""Dead letters that peers cause count for the limits of those peers until an operator discards or redrives them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mercury.client.dead_letters import DeadLetters
from mercury.errors import ApplicationFault
from mercury.storage.letters import EVERY_LETTER

from .foreign import Foreign, brought, identifier_in
from .harness import Node, name_of
from .test_backlog_bytes import KILO, NO_SHARE, REFUSED, first_words, large, make, post, says, sent
from .test_backlog_bytes import server as plain_server
from .test_odd_peers import client_with_a_request


def refuse(_context: object, _text: str) -> None:
    raise ApplicationFault("no", code="Refused")


def server(most: int = 10_000 * KILO, **settings: Any) -> Node:
    return plain_server(most, settings={**NO_SHARE, **settings})


def letters(node: Node, sequence: str | None = None) -> int:
    """Bytes of dead letters of a sequence or of all that peers have caused."""
    with node.store.transaction() as tx:
        return tx.dead_letters.bytes() if sequence is None else tx.dead_letters.bytes_of(sequence)


def discard(node: Node) -> int:
    return DeadLetters(
        node.store,
        lambda: node.world.now,
    ).discard(EVERY_LETTER)


def refused_one_by_one(node: Node, foreign: Foreign, sequence: str, kilobytes: int = 10) -> int:
    """How many one-way messages are taken, each of which its handler refuses."""
    node.on_call = refuse
    for number in range(1, 100):
        if not sent(node, foreign, sequence, number, kilobytes):
            return number - 1
        node.world.run()
    return 99


@pytest.mark.parametrize(
    ("most", "settings"),
    [
        (100 * KILO, {}),
        (10_000 * KILO, {"max_backlog_bytes_per_peer": 100 * KILO}),
        (10_000 * KILO, {"max_backlog_bytes": 100 * KILO}),
    ],
    ids=["of a sequence", "of a peer", "of all"],
)
def test_messages_that_its_handler_refuses_fill_the_limit_and_no_more_until_they_are_discarded(
    most: int, settings: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    node, foreign = server(most, **settings), Foreign()
    sequence = make(node, foreign)
    with caplog.at_level(logging.WARNING):
        taken = refused_one_by_one(node, foreign, sequence)
        for _ in range(5):
            reply = post(node, foreign.note(sequence, taken + 1, large(1)))
            assert says(reply) == REFUSED
    assert 8 <= taken <= 10
    assert b"an operator has to look at" in reply.body
    told = [record.getMessage() for record in caplog.records if "mercury dlq list" in record.getMessage()]
    assert len(told) == 1, "not for each"
    assert f"the dead letters of a peer take {letters(node)} bytes" in told[0]
    assert letters(node, sequence) == letters(node) < 115 * KILO
    assert discard(node) == taken
    assert letters(node) == 0
    node.world.advance(2)
    node.on_call = None
    assert sent(node, foreign, sequence, taken + 1)
    node.world.run()
    assert first_words(node.handled) == [taken + 1]


def test_many_small_letters_count_a_kilobyte_each_at_least() -> None:
    node, foreign = server(100 * KILO), Foreign()
    assert refused_one_by_one(node, foreign, make(node, foreign), 0) < 99


def test_letters_are_not_left_behind_by_ended_sequences_and_another_peer_goes_on() -> None:
    node, foreign = server(max_backlog_bytes_per_peer=100 * KILO), Foreign()
    node.on_call = refuse
    names = []
    for _ in range(30):
        reply = post(node, foreign.create())
        names.append(name_of(reply))
        if names[-1] == "CreateSequenceResponse":
            post(node, foreign.note(identifier_in(reply), 1, large(1)))
            node.world.run()
            post(node, foreign.terminate(identifier_in(reply), 1))
            node.world.run()
    assert names[-15:] == ["fault CreateSequenceRefused"] * 15
    assert letters(node) < 115 * KILO
    other = make(node, foreign, "192.0.2.2")
    assert sent(node, foreign, other, 1, peer="192.0.2.2")


def test_responses_that_nobody_fetches_count_for_their_client_when_they_are_dead_letters() -> None:
    node, foreign = server(max_backlog_bytes_per_peer=100 * KILO, back_channel_grace=5.0), Foreign()
    names = []
    for number in range(12):
        reply = post(node, foreign.create(offer=f"urn:offered:{number}"))
        names.append(name_of(reply))
        if names[-1] != "CreateSequenceResponse":
            continue
        sequence = identifier_in(reply)
        for asked in (1, 2, 3):
            post(node, foreign.ask(sequence, asked, large(asked)))
            node.world.run()
        post(node, foreign.terminate(sequence, 3))
        node.world.advance(20)
    assert 90 * KILO <= letters(node) < 150 * KILO
    assert names[-6:] == ["fault CreateSequenceRefused"] * 6


def test_responses_that_answer_nothing_leave_few_letters_and_one_that_answers_is_taken() -> None:
    pair, foreign, request, offered = client_with_a_request(**NO_SHARE)
    replies = []
    for number in range(1, 60):
        reply = brought(pair.client, foreign.respond(offered, number, "urn:nobody", large(number, 100)))
        replies.append(says(reply))
        pair.run()
    refused = replies.count(REFUSED)
    assert replies == [("accepted", 202)] * (59 - refused) + [REFUSED] * refused
    assert refused > 15
    found = letters(pair.client, offered)
    assert found == letters(pair.client) < 4200 * KILO, "a sixteenth of destination.max_backlog_bytes"
    assert name_of(brought(pair.client, foreign.respond(offered, 60 - refused, request, "true"))) == "accepted"
    pair.run()
    assert pair.client.answers == [("one", "true")]


def test_letters_of_a_few_peers_that_fill_the_limit_of_all_keep_no_other_peer_out() -> None:
    # They stay until an operator comes.
    node, foreign = server(max_backlog_bytes=1000 * KILO, max_backlog_bytes_per_peer=100 * KILO), Foreign()
    node.on_call = refuse
    for peer in (f"192.0.2.{last}" for last in range(1, 15)):
        sequence = identifier_in(post(node, foreign.create(), peer))
        for number in range(1, 12):
            post(node, foreign.note(sequence, number, large(number)), peer)
            node.world.run()
    assert 1000 * KILO <= letters(node) < 1200 * KILO
    node.on_call = None
    newcomer = "192.0.2.99"
    sequence = identifier_in(post(node, foreign.create(), newcomer))
    assert sent(node, foreign, sequence, 1, kilobytes=3, peer=newcomer)
    node.world.run()
    assert first_words(node.handled)[-1:] == [1]
    assert post(node, foreign.create(), "192.0.2.1").status == 503, "who has caused them waits for the operator"
