"""The FastAPI application around the endpoints: which requests bypass FastAPI, and that middleware sees all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import Depends, FastAPI, HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from mercury.service.endpoint import Endpoint
from mercury.service.host import SoapApplication, SoapRouter, application


class Quick(Endpoint):
    """Notes of each request whether it came through a router."""

    def __init__(self) -> None:
        self.routed: list[bool] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.routed.append("router" in scope)
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Guard:
    """A middleware of a user's, which refuses every request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def nothing(_app: FastAPI) -> AsyncIterator[None]:
    yield


@pytest.fixture
def endpoint() -> Quick:
    return Quick()


@pytest.fixture
def app(endpoint: Quick) -> SoapApplication:
    router = SoapRouter()
    router.add("/services/x", endpoint)

    @router.get("/healthz")
    def healthz() -> str:
        return "ok"

    made = application("Test", [router], nothing)
    assert isinstance(made, SoapApplication)
    return made


def status(app: ASGIApp, method: str, path: str) -> int:
    """The status of the answer to a request without a body."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: MutableMapping[str, Any]) -> None:
        sent.append(event)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"", "root_path": ""}
    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


def test_an_endpoint_is_reached_straight(app: SoapApplication, endpoint: Quick) -> None:
    assert status(app, "POST", "/services/x") == 202
    assert endpoint.routed == [False], "no router has seen it"


def test_everything_else_is_fastapis(app: SoapApplication, endpoint: Quick) -> None:
    assert status(app, "GET", "/healthz") == 200
    assert status(app, "GET", "/services/y") == 404
    assert endpoint.routed == []


def test_a_middleware_that_is_added_sees_every_request(app: SoapApplication, endpoint: Quick) -> None:
    app.add_middleware(Guard)
    assert status(app, "POST", "/services/x") == 401
    assert status(app, "GET", "/healthz") == 401
    assert endpoint.routed == []


def test_mounted_in_another_application_it_is_reached_through_that(app: SoapApplication, endpoint: Quick) -> None:
    outer = FastAPI()
    outer.mount("/soap", app)
    assert status(outer, "POST", "/soap/services/x") == 202
    assert len(endpoint.routed) == 1


def refuse() -> None:
    raise HTTPException(403)


def test_a_dependency_that_is_added_late_is_not_gone_around(app: SoapApplication, endpoint: Quick) -> None:
    app.router.dependencies.append(Depends(refuse))
    status(app, "POST", "/services/x")
    assert endpoint.routed in ([], [True]), "FastAPI decides whether it holds for routes that are there already"
