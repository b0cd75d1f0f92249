"""What a peer states of its store decides what it gets; a peer may state anything, or nothing."""

from __future__ import annotations

import pytest

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.log_limiter import LOG_INTERVAL
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.http_reply import KnownHeads, Reply
from mercury.engine.runtime.store_guard import MOST_NOTES, UNNAMED, OtherStore, StoreGuard
from mercury.engine.store_probe import probe_for
from mercury.errors import StorageError, TransportError
from mercury.statemachine.messages import AckRequested, SequenceHeader
from mercury.statemachine.protocol import Protocol
from mercury.testing.clock import FakeClock
from mercury.wire.envelope import EMPTY, Envelope, HttpMessage, Payload
from tests.acceptance.processes import eventually

A = "http://a.example/svc"


def outgoing(purpose: Purpose = Purpose.MESSAGE, store: str | None = "s1") -> Outgoing:
    versions = Protocol()
    envelope = Envelope(
        soap=versions.soap,
        addressing=versions.addressing,
        rm=versions.rm,
        action="urn:a",
        sequence=SequenceHeader("urn:uuid:1", 3),
        body=Payload(b"<secret/>") if purpose is Purpose.MESSAGE else EMPTY,
    )
    return Outgoing(url=A, envelope=envelope, purpose=purpose, record_id="r", number=3, store=store)


def states(store: str | None, status: int = 202, kind: str = "text/xml") -> HttpMessage:
    return HttpMessage(b"<a/>", kind, None, status, store=store)


