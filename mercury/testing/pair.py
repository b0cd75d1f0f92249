"""A client and a server in one thread: two `Mercury`s, a wire between them, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from mercury.client.overview import waiting_by_key
from mercury.client.sender import Sender
from mercury.engine.addresses import AddressPolicy
from mercury.engine.endpoint_errors import TRIED_AGAIN
from mercury.engine.events import Side
from mercury.engine.exchange import Outgoing
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.threads import Runtime
from mercury.errors import ConfigurationError
from mercury.facade import Mercury
from mercury.service import paths
from mercury.service.definition import Service
from mercury.settings import Settings
from mercury.statemachine.messages import ANONYMOUS, is_polled
from mercury.statemachine.policy import SourcePolicy
from mercury.storage.api import StorageManager
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import Resources, open_store
from mercury.testing.clock import FakeClock
from mercury.testing.ids import CountedIds
from mercury.testing.process import Process
from mercury.testing.store import Crash, SimulatedStore
from mercury.testing.wire import Wire
from mercury.wire.envelope import HttpMessage

#: The host names in the URLs of the two nodes.
CLIENT, SERVER = "client", "server"
#: The shortest step of the clock, and the longest while due work has no effect, in seconds.
LEAST_STEP, LARGEST_STEP = 0.001, 1.0


class Node(Mercury):
    """A `Mercury` that works in the test's thread; made by `Pair`.

    It has all methods of `Mercury` except those that need a network (`listen`, `app`). ``store`` is a `SimulatedStore`,
    for example for ``node.store.crash_after()``.
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
            runtime=self._manual_runtime,
        )

    @property
    def crashes(self) -> int:
        """The number of crashes so far."""
        return self._process.crashes

    def crash(self) -> None:
        """End the process as a power failure would, and restart it at once.

        Committed state, services and callbacks remain. Open transactions are rolled back, and futures that wait for
        responses raise `SequenceFailed`. It may be called in a handler or callback, which it ends too.
        """
        if self.store.open:
            raise Crash("in a transaction")
        self._process.crash()

    def kill(self) -> None:
        """End the process as a power failure would. Until `restart`, connections to it are refused.

        It must not be called in a handler or callback; see `crash` for that.
        """
        self._process.stop()

    def restart(self) -> None:
        """Restart the process after `kill`."""
        self._process.start()

    def waiting(self) -> list[str]:
        """A line for each key and service with messages that wait, with the last error; empty = no message waits."""
        lines = []
        for key, count in waiting_by_key(self.store).items():
            if key.endpoint == ANONYMOUS or is_polled(key.endpoint):
                continue  # the peer fetches these responses, so they are listed there
            last_error = self.to(key.endpoint, key=key.name, listen=False).last_error
            lines.append(_line(f"{self._process.host}: {count} to {key.endpoint}, key {key.name}", last_error))
        for status in self.sequences():
            if status.side is Side.DESTINATION and status.waiting:
                where = f"for service {status.endpoint}" if status.endpoint else "of responses"
                lines.append(_line(f"{self._process.host}: {status.waiting} {where}", status.last_error))
        return lines

    def _manual_runtime(self, engine: Engine, *context: Any) -> Runtime:
        return _ManualRuntime(self._process, engine, *context)

    def _restart(self) -> None:
        self.futures.abandon("the process crashed")
        self._runtime = None
        self.start()


class _NodeProcess(Process):
    """The process of a `Node`."""

    def __init__(self, host: str, wire: Wire, node: Node) -> None:
        super().__init__(host, wire)
        self._node = node

    @property
    def polled_store(self) -> StorageManager:
        return self._node.store

    def start(self) -> None:
        self._node._restart()

    def begin(self, engine: Engine) -> None:
        """Use a new engine, after a start."""
        self.engine = engine
        self.up = True

    def stop(self) -> None:
        super().stop()
        # Stopping the engine releases its claims, so that the restarted process need not wait for their leases.
        self.engine.stop(self._wire.clock.now)

    def answered(self, outgoing: Outgoing, http: HttpMessage) -> None:
        self.engine.endpoint_errors.worked(outgoing.error_name, self._wire.clock.now)
        super().answered(outgoing, http)

    def failed(self, outgoing: Outgoing, error: str) -> None:
        name = outgoing.error_name
        self.engine.endpoint_errors.failed(name, f"{name}: {error}", self._wire.clock.now, again=TRIED_AGAIN)
        super().failed(outgoing, error)


