"""The faulty network between client and server: a proxy for each direction, which also counts retransmissions."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from samples.lossy_network.proxy import NetworkFaults, Proxy
from samples.queued_transaction.demo.options import Options

#: Shares of exchanges whose connection is reset, and the longest delay in seconds.
RESET, DELAY = 0.05, 0.02

IDENTIFIER = re.compile(rb"<(?:\w+:)?Sequence[ >].*?<(?:\w+:)?Identifier[^>]*>([^<]+)<", re.DOTALL)
NUMBER = re.compile(rb"<(?:\w+:)?MessageNumber[^>]*>(\d+)<")


@dataclass
class WatchedProxy(Proxy):
    """Counts messages and retransmissions before the network's faults."""

    retransmissions: int = 0
    _seen: set[tuple[bytes, bytes]] = field(default_factory=set)

    def on_request(self, request: bytes) -> None:
        identifier, number = IDENTIFIER.search(request), NUMBER.search(request)
        if identifier is None or number is None:
            return
        message = (identifier[1], number[1])
        if message in self._seen:
            self.retransmissions += 1
        self._seen.add(message)


@dataclass(frozen=True)
class Network:
    to_server: WatchedProxy
    to_client: WatchedProxy

    @classmethod
    def of(cls, options: Options) -> Network:
        faults = NetworkFaults(options.loss, options.duplicate, RESET, DELAY)
        there, back = (WatchedProxy(faults, random.Random(f"{options.seed} {way}")) for way in ("there", "back"))
        return cls(there, back)

    async def stop(self) -> None:
        """Stop both proxies."""
        await self.to_server.stop()
        await self.to_client.stop()

    @property
    def retransmissions(self) -> int:
        return self.to_server.retransmissions + self.to_client.retransmissions
