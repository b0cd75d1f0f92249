"""Clients that refuse, do not use, or never take what is made for them: none of it stays or is repeated forever."""

from __future__ import annotations

import logging

import pytest

from mercury.engine.source.transmission import STALLED_PAUSE
from mercury.statemachine.protocol import Protocol
from mercury.statemachine.rms import RMSSequence
from mercury.testing.flights import Flight
from mercury.wire.envelope import HttpMessage

from .foreign import RM10_SOAP11, RM10_SOAP12, RM11_SOAP11, RM11_SOAP12, WSMC, Foreign, answer_to
from .harness import Node, Pair, World, name_of

FRIEND = "http://friend.example/replies"
OFFERED = "urn:offered"
POLLED = f"{WSMC}/anonymous?id=550e8400-e29b-11d4-a716-446655440000"
DAY = 86400.0
PROTOCOLS = pytest.mark.parametrize(
    "protocol", [RM11_SOAP12, RM11_SOAP11, RM10_SOAP11], ids=["1.1/1.2", "1.1/1.1", "1.0/1.1"]
)


def is_idle(node: Node) -> bool:
    """Whether the source worker has nothing to do at this instant, after a few turns."""
    for _ in range(5):
        node.engine.source.run_once(node.world.now)
    commits = node.commits
    node.engine.source.run_once(node.world.now)
    return node.commits == commits


# --- replies outside any sequence -------------------------------------------------------------------------------------


class Refusing:
    """A client with an address that accepts no sequence for responses, and none of the replies that are posted there.

    :param silent: CreateSequence is taken without an answer, as CXF does; otherwise it is refused with a fault.
    """

    def __init__(self, protocol: Protocol = RM11_SOAP12, *, silent: bool = False, **settings: float) -> None:
        self.world = World()
        self.node, self.foreign = Node("server", self.world, **settings), Foreign(protocol)
        self.silent = silent
        self.posted: list[str] = []
        self.requests = self.foreign.open(self.node)

    def ask(self, number: int = 1) -> None:
        self.node.get(self.foreign.ask(self.requests, number, reply_to=FRIEND))
        self.step(20)

    def end(self) -> None:
        self.node.get(self.foreign.terminate(self.requests, 1))

    def step(self, seconds: float) -> None:
        """Let time pass, second by second."""
        until = self.world.now + seconds
        while True:
            for _ in range(5):
                self.node.turn()
                self._refuse()
            if self.world.now >= until:
                return
            self.world.now = min(until, self.world.now + 1.0)

    def _refuse(self) -> None:
        for flight in list(self.world.wire):
            self.world.wire.remove(flight)
            if flight.exchange is not None and not flight.is_reply:
                self._refuse_one(flight)

    def _refuse_one(self, flight: Flight) -> None:
        assert flight.exchange is not None
        outgoing = flight.exchange.outgoing
        flight.exchange.over = True
        self.posted.append(outgoing.purpose.value)
        creates = name_of(flight.http) == "CreateSequence"
        if creates and self.silent:
            self.node.answered(outgoing, HttpMessage(b"", "", None, 202))
        else:
            self.node.answered(outgoing, self.foreign.fault("WSRMRequired", relates_to=outgoing.envelope.message_id))


@PROTOCOLS
@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
def test_plain_reply_that_is_not_accepted_takes_no_work_between_its_posts_after_the_requests_have_ended(
    protocol: Protocol, silent: bool
) -> None:
    client = Refusing(protocol, silent=silent)
    client.ask()
    client.end()
    client.step(61)  # source.close_unacknowledged_after
    assert client.node.source().channel.plain
    assert client.world.violations() == []
    assert is_idle(client.node)
    due = client.node.source().due
    assert due is not None
    assert due > client.world.now


def test_plain_reply_that_is_not_accepted_is_a_dead_letter_some_time_after_the_end_of_its_requests() -> None:
    client = Refusing()
    client.ask()
    client.step(4000)
    assert client.node.letters() == [], "its requests may go on"
    client.end()
    grace = client.node.settings.response_grace
    client.step(grace - 60)
    assert client.node.letters() == [], "its address may be down for a while"
    client.step(180)
    assert client.node.letters_by_text() == [("re ask 1", "unknown")]
    assert client.node.rows() == 0
    posted = len(client.posted)
    client.step(600)
    assert len(client.posted) == posted


def test_plain_reply_that_is_made_long_after_the_end_of_its_requests_is_posted_for_a_while() -> None:
    client = Refusing(response_grace=600.0)
    client.ask()
    busy = [True]
    client.node.on_call = lambda _context, text: 1 / 0 if busy[0] and text == "ask 2" else None
    client.ask(2)
    client.node.get(client.foreign.terminate(client.requests, 2))
    client.step(700)
    assert client.node.letters_by_text() == [("re ask 1", "unknown")]
    busy[0] = False
    before = len(client.posted)
    client.step(580)
    assert len(client.posted) > before + 8
    assert len(client.node.letters()) == 1
    client.step(120)
    assert client.node.letters_by_text()[1:] == [("re ask 2", "unknown")]


