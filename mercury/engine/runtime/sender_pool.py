"""The exchanges of posts, shared fairly among endpoints: slow ones do not delay the others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.engine.runtime.exchange_limit import FIRST, ExchangeLimits
from mercury.engine.runtime.in_flight import InFlight
from mercury.engine.runtime.owner_shares import OwnerShares
from mercury.engine.runtime.server_queues import Begun, Ended, Kind, Lane, Server, WaitingAnswers

log = logging.getLogger("mercury.runtime")

#: The weight of one exchange, and the least of one that the server may hold open for a response. The latter mostly
#: waits, and with more of them open more responses share a transaction. So a small pool may have `WHOLE` / `HELD` times
#: as many of them, up to `MOST_OPEN`; in a pool of `MOST_OPEN` exchanges and more both weigh the same.
WHOLE, HELD = 4, 1
MOST_OPEN = 128
#: The held exchanges with a server of which nothing is known, if there may be as many. They begin high because most of
#: them only wait for handlers.
FIRST_HELD = 88
#: The part of a server's share of the pool that held exchanges do not use, so that others need not wait until they end.
LEFT_BY_HELD = 1 / 12
#: A server may use this many times the free capacity: a single server gets 3/4 of the total, two get 3/7 each, and so
#: on. A server that uses none always gets free capacity. A peer has such a share in half of the capacity, whatever
#: servers it names (`OwnerShares`).
SHARE = 3
#: An endpoint whose last exchange failed may use this part, at least one exchange; all such endpoints of one server
#: together may use twice as much, and those of one owner half of all exchanges.
FAILING_SHARE = 16
ALL_IN_TROUBLE = FAILING_SHARE // 2
TROUBLE_OF_OWNER = 2
#: The most answers that wait for one server, and for all servers. A peer can cause any number of answers, to any
#: address, by small requests: above the limit the oldest answer of the owner with most of them is dropped. It is made
#: again when the request is repeated.
ANSWERS, ALL_ANSWERS = 100, 1000
#: The part of the exchanges of one server that is reserved for answers, and their limit; at least one exchange.
ANSWERING = 4


class SenderPool:
    """Decides which posts may begin. Equal posts wait only once; a message that is being posted does not wait again.

    The posts to one server take turns: those to endpoints that work, those to endpoints whose last exchange failed, and
    answers (`Purpose.ANSWER`). In each of these three kinds the owners take turns, and for each owner the endpoints.
    Posts to one endpoint for one owner keep their order. Failing endpoints and answers have few exchanges, and delay
    no others. At most `ANSWERS` answers wait for one server. How many exchanges a server has follows what is observed
    (`ExchangeLimit`).
    Posts of one peer (`Outgoing.owner`) wait for at most `WAITING_SERVERS` servers: a post for a further server is
    dropped, and is due again later.

    Thread-safe. It uses no thread: `begin` is called by the thread that calls `start`, `put` or `ended`.

    :param count: the most parallel exchanges; of those that may be held open for a response up to four times as many,
        but no more than `MOST_OPEN`, or than this number if it is larger.
    :param begin: begins exchanges, and must not wait; `ended` is called at the end of each. It must not raise.
    :param failing: returns whether the last exchange with an `Outgoing.error_name` failed, so that it gets few. The
        result changes only while an exchange with that name is open.
    :param clock: seconds, monotonic.
    :param limits: makes the limits of the servers, once for exchanges that are answered at once and once for those
        that may be held; its arguments are the most exchanges with one, and the first number.
    """

    def __init__(
        self,
        count: int,
        begin: Callable[[Sequence[Begun]], None],
        failing: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
        limits: Callable[[int, int], ExchangeLimits] = ExchangeLimits,
    ) -> None:
        self._held = min(WHOLE, max(HELD, WHOLE * count // MOST_OPEN))
        self._limits = limits(max(1, SHARE * count // (SHARE + 1)), FIRST)
        most_held = max(1, int((1 - LEFT_BY_HELD) * WHOLE * SHARE * count / (SHARE + 1) / self._held))
        self._held_limits = limits(most_held, min(most_held, FIRST_HELD))
        self._started = False
        self._begin = begin
        self._is_failing = failing
        self._clock = clock
        #: Posts that may begin, and are not handed over yet.
        self._ready: list[Begun] = []
        #: The number of exchanges that may begin or are open.
        self._taken = 0
        self._mutex = threading.Lock()
        self._all_ended = threading.Condition(self._mutex)
        self._in_flight = InFlight()
        #: The servers with open exchanges or waiting posts.
        self._servers: dict[str, Server] = {}
        self._answers = WaitingAnswers(ANSWERS, ALL_ANSWERS)
        #: The times of the last log lines about dropped answers.
        self._log_limiter = LogLimiter(1, LOG_INTERVAL)
        self._free = WHOLE * count
        self._owners = OwnerShares(WHOLE * count, SHARE, max(1, count // TROUBLE_OF_OWNER))

    def start(self) -> None:
        """Begin what was put until now, and let what follows begin."""
        with self._mutex:
            self._started = True
            ready = self._handed_over()
        if ready:
            self._begin(ready)

    def put(self, posts: Iterable[Outgoing]) -> None:
        """Post these when there is room. Of too many answers that wait, some are not posted."""
        with self._mutex:
            crowded = [outgoing for outgoing in posts if self._put(outgoing)]
            ready = self._handed_over()
        if ready:
            self._begin(ready)
        for outgoing in crowded:
            log.warning(
                "answers to %s are not posted: too many wait already; the peers' repetitions bring them again. It is"
                " logged once in %.0f s",
                outgoing.server,
                LOG_INTERVAL,
                extra={"endpoint": outgoing.url},
            )

    def _put(self, outgoing: Outgoing) -> bool:
        """Add a post. Returns whether to log that an answer was dropped."""
        name = outgoing.server
        if self._in_flight.has(outgoing, self._clock):
            return False
        server = self._servers.get(name)
        if server is None:
            now = self._clock()
            of_server = Lane(self._limits.of(name, now)), Lane(self._held_limits.of(name, now))
            server = self._servers[name] = Server(*of_server)
        if (
            not server.waiting
            and self._has_capacity(server)
            and self._has_room(server, outgoing)
            and self._may_go(server, outgoing)
        ):
            self._in_flight.queue(outgoing)
            self._take(server, outgoing)
        elif not self._owners.may_wait(outgoing.owner, name):
            self._tidy(name, server)
        else:
            return self._wait(server, name, outgoing)
        return False

    def _handed_over(self) -> list[Begun]:
        """Take what may begin; it counts as open from now on."""
        if not self._started or not self._ready:
            return []
        ready, self._ready = self._ready, []
        now = self._clock()
        for each in ready:
            each.at = now
            self._in_flight.begin(each.outgoing, now)
        return ready

    def ended(self, ends: Sequence[Ended]) -> None:
        """Report that exchanges have ended. What waits for their room begins."""
        with self._mutex:
            now = self._clock()
            for end in ends:
                begun = end.begun
                self._in_flight.end(begun.outgoing, begun.at, now if end.queued_reply else None)
                self._give_back(begun)
                self._learn(end, now)
            if self._started:
                self._serve_in_turn()
            ready = self._handed_over()
            for name in {end.begun.outgoing.server for end in ends}:
                self._tidy(name, self._servers[name])
            if not self._begun:
                self._all_ended.notify_all()
        if ready:
            self._begin(ready)

    def begun_again(self, begun: Begun) -> None:
        """A further exchange begins for an open post: the message counts as being posted from now on."""
        with self._mutex:
            before, begun.at = begun.at, self._clock()
            self._in_flight.begin_again(begun.outgoing, before, begun.at)

    def has_exchange(self, record_id: str) -> bool:
        """Whether an exchange with a message of a sequence is open."""
        with self._mutex:
            return self._in_flight.has_exchange(record_id)

    def is_in_flight(self, record_id: str, number: int, acknowledged: bool = False) -> bool:
        """Whether a message of a sequence waits here, or is in an open exchange; see `InFlight.has_message`."""
        with self._mutex:
            return self._in_flight.has_message(record_id, number, self._clock(), acknowledged=acknowledged)

    def stored(self, posts: Iterable[Outgoing]) -> None:
        """Report that the replies of exchanges are committed."""
        with self._mutex:
            for outgoing in posts:
                self._in_flight.stored(outgoing)

    @property
    def has_waiting(self) -> bool:
        """Whether posts wait for exchanges."""
        return self._owners.has_waiting

    def waits(self, server: str) -> bool:
        """Whether posts to a server wait for exchanges."""
        return (found := self._servers.get(server)) is not None and found.waiting

    def stop(self) -> None:
        """Drop the waiting posts: they are due again after the next start."""
        with self._mutex:
            self._started = False
            for name, server in list(self._servers.items()):
                server.forget()
                self._tidy(name, server)
            self._answers.clear()
            self._owners.clear()
            for begun in self._ready:
                self._in_flight.drop(begun.outgoing)
                self._give_back(begun)
            self._ready.clear()
            self._in_flight.forget_batches()

    def wait(self, timeout: float) -> int:
        """Wait until all exchanges have ended, or for so many seconds. Returns how many are open."""
        with self._mutex:
            self._all_ended.wait_for(lambda: not self._begun, timeout)
            return self._begun

    @property
    def _begun(self) -> int:
        """The number of open exchanges; what is put after `stop` never begins."""
        return self._taken - len(self._ready)

    # --- what waits ------------------------------------------------------------------------------------------------

    def _wait(self, server: Server, name: str, outgoing: Outgoing) -> bool:
        """Add a waiting post. Returns whether to log that an answer was dropped."""
        answer, lost = outgoing.purpose is Purpose.ANSWER, False
        if answer and self._answers.is_full(server):
            lost = True
            dropped = self._answers.drop_candidate(server, name, outgoing.owner)
            if dropped is None:
                self._tidy(name, server)
                return self._log_limiter.allow(name, self._clock())
            self._drop_oldest(*dropped)
            self._servers[name] = server
        self._in_flight.queue(outgoing)
        self._owners.wait(outgoing.owner, name)
        if answer:
            self._answers.put(server, name, outgoing)
        else:
            failing = self._is_failing(outgoing.error_name)
            server.sort(outgoing.error_name, failing)
            (server.failing if failing else server.healthy).put(outgoing)
            server.waiting_held += outgoing.held
        self._serve(name, server)
        return lost and self._log_limiter.allow(name, self._clock())

    def _drop_oldest(self, owner: str, name: str) -> None:
        """Drop the oldest answer of an owner at a server."""
        server = self._servers[name]
        lost = server.answers.take_of(owner)
        self._answers.remove(server, lost)
        self._owners.wait_no_longer(owner, name)
        self._in_flight.drop(lost)
        self._tidy(name, server)

    # --- shares ----------------------------------------------------------------------------------------------------

    def _has_capacity(self, server: Server) -> bool:
        """Whether the pool has an exchange for a server."""
        return server.in_use < SHARE * self._free

    def _lane(self, server: Server, outgoing: Outgoing) -> Lane:
        held = outgoing.held and not self._is_failing(outgoing.error_name)
        return server.held if held else server.answered

    def _has_room(self, server: Server, outgoing: Outgoing) -> bool:
        """Whether the limits of a server allow another post of this kind."""
        return self._lane(server, outgoing).has_room()

    def _owner_has_room(self, owner: str) -> bool:
        return self._owners.has_room(owner, self._free)

    def _may_try(self, server: Server) -> bool:
        """Whether failing endpoints of a server may have another exchange."""
        return server.trying < server.part(ALL_IN_TROUBLE)

    def _may_answer(self, server: Server, name: str) -> bool:
        return server.answering < server.part(FAILING_SHARE if self._is_failing(name) else ANSWERING)

    def _may_go(self, server: Server, outgoing: Outgoing) -> bool:
        """Whether a post may be made immediately if no other waits for the server."""
        name = outgoing.error_name
        if not self._owner_has_room(outgoing.owner):
            return False
        if outgoing.purpose is Purpose.ANSWER:
            return self._may_answer(server, name)
        few = self._may_try(server) and server.endpoints.get(name, 0) < server.part(FAILING_SHARE)
        return not self._is_failing(name) or (few and self._owners.may_try(outgoing.owner))

    def _serve(self, name: str, server: Server) -> None:
        """Let waiting posts of a server begin, as far as its share allows."""
        while self._serve_once(name, server, self._owner_has_room):
            pass
        self._tidy(name, server)

    def _serve_once(self, name: str, server: Server, may: Callable[[str], bool]) -> bool:
        """Let a waiting post of one of these owners begin, if there is one that may be made."""
        found = self._next(server, may) if self._has_capacity(server) and server.has_room() else None
        if found is None:
            return False
        self._owners.wait_no_longer(found.owner, name)
        server.waiting_held -= found.held
        self._take(server, found)
        return True

    def _serve_in_turn(self) -> None:
        """Let waiting posts begin while capacity is free. Owners take turns, and the servers of each owner."""
        served = True
        while served and self._free > 0:
            served = False
            for owner, names in self._owners.turns():
                if self._free <= 0:
                    return
                served |= self._owner_has_room(owner) and self._serve_owner(owner, names)

    def _serve_owner(self, owner: str, names: list[str]) -> bool:
        for name in names:
            server = self._servers[name]
            if self._serve_once(name, server, lambda each: each == owner and self._owner_has_room(each)):
                self._tidy(name, server)
                return True
        return False

    def _tidy(self, name: str, server: Server) -> None:
        """Drop the entry of a server without exchanges and waiting posts."""
        if not server.waiting and not server.in_use:
            self._servers.pop(name, None)

    def _next(self, server: Server, may: Callable[[str], bool]) -> Outgoing | None:
        """Take the next post of one of these owners to a server; ``None`` = none may be made."""
        for kind in server.order:
            found = self._next_of(server, kind, may)
            if found is not None:
                if kind is not server.order[-1]:
                    server.order.remove(kind)
                    server.order.append(kind)
                return found
        return None

    def _next_of(self, server: Server, kind: Kind, may: Callable[[str], bool]) -> Outgoing | None:
        has_room = partial(self._has_room, server)
        match kind:
            case Kind.HEALTHY:
                while (name := server.healthy.first(may)) is not None and self._is_failing(name):
                    server.sort(name, failing=True)
                return server.healthy.take(may, has_room)
            case Kind.FAILING_SHARE:
                few = server.part(FAILING_SHARE)
                if not (server.failing and self._may_try(server)):
                    return None
                return server.failing.take(
                    lambda owner: may(owner) and self._owners.may_try(owner),
                    lambda post: server.endpoints.get(post.error_name, 0) < few and has_room(post),
                )
            case Kind.ANSWER:
                if server.answering >= server.part(ANSWERING):
                    return None
                found = server.answers.take(
                    may, lambda post: self._may_answer(server, post.error_name) and has_room(post)
                )
                if found is not None:
                    self._answers.remove(server, found)
                return found

    def _take(self, server: Server, outgoing: Outgoing) -> None:
        answer, name = outgoing.purpose is Purpose.ANSWER, outgoing.error_name
        failing = not answer and self._is_failing(name)
        lane = self._lane(server, outgoing)
        weight = self._held if lane is server.held else WHOLE
        lane.open += 1
        server.answering += answer
        server.trying += failing
        server.endpoints[name] = server.endpoints.get(name, 0) + 1
        server.in_use += weight
        self._owners.take(outgoing.owner, weight, failing=failing)
        self._free -= weight  # may become negative: otherwise a heavy post could wait forever for light ones
        self._taken += 1
        self._ready.append(Begun(outgoing, weight, lane, failing))

    def _give_back(self, begun: Begun) -> None:
        """Return the capacity of an exchange."""
        outgoing, weight, failing = begun.outgoing, begun.weight, begun.failing
        name, answer = outgoing.error_name, outgoing.purpose is Purpose.ANSWER
        server = self._servers[outgoing.server]
        server.answering -= answer
        server.trying -= failing
        server.endpoints[name] -= 1
        if not server.endpoints[name]:
            del server.endpoints[name]
        server.in_use -= weight
        begun.lane.open -= 1
        self._owners.release(outgoing.owner, weight, failing=failing)
        self._taken -= 1
        self._free += weight
        if not answer:
            server.sort(name, self._is_failing(name))

    def _learn(self, end: Ended, now: float) -> None:
        """Note for the limit of a server how an exchange has ended. Those of failing endpoints are trials, and few."""
        outgoing, limit = end.begun.outgoing, end.begun.lane.limit
        if not end.overloaded:
            messages = 1 if outgoing.last is None else outgoing.last - (outgoing.number or 0) + 1
            limit.ended(messages, now, together=end.together)
        elif not end.begun.failing:
            limit.failed(end.begun.at, now)
