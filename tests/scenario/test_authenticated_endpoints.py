"""Which identities may acknowledge, fail and answer messages to an endpoint, and which get faults about it (SEC-01)."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

import pytest

from mercury.engine.application import Operation
from mercury.storage.records import RmsRecord
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM11_SOAP12, Foreign, answer_to, brought, identifier_in
from .harness import ASK, NOTE, Pair, name_of
from .harness.node import Node
from .test_ownership_of_sequences import OTHER, OWNER, post, server

THEIRS, HOSTILE = "http://theirs/services/orders", "http://hostile/services/orders"
DIALECTS = pytest.mark.parametrize("foreign", [Foreign(RM11_SOAP12), Foreign(RM10_SOAP11)], ids=["1.1", "1.0"])
ELSEWHERE = "http://victim/responses"
MISSING = "fault UnknownSequence"


@dataclass
class Asked:
    """A client that listens, and its request to a server whose answers a story writes."""

    client: Node
    foreign: Foreign
    answer: Future[bytes]

    @property
    def source(self) -> RmsRecord:
        return self.client.source()

    @property
    def offered(self) -> str:
        return self.source.offered or ""

    @property
    def request(self) -> str:
        """The MessageID."""
        return next(iter(self.client.store.committed.rms.keys[self.source.channel.key].rows.values())).message_id

    def brought(self, http: HttpMessage, identity: str | None) -> str:
        """Somebody posts this to the endpoint for responses; returns the name of the answer."""
        return name_of(post(self.client, http, service=None, identity=identity))


def asked(*, created_by: str | None, error_name: str | None = None) -> Asked:
    """:param created_by: who posts the CreateSequenceResponse; ``None`` = it comes on the connection.
    :param error_name: the identity of the server in the settings of the client.
    """
    pair, foreign = Pair(), Foreign()
    pair.nodes.pop("server")
    answer = pair.client.to(THEIRS, identity=error_name).ask("one")
    pair.client.turn()
    record = pair.client.source()
    created = foreign.created("urn:theirs", record.create_message_id, accept=THEIRS)
    if created_by is None:
        answer_to(pair.client, created, purpose="CreateSequence")
    else:
        post(pair.client, created, service=None, identity=created_by)
    pair.client.turn()
    return Asked(pair.client, foreign, answer)


KNOWN = pytest.mark.parametrize(
    "how", [{"created_by": OWNER}, {"created_by": None, "error_name": OWNER}], ids=["by its answer", "by the settings"]
)


# --- a client that listens -------------------------------------------------------------------------------------------


@KNOWN
def test_another_identity_acknowledges_nothing_that_went_to_a_server(how: dict[str, str]) -> None:
    story = asked(**how)
    forged = story.foreign.alone(story.foreign.acknowledgement("urn:theirs", ((1, 1),), final=True))
    for identity in (OTHER, None):
        assert story.brought(forged, identity) == MISSING
    assert not story.source.machine.acknowledged
    story.brought(story.foreign.alone(story.foreign.acknowledgement("urn:theirs", ((1, 1),))), OWNER)
    assert 1 in story.source.machine.acknowledged


@KNOWN
@pytest.mark.parametrize("code", ["UnknownSequence", "SequenceTerminated"])
def test_fault_of_another_identity_ends_nothing_that_went_to_a_server(how: dict[str, str], code: str) -> None:
    story = asked(**how)
    story.brought(story.foreign.fault(code, "urn:theirs"), OTHER)
    story.brought(story.foreign.fault(code, None, relates_to=story.request), OTHER)
    assert story.source.machine.alive
    story.brought(story.foreign.fault(code, "urn:theirs"), OWNER)
    assert not story.source.machine.alive


@KNOWN
def test_another_identity_sends_nothing_on_the_sequence_that_was_offered(how: dict[str, str]) -> None:
    story = asked(**how)
    forged = story.foreign.respond(story.offered, 1, story.request, "forged")
    assert story.brought(forged, OTHER) == MISSING
    story.brought(story.foreign.respond(story.offered, 1, story.request, "theirs"), OWNER)
    story.client.turn()
    assert b"theirs" in story.answer.result(0)


def test_message_that_answers_nothing_takes_no_sequence_that_was_offered() -> None:
    """The identity of the server is not known before its first response: this is not one."""
    story = asked(created_by=None)
    forged = story.foreign.respond(story.offered, 1, "urn:nothing", "forged")
    assert story.brought(forged, OTHER) == "fault ActionNotSupported"
    story.brought(story.foreign.respond(story.offered, 1, story.request, "theirs"), OWNER)
    story.client.turn()
    assert b"theirs" in story.answer.result(0)


@KNOWN
def test_another_identity_answers_no_request_outside_a_sequence(
    how: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    story = asked(**how)
    plain = story.foreign.envelope("urn:test/re", "<forged/>", relates_to=story.request)
    story.brought(plain, OTHER)
    assert caplog.text.count("a response is ignored") == 1
    story.client.turn()
    assert not story.answer.done()
    story.brought(story.foreign.envelope("urn:test/re", "<theirs/>", relates_to=story.request), OWNER)
    story.client.turn()
    assert b"theirs" in story.answer.result(0)


@KNOWN
def test_another_identity_answers_no_request_on_a_sequence_of_its_own(how: dict[str, str]) -> None:
    story = asked(**how)
    made = identifier_in(post(story.client, story.foreign.create(), service=None, identity=OTHER))
    forged = story.foreign.respond(made, 1, story.request, "forged")
    assert story.brought(forged, OTHER) == "fault ActionNotSupported", "it leaves nothing here"
    made = identifier_in(post(story.client, story.foreign.create(), service=None, identity=OWNER))
    story.brought(story.foreign.respond(made, 1, story.request, "theirs"), OWNER)
    story.client.turn()
    assert b"theirs" in story.answer.result(0)


def test_peers_without_identities_answer_from_any_address() -> None:
    """As the stacks of others do: the identifiers are what is known of them."""
    story = asked(created_by=None)
    acknowledged = story.foreign.alone(story.foreign.acknowledgement("urn:theirs", ((1, 1),)))
    post(story.client, acknowledged, service=None, peer="192.0.2.77")
    assert 1 in story.source.machine.acknowledged
    post(
        story.client,
        story.foreign.respond(story.offered, 1, story.request, "theirs"),
        service=None,
        peer="198.51.100.9",
    )
    story.client.turn()
    assert b"theirs" in story.answer.result(0)


# --- a server that the client sends to as well -----------------------------------------------------------------------


@pytest.mark.parametrize("listens", [False, True])
def test_server_answers_no_request_to_another_on_the_sequence_that_was_offered_to_it(listens: bool) -> None:
    pair, foreign = Pair(), Foreign()
    pair.nodes.pop("server")
    client = pair.client
    answer = client.to(THEIRS, "theirs", listens=listens).ask("one")
    client.turn()
    (mine,) = client.sources()
    answer_to(client, foreign.created("urn:theirs", mine.create_message_id, accept=THEIRS), purpose="CreateSequence")
    client.to(HOSTILE, "hostile", listens=listens).ask("any")
    client.turn()
    other = next(each for each in client.sources() if each is not mine and each.channel.endpoint == HOSTILE)
    request = next(iter(client.store.committed.rms.keys[mine.channel.key].rows.values())).message_id
    answer_to(client, foreign.created("urn:hostile", other.create_message_id, accept=HOSTILE), purpose="CreateSequence")
    client.turn()
    posted = {each.url: each.exchange.outgoing for each in pair.wire if each.exchange is not None}

    def say(endpoint: str, http: HttpMessage) -> None:
        """A server answers, by a post or on the connection of the request to it."""
        if listens:
            brought(client, http)
        else:
            client.answered(posted[endpoint], http)
        client.turn()

    say(HOSTILE, foreign.respond(other.offered or "", 1, request, "forged", message_id="urn:forged"))
    assert not answer.done()
    (letter,) = client.letters()
    assert (letter.reason, letter.message_id) == ("no request here waits for this response", "urn:forged")
    say(THEIRS, foreign.respond(mine.offered or "", 1, request, "theirs"))
    assert b"theirs" in answer.result(0)


def test_message_to_a_service_ends_and_answers_nothing_that_this_side_has_sent() -> None:
    """All about it goes to the address for responses, where WS-Security compares wsa:To."""
    node, foreign = server(), Foreign()
    waiting = node.to(THEIRS, "theirs", listens=True).ask("one")
    node.turn()
    (mine,) = node.sources()
    answer_to(node, foreign.created("urn:theirs", mine.create_message_id), purpose="CreateSequence")
    node.turn()
    request = next(iter(node.store.committed.rms.keys[mine.channel.key].rows.values())).message_id
    for http in (
        foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),))),
        foreign.fault("UnknownSequence", "urn:theirs"),
        foreign.envelope(f"{ASK}Response", "<x/>", relates_to=request),
    ):
        post(node, http)
    (mine,) = node.sources()
    assert (mine.machine.alive, bool(mine.machine.acknowledged)) == (True, False)
    assert not waiting.done()


# --- where faults go -------------------------------------------------------------------------------------------------


@DIALECTS
def test_fault_about_the_sequence_of_another_goes_to_no_address_that_the_sender_names(foreign: Foreign) -> None:
    """Its owner would take it for true, as it has the identity of the server."""
    node = server()
    sequence = identifier_in(post(node, foreign.create(), identity=OWNER))
    for http in (
        foreign.note(sequence, 1, fault_to=ELSEWHERE),
        foreign.note(sequence, 1, reply_to=ELSEWHERE),
        foreign.terminate(sequence, message_id="urn:end", fault_to=ELSEWHERE),
        foreign.alone(foreign.ack_requested(sequence), fault_to=ELSEWHERE),
        foreign.alone(foreign.acknowledgement(sequence, ((1, 1),)), fault_to=ELSEWHERE),
        foreign.note("urn:known:to:another:store", 1, fault_to=ELSEWHERE),
    ):
        assert name_of(post(node, http, identity=OTHER)) == MISSING
        assert node.world.wire == []


def test_fault_about_the_responses_of_another_goes_to_no_address_that_the_sender_names() -> None:
    node, foreign = server(), Foreign()
    post(node, foreign.create(offer="urn:offered"), identity=OWNER)
    forged = foreign.alone(foreign.acknowledgement("urn:offered", ((1, 1),)), fault_to=ELSEWHERE)
    assert name_of(post(node, forged, identity=OTHER)) == MISSING
    assert node.world.wire == []


# --- the place of a sequence -----------------------------------------------------------------------------------------


def test_sequence_is_neither_acknowledged_nor_ended_at_another_service() -> None:
    node, foreign = server(), Foreign()
    note = Operation(name="Note", action=NOTE, response_action=None, call=node._note)
    node.registry.add_service("bills", (note,))
    sequence = identifier_in(post(node, foreign.create()))
    post(node, foreign.note(sequence, 1))
    for http in (
        foreign.note(sequence, 2, fault_to=ELSEWHERE),
        foreign.alone(foreign.ack_requested(sequence)),
        foreign.close(sequence, 1),
        foreign.terminate(sequence, 1, message_id="urn:end"),
    ):
        assert name_of(post(node, http, service="bills")) == MISSING
        assert node.world.wire == []
    machine = node.destination().machine
    assert (machine.closed, machine.tombstone, machine.received.count) == (False, False, 1)
    assert name_of(post(node, foreign.terminate(sequence, 1, message_id="urn:end"))) == "TerminateSequenceResponse"
