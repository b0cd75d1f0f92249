"""FastAPI around the endpoints: routers, health, and a whole application for those who have none."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType
from typing import Any, Protocol

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from mercury.engine.status import SequenceStatus
from mercury.errors import StorageError
from mercury.service import paths
from mercury.service.definition import Service
from mercury.service.endpoint import Endpoint, Host
from mercury.service.status_access import Access, access, masked
from mercury.service.store_query import StoreQuery

log = logging.getLogger("mercury")

#: Those that a SOAP endpoint answers, all but one with 405.
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
#: Seconds that health and status wait for the store.
TIMEOUT = 3.0
#: What is answered when the store fails.
NO_ANSWER = "the store does not answer"

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

REFUSALS = MappingProxyType(
    {
        Access.INVALID: "the Host header is no host",
        Access.UNAUTHORIZED: "the token of http.status_token is needed: Authorization: Bearer TOKEN",
        Access.FORBIDDEN: "the status is for this machine only",
    }
)


class StatusSource(Protocol):
    """What health and status need to know."""

    def readiness(self) -> dict[str, str]:
        """Each part and what is wrong with it; ``ok`` where nothing is."""

    def lateness(self) -> list[str]:
        """What waits for longer than it should; nothing = all is well."""

    def metrics(self) -> dict[str, float]:
        """What an operator watches, and what does not make the process unfit by itself."""

    def sequences(self) -> list[SequenceStatus]:
        """All sequences that are remembered."""

    @property
    def status_token(self) -> str | None:
        """What has to be known to see the status; ``None`` = this machine may see a part of it."""


class Exchange(Response):
    """What a route answers with: the whole exchange, by the endpoint itself.

    :param request: as FastAPI has given it to the dependencies of the route, one of which may have read its body.
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
    """SOAP endpoints as routes of FastAPI's: whatever is included with dependencies is protected by them.

    They are solved before the body is read, and one that raises answers the request.
    """

    def __init__(self) -> None:
        super().__init__()
        #: By their paths.
        self.endpoints: dict[str, Endpoint] = {}

    def add(self, path: str, endpoint: Endpoint) -> None:
        """Put an endpoint at a path, for every method: it says itself that messages are posted."""

        async def exchange(request: Request) -> Response:
            return Exchange(endpoint, request)

        self.endpoints[path] = endpoint
        self.add_api_route(path, exchange, methods=list(METHODS), response_model=None, include_in_schema=False)


def service_router(host: Host, services: Iterable[Service]) -> SoapRouter:
    """The endpoints of services, and the one for responses to this process's own requests."""
    router = SoapRouter()
    for service in services:
        router.add(f"{paths.SERVICES}/{service.name}", Endpoint(host, service.name))
    router.add(paths.RESPONSES, Endpoint(host, None))
    return router


class Health:
    """Whether a process can take messages, as ``/readyz`` says it to everybody: without what the store has answered.

    That is for the log, once until it is ready again.
    """

    def __init__(self, watched: StatusSource) -> None:
        self._watched = watched
        self._told = False

    def check(self) -> tuple[int, dict[str, object]]:
        """The HTTP status and what is said with it; it asks the store."""
        parts = self._watched.readiness()
        trouble = parts["store"]
        if trouble != "ok":
            parts["store"] = NO_ANSWER
            if not self._told:
                log.warning("not ready: %s", trouble)
        self._told = trouble != "ok"
        ready = all(state == "ok" for state in parts.values())
        late = self._watched.lateness() if ready else []
        status: dict[str, object] = {"status": "degraded" if late else "ok" if ready else "not ready", **parts}
        status |= self._watched.metrics()
        if late:
            status["degraded"] = late  # it can take messages all the same
        return (200 if ready else 503), status


def status_router(watched: StatusSource, patience: float = TIMEOUT) -> APIRouter:
    """``/healthz``: the process lives. ``/readyz``: it can take messages; 503 with the reasons when it cannot.

    Its status is ``degraded``, with 200, when something waits for longer than the settings ``watch`` allow.

    The status of all sequences is given to this machine only, not through a proxy that can be recognised, and with
    masked identifiers; when ``http.status_token`` is set, whole to those who send it. While the store fails it is 503
    with the reason.

    :param patience: seconds that a request waits for the store; then it is answered with 503.
    """
    router = APIRouter()
    health = StoreQuery("mercury-health", Health(watched).check, patience)
    found = StoreQuery("mercury-status", watched.sequences, patience)

    # None of these is in a thread of the server's pool: a store that does not answer would take them all, and the
    # process would wait for them at its end.

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

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
        granted = access(request.headers, client, watched.status_token, request.scope.get("http_version", "1.1"))
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
    return [dataclasses.asdict(status) for status in statuses]


class SoapApplication(FastAPI):
    """FastAPI, whose SOAP endpoints are reached without the layers around its routes.

    Those layers cost as much as Mercury's own part in a request. As soon as a middleware or a dependency is added, it
    sees every request: then everything goes the long way.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], **settings: Any) -> None:
        super().__init__(**settings)
        #: The SOAP endpoints by their paths.
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        straight = scope["type"] == "http" and not self.user_middleware and not self.router.dependencies
        endpoint = self._endpoints.get(scope["path"]) if straight else None
        if endpoint is None:
            await super().__call__(scope, receive, send)
        else:
            await endpoint(scope, receive, send)


def application(
    title: str,
    routers: Iterable[APIRouter],
    lifespan: Lifespan,
) -> FastAPI:
    """A FastAPI application that is nothing but these routers."""
    routers = list(routers)
    endpoints: dict[str, Endpoint] = {}
    for router in routers:
        if isinstance(router, SoapRouter) and not router.dependencies:
            endpoints |= router.endpoints
    app = SoapApplication(endpoints, title=title, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.router.redirect_slashes = False  # a redirect would name the host that the request names
    for router in routers:
        app.include_router(router)
    return app


def lifespan_of(start: Callable[[], None], stop: Callable[[], None]) -> Lifespan:
    """A lifespan that starts and stops something synchronous, outside the event loop's thread."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(start)
        try:
            yield
        finally:
            await asyncio.to_thread(stop)

    return lifespan
