"""Faults from peers: which sequence fails, what happens to its messages, and which events the application gets."""

from __future__ import annotations

import pytest

from mercury.statemachine.events import FailureReason
from mercury.statemachine.protocol import MAX_MESSAGE_NUMBER, Protocol, RmVersion
from mercury.statemachine.tables import RmsState
from mercury.storage.records import RmsRecord
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to, brought
from .harness import Pair, name_of

DIALECTS = [RM11_SOAP12, RM11_SOAP11, RM10_SOAP12, RM10_SOAP11]
PROTOCOLS = pytest.mark.parametrize("protocol", DIALECTS, ids=str)
HOW = pytest.mark.parametrize("how", ["in the reply", "posted"])


class Story:
    """A client with messages to a foreign server."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, *, texts: tuple[str, ...] = ("one", "two", "three"), **policy):
        self.pair = Pair()
        self.pair.server.stop()
        self.client = self.pair.client
        self.foreign = Foreign(protocol)
        self.link = self.pair.link(protocol, **policy)
        self.ids = self.link.notes(*texts)
        self.pair.turn()

    @property
    def record(self) -> RmsRecord:
        return self.client.sources()[0]

    def create(self, extra: str = "") -> Story:
        created = self.foreign.created("urn:theirs", self.record.create_message_id, extra=extra)
        answer_to(self.client, created, purpose="CreateSequence")
        self.pair.turn()
        return self

    def acknowledge(self, *ranges: tuple[int, int]) -> None:
        brought(self.client, self.foreign.alone(self.foreign.acknowledgement("urn:theirs", ranges)))

    def fault(self, http: HttpMessage, how: str = "in the reply", purpose: str = "message") -> None:
        if how == "posted":
            assert name_of(brought(self.client, http)) == "accepted"
        else:
            answer_to(self.client, http, purpose=purpose)


def test_text_of_a_fault_that_ends_a_sequence_makes_up_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    story = Story().create()
    fault = story.foreign.fault("UnknownSequence", "urn:theirs", reason="gone\n2026-01-01 INFO mercury: made up")
    with caplog.at_level("DEBUG"):
        story.fault(fault)
        story.pair.turn()
    said = [record.getMessage() for record in caplog.records if "made up" in record.getMessage()]
    assert len(said) == 3, "the fault, the failure of the sequence, its dead letters"
    assert not any("\n" in line for line in said)


@HOW
@PROTOCOLS
def test_unknown_sequence_fails_it_and_what_is_not_acknowledged_is_in_doubt(protocol: Protocol, how: str) -> None:
    # FLT-02, ST-S17: unacknowledged is not undelivered.
    story = Story(protocol).create()
    story.acknowledge((1, 1))
    story.fault(story.foreign.fault("UnknownSequence", "urn:theirs"), how)
    assert story.record.machine.failure is FailureReason.UNKNOWN
    assert story.client.letters_by_text() == [("two", "unknown"), ("three", "unknown")]
    assert story.client.reported.failed == [("unknown sequence: UnknownSequence: so it is", 2)]
    assert [message_id for message_id, _ in story.client.reported.dead_lettered] == story.ids[1:]
    assert "UnknownSequence" in (story.record.last_error or "")


def test_unnumbered_message_survives_the_failure_of_the_sequence() -> None:
    story = Story(window=2).create()
    story.fault(story.foreign.fault("UnknownSequence", "urn:theirs"))
    assert story.client.letters_by_text() == [("one", "unknown"), ("two", "unknown")]
    story.pair.turn()
    failed, successor = story.client.sources()
    assert failed.machine.failure is FailureReason.UNKNOWN
    assert successor.machine.last_number == 1


def test_unknown_sequence_after_everything_was_acknowledged_is_success() -> None:
    # RM11-TRM-03
    story = Story().create()
    story.link.close()
    story.acknowledge((1, 3))
    story.pair.turn()
    story.fault(story.foreign.fault("UnknownSequence", "urn:theirs"), purpose="CloseSequence")
    assert story.record.machine.state is RmsState.ENDED
    assert story.record.machine.failure is None
    assert story.client.letters() == []
    assert story.client.reported.failed == []


@HOW
@PROTOCOLS
def test_sequence_terminated_without_ranges_leaves_everything_in_doubt(protocol: Protocol, how: str) -> None:
    # FLT-01
    story = Story(protocol).create()
    story.fault(story.foreign.fault("SequenceTerminated", "urn:theirs"), how)
    assert story.record.machine.failure is FailureReason.TERMINATED
    assert story.client.letters_by_text() == [("one", "unknown"), ("two", "unknown"), ("three", "unknown")]
    assert story.client.reported.failed == [("terminated by the destination: SequenceTerminated: so it is", 3)]


@PROTOCOLS
def test_sequence_terminated_with_ranges_moves_the_rest_to_a_successor_in_order(protocol: Protocol) -> None:
    # IOP-CXF-06
    # The ranges are the last word: what they do not list was surely not delivered.
    story = Story(protocol).create()
    final = protocol.rm is RmVersion.RM11
    last_word = story.foreign.acknowledgement("urn:theirs", ((2, 2),), final=final)
    story.fault(story.foreign.fault("SequenceTerminated", "urn:theirs", headers=last_word))
    story.pair.server.start()
    story.pair.advance(10)
    assert story.pair.server.handled == ["one", "three"]
    assert story.client.letters() == []
    assert story.record.machine.state is RmsState.ENDED


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11], ids=str)
def test_sequence_closed_with_the_final_acknowledgement_moves_the_rest_too(protocol: Protocol) -> None:
    # FLT-07, ST-S13
    story = Story(protocol).create()
    final = story.foreign.acknowledgement("urn:theirs", ((1, 1),), final=True)
    story.fault(story.foreign.fault("SequenceClosed", "urn:theirs", headers=final))
    assert story.record.machine.closed
    story.pair.turn()
    purposes = [flight.exchange.outgoing.purpose.value for flight in story.pair.wire if flight.exchange]
    assert purposes.count("TerminateSequence") == 1
    assert purposes.count("CreateSequence") == 1
    story.pair.server.start()
    story.pair.advance(10)
    assert story.pair.server.handled == ["two", "three"]
    assert story.client.letters() == []


def test_sequence_closed_without_the_final_acknowledgement_says_too_little_to_act_upon() -> None:
    story = Story().create()
    story.fault(story.foreign.fault("SequenceClosed", "urn:theirs"))
    assert story.record.machine.alive
    story.pair.advance(1)
    assert story.pair.count("message 1") == 2


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11], ids=str)
def test_message_number_rollover_with_its_maximum_moves_what_is_above_it(protocol: Protocol) -> None:
    # FLT-04, ST-S09
    story = Story(protocol).create()
    highest = "<r:MaxMessageNumber>2</r:MaxMessageNumber>"
    story.fault(story.foreign.fault("MessageNumberRollover", "urn:theirs", detail=highest))
    story.link.notes("four")
    story.pair.run()
    assert not story.record.machine.takes_messages
    assert [each.machine.last_number for each in story.client.sources()] == [3], "the successor waits for 1 and 2"
    story.acknowledge((1, 2))
    story.pair.server.start()
    story.pair.advance(10)
    assert story.pair.server.handled == ["three", "four"]
    assert story.client.letters() == []


def test_message_number_rollover_without_a_maximum_ends_the_sequence_after_what_it_has() -> None:
    story = Story(RM10_SOAP12).create()
    story.fault(story.foreign.fault("MessageNumberRollover", "urn:theirs"))
    story.link.notes("four")
    story.pair.run()
    assert story.record.machine.alive
    story.acknowledge((1, 3))
    story.pair.server.start()
    story.pair.advance(10)
    assert story.pair.server.handled == ["four"]


def test_the_source_stops_at_the_highest_number_there_is() -> None:
    # RM-SEQ-12, NS-17
    story = Story(texts=("one",)).create()
    story.acknowledge((1, 1))
    record = story.record
    record.machine.last_number = record.machine.highest_sent = MAX_MESSAGE_NUMBER - 1
    record.machine.acknowledged.add(1, MAX_MESSAGE_NUMBER - 1)
    with story.client.store.transaction() as tx:
        tx.rms.lock([record.channel.key])
        tx.rms.save(record)
    story.link.notes("the last", "the first")
    story.pair.carry()
    story.pair.turn()
    assert [flight.name for flight in story.pair.wire] == [f"message {MAX_MESSAGE_NUMBER}"]
    story.acknowledge((1, MAX_MESSAGE_NUMBER))
    story.pair.server.start()
    story.pair.advance(10)
    assert story.pair.server.handled == ["the first"]
    assert story.client.letters() == []


@HOW
@PROTOCOLS
def test_create_sequence_refused_for_good_fails_before_anything_was_sent(protocol: Protocol, how: str) -> None:
    # FLT-05, ST-S03; with an offer it is asked once more: test_refused_offers
    story = Story(protocol, offer=False)
    refused = story.foreign.fault("CreateSequenceRefused", relates_to=story.record.create_message_id)
    story.fault(refused, how, purpose="CreateSequence")
    assert story.record.machine.failure is FailureReason.REFUSED
    assert [certainty for _, certainty in story.client.letters_by_text()] == ["not delivered"] * 3
    assert story.client.reported.failed == [("refused: CreateSequenceRefused: so it is", 3)]


@PROTOCOLS
def test_a_new_message_after_a_refusal_asks_again(protocol: Protocol) -> None:
    story = Story(protocol, offer=False)
    story.fault(story.foreign.fault("CreateSequenceRefused"), purpose="CreateSequence")
    story.pair.server.start()
    story.link.notes("four")
    story.pair.advance(10)
    assert story.pair.server.handled == ["four"]


@PROTOCOLS
def test_create_sequence_refused_for_now_is_asked_again_with_the_same_message_id(protocol: Protocol) -> None:
    # RM-CS-14
    story = Story(protocol)
    busy = '<n:ConnectionLimitReached xmlns:n="http://schemas.microsoft.com/ws/2006/05/rm"/>'
    refused = story.foreign.fault("CreateSequenceRefused", detail=busy, blame="Receiver", status="503")
    story.fault(refused, purpose="CreateSequence")
    assert story.record.machine.alive
    asked = story.record.create_message_id
    story.pair.server.start()
    story.pair.advance(10)
    assert story.record.create_message_id == asked
    assert story.pair.server.handled == ["one", "two", "three"]
    assert story.client.reported.failed == []


@pytest.mark.parametrize("protocol", [RM10_SOAP12, RM10_SOAP11], ids=str)
def test_last_message_number_exceeded_ends_the_sequence(protocol: Protocol) -> None:
    # FLT-06
    story = Story(protocol).create()
    story.acknowledge((1, 2))
    story.fault(story.foreign.fault("LastMessageNumberExceeded", "urn:theirs"))
    assert story.record.machine.failure is FailureReason.TERMINATED
    assert story.client.letters_by_text() == [("three", "unknown")]


def test_wsrm_required_in_answer_to_create_sequence_is_a_refusal() -> None:
    # FLT-08
    story = Story()
    story.fault(story.foreign.fault("WSRMRequired"), purpose="CreateSequence")
    assert story.record.machine.failure is FailureReason.REFUSED


@pytest.mark.parametrize(
    ("fault", "reason_part"),
    [
        (Foreign().fault("a:ActionNotSupported", status="400"), "ActionNotSupported"),
        (Foreign().fault("s:MustUnderstand"), "MustUnderstand"),
        (Foreign().fault("a:EndpointUnavailable", blame="Receiver", status="503"), "EndpointUnavailable"),
        (Foreign().fault("s:Receiver", blame="Receiver", status="503"), "Receiver"),
        (Foreign().fault("a:DestinationUnreachable", status="400"), "DestinationUnreachable"),
    ],
    ids=["ActionNotSupported", "MustUnderstand", "EndpointUnavailable", "503", "DestinationUnreachable"],
)
def test_a_refused_message_is_reported_and_retransmitted(fault: HttpMessage, reason_part: str) -> None:
    story = Story().create()
    story.fault(fault)
    assert story.record.machine.alive
    assert len(story.client.reported.refused) == 1
    message_id, reason = story.client.reported.refused[0]
    assert reason_part in reason
    assert message_id is None, "this fault does not say which"
    story.pair.advance(1)
    assert story.pair.count("message 1") == 2
    assert story.client.reported.failed == []


def test_error_callback_gets_the_message_id() -> None:
    story = Story().create()
    story.fault(story.foreign.fault("a:ActionNotSupported", relates_to=story.ids[1]), "posted")
    assert [message_id for message_id, _ in story.client.reported.refused] == [story.ids[1]]
    assert story.record.machine.alive


def test_a_fault_about_nothing_that_is_known_changes_nothing() -> None:
    story = Story().create()
    for http in (
        story.foreign.fault("UnknownSequence", "urn:nothing"),
        story.foreign.fault("a:ActionNotSupported", relates_to="urn:nothing"),
        story.foreign.fault("CreateSequenceRefused", relates_to="urn:nothing"),
        story.foreign.fault("UnknownSequence"),
    ):
        story.fault(http, "posted")
    assert story.record.machine.alive
    assert story.client.reported.refused == []


@pytest.mark.parametrize("code", ["UnknownSequence", "SequenceTerminated", "InvalidAcknowledgement"])
def test_a_fault_about_an_acknowledgement_that_rode_along_does_not_fail_the_sequence_it_rode_on(code: str) -> None:
    # RM-ACK-09: the peer has lost the offered sequence, not this one.
    pair = Pair()
    link = pair.link(listens=False)
    link.asks("one")
    pair.run()
    link.notes("two")
    link.close()
    pair.hold("CloseSequence")
    pair.run()
    (flight,) = pair.held
    assert flight.envelope.acknowledgements
    offered = pair.client.sources()[0].offered
    pair.wire, pair.held[:] = [flight], []
    answer_to(pair.client, Foreign().fault(code, offered), purpose="CloseSequence")
    assert pair.client.sources()[0].machine.alive
    pair.advance(20)
    assert pair.server.handled == ["one", "two"]
    assert pair.client.reported.failed == []


def test_create_sequence_is_not_refused_by_a_fault_about_another_sequence() -> None:
    story = Story()
    story.fault(story.foreign.fault("UnknownSequence", "urn:before"), purpose="CreateSequence")
    assert story.record.machine.alive


def test_the_destination_may_close_and_its_last_word_counts() -> None:
    # RM11-CLS-03, ST-S12
    story = Story().create()
    final = story.foreign.acknowledgement("urn:theirs", ((1, 2),), final=True)
    reply = brought(story.client, story.foreign.close("urn:theirs", 2, headers=final))
    assert name_of(reply) == "CloseSequenceResponse"
    assert story.record.machine.closed
    story.pair.server.start()
    story.pair.advance(10)
    assert story.pair.server.handled == ["three"]
    assert story.client.letters() == []


def test_the_destination_may_terminate_and_only_the_answer_is_sent_then() -> None:
    # RM11-TRM-02, ST-S16
    story = Story().create()
    final = story.foreign.acknowledgement("urn:theirs", ((1, 3),), final=True)
    for _ in range(2):
        reply = brought(story.client, story.foreign.terminate("urn:theirs", headers=final))
        assert name_of(reply) == "TerminateSequenceResponse"
    assert story.record.machine.state is RmsState.ENDED
    said = len(story.pair.seen)
    story.pair.advance(100)
    assert story.pair.seen[said:] == []
    assert story.client.rows() == 0
    assert story.client.letters() == []


def test_messages_not_taken_by_a_terminating_destination_go_to_a_successor() -> None:
    story = Story().create()
    final = story.foreign.acknowledgement("urn:theirs", ((1, 1),), final=True)
    brought(story.client, story.foreign.terminate("urn:theirs", headers=final))
    story.pair.server.start()
    story.pair.advance(10)
    assert "TerminateSequence" not in story.pair.seen
    assert story.pair.server.handled == ["two", "three"]


def test_a_destination_that_terminates_without_a_last_word_leaves_the_rest_in_doubt() -> None:
    story = Story().create()
    story.acknowledge((1, 1))
    reply = brought(story.client, story.foreign.terminate("urn:theirs"))
    assert name_of(reply) == "TerminateSequenceResponse"
    assert story.record.machine.failure is FailureReason.TERMINATED
    assert story.client.letters_by_text() == [("two", "unknown"), ("three", "unknown")]


def test_a_response_that_is_waited_for_fails_with_its_sequence() -> None:
    story = Story(texts=("one",)).create()
    future = story.link.ask("two")
    story.pair.turn()
    story.fault(story.foreign.fault("SequenceTerminated", "urn:theirs"))
    assert future.done()
    with pytest.raises(Exception, match="no response will come"):
        future.result()


def test_a_fault_about_a_sequence_that_is_over_does_not_keep_its_tombstone() -> None:
    story = Story().create()
    story.link.close()
    story.acknowledge((1, 3))
    story.pair.turn()
    ended = story.foreign.fault("UnknownSequence", "urn:theirs")
    story.fault(ended, purpose="CloseSequence")
    late = story.foreign.fault("a:ActionNotSupported", "urn:theirs")
    story.fault(late, "posted")
    story.pair.advance(3700)
    assert story.client.sources() == []
