"""Dependencies of an application's own FastAPI protect the endpoints that are included in it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request

from mercury import Mercury, Service
from mercury.engine.runtime.peers import TlsSettings
from mercury.service.serving import BackgroundServer
from mercury.settings import HttpSettings
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE
from tests.acceptance.test_endpoint import SOAP11, TYPES, Reply, create_sequence, read_reply


def check(authorization: str = Header(default="")) -> None:
    if authorization != "Bearer secret":
        raise HTTPException(401, "nobody knows you", {"WWW-Authenticate": "Bearer"})


GUARD = [Depends(check)]


def included(mercury: Mercury, service: Service) -> FastAPI:
    app = FastAPI(lifespan=mercury.lifespan)
    app.include_router(mercury.router(service), prefix="/api", dependencies=GUARD)
    return app


def of_all(mercury: Mercury, service: Service) -> FastAPI:
    app = FastAPI(lifespan=mercury.lifespan, dependencies=GUARD)
    app.include_router(mercury.router(service), prefix="/api")
    return app


def nested(mercury: Mercury, service: Service) -> FastAPI:
    app = FastAPI(lifespan=mercury.lifespan)
    outer = APIRouter(prefix="/api", dependencies=GUARD)
    outer.include_router(mercury.router(service))
    app.include_router(outer)
    return app


@contextlib.contextmanager
def serving(app: FastAPI) -> Iterator[tuple[str, int]]:
    server = BackgroundServer("127.0.0.1", 0, TlsSettings())
    server.start(app, HttpSettings())
    try:
        host, port = server.url.removeprefix("http://").split(":")
        yield host, int(port)
    finally:
        server.stop()


def desk() -> Service:
    service = Service("desk")

    @service.operation
    def note(what: Note) -> None: ...

    return service


def post(address: tuple[str, int], body: bytes, *headers: str, path: str = "desk", length: int | None = None) -> Reply:
    lines = [
        f"POST /api/services/{path} HTTP/1.1" if path == "desk" else f"POST /api{path} HTTP/1.1",
        "Host: x",
        f"Content-Type: {TYPES[SOAP11]}",
        f"Content-Length: {len(body) if length is None else length}",
        *headers,
    ]
    with socket.create_connection(address, PATIENCE) as peer:
        peer.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return read_reply(peer)


@pytest.mark.parametrize("make", [included, of_all, nested])
def test_dependency_refuses_a_message_before_its_body_is_read(make: object) -> None:
    assert callable(make)
    message = create_sequence(SOAP11, "urn:m:one")
    with serving(make(Mercury("memory:"), desk())) as address:
        for path in ("desk", "/mercury/responses"):
            refused = post(address, b"", path=path, length=10_000)  # the body is never sent
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert b"nobody knows you" in refused.body
        assert post(address, message, "Authorization: Bearer guessed").status == 401
        taken = post(address, message, "Authorization: Bearer secret")
        assert (taken.status, b"CreateSequenceResponse" in taken.body) == (200, True)


def test_dependency_may_read_the_body() -> None:
    seen: list[bytes] = []

    async def signed(request: Request) -> None:
        seen.append(await request.body())

    mercury = Mercury("memory:")
    app = FastAPI(lifespan=mercury.lifespan)
    app.include_router(mercury.router(desk()), prefix="/api", dependencies=[Depends(signed)])
    message = create_sequence(SOAP11, "urn:m:one")
    with serving(app) as address:
        taken = post(address, message)
    assert (taken.status, b"CreateSequenceResponse" in taken.body) == (200, True)
    assert seen == [message]
