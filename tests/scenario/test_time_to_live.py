"""A time to live: a message that is too late is a dead letter once, and harms none of its neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.errors import ApplicationFault, SequenceFailed
from mercury.statemachine.policy import DeliveryAssurance

from .foreign import RM10_SOAP12, RM11_SOAP12, Foreign
from .harness import ASK, DESTINATION, NOTE, Node, Pair, World, body

LATE_HERE = "expired: it was not sent within its time to live"
LATE_THERE = "expired: it was not handled within its time to live"
PROTOCOLS = pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP12], ids=["1.1", "1.0"])


def reasons(node: Node) -> list[str]:
    return [reason for _, reason in node.reported.dead_lettered]


# --- before it has a number ------------------------------------------------------------------------------------------


@PROTOCOLS
def test_while_the_peer_is_down_only_the_messages_expire_whose_time_has_come(protocol) -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link(protocol)
    link.send(body("short"), action=NOTE, expires_in=5)
    link.notes("lasts")
    link.send(body("long"), action=NOTE, expires_in=60)
    link.send(body("shorter"), action=NOTE, expires_in=3)
    link.notes("last")
    pair.advance(10)
    assert pair.client.letters_by_text() == [("shorter", "not delivered"), ("short", "not delivered")]
    assert reasons(pair.client) == [LATE_HERE, LATE_HERE]
    pair.server.start()
    link.close()
    pair.advance(60)
    assert pair.server.handled == ["lasts", "long", "last"]
    assert pair.unfinished() == [line for line in pair.unfinished() if "dead letter" in line or "failed" in line]
    pair.assert_sound()


def test_a_message_that_expires_alone_before_its_sequence_exists_leaves_nothing_behind() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link()
    link.send(body("short"), action=NOTE, expires_in=5)
    link.close()
    pair.advance(6)
    assert pair.client.letters_by_text() == [("short", "not delivered")]
    assert link.pending == 0
    assert bool(link.wait(0)) is False, "a message was not delivered"
    assert link.wait(0).settled
    before = pair.count("CreateSequence")
    pair.advance(100)
    assert pair.count("CreateSequence") == before


def test_the_answer_to_the_create_sequence_of_an_expired_message_ends_the_sequence() -> None:
    pair = Pair()
    pair.hold("CreateSequenceResponse", 100)
    link = pair.link()
    link.send(body("short"), action=NOTE, expires_in=5)
    pair.advance(6)
    pair.release()
    pair.advance(20)
    assert pair.server.handled == []
    assert all(record.machine.tombstone for record in pair.server.destinations())
    pair.assert_sound()


def test_a_message_behind_a_full_window_expires_at_its_time() -> None:
    pair = Pair()
    link = pair.link(window=2)
    link.notes("a")
    pair.run()
    pair.server.stop()
    link.notes("b", "c", "d")
    link.send(body("late"), action=NOTE, expires_in=5)
    link.notes("e")
    pair.advance(4.9)
    assert pair.client.letters_by_text() == []
    pair.advance(0.2)
    assert pair.client.letters_by_text() == [("late", "not delivered")]
    pair.server.start()
    pair.advance(60)
    assert pair.server.handled == ["a", "b", "c", "d", "e"]
    pair.assert_sound()


def test_a_message_that_waits_for_a_successor_expires_at_its_time() -> None:
    pair = Pair()
    link = pair.link()
    link.notes("a")
    pair.run()
    pair.server.stop()
    link.notes("b")
    link.close()
    link.send(body("late"), action=NOTE, expires_in=5)
    link.notes("c")
    pair.advance(6)
    assert pair.client.letters_by_text() == [("late", "not delivered")]
    pair.server.start()
    pair.advance(60)
    assert pair.server.handled == ["a", "b", "c"]


def test_many_that_expire_at_once_are_dead_letters_once_each() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link()
    link.notes("first")
    for number in range(150):
        link.send(body(str(number)), action=NOTE, expires_in=5)
    pair.advance(6)
    assert sorted(int(text) for text, _ in pair.client.letters_by_text()) == list(range(150))
    assert link.pending == 1


def test_a_restart_forgets_no_time_to_live() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link()
    link.send(body("short"), action=NOTE, expires_in=5)
    pair.advance(1)
    pair.client.stop()
    pair.now += 10
    pair.client.start()
    pair.server.start()
    pair.advance(20)
    assert (pair.server.handled, pair.client.letters_by_text()) == ([], [("short", "not delivered")])


def test_the_caller_of_a_request_that_expires_gets_an_error() -> None:
    pair = Pair()
    pair.server.stop()
    future = pair.link().request(body("late"), action=ASK, expires_in=5)
    pair.advance(6)
    with pytest.raises(SequenceFailed, match="expired"):
        future.result(0)


# --- after it has a number -------------------------------------------------------------------------------------------


def busy(assurance: DeliveryAssurance = DeliveryAssurance.EXACTLY_ONCE) -> Pair:
    """A pair whose sequence exists, and whose server cannot be reached any more."""
    pair = Pair(policy=replace(DESTINATION, assurance=assurance))
    pair.link().notes("first")
    pair.run()
    pair.server.stop()
    return pair


@pytest.mark.parametrize("assurance", list(DeliveryAssurance), ids=lambda each: each.value)
def test_a_numbered_message_that_arrives_too_late_is_a_dead_letter_of_the_receiver(assurance) -> None:
    pair = busy(assurance)
    link = pair.link()
    link.send(body("late"), action=NOTE, expires_in=5)
    link.notes("after")
    pair.advance(20)
    assert pair.client.letters_by_text() == [], "its number is on the wire"
    pair.server.start()
    link.close()
    pair.advance(30)
    assert pair.server.handled == ["first", "after"]
    assert (reasons(pair.server), pair.client.letters_by_text()) == ([LATE_THERE], [])
    assert [letter.certainty.value for letter in pair.server.letters()] == ["not delivered"]
    pair.assert_sound()


def test_a_message_that_arrives_in_time_is_handled_though_it_was_sent_twice() -> None:
    pair = Pair()
    pair.lose("message 1")
    pair.link().send(body("in time"), action=NOTE, expires_in=5)
    pair.advance(20)
    assert (pair.server.handled, reasons(pair.server)) == (["in time"], [])


def test_a_time_to_live_is_no_header_block_of_the_application() -> None:
    pair = Pair()
    pair.link().send(body("in time"), action=NOTE, expires_in=5)
    pair.advance(0)
    (context,) = pair.server.contexts
    assert context.headers == (), "the time to live is none of the application's header blocks"
    assert pair.server.handled == ["in time"]


def test_a_message_that_waits_behind_a_failing_one_expires_there() -> None:
    pair = Pair()
    failing = [True]
    pair.server.on_call = lambda _context, text: 1 / 0 if failing[0] and text == "fails" else None
    link = pair.link()
    link.notes("fails")
    link.send(body("late"), action=NOTE, expires_in=3)
    link.notes("after")
    pair.advance(10)
    failing[0] = False
    pair.advance(10)
    assert (pair.server.handled, reasons(pair.server)) == (["fails", "after"], [LATE_THERE])


@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_the_caller_of_a_request_that_is_received_too_late_gets_a_fault(listens: bool) -> None:
    pair = Pair()
    pair.link(listens=listens).notes("first")
    pair.run()
    pair.server.stop()
    future = pair.link(listens=listens).request(body("late"), action=ASK, expires_in=5)
    pair.advance(10)
    assert not future.done()
    pair.server.start()
    pair.advance(20)
    with pytest.raises(ApplicationFault, match="time to live") as told:
        future.result(0)
    assert told.value.code == "Expired"
    assert pair.server.handled == ["first"]


@pytest.mark.parametrize("late", [False, True])
def test_messages_of_a_batch_have_a_time_to_live_each(late: bool) -> None:
    pair = Pair(policy=replace(DESTINATION, batches=True))
    failing = [late]
    pair.server.on_call = lambda _context, text: 1 / 0 if failing[0] and text == "a" else None
    link = pair.link()
    link.notes("first")
    pair.run()
    link.notes("a")
    link.send(body("b"), action=NOTE, expires_in=5)
    link.notes("c")
    pair.advance(10)
    failing[0] = False
    pair.advance(10)
    assert any(name.startswith("batch") for name in pair.seen), pair.seen
    assert pair.server.handled == (["first", "a", "c"] if late else ["first", "a", "b", "c"])
    assert reasons(pair.server) == ([LATE_THERE] if late else [])


# --- with losses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_each_message_is_delivered_or_a_dead_letter_of_one_side_whatever_is_lost(seed: int) -> None:
    pair = Pair(policy=replace(DESTINATION, batches=seed % 2 == 0))
    pair.at_random(seed, lose=0.3, repeat=0.1, overtake=0.2)
    link = pair.link(window=4)
    texts = [str(number) for number in range(40)]
    for number, text in enumerate(texts):
        link.send(body(text), action=NOTE, expires_in=0.5 + number % 5 if number % 2 else None)
        pair.advance(0.3)
        if number in (10, 25):
            node = pair.client if seed % 3 else pair.server
            node.stop()
            pair.advance(2)
            node.start()
    pair.forget_rules()
    link.close()
    pair.advance(200)
    dead = [text for text, _ in (*pair.client.letters_by_text(), *pair.server.letters_by_text())]
    assert pair.server.handled == sorted(pair.server.handled, key=int)
    assert sorted((*pair.server.handled, *dead), key=int) == texts
    assert set(texts[::2]) <= set(pair.server.handled), "those without a time to live"
    pair.assert_sound()


# --- other peers -----------------------------------------------------------------------------------------------------


def test_another_peer_s_message_without_a_time_to_live_is_handled_at_any_time() -> None:
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1))
    node.world.run()
    assert len(node.handled) == 1
