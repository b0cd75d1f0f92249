"""The threads that post, shared among the endpoints so that slow ones do not hold up the others."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from mercury.engine.exchange import Outgoing, Purpose

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


class Senders:
    """Threads that post. Of two posts that say the same only one waits; a message that is being posted does not.

    :param count: exchanges at once; of those that are held open for a response (`HELD`) four times as many, for which
        threads are started when they are needed.
    :param exchange: one HTTP exchange; whether it has brought something that is still to be stored: see `stored`.
    :param in_trouble: whether the last exchange with a URL failed.
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
        self._waiting: OrderedDict[str, deque[Outgoing]] = OrderedDict()
        self._in_use: dict[str, int] = {}
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
        """Post it when a thread is free for its server."""
        server = _server(outgoing.url)
        with self._mutex:
            if outgoing.slot in self._queued or (outgoing.purpose is Purpose.MESSAGE and self._is_open(outgoing.slot)):
                return
            self._queued.add(outgoing.slot)
            waiting = self._waiting.get(server)
            if waiting is not None:
                waiting.append(outgoing)
            elif self._may_have_another(server, outgoing):
                self._take(server, outgoing)
            else:
                self._waiting[server] = deque((outgoing,))

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
                self._give_back(_server(outgoing.url), weight)

    def _is_open(self, slot: Slot) -> bool:
        """Whether a message is being posted. It is always the same; an acknowledgement may say more now."""
        began = self._open.get(slot)
        return began is not None and self._clock() < began + OPEN

    # --- shares ----------------------------------------------------------------------------------------------------

    def _may_have_another(self, server: str, outgoing: Outgoing) -> bool:
        in_use = self._in_use.get(server, 0)
        if in_use >= SHARE * self._free:
            return False
        return in_use < WHOLE * max(1, self._count // IN_TROUBLE) or not self._in_trouble(outgoing.url)

    def _take(self, server: str, outgoing: Outgoing) -> None:
        weight = HELD if outgoing.held and not self._in_trouble(outgoing.url) else WHOLE
        self._in_use[server] = self._in_use.get(server, 0) + weight
        self._free -= weight  # below nothing at times: else what takes much might wait for ever for what takes little
        self._taken += 1
        self._ready.put((outgoing, weight))
        if self._started and self._taken > len(self.threads):
            self._add_thread()

    def _give_back(self, server: str, weight: int) -> None:
        """Something is free again: whoever waits and may have it gets it."""
        with self._mutex:
            self._taken -= 1
            self._free += weight
            self._in_use[server] -= weight
            if not self._in_use[server]:
                del self._in_use[server]
            for name in list(self._waiting) if self._waiting else ():
                waiting = self._waiting[name]
                while waiting and self._may_have_another(name, waiting[0]):
                    self._take(name, waiting.popleft())
                    self._waiting.move_to_end(name)
                if not waiting:
                    del self._waiting[name]
                if self._free <= 0:
                    return


def _server(url: str) -> str:
    """What shares are counted by: the URL without its path."""
    return "/".join(url.split("/", 3)[:3])
