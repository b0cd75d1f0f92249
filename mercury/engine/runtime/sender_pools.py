"""Two sender pools, so that what a server waits for never waits for what the server holds open.

Some destinations keep the exchanges of messages open: of all behind a gap, until the message of the gap arrives, or of
all requests, until the previous response is acknowledged (LIVE-05). In one pool these could be all exchanges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from mercury.engine.addresses import server_of
from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.runtime.exchange_limit import ExchangeLimits
from mercury.engine.runtime.sender_pool import SenderPool
from mercury.engine.runtime.server_queues import Begun, Ended

T = TypeVar("T")


#: The most parallel exchanges for all that is not a message sent for the first time. Repetitions of a destination that
#: was away need no more: they share transactions there too, and messages in batches share exchanges.
MOST_OTHERS = 64


class SenderPools:
    """The pool for messages that are sent for the first time, and the pool for all other posts.

    :param count: the most parallel exchanges of the first pool; the other one has as many, but at most `MOST_OTHERS`.
        See `SenderPool` for this and the other parameters.
    """

    def __init__(
        self,
        count: int,
        begin: Callable[[Sequence[Begun]], None],
        failing: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
        limits: Callable[[int, int], ExchangeLimits] = ExchangeLimits,
    ) -> None:
        self._messages = SenderPool(count, begin, failing, clock, limits)
        self._others = SenderPool(min(count, MOST_OTHERS), begin, failing, clock, limits)

    def start(self) -> None:
        self._messages.start()
        self._others.start()

    def stop(self) -> None:
        """Drop the waiting posts: they are due again after the next start."""
        self._messages.stop()
        self._others.stop()

    def wait(self, deadline: float) -> int:
        """Wait until all exchanges have ended. Returns how many are open.

        :param deadline: the longest time to wait: a time of the monotonic clock.
        """
        return sum(pool.wait(max(0.0, deadline - time.monotonic())) for pool in (self._messages, self._others))

    def put(self, posts: Iterable[Outgoing]) -> None:
        """Post these as soon as their pool has room for them."""
        for pool, own in self._sorted(posts, lambda outgoing: outgoing):
            pool.put(own)

    def ended(self, ends: Iterable[Ended]) -> None:
        """Report that exchanges have ended."""
        for pool, own in self._sorted(ends, lambda end: end.begun.outgoing):
            pool.ended(own)

    @property
    def has_waiting(self) -> bool:
        """Whether messages that are sent for the first time wait for exchanges."""
        return self._messages.has_waiting

    def creations_wait(self, endpoint: str) -> bool:
        """Whether what creates sequences at an endpoint has to wait for an exchange."""
        return self._others.waits(server_of(endpoint))

    def begun_again(self, begun: Begun) -> None:
        """A further exchange begins for an open post."""
        for pool, _ in self._sorted([begun], lambda each: each.outgoing):
            pool.begun_again(begun)

    def has_exchange(self, record_id: str) -> bool:
        """Whether an exchange with a message of a sequence is open."""
        return any(pool.has_exchange(record_id) for pool in (self._messages, self._others))

    def is_in_flight(self, record_id: str, number: int, acknowledged: bool = False) -> bool:
        """Whether a message of a sequence waits here, or is in an open exchange; see `InFlight.has_message`."""
        return any(pool.is_in_flight(record_id, number, acknowledged) for pool in (self._messages, self._others))

    def stored(self, posts: Sequence[Outgoing]) -> None:
        """Report that the replies of exchanges are committed."""
        for pool, own in self._sorted(posts, lambda outgoing: outgoing):
            pool.stored(own)

    def _sorted(self, each: Iterable[T], of: Callable[[T], Outgoing]) -> list[tuple[SenderPool, list[T]]]:
        """Sort by pool."""
        messages: list[T] = []
        others: list[T] = []
        for one in each:
            outgoing = of(one)
            first = outgoing.purpose is Purpose.MESSAGE and not outgoing.repeated
            (messages if first else others).append(one)
        return [(pool, own) for pool, own in ((self._messages, messages), (self._others, others)) if own]
