"""The exchanges of posts are shared among servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.log_limiter import LOG_INTERVAL
from mercury.engine.runtime.exchange_limit import FIRST, ExchangeLimits
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.in_flight import ACKNOWLEDGED_TIMEOUT, OPEN_TIMEOUT
from mercury.engine.runtime.owner_shares import WAITING_SERVERS
from mercury.engine.runtime.sender_pool import (
    ALL_ANSWERS,
    ANSWERS,
    SenderPool,
)
from mercury.engine.runtime.server_queues import Begun, Ended
from mercury.settings import HttpSettings
from mercury.statemachine.protocol import Protocol
from mercury.testing.clock import FakeClock
from mercury.wire.attachment import LargePart
from mercury.wire.envelope import EMPTY, Envelope
from tests.acceptance.processes import PATIENCE, eventually

SLOW, OTHER = "http://slow.example/a", "http://other.example/a"
#: Another endpoint at the server that is slow.
BESIDE = "http://slow.example/beside"


def answer(url: str, number: int, owner: str = "") -> Outgoing:
    """The answer to a request, which has a MessageID of its own."""
    post = outgoing(url, 0)
    envelope = replace(post.envelope, message_id=f"urn:answer:{owner}:{url}:{number}")
    return Outgoing(url=url, envelope=envelope, purpose=Purpose.ANSWER, owner=owner)


def acknowledgement(url: str, number: int, owner: str) -> Outgoing:
    """That of a sequence of its own."""
    post = outgoing(url, 0)
    return replace(post, purpose=Purpose.ACKNOWLEDGEMENT, record_id=None, rmd=f"{owner}:{number}", owner=owner)


def outgoing(url: str, number: int) -> Outgoing:
    versions = Protocol()
    envelope = Envelope(soap=versions.soap, addressing=versions.addressing, rm=versions.rm, action="urn:a", body=EMPTY)
    return Outgoing(url=url, envelope=envelope, purpose=Purpose.MESSAGE, record_id=url, number=number)


class Network:
    """Exchanges that end when they are let go."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self.held = {SLOW: threading.Semaphore(0)}
        self.begun: list[str] = []
        self.failing: set[str] = set()

    def exchange(self, post: Outgoing) -> None:
        with self._mutex:
            self.begun.append(post.url)
        if post.url in self.held:
            assert self.held[post.url].acquire(timeout=PATIENCE)

    def count(self, url: str) -> int:
        with self._mutex:
            return self.begun.count(url)

    def has_begun(self, many: int) -> bool:
        with self._mutex:
            return len(self.begun) == many


def in_threads(
    exchange: Callable[[Outgoing], bool | None], ended: Callable[[Sequence[Ended]], None]
) -> Callable[[Sequence[Begun]], None]:
    """Makes each exchange in a thread, and reports its end; the exchange returns whether its reply is queued."""
    helpers = HelperThreads("exchange")

    def run(begun: Begun) -> None:
        ended([Ended(begun, bool(exchange(begun.outgoing)))])

    def begin(exchanges: Sequence[Begun]) -> None:
        for begun in exchanges:
            helpers.run(partial(run, begun))

    return begin


def fixed(most: int, _first: int) -> ExchangeLimits:
    """Each server may always have as many exchanges as the pool gives to one."""
    return ExchangeLimits(most, first=most, least=most)


def pool(
    count: int,
    exchange: Callable[[Outgoing], bool | None],
    failing: Callable[[str], bool],
    clock: Callable[[], float] = time.monotonic,
) -> SenderPool:
    """A pool whose exchanges each take a thread, and whose limits are `fixed`."""
    made = SenderPool(count, in_threads(exchange, lambda ends: made.ended(ends)), failing, clock, fixed)
    return made


@contextmanager
def senders(network: Network, count: int, clock: Callable[[], float] = time.monotonic) -> Iterator[SenderPool]:
    threads = pool(count, network.exchange, lambda url: url in network.failing, clock)
    threads.start()
    try:
        yield threads
    finally:
        threads.stop()
        for _ in range(1000):
            network.held[SLOW].release()
        assert not threads.wait(PATIENCE)


