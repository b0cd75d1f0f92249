"""A server has as many exchanges as make it faster, and no more."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest

from mercury.engine.runtime import kept_connections
from mercury.engine.runtime.exchange_limit import (
    FIRST,
    FORGOTTEN_AFTER,
    LEAST,
    MOST_SERVERS,
    ExchangeLimit,
    ExchangeLimits,
)
from mercury.engine.runtime.sender_pools import SenderPools
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.settings import HttpSettings

MOST = 96
#: Seconds until the exchanges end that are taken up together, by their number.
Service = Callable[[int], float]


class Server:
    """A server in simulated time: it takes up what waits, at most so many at a time, and ends all of these at once."""

    def __init__(self, service: Service, at_a_time: int = 10_000, noise: float = 0.0) -> None:
        self.service, self.at_a_time, self.noise = service, at_a_time, noise
        self.now, self.most_open, self.ended = 0.0, 0, 0
        self._waiting = list[float]()
        self._served = list[tuple[float, list[float]]]()
        self._random = random.Random(1)

    def work(self, limit: ExchangeLimit, exchanges: int, *, posts_wait: bool = True) -> int:
        """Make so many exchanges with as many open as may be. Returns the limit at the end."""
        until = self.ended + exchanges
        while self.ended < until:
            open_now = len(self._waiting) + sum(len(batch) for _, batch in self._served)
            while open_now < (limit.limit if posts_wait else 2):
                self._waiting.append(self.now)
                open_now += 1
            if posts_wait:
                limit.reached()
            self.most_open = max(self.most_open, open_now)
            self._take_up()
            self.now, batch = heapq.heappop(self._served)
            for _ in batch:
                limit.ended(1, self.now)
            self.ended += len(batch)
        return limit.limit

    def _take_up(self) -> None:
        busy = sum(len(batch) for _, batch in self._served)
        batch, self._waiting = self._waiting[: self.at_a_time - busy], self._waiting[self.at_a_time - busy :]
        if batch:
            noise = 1 + self._random.uniform(-self.noise, self.noise)
            heapq.heappush(self._served, (self.now + self.service(len(batch)) * noise, batch))


def groups(count: int) -> float:
    """One transaction for all that wait, as in a destination of Mercury."""
    return 0.005 + count * 0.0001


def alone(_count: int) -> float:
    """One thread for each exchange."""
    return 0.01


def limit(most: int = MOST) -> ExchangeLimit:
    return ExchangeLimit(most, 0.0)


def test_it_begins_low() -> None:
    assert limit().limit == FIRST


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_a_server_that_stores_together_what_arrives_together_gets_many_within_a_second(noise: float) -> None:
    server, found = Server(groups, noise=noise), limit()
    server.work(found, 2000)
    assert server.now < 1.0
    assert server.most_open >= MOST * 3 // 4
    assert found.limit >= MOST // 2


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_a_server_with_a_dozen_threads_gets_about_a_dozen(noise: float) -> None:
    server, found = Server(alone, at_a_time=12, noise=noise), limit()
    limits = [server.work(found, 100) for _ in range(300)]
    usual = sorted(limits)[len(limits) // 2]
    assert 8 <= usual <= (30 if noise else 12)
    assert noise > 0.1 or server.most_open <= 48


def test_when_a_server_becomes_one_that_more_exchanges_only_delay_it_gets_fewer() -> None:
    server, found = Server(groups), limit(most=10 * MOST)
    assert 2 * MOST < server.work(found, 20_000) < 10 * MOST
    server.service, server.at_a_time = alone, 6
    assert server.work(found, 20_000) <= 24


def test_a_destination_of_mercury_gets_the_most_from_its_first_answer_on() -> None:
    found = limit()
    found.ended(1, 0.01, together=True)
    assert found.limit == MOST


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_no_fewer_are_tried_with_a_destination_of_mercury(noise: float) -> None:
    """On a busy machine fewer exchanges may seem to bring as much, and cost both sides more transactions."""
    server, found = Server(alone, at_a_time=12, noise=noise), limit()
    found.ended(1, 0.0, together=True)
    assert {server.work(found, 100) for _ in range(100)} == {MOST}


def test_a_destination_of_mercury_that_fails_gets_fewer_until_they_bring_more() -> None:
    server, found = Server(groups), limit()
    found.ended(1, 0.0, together=True)
    server.work(found, 1000)
    found.failed(server.now, server.now)
    assert found.limit == MOST // 2
    found.ended(1, server.now, together=True)
    assert found.limit == MOST // 2
    assert server.work(found, 20_000) == MOST


def test_it_does_not_grow_while_no_post_waits() -> None:
    assert Server(groups).work(found := limit(), 5000, posts_wait=False) == FIRST
    assert found.limit == FIRST


def test_a_failure_halves_it_once_for_all_that_were_open_and_not_below_the_least() -> None:
    server, found = Server(groups), limit()
    before = server.work(found, 5000)
    for _ in range(before):
        found.failed(server.now - 0.001, server.now)
    assert before // 4 <= found.limit <= before // 2, "a trial is over too"
    for _ in range(10):
        server.now += 1
        found.failed(server.now, server.now)
    assert found.limit == LEAST


def test_after_a_failure_it_grows_again_but_not_at_once() -> None:
    server, found = Server(groups), limit()
    before = server.work(found, 5000)
    found.failed(server.now, server.now)
    after = found.limit
    assert server.work(found, before + 10 * after) <= after
    assert server.work(found, 5000) > after


def test_a_large_limit_is_forgotten_when_the_server_was_not_used_for_long() -> None:
    server, limits = Server(groups), ExchangeLimits(MOST)
    before = server.work(limits.of("a", 0.0), 5000)
    assert limits.of("a", server.now + FORGOTTEN_AFTER / 2).limit == before
    assert limits.of("a", server.now + FORGOTTEN_AFTER).limit == FIRST


def test_time_without_exchanges_does_not_count() -> None:
    """Otherwise the round before the pause would seem slow, and the next trial would seem to help."""
    server, limits = Server(alone, at_a_time=12), ExchangeLimits(MOST)
    for _ in range(100):
        server.work(limits.of("a", server.now), 30)
        server.now += 1.0
    assert server.most_open <= 32


def test_servers_that_peers_name_are_remembered_up_to_a_limit() -> None:
    limits = ExchangeLimits(MOST)
    for number in range(10 * MOST_SERVERS):
        limits.of(f"http://{number}.example", 0.0)
    assert len(limits._servers) == MOST_SERVERS


def test_a_pool_of_one_exchange_has_a_limit_of_one() -> None:
    server, found = Server(groups), limit(most=1)
    assert server.work(found, 1000) == server.most_open == 1
    found.failed(server.now, server.now)
    assert found.limit == 1


def test_the_connections_of_a_default_client_are_fewer_than_a_default_server_takes_of_one_address() -> None:
    most: list[int] = []

    def limits(largest: int, first: int) -> ExchangeLimits:
        most.append(largest)
        return ExchangeLimits(largest, first)

    SenderPools(RuntimeSettings().senders, lambda _: None, lambda _: False, limits=limits)
    new, new_held, rest, rest_held = most
    assert (new, new_held, rest, rest_held) == (192, 176, 48, 88)
    assert max(new, new_held) + max(rest, rest_held) < HttpSettings().max_connections_per_address
    assert max(new, new_held) < kept_connections.MOST, "connections for the next messages are kept"
