"""The threads that post, shared among the endpoints so that slow ones do not hold up the others."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from mercury.engine.endpoint_errors import LogLimiter
from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.runtime.server_lines import Kind, Server, Slot, WaitingAnswers

log = logging.getLogger("mercury.runtime")

#: What one exchange takes of what there is, and what one takes that the server may hold open for a response: it waits
#: most of its time, and the more are open, the more responses share a transaction.
WHOLE, HELD = 4, 1
#: A server may have this many times as much as is free: one alone has 3/4 of it, two 3/7 each, and so on; while
#: something is free, a server that has nothing gets it.
SHARE = 3
#: An endpoint whose last exchange failed may have this part, at least one exchange; all such endpoints of one server
#: may have twice as much.
FAILING_SHARE = 16
ALL_IN_TROUBLE = FAILING_SHARE // 2
#: Seconds for which a message is not posted again while its exchange is open: the connection has not lost it, and the
#: server is slow, or holds the exchange for the response. More than a server does so by default.
OPEN_TIMEOUT = 5.0
#: Answers that wait for one server, and for all, at most. A peer has as many of them posted as it sends small requests,
#: to an address that it names: above it the owner with most of them loses its oldest one. The repetition of the request
#: brings that again.
ANSWERS, ALL_ANSWERS = 100, 1000
#: Answers take this part of the exchanges at one server at most, at least one, and they get it whatever else waits.
ANSWERING = 4
#: Seconds in which one line is logged of the answers to one server that are not posted.
LOG_INTERVAL = 60.0


class SenderPool:
    """Threads that post. Of two posts that say the same only one waits; a message that is being posted does not.

    What waits for one server is served in turns: what goes to endpoints that work, what goes to endpoints in trouble,
    and answers (`Purpose.ANSWER`); of each who asked for it, one after the other, and of each of these the endpoints.
    What is for one endpoint and one owner stays in its order. Endpoints in trouble and answers have few exchanges, and
    nothing else waits for them. `ANSWERS` of the answers wait for one server at most.

    :param count: exchanges at once; of those that are held open for a response (`HELD`) four times as many, for which
        threads are started when they are needed.
    :param exchange: one HTTP exchange; whether it has brought something that is still to be stored: see `stored`.
    :param failing: whether few exchanges are to be begun, by `Outgoing.error_name`: the last one failed. It changes
        while an exchange with that name is open, and not at other times.
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
        #: What a thread may take, with what it takes of `_free`, and whether its endpoint is in trouble. There is a
        #: thread for each of them: whatever is here counts as in use.
        self._ready: queue.SimpleQueue[tuple[Outgoing, int, bool] | None] = queue.SimpleQueue()
        #: How many were taken and are not over.
        self._taken = 0
        self._mutex = threading.Lock()
        self._queued: set[Slot] = set()
        #: Messages that are being posted: since when the latest exchange of each is open.
        self._open: dict[Slot, float] = {}
        #: Servers that something is posted to or waits for; and those that something waits for, the one that was
        #: served longest ago first.
        self._servers: dict[str, Server] = {}
        self._waiting: OrderedDict[str, Server] = OrderedDict()
        self._answers = WaitingAnswers(ANSWERS, ALL_ANSWERS)
        #: About answers that are not posted.
        self._log_limiter = LogLimiter(1, LOG_INTERVAL)
        self._free = WHOLE * count

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
            if name not in self._waiting and self._has_room(server) and self._may_go(server, outgoing):
                self._queued.add(outgoing.slot)
                self._take(server, outgoing)
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

    def is_in_flight(self, record_id: str, number: int) -> bool:
        """Whether a message of a sequence waits here, or is being posted and not for too long."""
        slot = (Purpose.MESSAGE.value, record_id, number)
        with self._mutex:
            return slot in self._queued or self._is_open(slot)

    def stored(self, outgoing: Outgoing) -> None:
        """What its exchange has brought is committed."""
        with self._mutex:
            self._open.pop(outgoing.slot, None)

    def stop(self) -> None:
        """Forget what waits: it is due again after the next start."""
        with self._mutex:
            self._started = False
            for server in self._waiting.values():
                server.forget()
            self._waiting.clear()
            self._answers.clear()
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
            began = self._clock()
            with self._mutex:
                self._queued.discard(outgoing.slot)
                self._open[outgoing.slot] = began
            brought = None
            try:
                brought = self._exchange(outgoing)
            except Exception:
                log.exception("posting to %s failed; it is posted again when due", outgoing.url)
            finally:
                with self._mutex:
                    if not brought and self._open.get(outgoing.slot) == began:
                        del self._open[outgoing.slot]
                self._give_back(outgoing, weight, failing)

    def _is_open(self, slot: Slot) -> bool:
        """Whether a message is being posted. It is always the same; an acknowledgement may say more now."""
        began = self._open.get(slot)
        return began is not None and self._clock() < began + OPEN_TIMEOUT

    # --- what waits ------------------------------------------------------------------------------------------------

    def _wait(self, server: Server, name: str, outgoing: Outgoing) -> bool:
        """Let it wait; whether it is to be logged that an answer is not posted."""
        answer, lost = outgoing.purpose is Purpose.ANSWER, False
        if answer and self._answers.is_full(server):
            lost = True
            loser = self._answers.loser(server, name, outgoing.owner)
            if loser is None:
                self._tidy(name, server)
                return self._log_limiter.allow(name, self._clock())
            self._lose(*loser)
            self._servers[name] = server
        self._queued.add(outgoing.slot)
        self._waiting[name] = server
        if answer:
            self._answers.put(server, name, outgoing)
        else:
            failing = self._is_failing(outgoing.error_name)
            server.sort(outgoing.error_name, failing)
            (server.failing if failing else server.well).put(outgoing)
        self._serve(name, server)
        return lost and self._log_limiter.allow(name, self._clock())

    def _lose(self, owner: str, name: str) -> None:
        """The oldest answer of an owner at a server is not posted."""
        server = self._servers[name]
        lost = server.answers.take_of(owner)
        self._answers.took(server, lost)
        self._queued.discard(lost.slot)
        self._tidy(name, server)

    # --- shares ----------------------------------------------------------------------------------------------------

    def _has_room(self, server: Server) -> bool:
        return server.in_use < SHARE * self._free

    def _may_try(self, server: Server) -> bool:
        """Whether an endpoint in trouble may have another exchange, if it has few itself."""
        return server.trying < self._part(ALL_IN_TROUBLE)

    def _may_answer(self, server: Server, name: str) -> bool:
        return server.answering < self._part(FAILING_SHARE if self._is_failing(name) else ANSWERING)

    def _part(self, of: int) -> int:
        return max(1, self._count // of)

    def _may_go(self, server: Server, outgoing: Outgoing) -> bool:
        """Whether it may go at once, when nothing else waits for the server."""
        name = outgoing.error_name
        if outgoing.purpose is Purpose.ANSWER:
            return self._may_answer(server, name)
        few = self._may_try(server) and server.endpoints.get(name, 0) < self._part(FAILING_SHARE)
        return few or not self._is_failing(name)

    def _serve(self, name: str, server: Server) -> None:
        """Take what may be taken."""
        while self._has_room(server) and (found := self._next(server)) is not None:
            self._take(server, found)
            self._waiting.move_to_end(name)
        self._tidy(name, server)

    def _tidy(self, name: str, server: Server) -> None:
        """Forget what is over."""
        if not server.waiting:
            self._waiting.pop(name, None)
            if not server.in_use:
                self._servers.pop(name, None)

    def _next(self, server: Server) -> Outgoing | None:
        """What has its turn at a server. It waits no longer."""
        for kind in server.order:
            found = self._next_of(server, kind)
            if found is not None:
                if kind is not server.order[-1]:
                    server.order.remove(kind)
                    server.order.append(kind)
                return found
        return None

    def _next_of(self, server: Server, kind: Kind) -> Outgoing | None:
        match kind:
            case Kind.WELL:
                while (name := server.well.first()) is not None and self._is_failing(name):
                    server.sort(name, failing=True)
                return server.well.take()
            case Kind.FAILING_SHARE:
                few, may = self._part(FAILING_SHARE), server.failing and self._may_try(server)
                return server.failing.take(lambda name: server.endpoints.get(name, 0) < few) if may else None
            case Kind.ANSWER:
                if server.answering >= self._part(ANSWERING):
                    return None
                found = server.answers.take(lambda name: self._may_answer(server, name))
                if found is not None:
                    self._answers.took(server, found)
                return found

    def _take(self, server: Server, outgoing: Outgoing) -> None:
        answer, name = outgoing.purpose is Purpose.ANSWER, outgoing.error_name
        failing = not answer and self._is_failing(name)
        weight = HELD if outgoing.held and not failing else WHOLE
        server.answering += answer
        server.trying += failing
        server.endpoints[name] = server.endpoints.get(name, 0) + 1
        server.in_use += weight
        self._free -= weight  # below nothing at times: else what takes much might wait for ever for what takes little
        self._taken += 1
        self._ready.put((outgoing, weight, failing))
        if self._started and self._taken > len(self.threads):
            self._add_thread()

    def _give_back(self, outgoing: Outgoing, weight: int, failing: bool) -> None:
        """Something is free again: posts that wait and may have it get it."""
        at, name, answer = outgoing.server, outgoing.error_name, outgoing.purpose is Purpose.ANSWER
        with self._mutex:
            server = self._servers[at]
            server.answering -= answer
            server.trying -= failing
            server.endpoints[name] -= 1
            if not server.endpoints[name]:
                del server.endpoints[name]
            server.in_use -= weight
            self._taken -= 1
            self._free += weight
            if not answer:
                server.sort(name, self._is_failing(name))
            for each in list(self._waiting) if self._waiting else ():
                self._serve(each, self._waiting[each])
                if self._free <= 0:
                    break
            self._tidy(at, server)