def test_slow_server_leaves_threads_for_the_others() -> None:
    network = Network()
    with senders(network, 32) as threads:
        for number in range(200):
            threads.put([outgoing(SLOW, number)])
        eventually(lambda: network.count(SLOW) == 24, "the slow one has its share")
        for number in range(100):
            threads.put([outgoing(OTHER, number)])
        eventually(lambda: network.count(OTHER) == 100, "the other one gets everything")
        assert network.count(SLOW) == 24
        for _ in range(200):
            network.held[SLOW].release()
        eventually(lambda: network.count(SLOW) == 200, "and so does the slow one in the end")


def test_server_of_which_nothing_is_known_gets_few_and_more_while_that_helps() -> None:
    begun, clock = list[Begun](), FakeClock(100.0)
    threads = SenderPool(128, begun.extend, lambda _: False, clock)
    threads.start()
    threads.put([outgoing(SLOW, number) for number in range(5000)])
    most = len(begun)
    assert most == FIRST
    for _ in range(40):  # the server ends all that are open at once, however many they are
        ending = begun[:]
        begun.clear()
        clock.advance(0.01)
        threads.ended([Ended(each, queued_reply=False) for each in ending])
        most = max(most, len(begun))
    assert most == 96


def test_failing_server_gets_few_threads_and_its_share_again_when_it_works() -> None:
    network = Network()
    network.failing.add(SLOW)
    with senders(network, 32) as threads:
        for number in range(200):
            threads.put([outgoing(SLOW, number)])
        eventually(lambda: network.count(SLOW) == 1, "it is tried")
        threads.put([outgoing(OTHER, 1)])
        eventually(lambda: network.count(OTHER) == 1, "the other one is posted to")
        assert network.count(SLOW) == 1
        network.failing.clear()
        network.held[SLOW].release()
        eventually(lambda: network.count(SLOW) == 25, "it has its share again")


def test_many_slow_servers_leave_threads_as_soon_as_they_are_known_to_fail() -> None:
    network = Network()
    slow = [f"http://slow-{number}.example/" for number in range(5)]
    network.held |= dict.fromkeys(slow, network.held[SLOW])
    with senders(network, 16) as threads:
        for url in slow:
            for number in range(50):
                threads.put([outgoing(url, number)])
        eventually(lambda: len(network.begun) == 16, "together they have all threads")
        for number in range(20):
            threads.put([outgoing(OTHER, number)])
        network.failing |= set(slow)
        timed_out = network.held[SLOW]
        network.held |= dict.fromkeys([SLOW, *slow], threading.Semaphore(0))
        timed_out.release(16)
        eventually(lambda: network.count(OTHER) == 20, "the other one is posted to when their exchanges have timed out")
        assert len(network.begun) - 20 - 16 <= len(slow), "each of them has one thread"


def test_only_one_thread_serves_all() -> None:
    network = Network()
    network.held[SLOW].release(3)
    with senders(network, 1) as threads:
        for number in range(3):
            threads.put([outgoing(SLOW, number)])
            threads.put([outgoing(OTHER, number)])
        eventually(lambda: len(network.begun) == 6, "one after the other")


def test_post_that_waits_is_not_queued_twice() -> None:
    network = Network()
    with senders(network, 1) as threads:
        threads.put([outgoing(SLOW, 0)])
        eventually(lambda: network.count(SLOW) == 1, "it is being posted")
        for _ in range(10):
            threads.put([outgoing(SLOW, 1)])
        for _ in range(10):
            network.held[SLOW].release()
        eventually(lambda: network.count(SLOW) == 2, "the second one is posted")
        threads.put([outgoing(OTHER, 0)])
        eventually(lambda: network.count(OTHER) == 1, "the other one is posted")
        assert network.count(SLOW) == 2


def test_a_message_is_not_posted_again_while_its_exchange_is_held_open() -> None:
    network, clock = Network(), FakeClock(100.0)
    with senders(network, 8, clock) as threads:
        threads.put([outgoing(SLOW, 1)])
        eventually(lambda: network.count(SLOW) == 1, "it is posted")
        threads.put([outgoing(SLOW, 1)])  # it is due again
        threads.put([outgoing(SLOW, 2)])
        eventually(lambda: network.count(SLOW) == 2, "another is posted")
        clock.advance(OPEN_TIMEOUT)
        threads.put([outgoing(SLOW, 1)])
        eventually(lambda: network.count(SLOW) == 3, "held for long, it may be lost after all")
        network.held[SLOW].release(3)
        eventually(lambda: not threads._in_flight, "all exchanges end")
        threads.put([outgoing(SLOW, 1)])
        eventually(lambda: network.count(SLOW) == 4, "an exchange that has ended says nothing about the next")


