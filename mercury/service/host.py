"""FastAPI around the endpoints: routers, health, and a whole application for those who have none."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType
from typing import Any, Protocol

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mercury.client.status import SequenceStatus
from mercury.errors import StorageError
from mercury.service import paths
from mercury.service.definition import Service
from mercury.service.endpoint import Endpoint, Host
from mercury.service.status_access import Access, access, masked

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

REFUSALS = MappingProxyType(
    {
        Access.INVALID: "the Host header is no host",
        Access.UNAUTHORIZED: "the token of http.status_token is needed: Authorization: Bearer TOKEN",
        Access.FORBIDDEN: "the status is for this machine only",
    }
)


class Watched(Protocol):
    """What health and status need to know."""

    def readiness(self) -> dict[str, str]:
        """Each part and what is wrong with it; ``ok`` where nothing is."""

    def lateness(self) -> list[str]:
        """What waits for longer than it should; nothing = all is well."""

    def figures(self) -> dict[str, float]:
        """What an operator watches, and what does not make the process unfit by itself."""

    def sequences(self) -> list[SequenceStatus]:
        """All sequences that are remembered."""

    @property
    def status_token(self) -> str | None:
        """What has to be known to see the status; ``None`` = this machine may see a part of it."""


def service_router(host: Host, services: Iterable[Service]) -> APIRouter:
    """The endpoints of services, and the one for responses to this process's own requests."""
    router = APIRouter()
    for service in services:
        router.routes.append(Route(f"{paths.SERVICES}/{service.name}", Endpoint(host, service.name)))
    router.routes.append(Route(paths.RESPONSES, Endpoint(host, None)))
    return router


def watch_router(watched: Watched) -> APIRouter:
    """``/healthz``: the process lives. ``/readyz``: it can take messages; 503 with the reasons when it can not.

    Its status is ``degraded``, with 200, when something waits for longer than the settings ``watch`` allow.

    The status of all sequences is given to this machine only, asked directly and not through a proxy, and with masked
    identifiers; when ``http.status_token`` is set, to whoever has it, whole. While the store fails it is 503 with the
    reason.
    """
    router = APIRouter()

    @router.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz")
    def readyz() -> JSONResponse:
        parts = watched.readiness()
        ready = all(state == "ok" for state in parts.values())
        late = watched.lateness() if ready else []
        status: dict[str, object] = {"status": "degraded" if late else "ok" if ready else "not ready", **parts}
        status |= watched.figures()
        if late:
            status["degraded"] = late  # it can take messages all the same
        return JSONResponse(status, 200 if ready else 503)

    @router.get(f"{paths.STATUS}/sequences")
    def sequences(request: Request) -> JSONResponse:
        client = request.client.host if request.client is not None else None
        granted = access(request.headers, client, watched.status_token)
        if granted in REFUSALS:
            return JSONResponse({"error": REFUSALS[granted]}, granted.value)
        try:
            found = watched.sequences()
        except StorageError as error:
            return JSONResponse({"error": f"the store can not be read now: {error}"}, 503)
        if granted is Access.MASKED:
            found = masked(found)
        return JSONResponse([dataclasses.asdict(status) for status in found])

    return router


class SoapApplication(FastAPI):
    """FastAPI, whose SOAP endpoints are reached without the layers around its routes.

    Those layers cost as much as Mercury's own part in a request. As soon as a middleware is added, it sees every
    request: then everything goes the long way.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], **settings: Any) -> None:
        super().__init__(**settings)
        #: The SOAP endpoints by their paths.
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        straight = scope["type"] == "http" and not self.user_middleware
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
    routes = [route for router in routers for route in router.routes if isinstance(route, Route)]
    endpoints = {route.path: route.endpoint for route in routes if isinstance(route.endpoint, Endpoint)}
    app = SoapApplication(endpoints, title=title, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
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
