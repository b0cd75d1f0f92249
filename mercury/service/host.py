"""The FastAPI part: routers for endpoints, health and status, and a complete application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType
from typing import Any, Protocol

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from mercury.engine.membership import MemberState
from mercury.engine.status import SequenceStatus
from mercury.errors import StorageError
from mercury.service import paths
from mercury.service.definition import Service
from mercury.service.endpoint import Endpoint, Host
from mercury.service.status_access import Access, access, masked
from mercury.service.store_query import StoreQuery

log = logging.getLogger("mercury")

#: HTTP methods that are routed to a SOAP endpoint; it answers all but POST with 405.
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
#: Seconds that a request for health or status waits for the store.
TIMEOUT = 3.0
#: The text for clients when the store fails; the store's own error text goes to the log only.
NO_ANSWER = "the store does not answer"

#: The attribute of a route's function that holds the route's endpoint.
_ENDPOINT = "soap_endpoint"

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

REFUSALS = MappingProxyType(
    {
        Access.INVALID: "the Host header names no host",
        Access.UNAUTHORIZED: "the token of http.status_token is needed: Authorization: Bearer TOKEN",
        Access.FORBIDDEN: "the status is for this machine only",
    }
)


class StatusSource(Protocol):
    """Source of the data for ``/healthz``, ``/readyz`` and the status of sequences."""

    def readiness(self) -> dict[str, str]:
        """Each part's name and its error; ``ok`` = the part works."""

    def member(self) -> dict[str, object]:
        """Role, state and epoch of the process as a member of its store; empty = every process on the store serves."""

    def ended_threads(self) -> list[str]:
        """The names of threads that have ended although they should run; does not block."""

    def lateness(self) -> list[str]:
        """A sentence for each reason why work waits: the store fails, or something waits longer than the settings
        ``watch`` allow; empty = none does."""

    def metrics(self) -> dict[str, float]:
        """Figures for monitoring. None of them makes the process not ready."""

    def sequences(self) -> list[SequenceStatus]:
        """The status of all sequences in the store.

        :raises StorageError: the store fails.
        """

    @property
    def status_token(self) -> str | None:
        """The bearer token for the status; ``None`` = requests from this machine get it, with masked identifiers."""


class Exchange(Response):
    """The response of a route: the endpoint handles the request when FastAPI sends this response.

    :param request: the request object that FastAPI passed to the route's dependencies. If one of them has read the
        body, the endpoint gets that body again.
    """

    def __init__(self, endpoint: Endpoint, request: Request) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if getattr(self._request, "_stream_consumed", False):
            body = await self._request.body()

            async def receive_again() -> Message:
                return {"type": "http.request", "body": body, "more_body": False}

            receive = receive_again
        await self._endpoint(scope, receive, send)
        if self.background is not None:
            await self.background()


class SoapRouter(APIRouter):
    """SOAP endpoints as FastAPI routes, so that FastAPI's dependencies protect them.

    FastAPI runs the dependencies before the body is read; one that raises refuses the request.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The endpoints by path.
        self.endpoints: dict[str, Endpoint] = {}

    def add(self, path: str, endpoint: Endpoint) -> None:
        """Route every HTTP method of a path to an endpoint, which answers 405 to all but POST."""

        async def exchange(request: Request) -> Response:
            return Exchange(endpoint, request)

        self.endpoints[path] = endpoint
        exchange.__dict__[_ENDPOINT] = endpoint
        self.add_api_route(path, exchange, methods=list(METHODS), response_model=None, include_in_schema=False)


def soap_endpoints(routes: Iterable[object]) -> list[Endpoint]:
    """The SOAP endpoints among some routes, in routers that are included and applications that are mounted too."""
    found: list[Endpoint] = []
    for route in routes:
        endpoint = getattr(getattr(route, "endpoint", None), _ENDPOINT, None)
        if isinstance(endpoint, Endpoint):
            found.append(endpoint)
        # FastAPI copies the routes of a router that is included, or refers to it.
        for inner in (getattr(route, "app", None), getattr(route, "original_router", None)):
            found += soap_endpoints(getattr(inner, "routes", ()))
    return found


def hosts_of(app: object) -> list[Host]:
    """The processes whose endpoints an ASGI application has, each once, in the order of the routes."""
    found: list[Host] = []
    for endpoint in soap_endpoints(getattr(app, "routes", ())):
        if endpoint.host not in found:
            found.append(endpoint.host)
    return found


def takes_attachments(app: object) -> bool:
    """Whether a SOAP endpoint of an ASGI application takes attachments.

    A middleware around the application is looked through if it has the application in its attribute ``app``, as those
    of Starlette and uvicorn do.
    """
    while not hasattr(app, "routes") and hasattr(app, "app"):
        app = app.app
    return any(endpoint.takes_attachments for endpoint in soap_endpoints(getattr(app, "routes", ())))


def service_router(host: Host, services: Iterable[Service]) -> SoapRouter:
    """A router with an endpoint for each service, and one for the responses to this process's own requests."""
    router = SoapRouter()
    for service in services:
        router.add(
            f"{paths.SERVICES}/{service.name}",
            Endpoint(host, service.name, takes_attachments=service.takes_attachments),
        )
    router.add(paths.RESPONSES, Endpoint(host, None))
    return router