class PolledPlainly:
    """A client that fetches by MakeConnection, and refuses a sequence for responses."""

    def __init__(self) -> None:
        self.world = World()
        self.node, self.foreign = Node("server", self.world, allow=(), response_grace=600.0), Foreign()
        self.requests = self.foreign.open(self.node, acks_to=POLLED)
        self.node.get(self.foreign.ask(self.requests, 1, reply_to=POLLED))
        self.world.advance(1)
        created = self.poll()
        assert name_of(created) == "CreateSequence"
        message_id = created.body.split(b"MessageID>")[1].split(b"<")[0].decode()
        self.node.get(self.foreign.fault("CreateSequenceRefused", relates_to=message_id))
        self.world.advance(1)

    def poll(self) -> HttpMessage:
        return self.node.get(self.foreign.poll(POLLED))

    def end(self) -> None:
        self.node.get(self.foreign.terminate(self.requests, 1, reply_to=POLLED))
        self.world.advance(20)


def test_plain_reply_that_was_fetched_once_goes_some_time_after_its_client_has_ended() -> None:
    client = PolledPlainly()
    assert name_of(client.poll()) == "bare message"
    client.end()
    client.world.advance(700)
    assert client.node.rows() == 0
    assert client.node.letters() == [], "what was handed out counts as fetched: nothing acknowledges it"
    assert not client.node.reported.failed
    client.world.advance(3 * DAY)
    assert client.node.empty()


def test_plain_reply_whose_answer_was_lost_can_be_fetched_after_the_end_of_its_requests() -> None:
    client = PolledPlainly()
    client.poll()
    client.end()
    assert name_of(client.poll()) == "bare message"
    client.world.advance(20)
    assert name_of(client.poll()) == "bare message"
    client.world.advance(20)
    assert name_of(client.poll()) == "accepted", "it was fetched three times"
    assert client.node.rows() == 0


def test_plain_reply_that_was_never_fetched_is_a_dead_letter() -> None:
    client = PolledPlainly()
    client.end()
    client.world.advance(700)
    assert client.node.letters_by_text() == [("re ask 1", "not delivered")]
    assert client.node.rows() == 0
    client.world.advance(3 * DAY)
    assert client.node.empty()


# --- offered sequences ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "addresses"),
    [
        (RM11_SOAP12, {"acks_to": "anonymous", "offer_endpoint": POLLED}),
        (RM11_SOAP12, {"acks_to": "anonymous", "offer_endpoint": FRIEND}),
        (RM11_SOAP12, {"acks_to": "anonymous", "offer_endpoint": "anonymous"}),
        (RM10_SOAP12, {"acks_to": "anonymous", "reply_to": FRIEND}),
    ],
    ids=["fetched", "posted", "anonymous", "posted, 1.0"],
)
@pytest.mark.parametrize("expires", ["PT5S", ""], ids=["expires", "inactive"])
def test_offered_sequence_goes_with_the_requests_that_were_never_sent(
    protocol: Protocol, addresses: dict[str, str], expires: str
) -> None:
    node, foreign = Node("server", World()), Foreign(protocol)
    node.get(foreign.create(offer=OFFERED, expires=expires, **addresses))
    assert [each.machine.identifier for each in node.sources()] == [OFFERED]
    silence = node.policy.inactivity_timeout
    assert silence is not None
    node.world.advance(6 if expires else silence + 1)
    node.world.advance(DAY)
    assert node.empty()
    assert node.world.count("TerminateSequence") == 0, "no TerminateSequence is sent: the other side has forgotten both"
    again = node.get(foreign.create(offer=OFFERED, **addresses))
    assert again.status in (200, 202)
    assert [each.machine.identifier for each in node.sources()] == [OFFERED], "its identifier is free again"


@pytest.mark.parametrize("endpoint", [POLLED, FRIEND, "anonymous"], ids=["fetched", "posted", "anonymous"])
def test_offered_sequence_that_expires_before_its_requests_ends_at_its_time(endpoint: str) -> None:
    node, foreign = Node("server", World()), Foreign()
    created = foreign.create("anonymous", offer=OFFERED, offer_endpoint=endpoint)
    short = created.body.replace(b"</r:Offer>", b"<r:Expires>PT5S</r:Expires></r:Offer>")
    node.get(HttpMessage(short, created.content_type, created.soap_action))
    node.world.advance(4)
    assert node.source().machine.alive
    node.world.advance(2)
    assert not node.source().machine.alive
    assert not node.destination().machine.tombstone


# --- sequences for responses ------------------------------------------------------------------------------------------


