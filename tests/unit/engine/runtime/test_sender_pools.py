"""A post that a server waits for is sent, even while the server holds other exchanges open (LIVE-05)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.runtime.sender_pools import SenderPools
from mercury.engine.runtime.server_queues import Begun, Ended
from tests.acceptance.processes import PATIENCE, eventually
from tests.unit.engine.runtime.test_sender_pool import fixed, in_threads, outgoing

SLOW = "http://slow.example/a"


def pools(count: int, exchange: Callable[[Outgoing], bool | None]) -> SenderPools:
    """Pools whose exchanges each take a thread."""
    made = SenderPools(count, in_threads(exchange, lambda ends: made.ended(ends)), lambda _: False, limits=fixed)
    return made


def test_creations_wait_when_more_of_them_are_put_than_their_server_has_exchanges() -> None:
    begun: list[Begun] = []
    senders = SenderPools(8, begun.extend, lambda _: False, limits=fixed)
    senders.start()
    creations = [replace(each, purpose=Purpose.CREATE) for each in FIRST]
    senders.put(creations[:6])
    assert not senders.creations_wait(SLOW), "all have begun"
    senders.put(FIRST[10:30])
    assert not senders.creations_wait(SLOW), "messages are no creations"
    senders.put(creations[6:8])
    assert senders.creations_wait(SLOW)
    assert not senders.creations_wait("http://other.example/a")
    senders.ended([Ended(each, queued_reply=False) for each in begun if each.outgoing.purpose is Purpose.CREATE])
    assert not senders.creations_wait(SLOW)


FIRST = [outgoing(SLOW, number) for number in range(200)]


@pytest.mark.parametrize("held", [False, True], ids=["messages", "requests"])
@pytest.mark.parametrize(
    "other",
    [
        replace(outgoing(SLOW, 3), repeated=True),
        replace(outgoing(SLOW, 0), purpose=Purpose.ACKNOWLEDGEMENT, record_id=None, rmd="urn:theirs"),
        replace(outgoing(SLOW, 0), purpose=Purpose.ANSWER, record_id=None),
    ],
    ids=["repetition", "acknowledgement", "answer"],
)
def test_it_does_not_wait_for_messages_that_a_server_holds_open(other: Outgoing, held: bool) -> None:
    open_until, begun = threading.Event(), []

    def exchange(post: Outgoing) -> None:
        begun.append(post)
        if post != other:
            assert open_until.wait(PATIENCE)

    senders = pools(8, exchange)
    senders.start()
    try:
        for post in FIRST:
            senders.put([replace(post, held=held)])
        eventually(lambda: len(begun) == (22 if held else 6), "all that one server gets")
        senders.put([other])
        eventually(lambda: other in begun, "it is posted")
    finally:
        senders.stop()
        open_until.set()
        assert not senders.wait(time.monotonic() + PATIENCE)


def test_messages_wait_until_the_last_of_them_has_an_exchange() -> None:
    end, begun = threading.Semaphore(0), []

    def exchange(post: Outgoing) -> None:
        begun.append(post)
        assert end.acquire(timeout=PATIENCE)

    senders = pools(8, exchange)
    senders.start()
    senders.put(FIRST[:6])
    assert not senders.has_waiting
    senders.put(FIRST[6:8])
    assert senders.has_waiting
    end.release()
    eventually(lambda: len(begun) == 7, "one of them is posted")
    assert senders.has_waiting
    end.release()
    eventually(lambda: not senders.has_waiting, "the other one is posted")
    senders.stop()
    end.release(8)
    assert not senders.wait(time.monotonic() + PATIENCE)


def test_message_is_in_flight_in_whichever_pool_it_is() -> None:
    begun, end = [], threading.Event()

    def exchange(post: Outgoing) -> bool:
        begun.append(post)
        assert end.wait(PATIENCE)
        return True

    senders = pools(1, exchange)
    senders.start()
    senders.put([outgoing(SLOW, 1)])
    senders.put([replace(outgoing(SLOW, 2), repeated=True)])
    eventually(lambda: len(begun) == 2, "both are posted")
    assert [senders.is_in_flight(SLOW, number) for number in (1, 2, 3)] == [True, True, False]
    senders.stop()
    end.set()
    assert not senders.wait(time.monotonic() + PATIENCE)
    senders.stored(begun)
    assert not any(senders.is_in_flight(SLOW, number) for number in (1, 2))


def test_stored_reply_does_not_let_a_repetition_that_is_on_its_way_be_posted_again() -> None:
    begun: list[Begun] = []
    senders = SenderPools(8, begun.extend, lambda _: False, limits=fixed)
    senders.start()
    first, repetition = FIRST[1], replace(FIRST[1], repeated=True)
    senders.put([first])
    senders.put([repetition])
    assert [each.outgoing for each in begun] == [first, repetition]
    senders.ended([Ended(begun[0], queued_reply=True)])
    senders.stored([first])
    senders.put([repetition])
    assert len(begun) == 2, "its exchange is open"
    senders.ended([Ended(begun[1], queued_reply=True)])
    senders.stored([repetition])
    senders.put([repetition])
    assert len(begun) == 3, "the reply has not acknowledged it"
