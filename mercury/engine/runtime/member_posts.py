"""Posts to destinations with several addresses: a post that fails at one address goes to the next."""

from __future__ import annotations

import enum
import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mercury.engine.address_book import AddressBook
from mercury.engine.endpoint_errors import EndpointErrors
from mercury.engine.exchange import Outgoing
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.http_exchange import OnPosted, Post, Posted
from mercury.engine.runtime.server_queues import Begun
from mercury.engine.runtime.store_guard import StoreGuard
from mercury.errors import ConfigurationError, TransportError
from mercury.statemachine.failover import Failure, Until
from mercury.wire.envelope import HttpMessage

log = logging.getLogger("mercury.runtime")

#: Seconds after which an address that has not answered counts as silent, and another one is tried: a process that is
#: stopped takes connections and never answers. A message that is not small has a second more for each `BYTES`.
EXCHANGE_TIMEOUT = 5.0
BYTES = 256 * 1024
#: The longest time, in seconds, that a post waits for an address that works. Then it has failed, and is due again.
WAIT = 30.0
#: The longest time, in seconds, between two looks at the open exchanges.
INTERVAL = 0.25
#: HTTP statuses of an address that does not serve: nothing is at the path, or a proxy does not reach the service, or it
#: is a standby.
NOT_FOUND = 404
NOT_SERVING = frozenset({NOT_FOUND, 502, 503, 504})
#: After so many looks without a post the thread that looks at them ends.
IDLE_LOOKS = 8


class _Phase(enum.Enum):
    """What a post does."""

    #: A thread begins its next exchange.
    BEGINS = enum.auto()
    #: It waits until an address is due.
    WAITS = enum.auto()
    #: Its exchange is open.
    OPEN = enum.auto()
    OVER = enum.auto()


@dataclass(slots=True, eq=False)
class _Try:
    """A post that is tried at one address after the other. Times are seconds of the monotonic clock."""

    begun: Begun
    #: When it fails if no address has worked.
    until: float
    phase: _Phase = _Phase.BEGINS
    #: The number of its exchanges: the end of an earlier one than the last is ignored.
    exchanges: int = 0
    #: How many addresses it was tried at: an exchange that asks for the store of one does not count twice.
    tries: int = 0
    #: Of the open exchange: the address, when it began, and when the address counts as silent.
    address: str = ""
    began: float = 0.0
    silent_at: float = 0.0
    #: When the next exchange may begin.
    due: float = 0.0
    #: Why the last exchange failed.
    reason: str = "no address works"

    @property
    def endpoint(self) -> str:
        return self.begun.outgoing.url


@dataclass(frozen=True, slots=True)
class _Exchange:
    of: _Try
    number: int
    address: str
    #: It only asks which store is at the address (`StoreGuard`).
    probe: bool