def with_unacknowledged_response(foreign: Foreign, *, offers: bool) -> tuple[Node, str]:
    """A server that has posted a response in a sequence, to a client that is gone; and the sequence of the request."""
    node = Node("server", World())
    node.get(foreign.create(offer=OFFERED, offer_endpoint=FRIEND, reply_to=FRIEND) if offers else foreign.create())
    requests = node.destination().identifier
    node.get(foreign.ask(requests, 1, reply_to=FRIEND))
    for _ in range(5):
        node.turn()
    if not offers:
        (flight,) = [each for each in node.world.wire if name_of(each.http) == "CreateSequence"]
        assert flight.exchange is not None
        answer_to(
            node, foreign.created("urn:x", flight.exchange.outgoing.envelope.message_id), purpose="CreateSequence"
        )
    node.world.advance(10)
    return node, requests


@PROTOCOLS
@pytest.mark.parametrize("offers", [True, False], ids=["offered", "created"])
def test_responses_to_a_client_that_is_gone_are_dead_letters_after_its_requests_are_forgotten(
    protocol: Protocol, offers: bool
) -> None:
    foreign = Foreign(protocol)
    node, requests = with_unacknowledged_response(foreign, offers=offers)
    node.get(foreign.terminate(requests))
    node.world.advance(node.policy.tombstone - 60)
    assert node.letters() == [], "the client may come back"
    before = len(node.world.seen)
    node.world.advance(3600)
    assert len(node.world.seen) > before
    node.world.advance(200)
    assert node.letters_by_text() == [("re ask 1", "unknown")]
    posted = len(node.world.seen)
    node.world.advance(3 * DAY)
    assert len(node.world.seen) == posted
    assert node.empty()


def test_client_that_comes_back_while_its_requests_are_remembered_acknowledges_its_responses() -> None:
    foreign = Foreign()
    node, requests = with_unacknowledged_response(foreign, offers=True)
    node.get(foreign.terminate(requests))
    node.world.advance(node.policy.tombstone / 2)
    node.get(foreign.alone(foreign.acknowledgement(OFFERED, [(1, 1)])))
    node.world.advance(3 * DAY)
    assert node.letters() == []
    assert node.reported.failed == []
    assert node.empty()


def test_response_that_is_made_just_before_its_requests_are_forgotten_is_posted_for_a_while() -> None:
    foreign = Foreign()
    node, requests = with_unacknowledged_response(foreign, offers=True)
    node.get(foreign.alone(foreign.acknowledgement(OFFERED, [(1, 1)])))
    busy = [True]
    node.on_call = lambda _context, _text: 1 / 0 if busy[0] else None
    node.get(foreign.ask(requests, 2, reply_to=FRIEND))
    node.get(foreign.terminate(requests, 2))
    node.world.advance(node.policy.tombstone - 60)
    busy[0] = False
    node.world.advance(120)
    assert node.destinations() == []
    before = len(node.world.seen)
    node.world.advance(3400)
    assert len(node.world.seen) > before + 10
    assert node.letters() == []
    node.world.advance(200)
    assert node.letters_by_text() == [("re ask 2", "unknown")]


def test_client_without_room_that_is_gone_is_asked_no_more_after_its_requests_are_forgotten() -> None:
    # FC-02
    foreign = Foreign()
    node, requests = with_unacknowledged_response(foreign, offers=True)
    full = '<n:BufferRemaining xmlns:n="http://schemas.microsoft.com/ws/2006/05/rm">0</n:BufferRemaining>'
    node.get(foreign.alone(foreign.acknowledgement(OFFERED, [(1, 1)], extra=full)))
    node.get(foreign.ask(requests, 2, reply_to=FRIEND))
    node.world.advance(60)
    node.get(foreign.terminate(requests, 2))
    assert node.world.count("AckRequested") > 0, "it is asked whether it has room"
    node.world.advance(node.policy.tombstone + 4000)
    assert node.letters_by_text() == [("re ask 2", "not delivered")]
    posted = len(node.world.seen)
    node.world.advance(3 * DAY)
    assert len(node.world.seen) == posted
    assert node.empty()


# --- a defect ---------------------------------------------------------------------------------------------------------


def test_sequence_that_is_due_without_any_work_is_left_alone_for_a_while_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair()
    pair.client.to("http://gone.example/x", "stalled").notes("never")
    pair.advance(3)
    next_due = RMSSequence.next_due

    def at_once(machine: RMSSequence, policy: object, *, posts: bool = True) -> float | None:
        return 0.0 if machine.identifier is None else next_due(machine, policy, posts=posts)  # type: ignore[arg-type]

    monkeypatch.setattr(RMSSequence, "next_due", at_once)
    for record in pair.client.sources():
        with pair.client.store.transaction() as tx:
            tx.rms.lock([record.channel.key])
            (own,) = tx.rms.records(record.channel.key)
            own.due = pair.now
            tx.rms.save(own)
    with caplog.at_level(logging.ERROR):
        assert is_idle(pair.client)
    assert "the work on it has no effect" in caplog.text
    assert pair.client.source().due == pair.now + STALLED_PAUSE
    assert pair.violations() == [], "the checks see the turns of the wire"
    pair.now += STALLED_PAUSE
    monkeypatch.setattr(RMSSequence, "work", lambda _machine, _policy: None)
    pair.client.turn()
    (found,) = pair.violations()
    assert "no effect" in found
