"""The proxy of the sample lossy_network, with the faults of a cell."""

from __future__ import annotations

import asyncio
import random
import threading
from types import TracebackType

from samples.lossy_network.proxy import NetworkFaults, Outcome, Proxy

#: 10 % of the exchanges are cut before or after they reach the server, 10 % reach it twice, all are delayed. With most
#: defaults a peer waits for a minute for an answer that never comes: a cut says it at once.
LOSSY = NetworkFaults(loss=0.0, duplicate=0.1, reset=0.1, delay=0.05)


class _Proxy(Proxy):
    """A copy goes its own way: the first one's reply does not wait for it, and some peers never answer a copy."""

    def __init__(self, faults: NetworkFaults, chance: random.Random, target: str) -> None:
        super().__init__(faults, chance, target)
        self._copies: set[asyncio.Task[bytes]] = set()

    async def _forward(self, request: bytes, times: int) -> bytes:
        if times > 1:
            copy = asyncio.get_running_loop().create_task(self._deliver(request))
            self._copies.add(copy)
            copy.add_done_callback(self._forget)
        return await self._deliver(request)

    def _forget(self, copy: asyncio.Task[bytes]) -> None:
        self._copies.discard(copy)
        if not copy.cancelled():
            copy.exception()  # no task awaits it

    async def stop(self) -> None:
        copies = list(self._copies)
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        await super().stop()


class Network:
    """A proxy in a thread of its own; a context manager.

    :param target: ``http://host:port`` that it forwards to.
    """

    def __init__(self, target: str, seed: int, faults: NetworkFaults = LOSSY) -> None:
        self._loop = asyncio.new_event_loop()
        self._proxy = _Proxy(faults, random.Random(seed), target)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> Network:
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._proxy.start(), self._loop).result(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.stop(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def harm(self) -> str:
        """What it did, in words."""
        counts = self._proxy.counts
        return f"{counts[Outcome.CUT]} of {sum(counts.values())} exchanges cut, {counts[Outcome.REPEATED]} repeated"
