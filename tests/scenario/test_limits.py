"""Limits: no message is lost when one is reached, and the work goes on later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.errors import Overloaded, SequenceFailed
from mercury.statemachine.events import FailureReason
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP12, RM11_SOAP12, Foreign
from .harness import DESTINATION, NOTE, PATIENT, Node, Pair, World, body, name_of

# --- sequences -------------------------------------------------------------------------------------------------------


def test_a_source_that_is_refused_for_now_gets_its_sequence_when_another_has_ended() -> None:
    pair = Pair(max_sequences=1)
    first, second = pair.link(key="first", offer=False), pair.link(key="second", offer=False)
    first.notes("one")
    pair.run()
    second.notes("two")
    pair.advance(5)
    assert pair.server.handled == ["one"]
    assert pair.count("fault CreateSequenceRefused") >= 2
    first.close()
    pair.advance(20)
    assert pair.server.handled == ["one", "two"]
    assert pair.client.reported.failed == []


# --- what waits for the application ----------------------------------------------------------------------------------


def slow_server(**policy: object) -> tuple[Pair, list[bool]]:
    pair = Pair(policy=replace(DESTINATION, **policy))
    busy = [True]
    pair.server.on_call = lambda _context, _text: 1 / 0 if busy[0] else None
    return pair, busy


@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "in any order"])
def test_more_than_the_backlog_is_not_acknowledged_and_is_delivered_later(listens: bool, in_order: bool) -> None:
    pair, busy = slow_server(max_backlog=3, in_order=in_order)
    link = pair.link(listens=listens)
    link.notes(*"abcdefgh")
    link.close()
    pair.advance(5)
    machine = pair.server.destination().machine
    assert machine.received.count <= 4, "three, and the one that everything waits for"
    assert pair.client.source().machine.acknowledged.count <= 4
    assert pair.count("fault Receiver") > 0
    busy[0] = False
    pair.advance(100)
    assert sorted(pair.server.handled) == list("abcdefgh")
    assert not in_order or pair.server.handled == list("abcdefgh")
    pair.assert_ended()
    assert pair.client.reported.refused == [] or not pair.client.reported.failed


def test_next_deliverable_message_is_accepted_above_the_backlog_limit() -> None:
    node, foreign = Node("server", World(), policy=replace(DESTINATION, max_backlog=2)), Foreign()
    identifier = foreign.open(node)
    for number in (2, 3):
        assert name_of(node.get(foreign.note(identifier, number))) == "acknowledgement"
    refused = node.get(foreign.note(identifier, 4))
    assert (name_of(refused), refused.status) == ("fault Receiver", 503)
    assert name_of(node.get(foreign.note(identifier, 1))) == "acknowledgement"
    node.world.run()
    assert name_of(node.get(foreign.note(identifier, 4))) == "acknowledgement"


def test_a_duplicate_is_acknowledged_whatever_the_backlog() -> None:
    node, foreign = Node("server", World(), policy=replace(DESTINATION, max_backlog=1)), Foreign()
    node.on_call = lambda _context, _text: 1 / 0
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1))
    assert name_of(node.get(foreign.note(identifier, 2))) == "fault Receiver"
    assert name_of(node.get(foreign.note(identifier, 1))) == "acknowledgement"


def test_the_backlog_does_not_stop_a_sequence_that_is_delivered_at_its_end_only() -> None:
    behavior = IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
    pair = Pair(policy=replace(DESTINATION, max_backlog=2, incomplete_behavior=behavior))
    link = pair.link()
    link.notes(*"abcdef")
    pair.run()
    assert pair.server.handled == []
    link.close()
    pair.advance(20)
    assert pair.server.handled == list("abcdef")
    pair.assert_ended()


def test_gaps_above_the_limit_are_filled_from_below() -> None:
    pair = Pair(policy=replace(DESTINATION, max_ranges=2))
    for number in (1, 3, 5, 7):
        pair.lose(f"message {number}")
    link = pair.link()
    link.notes(*"abcdefgh")
    link.close()
    pair.advance(1e-9)
    assert len(pair.server.destination().machine.received) <= 2
    pair.advance(60)
    assert pair.server.handled == list("abcdefgh")
    pair.assert_ended()


# --- what waits to be sent -------------------------------------------------------------------------------------------


def test_above_the_outbound_backlog_nothing_is_stored_until_there_is_room() -> None:
    pair = Pair()
    pair.client = Node("client", pair, max_outbound_backlog=3)
    pair.server.stop()
    link = pair.link(offer=False)
    link.notes("one", "two", "three")
    for send in (lambda: link.notes("four"), lambda: link.asks("four"), lambda: link.ask("four")):
        with pytest.raises(Overloaded, match="at most 3"):
            send()
    assert pair.client.rows() == 3
    pair.link(key="other").notes("another key has room of its own")
    pair.server.start()
    pair.advance(10)
    link.notes("four")
    pair.advance(10)
    assert pair.server.handled[-1] == "four"


def test_a_future_that_was_never_stored_is_not_waited_for() -> None:
    pair = Pair()
    pair.client = Node("client", pair, max_outbound_backlog=1)
    link = pair.link()
    link.notes("one")
    with pytest.raises(Overloaded):
        link.ask("two")
    assert pair.client.futures._expected == {}


# --- retransmission --------------------------------------------------------------------------------------------------


def limited(**limits: object) -> RetransmissionPolicy:
    return RetransmissionPolicy(base=1.0, factor=2.0, cap=8.0, jitter=0.0, **limits)


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP12], ids=["1.1", "1.0"])
@pytest.mark.parametrize("limit", [{"max_attempts": 3}, {"max_age": 3.0}], ids=["by count", "by age"])
def test_a_message_that_reaches_a_limit_becomes_a_dead_letter_and_its_future_fails(protocol, limit) -> None:
    # FLT-01: the retry limit
    pair = Pair()
    pair.lose("message 2", 100)
    link = pair.link(protocol, retransmission=limited(**limit))
    one, two = link.ask("one"), link.ask("two")
    pair.advance(2.9)
    assert one.result() == body("re one")
    assert not two.done()
    pair.advance(10)
    assert pair.client.source().machine.failure is FailureReason.GIVEN_UP
    assert pair.client.letters_by_text() == [("two", "unknown")]
    assert pair.client.reported.failed == [("given up", 1)]
    assert isinstance(two.exception(), SequenceFailed)
    assert pair.count("message 2") == (3 if "max_attempts" in limit else 2)


@pytest.mark.parametrize("limit", [{"max_attempts": 3}, {"max_age": 3.0}], ids=["by count", "by age"])
def test_create_sequence_has_the_same_limits(limit) -> None:
    pair = Pair()
    pair.server.stop()
    pair.link(retransmission=limited(**limit)).notes("one")
    pair.advance(20)
    assert pair.client.letters_by_text() == [("one", "not delivered")], "nothing of it was ever sent"
    assert pair.count("CreateSequence") == (3 if "max_attempts" in limit else 2)


def test_a_later_message_starts_again_where_the_limit_ended_a_sequence() -> None:
    pair = Pair()
    pair.lose("message*", 3)
    link = pair.link(retransmission=limited(max_attempts=3))
    link.notes("one")
    pair.advance(20)
    link.notes("two")
    pair.advance(20)
    assert pair.server.handled == ["two"]
    assert pair.client.letters_by_text() == [("one", "unknown")]


def test_without_a_limit_a_message_is_sent_until_it_arrives() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link()
    link.notes("one")
    pair.advance(3600)
    assert pair.client.source().machine.alive
    pair.server.start()
    pair.advance(10)
    assert pair.server.handled == ["one"]


# --- bytes -----------------------------------------------------------------------------------------------------------


def test_a_message_that_is_too_long_is_refused_before_it_is_parsed() -> None:
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node)
    huge = foreign.envelope(NOTE, "<x/>", headers=foreign.sequence(identifier, 1))
    huge = HttpMessage(huge.body + b" " * node.settings.limits.max_bytes, huge.content_type)
    reply = node.get(huge)
    assert name_of(reply) == "fault Sender"
    assert b"larger than" in reply.body
    assert node.destination().machine.received.count == 0


def test_a_limit_by_age_ends_the_sequence_as_a_whole_and_leaves_no_older_message_behind() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link(window=2, retransmission=replace(PATIENT, max_age=5.0))
    link.notes("a", "b", "c")
    pair.now += 3.5
    link.notes("young")
    pair.advance(2)
    pair.server.start()
    pair.advance(10)
    assert {text for text, _ in pair.client.letters_by_text()} == {"a", "b", "c"}
    assert pair.server.handled == ["young"], "it had no number yet, and is not too old"
