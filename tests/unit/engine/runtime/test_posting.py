"""Posts are encoded, exchanged and answered in lists; what blocks delays no other."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from mercury.engine.address_book import AddressBook
from mercury.engine.addresses import AddressPolicy
from mercury.engine.endpoint_errors import EndpointErrors
from mercury.engine.exchange import Arrival, Outgoing, Purpose
from mercury.engine.log_limiter import LOG_INTERVAL
from mercury.engine.measurements import Measurements
from mercury.engine.runtime.exchange_limit import FIRST, ExchangeLimits
from mercury.engine.runtime.http_exchange import OnPosted, Post, Posted
from mercury.engine.runtime.member_updates import REBALANCED_WITHIN
from mercury.engine.runtime.posting import LARGE_REPLY, Posting
from mercury.engine.runtime.transport import Transport
from mercury.errors import TransportError
from mercury.statemachine.protocol import Protocol
from mercury.testing.clock import FakeClock
from mercury.wire.envelope import EMPTY, Envelope, HttpMessage
from tests.acceptance.processes import eventually
from tests.patience import patience
from tests.unit.engine.runtime.test_sender_pool import fixed

URL, OTHER, NEW = "http://peer.example/a", "http://other.example/a", "http://new.example/a"
#: Seconds.
PATIENCE = patience(30.0)
#: The number of a message that cannot be encoded.
UNENCODABLE = 99
REPLY = HttpMessage(b"<a/>", "text/xml")


def outgoing(number: int, url: str = URL) -> Outgoing:
    versions = Protocol()
    envelope = Envelope(soap=versions.soap, addressing=versions.addressing, rm=versions.rm, action="urn:a", body=EMPTY)
    return Outgoing(url=url, envelope=envelope, purpose=Purpose.MESSAGE, record_id=url, number=number)


class Engine:
    """Encodes nothing, and takes each reply as an arrival."""

    def __init__(self) -> None:
        self.endpoint_errors = EndpointErrors()
        self.addresses = AddressBook()
        self.address_policy = AddressPolicy()
        self.measurements: Measurements | None = None
        self.secured = False
        self.stored: frozenset[Purpose] = frozenset()
        #: The names of the threads that encoded, and those that handled replies.
        self.encoding: list[str] = []
        self.answering: list[str] = []
        self.failures: list[str] = []

    def is_secured_endpoint(self, url: str) -> bool:
        del url
        return self.secured

    def reply_needs_store(self, outgoing: Outgoing, *, empty: bool) -> bool:
        return outgoing.purpose in self.stored and (outgoing.purpose is not Purpose.CREATE or empty)

    def encoded(self, outgoing: Outgoing) -> HttpMessage:
        self.encoding.append(threading.current_thread().name)
        if outgoing.number == UNENCODABLE:
            raise KeyError("unforeseen")
        return HttpMessage(f"{outgoing.number}".encode(), "text/xml")

    def answered(self, outgoing: Outgoing, reply: HttpMessage, now: float) -> Arrival | None:
        del now
        self.answering.append(threading.current_thread().name)
        return Arrival(http=reply, request=outgoing) if reply.body else None

    def failed(self, outgoing: Outgoing, error: str, now: float) -> None:
        del outgoing, now
        self.failures.append(error)


class Network:
    """A transport whose exchanges end when the test says so, in the test's thread."""

    def __init__(self) -> None:
        self.lists: list[Sequence[Post]] = []
        self._on_end: OnPosted | None = None

    def begin(self, posts: Sequence[Post], on_end: OnPosted) -> None:
        self.lists.append(posts)
        self._on_end = on_end

    def end(self, result: HttpMessage | Exception = REPLY, *, last: int = 1) -> None:
        """End the exchanges of the last lists, together."""
        assert self._on_end is not None
        self._on_end([Posted(post.about, result) for posts in self.lists[-last:] for post in posts])

    def close(self) -> None: ...


