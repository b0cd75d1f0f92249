"""A peer may cause warnings as often as it likes: the log gets ten lines a minute about it."""

from __future__ import annotations

import logging

import pytest

from mercury.engine.application import Operation
from mercury.engine.exchange import Arrival
from mercury.wire.envelope import HttpMessage

from .foreign import RM11_SOAP12, Foreign, answer_to, identifier_in
from .harness import Node, World, name_of
from .harness.words import ASK, NOTE, SERVICE

FEW = 10


def post(node: Node, http: HttpMessage, service: str | None = SERVICE) -> HttpMessage:
    url = node.responses_url if service is None else f"http://server/services/{service}"
    (answer,) = node.receive([Arrival(http=http, service=service, url=url, peer="192.0.2.66")]) or ()
    return answer.http


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "mercury")
    return caplog


def test_faults_whose_reasons_alternate_are_not_all_logged(logged: pytest.LogCaptureFixture) -> None:
    node, foreign = Node("server", World(), allow=()), Foreign(RM11_SOAP12)
    assert b"Accept" in post(node, foreign.create(offer="urn:offered")).body
    for number in range(50):
        reason = f"reason {number % 2}"
        post(node, foreign.fault("InvalidAcknowledgement", "urn:offered", reason=reason))
    assert len(logged.records) == FEW
    node.world.now += 61
    post(node, foreign.fault("InvalidAcknowledgement", "urn:offered", reason="another"))
    assert len(logged.records) == FEW + 1


def test_sequences_that_follow_one_of_another_service_are_not_all_logged(logged: pytest.LogCaptureFixture) -> None:
    node, foreign = Node("server", World(), allow=()), Foreign(RM11_SOAP12)
    node.registry.add_service("bills", (Operation(name="Note", action=NOTE, response_action=None, call=node._note),))
    first = identifier_in(post(node, foreign.create()))
    for _ in range(50):
        made = post(node, foreign.create(follows=first), "bills")
        post(node, foreign.terminate(identifier_in(made)), "bills")
    assert len(logged.records) == FEW


def test_answers_of_the_wrong_peer_are_not_all_logged(logged: pytest.LogCaptureFixture) -> None:
    world = World()
    node, foreign = Node("server", world, allow=()), Foreign(RM11_SOAP12)
    node.to("http://elsewhere/", listens=False).asks("question")
    world.turn()
    answer_to(node, foreign.created("urn:s", node.source().create_message_id), purpose="CreateSequence")
    world.turn()
    asked = next(each.exchange.outgoing.envelope.message_id for each in world.wire if each.exchange is not None)
    for _ in range(50):
        reply = post(node, foreign.envelope(f"{ASK}Response", "<x/>", relates_to=asked), None)
        assert name_of(reply) != "response 1"
    assert len(logged.records) == FEW


def test_refused_acknowledgements_are_not_all_logged(logged: pytest.LogCaptureFixture) -> None:
    node, foreign = Node("server", World()), Foreign(RM11_SOAP12)
    identifier = identifier_in(post(node, foreign.create("http://client/acks")))
    for number in range(1, 51):
        post(node, foreign.note(identifier, number))
        node.world.now += 0.5
        node.turn()
        answer_to(
            node, foreign.fault("s:Receiver", relates_to=None, reason="not now"), purpose="SequenceAcknowledgement"
        )
    refused = [record for record in logged.records if "was refused" in record.getMessage()]
    assert len(refused) == FEW
