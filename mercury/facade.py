"""`Mercury`: the parts put together for one process."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mercury.client import overview
from mercury.client.asynchronous import Threads
from mercury.client.current import CurrentTransaction
from mercury.client.dead_letters import DeadLetters
from mercury.client.error_listener import Observable
from mercury.client.futures import Futures
from mercury.client.sender_port import SenderPort
from mercury.engine.addresses import AddressPolicy
from mercury.engine.events import DeadLettered
from mercury.engine.ids import Ids, RandomIds
from mercury.engine.members import Members
from mercury.engine.membership import MemberRole, MemberStatus
from mercury.engine.observers import Observer
from mercury.engine.registry import Registry
from mercury.engine.runtime.announcing import Announcing
from mercury.engine.runtime.core import Engine
from mercury.engine.runtime.lease import ActiveLease
from mercury.engine.runtime.peers import Peer, Peers
from mercury.engine.runtime.retention import RetentionWorker
from mercury.engine.runtime.security_settings import parties_of
from mercury.engine.runtime.threads import Runtime, RuntimeSettings
from mercury.engine.runtime.transport import ConcurrentTransport, HttpTransport, Transport
from mercury.engine.settings import EngineSettings
from mercury.errors import ConfigurationError, MercuryError
from mercury.hosting import Hosting
from mercury.outgoing import Outgoing
from mercury.service.bodies import Bodies
from mercury.service.definition import Service, read_callback
from mercury.service.paths import responses_url
from mercury.settings import Settings, check_address, store_in_use
from mercury.settings import load as load_settings
from mercury.staging import staging_of
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.opening import Resources, given_store, name_resources
from mercury.storage.records import OutboundMessage
from mercury.store_access import StoreAccess, refuse_beside_active_member
from mercury.telemetry.metrics import Metrics
from mercury.telemetry.otel import export
from mercury.telemetry.process import metrics_of, traces_of
from mercury.wire.scan import Limits

if TYPE_CHECKING:
    from mercury.service.endpoint import Host
    from mercury.service.identity import Authenticate
    from mercury.service.serving import BackgroundServer
    from mercury.storage.xa.coordinator import Coordinator

log = logging.getLogger("mercury")

Function = TypeVar("Function", bound=Callable[..., Any])


class Mercury(Observable, Outgoing, Hosting, StoreAccess):
    """Reliable messages for one process: the client's side, the server's side, or both.

    :param store: the store's URL: ``sqlite:///FILE``, ``postgresql+psycopg://...``, or ``memory:`` for messages that
        live as long as the process; left out, the settings'. The log says at the start which one is in use.
    :param stage: a file, ``sqlite:///FILE``, that takes and acknowledges the messages to services in front of the
        store, also while that is away; they are moved to the store in batches. Left out, the settings'.
    :param resources: databases that may take part in transactions, URLs or SQLAlchemy engines by the names that
        ``tx.connection(name)`` and ``tx.session(name)`` know them by. Each is the store's own database, or one of
        PostgreSQL that takes part by two-phase commit; recovery must know them before anything runs.
    :param decision_log: the URL of the database that keeps the decisions of two-phase commits; left out, the settings'.
    :param address: where peers reach this process, ``http://host:port``; left out, nothing is posted here, and
        acknowledgements and responses come back on the connections of requests.
    :param allow: addresses that peers may name for acknowledgements, responses and faults, as URL prefixes; see
        `AddressPolicy`. Nothing is allowed unless it is listed.
    :param authenticate: says who sends an HTTP request; the sequences that are made under an identity are its own.
        Left out, it is the name in the client's TLS certificate, if there is one. See `mercury.Authenticate`.
    :param peers: certificates, headers and identities by the URLs that peers are reached at (prefixes); see `Peer`.
    :param observers: are called with all events: see `subscribe`.
    :param settings: left out, environment variables over ``mercury.toml`` over defaults.
    :raises ConfigurationError: a setting or a parameter is wrong.
    :raises CapabilityError: the store, or a database of ``resources``, cannot take part in a two-phase commit.
    :raises StorageError: the store cannot be opened.

    Register services and callbacks first; then use it as a context manager, by `start` and `stop`, or by `lifespan`.
    """

    def __init__(
        self,
        store: str | StorageManager | None = None,
        *,
        stage: str | StorageManager | None = None,
        resources: Resources | None = None,
        decision_log: str | None = None,
        address: str | None = None,
        allow: Iterable[str] | None = None,
        peers: Mapping[str, Peer] | None = None,
        authenticate: Authenticate | None = None,
        observers: Iterable[Observer] = (),
        settings: Settings | None = None,
        transport: Transport | ConcurrentTransport | None = None,
        ids: Ids | None = None,
        clock: Callable[[], float] = time.time,
        runtime: Callable[..., Runtime] = Runtime,
    ) -> None:
        super().__init__(observers)
        settings = settings or load_settings()
        address = settings.address if address is None else address
        if address is not None:
            settings = replace(settings, address=check_address(address))
        if allow is not None:
            engine = replace(settings.engine, addresses=AddressPolicy(tuple(allow)))
            settings = replace(settings, engine=engine)
        self.settings = settings
        self.ids: Ids = ids or RandomIds()
        self.clock = clock
        self.authenticate = authenticate
        self._asked_for = store
        self.store: StorageManager = given_store(settings.store if store is None else store, settings.store_wait)
        self._staging = staging_of(stage, self.store, settings)
        resources = settings.xa.named() if resources is None else resources
        self.coordinator = self._named(resources, decision_log or settings.xa.decision_log) if resources else None
        #: What health and status show of this process.
        self.watch = overview.Watch(
            self.store,
            clock,
            self._runs,
            self._ended_threads,
            self.coordinator,
            settings.watch,
            settings.http.status_token,
            self._member,
            self._staging,
            lambda: self._runtime is not None and self._runtime.store_fails,
        )
        #: What this process counts and measures; ``None`` = the setting ``metrics.enabled`` is false.
        self.metrics = self._measured(settings)
        #: Its spans; ``None`` = ``traces.enabled`` is false, or the API of OpenTelemetry is not installed.
        self.traces = traces_of(settings.traces, settings.metrics.destinations)
        self._dead_letters = DeadLetters(self.store, clock)
        self.futures = Futures(self.ids.new())
        self.observers.subscribe(self.futures.dead_lettered, DeadLettered)
        self.threads = Threads()
        #: Whose block callers are in: handlers are in that of the transaction that consumes their message.
        self.current = CurrentTransaction(self.futures.transaction_ended)
        self._registry = Registry(default_policy=settings.destination, inside=self.current.inside)
        self._registry.add_callback(self.futures.callback_name, self.futures.callback())
        self._services: list[Service] = []
        http, limit = settings.http, settings.engine.limits.max_bytes
        self.bodies = Bodies(limit, http, settings.engine.limits.largest)
        known, others = settings.credentials.added_to(peers or {}, settings.tls.others), settings.tls.others
        self.peers = Peers(settings.security.added_to(known, others, peers or {}), others, settings.failover)
        #: The processes that clients may use; ``None`` = they are not named.
        self.members = Members(settings.failover) if settings.failover.public_address is not None else None
        self._announcing = Announcing(settings.discovery, settings.failover.public_address, self.ids.new)
        self._security = parties_of(self.peers, settings.security, clock, self.ids.new, responses_url(settings.address))
        self._given_transport = transport
        self._make_runtime = runtime
        self._runtime: Runtime | None = None
        #: ``None`` = every process on the store serves.
        self._lease: ActiveLease | None = None
        self._server: BackgroundServer | None = None
        self._at_stop = []
        self._mutex = threading.Lock()
        self._stopped = self._logged_not_running = False

    def _named(self, resources: Resources, decision_log: str | None) -> Coordinator:
        xa, wait = self.settings.xa, self.settings.store_wait
        try:
            named = name_resources(
                self.store, resources, decision_log=decision_log, lease=xa.lease, interval=xa.interval, wait=wait
            )
        except BaseException:
            self.store.close()
            raise
        named.recovery.on_in_doubt = self.emit_in_doubt
        return named

    def _measured(self, settings: Settings) -> Metrics | None:
        if not settings.metrics.enabled:
            return None
        parts = (self.observers, self.watch, settings.metrics, settings.engine, self.clock)
        return metrics_of(self.store, self.ids.new(), *parts)

    # --- sending ---------------------------------------------------------------------------------------------------

    def callback(self, name: str) -> Callable[[Function], Function]:
        """Register a function that consumes responses, under a name that outlives the process; a decorator.

        :raises ConfigurationError: the name is taken, or the function's types say nothing that can be read.
        """

        def register(function: Function) -> Function:
            self._registry.add_callback(name, read_callback(function))
            return function

        return register

    # --- running ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to send, receive and invoke. Started twice is started once.

        Where the setting ``role`` is ``active-standby``, it does so while it is the active member.

        :raises CapabilityError: a database of ``resources`` cannot take part in a two-phase commit.
        :raises ConfigurationError: the role is ``active-standby``, and the store cannot be shared by processes; or it
            is not, and another process on the store is its active member.
        :raises MercuryError: it was stopped before: make a new one.
        """
        with self._mutex:
            if self._stopped:
                raise MercuryError("this Mercury was stopped; make a new one")
            if self._runtime is not None or self._lease is not None:
                return
            standby = self.settings.role is MemberRole.ACTIVE_STANDBY
            if standby and not self.store.capabilities.shared:
                raise ConfigurationError("role: active-standby needs a store that several processes share")
            if self.metrics is not None:
                export(self.metrics)
            self._security.log_unused()
            if not standby:
                refuse_beside_active_member(self.store, self.clock())
                self._start_runtime(self.settings.engine)
                return
            if self.coordinator is not None:
                self.coordinator.start()  # a prepared transaction of a member that died may hold the lock of the lease
            parts = (self.store, self.ids.new, self.settings.role_lease, self.clock, self._serve, self._cease)
            self._lease = ActiveLease(*parts)
        self._lease.start()

    def _serve(self) -> None:
        """Start to send, receive and invoke: this member is active now."""
        engine = self.settings.engine
        with self._mutex:
            if not self._stopped and self._runtime is None:
                # No claim of a member that has died outlives its lease.
                self._start_runtime(replace(engine, lease=min(engine.lease, self.settings.role_lease)))

    def _cease(self) -> None:
        """Stop to send, receive and invoke: another member is active, so nothing that is open can be committed."""
        with self._mutex:
            runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.stop(0.0)

    def _start_runtime(self, settings: EngineSettings) -> None:
        make = partial(
            Engine,
            application=self._registry,
            observers=self.observers,
            ids=self.ids,
            security=self._security,
            measurements=self.metrics.recorder if self.metrics is not None else None,
            addresses=self.peers.addresses,
            tracing=self.traces,
        )
        # The sequences behind a stage are at this process alone.
        members = self.members if self._staging is None else None
        engine = make(store=self.store, settings=settings, store_id=self.store.id, members=members)
        if self.coordinator is not None:
            self.coordinator.start(engine.outages)  # what was left in doubt holds locks: before anything is served
        self._runtime = self._run(engine, self.store, self.settings.runtime)
        if self._staging is not None:
            self._staging.start(make, self._run)
        log.info("started with the store %s", store_in_use(self._asked_for, self.settings.store))

    def _run(self, engine: Engine, store: StorageManager, threads: RuntimeSettings) -> Runtime:
        retention = RetentionWorker(store, self.settings.retention, self.clock())
        transport = self._given_transport or self._http_transport()
        runtime = self._make_runtime(engine, store, transport, threads, self.clock, retention)
        runtime.start()
        return runtime

    def _http_transport(self) -> HttpTransport:
        return HttpTransport(self.settings.http.timeout, self.settings.engine.limits.max_bytes, self.peers)

    def stop(self, deadline: float | None = None) -> None:
        """Stop in an orderly way: what is being done is finished, nothing new is begun.

        Nothing is lost that is in a durable store; what ends with another store is counted in the log.

        :param deadline: seconds to wait at most; left out, the settings'.
        """
        self._announcing.stop()
        with self._mutex:
            server, self._server = self._server, None
        if server is not None:
            server.stop()
        with self._mutex:
            runtime, self._runtime = self._runtime, None
            lease, self._lease = self._lease, None
            stopped, self._stopped = self._stopped, True
        deadline = self.settings.http.shutdown_deadline if deadline is None else deadline
        if self._staging is not None:
            self._staging.stop(deadline)
        if runtime is not None:
            runtime.stop(deadline)
        if lease is not None:
            lease.stop()  # afterwards: what is open still commits under it
        if stopped:
            return
        self.threads.stop()
        self.futures.abandon("no response will come to this future: Mercury was stopped")
        for end in self._at_stop:
            end()
        if not self.store.capabilities.durable:
            overview.log_losses(self.store)
        if self.metrics is not None:
            self.metrics.stop()
        self.store.close()
        if self._staging is not None:
            self._staging.close()

    def __enter__(self) -> Mercury:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Mercury:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    def _runs(self) -> bool:
        return all(each is not None and each.running for each in (self.running_runtime, self.runtime_for("")))

    def _member(self) -> MemberStatus | None:
        return self._lease.status if self._lease is not None else None

    def _ended_threads(self) -> list[str]:
        runtime = self._runtime
        return runtime.ended_threads if runtime is not None else []

    @property
    def running_runtime(self) -> Runtime | None:
        """The threads, while they run."""
        return self._runtime

    def runtime_for(self, service: str | None) -> Runtime | None:
        return self._runtime if self._staging is None or service is None else self._staging.runtime

    @property
    def why_not_running(self) -> str | None:
        """Why nothing is sent or received, and what to do about it; ``None`` = it is."""
        if self._runtime is not None:
            return None
        if self._lease is not None:
            return overview.STANDING_BY
        return "this Mercury was stopped: make a new one" if self._stopped else overview.NOT_STARTED

    def log_not_running(self) -> None:
        """Log, for the first message that is refused because the threads do not run, how to start them."""
        with self._mutex:
            logged, self._logged_not_running = self._logged_not_running, True
            if logged or self._stopped or self._lease is not None:
                return
        log.error("messages come in and are answered with HTTP status 503, because %s. %s", *overview.UNSTARTED)

    def last_error(self, url: str) -> str | None:
        """Why the last exchange with an endpoint got no answer in the protocol's terms; ``None`` when it did.

        What the endpoint answers, a fault for example, is not among them: see `Sender.last_error`, which knows both.
        """
        runtime = self._runtime
        return runtime.endpoint_errors.get(url) if runtime is not None else None

    # --- what the parts ask ----------------------------------------------------------------------------------------

    def surroundings(self) -> SenderPort:
        return self

    def _host(self) -> Host:
        return self

    def sending(self, tx: Transaction, message: OutboundMessage) -> None:
        if self.metrics is not None:
            tx.after_commit(partial(self.metrics.recorder.sent, message.channel.endpoint))
        if self.traces is not None:
            self.traces.sending(tx.after_commit, message)

    def send_in(self, tx: Transaction) -> None:
        runtime = self._runtime
        if runtime is not None:
            runtime.send_in(tx)

    def has_callback(self, name: str) -> bool:
        return self._registry.callback(name) is not None

    @property
    def max_outbound_backlog(self) -> int:
        return self.settings.engine.max_outbound_backlog

    @property
    def limits(self) -> Limits:
        return self.settings.engine.limits

    @property
    def address(self) -> str | None:
        return self.settings.address

    @property
    def back_channel_wait(self) -> float:
        return self.settings.http.back_channel_wait

    @property
    def response_wait(self) -> float:
        return self.settings.http.response_wait