class MembersNetwork(Network):
    """A network whose destinations have a new member, and say so once they may."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()

    def get(self, url: str) -> bytes:
        del url
        assert self.answers.wait(PATIENCE)
        return json.dumps({"members": [URL, NEW], "rebalance": True}).encode()

    def alike(self, url: str, other: str) -> bool:
        del url, other
        return True


class Committer:
    """Takes replies as long as it has room."""

    def __init__(self) -> None:
        self.room = 1000
        self.lists: list[Sequence[Arrival]] = []
        self.has_room = threading.Event()

    def deliver(self, arrivals: Sequence[Arrival], wait: bool) -> int:
        if wait:
            assert self.has_room.wait(PATIENCE)
        taken = len(arrivals) if wait else min(self.room, len(arrivals))
        self.lists.append(arrivals[:taken])
        return taken


class Office:
    def __init__(
        self, transport: Transport | None = None, limits: Callable[[int, int], ExchangeLimits] = fixed, senders: int = 8
    ) -> None:
        self.engine, self.network, self.committer, self.clock = Engine(), Network(), Committer(), FakeClock()
        deliver = self.committer.deliver
        self.posting = Posting(self.engine, transport or self.network, senders, self.clock, deliver, limits)
        self.posting.pools.start()

    def post(self, *posts: Outgoing) -> None:
        self.posting.pools.put(posts)


def test_list_of_posts_is_handed_over_once_and_so_are_its_replies() -> None:
    office = Office()
    office.post(*(outgoing(number) for number in range(1, 21)))
    assert [len(posts) for posts in office.network.lists] == [6]
    office.network.end()
    assert [len(posts) for posts in office.network.lists] == [6, 6], "what waited has their room, in one list"
    assert [len(arrivals) for arrivals in office.committer.lists] == [6]
    assert {*office.engine.encoding, *office.engine.answering} == {threading.current_thread().name}
    for _ in range(3):
        office.network.end()
    posted = [arrival.request for arrivals in office.committer.lists for arrival in arrivals]
    assert [each.number for each in posted if each is not None] == list(range(1, 21))
    assert not office.posting.pools.wait(0)


@pytest.mark.parametrize("store", [None, "f0e1"])
def test_an_answer_that_names_its_store_tells_that_its_server_is_mercury(store: str | None) -> None:
    office = Office(limits=ExchangeLimits, senders=128)
    office.post(*(outgoing(number) for number in range(100, 300)))
    assert [len(posts) for posts in office.network.lists] == [FIRST]
    office.network.end(replace(REPLY, store=store))
    assert sum(map(len, office.network.lists)) == FIRST + (96 if store is not None else FIRST)


def test_reply_that_the_committer_has_no_room_for_keeps_the_room_of_its_exchange() -> None:
    office = Office()
    office.committer.room = 4
    office.post(*(outgoing(number) for number in range(1, 21)))
    office.network.end()
    assert [len(posts) for posts in office.network.lists] == [6, 4]
    office.committer.has_room.set()
    eventually(lambda: [len(posts) for posts in office.network.lists] == [6, 4, 2], "the others are passed on")


@pytest.mark.parametrize("case", ["noted in the store", "empty and noted in the store", "long", "secured"])
def test_reply_that_blocks_is_handled_in_a_helper_thread(case: str) -> None:
    office = Office()
    office.engine.secured = case == "secured"
    noted = {"noted in the store": Purpose.TERMINATE, "empty and noted in the store": Purpose.CREATE}.get(case)
    office.engine.stored = frozenset({noted} if noted is not None else ())
    office.post(replace(outgoing(1), purpose=noted or Purpose.MESSAGE))
    eventually(lambda: office.network.lists, "it is posted")
    body = b"" if case.startswith("empty") else b"x" * (LARGE_REPLY + (case == "long"))
    office.network.end(HttpMessage(body, "text/xml"))
    assert not office.posting.pools.wait(time.monotonic() + PATIENCE)
    assert {name.rstrip("0123456789") for name in office.engine.answering} == {"mercury-sender-"}
    encoded_by = {name.rstrip("0123456789") for name in office.engine.encoding}
    assert encoded_by == {"mercury-sender-" if case == "secured" else threading.current_thread().name}


def test_replies_to_creations_are_passed_on_together() -> None:
    office = Office()
    office.engine.stored = frozenset({Purpose.CREATE})
    office.post(*(replace(outgoing(number), purpose=Purpose.CREATE, url=URL) for number in range(1, 4)))
    office.network.end()
    assert [len(arrivals) for arrivals in office.committer.lists] == [3]


def test_endpoint_without_a_reply_is_named_and_its_message_is_not_in_flight() -> None:
    office = Office()
    office.post(outgoing(1))
    office.network.end(TransportError(f"{URL}: refused"))
    assert office.engine.failures == [f"{URL}: refused"]
    assert office.engine.endpoint_errors.get(URL) == f"{URL}: refused"
    assert not office.posting.pools.is_in_flight(URL, 1)


@pytest.mark.parametrize("secured", [False, True])
def test_message_that_cannot_be_encoded_stops_no_other(secured: bool) -> None:
    office = Office()
    office.engine.secured = secured
    office.post(*(outgoing(number) for number in range(UNENCODABLE - 2, UNENCODABLE + 3)))
    eventually(lambda: sum(map(len, office.network.lists)) == 4, "the others are posted")
    eventually(lambda: not office.posting.pools.is_in_flight(URL, UNENCODABLE), "it has ended")
    assert "KeyError" in (office.engine.endpoint_errors.get(URL) or "")


def test_unexpected_errors_of_posts_to_one_server_are_logged_once_in_an_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    office = Office()
    for wave in range(2):
        for url in (URL, OTHER):
            for number in range(3):
                office.post(outgoing(number, url))
                office.network.end(KeyError("unforeseen"))
        logged = [record.getMessage() for record in caplog.records if record.exc_info]
        assert sum(URL in line for line in logged) == 1 + wave
        assert sum(OTHER in line for line in logged) == 1 + wave
        office.clock.advance(LOG_INTERVAL)
    assert not office.posting.pools.wait(0)


@pytest.mark.parametrize(
    ("result", "next_list"),
    [
        (REPLY, FIRST),
        (replace(REPLY, status=500), FIRST),
        (replace(REPLY, status=503), FIRST // 2),
        (replace(REPLY, status=429), FIRST // 2),
        (TransportError(f"{URL}: no connection"), FIRST // 2),
    ],
    ids=["accepted", "fault", "503", "429", "no connection"],
)
def test_exchange_that_fails_or_is_refused_as_busy_costs_its_server_exchanges(
    result: HttpMessage | Exception, next_list: int
) -> None:
    office = Office(limits=ExchangeLimits, senders=128)
    office.post(*(outgoing(number) for number in range(100)))
    assert [len(posts) for posts in office.network.lists] == [FIRST]
    office.network.end(result)
    if isinstance(result, TransportError):
        assert len(office.network.lists[-1]) == 1, "one is tried"
        office.network.end()
    assert len(office.network.lists[-1]) == next_list


class OneAtATime:
    """A transport with a thread for each exchange."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.posted: list[str] = []

    def post(self, url: str, message: HttpMessage) -> HttpMessage:
        self.posted.append(url)
        if url == OTHER:
            raise TransportError(f"{OTHER}: refused")
        assert self.go_on.wait(PATIENCE)
        return message

    def close(self) -> None: ...


