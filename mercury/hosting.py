"""The part of `Mercury` that hosts: services, their endpoints, health and status."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mercury.client.overview import Watch
from mercury.engine.registry import Registry
from mercury.engine.runtime.announcing import Announcing
from mercury.errors import ConfigurationError
from mercury.service.definition import Service
from mercury.settings import Settings, store_name
from mercury.staging import Staging
from mercury.storage.api import StorageManager

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from mercury.console.users import ConsoleAccess
    from mercury.engine.message_security import SecurityParties
    from mercury.service.endpoint import Host
    from mercury.service.publishing import Documents
    from mercury.service.serving import BackgroundServer
    from mercury.storage.xa.coordinator import Coordinator
    from mercury.telemetry.metrics import Metrics


class Hosting:
    """The part of `Mercury` that hosts services."""

    settings: Settings
    watch: Watch
    store: StorageManager
    clock: Callable[[], float]
    coordinator: Coordinator | None
    _asked_for: str | StorageManager | None
    metrics: Metrics | None
    _staging: Staging | None
    _registry: Registry
    _security: SecurityParties
    _services: list[Service]
    _server: BackgroundServer | None
    _announcing: Announcing
    #: What ends before the store is closed.
    _at_stop: list[Callable[[], None]]

    def start(self) -> None:
        """Start to send, receive and invoke."""
        raise NotImplementedError

    def stop(self, deadline: float | None = None) -> None:
        """Stop in an orderly way."""
        raise NotImplementedError

    def _host(self) -> Host:
        """What endpoints need of the process."""
        raise NotImplementedError

    @property
    def services(self) -> tuple[Service, ...]:
        """The services that are hosted here, in the order in which they were added."""
        return tuple(self._services)

    def add_service(self, service: Service) -> None:
        """Host a service in this process.

        :raises ConfigurationError: it has no operation, its name is taken, or its messages cannot go through a stage.
        """
        if self._staging is not None:
            self._staging.check(service)
        service.register_with(self._registry)
        self._security.add_service(service.name, service.security)
        self._services.append(service)

    def router(self, *services: Service) -> APIRouter:
        """A FastAPI router with the endpoints of services and the one for responses; hosts the services.

        Without services, the router of those that `add_service` has added.
        """
        from mercury.service.host import service_router

        for service in services:
            self.add_service(service)
        return service_router(self._host(), services or self._services)

    def app(self, *services: Service) -> FastAPI:
        """A FastAPI application that hosts services and nothing else: endpoints, health and status, and the console
        at ``/console`` and the operator's API if the settings ``console.enabled`` and ``console.api`` say so."""
        from mercury.service.host import application

        routers = [self.router(*services), self.status_router()]
        if self.settings.console.enabled:
            routers.append(self.console_router())
        if self.settings.console.api:
            routers.append(self.operator_router())
        if self.metrics is not None:
            routers.append(self.metrics_router())
        return application("Mercury", routers, self.lifespan)

    def status_router(self) -> APIRouter:
        """A FastAPI router with ``/healthz``, ``/readyz`` and the status, for an application of one's own."""
        from mercury.service.host import status_router

        return status_router(self.watch)

    def console_router(self, path: str = "/console", *, access: ConsoleAccess | None = None) -> APIRouter:
        """A FastAPI router with the web console of this process's store (extra ``console``).

        Only this machine reaches it, unless the setting ``console.hosts`` names the host under which others do.

        :param path: where the console is, below the prefix of the application's own router.
        :param access: says who may use it, as a reader or an operator; left out, who has a token of the settings
            ``console.token`` or ``console.reader_token``.
        :raises ConfigurationError: no user could log in; the store is not in a database; or the extra is not installed.
        """
        from mercury.console.opening import console_of

        asked = self.settings.store if self._asked_for is None else self._asked_for
        console = console_of(
            self.store,
            store_name(asked) if isinstance(asked, str) else "of the program",
            self.settings.console,
            access=access,
            coordinator=lambda: self.coordinator,
            decision_log=self.settings.xa.decision_log,
            watch=self.settings.watch,
            clock=self.clock,
        )
        self._at_stop.append(console.close)
        return console.router(path)

    def operator_router(self) -> APIRouter:
        """A FastAPI router with ``/mercury/operate``, by which `mercury` commands with ``--at`` reach this process.

        It takes the tokens of the settings ``console.token`` and ``console.reader_token``. Only this machine reaches
        it, unless the setting ``console.hosts`` names the host under which others do.

        :raises ConfigurationError: neither token is set.
        """
        from mercury.console.operator_api import OperatorApi, calls_on, operator_router

        calls = calls_on(self.store, self.clock, self.settings.watch)
        return operator_router(OperatorApi(calls, self.settings.console, self.clock))

    def metrics_router(self) -> APIRouter:
        """A FastAPI router with ``/metrics`` for Prometheus; `app` has it if the setting ``metrics.enabled`` is true.

        Requests that may read the status of sequences get it (``http.status_token``).

        :raises ConfigurationError: ``metrics.enabled`` is false, or prometheus_client is not installed.
        """
        from mercury.service.metrics_router import metrics_router

        if self.metrics is None:
            raise ConfigurationError("metrics.enabled: it is false, so there are no metrics to serve")
        try:
            from mercury.telemetry import prometheus
        except ImportError as error:
            needed = "metrics.enabled: /metrics needs prometheus_client: install the extra 'metrics' of mercury-rm"
            raise ConfigurationError(needed) from error
        text = partial(prometheus.text, self.metrics)
        return metrics_router(text, prometheus.CONTENT_TYPE, self.settings.http.status_token)

    def lifespan(self, app: FastAPI) -> AbstractAsyncContextManager[None]:
        """The lifespan of a FastAPI application: starts with it, and stops with it in an orderly way.

        Meanwhile the process is announced, if the settings ``discovery`` say so.
        """
        from mercury.service.host import lifespan_of

        # An HTTP server has let its exchanges end before it says so here: half of the time is taken to be gone.
        deadline = self.settings.http.shutdown_deadline / 2
        return lifespan_of(self._start_hosting, partial(self.stop, deadline))(app)

    def _start_hosting(self) -> None:
        self.start()
        try:
            self._announcing.start()
        except BaseException:
            self.stop()
            raise

    def listen(self, *services: Service, host: str = "127.0.0.1", port: int = 0) -> str:
        """Serve in a thread of this process and start: for clients that listen, and for small servers.

        :param host: the interface; it is also the host in ``address`` unless the settings have one.
        :param port: 0 = any that is free.
        :returns: the URL it is reached at. `stop` ends it.
        :raises ConfigurationError: nothing can listen there.
        """
        from mercury.service.serving import BackgroundServer

        server = BackgroundServer(host, port, self.settings.tls)
        if self.settings.address is None:
            self.settings = replace(self.settings, address=server.url)
        server.start(self.app(*services), self.settings.http)
        self._server = server
        return server.url

    def documents(self, service: str) -> Documents:
        """The WSDL of a service that is hosted here, and its schemas, as its endpoint publishes them.

        :raises ConfigurationError: there is no such service, or two of its operations have elements of the same name
            and of different classes.
        """
        from mercury.service.publishing import documents_of

        found = next((each for each in self._services if each.name == service), None)
        if found is None:
            raise ConfigurationError(f"no service is named {service!r}")
        return documents_of(found, self.settings, self._security.settings_of(service))