class Health:
    """Whether a process can accept messages: the content of ``/readyz``.

    ``/readyz`` is open to everyone, so the store's error text is left out of it. The text is logged, once until the
    store works again.
    """

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._logged = False

    def check(self) -> tuple[int, dict[str, object]]:
        """The HTTP status and the JSON body. Reads the store, and so may block."""
        parts = self._source.readiness()
        store_error = parts["store"]
        if store_error != "ok":
            parts["store"] = NO_ANSWER
            if not self._logged:
                log.warning("not ready: %s", store_error)
        self._logged = store_error != "ok"
        ready = all(state == "ok" for state in parts.values())
        late = self._source.lateness() if ready else []
        member = self._source.member()
        standby = member.get("member") == MemberState.STANDBY.value and parts["store"] == "ok"
        state = "degraded" if late else "ok" if ready else "standby" if standby else "not ready"
        status: dict[str, object] = {"status": state, **parts, **member}
        status |= self._source.metrics()
        if late:
            status["degraded"] = late  # the HTTP status stays 200: the process accepts messages
        return (200 if ready else 503), status


def status_router(source: StatusSource, timeout: float = TIMEOUT) -> APIRouter:
    """Routes for health and status.

    - ``/healthz``: 200 while the process runs; 503 when one of its threads has ended unexpectedly, so that a liveness
      probe restarts the process.
    - ``/readyz``: 200 while the process can accept messages, otherwise 503 with the reasons. The status is
      ``degraded``, with 200, when something waits longer than the settings ``watch`` allow; ``standby``, with 503, of
      a member that is not the active one.
    - the status of all sequences: with ``http.status_token`` set, complete for requests that carry the token; without
      it, with masked identifiers, for direct requests from this machine. 503 with the reason while the store fails.

    :param timeout: seconds that a request waits for the store; after that the answer is 503.
    """
    router = APIRouter()
    health = StoreQuery("mercury-health", Health(source).check, timeout)
    found = StoreQuery("mercury-status", source.sequences, timeout)

    # The queries do not use the server's thread pool: a store that does not answer would block all of its threads,
    # and the process would wait for them when it ends.

    @router.get("/healthz")
    async def healthz() -> JSONResponse:
        ended = source.ended_threads()
        if ended:
            return JSONResponse({"status": "failed", "ended threads": ended}, 503)
        return JSONResponse({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        try:
            code, status = await health.answer()
        except TimeoutError:
            return JSONResponse({"status": "not ready", "store": NO_ANSWER}, 503)
        return JSONResponse(status, code)

    @router.get(f"{paths.STATUS}/sequences")
    async def sequences(request: Request) -> JSONResponse:
        client = request.client.host if request.client is not None else None
        granted = access(request.headers, client, source.status_token, request.scope.get("http_version", "1.1"))
        if granted in REFUSALS:
            return JSONResponse({"error": REFUSALS[granted]}, granted.value)
        try:
            statuses = await found.answer()
        except TimeoutError:
            return JSONResponse({"error": NO_ANSWER}, 503)
        except StorageError as error:
            return JSONResponse({"error": f"the store cannot be read now: {error}"}, 503)
        return JSONResponse(await asyncio.to_thread(_shown, statuses, granted))

    return router


def _shown(statuses: list[SequenceStatus], granted: Access) -> list[dict[str, object]]:
    if granted is Access.MASKED:
        statuses = masked(statuses)
    return [status.as_dict() for status in statuses]


class SoapApplication(FastAPI):
    """A FastAPI application that calls its SOAP endpoints directly, without FastAPI's routing.

    Routing costs as much time as Mercury's own part of a request. When the application has a middleware or a
    dependency, every request goes through FastAPI, so that they see it.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], **settings: Any) -> None:
        super().__init__(**settings)
        #: The SOAP endpoints by path.
        self._endpoints = endpoints

    def direct_endpoint(self, path: str) -> Endpoint | None:
        """The SOAP endpoint with a path; ``None`` = FastAPI routes the request."""
        if self.user_middleware or self.router.dependencies:
            return None
        return self._endpoints.get(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self.direct_endpoint(scope["path"]) if scope["type"] == "http" else None
        if endpoint is None:
            await super().__call__(scope, receive, send)
        else:
            await endpoint(scope, receive, send)


def application(
    title: str,
    routers: Iterable[APIRouter],
    lifespan: Lifespan,
) -> FastAPI:
    """A FastAPI application with these routers only: no documentation pages, no redirects."""
    routers = list(routers)
    endpoints: dict[str, Endpoint] = {}
    for router in routers:
        if isinstance(router, SoapRouter) and not router.dependencies:
            endpoints |= router.endpoints
    app = SoapApplication(endpoints, title=title, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.router.redirect_slashes = False  # a redirect would repeat the Host header, which a client can forge
    for router in routers:
        app.include_router(router)
    return app


def lifespan_of(start: Callable[[], None], stop: Callable[[], None]) -> Lifespan:
    """A lifespan that calls ``start`` and ``stop`` in a thread, because they block."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(start)
        try:
            yield
        finally:
            await asyncio.to_thread(stop)

    return lifespan