def test_transport_that_makes_one_exchange_at_a_time_has_a_thread_for_each() -> None:
    transport = OneAtATime()
    office = Office(transport)
    office.post(*(outgoing(number) for number in range(3)), outgoing(1, OTHER))
    eventually(lambda: len(transport.posted) == 4, "all are posted at once")
    eventually(lambda: office.engine.failures == [f"{OTHER}: refused"], "one has failed")
    transport.go_on.set()
    assert not office.posting.pools.wait(time.monotonic() + PATIENCE)
    assert sorted(arrival.http.body for (arrival,) in office.committer.lists) == [b"0", b"1", b"2"]


def test_new_member_is_chosen_within_its_time_although_the_clock_is_set_back() -> None:
    engine, network, clock, monotonic = Engine(), MembersNetwork(), FakeClock(), FakeClock(0.0)
    engine.address_policy = AddressPolicy(allowed=("http://new.example/",))
    endpoint = engine.addresses.add(f"failover:({URL})?updateURIsSupported=true").endpoint
    posting = Posting(engine, network, 8, clock, Committer().deliver, fixed, lambda: 0.9, monotonic)
    posting.pools.start()
    posting.pools.put([outgoing(1, endpoint)])
    network.end()
    network.answers.set()
    eventually(lambda: len(engine.addresses.addresses(endpoint)) == 2, "the members are known")
    clock.advance(-3600.0)
    monotonic.advance(REBALANCED_WITHIN)
    posting.pools.put([outgoing(2, endpoint)])
    eventually(lambda: len(network.lists) == 2, "it is posted")
    assert [post.url for posts in network.lists for post in posts] == [URL, NEW]
    posting.stop()
