"""The network between both sides: it distributes exchanges among the processes of a side, and can be cut."""

from __future__ import annotations

import asyncio
import enum
import random
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeVar

from samples.lossy_network.proxy import NetworkFaults, Outcome, Proxy, exchange
from tests.chaos.kinds import Side
from tests.chaos.programs.setup import HOST

#: The faults of single exchanges, which occur all the time.
FAULTS = NetworkFaults(loss=0.01, duplicate=0.02, reset=0.01, delay=0.005)
CALM = NetworkFaults(loss=0.0, duplicate=0.0, reset=0.0, delay=0.0)
PATIENCE = 60.0

Done = TypeVar("Done")


class Cut(enum.Enum):
    """Which direction of the exchanges is cut."""

    NOTHING = "nothing"
    REQUESTS = "requests"
    REPLIES = "replies"
    #: Connections are reset.
    BOTH = "both"


@dataclass
class Route(Proxy):
    """The proxy to one side."""

    #: The ports of the side's processes.
    ports: Sequence[int] = ()
    cut: Cut = Cut.NOTHING

    def _draw(self) -> tuple[Outcome, float, bool]:
        outcome, delay, before = super()._draw()
        match self.cut:
            case Cut.NOTHING:
                return outcome, delay, before
            case Cut.BOTH:
                return Outcome.CUT, delay, True
            case _:
                return Outcome.DROPPED, delay, self.cut is Cut.REQUESTS

    async def _forward(self, request: bytes, times: int) -> bytes:
        reply = await super()._forward(request, times)
        # The network may have been cut while the request was forwarded.
        return b"" if self.cut in (Cut.REPLIES, Cut.BOTH) else reply

    async def _deliver(self, request: bytes) -> bytes:
        ports = self.chance.sample(self.ports, len(self.ports))
        for port in ports:
            try:
                return await exchange(f"http://{HOST}:{port}", request)
            except ConnectionRefusedError:
                continue  # this process does not run now
        raise ConnectionRefusedError


@dataclass
class Network:
    """The proxies to both sides, in a thread. They are stopped at the end of the block."""

    seed: int
    faults: NetworkFaults = FAULTS
    urls: dict[Side, str] = field(default_factory=dict)

    def __enter__(self) -> Network:
        self.routes = {side: Route(self.faults, random.Random(f"{self.seed} {side.value}")) for side in Side}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self.urls = {side: self._do(way.start()) for side, way in self.routes.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for way in self.routes.values():
                self._do(way.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
            self._loop.close()

    def port(self, side: Side) -> int:
        """The port of the proxy to a side."""
        return int(self.urls[side].rpartition(":")[2])

    def exchanges(self) -> dict[str, int]:
        """The number of exchanges by outcome."""
        return {outcome.value: sum(way.counts[outcome] for way in self.routes.values()) for outcome in Outcome}

    def _do(self, what: Coroutine[object, object, Done]) -> Done:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE)