class _ManualRuntime(Runtime):
    """A runtime whose threads are never started: the wire calls its process instead."""

    def __init__(self, process: _NodeProcess, engine: Engine, *context: Any) -> None:
        super().__init__(engine, *context)
        self._process = process
        self._of = engine

    def start(self) -> None:
        self._process.begin(self._of)

    def post(self, posts: list[Outgoing]) -> None:
        self._process.post(posts)

    def run_behind(self, call: Callable[[], None]) -> None:
        call()

    def stop(self, deadline: float) -> None:  # noqa: ARG002  no thread runs
        if self.running:
            self._process.stop()

    @property
    def running(self) -> bool:
        return self._process.up and self._process.engine is self._of


class Pair:
    """A client and a server in one thread, joined by a `Wire`.

    All work is done in `run` and `advance`, in the calling thread, and time passes only there. So each run of a test is
    the same, and an hour of retransmissions takes milliseconds.

    :param services: the server's services.
    :param client_services: the client's services, for servers that send messages too.
    :param listen: whether the client has an address for acknowledgements and responses; otherwise they come back in
        the HTTP replies to its own messages.
    :param settings: the settings of both nodes; by default the defaults, without batches, so that each message has its
        name on the wire. No file or environment variable is read.
    :param client_store: the client's store, or the URL of a new one that no other process uses; by default in memory.
    :param server_store: the server's store, likewise.
    :param client_resources: the databases of the client's two-phase commits, as for `Mercury`.
    :param server_resources: the server's, likewise.
    :param clock: by default a new one.
    :raises ConfigurationError: a service has no operation, or two have one name; a URL is not that of a store.
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
        given = settings or Settings(source=SourcePolicy(batch=1))
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

        :param service: the service or its name; by default the only one.
        :raises ConfigurationError: no service is given, and the server has several or none.
        """
        if service is None:
            service = self._only()
        name = service if isinstance(service, str) else service.name
        return f"http://{SERVER}{paths.SERVICES}/{name}"

    def to(self, service: Service | None = None, **options: Any) -> Sender:
        """A sender from the client to a service of the server.

        :param service: by default the only one.
        :param options: the options of `Mercury.to`: ``key``, ``policy`` and so on.
        :raises ConfigurationError: as by `Mercury.to` and by `url`.
        """
        found = service or self._only()
        sender: Sender = self.client.to(self.url(found), **{"namespace": found.namespace, **options})
        return sender

    def run(self, within: float = 3600.0) -> None:
        """Work, and let time pass, until no message waits: each is acknowledged and handled and, if it is a request,
        answered; or it is a dead letter.

        :param within: the longest time, in seconds of the pair's clock.
        :raises AssertionError: a message still waits after that; the text lists such messages with their last errors.
        """
        until, step = self.clock.now + within, LEAST_STEP
        self.wire.run()
        while waiting := self.waiting():
            due = self.wire.next_due()
            if due is None or max(due, self.clock.now) >= until:
                lines = "".join(f"\n  {line}" for line in waiting)
                raise AssertionError(f"after {within:g} s of the pair's clock these messages still wait:{lines}")
            step = LEAST_STEP if due > self.clock.now else min(2 * step, LARGEST_STEP)
            self.clock.now = max(due, self.clock.now + step)
            self.wire.run()

    def advance(self, seconds: float) -> None:
        """Do all work that is due, let time pass, and do work that becomes due meanwhile, each at its time.

        :param seconds: 0 = only the work that is due now.
        """
        self.wire.advance(seconds)

    def waiting(self) -> list[str]:
        """The messages that wait on both sides; see `Node.waiting`. Messages in the store of a node that is down
        count."""
        return self.client.waiting() + self.server.waiting()

    def close(self) -> None:
        """Stop both nodes and close their stores. It is needed only for stores in databases."""
        self.client.stop()
        self.server.stop()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _only(self) -> Service:
        if len(self._services) != 1:
            raise ConfigurationError(f"name a service: the server has {len(self._services)}")
        return self._services[0]


def _opened(store: str | StorageManager | None) -> StorageManager:
    if store is None:
        return MemoryStore()
    return open_store(store) if isinstance(store, str) else store


def _line(what: str, last_error: str | None) -> str:
    return f"{what} ({last_error})" if last_error else what
