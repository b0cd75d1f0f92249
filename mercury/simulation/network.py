"""The network between nodes: it loses, duplicates, delays and cuts HTTP exchanges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from mercury.simulation.scenario import NetworkFaults
from mercury.simulation.world import World
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable

OnReply = Callable[[HttpMessage], None]
OnError = Callable[[str], None]


class Reachable(Protocol):
    """A node that can receive requests."""

    up: bool

    def handle_request(self, http: HttpMessage, path: str, reply: OnReply) -> None:
        """Handle a request; ``reply`` is called once or never."""


@dataclass(slots=True)
class _Exchange:
    on_reply: OnReply
    on_error: OnError
    over: bool = False

    def reply(self, http: HttpMessage) -> None:
        if not self.over:
            self.over = True
            self.on_reply(http)

    def error(self, text: str) -> None:
        if not self.over:
            self.over = True
            self.on_error(text)


class Network:
    """Transports requests and replies, with faults until `heal` is called."""

    def __init__(self, world: World, faults: NetworkFaults) -> None:
        self._world = world
        self._faults = faults
        #: The processes at each host.
        self._nodes: dict[str, list[Reachable]] = {}
        self._cut: set[frozenset[str]] = set()
        self.healed = False
        #: The number of requests sent, including retransmissions.
        self.requests = 0
        #: Decoded requests by path and bytes. A duplicate with the same bytes is not decoded again.
        self._read: dict[tuple[str, HttpMessage], Envelope | Undecodable] = {}

    def join(self, host: str, node: Reachable) -> None:
        self._nodes.setdefault(host, []).append(node)

    def plan_partitions(self, horizon: float) -> None:
        """Plan partitions of pairs of nodes at random times within ``horizon`` virtual seconds."""
        hosts = sorted(self._nodes)
        for _ in range(self._faults.partitions):
            pair = frozenset(self._world.random.sample(hosts, 2))
            start = self._world.random.uniform(0, horizon)
            length = self._world.random.uniform(0.5, self._faults.partition_length)
            self._world.after(start, partial(self._cut.add, pair))
            self._world.after(start + length, partial(self._cut.discard, pair))

    def heal(self) -> None:
        """End all faults: from now on every message arrives once, with a short delay."""
        self.healed = True
        self._cut.clear()

    def post(self, source: str, url: str, http: HttpMessage, on_reply: OnReply, on_error: OnError) -> None:
        """Start an HTTP exchange. Later either ``on_reply`` or ``on_error`` is called, once."""
        host, _, path = url.removeprefix("http://").partition("/")
        exchange = _Exchange(on_reply, on_error)
        self._world.after(self._faults.timeout, partial(exchange.error, "timed out"))
        if self._happens(self._faults.lose_request):
            return
        self._carry(source, host, path, http, exchange)
        if self._happens(self._faults.duplicate):
            self._carry(source, host, path, http, _Exchange(_ignore_reply, _ignore_error))

    def read(
        self, http: HttpMessage, path: str, decode: Callable[[], Envelope | Undecodable]
    ) -> Envelope | Undecodable:
        """The decoded request; requests with the same bytes are decoded once."""
        key = (path, http)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = decode()
        return found

    def _carry(self, source: str, host: str, path: str, http: HttpMessage, exchange: _Exchange) -> None:
        self.requests += 1
        pair = frozenset((source, host))

        def arrive() -> None:
            nodes = [node for node in self._nodes.get(host, ()) if node.up]
            if not nodes:
                exchange.error("connection refused")
            elif pair not in self._cut:
                node = nodes[0] if len(nodes) == 1 else self._world.random.choice(nodes)
                node.handle_request(http, path, back)

        def back(reply: HttpMessage) -> None:
            if pair not in self._cut and not self._happens(self._faults.lose_reply):
                self._world.after(self._delay(), partial(exchange.reply, reply))

        self._world.after(self._delay(), arrive)

    def _delay(self) -> float:
        random = self._world.random
        if self.healed:
            return random.uniform(0.0005, 0.005)
        delay = random.expovariate(1 / self._faults.delay)
        if random.random() < self._faults.late:
            delay += random.uniform(0, self._faults.lateness)
        return delay

    def _happens(self, probability: float) -> bool:
        return not self.healed and probability > 0 and self._world.random.random() < probability


def _ignore_reply(_reply: HttpMessage) -> None:
    """The reply to a duplicated request is discarded."""


def _ignore_error(_error: str) -> None:
    """The error of a duplicated request is discarded."""
