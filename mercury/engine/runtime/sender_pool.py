"""The threads that post, shared fairly among endpoints: slow ones do not delay the others."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable

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


class SenderPool:
    """Threads that post. Equal posts wait only once; a message that is being posted does not wait again.

    The posts to one server take turns: those to endpoints that work, those to endpoints whose last exchange failed, and
    answers (`Purpose.ANSWER`). In each of these three kinds the owners take turns, and for each owner the endpoints.
    Posts to one endpoint for one owner keep their order. Failing endpoints and answers have few exchanges, and delay
    no others. At most `ANSWERS` answers wait for one server.
    Posts of one peer (`Outgoing.owner`) wait for at most `WAITING_SERVERS` servers: a post for a further server is
    dropped, and is due again later.

    :param count: the most parallel exchanges; four times as many if they are held open for a response (`HELD`). Threads
        are started when they are needed.
    :param exchange: makes one HTTP exchange; returns whether its reply has yet to be stored: see `stored`.
    :param failing: returns whether the last exchange with an `Outgoing.error_name` failed, so that it gets few. The
        result changes only while an exchange with that name is open.
    :param clock: seconds, monotonic.
    """

    def __init__(
        self,
        count: int,
        exchange: Callable[[Outgoing], bool | None],
        failing: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.threads: list[threading.Thread] = []
        self._count = count
        self._started = False
        self._exchange = exchange
        self._is_failing = failing
        self._clock = clock
        #: Posts that threads may take, each with its weight and whether its endpoint fails. A thread exists for each:
        #: they count as in use.
        self._ready: queue.SimpleQueue[tuple[Outgoing, int, bool] | None] = queue.SimpleQueue()
        #: The number of open exchanges.
        self._taken = 0
        self._mutex = threading.Lock()
        self._queued: set[Slot] = set()
        #: The messages that are being posted, with the begin of their latest exchange.
        self._open: dict[Slot, float] = {}
        #: The servers with open exchanges or waiting posts.
        self._servers: dict[str, Server] = {}
        self._answers = WaitingAnswers(ANSWERS, ALL_ANSWERS)
        #: The times of the last log lines about dropped answers.
        self._log_limiter = LogLimiter(1, LOG_INTERVAL)
        #: The times of the last log lines about unexpected errors of posts: a server may cause any number.
        self._errors = LogLimiter(1, LOG_INTERVAL)
        self._free = WHOLE * count
        self._owners = OwnerShares(WHOLE * count, SHARE, self._part(TROUBLE_OF_OWNER))

    def start(self) -> None:
        with self._mutex:
            self._started = True
            while len(self.threads) < max(self._count, self._taken):
                self._add_thread()

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"mercury-sender-{len(self.threads)}", daemon=True)
        thread.start()
        self.threads.append(thread)

    def put(self, outgoing: Outgoing) -> None:
        """Post it when a thread is free for it. Of too many answers that wait, one is not posted."""
        name, notify = outgoing.server, False
        with self._mutex:
            if outgoing.slot in self._queued or (outgoing.purpose is Purpose.MESSAGE and self._is_open(outgoing.slot)):
                return
            server = self._servers.get(name)
            if server is None:
                server = self._servers[name] = Server()
            if not server.waiting and self._has_room(server) and self._may_go(server, outgoing):
                self._queued.add(outgoing.slot)
                self._take(server, outgoing)
            elif not self._owners.may_wait(outgoing.owner, name):
                self._tidy(name, server)
            else:
                notify = self._wait(server, name, outgoing)
        if notify:
            log.warning(
                "answers to %s are not posted: too many wait already; the peers' repetitions bring them again. It is"
                " logged once in %.0f s",
                name,
                LOG_INTERVAL,
                extra={"endpoint": outgoing.url},
            )

    def is_in_flight(self, record_id: str, number: int, acknowledged: bool = False) -> bool:
        """Whether a message of a sequence waits here, or has been in an open exchange for less than the limit.

        :param acknowledged: it is a request that is acknowledged, which has a longer limit.
        """
        slot = (Purpose.MESSAGE.value, record_id, number)
        with self._mutex:
            return slot in self._queued or self._is_open(slot, ACKNOWLEDGED_TIMEOUT if acknowledged else OPEN_TIMEOUT)

    def stored(self, outgoing: Outgoing) -> None:
        """Report that the reply of an exchange is committed."""
        with self._mutex:
            self._open.pop(outgoing.slot, None)

    def stop(self) -> None:
        """Drop the waiting posts: they are due again after the next start."""
        with self._mutex:
            self._started = False
            for name, server in list(self._servers.items()):
                server.forget()
                self._tidy(name, server)
            self._answers.clear()
            self._owners.clear()
        while True:
            try:
                self._ready.get_nowait()
            except queue.Empty:
                break
        for _ in self.threads:
            self._ready.put(None)

    def _run(self) -> None:
        while True:
            found = self._ready.get()
            if found is None:
                return
            outgoing, weight, failing = found
            # A large message may be sent for longer than the limit: it counts until its exchange ends.
            began = math.inf if outgoing.envelope.parts else self._clock()
            with self._mutex:
                self._queued.discard(outgoing.slot)
                self._open[outgoing.slot] = began
            queued_reply = None
            try:
                queued_reply = self._exchange(outgoing)
            except Exception:
                with self._mutex:
                    allowed = self._errors.allow(outgoing.server, self._clock())
                if allowed:
                    log.exception(
                        "posting to %s failed; it is posted again when due. It is logged for a server once in %.0f s",
                        outgoing.url,
                        LOG_INTERVAL,
                    )
            finally:
                with self._mutex:
                    if self._open.get(outgoing.slot) == began:
                        if queued_reply:
                            self._open[outgoing.slot] = min(began, self._clock())
                        else:
                            del self._open[outgoing.slot]
                self._give_back(outgoing, weight, failing)

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
        self._queued.add(outgoing.slot)
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
        """Pass waiting posts of a server to threads, as far as its share allows."""
        while self._serve_once(name, server, self._owner_has_room):
            pass
        self._tidy(name, server)

    def _serve_once(self, name: str, server: Server, may: Callable[[str], bool]) -> bool:
        """Pass a waiting post of one of these owners to a thread, if there is one that may be made."""
        found = self._next(server, may) if self._has_room(server) else None
        if found is None:
            return False
        self._owners.wait_no_longer(found.owner, name)
        self._take(server, found)
        return True

    def _serve_in_turn(self) -> None:
        """Pass waiting posts to threads while capacity is free. Owners take turns, and the servers of each owner."""
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
        self._ready.put((outgoing, weight, failing))
        if self._started and self._taken > len(self.threads):
            self._add_thread()

    def _give_back(self, outgoing: Outgoing, weight: int, failing: bool) -> None:
        """Return the capacity of an exchange, and give it to waiting posts."""
        at, name, answer = outgoing.server, outgoing.error_name, outgoing.purpose is Purpose.ANSWER
        with self._mutex:
            server = self._servers[at]
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
            self._serve_in_turn()
            self._tidy(at, server)
