"""The life cycle of sequences: creation, successors, tombstones, and ends on purpose, by time and by abandonment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.settings import EngineSettings
from mercury.statemachine.events import FailureReason
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, RmVersion
from mercury.statemachine.tables import RmdState, RmsState
from mercury.storage.records import OutboundKind

from .foreign import RM10_SOAP12, RM11_SOAP12, Foreign, identifier_in
from .harness import DESTINATION, EPOCH, Node, Pair, World, name_of

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
GENERATIONS = pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP12], ids=["1.1", "1.0"])


# --- keys, ends, successors ------------------------------------------------------------------------------------------


def test_messages_of_one_key_share_a_sequence_and_other_keys_have_their_own() -> None:
    pair = Pair()
    pair.link(key="a").notes("a1", "a2")
    pair.link(key="b").notes("b1")
    pair.link(key="a").notes("a3")
    pair.run()
    ranges = sorted(record.machine.received.count for record in pair.server.destinations())
    assert ranges == [1, 3]
    assert [text for text in pair.server.handled if text[0] == "a"] == ["a1", "a2", "a3"]


def test_a_sequence_that_has_ended_is_not_written_again_while_its_successor_works() -> None:
    pair = Pair()
    link = pair.link()
    link.notes("one")
    link.close()
    pair.advance(10)
    ended = next(record for record in pair.client.sources() if not record.machine.alive)
    link.notes("two")
    link.close()
    pair.advance(10)
    assert pair.server.handled == ["one", "two"]
    assert any(record is ended for record in pair.client.sources()), "a record that is saved is another object"


@PROTOCOLS
def test_a_message_after_close_starts_a_successor_in_order(protocol: Protocol) -> None:
    # ST-S04
    pair = Pair()
    link = pair.link(protocol)
    link.notes("one")
    link.close()
    link.notes("two")
    link.close()
    pair.advance(10)
    assert pair.server.handled == ["one", "two"]
    assert pair.count("CreateSequence") == 2
    pair.assert_ended()


def test_the_successor_starts_when_nothing_of_the_one_before_can_come_late() -> None:
    pair = Pair()
    link = pair.link()
    pair.lose("message 1", 3)
    link.notes("one")
    link.close()
    link.notes("two")
    pair.advance(6.9)
    assert pair.count("CreateSequence") == 1
    pair.advance(0.2)
    assert pair.count("CreateSequence") == 2
    assert pair.server.handled == ["one", "two"]


def test_order_is_kept_over_sequences_while_messages_of_the_old_one_are_still_with_the_application() -> None:
    pair = Pair()
    broken = [True]

    def fails(_context: object, text: str) -> None:
        if text == "one" and broken[0]:
            raise RuntimeError("not now")

    pair.server.on_call = fails
    link = pair.link()
    link.notes("one", "two")
    link.close()
    link.notes("three")
    pair.advance(20)
    assert pair.count("CreateSequence") == 2
    assert pair.server.handled == []
    broken[0] = False
    pair.advance(5)
    assert pair.server.handled == ["one", "two", "three"]


def test_order_is_kept_over_sequences_over_a_crash_of_the_server() -> None:
    pair = Pair()
    broken = [True]
    pair.server.on_call = lambda _context, text: 1 / 0 if broken[0] and text == "one" else None
    link = pair.link()
    link.notes("one")
    link.close()
    link.notes("two")
    pair.advance(2)
    pair.server.crash()
    pair.advance(2)
    assert pair.server.handled == []
    broken[0] = False
    pair.advance(5)
    assert pair.server.handled == ["one", "two"]


@PROTOCOLS
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_the_end_of_a_key_that_was_never_used_does_nothing(protocol: Protocol, listens: bool) -> None:
    pair = Pair()
    link = pair.link(protocol, listens=listens)
    link.close()
    link.terminate()
    pair.advance(10)
    assert pair.seen == []
    assert pair.client.rows() == 0


@PROTOCOLS
def test_ended_twice_is_ended_once(protocol: Protocol) -> None:
    pair = Pair()
    link = pair.link(protocol, offer=False)
    link.notes("one")
    for _ in range(3):
        link.close()
    pair.advance(10)
    link.close()
    pair.advance(10)
    assert pair.count("CreateSequence") == 1
    assert pair.count("TerminateSequence") == 1
    pair.assert_ended()


@PROTOCOLS
def test_a_last_message_ends_the_sequence_and_a_later_one_starts_another(protocol: Protocol) -> None:
    # RM10-SEQ-08: in WS-RM 1.0 the last message itself may carry LastMessage.
    pair = Pair()
    link = pair.link(protocol)
    link.notes("one")
    link.send(b"<t:entry xmlns:t='urn:test'>two</t:entry>", action="urn:test:Note", last=True)
    link.notes("three")
    link.close()
    pair.advance(10)
    assert pair.server.handled == ["one", "two", "three"]
    assert pair.count("LastMessage") == (1 if protocol.rm is RmVersion.RM10 else 0), "only the second has an empty one"
    pair.assert_ended()


def test_the_empty_last_message_of_ws_rm_1_0_takes_a_number_and_does_not_reach_the_application() -> None:
    # RM10-SEQ-08, IOP-WCF-04
    pair = Pair()
    link = pair.link(RM10_SOAP12)
    link.notes("one")
    pair.run()
    link.close()
    pair.advance(10)
    assert pair.server.handled == ["one"]
    assert len(pair.server.contexts) == 1
    assert pair.server.destination().machine.received.count == 2
    pair.assert_ended()


def test_close_sequence_can_be_left_out() -> None:
    pair = Pair()
    link = pair.link(close=False, offer=False)
    link.notes("one")
    link.close()
    pair.advance(10)
    assert "CloseSequence" not in pair.seen
    pair.assert_ended()


@PROTOCOLS
def test_the_end_waits_for_the_responses(protocol: Protocol) -> None:
    # ST-W01
    pair = Pair()
    broken = [True]
    pair.server.on_call = lambda _context, _text: 1 / 0 if broken[0] else None
    link = pair.link(protocol)
    link.asks("one")
    link.close()
    pair.advance(30)
    assert "TerminateSequence" not in pair.seen
    broken[0] = False
    pair.advance(30)
    assert pair.client.answers == [("one", "re one")]
    pair.assert_ended()


@PROTOCOLS
def test_terminate_sequence_is_sent_a_bounded_number_of_times(protocol: Protocol) -> None:
    # Complaint 3: a close that hangs
    pair = Pair()
    link = pair.link(protocol, end_attempts=3, offer=False)
    link.notes("one")
    pair.run()
    link.close()
    pair.lose("TerminateSequence*", 100)
    pair.advance(100)
    assert pair.count("TerminateSequence") == 3
    assert pair.client.source().machine.state is RmsState.ENDED
    assert pair.client.letters() == []


# --- idle, inactive, expired -----------------------------------------------------------------------------------------


@GENERATIONS
def test_a_sequence_with_nothing_to_do_ends_and_the_next_message_starts_a_successor(protocol: Protocol) -> None:
    pair = Pair()
    link = pair.link(protocol, idle_timeout=30.0)
    link.notes("one")
    pair.advance(29)
    link.notes("two")
    pair.advance(29)
    assert pair.client.source().machine.state is RmsState.IDLE, "time counts from the last sign of life"
    pair.advance(2)
    assert pair.client.source().machine.state is RmsState.ENDED
    link.notes("three")
    pair.advance(10)
    assert pair.server.handled == ["one", "two", "three"]
    assert pair.client.sources()[1].follows == pair.client.sources()[0].machine.identifier


def test_a_sequence_that_waits_for_a_response_is_not_idle() -> None:
    pair = Pair()
    broken = [True]
    pair.server.on_call = lambda _context, _text: 1 / 0 if broken[0] else None
    pair.link(idle_timeout=5.0).asks("one")
    pair.advance(60)
    assert pair.client.source().machine.state is RmsState.IDLE
    broken[0] = False
    pair.advance(20)
    assert pair.client.answers == [("one", "re one")]
    assert pair.client.source().machine.state is RmsState.ENDED


@GENERATIONS
def test_a_source_whose_time_is_over_gives_up_what_is_not_acknowledged(protocol: Protocol) -> None:
    # RM-TRM-07, ST-S18
    pair = Pair()
    link = pair.link(protocol, expires=60.0)
    link.notes("one")
    pair.run()
    assert pair.server.destination().machine.expires_at == EPOCH + 60
    pair.lose("message*", 100)
    link.notes("two")
    pair.advance(61)
    assert pair.client.source().machine.failure is FailureReason.EXPIRED
    assert pair.client.letters_by_text() == [("two", "unknown")]
    assert pair.client.reported.failed == [("expired", 1)]
    assert pair.server.destination().machine.tombstone
    pair.forget_rules()
    link.notes("three")
    pair.advance(10)
    assert pair.server.handled == ["one", "three"]


def test_a_source_whose_time_is_over_when_everything_is_acknowledged_has_simply_ended() -> None:
    pair = Pair()
    pair.link(expires=60.0).notes("one")
    pair.advance(61)
    assert pair.client.source().machine.state is RmsState.ENDED
    assert pair.client.reported.failed == []


@GENERATIONS
def test_a_destination_shortens_the_time_it_is_asked_for_and_never_lengthens_it(protocol: Protocol) -> None:
    # RM-CS-11
    node, foreign = Node("server", World(), policy=replace(DESTINATION, max_expires=100.0)), Foreign(protocol)
    for asked, given in (("PT50S", b"PT50S"), ("PT1H", b"PT100S"), ("PT0S", b"PT100S"), ("", b"PT100S")):
        assert given in node.get(foreign.create(expires=asked)).body
    node.world.advance(101)
    assert node.empty(), "none of them was ever used: no tombstone"


@GENERATIONS
def test_a_destination_that_hears_nothing_for_too_long_ends_the_sequence(protocol: Protocol) -> None:
    # RM-TRM-07: a lost TerminateSequence of WS-RM 1.0 is never repeated
    policy = replace(DESTINATION, inactivity_timeout=60.0, tombstone=600.0)
    node, foreign = Node("server", World(), policy=policy), Foreign(protocol)
    identifier = foreign.open(node, offer="urn:offered")
    node.get(foreign.note(identifier, 1, "one"))
    node.world.advance(59)
    node.get(foreign.alone(foreign.ack_requested(identifier)))
    node.world.advance(59)
    assert not node.destination().machine.tombstone, "any sign of life counts"
    node.world.advance(2)
    assert node.destination().machine.state is RmdState.ENDED_OPEN
    late = node.get(foreign.note(identifier, 2))
    assert name_of(late) == "fault SequenceTerminated"
    assert node.handled == ["one"]
    assert all(not each.machine.alive for each in node.sources()), "the response sequence ends with it"


@GENERATIONS
def test_a_source_that_hears_nothing_for_too_long_fails(protocol: Protocol) -> None:
    pair = Pair()
    link = pair.link(protocol, inactivity_timeout=60.0)
    link.notes("one")
    pair.run()
    pair.advance(1000)
    assert pair.client.source().machine.alive, "nothing is to be heard"
    pair.server.stop()
    link.notes("two")
    pair.advance(61)
    assert pair.client.source().machine.failure is FailureReason.INACTIVE
    assert pair.client.letters_by_text() == [("two", "unknown")]


def test_a_message_behind_a_gap_is_discarded_at_the_end_and_comes_again_on_the_successor() -> None:
    # RM11-SEQ-11: DiscardFollowingFirstGap, and the source keeps what is acknowledged above the first gap.
    policy = replace(DESTINATION, inactivity_timeout=60.0)
    pair = Pair(policy=policy)
    pair.lose("message 2", 100)
    pair.link().notes("one", "two", "three")
    pair.run()
    assert pair.client.rows() == 2
    pair.lose("message*", 100)
    pair.advance(70)
    ended, successor = pair.server.destinations()  # the end of the responses says that the first one has ended
    assert ended.machine.state is RmdState.ENDED_OPEN
    assert not successor.machine.received
    assert pair.server.letters_by_text() == [], "its source has it"
    pair.forget_rules()
    pair.advance(20)
    assert pair.server.handled == ["one", "two", "three"]
    assert pair.client.letters() == []


def test_a_request_behind_a_gap_is_answered_once_when_it_has_come_again() -> None:
    policy = replace(DESTINATION, inactivity_timeout=60.0)
    pair = Pair(policy=policy)
    pair.lose("message 2", 100)
    pair.link().asks("one", "two", "three")
    pair.run()
    pair.lose("message*", 100)
    pair.advance(70)
    pair.forget_rules()
    pair.advance(20)
    assert pair.server.handled == ["one", "two", "three"]
    assert sorted(pair.client.answers) == [("one", "re one"), ("three", "re three"), ("two", "re two")]
    assert pair.client.letters() == []


def test_an_offered_sequence_says_what_becomes_of_its_gaps() -> None:
    # RM11-SCH-05: the server keeps what is acknowledged behind a gap, for this client would discard it.
    pair = Pair()
    pair.hold("CreateSequence")
    pair.link().asks("one")
    pair.run()
    (flight,) = pair.held
    text = flight.http.body.decode()
    assert "DiscardFollowingFirstGap" in text[text.index("Offer>") :]


# --- abandonment -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_unacknowledged_messages_of_an_abandoned_1_1_sequence_become_dead_letters(listens: bool) -> None:
    pair = Pair()
    link = pair.link(listens=listens, offer=False)
    pair.lose("message 2", 100)
    link.notes("one", "two", "three")
    pair.run()
    link.terminate()
    pair.advance(100)
    assert pair.server.handled == ["one"]
    assert pair.client.letters_by_text() == [("two", "not delivered"), ("three", "not delivered")], (
        "the last word says so"
    )
    assert [dead_lettered[1] for dead_lettered in pair.client.reported.dead_lettered] == [
        pair.client.letters()[0].reason
    ] * 2
    assert pair.client.source().machine.state is RmsState.ENDED
    assert pair.count("CreateSequence") == 1, "nothing is left for a successor"
    assert pair.count("CloseSequence") == 1


def test_a_1_0_sequence_that_is_abandoned_has_no_last_word_so_the_rest_is_in_doubt() -> None:
    pair = Pair()
    link = pair.link(RM10_SOAP12)
    pair.lose("message 2", 100)
    link.notes("one", "two")
    pair.advance(0.5)
    link.terminate()
    pair.advance(100)
    assert pair.client.letters_by_text() == [("two", "unknown")]
    assert pair.client.source().machine.failure is FailureReason.GIVEN_UP


@PROTOCOLS
def test_abandoned_before_anything_was_sent_means_not_delivered(protocol: Protocol) -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link(protocol)
    ids = link.notes("one", "two")
    link.terminate()
    pair.run()
    assert pair.client.letters_by_text() == [("one", "not delivered"), ("two", "not delivered")]
    assert pair.client.reported.failed == [("given up", 2)]
    assert [message_id for message_id, _ in pair.client.reported.dead_lettered] == ids
    assert pair.client.rows() == 0


@PROTOCOLS
def test_abandoned_with_everything_acknowledged_is_a_plain_end(protocol: Protocol) -> None:
    pair = Pair()
    link = pair.link(protocol)
    link.notes("one")
    pair.run()
    link.terminate()
    pair.advance(10)
    pair.assert_ended()


def test_an_abandonment_does_not_wait_behind_what_it_abandons() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link()
    link.notes("one")
    link.close()
    link.notes("two")
    link.terminate()
    link.notes("three")
    pair.run()
    assert sorted(pair.client.letters_by_text()) == [("one", "not delivered"), ("two", "not delivered")]
    pair.server.start()
    pair.advance(10)
    assert pair.server.handled == ["three"]


def test_an_abandonment_that_comes_later_reaches_what_waits_for_its_turn_too() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link()
    link.notes("one")
    link.close()
    link.notes("two")
    pair.advance(5)
    link.terminate()
    pair.advance(10)
    assert sorted(pair.client.letters_by_text()) == [("one", "not delivered"), ("two", "not delivered")]


def test_an_abandonment_covers_more_rows_than_one_query_reads() -> None:
    pair = Pair()
    pair.server.stop()
    link = pair.link()
    link.notes("one")
    link.close()
    many = [f"text {number}" for number in range(2 * EngineSettings().number_batch)]
    link.notes(*many)
    pair.advance(5)
    link.terminate()
    pair.run()  # at once: it waits for no time to pass
    assert sorted(text for text, _ in pair.client.letters_by_text()) == sorted(["one", *many])


def test_a_future_fails_when_its_request_is_abandoned() -> None:
    pair = Pair()
    pair.lose("message*", 100)
    link = pair.link()
    future = link.ask("one")
    pair.run()
    link.terminate()
    pair.advance(100)
    assert future.done()
    with pytest.raises(Exception, match="without waiting"):
        future.result()


def test_a_destination_that_never_answers_does_not_hold_up_an_abandonment_for_ever() -> None:
    pair = Pair()
    link = pair.link(end_attempts=3)
    link.notes("one")
    pair.run()
    pair.server.stop()
    link.notes("two")
    pair.run()
    link.terminate()
    pair.advance(100)
    assert pair.client.source().machine.failure is FailureReason.GIVEN_UP
    assert pair.client.letters_by_text() == [("two", "unknown")]


# --- tombstones ------------------------------------------------------------------------------------------------------


@GENERATIONS
def test_ended_sequences_are_answered_until_their_tombstone_expires_and_then_are_unknown(protocol: Protocol) -> None:
    # RM-TRM-06
    policy = replace(DESTINATION, tombstone=600.0)
    node, foreign = Node("server", World(), policy=policy), Foreign(protocol)
    identifier = foreign.open(node, offer="urn:offered")
    node.get(foreign.note(identifier, 1))
    node.get(foreign.terminate(identifier, 1))
    node.world.advance(599)
    late = node.get(foreign.note(identifier, 1))
    assert name_of(late) == "fault SequenceTerminated"
    assert b'Lower="1" Upper="1"' in late.body
    node.world.advance(2)
    assert name_of(node.get(foreign.note(identifier, 1))) == "fault UnknownSequence"
    assert node.destinations() == []
    assert node.store.committed.invoker.buffers == {}


def test_a_tombstone_is_the_end_of_a_sequence_but_not_of_what_waits_for_the_application() -> None:
    policy = replace(DESTINATION, tombstone=10.0)
    node, foreign = Node("server", World(), policy=policy), Foreign()
    broken = [True]
    node.on_call = lambda _context, _text: 1 / 0 if broken[0] else None
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1, "one"))
    node.get(foreign.terminate(identifier, 1))
    node.world.advance(60)
    assert node.destinations() == []
    broken[0] = False
    node.world.advance(10)
    assert node.handled == ["one"]
    assert node.store.committed.invoker.buffers == {}


def test_a_repeated_create_sequence_after_the_end_is_ignored() -> None:
    node, foreign = Node("server", World()), Foreign()
    first = node.get(foreign.create(message_id="urn:once"))
    node.get(foreign.terminate(identifier_in(first)))
    assert name_of(node.get(foreign.create(message_id="urn:once"))) == "accepted"
    assert len(node.destinations()) == 1


def test_a_dead_source_still_answers_a_destination_that_ends_it() -> None:
    pair, foreign = Pair(), Foreign()
    link = pair.link()
    link.notes("one")
    link.close()
    pair.advance(10)
    identifier = pair.client.source().machine.identifier or ""
    for end, response in ((foreign.close, "CloseSequenceResponse"), (foreign.terminate, "TerminateSequenceResponse")):
        assert name_of(pair.client.get(end(identifier), "responses")) == response
    pair.advance(3700)
    assert name_of(pair.client.get(foreign.terminate(identifier), "responses")) == "fault UnknownSequence"


def test_a_request_that_was_never_answered_does_not_vanish_with_the_tombstone() -> None:
    pair = Pair()
    pair.server.on_call = lambda _context, _text: 1 / 0
    link = pair.link(tombstone=600.0)
    future = link.ask("one")
    pair.run()
    link.terminate()
    pair.advance(100)
    assert pair.client.source().machine.state is RmsState.ENDED
    assert not future.done()
    pair.advance(600)
    assert future.done()
    assert pair.client.letters_by_text() == [("one", "unknown")]
    assert pair.client.rows() == 0


def test_only_so_many_ended_sequences_of_a_key_are_remembered() -> None:
    pair = Pair()
    link = pair.link()
    for number in range(30):
        link.notes(f"note {number}")
        link.close()
        pair.run()
    assert len(pair.client.sources()) <= 20
    assert pair.server.handled == [f"note {number}" for number in range(30)]


def test_the_kind_of_a_row_is_not_sent() -> None:
    # What ends a sequence is a row, never a message.
    pair = Pair()
    link = pair.link()
    link.notes("one")
    link.close()
    rows = [row for data in pair.client.store.committed.rms.keys.values() for row in data.rows.values()]
    assert [row.kind for row in rows] == [OutboundKind.MESSAGE, OutboundKind.END]
    pair.advance(10)
    assert pair.count("message 2") == 0


# --- many of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_keys_whose_sequences_have_ended_take_no_memory_of_the_worker_until_they_are_forgotten(listens: bool) -> None:
    pair = Pair()
    for number in range(20):
        link = pair.link(key=f"key {number}", listens=listens)
        link.asks("one")
        link.close()
    pair.advance(100)
    assert [source.machine.state for source in pair.client.sources()] == [RmsState.ENDED] * 20
    for node in (pair.client, pair.server):
        assert len(node.engine.source.due_again) == 0
    pair.advance(2 * 86400)
    assert pair.client.empty()
    assert pair.server.empty()
