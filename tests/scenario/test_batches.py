"""Batches between two ends of Mercury: what they carry, when they are smaller, and when there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.source.batching import in_batches
from mercury.statemachine.messages import BatchLimits
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.storage.records import OutboundMessage
from mercury.wire.decode import decode
from mercury.wire.encode import encode
from mercury.wire.envelope import Envelope, HttpMessage, MessageBatch
from mercury.wire.scan import Limits

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign
from .harness import DESTINATION, NOTE, Pair, body

TAKING = replace(DESTINATION, batches=True)
PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
FOUR = ("one", "two", "three", "four")


def pair(**settings: object) -> Pair:
    return Pair(policy=TAKING, client_policy=TAKING, **settings)


def sent(two: Pair) -> list[str]:
    """The messages of sequences on the wire, by name."""
    return [name for _, name in two.times if name.split()[0] in ("message", "response", "batch")]


def refuse(_context: MessageContext, _text: str) -> None:
    """A handler that fails."""
    raise RuntimeError("later")


def changed(http: HttpMessage, old: bytes, new: bytes) -> HttpMessage:
    assert old in http.body
    return replace(http, body=http.body.replace(old, new))


def envelope_of(http: HttpMessage) -> Envelope:
    return decode(http.body, http.content_type, http.soap_action)


@PROTOCOLS
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_messages_that_are_due_together_leave_in_one_exchange(protocol: Protocol, listens: bool) -> None:
    two = pair()
    link = two.link(protocol, listens=listens)
    link.notes(*FOUR)
    two.advance(5)
    assert sent(two) == ["batch 1-4"]
    assert two.server.handled == [*FOUR]
    link.close()
    two.advance(100)
    two.assert_ended()


@PROTOCOLS
def test_one_message_leaves_at_once_as_a_standard_message(protocol: Protocol) -> None:
    two = pair()
    link = two.link(protocol)
    for text in FOUR[:2]:
        link.notes(text)
        two.advance(0)
    assert sent(two) == ["message 1", "message 2"]


@PROTOCOLS
def test_requests_of_a_listening_client_and_their_responses_are_batches(protocol: Protocol) -> None:
    two = pair()
    two.link(protocol).asks(*FOUR)
    two.advance(5)
    assert sent(two) == ["batch 1-4", "batch 1-4"]
    assert two.client.answers == [(text, f"re {text}") for text in FOUR]
    two.assert_sound()


@pytest.mark.parametrize("side", ["server", "client"])
def test_side_that_takes_no_batches_is_sent_none(side: str) -> None:
    two = Pair(
        policy=TAKING if side == "client" else DESTINATION, client_policy=TAKING if side == "server" else DESTINATION
    )
    two.link().asks(*FOUR)
    two.advance(5)
    batches = {"server": ["batch 1-4"], "client": ["batch 1-4"]}
    assert [name for name in sent(two) if name.startswith("batch")] == batches[side]
    alone = "message" if side == "server" else "response"
    singly = [name for name in sent(two) if not name.startswith("batch")]
    assert singly == [f"{alone} {number}" for number in (1, 2, 3, 4)]


def test_source_with_batches_switched_off_sends_none() -> None:
    two = pair()
    two.link(batch=1).notes(*FOUR)
    two.advance(5)
    assert sent(two) == [f"message {number}" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("foreign", [Foreign(RM11_SOAP12), Foreign(RM10_SOAP11)], ids=["1.1", "1.0"])
def test_source_that_is_not_mercury_is_told_of_no_batches(foreign: Foreign) -> None:
    answer = pair().server.get(foreign.create())
    assert b"Batch" not in answer.body


def test_older_mercury_that_does_not_know_the_element_gets_single_messages() -> None:
    two = pair()

    def without(http: HttpMessage) -> HttpMessage:
        envelope = envelope_of(http)
        assert envelope.body.batch == BatchLimits(256, 150_000)  # type: ignore[union-attr]
        return encode(replace(envelope, body=replace(envelope.body, batch=None)))  # type: ignore[type-var]

    two.alter("CreateSequenceResponse", without)
    two.link().notes(*FOUR)
    two.advance(5)
    assert sent(two) == [f"message {number}" for number in (1, 2, 3, 4)]


def test_batch_is_no_larger_than_the_destination_takes() -> None:
    two = pair(limits=Limits(max_batch=3))
    two.link().notes(*FOUR, "five", "six", "seven")
    two.advance(5)
    assert sent(two) == ["batch 1-3", "batch 4-6", "message 7"]


def test_batch_is_no_larger_than_the_policy_says() -> None:
    two = pair()
    two.link(batch=2).notes(*FOUR)
    two.advance(1)
    two.link(batch_bytes=250, key="other").notes("x" * 100, "y" * 100, "z" * 300, "one", "two")
    two.advance(5)
    assert sent(two) == ["batch 1-2", "batch 3-4", "message 1", "message 2", "message 3", "batch 4-5"]


def test_messages_wait_for_others_as_long_as_the_policy_says_and_leave_together() -> None:
    two = pair()
    link = two.link(batch_wait=5.0)
    link.notes("one")
    two.advance(1)
    assert two.server.handled == ["one"], "the destination of a new sequence may take no batches: nothing waits"
    link.notes("two")
    two.advance(3)
    link.notes("three")
    two.advance(1)
    assert two.server.handled == ["one"]
    two.advance(1.5)
    assert sent(two) == ["message 1", "batch 2-3"]
    assert two.server.handled == ["one", "two", "three"]


def test_no_message_waits_for_others_when_a_batch_is_full_the_key_ends_or_no_batch_can_have_it() -> None:
    two = pair()
    link = two.link(batch_wait=60.0, batch=2)
    link.notes("one")
    two.advance(1)
    link.notes("two", "three")  # as many as a batch takes
    two.advance(1)
    link.send(body("four"), operation="x", action=NOTE, headers=(b'<h:mark xmlns:h="urn:h"/>',))  # it leaves alone
    two.advance(1)
    link.notes("five")
    link.close()
    two.advance(1)
    assert two.server.handled == ["one", "two", "three", "four", "five"]
    two.advance(100)
    two.assert_ended()


def test_nothing_waits_for_others_where_the_destination_takes_no_batches() -> None:
    two = Pair(policy=replace(TAKING, batches=False))
    link = two.link(batch_wait=60.0)
    link.notes("one")
    two.advance(1)
    link.notes("two")
    two.advance(1)
    assert two.server.handled == ["one", "two"]


def test_batches_of_a_service_are_no_larger_than_its_policy_says() -> None:
    two = Pair(policy=replace(TAKING, max_batch=3))
    two.link().notes(*(str(number) for number in range(7)))
    two.advance(5)
    assert sent(two) == ["batch 1-3", "batch 4-6", "message 7"]


def test_a_policy_of_batches_of_one_message_has_none() -> None:
    two = Pair(policy=replace(TAKING, max_batch=1))
    two.link().notes(*FOUR)
    two.advance(5)
    assert [name for name in sent(two) if name.startswith("batch")] == []
    assert two.server.handled == [*FOUR]


def test_lost_batch_is_sent_again_in_smaller_ones() -> None:
    two = pair()
    texts = [str(number) for number in range(1, 21)]
    two.lose("batch 1-20")
    two.link(batch=20).notes(*texts)
    two.advance(20)
    assert sent(two)[:3] == ["batch 1-20", "batch 1-2", "batch 3-4"]
    assert two.server.handled == texts


def test_repeated_batch_is_handled_once() -> None:
    two = pair()
    two.repeat("batch 1-4")
    two.lose("acknowledgement")
    two.link(listens=False).notes(*FOUR)
    two.advance(20)
    assert two.server.handled == [*FOUR]
    two.assert_sound()


def test_messages_before_a_refused_one_are_acknowledged_and_the_rest_is_sent_again() -> None:
    two = Pair(policy=replace(TAKING, max_backlog=2), client_policy=TAKING)
    two.server.on_call = refuse
    faults: list[Envelope] = []
    two.alter("fault Receiver", lambda http: faults.append(envelope_of(http)) or http)
    two.link(listens=False).notes(*FOUR)
    two.advance(0)
    assert [each.ranges for each in faults[0].acknowledgements] == [((1, 2),)]
    two.server.on_call = None
    two.advance(60)
    assert two.server.handled == [*FOUR]
    two.assert_sound()


def test_messages_after_a_busy_one_are_not_taken() -> None:
    two = Pair(policy=replace(TAKING, max_backlog_bytes=9000), client_policy=TAKING)
    two.server.on_call = refuse
    two.link(listens=False).notes("one", "x" * 5000, "y" * 5000, "four")
    two.advance(0)
    (record,) = two.server.destinations()
    assert record.machine.received.as_tuples() == ((1, 2),)


def test_batch_has_consecutive_numbers() -> None:
    two = pair()
    link = two.link()
    link.notes(*FOUR)
    two.advance(1)
    record = two.client.source()
    rows = [OutboundMessage(message_id=f"urn:{number}", channel=record.channel, number=number) for number in (5, 6, 8)]
    assert [[row.number for row in each] for each in in_batches(record, rows)] == [[5, 6], [8]]


def test_message_with_header_blocks_leaves_alone() -> None:
    two = pair()
    link = two.link()
    link.notes("one", "two")
    link.send(body("three"), operation="x", action=NOTE, headers=(b'<h:mark xmlns:h="urn:h"/>',))
    link.notes("four", "five")
    two.advance(5)
    assert sent(two) == ["batch 1-2", "message 3", "batch 4-5"]
    assert two.server.handled == ["one", "two", "three", "four", "five"]


def test_message_that_its_destination_never_takes_holds_up_no_other() -> None:
    two = Pair(policy=replace(TAKING, in_order=False), client_policy=TAKING)
    link = two.link(listens=False)
    link.notes("one")
    link.send(b"<odd/>", operation="x", action="urn:test:Unknown")
    link.notes("three", "four")
    two.advance(10)
    assert sorted(two.server.handled) == ["four", "one", "three"]
    assert {code for _, code in two.client.reported.refused} != set()


def test_batch_that_was_not_agreed_is_refused_and_its_messages_are_sent_singly() -> None:
    def with_batches(http: HttpMessage) -> HttpMessage:
        envelope = envelope_of(http)
        body = replace(envelope.body, batch=BatchLimits(100, 10_000))  # type: ignore[type-var]
        return encode(replace(envelope, body=body))

    two = Pair(policy=DESTINATION, client_policy=TAKING)
    two.alter("CreateSequenceResponse", with_batches)
    link = two.link(listens=False)
    link.notes(*FOUR)
    two.advance(5)
    assert sent(two)[0] == "batch 1-4"
    assert two.count("fault Sender") == 1
    assert set(sent(two)[1:]) == {f"message {number}" for number in (1, 2, 3, 4)}
    assert two.server.handled == [*FOUR]
    # The destination is Mercury all the same: after a start it is asked which numbers it has (decision 84).
    two.client.stop()
    two.client.start()
    link.notes("five", "six")
    before = len(two.seen)
    two.advance(5)
    assert two.seen[before] == "AckRequested"
    assert sent(two)[5:] == ["message 5", "message 6"], "what comes later is sent singly too"
    assert two.server.handled == [*FOUR, "five", "six"]


def test_batch_of_another_peers_sequence_is_refused() -> None:
    two = pair()
    said: list[HttpMessage] = []
    two.alter("batch 1-4", lambda http: said.append(http) or http)
    two.link().notes(*FOUR)
    two.advance(1)
    stranger = changed(said[0], b"</wsrm:Identifier>", b"x</wsrm:Identifier>")
    assert b"UnknownSequence" in two.server.get(stranger).body


def test_bodies_of_a_batch_have_the_bytes_of_single_messages() -> None:
    two, bodies = pair(), []
    two.alter("batch 1-2", lambda http: bodies.append(envelope_of(http).body) or http)
    link = two.link()
    odd = b'<m:note xmlns:m="urn:m"><soap:x xmlns:soap="urn:s"/><!-- wsa: --><![CDATA[ wsrm:a ]]> </m:note>'
    for xml in (odd, b'<note xmlns="urn:n" a="soap:b"/>'):
        link.send(xml, operation="x", action="urn:test:Note")
    two.advance(1)
    assert isinstance(bodies[0], MessageBatch)
    assert [message.payload.xml for message in bodies[0].messages] == [odd, b'<note xmlns="urn:n" a="soap:b"/>']


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("side", ["client", "server"])
def test_crash_beside_a_batch_loses_and_repeats_nothing(side: str, at: int) -> None:
    two = pair()
    node = two.nodes[side]
    two.link().notes(*FOUR)
    node.crash_after_commit.add(node.commits + at)
    two.advance(1)
    if not node.up:
        node.start()
    two.advance(60)
    assert two.server.handled == [*FOUR]
    two.assert_sound()
