"""From posts to replies: encodes posts, exchanges them with their endpoints, and passes the replies on."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Protocol

from mercury.engine.address_book import AddressBook
from mercury.engine.addresses import AddressPolicy
from mercury.engine.endpoint_errors import REPEATED, TRIED_AGAIN, EndpointErrors
from mercury.engine.exchange import Arrival, Outgoing, Purpose
from mercury.engine.failover_uri import is_failover
from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.engine.measurements import Measurements
from mercury.engine.runtime.exchange_limit import ExchangeLimits
from mercury.engine.runtime.helper_threads import HelperThreads
from mercury.engine.runtime.http_exchange import OnPosted, Post, Posted
from mercury.engine.runtime.member_posts import MemberPosts
from mercury.engine.runtime.member_updates import Fetching, MemberUpdates, NoFetching
from mercury.engine.runtime.sender_pools import SenderPools
from mercury.engine.runtime.server_queues import Begun, Ended
from mercury.engine.runtime.store_guard import GuardedEngine, StoreGuard
from mercury.engine.runtime.transport import ConcurrentTransport, Transport
from mercury.errors import ConfigurationError, TransportError
from mercury.wire.envelope import HttpMessage, Undecodable
from mercury.wire.media import read_content_type
from mercury.wire.scan import MessageRefused

log = logging.getLogger("mercury.runtime")

#: A longer reply is decoded in a helper thread, so that it delays no other.
LARGE_REPLY = 32 * 1024
#: HTTP statuses of servers that get too much, and of proxies before them: Too Many Requests, Bad Gateway, Service
#: Unavailable, Gateway Timeout.
OVERLOADED = frozenset({429, 502, 503, 504})
#: Characters of a peer's Content-Type in the error of an endpoint.
_TYPE_LENGTH = 80
#: Characters of the target of a redirect there.
_LOCATION_LENGTH = 200


class PostingEngine(GuardedEngine, Protocol):
    """What posting needs of the engine. The methods may be called in any thread."""

    @property
    def endpoint_errors(self) -> EndpointErrors: ...

    @property
    def addresses(self) -> AddressBook: ...

    @property
    def address_policy(self) -> AddressPolicy: ...

    @property
    def measurements(self) -> Measurements | None: ...

    def is_secured_endpoint(self, url: str) -> bool: ...

    def encoded(self, outgoing: Outgoing) -> HttpMessage: ...

    def answered(self, outgoing: Outgoing, reply: HttpMessage, now: float) -> Arrival | None: ...

    def reply_needs_store(self, outgoing: Outgoing, *, empty: bool) -> bool: ...

    def failed(self, outgoing: Outgoing, error: str, now: float) -> None: ...


class Posting:
    """Makes the exchanges of posts. Thread-safe.

    Posts, ends of exchanges and replies are handed over in lists. What blocks has helper threads: WS-Security, long
    replies, replies that are noted in the store, and a transport that makes one exchange at a time.

    :param senders, limits: the most parallel exchanges, and those with one server: `SenderPools`.
    :param clock: seconds since the epoch.
    :param deliver: passes replies to the committer and returns how many of them it took, the first ones. It waits for
        room if its second argument is true; then it takes fewer only if the runtime is stopping.
    :param chance: returns random numbers, 0 <= n < 1.
    :param monotonic: seconds of a monotonic clock, for everything about destinations with several addresses.
    """

    def __init__(
        self,
        engine: PostingEngine,
        transport: Transport | ConcurrentTransport,
        senders: int,
        clock: Callable[[], float],
        deliver: Callable[[Sequence[Arrival], bool], int],
        limits: Callable[[int, int], ExchangeLimits] = ExchangeLimits,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._errors = engine.endpoint_errors
        self._clock = clock
        self._deliver = deliver
        self._helpers = HelperThreads("mercury-sender")
        self._transport: ConcurrentTransport = (
            transport if isinstance(transport, ConcurrentTransport) else BlockingTransport(transport, self._helpers)
        )
        self._mutex = threading.Lock()
        #: The times of the last log lines about unexpected errors: a server may cause any number.
        self._log_limiter = LogLimiter(1, LOG_INTERVAL)
        self.pools = SenderPools(senders, self._begin, self._errors.slows, limits=limits)
        self._guard = StoreGuard(engine, clock, self._helpers)
        fetching = transport if isinstance(transport, Fetching) else NoFetching()
        updates = (engine.addresses, fetching, engine.address_policy, monotonic, chance, self._helpers)
        self._updates = MemberUpdates(*updates)
        self._members = MemberPosts(
            engine.addresses,
            self._errors,
            engine.encoded,
            self._transport.begin,
            self._ended,
            self.pools.begun_again,
            clock,
            chance,
            self._helpers,
            self._guard,
            self._ask_for_members,
            monotonic=monotonic,
        )

    def start(self) -> None:
        """Begin what was put until now, and let what follows begin."""
        self._guard.start()
        self.pools.start()

    def stop(self) -> None:
        """Begin nothing new, and let no post wait for an address any longer."""
        self.pools.stop()
        self._members.stop()

    # --- posts -----------------------------------------------------------------------------------------------------

    def _begin(self, exchanges: Sequence[Begun]) -> None:
        """Begin exchanges; never raises."""
        posts = []
        for begun in exchanges:
            begun.outgoing, url = self._guard.expecting(begun.outgoing), begun.outgoing.url
            if is_failover(url):
                self._ask_for_members(url)
                if self._engine.is_secured_endpoint(url):
                    self._helpers.run(partial(self._members.post, begun))
                else:
                    self._members.post(begun)
                continue
            if self._guard.needs_probe(begun.outgoing, url):
                self._helpers.run(partial(self._begin_probe, begun))
                continue
            if self._engine.is_secured_endpoint(url):
                self._helpers.run(partial(self._begin_secured, begun))
                continue
            try:
                posts.append(Post(url, self._engine.encoded(begun.outgoing), begun))
            except Exception as error:
                # In another thread: its end lets another post begin.
                self._helpers.run(partial(self._finish, [Posted(begun, error)]))
        if posts:
            self._transport.begin(posts, self._ended)

    def _ask_for_members(self, endpoint: str) -> None:
        try:
            self._updates.used(endpoint)
        except ConfigurationError as error:
            log.debug("%s", error)  # its posts fail with it

    def _begin_secured(self, begun: Begun) -> None:
        """Sign and encrypt a message, which takes milliseconds, and begin its exchange."""
        try:
            message = self._engine.encoded(begun.outgoing)
        except Exception as error:
            self._finish([Posted(begun, error)])
        else:
            self._transport.begin([Post(begun.outgoing.url, message, begun)], self._ended)

    def _begin_probe(self, begun: Begun) -> None:
        """Ask which store is at the address of a post, before it is sent there."""
        try:
            message = self._guard.probe(begun.outgoing)
        except Exception as error:
            self._finish([Posted(begun, error)])
        else:
            self._transport.begin([Post(begun.outgoing.url, message, begun)], self._probed)

    def _probed(self, ends: Sequence[Posted]) -> None:
        """Send what has waited for the store of its address, or let it fail."""
        for posted in ends:
            begun = posted.about
            assert isinstance(begun, Begun)
            result = self._guard.check(begun.outgoing, begun.outgoing.url, posted.result, probe=True)
            if isinstance(result, HttpMessage) and result.status not in OVERLOADED:
                self._helpers.run(partial(self._begin_checked, begun))
                continue
            if isinstance(result, HttpMessage):
                result = HttpMessage(b"", "", None, result.status)  # it is no answer to the message
            self._helpers.run(partial(self._finish, [Posted(begun, result)]))

    def _begin_checked(self, begun: Begun) -> None:
        self.pools.begun_again(begun)
        self._begin_secured(begun)

    # --- replies ---------------------------------------------------------------------------------------------------

    def _ended(self, ends: Sequence[Posted]) -> None:
        """Handle the ends of exchanges, in the transport's thread: what blocks is left to helpers."""
        brief = []
        for each in ends:
            posted = self._checked(each)
            if self._blocks(posted):
                self._helpers.run(partial(self._finish, [posted]))
            else:
                brief.append(posted)
        if brief:
            self._finish(brief)

    def _checked(self, posted: Posted) -> Posted:
        """The end of an exchange; the answer of another store counts as none. `MemberPosts` has checked its own."""
        begun = posted.about
        assert isinstance(begun, Begun)
        if is_failover(begun.outgoing.url):
            return posted
        return Posted(begun, self._guard.check(begun.outgoing, begun.outgoing.url, posted.result))

    def _blocks(self, posted: Posted) -> bool:
        begun, result = posted.about, posted.result
        assert isinstance(begun, Begun)
        empty = isinstance(result, Exception) or not result.body
        if self._engine.reply_needs_store(begun.outgoing, empty=empty):
            return True
        if isinstance(result, Exception):
            return False
        return len(result.body) > LARGE_REPLY or self._engine.is_secured_endpoint(begun.outgoing.url)

    def _finish(self, ends: Sequence[Posted]) -> None:
        """Pass the replies of exchanges to the committer, and let other posts begin."""
        over, arrivals, replied = [], [], []
        for posted in ends:
            begun = posted.about
            assert isinstance(begun, Begun)
            if self._engine.measurements is not None:
                destination = "" if begun.outgoing.purpose is Purpose.ANSWER else begun.outgoing.url
                self._engine.measurements.exchanged(destination, begun.at, _error(posted.result))
            arrival = self._arrival(begun.outgoing, posted.result)
            overloaded, together = _is_overloaded(posted.result), _is_mercury(posted.result)
            end = Ended(begun, queued_reply=arrival is not None, overloaded=overloaded, together=together)
            if arrival is None:
                over.append(end)
            else:
                arrivals.append(arrival)
                replied.append(end)
        taken = self._deliver(arrivals, False) if arrivals else 0
        over += replied[:taken]
        if taken < len(arrivals):
            # These exchanges stay open, which slows the posts down to the committer's speed.
            self._helpers.run(partial(self._deliver_late, arrivals[taken:], replied[taken:]))
        if over:
            self.pools.ended(over)

    def _deliver_late(self, arrivals: Sequence[Arrival], replied: Sequence[Ended]) -> None:
        taken = self._deliver(arrivals, True)
        self.pools.ended([*replied[:taken], *(replace(end, queued_reply=False) for end in replied[taken:])])

    def _arrival(self, outgoing: Outgoing, result: HttpMessage | Exception) -> Arrival | None:
        """The envelope in a reply; ``None`` = there is none. Never raises."""
        try:
            if isinstance(result, TransportError):
                self._failed(outgoing, str(result).removeprefix(f"{outgoing.url}: "), answered=False)
                self._engine.failed(outgoing, str(result), self._clock())
                return None
            if isinstance(result, Exception):
                raise result
            return self._answered(outgoing, result)
        except Exception as error:
            # As an endpoint that fails, it gets few of the exchanges until one works.
            self._failed(outgoing, f"the exchange ended with an unexpected {type(error).__name__}", answered=True)
            with self._mutex:
                allowed = self._log_limiter.allow(outgoing.server, self._clock())
            if allowed:
                log.exception(
                    "posting to %s failed; it is posted again when due. It is logged for a server once in %.0f s",
                    outgoing.url,
                    LOG_INTERVAL,
                )
            return None

    def _answered(self, outgoing: Outgoing, reply: HttpMessage) -> Arrival | None:
        problem = _unusable_reply(reply)
        if problem is not None:
            reply = HttpMessage(b"", "", None, reply.status)  # an error page of a web server is ignored (HTTP-02)
        now = self._clock()
        arrival = self._engine.answered(outgoing, reply, now)
        if arrival is not None and isinstance(arrival.envelope, Undecodable):
            problem = f"its reply is refused: {arrival.envelope}"
        if problem is None:
            self._errors.worked(outgoing.error_name, now)
        else:
            self._failed(outgoing, problem, answered=True)
        return arrival

    def _failed(self, outgoing: Outgoing, reason: str, *, answered: bool) -> None:
        name, once = outgoing.error_name, outgoing.purpose is Purpose.ANSWER
        again = REPEATED if once else TRIED_AGAIN
        # A refusal at one path does not slow answers to other peers' paths, which have the same error name.
        slows = not (once and answered)
        self._errors.failed(name, f"{name}: {reason}", self._clock(), again=again, slows=slows)


