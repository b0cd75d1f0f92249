"""A post to a destination with several addresses goes from one to the next until it is answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from mercury.engine.address_book import AddressBook
from mercury.engine.endpoint_errors import EndpointErrors
from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.runtime.exchange_limit import ExchangeLimit
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.http_exchange import OnPosted, Post, Posted
from mercury.engine.runtime.member_posts import EXCHANGE_TIMEOUT, MemberPosts, addressed
from mercury.engine.runtime.sender_pool import WHOLE
from mercury.engine.runtime.server_queues import Begun, Lane
from mercury.engine.runtime.store_guard import OtherStore, StoreGuard
from mercury.errors import TransportError
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.protocol import Protocol
from mercury.testing.clock import FakeClock
from mercury.wire.envelope import EMPTY, Envelope, HttpMessage
from tests.acceptance.processes import eventually

A, B = "http://a.example/svc", "http://b.example/svc"
LIST = f"failover:({A},{B})"
ANSWER = HttpMessage(b"<a/>", "text/xml")
BUSY = HttpMessage(b"", "", None, 503)
PROBE = HttpMessage(b"?", "text/xml")


def outgoing(number: int, to: str, url: str = LIST, store: str | None = None) -> Outgoing:
    versions = Protocol()
    envelope = Envelope(
        soap=versions.soap,
        addressing=versions.addressing,
        rm=versions.rm,
        action="urn:a",
        to=EndpointReference(to),
        body=EMPTY,
    )
    return Outgoing(url=url, envelope=envelope, purpose=Purpose.MESSAGE, record_id=url, number=number, store=store)


class World:
    """The posts, with a network and clocks that do what the test says."""

    def __init__(self, options: str = "randomize=false") -> None:
        self.clock = FakeClock()
        self.monotonic = FakeClock(0.0)
        self.open: list[tuple[Post, OnPosted]] = []
        self.ended: list[Posted] = []
        self.again: list[Begun] = []
        self.book = AddressBook()
        self.endpoint = self.book.add(f"{LIST}?{options}").endpoint
        self.encoded: list[Outgoing] = []
        self.errors = EndpointErrors()
        self.posts = MemberPosts(
            self.book,
            self.errors,
            self._encode,
            self._begin,
            self.ended.extend,
            self.again.append,
            lambda: self.clock.now,
            lambda: 0.5,
            HelperThreads("test"),
            StoreGuard(self, lambda: self.clock.now, HelperThreads("test")),
            monotonic=self.monotonic,
        )
        self.posts_to_other_stores: list[tuple[str, OtherStore]] = []

    def advance(self, seconds: float) -> None:
        for each in (self.clock, self.monotonic):
            each.advance(seconds)

    def probe(self, post: Outgoing) -> HttpMessage:
        del post
        return PROBE

    def store_refused(self, endpoint: str, error: OtherStore, now: float) -> None:
        del now
        self.posts_to_other_stores.append((endpoint, error))

    def store_answers(self, endpoint: str, address: str) -> None: ...

    def refused_addresses(self) -> dict[str, str]:
        return {}

    def _encode(self, post: Outgoing) -> HttpMessage:
        self.encoded.append(post)
        if post.number == 99:
            raise KeyError("unforeseen")
        return HttpMessage(b"x", "text/xml")

    def _begin(self, posts: Sequence[Post], on_end: OnPosted) -> None:
        self.open += [(post, on_end) for post in posts]

    def post(self, number: int, store: str | None = None) -> Begun:
        begun = Begun(outgoing(number, LIST, store=store), WHOLE, Lane(ExchangeLimit(8, 0.0)), failing=False)
        self.posts.post(begun)
        return begun

    def posted_to(self, index: int) -> str:
        """The address of an exchange, once it has begun."""
        eventually(lambda: len(self.open) > index, f"exchange {index} begins")
        return self.open[index][0].url

    def ends(self, index: int, result: HttpMessage | Exception) -> None:
        post, on_end = self.open[index]
        on_end([Posted(post.about, result)])

    def results(self, count: int) -> list[HttpMessage | Exception]:
        eventually(lambda: len(self.ended) >= count, f"{count} posts end")
        return [each.result for each in self.ended]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.posts.stop()


@pytest.mark.parametrize(
    "failure", [TransportError(f"{A}: refused"), BUSY, HttpMessage(b"", "", None, 404), HttpMessage(b"", "", None, 502)]
)
def test_post_that_fails_goes_to_the_next_address_at_once(world: World, failure: HttpMessage | Exception) -> None:
    begun = world.post(1)
    assert world.posted_to(0) == A
    world.ends(0, failure)
    assert world.posted_to(1) == B
    assert world.again == [begun], "it counts as being posted from now on"
    world.ends(1, ANSWER)
    assert world.results(1) == [ANSWER]
    world.post(2)
    assert world.posted_to(2) == B


@pytest.mark.parametrize(
    "answer", [HttpMessage(b"<fault/>", "text/xml", None, 500), HttpMessage(b"<fault/>", "text/xml", None, 404)]
)
def test_answer_of_the_service_is_no_failure_of_its_address(world: World, answer: HttpMessage) -> None:
    world.post(1)
    world.ends(0, answer)
    assert world.results(1) == [answer]
    assert [each.url for each in world.book.addresses(LIST) if each.failures] == []


def test_silent_address_is_left_by_all_its_posts_and_its_late_answer_is_ignored(world: World) -> None:
    world.post(1)
    world.advance(1.0)
    world.post(2)
    assert [world.posted_to(0), world.posted_to(1)] == [A, A]
    world.advance(EXCHANGE_TIMEOUT)
    assert [world.posted_to(2), world.posted_to(3)] == [B, B]
    world.ends(0, ANSWER)
    assert world.ended == []
    assert world.book.addresses(LIST)[0].failures == 1
    world.ends(2, BUSY)
    world.ends(3, ANSWER)
    assert world.results(1) == [ANSWER]


def test_address_that_answers_others_is_waited_for(world: World) -> None:
    world.post(1)
    world.advance(EXCHANGE_TIMEOUT)
    world.post(2)
    world.ends(1, ANSWER)
    world.advance(1.0)
    world.post(3)
    world.ends(2, ANSWER)
    assert len(world.open) == 3
    world.ends(0, ANSWER)
    assert world.results(3) == [ANSWER] * 3


def test_waiting_posts_go_on_when_an_address_works() -> None:
    world = World("randomize=false&initialReconnectDelay=20000")
    for number in (1, 2):
        world.post(number)
    world.advance(1.0)
    for index in range(2):
        world.ends(index, TransportError(f"{A}: refused"))
    assert [world.posted_to(2), world.posted_to(3)] == [B, B]
    world.advance(1.0)
    for index in (2, 3):
        world.ends(index, TransportError(f"{B}: refused"))
    world.advance(14.5)
    assert world.posted_to(4) == A
    assert len(world.open) == 5, "one post tries it, and the other waits"
    world.ends(4, ANSWER)
    assert world.posted_to(5) == A
    world.ends(5, ANSWER)
    assert world.results(2) == [ANSWER, ANSWER]
    world.posts.stop()


def test_address_that_fails_after_the_clock_was_set_back_is_left_for_the_next(world: World) -> None:
    world.post(1)
    for index, (address, result) in enumerate(((A, BUSY), (B, ANSWER))):
        assert world.posted_to(index) == address
        world.ends(index, result)
    world.advance(1.0)
    world.post(2)
    for index, (address, result) in enumerate(((B, BUSY), (A, ANSWER)), start=2):
        assert world.posted_to(index) == address
        world.ends(index, result)
    world.advance(1.0)
    world.clock.advance(-3600.0)
    world.post(3)
    assert world.posted_to(4) == A, "it has failed once, and works since"
    world.ends(4, BUSY)
    assert world.posted_to(5) == B
    world.ends(5, ANSWER)
    assert world.results(3) == [ANSWER] * 3


def test_pause_of_addresses_that_all_fail_is_no_longer_after_the_clock_was_set_back() -> None:
    world = World("randomize=false&initialReconnectDelay=20000")
    world.post(1)
    for index, address in enumerate((A, B)):
        assert world.posted_to(index) == address
        world.ends(index, TransportError(f"{address}: refused"))
    eventually(lambda: world.errors.get(LIST), "it waits")
    world.clock.advance(-3600.0)
    world.advance(15.0)
    assert world.posted_to(2) == A
    world.ends(2, ANSWER)
    assert world.results(1) == [ANSWER]
    world.posts.stop()


def test_failures_of_addresses_have_the_time_of_the_clock(world: World) -> None:
    world.post(1)
    assert world.posted_to(0) == A
    world.advance(1.0)
    world.ends(0, BUSY)
    assert world.errors.failed_since(A, world.clock.now)
    assert not world.errors.failed_since(A, world.clock.now + 1)


@pytest.mark.parametrize(
    "options", ["randomize=false&startupMaxReconnectAttempts=0", "randomize=false&timeout=0", "timeout=0"]
)
def test_post_is_given_up_by_the_options(options: str) -> None:
    world = World(options)
    world.post(1)
    index = 0
    while not world.ended and index < 2:
        address = world.posted_to(index)
        world.ends(index, TransportError(f"{address}: refused"))
        index += 1
        if "timeout" in options:
            break
    (result,) = world.results(1)
    assert isinstance(result, TransportError)
    assert str(result).startswith(LIST)
    assert "refused" in str(result)
    assert index == (1 if "timeout" in options else 2)
    world.posts.stop()


def test_waiting_posts_end_when_the_process_stops(world: World) -> None:
    world.post(1)
    for index, address in enumerate((A, B)):
        assert world.posted_to(index) == address
        world.ends(index, BUSY)
    world.posts.stop()
    while not world.ended and len(world.open) > 2:
        world.ends(2, BUSY)
    assert isinstance(world.results(1)[0], TransportError)


def test_post_that_cannot_be_encoded_ends(world: World) -> None:
    world.post(99)
    assert isinstance(world.results(1)[0], KeyError)


def test_destination_that_the_settings_no_longer_have_fails_with_the_reason(world: World) -> None:
    world.posts.post(
        Begun(outgoing(1, "failover:gone", "failover:gone"), WHOLE, Lane(ExchangeLimit(8, 0.0)), failing=False)
    )
    (result,) = world.results(1)
    assert "failover:gone is not among the destinations of the settings" in str(result)


def test_to_is_the_address_unless_the_sender_has_set_another() -> None:
    post = addressed(outgoing(1, LIST), A)
    assert post.url == A
    assert post.envelope.to == EndpointReference(A)
    assert addressed(outgoing(1, "urn:gateway"), A).envelope.to == EndpointReference("urn:gateway")


def test_destination_whose_addresses_all_fail_says_so_while_its_posts_wait() -> None:
    world = World("randomize=false&initialReconnectDelay=20000")
    world.post(1)
    for index, address in enumerate((A, B)):
        assert world.posted_to(index) == address
        world.ends(index, TransportError(f"{address}: refused"))
    reason = f"{LIST}: no address works, the last was {B}: refused"
    eventually(lambda: world.errors.get(LIST) == reason, "the error is shown")
    assert world.ended == []
    world.posts.stop()


def states(store: str) -> HttpMessage:
    return HttpMessage(b"<a/>", "text/xml", None, 202, store=store)


def test_no_message_goes_to_an_address_before_it_has_said_that_it_has_the_store(world: World) -> None:
    world.post(1, store="s1")
    assert world.posted_to(0) == A
    assert world.open[0][0].message is PROBE
    assert world.encoded == []
    world.ends(0, states("s2"))
    assert world.posted_to(1) == B, "the next address is asked, and this one counts as failed"
    assert world.open[1][0].message is PROBE
    world.ends(1, states("s1"))
    assert world.posted_to(2) == B
    assert [each.number for each in world.encoded] == [1]
    world.ends(2, states("s1"))
    assert world.results(1) == [states("s1")]
    eventually(lambda: world.posts_to_other_stores, "the refusal is noted")
    ((endpoint, error),) = world.posts_to_other_stores
    assert (endpoint, error.address, error.expected, error.found) == (LIST, A, "s1", "s2")
    world.post(2, store="s1")
    assert world.posted_to(3) == B
    assert world.open[3][0].message is not PROBE, "it is asked once"


def test_answer_of_another_store_to_a_message_counts_as_none(world: World) -> None:
    world.post(1, store="s1")
    world.ends(0, states("s1"))
    assert world.posted_to(1) == A
    world.ends(1, states("s2"))  # the address leads elsewhere since
    assert world.ended == []
    assert world.posted_to(2) == B
    world.ends(2, states("s1"))
    assert world.posted_to(3) == B
    world.ends(3, states("s1"))
    assert world.results(1) == [states("s1")]


def test_addresses_that_all_have_other_stores_get_nothing() -> None:
    world = World("randomize=false&startupMaxReconnectAttempts=0")
    world.post(1, store="s1")
    for index in range(2):
        world.posted_to(index)
        assert world.open[index][0].message is PROBE
        world.ends(index, states("s2"))
    (result,) = world.results(1)
    assert "another store answers there (s2 instead of s1)" in str(result)
    assert world.encoded == []
    world.posts.stop()
