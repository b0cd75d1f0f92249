"""Two sender pools, so that what a server waits for never waits for what the server holds open.

Some destinations keep the exchanges of messages open: of all behind a gap, until the message of the gap arrives, or of
all requests, until the previous response is acknowledged (LIVE-05). In one pool these could be all exchanges.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.runtime.sender_pool import SenderPool


class SenderPools:
    """The pool for messages that are sent for the first time, and the pool for all other posts.

    :param count: the most parallel exchanges of each pool; see `SenderPool` for this and the other parameters.
    """

    def __init__(
        self,
        count: int,
        exchange: Callable[[Outgoing], bool | None],
        failing: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._messages = SenderPool(count, exchange, failing, clock)
        self._others = SenderPool(count, exchange, failing, clock)

    @property
    def threads(self) -> list[threading.Thread]:
        return [*self._messages.threads, *self._others.threads]

    def start(self) -> None:
        self._messages.start()
        self._others.start()

    def stop(self) -> None:
        """Drop the waiting posts: they are due again after the next start."""
        self._messages.stop()
        self._others.stop()

    def put(self, outgoing: Outgoing) -> None:
        """Post it as soon as a thread of its pool is free for it."""
        first = outgoing.purpose is Purpose.MESSAGE and not outgoing.repeated
        (self._messages if first else self._others).put(outgoing)

    def is_in_flight(self, record_id: str, number: int, acknowledged: bool = False) -> bool:
        """Whether a message of a sequence waits here, or has been in an open exchange for less than the limit.

        :param acknowledged: it is a request that is acknowledged, which has a longer limit.
        """
        return any(pool.is_in_flight(record_id, number, acknowledged) for pool in (self._messages, self._others))

    def stored(self, outgoing: Outgoing) -> None:
        """Report that the reply of an exchange is committed."""
        self._messages.stored(outgoing)
        self._others.stored(outgoing)
