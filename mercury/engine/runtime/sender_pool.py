"""The exchanges of posts, shared fairly among endpoints: slow ones do not delay the others."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.engine.runtime.owner_shares import OwnerShares
from mercury.engine.runtime.server_queues import Kind, Server, Slot, WaitingAnswers

log = logging.getLogger("mercury.runtime")

#: The weight of one exchange, and of one that the server may hold open for a response. The latter weighs less: it
#: mostly waits, and with more of them open more responses share a transaction.
WHOLE, HELD = 4, 1
#: A server may use this many times the free capacity: a single server gets 3/4 of the total, two get 3/7 each, and so
#: on. A server that uses none always gets free capacity. A peer has such a share in half of the capacity, whatever
#: servers it names (`OwnerShares`).
SHARE = 3
#: An endpoint whose last exchange failed may use this part, at least one exchange; all such endpoints of one server
#: together may use twice as much, and those of one owner half of all exchanges.
FAILING_SHARE = 16
ALL_IN_TROUBLE = FAILING_SHARE // 2
TROUBLE_OF_OWNER = 2
#: Seconds for which a message is not posted again while its exchange is open: it is not lost, but the server is slow or
#: holds the exchange for the response. Longer than the default time for which a server holds it.
OPEN_TIMEOUT = 5.0
#: The same for an acknowledged request: the destination has it, and only its response is awaited. Some destinations
#: send responses one after the other, and one of them sends none any more after that of a repeated request (LIVE-14).
#: Longer than the default `http.timeout`, after which the exchange ends by itself.
ACKNOWLEDGED_TIMEOUT = 60.0
#: The most answers that wait for one server, and for all servers. A peer can cause any number of answers, to any
#: address, by small requests: above the limit the oldest answer of the owner with most of them is dropped. It is made
#: again when the request is repeated.
ANSWERS, ALL_ANSWERS = 100, 1000
#: The part of the exchanges of one server that is reserved for answers, and their limit; at least one exchange.
ANSWERING = 4


@dataclass(slots=True, eq=False)
class Begun:
    """An exchange that may begin, and what it counts for until it ends."""

    outgoing: Outgoing
    weight: int
    #: It began while its endpoint failed.
    failing: bool
    #: When it began, by the clock; infinite for a message with attachments, which may be sent for longer than the
    #: limit: it counts as in flight until its exchange ends.
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """An exchange that has ended."""

    begun: Begun
    #: Its reply has yet to be stored: see `SenderPool.stored`.
    queued_reply: bool


class SenderPool:
    """Decides which posts may begin. Equal posts wait only once; a message that is being posted does not wait again.

    The posts to one server take turns: those to endpoints that work, those to endpoints whose last exchange failed, and
    answers (`Purpose.ANSWER`). In each of these three kinds the owners take turns, and for each owner the endpoints.
    Posts to one endpoint for one owner keep their order. Failing endpoints and answers have few exchanges, and delay
    no others. At most `ANSWERS` answers wait for one server.
    Posts of one peer (`Outgoing.owner`) wait for at most `WAITING_SERVERS` servers: a post for a further server is
    dropped, and is due again later.

    Thread-safe. It uses no thread: `begin` is called by the thread that calls `start`, `put` or `ended`.

    :param count: the most parallel exchanges; four times as many if they are held open for a response (`HELD`).
    :param begin: begins exchanges, and must not wait; `ended` is called at the end of each. It must not raise.
    :param failing: returns whether the last exchange with an `Outgoing.error_name` failed, so that it gets few. The
        result changes only while an exchange with that name is open.
    :param clock: seconds, monotonic.
    """

    def __init__(
        self,
        count: int,
        begin: Callable[[Sequence[Begun]], None],
        failing: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
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
        #: The messages that wait here, or that may begin.
        self._queued: set[Slot] = set()
        #: The messages that are being posted, with the begin of their latest exchange.
        self._open: dict[Slot, float] = {}
        #: The batches among these messages, with the number of the last message of each.
        self._batches: dict[Slot, int] = {}
        #: The servers with open exchanges or waiting posts.
        self._servers: dict[str, Server] = {}
        self._answers = WaitingAnswers(ANSWERS, ALL_ANSWERS)
        #: The times of the last log lines about dropped answers.
        self._log_limiter = LogLimiter(1, LOG_INTERVAL)
        self._free = WHOLE * count
        self._owners = OwnerShares(WHOLE * count, SHARE, self._part(TROUBLE_OF_OWNER))

    def start(self) -> None:
        """Begin what was put until now, and let what follows begin."""
        with self._mutex:
            self._started = True
            ready = self._handed_over()
        if ready:
            self._begin(ready)

    def put(self, posts: Iterable[Outgoing]) -> None:
        """Post these when there is room. Of too many answers that wait, some are not posted."""
        crowded = []
        with self._mutex:
            for outgoing in posts:
                if self._put(outgoing):
                    crowded.append(outgoing)
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
        name, slot = outgoing.server, outgoing.slot
        if slot in self._queued or (outgoing.purpose is Purpose.MESSAGE and self._is_open(slot)):
            return False
        server = self._servers.get(name)
        if server is None:
            server = self._servers[name] = Server()
        if not server.waiting and self._has_room(server) and self._may_go(server, outgoing):
            self._queue(outgoing)
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
            slot = each.outgoing.slot
            each.at = self._open[slot] = math.inf if each.outgoing.envelope.parts else now
            self._queued.discard(slot)
        return ready

    def ended(self, ends: Sequence[Ended]) -> None:
        """Report that exchanges have ended. What waits for their room begins."""
        with self._mutex:
            for end in ends:
                begun = end.begun
                slot = begun.outgoing.slot
                if self._open.get(slot) == begun.at:
                    if end.queued_reply:
                        self._open[slot] = min(begun.at, self._clock())
                    else:
                        del self._open[slot]
                        self._forget_batch(slot)
                self._give_back(begun)
            if self._started:
                self._serve_in_turn()
            ready = self._handed_over()
            for name in {end.begun.outgoing.server for end in ends}:
                self._tidy(name, self._servers[name])
            if not self._begun:
                self._all_ended.notify_all()
        if ready:
            self._begin(ready)

    def is_in_flight(self, record_id: str, number: int, acknowledged: bool = False) -> bool:
        """Whether a message of a sequence waits here, or has been in an open exchange for less than the limit.

        :param acknowledged: it is a request that is acknowledged, which has a longer limit.
        """
        slot, limit = (Purpose.MESSAGE.value, record_id, number), ACKNOWLEDGED_TIMEOUT if acknowledged else OPEN_TIMEOUT
        with self._mutex:
            return any(each in self._queued or self._is_open(each, limit) for each in (slot, *self._batches_with(slot)))

    def stored(self, posts: Iterable[Outgoing]) -> None:
        """Report that the replies of exchanges are committed."""
        with self._mutex:
            for outgoing in posts:
                self._open.pop(outgoing.slot, None)
                self._forget_batch(outgoing.slot)

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
                self._queued.discard(begun.outgoing.slot)
                self._give_back(begun)
            self._ready.clear()
            self._batches.clear()

    def wait(self, timeout: float) -> int:
        """Wait until all exchanges have ended, or for so many seconds. Returns how many are open."""
        with self._mutex:
            self._all_ended.wait_for(lambda: not self._begun, timeout)
            return self._begun

    @property
    def _begun(self) -> int:
        """The number of open exchanges; what is put after `stop` never begins."""
        return self._taken - len(self._ready)

    def _queue(self, outgoing: Outgoing) -> None:
        self._queued.add(outgoing.slot)
        if outgoing.last is not None:
            self._batches[outgoing.slot] = outgoing.last

    def _batches_with(self, slot: Slot) -> list[Slot]:
        """The batches that contain the message of a slot."""
        of_it = [each for each in self._batches if each[:2] == slot[:2]]
        return [each for each in of_it if each[2] <= slot[2] <= self._batches[each]]

    def _forget_batch(self, slot: Slot) -> None:
        if slot not in self._queued:
            self._batches.pop(slot, None)

    def _is_open(self, slot: Slot, limit: float = OPEN_TIMEOUT) -> bool:
        """Whether the message of a slot is being posted. An acknowledgement never counts: a later one may have more."""
        began = self._open.get(slot)
        return began is not None and self._clock() < began + limit

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
        self._queue(outgoing)
        self._owners.wait(outgoing.owner, name)
        if answer:
            self._answers.put(server, name, outgoing)
        else:
            failing = self._is_failing(outgoing.error_name)
            server.sort(outgoing.error_name, failing)
            (server.failing if failing else server.healthy).put(outgoing)
        self._serve(name, server)
        return lost and self._log_limiter.allow(name, self._clock())

    def _drop_oldest(self, owner: str, name: str) -> None:
        """Drop the oldest answer of an owner at a server."""
        server = self._servers[name]
        lost = server.answers.take_of(owner)
        self._answers.remove(server, lost)
        self._owners.wait_no_longer(owner, name)
        self._queued.discard(lost.slot)
        self._tidy(name, server)

    # --- shares ----------------------------------------------------------------------------------------------------

    def _has_room(self, server: Server) -> bool:
        return server.in_use < SHARE * self._free

    def _owner_has_room(self, owner: str) -> bool:
        return self._owners.has_room(owner, self._free)

    def _may_try(self, server: Server) -> bool:
        """Whether failing endpoints of a server may have another exchange."""
        return server.trying < self._part(ALL_IN_TROUBLE)

    def _may_answer(self, server: Server, name: str) -> bool:
        return server.answering < self._part(FAILING_SHARE if self._is_failing(name) else ANSWERING)

    def _part(self, of: int) -> int:
        return max(1, self._count // of)

    def _may_go(self, server: Server, outgoing: Outgoing) -> bool:
        """Whether a post may be made immediately if no other waits for the server."""
        name = outgoing.error_name
        if not self._owner_has_room(outgoing.owner):
            return False
        if outgoing.purpose is Purpose.ANSWER:
            return self._may_answer(server, name)
        few = self._may_try(server) and server.endpoints.get(name, 0) < self._part(FAILING_SHARE)
        return not self._is_failing(name) or (few and self._owners.may_try(outgoing.owner))

    def _serve(self, name: str, server: Server) -> None:
        """Let waiting posts of a server begin, as far as its share allows."""
        while self._serve_once(name, server, self._owner_has_room):
            pass
        self._tidy(name, server)

    def _serve_once(self, name: str, server: Server, may: Callable[[str], bool]) -> bool:
        """Let a waiting post of one of these owners begin, if there is one that may be made."""
        found = self._next(server, may) if self._has_room(server) else None
        if found is None:
            return False
        self._owners.wait_no_longer(found.owner, name)
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
        match kind:
            case Kind.HEALTHY:
                while (name := server.healthy.first(may)) is not None and self._is_failing(name):
                    server.sort(name, failing=True)
                return server.healthy.take(may)
            case Kind.FAILING_SHARE:
                few = self._part(FAILING_SHARE)
                if not (server.failing and self._may_try(server)):
                    return None
                return server.failing.take(
                    lambda owner: may(owner) and self._owners.may_try(owner),
                    lambda name: server.endpoints.get(name, 0) < few,
                )
            case Kind.ANSWER:
                if server.answering >= self._part(ANSWERING):
                    return None
                found = server.answers.take(may, lambda name: self._may_answer(server, name))
                if found is not None:
                    self._answers.remove(server, found)
                return found

    def _take(self, server: Server, outgoing: Outgoing) -> None:
        answer, name = outgoing.purpose is Purpose.ANSWER, outgoing.error_name
        failing = not answer and self._is_failing(name)
        weight = HELD if outgoing.held and not failing else WHOLE
        server.answering += answer
        server.trying += failing
        server.endpoints[name] = server.endpoints.get(name, 0) + 1
        server.in_use += weight
        self._owners.take(outgoing.owner, weight, failing=failing)
        self._free -= weight  # may become negative: otherwise a heavy post could wait forever for light ones
        self._taken += 1
        self._ready.append(Begun(outgoing, weight, failing))

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
        self._owners.release(outgoing.owner, weight, failing=failing)
        self._taken -= 1
        self._free += weight
        if not answer:
            server.sort(name, self._is_failing(name))