def test_an_acknowledgement_is_posted_while_an_older_one_is_under_way() -> None:
    network = Network()
    with senders(network, 8) as threads:
        for count in (1, 2):
            threads.put([replace(outgoing(SLOW, 0), purpose=Purpose.ACKNOWLEDGEMENT)])
            eventually(lambda: network.count(SLOW) == count, "it is posted")  # noqa: B023


def test_a_message_is_under_way_while_it_waits_and_while_it_is_posted_but_not_for_ever() -> None:
    network, clock = Network(), FakeClock(100.0)
    with senders(network, 1, clock) as threads:
        threads.put([outgoing(SLOW, 0)])
        eventually(lambda: network.count(SLOW) == 1, "it is being posted")
        threads.put([outgoing(SLOW, 1)])
        assert [threads.is_in_flight(SLOW, number) for number in range(3)] == [True, True, False]
        clock.advance(OPEN_TIMEOUT)
        assert [threads.is_in_flight(SLOW, number) for number in range(3)] == [False, True, False]


def test_a_creation_is_under_way_while_it_waits_and_while_it_is_posted_but_not_for_ever() -> None:
    network, clock = Network(), FakeClock(100.0)
    posted = replace(outgoing(SLOW, 0), purpose=Purpose.CREATE, record_id="posted")
    with senders(network, 1, clock) as threads:
        threads.put([posted])
        eventually(lambda: network.count(SLOW) == 1, "it is being posted")
        threads.put([replace(posted, record_id="waits")])
        assert [threads.is_in_flight(name, 0) for name in ("posted", "waits", "other")] == [True, True, False]
        assert not threads.is_in_flight("waits", 1), "it is no message"
        clock.advance(OPEN_TIMEOUT)
        assert [threads.is_in_flight(name, 0) for name in ("posted", "waits", "other")] == [False, True, False]


def test_every_message_of_a_batch_is_under_way_while_the_batch_waits_and_while_it_is_posted() -> None:
    network, clock = Network(), FakeClock(100.0)
    with senders(network, 1, clock) as threads:
        threads.put([replace(outgoing(SLOW, 1), last=3)])
        eventually(lambda: network.count(SLOW) == 1, "it is being posted")
        threads.put([replace(outgoing(SLOW, 5), last=6)])
        assert [number for number in range(8) if threads.is_in_flight(SLOW, number)] == [1, 2, 3, 5, 6]
        assert not threads.is_in_flight(OTHER, 2), "the batch is of another sequence"
        clock.advance(OPEN_TIMEOUT)
        assert [number for number in range(8) if threads.is_in_flight(SLOW, number)] == [5, 6]
        network.held[SLOW].release(2)
        eventually(lambda: not threads.is_in_flight(SLOW, 6), "it is over")


def test_acknowledged_request_is_under_way_until_longer_than_exchanges_last() -> None:
    # LIVE-14
    network, clock = Network(), FakeClock(100.0)
    with senders(network, 1, clock) as threads:
        threads.put([outgoing(SLOW, 0)])
        eventually(lambda: network.count(SLOW) == 1, "it is being posted")
        clock.advance(HttpSettings().timeout)
        assert not threads.is_in_flight(SLOW, 0)
        assert threads.is_in_flight(SLOW, 0, acknowledged=True)
        clock.advance(ACKNOWLEDGED_TIMEOUT)
        assert not threads.is_in_flight(SLOW, 0, acknowledged=True)


def test_sequence_has_an_open_exchange_until_the_last_one_of_its_messages_ends_however_long_it_takes() -> None:
    # IOP-WCF-11
    network, clock = Network(), FakeClock(100.0)
    with senders(network, 8, clock) as threads:
        threads.put([replace(outgoing(SLOW, 0), purpose=Purpose.CREATE)])
        eventually(lambda: network.count(SLOW) == 1, "its CreateSequence is posted")
        assert not threads.has_exchange(SLOW)
        network.held[SLOW].release()
        for count in (2, 3):
            clock.advance(OPEN_TIMEOUT)
            threads.put([outgoing(SLOW, 1)])
            eventually(lambda: network.count(SLOW) == count, "a message is posted, and posted again")  # noqa: B023
        clock.advance(ACKNOWLEDGED_TIMEOUT)
        network.held[SLOW].release()
        eventually(lambda: threads._begun == 1, "one exchange with it has ended")
        assert [threads.has_exchange(name) for name in (SLOW, OTHER)] == [True, False]
        network.held[SLOW].release()
        eventually(lambda: not threads.has_exchange(SLOW), "all have ended")