class Notes:
    """An engine that notes what it is told."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.over: list[str] = []
        self.before: dict[str, str] | None = {}

    def probe(self, post: Outgoing) -> HttpMessage:
        raise AssertionError(f"{post} is not asked for")

    def store_refused(self, endpoint: str, error: OtherStore, now: float) -> None:
        del endpoint, now
        self.refused.append(error.found)

    def store_answers(self, endpoint: str, address: str) -> None:
        del endpoint
        self.over.append(address)

    def refused_addresses(self) -> dict[str, str]:
        if self.before is None:
            raise StorageError("away")
        return self.before


class Guarded:
    def __init__(self) -> None:
        self.notes, self.clock = Notes(), FakeClock()
        self.guard = StoreGuard(self.notes, self.clock, HelperThreads("test"))

    def answers(self, store: str | None, *, status: int = 202, kind: str = "text/xml", probe: bool = False) -> bool:
        """Let the address answer. Returns whether the answer counts."""
        result = self.guard.check(outgoing(), A, states(store, status, kind), probe=probe)
        assert isinstance(result, HttpMessage | OtherStore)
        return isinstance(result, HttpMessage)

    @property
    def asks(self) -> bool:
        return self.guard.needs_probe(outgoing(), A)


def test_only_messages_of_a_sequence_with_a_store_wait_for_the_store_of_their_address() -> None:
    guard = Guarded().guard
    assert guard.needs_probe(outgoing(), A)
    assert not guard.needs_probe(outgoing(store=None), A)
    for purpose in (Purpose.CREATE, Purpose.ACK_REQUEST, Purpose.TERMINATE, Purpose.POLL):
        assert not guard.needs_probe(outgoing(purpose), A), "the server checks it, and it has no content"


def test_question_has_no_content_of_the_message() -> None:
    asked = probe_for(outgoing(), "urn:uuid:new")
    assert asked.envelope.ack_requests == (AckRequested("urn:uuid:1"),)
    assert asked.envelope.body == EMPTY
    assert (asked.purpose, asked.number, asked.store) == (Purpose.ACK_REQUEST, None, "s1")


def test_address_that_has_stated_the_store_is_not_asked_again_until_it_states_another() -> None:
    guarded = Guarded()
    assert guarded.asks
    assert guarded.answers("s1", probe=True)
    assert not guarded.asks
    assert guarded.answers(None), "a proxy may remove the header of some answers"
    assert not guarded.asks
    assert not guarded.answers("s2")
    assert guarded.asks


def test_address_of_another_store_must_state_the_right_one_and_not_just_nothing() -> None:
    guarded = Guarded()
    assert not guarded.answers("s2", probe=True)
    assert not guarded.answers(None, probe=True)
    assert guarded.asks
    assert guarded.answers("s1", probe=True)
    assert not guarded.asks
    eventually(lambda: guarded.notes.over == [A], "the refusal is over")


def test_peer_without_an_id_is_asked_once_and_an_error_page_says_nothing() -> None:
    guarded = Guarded()
    guarded.answers(None, status=502, kind="text/html")
    assert guarded.asks
    guarded.answers(None, status=500)  # UnknownSequence
    assert not guarded.asks


def test_peer_that_states_another_id_each_time_is_noted_few_times() -> None:
    guarded = Guarded()
    for number in range(50):
        assert not guarded.answers(f"s{number + 2}")
    eventually(lambda: len(guarded.notes.refused) == MOST_NOTES, "the first ones are noted")
    guarded.clock.advance(LOG_INTERVAL + 1)
    assert not guarded.answers("later")
    eventually(lambda: guarded.notes.refused[-1] == "later", "and one of later")
    assert len(guarded.notes.refused) == MOST_NOTES + 1


def test_server_that_says_without_an_id_that_it_is_another_store_is_believed() -> None:
    guarded = Guarded()
    assert not guarded.answers(None, status=421, kind="text/html", probe=True)
    eventually(lambda: guarded.notes.refused == [UNNAMED], "the refusal is noted")
    assert guarded.asks
    assert guarded.answers("s1", probe=True)


@pytest.mark.parametrize(("status", "kept"), [(202, True), (421, False)])
def test_connection_to_another_store_is_not_kept_because_a_load_balancer_may_lead_the_next_one_elsewhere(
    status: int, kept: bool
) -> None:
    head = b"HTTP/1.1 %d X\r\nMercury-Store: s2\r\nContent-Length: 0\r\n\r\n" % status
    reply, heads = Reply(100), KnownHeads()
    reply.feed(head)
    assert reply.complete
    assert reply.will_close is not kept
    heads.learn(head, reply)
    assert (heads.read(head) is not None) is kept


def test_failed_exchange_and_what_is_for_no_store_pass() -> None:
    guarded = Guarded()
    error = TransportError(f"{A}: refused")
    assert guarded.guard.check(outgoing(), A, error) is error
    reply = states("s2")
    assert guarded.guard.check(outgoing(store=None), A, reply) is reply


def test_refusals_of_before_are_known_at_the_start() -> None:
    guarded = Guarded()
    guarded.notes.before = {A: "s2"}
    guarded.guard.start()
    assert guarded.asks
    assert guarded.answers("s1", probe=True)
    eventually(lambda: guarded.notes.over == [A], "the refusal is over")
    guarded.notes.before = None
    guarded.guard.start()  # a store that is away stops nothing


def test_acknowledgement_of_responses_is_for_the_store_of_the_destination() -> None:
    guard = Guarded().guard
    acknowledgement = outgoing(Purpose.ACKNOWLEDGEMENT, None)
    assert guard.expecting(acknowledgement).store is None
    guard.expecting(outgoing())
    assert guard.expecting(acknowledgement).store == "s1"
    assert guard.expecting(outgoing(Purpose.ANSWER, None)).store is None


@pytest.mark.parametrize(
    ("header", "store"),
    [
        (b"Mercury-Store: 5c0f2a9b71d4\r\n", "5c0f2a9b71d4"),
        (b"mercury-store:  s1 \r\n", "s1"),
        (b"", None),
        (b"Mercury-Store: \r\n", None),
        (b"Mercury-Store: " + b"a" * 65 + b"\r\n", None),
        (b"Mercury-Store: a b\r\n", None),
        (b"Mercury-Store: a\xe9\r\n", None),
        (b"Mercury-Store: s1\r\nMercury-Store: s2\r\n", "s1"),
    ],
)
def test_header_that_is_no_id_counts_as_none(header: bytes, store: str | None) -> None:
    data = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n" + header + b"\r\n"
    reply, heads = Reply(100), KnownHeads()
    reply.feed(data)
    assert reply.complete
    assert reply.message().store == store
    heads.learn(data, reply)
    again = heads.read(data)
    assert again is not None
    assert again.store == store
