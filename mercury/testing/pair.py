"""A client and a server in one thread: two `Mercury`s, a wire between them, and a clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mercury.client.overview import waiting_by_key
from mercury.client.sender import Sender
from mercury.engine.addresses import AddressPolicy
from mercury.engine.endpoint_errors import TRIED_AGAIN
from mercury.engine.exchange import Outgoing
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.threads import Runtime
from mercury.errors import ConfigurationError
from mercury.facade import Mercury
from mercury.service import paths
from mercury.service.definition import Service
from mercury.settings import Settings
from mercury.statemachine.messages import ANONYMOUS
from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import Resources, open_store
from mercury.testing.clock import FakeClock
from mercury.testing.ids import CountedIds
from mercury.testing.process import Process
from mercury.testing.store import Crash, SimulatedStore
from mercury.testing.wire import Wire
from mercury.wire.envelope import HttpMessage

#: Hosts in URLs.
CLIENT, SERVER = "client", "server"
#: Seconds by which the clock moves at least, and at most while nothing comes of what is due.
LEAST_STEP, LARGEST_STEP = 0.001, 1.0


class Node(Mercury):
    """A `Mercury` whose work is done in the test's thread; made by `Pair`.

    All that a `Mercury` has is here but what needs a network of its own (`listen`, `app`). ``store`` is a
    `SimulatedStore`: ``node.store.crash_after()``.
    """

    store: SimulatedStore

    def __init__(
        self, host: str, wire: Wire, store: StorageManager, settings: Settings, resources: Resources | None
    ) -> None:
        self._process = _NodeProcess(host, wire, self)
        super().__init__(
            SimulatedStore(store),
            settings=settings,
            resources=resources or {},
            ids=CountedIds(host),
            clock=wire.clock,
            runtime=self._by_hand,
        )

    @property
    def crashes(self) -> int:
        """How often it has crashed and started again."""
        return self._process.crashes

    def crash(self) -> None:
        """End the process as a power failure would, and start it again at once.

        What is committed is there afterwards, as are services and callbacks; transactions that are open are rolled
        back, responses that futures wait for do not come (`SequenceFailed`). Called in a handler or callback, it ends
        that too.
        """
        if self.store.open:
            raise Crash("in a transaction")
        self._process.crash()

    def kill(self) -> None:
        """End the process as a power failure would. It stays down until `restart`: connections to it are refused.

        Not to be called in a handler or callback; see `crash`.
        """
        self._process.stop()

    def restart(self) -> None:
        """Start the process again after `kill`."""
        self._process.start()

    def waiting(self) -> list[str]:
        """What waits here, a line for each key and service, with what keeps it; nothing = all is done."""
        lines = []
        for key, count in waiting_by_key(self.store).items():
            if key.endpoint == ANONYMOUS:
                continue  # responses that are fetched: they are waited for at the other end
            last_error = self.to(key.endpoint, key=key.name, listen=False).last_error
            lines.append(_line(f"{self._process.host}: {count} to {key.endpoint}, key {key.name}", last_error))
        for status in self.sequences():
            if status.side == "destination" and status.waiting:
                where = f"for service {status.endpoint}" if status.endpoint else "of responses"
                lines.append(_line(f"{self._process.host}: {status.waiting} {where}", status.last_error))
        return lines

    def _by_hand(self, engine: Engine, *context: Any) -> Runtime:
        return _ByHand(self._process, engine, *context)

    def _start_again(self) -> None:
        self.futures.abandon("the process crashed")
        self._runtime = None
        self.start()


class _NodeProcess(Process):
    """The process of a `Node`."""

    def __init__(self, host: str, wire: Wire, node: Node) -> None:
        super().__init__(host, wire)
        self._node = node

    @property
    def due_in(self) -> StorageManager:
        return self._node.store

    def start(self) -> None:
        self._node._start_again()

    def begin(self, engine: Engine) -> None:
        """A life begins."""
        self.engine = engine
        self.up = True

    def stop(self) -> None:
        super().stop()
        # Nobody waits for the lease of a process that is known to be gone.
        self.engine.stop()

    def answered(self, outgoing: Outgoing, http: HttpMessage) -> None:
        self.engine.endpoint_errors.worked(outgoing.error_name, self._wire.clock.now)
        super().answered(outgoing, http)

    def failed(self, outgoing: Outgoing, error: str) -> None:
        name = outgoing.error_name
        self.engine.endpoint_errors.failed(name, f"{name}: {error}", self._wire.clock.now, again=TRIED_AGAIN)
        super().failed(outgoing, error)


class _ByHand(Runtime):
    """A runtime whose threads are never started: its process is worked by the wire."""

    def __init__(self, process: _NodeProcess, engine: Engine, *context: Any) -> None:
        super().__init__(engine, *context)
        self._process = process
        self._of = engine

    def start(self) -> None:
        self._process.begin(self._of)

    def stop(self, deadline: float) -> None:  # noqa: ARG002  nothing runs that could be waited for
        if self.running:
            self._process.stop()

    @property
    def running(self) -> bool:
        return self._process.up and self._process.engine is self._of


class Pair:
    """A client and a server in one thread, joined by a `Wire`.

    Nothing happens by itself: `run` and `advance` do all work, in the calling thread, and time passes only there. So a
    test is the same each time, and an hour of retransmissions takes milliseconds.

    :param services: what the server hosts.
    :param client_services: what the client hosts, for servers that send messages too.
    :param listen: whether the client has an address, to which acknowledgements and responses are posted; else they come
        back in the replies to its own messages.
    :param settings: of both nodes; left out, the defaults. No file and no environment variable is read.
    :param client_store: of the client; left out, memory. A store, or its URL: a new one, which nobody else uses.
    :param server_store: of the server.
    :param client_resources: databases of the client's two-phase commits, as `Mercury` takes them.
    :param server_resources: the server's.
    :param clock: left out, a new one.
    :raises ConfigurationError: a service has no operation, or its name is taken; a URL names no store.
    """

    def __init__(
        self,
        *services: Service,
        client_services: Iterable[Service] = (),
        listen: bool = False,
        settings: Settings | None = None,
        client_store: str | StorageManager | None = None,
        server_store: str | StorageManager | None = None,
        client_resources: Resources | None = None,
        server_resources: Resources | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.wire = Wire(self.clock)
        self._services = services
        given = settings or Settings()
        engine = replace(given.engine, addresses=AddressPolicy((f"http://{CLIENT}/", f"http://{SERVER}/")))
        given = replace(given, engine=engine)
        self.client = Node(
            CLIENT,
            self.wire,
            _opened(client_store),
            replace(given, address=f"http://{CLIENT}" if listen else None),
            client_resources,
        )
        self.server = Node(
            SERVER,
            self.wire,
            _opened(server_store),
            replace(given, address=f"http://{SERVER}"),
            server_resources,
        )
        for node, hosted in ((self.client, tuple(client_services)), (self.server, services)):
            for service in hosted:
                node.add_service(service)
            node.start()

    def url(self, service: Service | str | None = None) -> str:
        """The URL of a service of the server.

        :param service: it or its name; left out, the only one.
        :raises ConfigurationError: left out, and there is not exactly one.
        """
        if service is None:
            service = self._only()
        name = service if isinstance(service, str) else service.name
        return f"http://{SERVER}{paths.SERVICES}/{name}"

    def to(self, service: Service | None = None, **options: Any) -> Sender:
        """A sender from the client to a service of the server.

        :param service: left out, the only one.
        :param options: those of `Mercury.to`: ``key``, ``policy`` and so on.
        :raises ConfigurationError: as `Mercury.to`, and as `url`.
        """
        found = service or self._only()
        sender: Sender = self.client.to(self.url(found), **{"namespace": found.namespace, **options})
        return sender

    def run(self, within: float = 3600.0) -> None:
        """Carry on, and let time pass, until nothing waits: each message is acknowledged and was handled, each request
        is answered, or it is a dead letter.

        :param within: seconds of the pair's clock.
        :raises AssertionError: something still waits after that; the text says what, and what keeps it.
        """
        until, step = self.clock.now + within, LEAST_STEP
        self.wire.run()
        while waiting := self.waiting():
            due = self.wire.next_due()
            if due is None or max(due, self.clock.now) >= until:
                lines = "".join(f"\n  {line}" for line in waiting)
                raise AssertionError(f"after {within:g} s of the pair's clock there still wait{lines}")
            step = LEAST_STEP if due > self.clock.now else min(2 * step, LARGEST_STEP)
            self.clock.now = max(due, self.clock.now + step)
            self.wire.run()

    def advance(self, seconds: float) -> None:
        """Do what is left to do now, let time pass, and do what becomes due meanwhile, each at its time.

        :param seconds: 0 = only what is left to do now.
        """
        self.wire.advance(seconds)

    def waiting(self) -> list[str]:
        """What waits on either side; see `Node.waiting`. A node that is down counts: what it has stored waits."""
        return self.client.waiting() + self.server.waiting()

    def close(self) -> None:
        """Stop both nodes and close their stores. Only stores in databases need it."""
        self.client.stop()
        self.server.stop()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _only(self) -> Service:
        if len(self._services) != 1:
            raise ConfigurationError(f"which service? The server has {len(self._services)}; name one")
        return self._services[0]


def _opened(store: str | StorageManager | None) -> StorageManager:
    if store is None:
        return MemoryStore()
    return open_store(store) if isinstance(store, str) else store


def _line(what: str, last_error: str | None) -> str:
    return f"{what} ({last_error})" if last_error else what