def test_a_message_with_attachments_is_under_way_until_its_exchange_ends_however_long_it_takes() -> None:
    network, clock = Network(), FakeClock(100.0)
    post = outgoing(SLOW, 1)
    post = replace(post, envelope=replace(post.envelope, parts=(LargePart("1", 1, lambda: iter([b"1"])),)))
    with senders(network, 4, clock) as threads:
        threads.put([post])
        eventually(lambda: network.count(SLOW) == 1, "it is posted")
        clock.advance(100 * OPEN_TIMEOUT)
        assert threads.is_in_flight(SLOW, 1)
        threads.put([post])
        network.held[SLOW].release()
        eventually(lambda: not threads.is_in_flight(SLOW, 1), "the end of the exchange")
        assert network.count(SLOW) == 1


def test_a_message_is_under_way_until_what_its_exchange_has_brought_is_stored() -> None:
    ended = threading.Event()

    def exchange(_: Outgoing) -> bool:
        ended.set()
        return True

    threads = pool(1, exchange, lambda _: False)
    threads.start()
    threads.put([outgoing(OTHER, 1)])
    assert ended.wait(PATIENCE)
    threads.stop()
    assert not threads.wait(PATIENCE)
    assert threads.is_in_flight(OTHER, 1)
    assert not threads.has_exchange(OTHER), "no exchange is open"
    threads.stored([outgoing(OTHER, 1)])
    assert not threads.is_in_flight(OTHER, 1)


def test_exchanges_that_are_held_open_for_a_response_are_four_times_as_many_and_leave_room_for_others() -> None:
    network = Network()
    with senders(network, 8) as threads:
        for number in range(100):
            threads.put([replace(outgoing(SLOW, number), held=True)])
        eventually(lambda: network.count(SLOW) == 22, "nearly four times six are at the server")
        for number in range(50):
            threads.put([outgoing(OTHER, number)])
        eventually(lambda: network.count(OTHER) == 50, "the other one gets everything")
        assert network.count(SLOW) == 22
        for _ in range(100):
            network.held[SLOW].release()
        eventually(lambda: network.count(SLOW) == 100, "and so do the rest")


def with_default_limits() -> tuple[SenderPool, list[Begun]]:
    """A pool that has learnt nothing yet, and its open exchanges."""
    begun = list[Begun]()
    threads = SenderPool(128, begun.extend, lambda _: False, FakeClock(100.0))
    threads.start()
    return threads, begun


def held(url: str, numbers: range) -> list[Outgoing]:
    return [replace(outgoing(url, number), held=True) for number in numbers]


def test_a_server_of_which_nothing_is_known_may_hold_many_exchanges_at_once() -> None:
    threads, begun = with_default_limits()
    threads.put(held(SLOW, range(200)))
    assert len(begun) == 88


def test_posts_begin_while_the_server_holds_as_many_exchanges_as_it_may() -> None:
    threads, begun = with_default_limits()
    threads.put(held(SLOW, range(200)))
    threads.put(outgoing(BESIDE, number) for number in range(50))
    assert sum(each.outgoing.url == BESIDE for each in begun) == FIRST, "all that are allowed at first"
    threads.put(held(SLOW, range(200, 300)))
    assert len(begun) == 88 + FIRST


def test_a_request_begins_while_the_posts_of_its_server_wait_for_an_end() -> None:
    threads, begun = with_default_limits()
    threads.put(outgoing(BESIDE, number) for number in range(50))
    threads.put(held(SLOW, range(10)))
    assert [each.outgoing.url for each in begun] == [BESIDE] * FIRST + [SLOW] * 10


def test_a_failure_of_a_held_exchange_costs_the_posts_of_the_server_nothing() -> None:
    threads, begun = with_default_limits()
    threads.put(held(SLOW, range(200)))
    threads.ended([Ended(begun.pop(0), queued_reply=False, overloaded=True)])
    assert len(begun) == 87, "as many as are open are above the half already"
    threads.put(outgoing(BESIDE, number) for number in range(50))
    assert sum(each.outgoing.url == BESIDE for each in begun) == FIRST


