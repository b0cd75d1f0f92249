"""A clock that is set back by an hour: delayed work continues soon, in the same process and after a restart."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from mercury import DestinationPolicy, Mercury
from mercury.engine.runtime.http_exchange import OnPosted, Post, Posted
from mercury.engine.runtime.transport import HttpTransport
from mercury.errors import TransportError
from mercury.statemachine.retransmission import Backoff
from tests.acceptance.processes import eventually
from tests.ports import free_port

from .shop import Order, Shop, settings

HOUR = 3600.0
#: Seconds within which what is late must go on: far less than the clock was set back by.
SOON = 20.0
PATIENT = DestinationPolicy(redelivery=Backoff(base=0.2, cap=0.5))


class SetClock:
    """The time of day, and the time to which it was set since."""

    def __init__(self) -> None:
        self.wrong = 0.0

    def __call__(self) -> float:
        return time.time() + self.wrong


class Cable(HttpTransport):
    """A transport that can be cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = False
        self.refused = 0

    def begin(self, posts: Sequence[Post], on_end: OnPosted) -> None:
        if not self.cut:
            super().begin(posts, on_end)
            return
        self.refused += len(posts)
        ends = [Posted(post.about, TransportError(f"{post.url}: cut off")) for post in posts]
        self.loop.run(lambda: on_end(ends))


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def shop() -> Shop:
    return Shop(policy=PATIENT)


def test_a_message_that_waits_for_its_repetition_is_sent_although_the_clock_is_set_back(
    any_url: str, clock: SetClock, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    clock.wrong = HOUR
    with Mercury(any_url, settings=settings(), clock=clock) as client:
        sender = client.to(f"http://127.0.0.1:{port}/services/shop")
        sender.send(Order(1), operation="put")
        eventually(lambda: sender.last_error, "a first attempt has failed")
        clock.wrong = 0.0
        with shop.open(port=port):
            eventually(lambda: shop.orders == [1], "it arrives", SOON)
            assert sender.wait(SOON)
        (said,) = [record.getMessage() for record in caplog.records if record.name == "mercury.engine.clock"]
        assert said.startswith("the clock was set back by 3600 s")


def test_messages_in_transmission_are_sent_again_although_the_clock_is_set_back(
    any_url: str, clock: SetClock, shop: Shop
) -> None:
    """The sequence exists and its messages were transmitted: each of them has a time of its own."""
    clock.wrong = HOUR
    cable = Cable()
    with shop.open() as (_, url), Mercury(any_url, settings=settings(), clock=clock, transport=cable) as client:
        sender = client.to(url)
        sender.send(Order(1), operation="put")
        eventually(lambda: shop.orders == [1], "the first arrives")
        cable.cut = True
        for number in (2, 3, 4):
            sender.send(Order(number), operation="put")
        eventually(lambda: cable.refused >= 3, "the others do not")
        clock.wrong = 0.0
        cable.cut = False
        eventually(lambda: shop.orders == [1, 2, 3, 4], "they arrive", SOON)
        assert sender.wait(SOON)


def test_a_process_that_starts_after_the_clock_was_set_back_goes_on_with_what_the_last_one_left(
    sql_url: str, clock: SetClock, shop: Shop
) -> None:
    port = free_port()
    clock.wrong = HOUR
    with Mercury(sql_url, settings=settings(), clock=clock) as client:
        sender = client.to(f"http://127.0.0.1:{port}/services/shop")
        sender.send(Order(1), operation="put")
        eventually(lambda: sender.last_error, "a first attempt has failed")
    clock.wrong = 0.0
    with shop.open(port=port), Mercury(sql_url, settings=settings(), clock=clock) as client:
        eventually(lambda: shop.orders == [1], "it arrives", SOON)


def test_a_message_whose_handler_failed_is_handled_again_although_the_clock_is_set_back(
    any_url: str, clock: SetClock, shop: Shop
) -> None:
    tried: list[int] = []

    def fail(order: Order) -> None:
        tried.append(order.id)
        raise LookupError("not yet")

    shop.before = fail
    clock.wrong = HOUR
    server = Mercury(any_url, settings=settings(), clock=clock)
    try:
        url = f"{server.listen(shop.service())}/services/shop"
        with Mercury("memory:", settings=settings()) as client:
            client.to(url).send(Order(1), operation="put")
            eventually(lambda: tried, "it is tried")
            clock.wrong = 0.0
            shop.before = lambda _order: None
            eventually(lambda: shop.orders == [1], "it is handled", SOON)
    finally:
        server.stop()


def test_a_clock_that_is_set_forward_changes_nothing(any_url: str, clock: SetClock, shop: Shop) -> None:
    with shop.open() as (_, url), Mercury(any_url, settings=settings(), clock=clock) as client:
        sender = client.to(url)
        for number in (1, 2, 3):
            sender.send(Order(number), operation="put")
            clock.wrong += HOUR / 4
        eventually(lambda: shop.orders == [1, 2, 3], "they arrive", SOON)
        assert sender.wait(SOON)
        assert client.dead_letters() == []
