"""HTTP exchanges that are held open for their response (HTTP-05)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from mercury.engine.exchange import HeldExchange, PendingResponse, Response, Step
from mercury.engine.ids import Ids, RandomIds
from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.engine.runtime.core import Engine
from mercury.engine.source.back_channel import in_reply
from mercury.wire.envelope import HttpMessage

log = logging.getLogger("mercury.runtime")

#: Seconds by which requests that were posted in parallel may overtake each other.
REORDERING = 0.5
#: Seconds in which a client that does not fetch responses repeats a lost message twice: CXF does after 3 and 9.
REPETITIONS = 10.0
#: The most exchanges that are held for one request of a client that does not fetch responses.
OF_ONE_REQUEST = 2
#: The number of sequences whose gaps are remembered.
REMEMBERED = 1024


class HeldExchanges:
    """The held exchanges, by the sequence and number of their requests. Thread-safe.

    It never reads the store: after the commit of responses, `release` passes them to it.

    :param clock: returns the time of a monotonic clock, in seconds.
    :param ids: for the MessageIDs of batches of responses; ``None`` = random ones.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, ids: Ids | None = None) -> None:
        self._clock, self._ids = clock, RandomIds() if ids is None else ids
        self._mutex = threading.Lock()
        #: By request. An exchange of a batch stands at each request that has no response yet.
        self._held: dict[str, list[HeldExchange]] = {}
        #: Responses that were committed while the requests' transaction was open, before their exchanges were held.
        self._early: dict[str, Response] | None = None
        #: The number of threads in `storing`.
        self._storing = 0
        self._over = False
        #: By sequence: the lowest missing number, and since when requests behind it wait.
        self._missing: dict[str, tuple[int, float | None]] = {}
        self._log_limiter = LogLimiter(1, LOG_INTERVAL)

    def __bool__(self) -> bool:
        """Whether any exchange is held."""
        return bool(self._held)

    @contextmanager
    def storing(self) -> Iterator[None]:
        """A context around storing requests and holding their exchanges: responses committed meanwhile are kept for
        `hold`."""
        with self._mutex:
            self._storing += 1
            self._early = {} if self._early is None else self._early
        try:
            yield
        finally:
            with self._mutex:
                self._storing -= 1
                self._early = self._early if self._storing else None

    def hold(self, *waiting: PendingResponse, stored: Iterable[Response] = ()) -> HeldExchange:
        """Hold an exchange. Its future gets the responses, or ``None`` if none comes here.

        Of a client that does not fetch responses, the first and the newest exchange of a request are held, and those
        between are answered without it. The caller of a synchronous client waits on the first one; the newest one is
        needed if the connection of the first one is broken.

        :param waiting: the response that it waits for, or those to the requests of a batch.
        :param stored: those of them that exist.
        """
        held = HeldExchange(waiting, stored)
        superseded: list[HeldExchange] = []
        with self._mutex:
            self._note_missing(held.first)
            early = self._early or {}
            for response in [early[about] for about in held.missing if about in early]:
                held.add(response)
            ends = self._over or held.is_complete
            for about, each in held.missing.items() if not ends else ():
                exchanges = self._held.setdefault(about, [])
                if not each.fetches:
                    superseded, exchanges[1:] = exchanges[OF_ONE_REQUEST - 1 :], exchanges[1 : OF_ONE_REQUEST - 1]
                exchanges.append(held)
        for before in superseded:
            before.superseded = True
            _answer(before, None)
        if ends:
            _answer(held, self._written(held))
        return held

    def let_go(self, held: HeldExchange) -> None:
        """Stop holding an exchange that was answered without `release`."""
        with self._mutex:
            self._remove(held)

    def so_far(self, held: HeldExchange) -> HttpMessage | None:
        """The responses that exist, for an exchange that is held no longer; ``None`` = there are none."""
        with self._mutex:
            self._remove(held)
        return self._written(held)

    def give_up(self, held: HeldExchange) -> None:
        """Answer the exchange at once with the responses that exist, because its connection is needed for another
        peer."""
        with self._mutex:
            waits = self._remove(held)
        if waits:  # otherwise its response is being sent
            _answer(held, self._written(held))

    def release(self, responses: Iterable[Response]) -> None:
        """Pass committed responses to the exchanges that wait for them.

        An exchange whose response cannot be written is answered without it; this does not affect the others.
        """
        complete: dict[HeldExchange, None] = {}
        with self._mutex:
            for response in responses:
                if self._early is not None:
                    self._early[response.request] = response
                for held in self._held.pop(response.request, ()):
                    held.add(response)
                    if held.is_complete:
                        complete[held] = None
            for held in complete:
                self._remove(held)
        for held in complete:
            _answer(held, self._written(held))

    def _written(self, held: HeldExchange) -> HttpMessage | None:
        """The HTTP message with the responses that exist; ``None`` = there are none, or they cannot be written, which
        is logged."""
        if not held.found:
            return None
        try:
            return in_reply([*held.found.values()], held.waiting, self._ids)
        except Exception:  # caused by one peer; the calling thread works for all peers
            with self._mutex:
                logged = self._log_limiter.allow("", self._clock())
            if logged:
                log.exception(
                    "a response could not be written, and its exchange ends without it; it is logged once in %.0f s",
                    LOG_INTERVAL,
                    extra={"message_id": held.first.message_id, "sequence": held.first.sequence},
                )
            return None

    def release_all(self) -> None:
        """Answer every held exchange with the responses that exist, and hold none from now on."""
        with self._mutex:
            self._over = True
            everything = dict.fromkeys(held for exchanges in self._held.values() for held in exchanges)
            self._held = {}
        for held in everything:
            _answer(held, self._written(held))

    def waiting(self) -> list[PendingResponse]:
        """The responses that exchanges wait for, each once."""
        with self._mutex:
            return [exchanges[0].missing[about] for about, exchanges in self._held.items()]

    def _remove(self, held: HeldExchange) -> bool:
        """Stop holding an exchange; returns whether it was held."""
        waits = False
        for about in held.missing:
            exchanges = self._held.pop(about, [])
            others = [other for other in exchanges if other is not held]
            if others:
                self._held[about] = others
            waits = waits or len(others) < len(exchanges)
        return waits

    # --- gaps ------------------------------------------------------------------------------------------------------

    def time_left(self, held: HeldExchange) -> float | None:
        """Seconds for which a request behind a gap is still held; ``None`` = it is not behind a gap.

        Requests that were posted in parallel overtake each other, so a new gap gets `REORDERING` seconds to close, once
        for all requests behind it. For a client that does not fetch responses it gets `REPETITIONS` seconds, in which
        the missing message may be repeated.
        """
        waiting = held.first
        with self._mutex:
            missing, since = self._missing.get(waiting.sequence, (0, None))
        if not waiting.behind_a_gap or waiting.number < missing or since is None:
            return None
        return max(0.0, since + (REORDERING if waiting.fetches else REPETITIONS) - self._clock())

    def _note_missing(self, waiting: PendingResponse) -> None:
        missing, since = self._missing.pop(waiting.sequence, (0, None))
        if waiting.first_missing > missing:
            missing, since = waiting.first_missing, None
        if waiting.behind_a_gap and since is None:
            since = self._clock()
        self._missing[waiting.sequence] = (missing, since)
        if len(self._missing) > REMEMBERED:
            del self._missing[next(iter(self._missing))]


def _answer(held: HeldExchange, http: HttpMessage | None) -> None:
    if held.response.set_running_or_notify_cancel():
        held.response.set_result(http)


class HeldWorker:
    """Finds responses that another process has stored: one query for all exchanges that are held here."""

    def __init__(self, engine: Engine, held_exchanges: HeldExchanges) -> None:
        self._engine = engine
        self._held_exchanges = held_exchanges

    def run_once(self, now: float) -> Step:
        waiting = self._held_exchanges.waiting()
        if not waiting:
            return Step()
        found, unread = self._engine.responses(waiting, now)
        self._held_exchanges.release(found)
        return Step(progress=len(unread) if found else 0)

    def next_due(self) -> float | None:
        """``None``: the pool's wake-ups and polls are the only triggers."""
        return None
