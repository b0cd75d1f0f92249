"""The threads that post, shared among the endpoints so that slow ones do not hold up the others."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.troubles import Lines

log = logging.getLogger("mercury.runtime")

Slot = tuple[str, str, int]

#: What one exchange takes of what there is, and what one takes that the server may hold open for a response: it waits
#: most of its time, and the more are open, the more responses share a transaction.
WHOLE, HELD = 4, 1
#: A server may have this many times as much as is free: one alone has 3/4 of it, two 3/7 each, and so on; while
#: something is free, a server that has nothing gets it.
SHARE = 3
#: A server whose last exchange failed may have this part, at least one exchange.
IN_TROUBLE = 16
#: Seconds for which a message is not posted again while its exchange is open: the connection has not lost it, and the
#: server is slow, or holds the exchange for the response. More than a server does so by default.
OPEN = 5.0
#: Answers that wait for one server, and for all, at most. A peer has as many of them posted as it sends small requests,
#: to an address that it names: those above are not posted, and the repetition of the request brings them again.
ANSWERS, ALL_ANSWERS = 100, 1000
#: Answers take this part of the exchanges at one server at most, at least one.
ANSWERING = 4
#: Seconds in which one line is logged of the answers to one server that are not posted.
TOLD = 60.0


@dataclass(slots=True)
class _Line:
    """What waits for its share of one server: answers behind all others."""

    posts: deque[Outgoing] = field(default_factory=deque)
    answers: deque[Outgoing] = field(default_factory=deque)


class Senders:
    """Threads that post. Of two posts that say the same only one waits; a message that is being posted does not.

    Answers (`Purpose.ANSWER`) are posted when nothing else waits for their server. `ANSWERS` of them wait there at
    most.

    :param count: exchanges at once; of those that are held open for a response (`HELD`) four times as many, for which
        threads are started when they are needed.
    :param exchange: one HTTP exchange; whether it has brought something that is still to be stored: see `stored`.
    :param in_trouble: whether the last exchange failed, by `Outgoing.known_as`.
    :param clock: seconds, monotonic.
    """

    def __init__(
        self,
        count: int,
        exchange: Callable[[Outgoing], bool | None],
        in_trouble: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.threads: list[threading.Thread] = []
        self._count = count
        self._started = False
        self._exchange = exchange
        self._in_trouble = in_trouble
        self._clock = clock
        #: What a thread may take, with what it takes of `_free`. There is a thread for each of them: whatever is here
        #: counts as in use.
        self._ready: queue.SimpleQueue[tuple[Outgoing, int] | None] = queue.SimpleQueue()
        #: How many were taken and are not over.
        self._taken = 0
        self._mutex = threading.Lock()
        self._queued: set[Slot] = set()
        #: Messages that are being posted: since when the latest exchange of each is open.
        self._open: dict[Slot, float] = {}
        #: By server: what waits for its share, the server that was served longest ago first; and how many are in use.
        self._waiting: OrderedDict[str, _Line] = OrderedDict()
        self._in_use: dict[str, int] = {}
        #: Answers: how many are being posted, by server; how many wait in all; lines about those that are not posted.
        self._answering: dict[str, int] = {}
        self._answers = 0
        self._lines = Lines(1, TOLD)
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
        """Post it when a thread is free for its server. An answer that too many others wait before is not posted."""
        server, answer, tell = outgoing.server, outgoing.purpose is Purpose.ANSWER, False
        with self._mutex:
            if outgoing.slot in self._queued or (outgoing.purpose is Purpose.MESSAGE and self._is_open(outgoing.slot)):
                return
            line = self._waiting.get(server)
            first = line is None or (not answer and not line.posts)
            if first and self._may_have_another(server, outgoing):
                self._queued.add(outgoing.slot)
                self._take(server, outgoing)
            elif answer and (self._answers >= ALL_ANSWERS or (line is not None and len(line.answers) >= ANSWERS)):
                tell = self._lines.allow(server, self._clock())
            else:
                self._queued.add(outgoing.slot)
                line = self._waiting.setdefault(server, _Line())
                (line.answers if answer else line.posts).append(outgoing)
                self._answers += answer
        if tell:
            log.warning(
                "answers to %s are not posted: too many wait already; the peers' repetitions bring them again. It is"
                " logged once in %.0f s",
                server,
                TOLD,
                extra={"endpoint": outgoing.url},
            )

    def under_way(self, record_id: str, number: int) -> bool:
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
            self._waiting.clear()
            self._answers = 0
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
            outgoing, weight = found
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
                self._give_back(outgoing, weight)

    def _is_open(self, slot: Slot) -> bool:
        """Whether a message is being posted. It is always the same; an acknowledgement may say more now."""
        began = self._open.get(slot)
        return began is not None and self._clock() < began + OPEN

    # --- shares ----------------------------------------------------------------------------------------------------

    def _may_have_another(self, server: str, outgoing: Outgoing) -> bool:
        if outgoing.purpose is Purpose.ANSWER and self._answering.get(server, 0) >= max(1, self._count // ANSWERING):
            return False
        in_use = self._in_use.get(server, 0)
        if in_use >= SHARE * self._free:
            return False
        return in_use < WHOLE * max(1, self._count // IN_TROUBLE) or not self._in_trouble(outgoing.known_as)

    def _take(self, server: str, outgoing: Outgoing) -> None:
        weight = HELD if outgoing.held and not self._in_trouble(outgoing.known_as) else WHOLE
        if outgoing.purpose is Purpose.ANSWER:
            self._answering[server] = self._answering.get(server, 0) + 1
        self._in_use[server] = self._in_use.get(server, 0) + weight
        self._free -= weight  # below nothing at times: else what takes much might wait for ever for what takes little
        self._taken += 1
        self._ready.put((outgoing, weight))
        if self._started and self._taken > len(self.threads):
            self._add_thread()

    def _give_back(self, outgoing: Outgoing, weight: int) -> None:
        """Something is free again: whoever waits and may have it gets it."""
        server = outgoing.server
        with self._mutex:
            if outgoing.purpose is Purpose.ANSWER:
                self._answering[server] -= 1
                if not self._answering[server]:
                    del self._answering[server]
            self._taken -= 1
            self._free += weight
            self._in_use[server] -= weight
            if not self._in_use[server]:
                del self._in_use[server]
            for name in list(self._waiting) if self._waiting else ():
                line = self._waiting[name]
                self._serve(name, line.posts)
                if not line.posts:
                    self._answers -= self._serve(name, line.answers)
                    if not line.answers:
                        del self._waiting[name]
                if self._free <= 0:
                    return

    def _serve(self, server: str, waiting: deque[Outgoing]) -> int:
        """Take what may be taken; how many."""
        taken = 0
        while waiting and self._may_have_another(server, waiting[0]):
            self._take(server, waiting.popleft())
            self._waiting.move_to_end(server)
            taken += 1
        return taken
