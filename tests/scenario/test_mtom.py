"""MTOM messages in sequences, from and to foreign peers and between two Mercuries (HTTP-01)."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

import pytest

from mercury.engine.exchange import Arrival
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, SoapVersion
from mercury.testing import Flight
from mercury.wire.decode import decode
from mercury.wire.envelope import Envelope, HttpMessage
from mercury.wire.scan import Limits

from .foreign import RM11_SOAP12, Foreign, answer_to
from .harness import ASK, DESTINATION, Node, Pair, World, body, name_of

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
PHOTO = bytes(range(256)) * 5
TEXT = base64.b64encode(PHOTO).decode()
#: The content of a message that has the photo.
SENT = f"<b>{TEXT}</b>"
ANSWERING = replace(DESTINATION, mtom=True)


def packed(http: HttpMessage, boundary: str = "uuid:1+id=1", part: str = "1@peer", photo: bytes = PHOTO) -> HttpMessage:
    """The message as a foreign stack writes it with MTOM: the photo is a part."""
    media, _, action = http.content_type.partition("; charset=utf-8")
    include = '<x:Include xmlns:x="http://www.w3.org/2004/08/xop/include" href="cid:1%40peer"/>'
    lines = (
        f'\r\n--{boundary}\r\nContent-Type: application/xop+xml; charset=UTF-8; type="{media}";\r\n'
        "Content-Transfer-Encoding: binary\r\nContent-ID: <root>\r\n\r\n",
        f"\r\n--{boundary}\r\nContent-Transfer-Encoding: binary\r\nContent-ID: <{part}>\r\n\r\n",
        f"\r\n--{boundary}--",
    )
    root, head, end = (line.encode() for line in lines)
    data = root + http.body.replace(base64.b64encode(photo), include.encode()) + head + photo + end
    kind = f'multipart/related; type="application/xop+xml"; boundary="{boundary}"; start="<root>"; start-info="{media}"'
    return HttpMessage(data, kind + action, http.soap_action)


def read(http: HttpMessage) -> Envelope:
    return decode(http.body, http.content_type, http.soap_action)


# --- from a foreign client -------------------------------------------------------------------------------------------


@PROTOCOLS
def test_mtom_message_of_a_sequence_is_delivered_once_as_without_mtom(protocol: Protocol) -> None:
    node, foreign = Node("server", World()), Foreign(protocol)
    created = node.get(packed(foreign.create()))
    assert name_of(created) == "CreateSequenceResponse"
    identifier = read(created).body.identifier  # type: ignore[union-attr]
    first = foreign.note(identifier, 1, SENT)
    # A repeated message may have another boundary, or come without MTOM.
    for http in (packed(first), packed(first, "uuid:2"), first, packed(foreign.note(identifier, 2, "two"))):
        assert name_of(node.get(http)) == "acknowledgement"
    node.world.run()
    assert node.handled == [SENT, "two"]


@PROTOCOLS
def test_message_without_its_part_is_refused_and_taken_when_it_is_whole(protocol: Protocol) -> None:
    node, foreign = Node("server", World()), Foreign(protocol)
    identifier = foreign.open(node)
    whole = foreign.note(identifier, 1, SENT, message_id="urn:one")
    refused = node.get(packed(whole, part="another"))
    assert name_of(refused) == "fault Sender"
    assert refused.status == (400 if protocol.soap is SoapVersion.SOAP12 else 500)
    fault = read(refused)
    assert (fault.soap, fault.addressing, fault.relates_to) == (protocol.soap, protocol.addressing, "urn:one")
    assert "has the Content-ID '1@peer'" in fault.body.reason  # type: ignore[union-attr]
    assert name_of(node.get(packed(whole))) == "acknowledgement"
    node.world.run()
    assert node.handled == [SENT]


def test_message_that_is_too_large_with_its_parts_is_refused() -> None:
    node, foreign = Node("server", World(), limits=Limits(max_bytes=40_000)), Foreign()
    identifier, photo = foreign.open(node), PHOTO * 25
    http = packed(foreign.note(identifier, 1, f"<b>{base64.b64encode(photo).decode()}</b>"), photo=photo)
    assert len(http.body) < 40_000
    refused = node.get(http)
    assert name_of(refused) == "fault Sender"
    assert b"larger than 40000 bytes with the content of its parts" in refused.body


@PROTOCOLS
def test_service_with_the_setting_answers_each_request_in_the_form_of_the_request(protocol: Protocol) -> None:
    node, foreign = Node("server", World(), policy=ANSWERING), Foreign(protocol)
    identifier = foreign.open(node, offer="urn:offered")
    request = foreign.ask(identifier, 1, SENT)
    replies = []
    for http in (packed(request), packed(request, "uuid:2"), request):
        answers = node.receive([Arrival(http=http, service="orders", url=node.service_url, peer="stranger")])
        node.world.run()
        assert answers is not None
        waiting = answers[0].waiting
        replies.append(answers[0].http if not waiting else node.respond(waiting))
    first, second, third = (reply for reply in replies if reply is not None)
    assert [each.content_type.startswith("multipart/related") for each in (first, second, third)] == [True, True, False]
    assert PHOTO in first.body
    assert PHOTO in second.body
    assert TEXT.encode() in third.body
    assert read(first).body == read(second).body == read(third).body
    assert node.handled == [SENT]


def test_service_without_the_setting_answers_without_mtom() -> None:
    node, foreign = Node("server", World()), Foreign()
    identifier = foreign.open(node, offer="urn:offered")
    answers = node.receive(
        [Arrival(http=packed(foreign.ask(identifier, 1, SENT)), service="orders", url=node.service_url)]
    )
    node.world.run()
    assert answers is not None
    assert answers[0].waiting
    reply = node.respond(answers[0].waiting)
    assert reply is not None
    assert reply.content_type.startswith("application/soap+xml")


def test_response_that_is_fetched_by_make_connection_has_the_form_of_the_message_that_fetches() -> None:
    node, foreign = Node("server", World(), policy=ANSWERING), Foreign()
    address = "http://docs.oasis-open.org/ws-rx/wsmc/200702/anonymous?id=urn:me"
    identifier = foreign.open(node, offer="urn:offered", acks_to=address)
    node.get(foreign.ask(identifier, 1, SENT, reply_to=address))
    node.world.run()
    reply = node.get(packed(foreign.poll(address)))
    assert reply.content_type.startswith("multipart/related")
    assert PHOTO in reply.body


# --- to a foreign server ---------------------------------------------------------------------------------------------


def test_mtom_response_of_a_foreign_server_is_read() -> None:
    node, foreign = Node("client", World()), Foreign(name="server")
    link = node.to("http://server/services/orders", listens=False)
    link.asks("one")
    answer_to_next(node, foreign)
    assert node.answers == [("one", SENT)]


def answer_to_next(node: Node, foreign: Foreign) -> None:
    """Answer everything that the client posts, with MTOM."""
    node.turn()
    create = read(node.world.wire[0].http)
    offer = create.body.offer  # type: ignore[union-attr]
    answer_to(node, packed(foreign.created("urn:s", create.message_id, accept="anonymous")), purpose="CreateSequence")
    node.turn()
    request = read(node.world.wire[0].http)
    response = foreign.respond(
        offer.identifier, 1, request.message_id or "", SENT, headers=foreign.acknowledgement("urn:s", ((1, 1),))
    )
    answer_to(node, packed(response), purpose="message")
    node.world.run()


# --- between two Mercuries -------------------------------------------------------------------------------------------


@PROTOCOLS
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_lost_mtom_messages_are_sent_again_with_the_same_parts(protocol: Protocol, listens: bool) -> None:
    pair, sent = Pair(policy=ANSWERING), dict[str, set[HttpMessage]]()
    launch = pair.launch

    def watch(flight: Flight) -> None:
        if name_of(flight.http) == "response 1" or (flight.url == pair.server.service_url and not flight.is_reply):
            sent.setdefault(name_of(flight.http), set()).add(flight.http)
        launch(flight)

    pair.launch = watch  # type: ignore[method-assign]
    for name in ("CreateSequence", "message 1", "message 2"):
        pair.lose(name, 2)
    link = pair.link(protocol, listens=listens, mtom=True)
    link.notes(SENT)
    link.request_with_callback(body(SENT), "answer", action=ASK, correlation="photo")
    pair.advance(20)
    link.close()
    pair.advance(60)
    assert pair.server.handled == [SENT, SENT]
    assert pair.client.answers == [("photo", f"re {SENT}")]
    for name in ("CreateSequence", "message 1", "message 2", "TerminateSequence"):
        assert all(http.content_type.startswith("multipart/related") for http in sent[name])
    transmissions = sent["message 1"]
    assert len({tuple(re.findall(b"Content-ID: (.*)\r\n", http.body)) for http in transmissions}) == 1
    assert {read(http).body.xml for http in transmissions} == {body(SENT)}  # type: ignore[union-attr]
    assert all(PHOTO in http.body and TEXT.encode() not in http.body for http in transmissions)
    # A response is an MTOM message if it leaves on the connection of an MTOM request.
    assert {http.content_type.startswith("multipart/related") for http in sent["response 1"]} == {not listens}
    pair.assert_ended()


def test_client_that_polls_with_mtom_gets_its_responses() -> None:
    pair = Pair(policy=ANSWERING)
    link = pair.link(RM11_SOAP12, polls=True, listens=False, mtom=True, make_connection=True)
    link.request_with_callback(body(SENT), "answer", action=ASK, correlation="photo")
    pair.advance(30)
    assert pair.client.answers == [("photo", f"re {SENT}")]