class BlockingTransport:
    """A `Transport` as a `ConcurrentTransport`: each exchange takes a thread while it is open."""

    def __init__(self, transport: Transport, helpers: HelperThreads) -> None:
        self._transport = transport
        self._helpers = helpers

    def begin(self, posts: Sequence[Post], on_end: OnPosted) -> None:
        for post in posts:
            self._helpers.run(partial(self._post, post, on_end))

    def close(self) -> None:
        self._transport.close()

    def _post(self, post: Post, on_end: OnPosted) -> None:
        result: HttpMessage | Exception
        try:
            rest = post.message.rest
            message = post.message.whole() if rest is not None and rest.in_memory else post.message
            result = self._transport.post(post.url, message)
        except Exception as error:
            result = error
        on_end([Posted(post.about, result)])


def _error(result: HttpMessage | Exception) -> str:
    """The name of what went wrong in an exchange; empty = it was answered."""
    if isinstance(result, Exception):
        return type(result).__name__
    return str(result.status) if result.status >= 300 else ""


def _is_overloaded(result: HttpMessage | Exception) -> bool:
    """Whether an exchange ended in a way that fewer of them at a time may avoid."""
    return result.status in OVERLOADED if isinstance(result, HttpMessage) else isinstance(result, TransportError)


def _is_mercury(result: HttpMessage | Exception) -> bool:
    """Whether the reply is that of a destination of Mercury, which names its store."""
    return isinstance(result, HttpMessage) and result.store is not None


def _unusable_reply(reply: HttpMessage) -> str | None:
    """Why a reply cannot be an answer of a SOAP endpoint; ``None`` = it can, or needs no body."""
    problem = f"HTTP status {reply.status}" if reply.status >= 300 else None
    if reply.status == 404:
        problem = "HTTP status 404: nothing is served at this path"
    elif reply.status in range(300, 400) and reply.location:
        problem = f"{problem} to {reply.location[:_LOCATION_LENGTH]!r}: redirects are not followed"
    if not reply.body:
        return problem
    kind = reply.content_type[:_TYPE_LENGTH]
    if not (_is_usual(reply.content_type) if kind == reply.content_type else _is_soap(reply.content_type)):
        return problem or f"HTTP status {reply.status}, but with {kind}: that is not a SOAP endpoint"
    return None


def _is_soap(content_type: str) -> bool:
    try:
        read_content_type(content_type)
    except MessageRefused:
        return False
    return True


#: The same, remembered for short ones: those of the replies of an endpoint are nearly always the same.
_is_usual = lru_cache(maxsize=64)(_is_soap)
