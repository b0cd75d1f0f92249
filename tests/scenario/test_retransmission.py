"""Windows, back-off and probes: the messages that are sent while no answer comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.statemachine.retransmission import RetransmissionPolicy

from .foreign import RM11_SOAP12, Foreign, answer_to, brought
from .harness import PATIENT, Pair, source

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)


def numbers(pair: Pair, at: float) -> list[int]:
    """The numbers that were sent at this moment."""
    return [int(name.split()[1]) for when, name in pair.times if when == at and name.startswith("message")]


@PROTOCOLS
def test_lost_third_message_is_resent_after_the_interval(protocol: Protocol) -> None:
    pair = Pair()
    pair.lose("message 3")
    pair.link(protocol).notes("one", "two", "three", "four")
    pair.advance(0.999)
    assert pair.server.handled == ["one", "two"], "what comes after the gap waits"
    pair.advance(0.001)
    assert pair.server.handled == ["one", "two", "three", "four"]
    assert pair.when("message 3") == [0, 1]
    assert pair.when("message 4") == [0]


def test_pauses_grow_up_to_the_cap() -> None:
    pair = Pair()
    pair.lose("message 1", 100)
    pair.link().notes("one")
    pair.advance(40)
    assert pair.when("message 1") == [0, 1, 3, 7, 15, 23, 31, 39]


def test_pauses_are_shortened_by_chance_so_that_many_do_not_beat_in_time() -> None:
    pair = Pair()
    pair.client.ids.luck = 0.5
    pair.lose("message 1", 100)
    pair.link(retransmission=replace(PATIENT, jitter=0.4)).notes("one")
    pair.advance(10)
    assert pair.when("message 1") == pytest.approx([0, 0.8, 2.4, 5.6])


def test_create_sequence_is_repeated_with_the_same_message_id_and_offer() -> None:
    # RM-CS-13
    pair = Pair()
    said = []
    pair.alter("CreateSequence", lambda http: said.append(http.body) or http, 100)
    pair.lose("CreateSequenceResponse", 3)
    pair.link().notes("one")
    pair.advance(20)
    assert pair.when("CreateSequence") == [0, 1, 3, 7]
    assert len(set(said)) == 1
    assert len(pair.server.destinations()) == 1
    assert pair.server.handled == ["one"]


def test_the_end_is_repeated_with_pauses_of_its_own() -> None:
    # ST-S05
    pair = Pair()
    link = pair.link(offer=False)
    link.notes("one")
    pair.advance(5)
    link.close()
    pair.lose("CloseSequence", 3)
    pair.advance(20)
    assert pair.when("CloseSequence") == [5, 6, 8, 12]
    assert pair.when("TerminateSequence") == [12]


def test_no_more_than_a_window_is_in_flight() -> None:
    pair = Pair()
    pair.hold("message*", 100)
    pair.link(window=3).notes(*"abcdefgh")
    pair.run()
    assert numbers(pair, 0) == [1, 2, 3]
    pair.forget_rules()
    pair.release()
    pair.advance(0.9)
    assert pair.server.handled == list("abcdefgh")
    assert pair.when("message 1") == [0]


def test_a_window_of_one_is_one_after_the_other() -> None:
    pair = Pair()
    pair.lose("message 2")
    pair.link(window=1).notes(*"abc")
    pair.advance(0.9)
    assert "message 3" not in pair.seen
    pair.advance(5)
    assert pair.server.handled == list("abc")


def test_a_window_moves_on_as_acknowledgements_come_in_whatever_their_order() -> None:
    pair, foreign = Pair(), Foreign(RM11_SOAP12)
    pair.server.stop()
    pair.link(window=2).notes(*"abcde")
    pair.turn()
    created = foreign.created("urn:theirs", pair.client.source().create_message_id)
    answer_to(pair.client, created, purpose="CreateSequence")
    pair.turn()
    pair.carry()
    assert numbers(pair, 0) == [1, 2]
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((2, 2),))))
    pair.turn()
    assert numbers(pair, 0) == [1, 2, 3], "1 and 3 are in flight now"
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 3),))))
    pair.turn()
    assert numbers(pair, 0) == [1, 2, 3, 4, 5]


def test_when_nothing_comes_back_one_message_finds_out_for_all() -> None:
    # FC-03
    pair = Pair()
    pair.link().notes("first")
    pair.run()
    pair.server.stop()
    pair.link().notes(*"abcd")
    endpoint = pair.client.source().channel.endpoint
    pair.client.engine.endpoint_errors.failed(endpoint, f"{endpoint}: Connection refused", pair.now)
    pair.advance(20)
    assert numbers(pair, 0) == [1, 2, 3, 4, 5]
    assert numbers(pair, 1) == [2, 3, 4, 5], "once more in full"
    assert numbers(pair, 3) == [2], "then one"
    assert numbers(pair, 7) == [2]
    assert numbers(pair, 15) == [2]
    pair.server.start()
    pair.advance(8)
    assert pair.server.handled == ["first", *"abcd"]


def test_the_rest_follows_at_once_when_the_one_got_through() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link()
    link.notes(*"abcd")
    pair.advance(100)
    pair.server.start()
    began = pair.now
    while not pair.server.handled:
        pair.advance(0.5)
    assert pair.now - began <= 8.5
    pair.advance(1)
    assert pair.server.handled == list("abcd")


def test_time_counts_from_the_transmission_and_is_kept_over_a_crash() -> None:
    pair = Pair()
    pair.lose("message 1", 3)
    pair.link().notes("one")
    pair.advance(3.5)
    pair.client.crash()
    pair.advance(10)
    assert pair.when("message 1") == [0, 1, 3, 7]
    assert pair.server.handled == ["one"]


def test_messages_that_move_to_a_successor_are_sent_with_pauses_from_the_beginning() -> None:
    pair, foreign = Pair(), Foreign(RM11_SOAP12)
    pair.server.stop()
    pair.link().notes("one")
    pair.turn()
    created = foreign.created("urn:theirs", pair.client.source().create_message_id)
    answer_to(pair.client, created, purpose="CreateSequence")
    pair.advance(20)
    closed = foreign.acknowledgement("urn:theirs", final=True, extra="<r:None/><r:Final/>").replace(
        "<r:Final/><r:None/>", "<r:None/>"
    )
    brought(pair.client, foreign.alone(closed))
    pair.server.start()
    pair.advance(0.1)
    assert pair.server.handled == ["one"]


def test_a_policy_belongs_to_its_channel() -> None:
    pair = Pair()
    pair.lose("message 1", 4)
    fast = RetransmissionPolicy(base=0.25, factor=1.0, cap=0.25, jitter=0.0)
    pair.client.to(pair.server, "fast", policy=source(retransmission=fast)).notes("one")
    pair.advance(5)
    assert pair.when("message 1") == [0, 0.25, 0.5, 0.75, 1.0]
