"""Faulty and hostile peers: their messages have no effect beyond their rights, and each one gets an answer."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mercury.statemachine.protocol import ALL_PROTOCOLS, AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.statemachine.ranges import RangeSet
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, Foreign, answer_to, brought, identifier_in
from .harness import ASK, Node, Pair, World, name_of, text_of


def server() -> Node:
    return Node("server", World())


# --- the wrong place, the wrong version ------------------------------------------------------------------------------


def test_a_message_on_another_services_path_is_unknown_there() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    assert name_of(node.get(foreign.note(identifier, 1), "services/other")) == "fault UnknownSequence"
    assert name_of(node.get(foreign.note(identifier, 1), "responses")) == "fault UnknownSequence"
    assert not node.destination().machine.received


@pytest.mark.parametrize(("made_in", "used_in"), [(RM11_SOAP12, RM10_SOAP12), (RM10_SOAP12, RM11_SOAP12)], ids=str)
def test_a_sequence_is_not_known_in_another_version_of_the_protocol(made_in: Protocol, used_in: Protocol) -> None:
    # NS-18
    node, maker, other = server(), Foreign(made_in), Foreign(used_in, "other")
    identifier = maker.open(node)
    node.get(maker.note(identifier, 1))
    posts = {
        "message": other.note(identifier, 2),
        "AckRequested": other.alone(other.ack_requested(identifier)),
        "TerminateSequence": other.terminate(identifier),
    }
    if used_in.rm is RmVersion.RM11:
        posts["CloseSequence"] = other.close(identifier, 1)
    for kind, post in posts.items():
        assert name_of(node.get(post)) == "fault UnknownSequence", kind
    machine = node.destination().machine
    assert machine.received == RangeSet([(1, 1)])
    assert not machine.final
    assert name_of(node.get(maker.note(identifier, 2))) == "acknowledgement"


@pytest.mark.parametrize("soap", SoapVersion)
def test_ws_rm_1_1_with_the_old_addressing_is_refused_in_words_it_can_read(soap: SoapVersion) -> None:
    # NS-19
    node, foreign = server(), Foreign(Protocol(soap, AddressingVersion.WSA200408, RmVersion.RM11))
    reply = node.get(foreign.create())
    assert name_of(reply) == "fault CreateSequenceRefused"
    assert b"versions" in reply.body
    for post in (
        foreign.note("urn:nothing", 1),
        foreign.close("urn:nothing"),
        foreign.terminate("urn:nothing"),
        foreign.alone(foreign.ack_requested("urn:nothing")),
        foreign.alone(foreign.acknowledgement("urn:nothing", ((1, 1),))),
    ):
        assert name_of(node.get(post)) == "fault UnknownSequence"


def test_messages_in_the_other_version_of_soap_or_addressing_belong_to_the_sequence_all_the_same() -> None:
    # The identifier and the version of WS-RM decide; what else differs does no harm.
    node, foreign = server(), Foreign(RM11_SOAP12)
    identifier = foreign.open(node)
    assert name_of(node.get(Foreign(RM11_SOAP11).note(identifier, 1, "one"))) == "acknowledgement"
    node.world.run()
    assert node.handled == ["one"]


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_everything_about_an_unknown_sequence_is_unknown_sequence(protocol: Protocol) -> None:
    # FLT-02, RM-SEQ-05, RM-ACK-13, RM11-TRM-03
    node, foreign = server(), Foreign(protocol)
    posts = [
        foreign.note("urn:nothing", 1),
        foreign.terminate("urn:nothing"),
        foreign.alone(foreign.ack_requested("urn:nothing")),
        foreign.alone(foreign.acknowledgement("urn:nothing", ((1, 1),))),
    ]
    if protocol.rm is RmVersion.RM11:
        posts.append(foreign.close("urn:nothing", 1))
    for post in posts:
        reply = node.get(post)
        assert name_of(reply) == "fault UnknownSequence"
        assert b"urn:nothing" in reply.body


@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_a_message_without_ws_addressing_is_refused_and_may_come_again_as_it_should_be(protocol: Protocol) -> None:
    # POL-06: with no action it would be acknowledged, and no handler would be called.
    node, foreign = server(), Foreign(protocol)
    identifier = foreign.open(node)
    good = foreign.note(identifier, 1, "one")
    bare = re.sub(rb"<a:To>.*</a:MessageID>", b"", good.body)
    assert b"<a:" not in bare
    kind = good.content_type.partition(";")[0]
    assert name_of(node.get(HttpMessage(bare, kind, '""'))) == "fault MessageAddressingHeaderRequired"
    assert not node.destination().machine.received
    assert name_of(node.get(good)) == "acknowledgement"
    node.world.run()
    assert node.handled == ["one"]


# --- repetition ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM11_SOAP11], ids=str)
def test_terminate_sequence_twice_is_answered_twice(protocol: Protocol) -> None:
    # RM11-TRM-01, ST-D09
    node, foreign = server(), Foreign(protocol)
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1, "one"))
    for _ in range(2):
        reply = node.get(foreign.terminate(identifier, 1))
        assert name_of(reply) == "TerminateSequenceResponse"
        assert b"Final" in reply.body  # RM11-ACK-08
    node.world.run()
    assert node.handled == ["one"]


def test_close_sequence_is_answered_the_same_however_often_and_after_the_end_too() -> None:
    # RM11-CLS-02
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 1))
    replies = [node.get(foreign.close(identifier, 1)) for _ in range(2)]
    node.get(foreign.terminate(identifier, 1))
    replies.append(node.get(foreign.close(identifier, 1)))
    for reply in replies:
        assert name_of(reply) == "CloseSequenceResponse"
        assert b'Lower="1" Upper="1"' in reply.body
        assert b"Final" in reply.body


def test_a_last_number_that_contradicts_is_refused_and_changes_nothing() -> None:
    # RM11-CLS-04
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    node.get(foreign.note(identifier, 2))
    assert name_of(node.get(foreign.close(identifier, 1))) == "fault Sender"
    assert name_of(node.get(foreign.terminate(identifier, 1))) == "fault Sender"
    assert not node.destination().machine.final
    assert name_of(node.get(foreign.close(identifier, 3))) == "CloseSequenceResponse"
    assert name_of(node.get(foreign.terminate(identifier, 4))) == "fault Sender"
    assert not node.destination().machine.tombstone


def test_messages_handled_in_one_transaction_do_not_disturb_each_other() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    replies = node.get_all(
        [
            foreign.note(identifier, 2, "two"),
            foreign.note("urn:nothing", 1),
            HttpMessage(b"not XML", "text/xml"),
            foreign.note(identifier, 1, "one"),
            foreign.note(identifier, 1, "one"),
            foreign.terminate(identifier, 2),
            foreign.note(identifier, 3, "three"),
        ]
    )
    assert [name_of(reply) for reply in replies] == [
        "accepted",
        "fault UnknownSequence",
        "fault Sender",
        "accepted",
        "acknowledgement",
        "TerminateSequenceResponse",
        "fault SequenceTerminated",
    ]
    node.world.run()
    assert node.handled == ["one", "two"]
    node.world.assert_sound()


# --- offers and successors -------------------------------------------------------------------------------------------


def test_an_offer_of_an_identifier_that_is_known_already_is_not_accepted() -> None:
    node, foreign = server(), Foreign()
    assert b"Accept" in node.get(foreign.create(offer="urn:offered")).body
    reply = node.get(foreign.create(offer="urn:offered"))
    assert name_of(reply) == "CreateSequenceResponse"
    assert b"Accept" not in reply.body  # RM-CS-07
    assert len(node.sources()) == 1


def test_two_offers_of_one_identifier_that_arrive_together_make_one_sequence() -> None:
    node, foreign = server(), Foreign()
    replies = node.get_all([foreign.create(offer="urn:offered"), foreign.create(offer="urn:offered")])
    assert [b"Accept" in reply.body for reply in replies] == [True, False]
    assert len(node.sources()) == 1


def test_an_offer_at_the_endpoint_for_responses_is_not_accepted() -> None:
    node, foreign = server(), Foreign()
    reply = brought(node, foreign.create(offer="urn:offered"))
    assert name_of(reply) == "CreateSequenceResponse"
    assert b"Accept" not in reply.body


def test_a_successor_of_an_unknown_sequence_does_not_wait_for_anything() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node, follows="urn:nothing")
    node.get(foreign.note(identifier, 1, "one"))
    node.world.run()
    assert node.handled == ["one"]


def test_a_successor_ends_the_sequence_it_names_for_every_requester() -> None:
    # Who knows an identifier may end the sequence anyway; identifiers cannot be guessed (SEC-04).
    node, one, two = server(), Foreign(), Foreign(name="two")
    first = one.open(node)
    node.get(one.note(first, 1, "one"))
    second = two.open(node, follows=first)
    assert name_of(node.get(one.note(first, 2))) == "fault SequenceTerminated"
    node.get(two.note(second, 1, "two"))
    node.world.run()
    assert node.handled == ["one", "two"]


def test_a_create_sequence_that_repeats_another_ones_message_id_but_not_its_acks_to_is_another() -> None:
    # RM-CS-13: a repetition is known by source and MessageID.
    node, foreign = server(), Foreign()
    first = identifier_in(node.get(foreign.create("http://a.example/", message_id="urn:same")))
    second = identifier_in(node.get(foreign.create("http://b.example/", message_id="urn:same")))
    assert first != second
    together = [foreign.create(f"http://{host}.example/", message_id="urn:both") for host in "ab"]
    one, two = (identifier_in(reply) for reply in node.get_all(together))
    assert one != two


# --- header blocks that ride along -----------------------------------------------------------------------------------


def test_a_bad_acknowledgement_does_not_abort_the_message_it_rides_on() -> None:
    # RM-ACK-09
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    bad = foreign.acknowledgement("urn:nothing", ((1, 1),))
    assert name_of(node.get(foreign.note(identifier, 1, "one", headers=bad))) == "acknowledgement"
    node.world.run()
    assert node.handled == ["one"]


def test_an_acknowledgement_that_cannot_be_read_does_not_abort_the_message_it_rides_on() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    bad = foreign.acknowledgement("urn:x", ((7, 3),))
    assert name_of(node.get(foreign.note(identifier, 1, headers=bad))) == "acknowledgement"
    assert name_of(node.get(foreign.alone(bad))) == "fault InvalidAcknowledgement"  # RM-ACK-03


def test_a_request_for_an_acknowledgement_of_an_unknown_sequence_does_not_abort_the_message_it_rides_on() -> None:
    node, foreign = server(), Foreign()
    identifier = foreign.open(node)
    unknown = foreign.ack_requested("urn:nothing")
    assert name_of(node.get(foreign.note(identifier, 1, "one", headers=unknown))) == "acknowledgement"
    create = foreign.envelope(
        f"{foreign.rm}/CreateSequence",
        f"<r:CreateSequence><r:AcksTo>{foreign.epr('anonymous')}</r:AcksTo></r:CreateSequence>",
        headers=unknown,
    )
    assert name_of(node.get(create)) == "CreateSequenceResponse"
    assert name_of(node.get(foreign.terminate(identifier, 1, headers=unknown))) == "TerminateSequenceResponse"


def test_acknowledgements_of_several_sequences_may_be_asked_for_at_once() -> None:
    # RM-ACK-07
    node, foreign = server(), Foreign()
    one, two = foreign.open(node), foreign.open(node)
    node.get(foreign.note(one, 1))
    asked = foreign.alone(foreign.ack_requested(one) + foreign.ack_requested(two))
    reply = node.get(asked)
    assert reply.body.count(b"SequenceAcknowledgement>") == 4
    assert b"None" in reply.body  # RM-ACK-04


# --- responses -------------------------------------------------------------------------------------------------------


def client_with_a_request(*, listens: bool = True, **given: Any) -> tuple[Pair, Foreign, str, str]:
    """A client that has sent one request to a foreign server; returns its MessageID and the offered sequence."""
    pair = Pair(**given)
    pair.server.stop()
    foreign = Foreign()
    (request,) = pair.link(listens=listens).asks("one")
    pair.turn()
    offered = pair.client.source().offered or ""
    accept = pair.server.service_url
    created = foreign.created("urn:theirs", pair.client.source().create_message_id, accept=accept)
    answer_to(pair.client, created, purpose="CreateSequence")
    pair.turn()
    return pair, foreign, request, offered


def test_a_response_may_come_before_its_request_is_acknowledged() -> None:
    pair, foreign, request, offered = client_with_a_request()
    assert name_of(brought(pair.client, foreign.respond(offered, 1, request, "early"))) == "accepted"
    pair.run()
    assert pair.client.answers == [("one", "early")]
    assert pair.client.rows() == 1, "it is sent until it is acknowledged"
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),))))
    assert pair.client.rows() == 0


def test_a_response_that_relates_to_nothing_is_kept_as_a_dead_letter_and_acknowledged() -> None:
    # Not acknowledged, it would come again forever, and nothing behind it would be delivered.
    pair, foreign, request, offered = client_with_a_request()
    assert name_of(brought(pair.client, foreign.respond(offered, 1, "urn:no-request", "stray"))) == "accepted"
    brought(pair.client, foreign.respond(offered, 2, request, "true"))
    pair.run()
    assert pair.client.answers == [("one", "true")]
    assert pair.client.letters_by_text() == [("stray", "not delivered")]
    assert pair.client.letters()[0].reason == "no request here waits for this response"


def test_a_request_that_is_answered_twice_has_one_answer_and_a_dead_letter() -> None:
    pair, foreign, request, offered = client_with_a_request()
    brought(pair.client, foreign.alone(foreign.acknowledgement("urn:theirs", ((1, 1),))))
    brought(pair.client, foreign.respond(offered, 1, request, "first"))
    pair.run()
    assert name_of(brought(pair.client, foreign.respond(offered, 2, request, "second"))) == "accepted"
    pair.run()
    assert pair.client.answers == [("one", "first")]
    assert pair.client.letters_by_text() == [("second", "not delivered")]


def test_a_request_that_is_answered_twice_at_once_has_one_answer_too() -> None:
    pair, foreign, request, offered = client_with_a_request()
    twice = [foreign.respond(offered, number, request, f"number {number}") for number in (1, 2)]
    pair.client.get_all(twice, "responses")
    pair.run()
    assert pair.client.answers == [("one", "number 1")]
    assert pair.client.letters_by_text() == [("number 2", "not delivered")]


def test_an_unrelated_peer_cannot_store_messages_at_the_endpoint_for_responses() -> None:
    pair, foreign, request, _ = client_with_a_request()
    identifier = identifier_in(brought(pair.client, foreign.create()))
    for number, relates_to in ((1, "urn:no-request"), (2, None)):
        post = foreign.envelope(
            f"{ASK}Response", "<x/>", headers=foreign.sequence(identifier, number), relates_to=relates_to
        )
        assert name_of(brought(pair.client, post)) == "fault ActionNotSupported"
    assert name_of(brought(pair.client, foreign.respond(identifier, 1, request, "true"))) == "acknowledgement"
    pair.run()
    assert pair.client.answers == [("one", "true")]
    assert pair.client.letters() == []


def test_a_second_create_sequence_response_is_ignored() -> None:
    # RM-CS-13, ST-S02
    pair, foreign, _, _ = client_with_a_request()
    again = foreign.created("urn:another", pair.client.source().create_message_id, accept="http://server/elsewhere")
    assert name_of(brought(pair.client, again)) == "accepted"
    assert pair.client.source().machine.identifier == "urn:theirs"


def test_a_create_sequence_response_that_answers_nothing_is_ignored() -> None:
    pair, foreign, _, _ = client_with_a_request()
    assert name_of(brought(pair.client, foreign.created("urn:another", "urn:nothing"))) == "accepted"
    assert [each.machine.identifier for each in pair.client.sources()] == ["urn:theirs"]


def test_two_sequences_of_ours_cannot_be_given_one_identifier() -> None:
    pair, foreign, _, _ = client_with_a_request()
    pair.link(key="other").notes("x")
    pair.turn()
    other = next(each for each in pair.client.sources() if each.channel.key.name == "other")
    brought(pair.client, foreign.created("urn:theirs", other.create_message_id))
    pair.turn()
    assert [each.machine.identifier for each in pair.client.sources()] == ["urn:theirs", None, None], (
        "the second is asked for anew"
    )
    pair.assert_sound()


def test_a_create_sequence_response_that_comes_after_the_sequence_failed_opens_nothing() -> None:
    pair, foreign = Pair(), Foreign()
    pair.server.stop()
    link = pair.link()
    link.asks("one")
    pair.run()
    link.terminate()
    pair.run()
    record = pair.client.source()
    assert record.machine.failure is not None
    brought(pair.client, foreign.created("urn:theirs", record.create_message_id, accept=pair.server.service_url))
    assert pair.client.destinations() == [], "the offered sequence would never end"


def test_accept_without_an_offer_is_ignored() -> None:
    # RM-CS-07
    pair, foreign = Pair(), Foreign()
    pair.server.stop()
    pair.link(offer=False).notes("one")
    pair.turn()
    created = foreign.created("urn:theirs", pair.client.source().create_message_id, accept="http://server/x")
    answer_to(pair.client, created, purpose="CreateSequence")
    assert pair.client.source().machine.identifier == "urn:theirs"
    assert pair.client.destinations() == []


@pytest.mark.parametrize("protocol", [RM11_SOAP12, RM10_SOAP11], ids=str)
def test_accept_with_acks_to_none_is_a_refused_offer(protocol: Protocol) -> None:
    # RM-CS-06, IOP-CXF-02
    pair, foreign = Pair(), Foreign(protocol)
    pair.server.stop()
    pair.link(protocol).notes("one")
    pair.turn()
    none = "none" if protocol is RM11_SOAP12 else f"{foreign.wsa}/role/none"
    created = foreign.created("urn:theirs", pair.client.source().create_message_id, accept=none)
    answer_to(pair.client, created, purpose="CreateSequence")
    assert pair.client.source().machine.identifier == "urn:theirs"
    assert not pair.client.source().offer_accepted
    assert pair.client.destinations() == []


def test_a_reply_that_is_no_envelope_says_nothing() -> None:
    pair, foreign, _, _ = client_with_a_request()
    for reply in (HttpMessage(b"<html>ok</html>", "text/html"), HttpMessage(b"\0\1", ""), foreign.create()):
        answer_to(pair.client, reply, purpose="message")
        pair.client.stop()
        pair.client.start()
        pair.now += 30
        pair.turn()
    assert pair.client.source().machine.alive
    pair.assert_sound()


def test_text_of_a_body() -> None:
    assert text_of(b'<t:entry xmlns:t="urn:test">one</t:entry>') == "one"
