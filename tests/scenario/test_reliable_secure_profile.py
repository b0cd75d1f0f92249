"""The WS-I Reliable Secure Profile: its assertions about messages, checked for all messages of both ends of Mercury.

Each row is one assertion. It is checked for each message of stories in which messages are lost, repeated and delayed.
An assertion has the profile's number, or else the id of the rule in docs/protocol.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import pytest

from mercury.statemachine.messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mercury.statemachine.protocol import Protocol, RmVersion, SoapVersion
from mercury.testing import Flight
from mercury.wire.envelope import Envelope, HttpMessage

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign
from .harness import Node, Pair, World, name_of

PROTOCOLS = (RM11_SOAP12, RM11_SOAP11, RM10_SOAP12, RM10_SOAP11)
ANSWERS = {
    CreateSequenceResponse: CreateSequence,
    CloseSequenceResponse: CloseSequence,
    TerminateSequenceResponse: TerminateSequence,
}


@dataclass(frozen=True)
class Sent:
    """One message on the wire."""

    http: HttpMessage
    envelope: Envelope
    is_reply: bool

    @property
    def text(self) -> str:
        return self.http.body.decode()


@cache
def story(protocol: Protocol, listens: bool) -> tuple[Sent, ...]:
    """Everything that is sent while requests and one-way messages travel and the network fails."""
    pair, sent = Pair(), []
    launch = pair.launch

    def watch(flight: Flight) -> None:
        if flight.http.body:
            sent.append(Sent(flight.http, flight.envelope, flight.is_reply))
        launch(flight)

    pair.launch = watch  # type: ignore[method-assign]
    for name in ("CreateSequenceResponse", "message 2", "response 1", "acknowledgement", "TerminateSequenceResponse"):
        pair.lose(name)
    pair.repeat("message 1", 2)
    link = pair.link(protocol, listens=listens)
    link.asks("one", "two")
    link.notes("three")
    pair.advance(20)
    link.close()
    pair.advance(60)
    assert pair.client.answers == [("one", "re one"), ("two", "re two")]
    assert pair.server.handled == ["one", "two", "three"]
    return tuple(sent)


# --- the assertions --------------------------------------------------------------------------------------------------

Check = Callable[[tuple[Sent, ...], Protocol], Iterable[object]]


def must_understand(sent: tuple[Sent, ...], _protocol: Protocol) -> Iterable[object]:
    for each in sent:
        for block in re.findall(r"<wsrm:(?:SequenceAcknowledgement|AckRequested)\b[^>]*>", each.text):
            if "mustUnderstand" in block:
                yield block
        for block in re.findall(r"<wsrm:Sequence\b[^>]*>", each.text):
            if "mustUnderstand" not in block:
                yield block


def same_transmissions(sent: tuple[Sent, ...], _protocol: Protocol) -> Iterable[object]:
    first: dict[tuple[str, int], tuple[object, ...]] = {}
    for each in sent:
        header = each.envelope.sequence
        if header is not None:
            said = (each.envelope.message_id, each.envelope.action, each.envelope.body)
            if first.setdefault((header.identifier, header.message_number), said) != said:
                yield header


def other_messages_have_other_ids(sent: tuple[Sent, ...], _protocol: Protocol) -> Iterable[object]:
    first: dict[str | None, object] = {}
    for each in sent:
        said = (each.envelope.action, each.envelope.sequence, each.envelope.body)
        if first.setdefault(each.envelope.message_id, said) != said:
            yield each.envelope.message_id


def one_creation(sent: tuple[Sent, ...], _protocol: Protocol) -> Iterable[object]:
    created = [each.envelope for each in sent if isinstance(each.envelope.body, CreateSequence)]
    answers = {each.envelope.body for each in sent if isinstance(each.envelope.body, CreateSequenceResponse)}
    if len(created) < 2 or len({(each.message_id, each.body) for each in created}) != 1 or len(answers) != 1:
        yield created, answers


def answers_relate(sent: tuple[Sent, ...], _protocol: Protocol) -> Iterable[object]:
    ids = {each.envelope.message_id: type(each.envelope.body) for each in sent}
    for each in sent:
        asked = ANSWERS.get(type(each.envelope.body))  # type: ignore[call-overload]
        if asked is not None and ids.get(each.envelope.relates_to) is not asked:
            yield each.envelope


def final_acknowledgements(sent: tuple[Sent, ...], protocol: Protocol) -> Iterable[object]:
    if protocol.rm is RmVersion.RM10:
        return
    for each in sent:
        body = each.envelope.body
        if isinstance(body, CloseSequenceResponse | TerminateSequenceResponse):
            said = [one for one in each.envelope.acknowledgements if one.identifier == body.identifier]
            if len(said) != 1 or not said[0].final:
                yield each.envelope


def last_numbers(sent: tuple[Sent, ...], protocol: Protocol) -> Iterable[object]:
    highest: dict[str, int] = {}
    for each in sent:
        header, body = each.envelope.sequence, each.envelope.body
        if header is not None:
            highest[header.identifier] = max(header.message_number, highest.get(header.identifier, 0))
        ends = isinstance(body, CloseSequence | TerminateSequence) and protocol.rm is RmVersion.RM11
        if ends and body.last_message_number != highest.get(body.identifier):
            yield body


def one_acknowledgement_each(sent: tuple[Sent, ...], _protocol: Protocol) -> Iterable[object]:
    for each in sent:
        identifiers = [one.identifier for one in each.envelope.acknowledgements]
        if len(identifiers) != len(set(identifiers)):
            yield identifiers


def growing_ranges(sent: tuple[Sent, ...], _protocol: Protocol) -> Iterable[object]:
    known: dict[str, set[int]] = {}
    for each in sent:
        for one in each.envelope.acknowledgements:
            numbers = {number for low, high in one.ranges for number in range(low, high + 1)}
            if not numbers >= known.get(one.identifier, set()):
                yield one
            known[one.identifier] = numbers


def offers_have_endpoints(sent: tuple[Sent, ...], protocol: Protocol) -> Iterable[object]:
    for each in sent:
        body = each.envelope.body
        if isinstance(body, CreateSequence) and body.offer is not None:
            expected = body.acks_to if protocol.rm is RmVersion.RM11 else None
            if body.offer.endpoint != expected or each.envelope.reply_to != body.acks_to:
                yield body


def one_version(sent: tuple[Sent, ...], protocol: Protocol) -> Iterable[object]:
    for each in sent:
        said = Protocol(each.envelope.soap, each.envelope.addressing or protocol.addressing, protocol.rm)
        if said != protocol or each.envelope.rm not in (None, protocol.rm):
            yield each.envelope


def actions_of_http(sent: tuple[Sent, ...], protocol: Protocol) -> Iterable[object]:
    for each in sent:
        action = each.envelope.action
        if protocol.soap is SoapVersion.SOAP11:
            # An HTTP response has no SOAPAction
            told = each.http.soap_action in (f'"{action}"', None if each.is_reply else f'"{action}"')
        else:
            told = f'action="{action}"' in each.http.content_type
        if not told:
            yield each.http


ASSERTIONS: dict[str, Check] = {
    "R0540, RM-SEQ-02: Sequence must be understood, SequenceAcknowledgement and AckRequested need not": must_understand,
    "RM-SEQ-04: a retransmission has the same MessageID, action and body": same_transmissions,
    "WSA-02: another message has another MessageID": other_messages_have_other_ids,
    "RM-CS-13: a repeated CreateSequence is the same, and makes one sequence": one_creation,
    "RM-CS-03, RM11-CLS-02: an answer relates to what it answers": answers_relate,
    "RM11-ACK-08: the answers to the end have the final acknowledgement": final_acknowledgements,
    "RM11-CLS-01, RM11-CLS-04: LastMsgNumber is the highest number that was sent": last_numbers,
    "RM-ACK-07: one acknowledgement of a sequence in an envelope": one_acknowledgement_each,
    "RM-ACK-01: what was acknowledged stays acknowledged": growing_ranges,
    "RM11-SCH-05, RM-CS-09: an Offer has an Endpoint, and it is AcksTo": offers_have_endpoints,
    "NS-18: a sequence and what is offered with it keep to their versions": one_version,
    "HTTP-01, WSA-09: HTTP says the same action": actions_of_http,
}


@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
@pytest.mark.parametrize("assertion", ASSERTIONS)
def test_assertion_holds_of_every_message_that_both_ends_send(
    assertion: str, protocol: Protocol, listens: bool
) -> None:
    assert list(ASSERTIONS[assertion](story(protocol, listens), protocol)) == []


@pytest.mark.parametrize("assertion", ASSERTIONS)
def test_assertion_is_broken_by_messages_that_break_it(assertion: str) -> None:
    """Each check sees its own planted mistake."""
    sent = BROKEN[assertion]
    assert list(ASSERTIONS[assertion](sent, RM11_SOAP12)) != []


# --- planted ---------------------------------------------------------------------------------------------------------

FOREIGN = Foreign(RM11_SOAP12)


def _sent(*https: HttpMessage) -> tuple[Sent, ...]:
    return tuple(
        Sent(http, Flight(http).envelope, False)
        for http in (
            HttpMessage(each.body.replace(b"r:", b"wsrm:").replace(b"xmlns:r=", b"xmlns:wsrm="), each.content_type)
            for each in https
        )
    )


def _plant() -> dict[str, tuple[Sent, ...]]:
    foreign = FOREIGN
    acknowledgement = foreign.acknowledgement("urn:s", ((1, 2),))
    less = foreign.acknowledgement("urn:s", ((1, 1),))
    marked = acknowledgement.replace("<r:SequenceAck", "<r:SequenceAck", 1).replace(
        "SequenceAcknowledgement>", 'SequenceAcknowledgement s:mustUnderstand="1">', 1
    )
    planted = (
        [foreign.alone(marked)],
        [foreign.note("urn:s", 1, "a", message_id="urn:1"), foreign.note("urn:s", 1, "b", message_id="urn:1")],
        [foreign.note("urn:s", 1, message_id="urn:1"), foreign.note("urn:s", 2, message_id="urn:1")],
        [foreign.create(message_id="urn:1"), foreign.create(message_id="urn:2")],
        [foreign.close("urn:s"), foreign.ended("CloseSequenceResponse", "urn:s", "urn:nothing")],
        [foreign.ended("CloseSequenceResponse", "urn:s", "urn:1", less)],
        [foreign.note("urn:s", 2), foreign.close("urn:s", 1)],
        [foreign.alone(acknowledgement + less)],
        [foreign.alone(acknowledgement), foreign.alone(less)],
        [foreign.create(offer="urn:o", offer_endpoint="http://elsewhere/", reply_to="anonymous")],
        [Foreign(RM10_SOAP12).note("urn:s", 1)],
    )
    found = dict(zip(ASSERTIONS, (_sent(*https) for https in planted), strict=False))
    (note,) = _sent(foreign.note("urn:s", 1))
    wrong = HttpMessage(note.http.body, note.http.content_type.replace("Note", "Other"))
    found[list(ASSERTIONS)[-1]] = (Sent(wrong, note.envelope, False),)
    return found


BROKEN = _plant()


# --- what a peer does ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_create_sequence_that_comes_twice_at_once_and_later_makes_one_sequence(protocol: Protocol) -> None:
    # RM-CS-13
    node, foreign = Node("server", World()), Foreign(protocol)
    creation = foreign.create(message_id="urn:create", offer="urn:offered")
    replies = [*node.get_all([creation, creation]), node.get(creation)]
    assert {name_of(reply) for reply in replies} == {"CreateSequenceResponse"}
    assert len({Flight(reply).envelope.body for reply in replies}) == 1
    assert len(node.destinations()) == 1