def test_capacity_left_by_held_exchanges_serves_a_whole_one() -> None:
    network = Network()
    network.held |= {f"http://{number}.example/a": network.held[SLOW] for number in range(8)}
    with senders(network, 1) as threads:
        for url in network.held:
            threads.put([replace(outgoing(url, 1), held=True)])
        threads.put([outgoing(OTHER, 1)])
        for _ in range(8):
            network.held[SLOW].release()
        eventually(lambda: network.count(OTHER) == 1, "it has its turn")


def test_a_failing_server_gets_no_more_requests_that_would_be_held() -> None:
    network = Network()
    network.failing = {SLOW}
    with senders(network, 32) as threads:
        for number in range(100):
            threads.put([replace(outgoing(SLOW, number), held=True)])
        eventually(lambda: network.count(SLOW) == 1, "a sixteenth, as of all others")
        threads.put([outgoing(OTHER, 1)])
        eventually(lambda: network.count(OTHER) == 1, "the other one is served")
        assert network.count(SLOW) == 1


def test_answers_leave_most_exchanges_of_their_server_to_everything_else() -> None:
    network = Network()
    message, acknowledgement = f"{SLOW}/message", f"{SLOW}/acknowledgement"
    network.held |= {message: threading.Semaphore(0)}
    with senders(network, 8) as threads:
        for number in range(50):
            threads.put([answer(SLOW, number)])
        eventually(lambda: network.count(SLOW) == 1, "a quarter of all")
        for number in range(10):
            threads.put([outgoing(message, number)])
        eventually(lambda: network.count(message) == 5, "the rest of the server's share is for what is no answer")
        threads.put([outgoing(acknowledgement, 0)])
        network.held[message].release(7)
        eventually(lambda: network.count(acknowledgement) == 1, "it is posted before the answers")
        assert network.count(SLOW) == 1
        network.held[message].release(3)
        for _ in range(50):
            network.held[SLOW].release()
        eventually(lambda: network.count(SLOW) == 50, "and the answers in the end")


def dropped(caplog: pytest.LogCaptureFixture) -> int:
    return sum("are not posted" in record.getMessage() for record in caplog.records)


def test_answers_above_the_limit_of_their_server_are_not_posted_which_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network, clock = Network(), FakeClock(100.0)
    with senders(network, 8, clock) as threads:
        for number in range(4 * ANSWERS):
            threads.put([answer(f"{SLOW}?{number}" if number > 10 else SLOW, number)])
        threads.put([answer("HTTP://SLOW.example:080/another/path", 0)])
        assert dropped(caplog) == 1
        clock.advance(LOG_INTERVAL)
        threads.put([answer(SLOW, -1)])
        assert dropped(caplog) == 2
        for number in range(3):
            threads.put([answer(OTHER, number)])
        eventually(lambda: network.count(OTHER) == 3, "another server gets its answers")
        for _ in range(4 * ANSWERS):
            network.held[SLOW].release()
        eventually(lambda: len(network.begun) == 3 + 1 + ANSWERS, "one was being posted and the others waited")
        threads.put([answer(OTHER, 4)])
        eventually(lambda: network.count(OTHER) == 4, "nothing else was left")
        assert len(network.begun) == 4 + 1 + ANSWERS