class MemberPosts:
    """Begins the exchanges of posts whose destination has several addresses. Thread-safe.

    All addresses lead to one store, so a message may arrive at several of them: the store has it once. One with another
    store is an address that fails.

    :param encode: encodes a post to an address.
    :param begin: begins exchanges.
    :param on_end: called with the ends of posts.
    :param again: called with a post before each of its further exchanges: it counts as being posted from then on.
    :param clock: seconds since the epoch, for ``errors``.
    :param chance: returns random numbers, 0 <= n < 1.
    :param helpers: the threads of what takes long.
    :param guard: knows which store is at each address.
    :param ask: called with a destination of which no address is due: looks for its members.
    :param monotonic: seconds of a monotonic clock, for pauses and for the times of addresses: by a clock that is set
        back each failure would count as older than the one before.
    """

    def __init__(
        self,
        book: AddressBook,
        errors: EndpointErrors,
        encode: Callable[[Outgoing], HttpMessage],
        begin: Callable[[Sequence[Post], OnPosted], None],
        on_end: OnPosted,
        again: Callable[[Begun], None],
        clock: Callable[[], float],
        chance: Callable[[], float],
        helpers: HelperThreads,
        guard: StoreGuard,
        ask: Callable[[str], None] = lambda _: None,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._book = book
        self._errors = errors
        self._encode = encode
        self._begin = begin
        self._on_end = on_end
        self._again = again
        self._clock = clock
        self._monotonic = monotonic
        self._chance = chance
        self._helpers = helpers
        self._guard = guard
        self._ask = ask
        self._changed = threading.Condition()
        #: The posts that have not ended, in the order of their begin.
        self._posts: dict[_Try, None] = {}
        #: A thread looks at the posts.
        self._watched = False
        self._stopped = False

    def post(self, begun: Begun) -> None:
        """Begin a post. Its end is reported in any case."""
        try:
            waits = self._book.options(begun.outgoing.url).timeout
        except ConfigurationError as error:
            self._helpers.run(partial(self._on_end, [Posted(begun, TransportError(str(error)))]))
            return
        each = _Try(begun, self._monotonic() + (WAIT if waits is None else waits))
        with self._changed:
            self._posts[each] = None
            starts, self._watched = not self._watched, True
        if starts:
            self._helpers.run(self._watch)
        self._next(each)

    def stop(self) -> None:
        """Let no post wait any longer: those that wait fail, and are due again after the next start."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    # --- one exchange ----------------------------------------------------------------------------------------------

    def _next(self, each: _Try) -> None:
        """Begin the next exchange of a post, or let it wait for an address."""
        endpoint, now = each.endpoint, self._monotonic()
        is_over = now >= each.until or self._book.gives_up(endpoint, each.tries)
        if self._stopped or (each.exchanges and is_over):
            self._fail(each, TransportError(f"{endpoint}: {each.reason}"))
            return
        chosen = self._book.choose(endpoint, now, self._chance())
        if isinstance(chosen, Until):
            self._ask(endpoint)
            if now >= each.until and not self._book.addresses(endpoint):
                self._fail(each, TransportError(f"{endpoint}: no member is found"))
                return
            if each.exchanges:
                self._errors.failed(
                    endpoint, f"{endpoint}: no address works, the last was {each.reason}", self._clock()
                )
            with self._changed:
                each.phase, each.due = _Phase.WAITS, min(chosen.due, each.until)
                self._changed.notify_all()
            return
        each.tries += 1
        self._open(each, chosen, probe=self._guard.needs_probe(each.begun.outgoing, chosen))

    def _open(self, each: _Try, address: str, *, probe: bool) -> None:
        """Begin the exchange of a post with an address, or one that asks which store is there."""
        endpoint, outgoing = each.endpoint, addressed(each.begun.outgoing, address)
        try:
            message = self._guard.probe(outgoing) if probe else self._encode(outgoing)
        except Exception as error:
            self._fail(each, error)
            return
        if each.exchanges:
            self._again(each.begun)
        now = self._monotonic()
        limit = self._book.options(endpoint).exchange_timeout or EXCHANGE_TIMEOUT
        size = len(message.body) + (message.rest.size if message.rest is not None else 0)
        with self._changed:
            each.phase, each.address, each.began = _Phase.OPEN, address, now
            each.silent_at = now + limit + size / BYTES
            each.exchanges += 1
            exchange = _Exchange(each, each.exchanges, address, probe)
        self._begin([Post(address, message, exchange)], self._ended)

    def _ended(self, ends: Sequence[Posted]) -> None:
        """Exchanges have ended. Called in the thread of all exchanges."""
        over = []
        for posted in ends:
            exchange = posted.about
            assert isinstance(exchange, _Exchange)
            each = exchange.of
            result = self._guard.check(each.begun.outgoing, exchange.address, posted.result, probe=exchange.probe)
            failure = _failure(result)
            goes_on = exchange.probe and failure is None and not isinstance(result, Exception)
            with self._changed:
                if each.phase is not _Phase.OPEN or exchange.number != each.exchanges:
                    continue  # it was silent, and another address is tried
                each.phase = _Phase.OVER if failure is None and not goes_on else _Phase.BEGINS
                if each.phase is _Phase.OVER:
                    del self._posts[each]
            if goes_on:
                self._helpers.run(partial(self._open, each, exchange.address, probe=False))
            elif failure is None:
                self._worked(each)
                over.append(Posted(each.begun, result))
            else:
                self._failed(each, *failure)
        if over:
            self._on_end(over)

    def _worked(self, each: _Try) -> None:
        now, endpoint = self._monotonic(), each.endpoint
        self._errors.worked(each.address, self._clock())
        if self._book.worked(endpoint, each.address, now):
            log.info("%s: messages are posted to %s now", endpoint, each.address, extra={"endpoint": endpoint})
            with self._changed:
                for other in self._posts:
                    if other.phase is _Phase.WAITS and other.endpoint == endpoint:
                        other.due = now
                self._changed.notify_all()

    def _failed(self, each: _Try, failure: Failure, reason: str) -> None:
        """The exchange of a post has failed: try the next address. Encoding may take long, so it has another thread."""
        now, endpoint, address = self._monotonic(), each.endpoint, each.address
        each.reason = f"{address}: {reason}"
        self._errors.failed(address, each.reason, self._clock(), again="another address is tried")
        if self._book.failed(endpoint, address, each.began, now, self._chance(), failure):
            log.warning(
                "%s: no address works, the last was %s; what is to be sent there is tried again",
                endpoint,
                each.reason,
                extra={"endpoint": endpoint},
            )
        self._helpers.run(partial(self._next, each))

    def _fail(self, each: _Try, error: Exception) -> None:
        with self._changed:
            each.phase = _Phase.OVER
            del self._posts[each]
        # In another thread: its end lets another post begin.
        self._helpers.run(partial(self._on_end, [Posted(each.begun, error)]))

    # --- all of them -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """While there are posts, continue those whose pause is over, and those at silent addresses."""
        idle = 0
        while True:
            with self._changed:
                idle = 0 if self._posts else idle + 1
                if idle > IDLE_LOOKS or (self._stopped and not self._posts):
                    self._watched = False
                    return
                due = min((each.due for each in self._posts if each.phase is _Phase.WAITS), default=math.inf)
                pause = min(due - self._monotonic(), INTERVAL)
                if pause > 0 and not self._stopped:
                    self._changed.wait(pause)
                now = self._monotonic()
                ready = [each for each in self._posts if each.phase is _Phase.WAITS and self._may_go(each, now)]
                silent = self._silent(now)
                for each in (*ready, *silent):
                    each.phase = _Phase.BEGINS
                if self._stopped and not ready and not silent:
                    self._changed.wait(INTERVAL)
            for each in ready:
                self._helpers.run(partial(self._next, each))
            for each in silent:
                self._failed(each, Failure.SILENT, f"no answer within {now - each.began:.1f} s")

    def _may_go(self, each: _Try, now: float) -> bool:
        return self._stopped or each.due <= now

    def _silent(self, now: float) -> list[_Try]:
        """The posts at addresses that do not answer. An address that answers others only takes long for one."""
        found: set[tuple[str, str]] = set()
        for each in self._posts:
            if each.phase is _Phase.OPEN and each.silent_at <= now:
                if self._book.is_silent(each.endpoint, each.address, each.began):
                    found.add((each.endpoint, each.address))
                else:
                    each.silent_at = now + EXCHANGE_TIMEOUT
        return [each for each in self._posts if each.phase is _Phase.OPEN and (each.endpoint, each.address) in found]


def addressed(outgoing: Outgoing, address: str) -> Outgoing:
    """A post to one of the addresses of its destination. Its wsa:To is the address, unless the sender has set one."""
    envelope = outgoing.envelope
    if envelope.to is not None and envelope.to.address == outgoing.url:
        envelope = replace(envelope, to=replace(envelope.to, address=address))
    return replace(outgoing, url=address, envelope=envelope)


def _failure(result: HttpMessage | Exception) -> tuple[Failure, str] | None:
    """How an exchange with an address failed; ``None`` = it worked. What is not about the address is no failure."""
    if isinstance(result, TransportError):
        return Failure.UNREACHED, str(result).partition(": ")[2]
    if isinstance(result, Exception) or result.status not in NOT_SERVING:
        return None
    if result.status == NOT_FOUND and "xml" in result.content_type:
        return None  # an answer of a service
    return Failure.REFUSED, f"HTTP status {result.status}"
