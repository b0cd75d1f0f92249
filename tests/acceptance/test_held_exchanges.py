"""How long exchanges are held open for a peer without an address that posts one request after the other, and fetches
responses that come late."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest
from lxml import etree

from mercury import Mercury, Service, Settings
from mercury.settings import HttpSettings
from tests.acceptance.app import Ask, Said
from tests.acceptance.processes import PATIENCE
from tests.acceptance.test_endpoint import RM, SOAP12, TYPES, WSA, envelope

#: In seconds; so long that a test fails by its timeout if an exchange is held for it.
LONG = 10 * PATIENCE
DESK = "/services/desk"
ANONYMOUS = f'<a:ReplyTo xmlns:a="{WSA}"><a:Address>{WSA}/anonymous</a:Address></a:ReplyTo>'


class Peer:
    """Posts hand-written messages on one connection."""

    def __init__(self, netloc: str) -> None:
        self._connection = http.client.HTTPConnection(netloc, timeout=PATIENCE)
        acks_to = f'<w:AcksTo><a:Address xmlns:a="{WSA}">{WSA}/anonymous</a:Address></w:AcksTo>'
        offer = "<w:Offer><w:Identifier>urn:offered</w:Identifier>"
        offer += f'<w:Endpoint><a:Address xmlns:a="{WSA}">{WSA}/anonymous</a:Address></w:Endpoint></w:Offer>'
        mercury = '<m:IncompleteSequenceBehavior xmlns:m="urn:mercury:rm">NoDiscard</m:IncompleteSequenceBehavior>'
        batches = '<m:Batch xmlns:m="urn:mercury:rm" messages="10" bytes="10000"/>'
        body = f'<w:CreateSequence xmlns:w="{RM}">{acks_to}{offer}{mercury}{batches}</w:CreateSequence>'
        created = self._post(body, f"{RM}/CreateSequence", "urn:create", "")
        self._sequence = created.findtext(f".//{{{RM}}}Identifier")

    def ask(self, number: int, *, acknowledged: bool = False) -> etree._Element:
        """:param acknowledged: ask for an acknowledgement too."""
        wants = f'<w:AckRequested xmlns:w="{RM}"><w:Identifier>{self._sequence}</w:Identifier></w:AckRequested>'
        sequence = (wants if acknowledged else "") + (
            f'<w:Sequence xmlns:w="{RM}" s:mustUnderstand="1"><w:Identifier>{self._sequence}</w:Identifier>'
            f"<w:MessageNumber>{number}</w:MessageNumber></w:Sequence>"
        )
        body = f'<Ask xmlns="urn:mercury:app"><text>{number}</text></Ask>'
        return self._post(body, "urn:mercury:app/Ask", f"urn:ask:{number}", ANONYMOUS + sequence)

    def ask_together(self, first: int, last: int) -> etree._Element:
        """Post a batch of requests."""
        sequence = (
            f'<w:Sequence xmlns:w="{RM}" s:mustUnderstand="1"><w:Identifier>{self._sequence}</w:Identifier>'
            f"<w:MessageNumber>{first}</w:MessageNumber></w:Sequence>"
        )
        asks = (
            f'<m:Message id="urn:ask:{number}"><Ask xmlns="urn:mercury:app"><text>{number}</text></Ask></m:Message>'
            for number in range(first, last + 1)
        )
        body = f'<m:Batch xmlns:m="urn:mercury:rm" action="urn:mercury:app/Ask">{"".join(asks)}</m:Batch>'
        return self._post(body, "urn:mercury:rm/Batch", f"urn:batch:{first}", ANONYMOUS + sequence)

    def close(self) -> None:
        self._connection.close()

    def _post(self, body: str, action: str, message_id: str, header: str) -> etree._Element:
        about = (
            f'<a:Action xmlns:a="{WSA}">{action}</a:Action><a:MessageID xmlns:a="{WSA}">{message_id}</a:MessageID>'
            f'<a:To xmlns:a="{WSA}">http://127.0.0.1{DESK}</a:To>'
        )
        self._connection.request("POST", DESK, envelope(SOAP12, body, about + header), {"Content-Type": TYPES[SOAP12]})
        reply = self._connection.getresponse()
        content = reply.read()
        assert reply.status == (200 if content else 202)
        return etree.fromstring(content or b"<nothing/>")


@pytest.fixture
def peer() -> Iterator[Peer]:
    service = Service("desk", namespace="urn:mercury:app")

    @service.operation
    def ask(question: Ask) -> Said:
        return Said(f"re {question.text}")

    server = Mercury(settings=Settings(store="memory:", http=HttpSettings(back_channel_wait=LONG)))
    try:
        made = Peer(server.listen(service).removeprefix("http://"))
        yield made
        made.close()
    finally:
        server.stop()


def said(reply: etree._Element) -> str | None:
    return reply.findtext(".//{urn:mercury:app}text")


def test_an_exchange_behind_a_gap_is_answered_at_once_and_gets_its_response_when_it_is_posted_again(peer: Peer) -> None:
    assert said(peer.ask(1)) == "re 1"
    for number in range(3, 43):
        asks = number % 2 == 0
        reply = peer.ask(number, acknowledged=asks)
        assert said(reply) is None
        assert (reply.find(f".//{{{RM}}}AcknowledgementRange") is not None) is asks
    assert said(peer.ask(2)) == "re 2", "what closes the gap is held for its response"
    for number in range(3, 43):
        assert said(peer.ask(number)) == f"re {number}"


def test_batch_of_requests_is_answered_with_the_batch_of_their_responses_also_when_it_is_posted_again(
    peer: Peer,
) -> None:
    for _ in range(2):
        reply = peer.ask_together(1, 4)
        messages = reply.findall(".//{urn:mercury:rm}Message")
        assert [each.get("relatesTo") for each in messages] == [f"urn:ask:{number}" for number in (1, 2, 3, 4)]
        assert [each.findtext(".//{urn:mercury:app}text") for each in messages] == ["re 1", "re 2", "re 3", "re 4"]
        upper = reply.find(f".//{{{RM}}}AcknowledgementRange")
        assert upper is not None
        assert upper.get("Upper") == "4"
