"""A client of several servers: what one of them answers keeps no response of another from the application."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from mercury.engine.application import MessageContext
from mercury.engine.exchange import Outgoing, Purpose
from mercury.errors import ApplicationFault, SequenceFailed
from mercury.statemachine.messages import CreateSequence
from mercury.wire.envelope import HttpMessage

from .foreign import Foreign
from .harness import ASK, DESTINATION, Link, Node, World, body
from .test_backlog_bytes import KILO, large
from .test_letters_of_peers import letters

HOSTILE, HONEST = "http://hostile/services/orders", "http://honest/services/orders"


class UnprintableError(Exception):
    """What a broken library raises: it cannot be written into the log."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Client:
    """A node that sends requests to foreign servers and does not listen."""

    def __init__(self, most: int = DESTINATION.max_backlog_bytes, **settings: Any) -> None:
        policy = replace(DESTINATION, max_backlog_bytes=most)
        self.node = Node("client", World(), policy=policy, **settings)
        self.foreign = Foreign()
        #: Called when the replies are stored and not delivered yet.
        self.stored: Callable[[], None] | None = None
        #: The offered sequence of each server that accepts them.
        self.accepted: dict[str, str] = {}
        self._made = 0

    def to(self, url: str, key: str = "key") -> Link:
        return self.node.to(url, key, listens=False)

    def serve(self, seconds: float = 0.0) -> None:
        """The servers answer everything, for so long."""
        end = self.node.world.now + seconds
        self._serve_now()
        while self.node.world.now < end:
            self.node.world.now += 0.5
            self._serve_now()

    def _serve_now(self) -> None:
        world = self.node.world
        for _ in range(200):
            worked = self.node.turn()
            posts = [flight for flight in world.wire if flight.exchange is not None and not flight.is_reply]
            for flight in posts:
                world.wire.remove(flight)
                assert flight.exchange is not None
                flight.exchange.over = True
                for reply in self._answers(flight.exchange.outgoing):
                    self.node.answered(flight.exchange.outgoing, reply)
            if self.stored is not None:
                self.stored()
            if not posts and not worked:
                return

    def _answers(self, outgoing: Outgoing) -> list[HttpMessage]:
        envelope, url = outgoing.envelope, outgoing.url
        if isinstance(envelope.body, CreateSequence):
            self._made += 1
            accept = url if url in self.accepted else None
            if accept is not None and envelope.body.offer is not None:
                self.accepted[url] = envelope.body.offer.identifier
            return [self.foreign.created(f"urn:theirs:{self._made}", envelope.message_id, accept=accept)]
        if outgoing.purpose is not Purpose.MESSAGE or envelope.sequence is None:
            return [HttpMessage(b"", "", None, 202)]
        sequence, number = envelope.sequence.identifier, envelope.sequence.message_number
        acknowledged = self.foreign.alone(self.foreign.acknowledgement(sequence, ((1, number),)))
        return [acknowledged, *self.answer(url, sequence, number, envelope.message_id or "")]

    def answer(self, url: str, sequence: str, number: int, request: str) -> list[HttpMessage]:
        """What a server answers to a request."""
        if url == HOSTILE:
            return [self._fault(sequence, number, request)]
        return [self._plain("good", sequence, number, request)]

    def _plain(self, text: str, sequence: str, number: int, request: str) -> HttpMessage:
        headers = self.foreign.acknowledgement(sequence, ((1, number),))
        return self.foreign.envelope(f"{ASK}Response", body(text).decode(), headers=headers, relates_to=request)

    def _fault(self, sequence: str, number: int, request: str) -> HttpMessage:
        """A Fault with nearly as many attributes as an element may have. The declarations around it that its content
        uses become its own when it is cut out."""
        declared = "".join(f' xmlns:p{each}="urn:p{each}"' for each in range(10))
        used = "".join(f"<p{each}:x/>" for each in range(10))
        attributes = "".join(f' a{each}="1"' for each in range(58))
        fault = (
            f"<s:Fault{attributes}><s:Code><s:Value>s:Sender</s:Value></s:Code><s:Reason>"
            f'<s:Text xml:lang="en">no</s:Text></s:Reason><s:Detail><d>{used}</d></s:Detail></s:Fault>'
        )
        headers = self.foreign.acknowledgement(sequence, ((1, number),))
        http = self.foreign.envelope(f"{ASK}Response", fault, headers=headers, relates_to=request)
        return HttpMessage(http.body.replace(b"<s:Envelope ", f"<s:Envelope{declared} ".encode(), 1), http.content_type)

    @property
    def waiting(self) -> list[str]:
        """The single replies that are not delivered yet."""
        buffers = self.node.store.committed.invoker.buffers
        return [name for name, buffer in buffers.items() if name.startswith("reply:") and buffer.rows]


