"""The limits on stored bytes of responses that a peer requests and does not acknowledge."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from mercury.simulation.checks import Checks
from mercury.statemachine.policy import DeliveryAssurance

from .foreign import Foreign, identifier_in
from .harness import Node, Pair, World
from .harness.words import DESTINATION
from .test_backlog_bytes import KILO, NO_SHARE, REFUSED, first_words, large, make, post, says

OFFERED = "urn:offered"


def server(most: int = 100 * KILO, settings: dict[str, Any] | None = None, **policy: Any) -> Node:
    """Its answers have the length of what was asked."""
    changed = replace(DESTINATION, max_backlog_bytes=most, **policy)
    return Node("server", World(), policy=changed, **{**NO_SHARE, **(settings or {})})


def make_offering(node: Node, foreign: Foreign, number: int = 0, peer: str = "192.0.2.1") -> str:
    return identifier_in(post(node, foreign.create(offer=f"{OFFERED}:{number}"), peer))


def stored(node: Node, owner: str = "192.0.2.1") -> tuple[int, int]:
    """Bytes of responses of one owner and of all; they agree with the rows."""
    rows = [
        row for data in node.store.committed.rms.keys.values() for row in data.rows.values() if row.owner is not None
    ]
    with node.store.transaction() as tx:
        own, every = tx.rms.response_bytes(owner), tx.rms.response_bytes()
    assert every == sum(row.size for row in rows if not row.acknowledged)
    checks = Checks()
    checks.bytes_counted(node.looked)
    assert checks.violations == []
    return own, every


def ask(node: Node, foreign: Foreign, sequence: str, *numbers: int, peer: str = "192.0.2.1", headers: str = "") -> None:
    for number in numbers:
        post(node, foreign.ask(sequence, number, large(number), headers=headers), peer)
        node.world.run()


@pytest.mark.parametrize("assurance", DeliveryAssurance)
def test_responses_that_nobody_acknowledges_are_made_up_to_a_limit_and_further_requests_wait(
    assurance: DeliveryAssurance, caplog: pytest.LogCaptureFixture
) -> None:
    node, foreign = server(assurance=assurance), Foreign()
    sequence = make_offering(node, foreign)
    with caplog.at_level(logging.WARNING):
        ask(node, foreign, sequence, *range(1, 15))
        node.world.advance(20)
    assert 100 * KILO < stored(node)[0] < 115 * KILO
    assert first_words(node.handled) == list(range(1, 11))
    assert sum("wait: not called" in record.message for record in caplog.records) == 1, "not each time"
    assert "destination.max_backlog_bytes" in caplog.text
    (buffer,) = [each for each in node.store.committed.invoker.buffers.values() if each.rows]
    assert "not acknowledged" in (buffer.record.last_error or ""), "an operator sees why they wait"


def test_requests_are_refused_as_busy_when_those_that_wait_fill_their_limit_too() -> None:
    node, foreign = server(), Foreign()
    sequence = make_offering(node, foreign)
    ask(node, foreign, sequence, *range(1, 12))
    replies = [post(node, foreign.ask(sequence, number, large(number))) for number in range(12, 40)]
    assert [says(reply) for reply in replies].count(REFUSED) > 10
    assert stored(node)[0] < 115 * KILO


@pytest.mark.parametrize("refused", [False, True], ids=["alone", "with a request that is refused"])
def test_acknowledged_responses_make_room_and_the_requests_go_on_within_a_second(*, refused: bool) -> None:
    node, foreign = server(), Foreign()
    sequence = make_offering(node, foreign)
    ask(node, foreign, sequence, *range(1, 40))
    assert len(node.handled) == 10
    acknowledgement = foreign.acknowledgement(f"{OFFERED}:0", [(1, 10)])
    if refused:
        assert says(post(node, foreign.ask(sequence, 90, large(90), headers=acknowledgement))) == REFUSED
    else:
        post(node, foreign.alone(acknowledgement))
    assert stored(node) == (0, 0)
    node.world.advance(1.5)
    assert 18 < len(node.handled) <= 20
    for _ in range(4):
        post(node, foreign.alone(foreign.acknowledgement(f"{OFFERED}:0", [(1, len(node.handled))])))
        ask(node, foreign, sequence, *range(20, 40))
        node.world.advance(1.5)
    assert first_words(node.handled) == list(range(1, 40))


@pytest.mark.parametrize("limit", ["max_backlog_bytes_per_peer", "max_backlog_bytes"])
def test_many_sequences_of_one_peer_store_no_more_responses_than_one_could(limit: str) -> None:
    node, foreign = server(settings={limit: 200 * KILO}), Foreign()
    names = [make_offering(node, foreign, number) for number in range(30)]
    for name in names:
        ask(node, foreign, name, 1)
        post(node, foreign.ask(name, 2, "2"))
    node.world.advance(5)
    assert 200 * KILO < stored(node)[0] < 350 * KILO, "one of each sequence before the store is asked"
    other = make_offering(node, foreign, 99, "192.0.2.2")
    ask(node, foreign, other, 1, peer="192.0.2.2")
    assert stored(node, "192.0.2.2")[0] > 10 * KILO, "another peer is answered"


@pytest.mark.parametrize("limit", ["max_backlog_bytes_per_peer", "max_backlog_bytes"])
def test_the_first_responses_of_many_new_sequences_do_not_pass_the_limit_of_their_peer(
    limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    # No sequence has a share of its own yet when its first run begins.
    shares = {"max_sequences": 100, "max_sequences_per_peer": 100}
    node, foreign = server(settings={**shares, limit: 200 * KILO}), Foreign()
    names = [make_offering(node, foreign, number) for number in range(60)]
    for name in names:
        ask(node, foreign, name, 1)
    assert 100 * KILO < stored(node)[0] < 250 * KILO
    assert 1 <= sum("wait: not called" in record.message for record in caplog.records) <= 2, "not for each sequence"
    for number in range(60):
        post(node, foreign.alone(foreign.acknowledgement(f"{OFFERED}:{number}", [(1, 1)])))
    node.world.advance(3)
    assert len(node.handled) > 20 + 15, "what was acknowledged has made room"


def test_replies_without_an_offer_are_kept_up_to_the_limit_the_newest_ones() -> None:
    node, foreign = server(), Foreign()
    sequence = make(node, foreign)
    for number in range(1, 60):
        ask(node, foreign, sequence, number)
        node.world.advance(0.5)
    node.world.advance(10)
    assert stored(node)[0] < 125 * KILO
    assert first_words(node.handled) == list(range(1, 60)), "they are not acknowledged: no request waits for it"


def test_client_that_acknowledges_as_it_goes_is_never_kept_waiting(caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair(policy=replace(DESTINATION, max_backlog_bytes=1000 * KILO), **NO_SHARE)
    link = pair.link()
    with caplog.at_level(logging.WARNING):
        futures = [link.ask(large(number)) for number in range(1, 301)]
        pair.advance(30)
    assert first_words(pair.server.handled) == list(range(1, 301))
    assert all(future.done() for future in futures)
    assert "wait: not called" not in caplog.text
    assert stored(pair.server)[1] < 1000 * KILO


def test_requests_of_a_sequence_that_ended_are_called_when_there_is_room() -> None:
    node, foreign = server(10), Foreign()
    sequence = make_offering(node, foreign)
    ask(node, foreign, sequence, 1, 2)
    node.world.advance(3)
    assert first_words(node.handled) == [1]
    post(node, foreign.terminate(sequence, 2))
    node.world.advance(3)
    post(node, foreign.alone(foreign.acknowledgement(f"{OFFERED}:0", [(1, 1)])))
    node.world.advance(3)
    assert first_words(node.handled) == [1, 2]


def test_request_that_comes_again_and_waits_for_room_is_answered_with_a_request_for_the_acknowledgement() -> None:
    # The acknowledgement of the latest responses was lost, and no response that is made later asks for another one.
    node, foreign = server(), Foreign()
    sequence = make_offering(node, foreign)
    ask(node, foreign, sequence, *range(1, 12))
    assert len(node.handled) == 10
    again = post(node, foreign.ask(sequence, 11, large(11)))
    assert b"AckRequested" in again.body
    assert f"{OFFERED}:0".encode() in again.body
    post(node, foreign.alone(foreign.acknowledgement(f"{OFFERED}:0", [(1, 10)])))
    node.world.advance(1.5)
    assert first_words(node.handled) == list(range(1, 12))


@pytest.mark.parametrize("mercury", [True, False])
def test_client_of_mercury_is_asked_for_the_acknowledgement_of_responses_when_a_request_is_refused_as_busy(
    *, mercury: bool
) -> None:
    # The acknowledgement of the responses may be lost: without another one they would take the room for ever.
    node, foreign = server(), Foreign()
    (made,) = node.get_all([foreign.create(offer=f"{OFFERED}:0", **({"follows": "urn:before"} if mercury else {}))])
    sequence = identifier_in(made)
    ask(node, foreign, sequence, *range(1, 12))
    replies = [post(node, foreign.ask(sequence, number, large(number))) for number in range(12, 40)]
    refused = [reply for reply in replies if says(reply) == REFUSED]
    assert refused
    asked = [b"AckRequested" in reply.body and f"{OFFERED}:0".encode() in reply.body for reply in refused]
    assert set(asked) == {mercury}
    others = [reply for reply in replies if reply not in refused]
    assert not any(b"AckRequested" in reply.body for reply in others)


def test_replies_that_nobody_acknowledges_stay_whatever_other_peers_have_stored() -> None:
    node, foreign = server(settings={"max_backlog_bytes": 400 * KILO}), Foreign()
    honest = "192.0.2.99"
    client = make(node, foreign, honest)
    ask(node, foreign, client, 1, 2, peer=honest)
    assert len(node.handled) == 2
    names = [make_offering(node, foreign, number) for number in range(60)]
    for name in names:
        ask(node, foreign, name, 1)
    assert stored(node)[1] > 400 * KILO
    ask(node, foreign, client, 3, peer=honest)
    node.world.advance(10)
    again = post(node, foreign.ask(client, 1, large(1)), honest)
    assert b"1 xxx" in again.body, "its reply is still there"
    assert stored(node, honest)[0] >= 20 * KILO
    for number in range(60):
        post(node, foreign.alone(foreign.acknowledgement(f"{OFFERED}:{number}", [(1, 1)])))
    node.world.advance(10)
    assert first_words(node.handled)[2:].count(3) == 1, "it goes on when there is room"