def test_answers_that_wait_for_all_servers_are_bounded() -> None:
    network = Network()
    servers = [f"http://{number}.example/" for number in range(2 * ALL_ANSWERS // ANSWERS)]
    network.held |= dict.fromkeys(servers, network.held[SLOW])
    with senders(network, 1) as threads:
        for number in range(ANSWERS):
            for url in servers:
                threads.put([answer(url, number)])
        threads.put([outgoing(OTHER, 0)])
        for _ in range(2 * ALL_ANSWERS):
            network.held[SLOW].release()
        eventually(lambda: len(network.begun) == 1 + 1 + ALL_ANSWERS, "one was being posted")
        threads.put([outgoing(OTHER, 1)])
        eventually(lambda: network.count(OTHER) == 2, "nothing else was left")
        assert len(network.begun) == 1 + 2 + ALL_ANSWERS


def test_answers_to_many_paths_of_a_failing_server_get_its_few_threads() -> None:
    network = Network()
    network.failing.add("answers to http://slow.example:80")
    network.held |= {f"{SLOW}/{number}": network.held[SLOW] for number in range(20)}
    with senders(network, 32) as threads:
        for number in range(20):
            threads.put([answer(f"{SLOW}/{number}", number)])
        threads.put([outgoing(OTHER, 1)])
        eventually(lambda: network.count(OTHER) == 1, "the other one is posted to")
        assert len(network.begun) == 2


def test_failing_endpoint_delays_no_other_one_of_its_server() -> None:
    network = Network()
    network.failing.add(SLOW)
    with senders(network, 32) as threads:
        for number in range(200):
            threads.put([outgoing(SLOW, number)])
        eventually(lambda: network.count(SLOW) == 1, "it is tried")
        for number in range(50):
            threads.put([outgoing(BESIDE, number)])
        eventually(lambda: network.count(BESIDE) == 50, "the other endpoint gets everything")
        assert network.count(SLOW) == 1


def test_endpoint_that_begins_to_fail_while_much_waits_for_it_lets_others_of_its_server_pass() -> None:
    network = Network()
    with senders(network, 8) as threads:
        for number in range(50):
            threads.put([outgoing(SLOW, number)])
        eventually(lambda: network.count(SLOW) == 6, "it has the server's share")
        for number in range(10):
            threads.put([outgoing(BESIDE, number)])
        network.failing.add(SLOW)
        network.held[SLOW].release(6)
        eventually(lambda: network.count(BESIDE) == 10, "the other endpoint gets everything")
        assert network.count(SLOW) <= 6 + 1
        network.failing.clear()
        for _ in range(50):
            network.held[SLOW].release()
        eventually(lambda: network.count(SLOW) == 50, "and so does the one in trouble when it works again")
        assert not threads._servers, "nothing is kept of what is over"


def test_failing_endpoints_of_one_server_have_an_eighth_of_its_exchanges_together() -> None:
    network = Network()
    urls = [f"{SLOW}/{number}" for number in range(50)]
    network.failing |= set(urls)
    network.held |= dict.fromkeys(urls, network.held[SLOW])
    with senders(network, 32) as threads:
        for url in urls:
            threads.put([outgoing(url, 1)])
        eventually(lambda: len(network.begun) == 3, "they are tried")
        threads.put([outgoing(OTHER, 1)])
        eventually(lambda: network.count(OTHER) == 1, "another server is posted to")
        assert len(network.begun) == 3 + 1


def hanging(network: Network, count: int) -> list[str]:
    """URLs of servers whose exchanges end when SLOW's do."""
    urls = [f"http://{number}.example/" for number in range(count)]
    network.held |= dict.fromkeys(urls, network.held[SLOW])
    return urls


def test_owner_that_names_many_slow_servers_leaves_exchanges_for_other_owners_and_this_side() -> None:
    network = Network()
    with senders(network, 32) as threads:
        for url in hanging(network, 60):
            threads.put([replace(outgoing(url, 1), owner="peer")])
        eventually(lambda: len(network.begun) == 12, "it has three quarters of a half")
        threads.put([replace(outgoing(OTHER, 1), owner="another")])
        threads.put([outgoing(BESIDE, 1)])
        eventually(lambda: {OTHER, BESIDE} <= set(network.begun), "the others are posted")
        assert len(network.begun) == 14
        network.held[SLOW].release(60)
        eventually(lambda: len(network.begun) == 62, "and so is the rest of the owner's")
        eventually(lambda: not threads._owners._in_use and not threads._owners._waiting, "nothing is counted any more")


def test_posts_of_one_owner_wait_for_some_servers_only_and_those_for_more_are_dropped() -> None:
    network = Network()
    urls = hanging(network, 2 * WAITING_SERVERS)
    with senders(network, 1) as threads:
        for number in range(2):
            for url in urls:
                threads.put([replace(outgoing(url, number), owner="peer")])
        threads.put([replace(outgoing(OTHER, 1), owner="another")])
        network.held[SLOW].release(4 * WAITING_SERVERS)
        eventually(lambda: network.count(OTHER) == 1, "another owner's post waits and is posted")
        eventually(lambda: len(network.begun) == 2 + 2 * WAITING_SERVERS, "those that waited are posted")
        threads.put([replace(outgoing(urls[-1], 0), owner="peer")])
        eventually(lambda: network.count(urls[-1]) == 1, "a post that was dropped is posted when it is due again")


def test_failing_endpoints_of_many_servers_have_half_of_all_exchanges_together() -> None:
    network = Network()
    urls = hanging(network, 60)
    network.failing |= set(urls)
    with senders(network, 32) as threads:
        for url in urls:
            threads.put([outgoing(url, 1)])
        eventually(lambda: len(network.begun) == 16, "they are tried")
        for number in range(5):
            threads.put([outgoing(OTHER, number)])
        eventually(lambda: network.count(OTHER) == 5, "a server that works is posted to")
        assert len(network.begun) == 16 + 5
        network.held[SLOW].release(60)
        eventually(lambda: len(network.begun) == 60 + 5, "all are tried in the end")


def test_failing_endpoints_of_one_owner_leave_exchanges_for_those_of_another_and_of_this_side() -> None:
    network = Network()
    urls = hanging(network, 60)
    network.failing |= {*urls, OTHER, BESIDE}
    with senders(network, 32) as threads:
        for url in urls:
            threads.put([replace(outgoing(url, 1), owner="peer")])
        eventually(lambda: len(network.begun) == 12, "they are tried")
        threads.put([replace(outgoing(OTHER, 1), owner="another")])
        threads.put([outgoing(BESIDE, 1)])
        eventually(lambda: {OTHER, BESIDE} <= set(network.begun), "the others are tried too")
        assert len(network.begun) == 14


def test_slow_servers_of_three_owners_leave_exchanges_for_a_fourth_and_for_this_side() -> None:
    """By shares of what is free alone, three owners have all exchanges."""
    network = Network()
    with senders(network, 32) as threads:
        for number, url in enumerate(hanging(network, 60)):
            threads.put([replace(outgoing(url, 1), owner=f"peer {number % 3}")])
        eventually(lambda: len(network.begun) >= 14, "they have nearly half of the exchanges")
        threads.put([replace(outgoing(OTHER, 1), owner="another")])
        threads.put([outgoing(BESIDE, 1)])
        eventually(lambda: {OTHER, BESIDE} <= set(network.begun), "the others are posted")
        assert len(network.begun) <= 16 + 2


def test_slow_servers_of_many_owners_leave_a_quarter_of_the_exchanges_for_this_side() -> None:
    network = Network()
    with senders(network, 32) as threads:
        for number, url in enumerate(hanging(network, 60)):
            threads.put([replace(outgoing(url, 1), owner=f"peer {number}")])
        eventually(lambda: len(network.begun) == 24, "one exchange each, as long as there are some")
        threads.put([outgoing(OTHER, 1)])
        eventually(lambda: network.count(OTHER) == 1, "this side's post is made")
        assert len(network.begun) == 24 + 1


def test_owners_take_turns_over_all_servers_that_posts_wait_for() -> None:
    network, owners, each = Network(), 12, 20
    urls = hanging(network, owners * each)
    with senders(network, 8) as threads:
        for number, url in enumerate(urls):
            threads.put([replace(outgoing(url, 1), owner=f"peer {number % owners}")])
        threads.put([replace(outgoing(OTHER, 1), owner="another")])
        eventually(lambda: len(network.begun) == 6, "the exchanges for peers are in use")
        network.held[SLOW].release(owners + 1)
        eventually(lambda: network.count(OTHER) == 1, "it waits for one post of each of them")
        assert len(network.begun) <= 6 + owners + 2
        network.held[SLOW].release(owners * each)
        eventually(lambda: len(network.begun) == owners * each + 1, "nothing waits for ever")
        eventually(lambda: not threads._servers and not threads._owners.turns(), "nothing is kept of what is over")


def test_owners_take_turns_however_many_endpoints_one_of_them_names() -> None:
    network = Network()
    urls = [f"{SLOW}/{number}" for number in range(100)]
    network.held |= dict.fromkeys([*urls, BESIDE], network.held[SLOW])
    with senders(network, 1) as threads:
        for number, url in enumerate(urls):
            threads.put([acknowledgement(url, number, "stranger")])
        for number in range(5):
            threads.put([acknowledgement(BESIDE, number, "friend")])
        network.held[SLOW].release(12)
        eventually(lambda: network.count(BESIDE) == 5, "every other exchange is for the friend")
        assert len(network.begun) <= 13


def test_messages_of_one_endpoint_stay_in_order_when_it_fails_and_recovers() -> None:
    network, order = Network(), list[int]()

    def exchange(post: Outgoing) -> None:
        order.append(post.number or 0)
        network.exchange(post)

    threads = pool(1, exchange, lambda url: url in network.failing)
    threads.start()
    for number in range(1, 11):
        threads.put([outgoing(SLOW, number)])
        if number == 3:
            network.failing.add(SLOW)
        if number == 7:
            network.failing.clear()
    network.held[SLOW].release(10)
    eventually(lambda: len(order) == 10, "all are posted")
    threads.stop()
    assert not threads.wait(PATIENCE)
    assert order == list(range(1, 11))


def test_answers_get_their_part_while_posts_wait() -> None:
    network = Network()
    network.held |= {BESIDE: network.held[SLOW]}
    with senders(network, 8) as threads:
        for number in range(100):
            threads.put([outgoing(SLOW, number)])
        eventually(lambda: network.count(SLOW) == 6, "posts have the server's share")
        for number in range(5):
            threads.put([answer(BESIDE, number)])
        for number in range(7, 57):  # one after the other: only one answer has room at once
            network.held[SLOW].release()
            eventually(partial(network.has_begun, number), "another begins")
        assert network.count(BESIDE) == 5, "answers have their part"


def test_of_too_many_answers_who_has_most_loses_its_oldest(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    stranger, friend = "http://slow.example/nothing", "http://slow.example/friend"
    network.held |= dict.fromkeys([stranger, friend], network.held[SLOW])
    with senders(network, 8) as threads:
        for number in range(3 * ANSWERS):
            threads.put([answer(stranger, number, "stranger")])
        eventually(lambda: network.count(stranger) == 1, "a quarter of all")
        for number in range(10):
            threads.put([answer(friend, number, "friend")])
            threads.put([answer(stranger, 3 * ANSWERS + number, "stranger")])
        assert dropped(caplog) == 1
        network.held[SLOW].release(20)
        eventually(lambda: network.count(friend) == 10, "all of the friend's are posted, in turns")
        for _ in range(200):
            network.held[SLOW].release()
        eventually(lambda: len(network.begun) == 1 + ANSWERS, "as many as may wait")
        threads.put([answer(stranger, 0, "stranger")])
        eventually(lambda: len(network.begun) == 2 + ANSWERS, "what was lost may come again")


def test_answers_to_another_server_are_posted_though_one_owner_has_all_that_may_wait() -> None:
    network = Network()
    servers = [f"http://{number}.example/" for number in range(2 * ALL_ANSWERS // ANSWERS)]
    network.held |= dict.fromkeys([*servers, BESIDE], network.held[SLOW])
    with senders(network, 1) as threads:
        for number in range(ANSWERS):
            for url in servers:
                threads.put([answer(url, number, "stranger")])
        threads.put([answer(BESIDE, 0, "friend")])
        for _ in range(2 * ALL_ANSWERS):
            network.held[SLOW].release()
        eventually(lambda: network.count(BESIDE) == 1, "the friend's is posted")
        eventually(lambda: len(network.begun) == 1 + ALL_ANSWERS, "the stranger has lost one for it")
        threads.put([outgoing(OTHER, 1)])
        eventually(lambda: network.count(OTHER) == 1, "nothing else was left")
        assert len(network.begun) == 2 + ALL_ANSWERS


def test_when_many_owners_have_one_answer_each_no_other_one_takes_its_place() -> None:
    network = Network()
    with senders(network, 1) as threads:
        threads.put([outgoing(SLOW, 1)])
        for number in range(ANSWERS + 20):
            threads.put([answer(SLOW, number, f"owner {number}")])
        for _ in range(2 * ANSWERS):
            network.held[SLOW].release()
        eventually(lambda: len(network.begun) == 1 + ANSWERS, "those that came first are posted")
        threads.put([outgoing(OTHER, 1)])
        eventually(lambda: network.count(OTHER) == 1, "nothing else was left")
        assert len(network.begun) == 2 + ANSWERS


def test_posts_that_come_while_it_stops_are_not_waited_for() -> None:
    """A worker may finish its last turn after the stop; the exchanges of its posts never begin."""
    network = Network()
    with senders(network, 4) as threads:
        threads.put([outgoing(SLOW, 1)])
        threads.stop()
        threads.put([outgoing(SLOW, 2), outgoing(OTHER, 1)])
        assert threads.wait(0.0) == 1
        network.held[SLOW].release()
        assert not threads.wait(PATIENCE / 4)
    assert network.begun == [SLOW]