def test_fault_with_as_many_attributes_as_a_message_may_have_reaches_the_application() -> None:
    client = Client()
    future = client.to(HOSTILE).ask("one")
    client.to(HOSTILE, "another").asks("two")
    client.serve()
    error = future.exception(0)
    assert isinstance(error, ApplicationFault)
    assert (error.reason, error.detail.count(b"xmlns:p")) == ("no", 10)
    assert client.node.answers == [("two", "fault Sender")]
    assert client.node.letters() == []
    assert client.waiting == []


def test_stored_fault_that_cannot_be_read_ends_its_future_and_becomes_a_dead_letter() -> None:
    client = Client()

    def spoil() -> None:
        for buffer in client.node.store.committed.invoker.buffers.values():
            buffer.rows = {number: replace(message, payload=b"<other/>") for number, message in buffer.rows.items()}

    client.stored = spoil
    future: Future[bytes] = client.to(HOSTILE).ask("one")
    client.serve()
    with pytest.raises(SequenceFailed, match="it cannot be read: not a SOAP fault"):
        future.result(0)
    (letter,) = client.node.letters()
    assert (letter.payload, letter.owner) == (b"<other/>", "http://hostile:80")
    assert client.waiting == []


def test_replies_that_the_application_fails_at_keep_no_reply_of_another_server_waiting() -> None:
    client = Client(sequence_batch=4)

    def fail(_context: MessageContext, text: str) -> None:
        if text.startswith("fault"):
            raise UnprintableError

    client.node.on_call = fail
    client.to(HOSTILE).asks(*(f"{number}" for number in range(20)))
    client.serve(3)
    assert len(client.waiting) == 20
    future = client.to(HONEST).ask("good")
    client.serve(1)
    assert future.done()


def test_replies_that_the_application_fails_at_keep_no_later_reply_of_their_server_waiting() -> None:
    client = Client(sequence_batch=4)

    def fail(context: MessageContext, _text: str) -> None:
        if context.correlation != "good":
            raise UnprintableError

    client.node.on_call = fail
    client.to(HOSTILE).asks(*(f"{number}" for number in range(20)))
    client.serve(3)
    assert len(client.waiting) == 20
    client.to(HOSTILE).asks("good")
    client.serve(4)
    assert client.node.answers == [("good", "fault Sender")]


class Strays(Client):
    """The hostile server answers each request with responses on the offered sequence that answer nothing, and then
    knows the sequence no more, so that the next request makes another one."""

    def answer(self, url: str, sequence: str, number: int, request: str) -> list[HttpMessage]:
        offered = self.accepted[url]
        if url != HOSTILE:
            return [self.foreign.respond(offered, number, request, large(number, 6))]
        final = self.foreign.acknowledgement(sequence, ((1, number),), final=True)
        strays = [self.foreign.respond(offered, each, "urn:nothing", large(each, 1)) for each in range(1, 6)]
        return [*strays, self.foreign.fault("SequenceTerminated", sequence, headers=final)]


def test_dead_letters_that_a_server_leaves_on_one_sequence_after_the_other_fill_its_own_limit_only() -> None:
    settings = {"max_backlog_bytes": 400 * KILO, "max_backlog_bytes_per_peer": 50 * KILO}
    client = Strays(10_000 * KILO, max_sequences=100, max_sequences_per_peer=10, **settings)
    client.accepted = {HOSTILE: "", HONEST: ""}
    for number in range(60):
        client.to(HOSTILE).asks(f"{number}")
        client.serve(2)
    assert {letter.owner for letter in client.node.letters() if letter.owner} == {"http://hostile:80"}
    assert 30 * KILO < letters(client.node) < 60 * KILO
    future = client.to(HONEST).ask("good")
    client.serve(2)
    assert future.done()
